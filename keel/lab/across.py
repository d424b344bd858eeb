"""The board across the chapters: the same cases, fired at the line as it was built up to each of them."""

from __future__ import annotations

from collections.abc import Sequence

from .catalogue import words
from .gauntlet import Verdict, run_gauntlet
from .lines import line
from .plots import INK, Picture, Sheet

_SIDE = 11


def boards_across(chapters: Sequence[str]) -> Picture:
    """One row of squares a chapter: green where the line of that chapter is right, red where it is not.

    All cases are fired for each, so that this takes a second or two a chapter. Raises ValueError for a
    chapter that is not built.
    """
    boards = {chapter: run_gauntlet(line(upto=chapter)) for chapter in chapters}
    most = max(map(len, boards.values()), default=0)
    sheet, lines = Sheet(150 + _SIDE * most, 24 + 22 * len(boards)), []
    for at, (chapter, outcomes) in enumerate(boards.items()):
        right = [one.verdict is Verdict.RIGHT for one in outcomes]
        down, told = 14 + 22 * at, words("trace.across.right", right=sum(right), all=len(right))
        sheet.text(12, down + 10, chapter, 12, INK, bold=True)
        for number, held in enumerate(right):
            sheet.box(48 + _SIDE * number, down, _SIDE - 2, _SIDE, "#2e9e5b" if held else "#b42335")
        sheet.text(56 + _SIDE * most, down + 10, told, 12)
        lines.append(f"{chapter:<4}{''.join('■' if held else '□' for held in right)}  {told}")
    return sheet.picture(words("trace.across.title"), "\n".join(lines))

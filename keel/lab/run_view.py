"""A run as a picture: what goes to the model in each turn, and how much of the budget is left."""

from __future__ import annotations

from collections.abc import Sequence

from .catalogue import words
from .plots import INK, Picture, Sheet


def run_picture(sizes: Sequence[int], budget: int) -> Picture:
    """One bar a turn: `sizes` are the characters of the conversation before each; `budget` is in turns.

    Raises ValueError for a negative size or no budget.
    """
    if budget < 1 or any(size < 0 for size in sizes):
        raise ValueError("sizes are characters, and the budget is at least one turn")
    most, lines = max([1, *sizes]), []
    sheet = Sheet(640, 40 + 26 * len(sizes))
    for at, size in enumerate(sizes):
        label, left = (
            words("plots.run.turn", number=at + 1),
            words("plots.run.left", left=budget - at - 1, budget=budget),
        )
        told = words("plots.run.size", characters=size)
        down = 24 + 26 * at
        sheet.text(16, down + 12, label)
        sheet.box(80, down, max(2, 220 * size / most), 16, "#2563eb")
        sheet.text(88 + 220 * size / most, down + 12, told, ink=INK)
        sheet.text(624, down + 12, left, align="right")
        lines.append(f"{label:<8} {'▇' * round(30 * size / most):<30}  {told:<18} {left}".rstrip())
    return sheet.picture(words("plots.run.title"), "\n".join(lines))

"""The board: how the gauntlet's cases ended, grouped by chapter, as text, as a picture and as a widget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from itertools import groupby
from typing import Any

from .catalogue import words
from .chapters import position
from .display import show_widget, widgets_on
from .gauntlet import Outcome, Verdict, score

_MARKS = {Verdict.RIGHT: "✓", Verdict.NOT_BUILT: "·"}
# Each verdict has a mark beside its colour: not everybody sees red and green.
_COLOURS = {
    Verdict.RIGHT: "#2a9d5c",
    Verdict.WRONG: "#d1495b",
    Verdict.CRASHED: "#b23a48",
    Verdict.DAMAGE: "#8f1d2c",
    Verdict.HUNG: "#c77d2e",
    Verdict.NOT_BUILT: "#b8bec7",
}


def board_text(outcomes: Sequence[Outcome], upto: str | None = None) -> str:
    """The board as text: a row a case, and a closing line that counts.

    With `upto`, rows that a chapter up to that one has taught, and that are red all the same, say so.
    """
    if not outcomes:
        return words("gauntlet.board.nothing")
    lines = []
    for chapter, group in groupby(outcomes, key=lambda one: one.chapter):
        lines.append(words("gauntlet.board.chapter", chapter=chapter))
        lines += [_row(one, upto) for one in group]
    return "\n".join([*lines, totals(outcomes, upto)])


def totals(outcomes: Sequence[Outcome], upto: str | None = None) -> str:
    """The closing line: how many are right, not built yet, and red though taught."""
    right, built = score(outcomes)
    grey, red = len(outcomes) - built, sum(_lost(one, upto) for one in outcomes)
    line = words("gauntlet.board.total", right=right, built=built)
    if grey:
        line += words("gauntlet.board.waiting", grey=grey)
    return line + (words("gauntlet.board.lost", red=red) if red else "") + "."


def detail(one: Outcome) -> str:
    """What was expected of one case, what came, and what the world shows where that matters."""
    if one.verdict in (Verdict.RIGHT, Verdict.NOT_BUILT):
        return ""
    if one.verdict is Verdict.DAMAGE:
        return words("gauntlet.board.damage", got=one.got, world=one.world)
    if one.verdict is Verdict.HUNG:
        return words("gauntlet.board.no_answer", expected=one.expected)
    key = "gauntlet.board.crash" if one.verdict is Verdict.CRASHED else "gauntlet.board.detail"
    return words(key, expected=one.expected, got=one.got)


def _row(one: Outcome, upto: str | None) -> str:
    tail = detail(one)
    taught = f" ({words('gauntlet.board.taught')})" if _lost(one, upto) else ""
    verdict = words(f"gauntlet.verdict.{one.verdict.name.lower()}")
    row = f"  {_MARKS.get(one.verdict, '✗')} {title(one):<36} {verdict}"
    return row + (f": {tail}" if tail else "") + taught


def title(one: Outcome) -> str:
    """A case in plain words."""
    return words(f"gauntlet.row.{one.case}")


def _lost(one: Outcome, upto: str | None) -> bool:
    taught = upto is not None and position(one.chapter) <= position(upto)
    return taught and one.verdict not in (Verdict.RIGHT, Verdict.NOT_BUILT)


class BoardPicture:
    """Boards above one another as squares, so that two of them compare at a glance. Shows itself in a notebook."""

    def __init__(self, boards: Mapping[str, Sequence[Outcome]]):
        self.boards = dict(boards)

    def __repr__(self) -> str:
        return "\n".join(f"{name}: {''.join(map(_mark, board))}" for name, board in self.boards.items())

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"image/svg+xml": self.svg(), "text/plain": repr(self)}

    def svg(self) -> str:
        """The picture: no script, no date, no random id, so that it is the same on every run."""
        side, left, top = 22, 150, 34
        widest = max((len(board) for board in self.boards.values()), default=0)
        parts = [_heads(next(iter(self.boards.values()), ()), left, side)]
        for line, (name, board) in enumerate(self.boards.items()):
            y = top + line * (side + 8)
            parts.append(f'<text x="8" y="{y + 15}" font-size="13" fill="currentColor">{escape(name)}</text>')
            parts += [_square(one, left + at * side, y, side - 3) for at, one in enumerate(board)]
        width, height = left + widest * side + 8, top + len(self.boards) * (side + 8) + 4
        label = escape(words("gauntlet.board.picture"))
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" role="img" font-family="sans-serif"><title>{label}</title>'
            f'<rect width="{width}" height="{height}" rx="6" fill="#ffffff" color="#1f2933"/>'
            f'<g color="#1f2933">{"".join(parts)}</g></svg>'
        )


def _mark(one: Outcome) -> str:
    return _MARKS.get(one.verdict, "✗")


def _heads(board: Sequence[Outcome], left: int, side: int) -> str:
    """The chapters' numbers, each above its first square."""
    heads = []
    for at, one in enumerate(board):
        if at == 0 or board[at - 1].chapter != one.chapter:
            heads.append(
                f'<text x="{left + at * side}" y="22" font-size="12" fill="currentColor">{escape(one.chapter)}</text>'
            )
    return "".join(heads)


def _square(one: Outcome, x: int, y: int, side: int) -> str:
    tip = escape(f"{title(one)}: {words(f'gauntlet.verdict.{one.verdict.name.lower()}')}")
    ink = "#1f2933" if one.verdict is Verdict.NOT_BUILT else "#fff"
    return (
        f'<g><title>{tip}</title><rect x="{x}" y="{y}" width="{side}" height="{side}" rx="3" '
        f'fill="{_COLOURS[one.verdict]}"/><text x="{x + side / 2}" y="{y + 14}" font-size="12" fill="{ink}" '
        f'text-anchor="middle">{_mark(one)}</text></g>'
    )


def gauntlet_board(outcomes: Sequence[Outcome], upto: str | None = None) -> None:
    """Print the board, and show it as a widget in which each row can be opened."""
    text = board_text(outcomes, upto)
    print(text)
    if outcomes and widgets_on():
        show_widget(board_widget(outcomes), text.splitlines()[-1])


# Radio buttons of the page itself: they walk by arrow keys, mark what has the focus, and need no kernel. JupyterLab
# takes arrow keys for itself, in a list of ipywidgets too, unless what has the focus bears the attribute below.
_KEEPS_ITS_KEYS = 'data-lm-suppress-shortcuts="true"'
_BOARD = (
    '<div class="keel-board">{style}'
    '<div class="keel-board-rows" role="radiogroup" aria-label="{label}">{rows}</div></div>'
)
_BOARD_STYLE = (
    "<style>.keel-board{position:relative;min-height:17em;max-width:960px;line-height:1.5}"
    ".keel-board-rows{width:24em;height:16em;overflow-y:auto;border:1px solid #8a8f98;padding:2px}"
    ".keel-board-row{display:flex;white-space:nowrap}"
    ".keel-board-row label{flex:1;padding:0 6px;cursor:pointer}"
    ".keel-board-row input{margin:3px;accent-color:#2563eb}"
    ".keel-board-row input:checked+label{background-color:rgba(37,99,235,0.2)}"
    ".keel-board-row input:focus-visible+label{outline:2px solid #2563eb;outline-offset:-2px}"
    ".keel-board-card{display:none;position:absolute;top:0;left:26em;right:0;white-space:normal}"
    ".keel-board-row input:checked~.keel-board-card{display:block}</style>"
)


def board_widget(outcomes: Sequence[Outcome]) -> Any:
    """A list to walk through with the arrow keys, and what happened in the chosen row beside it."""
    import ipywidgets

    board = ipywidgets.HTML()
    board.value = board_html(outcomes, f"keel-board-{board.model_id}")
    return board


def board_html(outcomes: Sequence[Outcome], name: str) -> str:
    """The list and its cards. `name` belongs to this board alone: a page holds several."""
    rows = "".join(_row_html(one, name, at) for at, one in enumerate(outcomes))
    return _BOARD.format(style=_BOARD_STYLE, label=escape(words("gauntlet.board.pick")), rows=rows)


def _row_html(one: Outcome, name: str, at: int) -> str:
    own, chosen = f"{name}-{at}", " checked" if at == 0 else ""
    button = f'<input type="radio" name="{name}" id="{own}" aria-describedby="{own}-card" {_KEEPS_ITS_KEYS}{chosen}>'
    label = f'<label for="{own}">{_mark(one)} {one.chapter}&ensp;{escape(title(one))}</label>'
    card = f'<div class="keel-board-card" id="{own}-card">{_card(one)}</div>'
    return f'<div class="keel-board-row">{button}{label}{card}</div>'


def _card(one: Outcome) -> str:
    """What happened. The colour is a bar beside the words: as a colour of words it is too dark or too pale to read."""
    verdict = f"{_mark(one)} {words(f'gauntlet.verdict.{one.verdict.name.lower()}')}"
    bar = f"border-left:6px solid {_COLOURS[one.verdict]};padding-left:8px"
    return f'<b>{escape(title(one))}</b><div style="{bar}">{escape(verdict)}</div>{escape(detail(one))}'


def the_two_boards() -> BoardPicture:
    """The picture of the README: the one line that most people write first, and what is built so far."""
    from .gauntlet import run_gauntlet
    from .lines import finished, naive

    return BoardPicture({"one line": run_gauntlet(naive), "keel": run_gauntlet(finished)})


if __name__ == "__main__":  # python -m keel.lab.board > docs/boards.svg
    print(the_two_boards().svg())

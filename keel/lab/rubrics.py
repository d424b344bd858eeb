"""The rubric of chapter 14: fire the attack set at somebody's own `page_on_call`, and say what held."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from html import escape
from typing import Any

from .attacks import ATTACKS, Attack
from .catalogue import words
from .exercises.guarding import try_case
from .exercises.model import Case
from .gauntlet import code_of
from .post import AddPage, Post

LIMIT_S = 10.0  # for one attack: far more than it takes


@dataclass(frozen=True)
class Row:
    """How one attack ended. `pages` are the incidents that somebody was woken for, `answer` the last code.

    `broke` says what went wrong in the learner's code, where something did.
    """

    attack: str
    held: bool
    pages: tuple[str, ...] = ()
    answer: str = ""
    broke: str = ""

    @property
    def name(self) -> str:
        """The attack in plain words."""
        return words(f"attacks.row.{self.attack}")

    @property
    def verdict(self) -> str:
        """The verdict in a word."""
        return words("attacks.held") if self.held else words("attacks.broken")

    @property
    def evidence(self) -> str:
        """What the pager shows, and what was answered last; or why there is nothing to see."""
        if self.broke:
            return words(f"attacks.reason.{self.broke}") if self.broke in _REASONS else self.broke
        counted = Counter(self.pages).items()
        pages = ", ".join(one if times == 1 else f"{times} × {one}" for one, times in counted) or words(
            "attacks.no_page"
        )
        return words("attacks.evidence", pages=pages, answer=self.answer)


_REASONS = ("hung", "never_works")


class Rubric:
    """The whole table: `results` as plain data, and itself as text and as HTML."""

    def __init__(self, rows: list[Row]):
        self.rows = rows

    @property
    def results(self) -> dict[str, bool]:
        """Whether the guard held, by the attack's name."""
        return {row.attack: row.held for row in self.rows}

    @property
    def total(self) -> str:
        """The closing line."""
        return words("attacks.total", held=sum(row.held for row in self.rows), all=len(self.rows))

    def __repr__(self) -> str:
        wide = max((len(row.name) for row in self.rows), default=0)
        lines = [f"{_mark(row)} {row.name:<{wide}}  {row.verdict:<6}  {row.evidence}" for row in self.rows]
        return "\n".join([*lines, self.total])

    def _repr_html_(self) -> str:
        rows = "".join(_row_html(row) for row in self.rows)
        return f'<table style="{_TABLE}">{rows}</table><p>{escape(self.total, quote=False)}</p>'


_TABLE = "border-collapse:collapse;text-align:left"
_CELL = "text-align:left;padding:2px 12px 2px 8px"
_EDGES = {True: "#2a9d5c", False: "#d1495b"}  # a bar beside the mark: not everybody sees red and green


def _mark(row: Row) -> str:
    return "✓" if row.held else "✗"


def _row_html(row: Row) -> str:
    name, evidence = escape(row.name, quote=False), escape(row.evidence, quote=False)
    first = f'<th scope="row" style="{_CELL};border-left:6px solid {_EDGES[row.held]};font-weight:normal">'
    rest = "".join(f'<td style="{_CELL}">{text}</td>' for text in (f"{_mark(row)} {row.verdict}", evidence))
    return f"<tr>{first}{name}</th>{rest}</tr>"


def rubric(add_page: AddPage) -> Rubric:
    """Fire every attack at the tool that `add_page(registry, world, pager)` registers, through a whole harness.

    Each has a world of its own. Raises nothing that `add_page` could cause. Right by accident does not
    count: where an honest page is not sent, nothing has held.
    """
    honest, *attacks = ATTACKS.values()
    first = fire(honest, add_page)
    if first.held:
        return Rubric([first, *(fire(one, add_page) for one in attacks)])
    return Rubric([first, *(Row(one.name, held=False, broke="never_works") for one in attacks)])


def fire(attack: Attack, add_page: AddPage) -> Row:
    """Fire one attack."""
    posts: list[Post] = []

    def run(add_page: AddPage) -> Any:
        posts.append(Post(add_page, on_disk=attack.on_disk))
        return attack.script(posts[0])

    trial = try_case(Case(attack.name, "", run, True), add_page, LIMIT_S)
    if posts:
        posts[0].close()
    if trial.hung or trial.crash:
        return Row(attack.name, held=False, broke="hung" if trial.hung else trial.crash.kind)
    last = posts[0].heard[-1:]
    return Row(attack.name, trial.got is True, tuple(posts[0].pages), "".join(map(code_of, last)))

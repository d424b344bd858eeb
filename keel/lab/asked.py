"""What a person is shown of a call that waits for them: laid out so that nothing in it can hide, move or pass for more.

`question_card` is all of it, as data; `question_text` the same as text.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from itertools import groupby
from unicodedata import bidirectional, category, east_asian_width

from keel.canonical import canonical
from keel.questions import Question, visible

from .catalogue import words

_LINE, _LABEL = 76, 11  # columns of a line as printed, and of the names of its facts
_LONG, HEAD = 400, 150  # characters: from here on a value is folded, and so many of them stand outside the fold
_Facts = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Argument:
    """One argument as it would run, as canonical JSON in which everything can be seen. `holds`: its characters."""

    text: str
    holds: int

    @property
    def long(self) -> bool:
        return len(self.text) > _LONG


@dataclass(frozen=True)
class QuestionCard:
    """What a person has to see of one question, before they say yes to it."""

    id: str
    heading: str
    facts: _Facts
    arguments: tuple[Argument, ...]
    terms: _Facts

    @property
    def text(self) -> str:
        """All of it, nothing folded."""
        return self.printed(whole=True)

    def printed(self, whole: bool = False) -> str:
        """As printed. An argument begins with `|` and goes on after `:`, so that no value can pass for another line."""
        lines = [*_pieces(self.heading, "", ": "), *_fact_lines(self.facts)]
        lines.append(f"  {words('approval_desk.field.arguments')}")
        for one in self.arguments:
            shown = one.text if whole or not one.long else one.text[:HEAD]
            lines += _pieces(shown, "    | ", "    : ")
            if shown is not one.text:
                lines.append(f"      ({words('approval_desk.folded', number=f'{one.holds:,}', id=self.id)})")
        if not self.arguments:
            lines.append(f"    {words('approval_desk.no_arguments')}")
        return "\n".join([*lines, *_fact_lines(self.terms)])


def question_card(question: Question, now: float) -> QuestionCard:
    """The card of a question, at this time of the desk's clock."""
    binding, permission = question.binding, plain(question.permission)
    who = plain(binding.principal)
    once = words("approval_desk.value.asked.one")
    asked = once if question.times == 1 else words("approval_desk.value.asked.more", times=question.times)
    anyone = words("approval_desk.value.decides.anyone", permission=permission)
    other = words("approval_desk.value.decides.other", permission=permission, who=who)
    return QuestionCard(
        plain(question.id),
        words("approval_desk.heading", id=plain(question.id), tool=plain(binding.tool), version=plain(binding.version)),
        ((words("approval_desk.field.who"), who), (words("approval_desk.field.key"), plain(binding.key))),
        _arguments(question.arguments),
        (
            (words("approval_desk.field.asked"), asked),
            (
                words("approval_desk.field.until"),
                words("approval_desk.value.until", minutes=minutes_left(question, now)),
            ),
            (words("approval_desk.field.decides"), other if question.four_eyes else anyone),
            (words("approval_desk.field.yes"), words("approval_desk.value.yes")),
        ),
    )


def question_text(question: Question, now: float) -> str:
    """All that a person needs to see of a question, as text."""
    return question_card(question, now).text


def minutes_left(question: Question, now: float) -> int:
    """Within how many minutes it expires, the last begun one included."""
    return max(0, math.ceil((question.expires_at - now) / 60))


def plain(text: str, alone: bool = False) -> str:
    """The text with everything as \\uXXXX that cannot be seen, or that moves or covers what stands beside it.

    Letters that run from right to left stay only in a text `alone`, without any that run the other way.
    """
    text = visible(text)
    if text.isascii():
        return text
    ways = {one: bidirectional(one) for one in set(text)}
    if not (alone and {"L", "EN", "AN"}.isdisjoint(ways.values())):
        text = text.translate({ord(one): _code(one) for one, way in ways.items() if way in ("R", "AL", "AN")})
    marks = "".join(one for one in ways if category(one) in ("Mn", "Me"))
    return re.sub(f"([^{marks}]?)([{marks}]+)", _few_marks, text) if marks else text


def _few_marks(found: re.Match[str]) -> str:
    """Two marks on a letter are a script's; more of them, or one on a quote, paint over what is around."""
    on, marks = found.groups()
    keep = 2 if on and category(on)[0] in "LMN" else 0
    return on + marks[:keep] + "".join(map(_code, marks[keep:]))


def _code(one: str) -> str:
    return json.dumps(one)[1:-1]


def _arguments(text: str) -> tuple[Argument, ...]:
    """The arguments one by one; as they stand in the ledger, where they are not what a harness writes there."""
    try:
        values = json.loads(text)
        parts = [(canonical(name), canonical(value)) for name, value in values.items()]
        if "{" + ",".join(f"{name}:{value}" for name, value in parts) + "}" != text:
            raise ValueError(text)
    except (ValueError, TypeError, AttributeError, RecursionError):
        return (Argument(plain(text), len(text)),)
    lone = {name: isinstance(value, str) for name, value in values.items()}
    return tuple(
        Argument(f"{plain(name)}: {plain(value, lone[key])}", len(values[key]) if lone[key] else len(value))
        for key, (name, value) in zip(values, parts, strict=True)
    )


def _fact_lines(facts: _Facts) -> list[str]:
    return [line for name, value in facts for line in _pieces(value, f"  {name:<{_LABEL}}", f"  {':':<{_LABEL}}")]


def _pieces(text: str, first: str, rest: str) -> list[str]:
    """The text in lines of at most so many columns, cut wherever that is: nothing is dropped, not even a space."""
    if text.isascii():
        pieces = [text[at : at + _LINE] for at in range(0, len(text), _LINE)] or [""]
        return [f"{rest if at else first}{piece}" for at, piece in enumerate(pieces)]
    columns, used = [], 0
    for one in text:
        used += 2 if east_asian_width(one) in "WF" else 1
        columns.append(used // _LINE)
    pieces = ["".join(text[at] for at in places) for _, places in groupby(range(len(text)), columns.__getitem__)]
    return [f"{rest if at else first}{piece}" for at, piece in enumerate(pieces)]

"""The sabotage drill: the finished harness with one of its guards taken out, and which rows of the gauntlet notice."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from keel.approval import require_approval
from keel.authorization import check_permission, check_policies
from keel.harness import Harness
from keel.idempotency import claim, recall
from keel.output import check_output
from keel.rules import check_rules
from keel.validation import validate

from .board import title
from .catalogue import words
from .gauntlet import Make, Outcome, Subject, Verdict, run_gauntlet
from .lines import finished
from .plots import GREY, INK, Picture, Sheet
from .world import World


def _nothing(*arguments: Any) -> None:
    """A judge that has no objections."""


def _run_bare(tool: Any, values: dict[str, Any], context: Any, call: Any, claimed: Any) -> Any:
    """The body, with no clock beside it and nothing that catches what it raises."""
    return tool.call(values, context)


def _as_it_is(tool: Any, value: Any) -> Any:
    return value.model_dump() if hasattr(value, "model_dump") else value


# Each guard: the stage as the line has it, and what stands in for it when it is gone, which is what a program does
# whose author has not thought of the question.
_GUARDS: dict[str, tuple[Callable, Callable]] = {
    "permission": (check_permission, _nothing),
    "validate": (validate, lambda tool, arguments: arguments),
    "policies": (check_policies, _nothing),
    "recall": (recall, _nothing),
    "rules": (check_rules, _nothing),
    "approve": (require_approval, _nothing),
    "claim": (claim, _nothing),
    "run": (Harness._run, _run_bare),
    "output": (check_output, _as_it_is),
}
GUARDS = tuple(_GUARDS)


def without(guard: str) -> Make:
    """The finished harness with this guard taken out, for `run_gauntlet`. Raises ValueError for another name."""
    if guard not in _GUARDS:
        raise ValueError(f"there is no guard {guard!r} to take out; there are {', '.join(GUARDS)}")
    return partial(_sabotaged, guard=guard)


def _sabotaged(world: World, guard: str) -> Subject:
    return finished(world, change=partial(_take_out, guard=guard))


def _take_out(harness: Harness, guard: str) -> None:
    gone, stand_in = _GUARDS[guard]
    # There is no public way, and there should be none. A method stands in the line bound to its harness.
    harness._stages = tuple(stand_in if getattr(one, "__func__", one) is gone else one for one in harness._stages)


def sabotage(guards: Sequence[str] = GUARDS) -> dict[str, list[Outcome]]:
    """Take out one guard after the other, run the gauntlet each time, and keep the rows that are not right."""
    return {
        guard: [one for one in run_gauntlet(without(guard)) if one.verdict is not Verdict.RIGHT] for guard in guards
    }


def red_rows(outcomes: Sequence[Outcome]) -> list[str]:
    """The titles of these rows, to be printed."""
    return [title(one) for one in outcomes]


def sabotage_picture(found: Mapping[str, Sequence[Outcome]]) -> Picture:
    """Guards across, rows down: a red square where the row turned red. Rows that no guard turns are left out."""
    rows: dict[str, str] = {}
    for outcomes in found.values():
        rows |= {one.case: title(one) for one in outcomes}
    sheet, left = Sheet(320 + 74 * len(found), 70 + 20 * len(rows)), 300
    for at, (guard, outcomes) in enumerate(found.items()):
        across, red = left + 74 * at, {one.case for one in outcomes}
        sheet.text(across + 30, 24, guard, 12, INK, "center")
        sheet.text(across + 30, 42, str(len(red)), 12, GREY, "center")
        for down, case in enumerate(rows):
            fill = "#b42335" if case in red else "#eef1f5"
            sheet.box(across + 22, 52 + 20 * down, 15, 15, fill)
    for down, name in enumerate(rows.values()):
        sheet.text(16, 64 + 20 * down, name, 12)
    lines = [f"{guard:<11} {words('trace.sabotage.red', count=len(outcomes))}" for guard, outcomes in found.items()]
    return sheet.picture(words("trace.sabotage.title"), "\n".join(lines))

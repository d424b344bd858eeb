"""All calls of one turn: one answer each, in their order, whatever finishes first."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import Enum

from .contracts import ErrorCode, ToolCall, ToolError, ToolFailure, ToolResult
from .workers import Pool

WIDTH = 16  # how many reads run side by side


class Place(Enum):
    """Where a call of a turn may run: beside others, in the caller's thread, or with nothing beside it."""

    ASIDE = "aside"
    HERE = "here"
    ALONE = "alone"


Execute = Callable[[ToolCall], ToolResult]


def run_turn(
    turn: Sequence[ToolCall | ToolResult],
    place: Callable[[ToolCall], Place],
    execute: Execute,
    pool: Pool,
    cancel: threading.Event | None = None,
    version: Callable[[ToolCall], str | None] = lambda call: None,
) -> list[ToolResult]:
    """Execute the calls of a turn; what is a result already stays as it is.

    Once `cancel` is set, what has not begun is answered `cancelled`, with the tool's `version`.
    A call that is ALONE waits for all before it, and all after it wait for it. Results are kept by
    the call's place in the turn: two calls may carry the same id, and neither order nor name of
    what finishes says whose answer it is.
    """
    answers: dict[int, ToolResult] = {at: one for at, one in enumerate(turn) if isinstance(one, ToolResult)}

    def answer(at: int) -> None:
        gave_up = cancel is not None and cancel.is_set()
        answers[at] = _cancelled(turn[at], version(turn[at])) if gave_up else execute(turn[at])

    together: dict[Place, list[int]] = {Place.HERE: [], Place.ASIDE: []}
    for at, one in enumerate(turn):
        if at in answers:
            continue
        where = place(one)
        if where is not Place.ALONE:
            together[where].append(at)
            continue
        _side_by_side(together, answer, pool)
        answer(at)
    _side_by_side(together, answer, pool)
    return [answers[at] for at in range(len(turn))]


def _side_by_side(together: dict[Place, list[int]], answer: Callable[[int], None], pool: Pool) -> None:
    """Answer the calls that have come together, and forget them. The caller's thread takes its share."""
    waiting = deque(together[Place.ASIDE])
    here = list(together[Place.HERE])
    for places in together.values():
        places.clear()

    def take_turns() -> None:
        while True:
            try:
                at = waiting.popleft()
            except IndexError:
                return
            answer(at)

    jobs = []
    try:
        with suppress(ToolFailure):  # no worker to be had: this thread does them all, and each says so for itself
            for _ in range(min(len(waiting) - (not here), WIDTH)):
                jobs.append(pool.start(take_turns))
        for at in here:
            answer(at)
        take_turns()
        for job in jobs:
            job.wait(None)
    finally:
        waiting.clear()  # interrupted: what has not begun does not begin
    for job in jobs:
        if job.raised is not None:
            raise job.raised


def _cancelled(call: ToolCall, version: str | None) -> ToolResult:
    error = ToolError(code=ErrorCode.CANCELLED, message="The caller gave up before this call began. Nothing ran.")
    return ToolResult(call_id=call.call_id, tool_name=call.name, tool_version=version, ok=False, error=error)

"""The same proposals once more: what a model asked for in a trace, through another harness."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from .contracts import ExecutionContext, ToolRequest, ToolResult
from .harness import Harness
from .trace import ARGUMENTS, CUT, HIDDEN, REQUEST_NAME, REQUEST_PROBLEM, UNSHOWN, Event, calls_of


class Replayed(NamedTuple):
    """One proposal: what it was first answered in the trace, and what it is answered now. Codes, or "ok"."""

    call_id: str  # of the trace
    name: str | None
    before: str
    after: str

    @property
    def differs(self) -> bool:
        """Whether it came out differently."""
        return self.before != self.after


def replay(events: Iterable[Event], harness: Harness, context: ExecutionContext) -> list[Replayed]:
    """Put every proposal of a trace to a harness, turn by turn, and compare.

    **What passes runs.** Use a harness over a world that may be changed, and a fresh ledger: with the
    ledger of the trace the writes would be replayed from there, and nobody would be the wiser.

    The proposals are made for `context`, whoever made them then: the rights of a past principal are in no trace.
    The first answer counts, for nobody approves anything in between. Raises ValueError for a trace that
    was kept without content, and for a proposal of which something was hidden or cut.
    """
    answered = []
    for turn in list(_turns(list(events))):  # all are read before any runs
        results = harness.execute_many([request for _, _, request in turn], context)
        for (call_id, before, request), result in zip(turn, results, strict=True):
            answered.append(Replayed(call_id, request.name, before, _outcome(result)))
    return answered


def _turns(events: list[Event]) -> Iterator[list[tuple[str, str, ToolRequest]]]:
    """The requests of each turn, with their ids and first answers: what is read in one go was sent in one go."""
    first = {call_id: _first_answer(of_call) for call_id, of_call in calls_of(events).items()}
    turn: dict[str | None, list[tuple[str, str, ToolRequest]]] = {}  # by run: two of them may share a trace
    for event in events:
        if event.stage == "read" and event.call_id is not None:
            turn.setdefault(event.run_id, []).append((event.call_id, first[event.call_id], _request(event)))
        elif event.run_id in turn:
            yield turn.pop(event.run_id)
    yield from turn.values()


def _first_answer(events: list[Event]) -> str:
    for event in events:
        if event.stage == "answer" or (event.stage == "read" and event.failed):
            return event.outcome
    return "no answer"


def _request(event: Event) -> ToolRequest:
    """The request as the model sent it. Raises ValueError if the trace does not hold it whole."""
    if ARGUMENTS not in event.more or REQUEST_NAME not in event.more:
        raise ValueError("this trace holds no arguments: only one that was kept with content=True can be replayed")
    shown = {name: event.more.get(name) for name in (ARGUMENTS, REQUEST_NAME)}
    said = {name: _read(text) for name, text in shown.items()}
    ends = [one for one in said.values() if isinstance(one, str) and one.endswith((CUT, UNSHOWN))]
    if ends or any(HIDDEN in text for text in shown.values()):
        raise ValueError(f"of the request of call {event.call_id} something was hidden or cut: it cannot be replayed")
    return ToolRequest(name=said[REQUEST_NAME], arguments=said[ARGUMENTS], problem=event.more.get(REQUEST_PROBLEM))


def _read(text: Any) -> Any:
    try:
        return json.loads(text)
    except (ValueError, TypeError) as error:
        raise ValueError("an event of this trace is damaged: its content is no JSON") from error


def _outcome(result: ToolResult) -> str:
    return "ok" if result.ok else result.error.code

"""What became of the writes that nobody heard of again: ask the world, and let a person decide the rest."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic_core import to_json

from .adapters import printable
from .contracts import ExecutionContext, Principal, ToolFailure
from .ledger import UNSETTLED, Entry, Ledger, State
from .output import check_output
from .registry import DEFAULT_TIMEOUT_S, Tool, ToolRegistry
from .validation import validate
from .workers import Pool


@dataclass(frozen=True)
class Happened:
    """The world shows it. `data` is what the write would have given, if that can be told."""

    data: Any = None


@dataclass(frozen=True)
class NotHappened:
    """The world shows that it did not happen, and by now it cannot any more."""


@dataclass(frozen=True)
class CannotTell:
    """The world does not say. The entry stays unknown, and a person has to look."""

    why: str = ""


Answer = Happened | NotHappened | CannotTell


@dataclass(frozen=True)
class Settled:
    """One entry that was looked at: what it was, what it is now, and why."""

    entry: Entry = field(repr=False)
    before: State
    after: State
    why: str


def reconcile(
    ledger: Ledger, registry: ToolRegistry, pool: Pool, extra: Mapping[str, Any] | None = None
) -> list[Settled]:
    """Ask `check_status` of the tool about every write of which nobody knows, and settle what it can tell.

    Entries whose owner is still at work are left alone. `extra` is what the tools find in their
    context's `extra`. Raises LedgerUnavailable; a check that breaks, or takes longer than the tool
    itself may, tells nothing.
    """
    found = [entry for entry in ledger.entries(*UNSETTLED) if entry.state is not State.RUNNING or not entry.live]
    return [_look_into(ledger, registry, pool, entry, extra or {}) for entry in found]


def _look_into(ledger: Ledger, registry: ToolRegistry, pool: Pool, entry: Entry, extra: Mapping[str, Any]) -> Settled:
    if entry.state is State.CONFLICT:
        return Settled(entry, entry.state, entry.state, "two accounts of one write: a person has to decide")
    tool = registry.find(entry.tool)
    answer = _ask(pool, tool, entry, extra) if tool else CannotTell("there is no such tool any more")
    after, outcome, why = State.UNKNOWN, None, "the world cannot tell"
    if isinstance(answer, Happened):
        after, outcome, why = State.DONE, _outcome(tool, answer.data), "the world shows it"
    elif isinstance(answer, NotHappened) and _may_still_happen(entry):
        why = "not seen yet, but its body may still be running"
    elif isinstance(answer, NotHappened):
        after, why = State.FREE, "the world shows that it did not happen"
    elif isinstance(answer.why, str) and answer.why:
        why = printable(answer.why)
    if after is entry.state or not ledger.settle(entry, after, outcome, f"asked the world: {why}"):
        return Settled(entry, entry.state, entry.state, why)
    return Settled(entry, entry.state, after, why)


def _may_still_happen(entry: Entry) -> bool:
    return entry.live and not entry.returned


def _ask(pool: Pool, tool: Tool, entry: Entry, extra: Mapping[str, Any]) -> Answer:
    """What the tool's own check says; whatever else comes of it tells nothing."""
    if tool.check_status is None:
        return CannotTell("the tool has no check_status")
    try:
        context = _context(entry, extra)
        values = validate(tool, json.loads(entry.arguments))
        job = pool.start(lambda: tool.check_status(values, context))
    except ToolFailure as failure:
        return CannotTell(failure.error.message)
    except (ValueError, KeyError, TypeError):
        return CannotTell("its entry cannot be read")
    if not job.wait(tool.timeout_s or DEFAULT_TIMEOUT_S):
        return CannotTell("check_status took too long")
    if job.raised is not None:
        return CannotTell(f"check_status broke ({type(job.raised).__name__})")
    answer = job.returned
    if any(answer is kind for kind in (Happened, NotHappened, CannotTell)):
        answer = answer()
    return answer if isinstance(answer, Answer) else CannotTell("check_status gave no answer that it may give")


def _context(entry: Entry, extra: Mapping[str, Any]) -> ExecutionContext:
    """Who asked, in which run, as it was when the write began."""
    caller = json.loads(entry.caller)
    principal = Principal(id=caller["principal"], permissions=caller["permissions"], teams=caller["teams"])
    return ExecutionContext(
        principal=principal,
        run_id=caller["run_id"],
        call_id=entry.call_id,
        idempotency_key=entry.key,
        extra=dict(extra),
    )


def _outcome(tool: Tool, data: Any) -> str:
    """What a write that happened is kept as. Data that breaks the contract is kept as just that."""
    try:
        return to_json({"data": check_output(tool, data)}).decode()
    except ToolFailure as failure:
        return to_json({"error": failure.error}).decode()


def settle_by_hand(ledger: Ledger, tool: Tool | None, entry: Entry, answer: Answer, reason: str) -> bool:
    """A person's word on an entry: Happened or NotHappened, and why they know. False if it changed meanwhile.

    Raises ValueError for an entry that is settled already, for NotHappened while its body may still
    be running, for data that the tool could not have returned, for CannotTell, and for no reason.
    """
    if entry.state not in UNSETTLED:
        raise ValueError(f"this entry is settled already: {entry.state}")
    if not isinstance(answer, Happened | NotHappened):
        raise ValueError("settle with Happened(data) or NotHappened()")
    if not reason.strip():
        raise ValueError("say how you know: the reason is kept for whoever reads this later")
    if isinstance(answer, NotHappened):
        if _may_still_happen(entry):
            raise ValueError("its body may still be running: wait for it, or end its process first")
        return ledger.settle(entry, State.FREE, None, f"settled by hand: {printable(reason)}")
    try:
        data = answer.data if tool is None else check_output(tool, answer.data)
    except ToolFailure:
        raise ValueError(
            "this data is not what the tool returns: give Happened(data) with data as it would be"
        ) from None
    outcome = to_json({"data": data}).decode()
    return ledger.settle(entry, State.DONE, outcome, f"settled by hand: {printable(reason)}")

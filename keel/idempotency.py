"""Once, whatever is lost: a write runs under a key, and a ledger remembers what became of it.

A retry that finds its key settled gets the stored result. One that finds it open is told so and runs
nothing. How much a ledger can tell after a crash is in `keel.ledger`; who asks the world, in `keel.settling`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple
from uuid import uuid4

from pydantic_core import to_json

from .adapters import printable
from .canonical import canonical, digest_of
from .contracts import ErrorCode, ExecutionContext, ToolCall, ToolError, ToolFailure
from .ledger import Entry, Ledger, LedgerUnavailable, MemoryLedger, State, over
from .questions import Questions
from .registry import Tool
from .rules import ask, broken
from .workers import TookTooLong

__all__ = [
    "Action", "Entry", "Ledger", "LedgerUnavailable", "MemoryLedger", "State",
    "claim", "complete", "give_up", "name_action", "recall", "release", "stored_outcome", "unavailable",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name == "SqliteLedger":  # it loads sqlite3: paid for by who keeps a ledger on disk
        from .sqlite_ledger import SqliteLedger

        return SqliteLedger
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


# Codes after which a claimed write is known not to have begun.
_NOTHING_RAN = (ErrorCode.UNAVAILABLE, ErrorCode.BUDGET_EXCEEDED, ErrorCode.CANCELLED)


class Action(NamedTuple):
    """One write that is about to be tried: the key under which a ledger knows it, and what it would do."""

    key: str
    digest: str
    arguments: str  # canonical, defaults included: what a person is shown
    values: dict[str, Any]  # what would run
    tool: Tool
    context: ExecutionContext
    call: ToolCall

    def entry(self) -> Entry:
        """What a ledger is to keep of it, with a token of its own."""
        who = self.context.principal
        caller = {"principal": who.id, "permissions": sorted(who.permissions), "teams": sorted(who.teams)}
        return Entry(
            key=self.key,
            digest=self.digest,
            tool=self.tool.name,
            version=self.tool.version,
            arguments=to_json(self.call.arguments).decode(),
            caller=to_json(caller | {"run_id": self.context.run_id}).decode(),
            call_id=self.call.call_id,
            token=uuid4().hex,
        )


def name_action(
    ledger: Ledger | None, tool: Tool, values: dict[str, Any], context: ExecutionContext, call: ToolCall
) -> Action | None:
    """Under which key this call runs, and the digest of its arguments. None for a read that nobody need agree to.

    The key is the tool's business key, else run id and call id; scoped by tool and principal,
    unless the tool's action is shared. It is what `context.idempotency_key` hands to the body.
    Raises ToolFailure `internal_error` if the key function broke or gave no text.
    """
    if ledger is None or (tool.read_only and not tool.needs_approval):
        return None
    own = None if tool.idempotency_key is None else ask(tool.idempotency_key, values, context)
    if own is not None and not (isinstance(own, str) and own and printable(own) == own):
        raise broken(tool.idempotency_key)
    named = [context.run_id, call.call_id] if own is None else [own]
    key = json.dumps([tool.name, None if tool.shared else context.principal.id, *named])
    try:
        arguments = canonical(values)
        return Action(key, digest_of(arguments), arguments, values, tool, context, call)
    except (ValueError, TypeError, RecursionError) as error:  # a type of the tool's own that has no JSON
        raise ToolFailure(
            ErrorCode.INTERNAL_ERROR, f"The arguments of {tool.name} have no canonical form. Nothing ran."
        ) from error


def recall(ledger: Ledger, action: Action | None) -> Entry | None:
    """The settled entry of this action, or None if it may be tried.

    Raises ToolFailure: `idempotency_conflict` (same key, other arguments), `in_progress` (its owner
    lives), `outcome_unknown` (nobody knows, and it is never run again by itself), `unavailable`.
    """
    if action is None:
        return None
    try:
        return _judged(ledger.recall(action.key), action)
    except LedgerUnavailable as error:
        raise unavailable(error) from error


def claim(
    ledger: Ledger | None, tool: Tool, action: Action | None, using: Callable[[Questions], None] | None = None
) -> Entry | None:
    """Write down that this action is about to run, before it does. Gives the claim; None for a read.

    `using` uses up an approval in the same transaction, or raises, and then nothing is claimed.
    Raises ToolFailure as `recall` does, if another was faster; `unavailable` for a write without a
    ledger, since nobody could promise that it happens once; `internal_error` if a rule has changed
    the values since they were named, for a person has agreed to others.
    """
    if tool.read_only:
        _use_for_read(ledger, using)
        return None
    if ledger is None:
        raise ToolFailure(
            ErrorCode.UNAVAILABLE, f"{tool.name} is a write, and this harness keeps no ledger. Nothing ran.", True
        )
    if tool.rules and canonical(action.values) != action.arguments:
        raise ToolFailure(ErrorCode.INTERNAL_ERROR, f"A rule of {tool.name} changed its arguments. Nothing ran.")
    ours = action.entry()
    try:
        now = ledger.claim(ours, using)
    except LedgerUnavailable as error:
        raise unavailable(error) from error
    except BaseException:  # interrupted: whether the claim stands or not, its body will not begin
        over(ours.token)
        raise
    if now.token == ours.token:
        return now
    _judged(now, action)
    raise _in_progress(action)  # settled between our look and our claim: the next try gets it


def _use_for_read(ledger: Ledger | None, using: Callable[[Questions], None] | None) -> None:
    """A read claims nothing: what a person agreed to is used up by itself."""
    if using is not None:
        try:
            ledger.transact(using, lasting=True)
        except LedgerUnavailable as error:
            raise unavailable(error) from error


def _judged(found: Entry | None, action: Action) -> Entry | None:
    if found is None or found.state is State.FREE:
        return None
    if found.digest != action.digest:
        raise ToolFailure(
            ErrorCode.IDEMPOTENCY_CONFLICT,
            f"{action.tool.name} was called under this key before, with other arguments. Nothing ran.",
        )
    if found.state in (State.DONE, State.FAILED):
        return found
    if found.state is State.RUNNING and found.live:
        raise _in_progress(action)
    raise ToolFailure(
        ErrorCode.OUTCOME_UNKNOWN,
        f"{found.tool} was begun in call {found.call_id}, and nobody knows whether it happened. It is not run again.",
    )


def _in_progress(action: Action) -> ToolFailure:
    return ToolFailure(ErrorCode.IN_PROGRESS, f"This very {action.tool.name} is running now. Nothing more ran.", True)


def unavailable(error: LedgerUnavailable) -> ToolFailure:
    """What a ledger that cannot serve is to a call: it did not run."""
    return ToolFailure(ErrorCode.UNAVAILABLE, f"The ledger cannot serve: {error}. Nothing ran.", retryable=True)


def complete(ledger: Ledger, claim: Entry, data: Any) -> None:
    """It happened: keep what it gave."""
    _end(ledger, claim, State.DONE, to_json({"data": data}).decode())


def release(ledger: Ledger | None, claim: Entry | None, failure: ToolFailure) -> None:
    """Keep what a failure after the claim says about the effect.

    A declared code promises that nothing happened: a retryable one frees the key, another is what
    the key replays. `invalid_output` came from a body that ran to its end, so it happened.
    """
    if claim is None:
        return
    error = failure.error
    kept = to_json({"error": error}).decode()
    if error.code == ErrorCode.OUTCOME_UNKNOWN:
        _end(ledger, claim, State.UNKNOWN, None, returned=not isinstance(failure, TookTooLong))
    elif error.code == ErrorCode.INVALID_OUTPUT:
        _end(ledger, claim, State.DONE, kept)
    elif error.retryable or error.code in _NOTHING_RAN:
        _end(ledger, claim, State.FREE, None)
    else:
        _end(ledger, claim, State.FAILED, kept)


def give_up(ledger: Ledger | None, claim: Entry | None, *, returned: bool) -> None:
    """The caller was interrupted: nobody knows, and the ledger says so."""
    if claim is not None:
        _end(ledger, claim, State.UNKNOWN, None, returned=returned)


def _end(ledger: Ledger, claim: Entry, state: State, outcome: str | None, returned: bool = True) -> None:
    with suppress(LedgerUnavailable):  # then the claim stands, and reads as unknown: the safe side
        ledger.end(claim, state, outcome, returned=returned)


def stored_outcome(entry: Entry) -> tuple[Any, ToolError | None]:
    """Data and error of a settled entry, as they were kept. Raises ToolFailure `unavailable` if they are damaged."""
    try:
        kept = json.loads(entry.outcome or "{}")
        error = kept.get("error")
        return kept.get("data"), None if error is None else ToolError.model_validate(error)
    except (ValueError, AttributeError) as damaged:
        raise ToolFailure(
            ErrorCode.UNAVAILABLE, f"What the ledger kept of this {entry.tool} cannot be read. Nothing ran.", True
        ) from damaged

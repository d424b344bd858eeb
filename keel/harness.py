"""The one straight line that a proposal walks before it becomes a call, and after."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any
from uuid import uuid4

from .adapters import NAME_LENGTH, printable, to_call
from .approval import ApprovalDesk, require_approval
from .authorization import check_permission, check_policies
from .contracts import ErrorCode, ExecutionContext, ToolCall, ToolError, ToolFailure, ToolRequest, ToolResult
from .idempotency import claim, complete, give_up, name_action, recall, release, stored_outcome
from .ledger import Entry, Ledger
from .output import check_output
from .recovery import classify
from .registry import Tool, ToolRegistry
from .rules import check_rules
from .settling import Happened, NotHappened, Settled, reconcile, settle_by_hand
from .turns import Place, run_turn
from .validation import validate
from .workers import Job, Pool, run, runs_here


def mint_call_id() -> str:
    """A new call id: random, so that two processes never make the same one."""
    return f"call_{uuid4().hex}"


class Harness:
    """Judges proposals against a registry, runs what passes, and answers every one.

    `ledger` remembers writes; without one no write runs, for nobody could promise that it happens
    once. `approvals` is the desk where calls wait for a person; without one, a write that needs
    approval is refused. `mint` makes call ids. Raises ValueError for a desk over another ledger, or
    over none: an approval is used up in the transaction of the claim.
    """

    def __init__(
        self,
        registry: ToolRegistry,
        *,
        ledger: Ledger | None = None,
        approvals: ApprovalDesk | None = None,
        mint: Callable[[], str] = mint_call_id,
    ):
        if approvals is not None and approvals.ledger is not ledger:
            raise ValueError("the desk must be made over the harness's own ledger")
        self.registry = registry
        self.ledger = ledger
        self.approvals = approvals
        self.mint = mint
        self.pool = Pool()

    def handle(self, request: ToolRequest, context: ExecutionContext) -> ToolResult:
        """Answer a model's request: mint a call id, read the request, execute the call.

        A request that cannot be read ends as a complete ToolResult too. Raises nothing that the
        model could cause.
        """
        call = self.read(request, context)
        return call if isinstance(call, ToolResult) else self.execute(call, context)

    def execute(self, call: ToolCall, context: ExecutionContext) -> ToolResult:
        """Walk one call through the stages, in this order, up to the first that says no.

        Gives exactly one result with the call's own id. Nothing that a model sends and nothing
        that a tool does makes this raise, but for a KeyboardInterrupt, which is the caller's.
        """
        tool = claimed = None
        over = False  # whether a body, if one began, has ended
        try:
            tool = self.registry.lookup(call.name, context.principal)
            check_permission(tool, context)
            values = validate(tool, call.arguments)
            check_policies(tool, values, context)
            action = name_action(self.ledger, tool, values, context, call)
            settled = recall(self.ledger, action)
            if settled is not None:
                return replay(call, settled)
            check_rules(tool, values, context)
            using = require_approval(self.approvals, tool, action)
            claimed = claim(self.ledger, tool, action, using)
            returned = self._run(tool, values, context, call, claimed)
            over = True
            data = check_output(tool, returned)
            if claimed is not None:
                complete(self.ledger, claimed, data)
        except ToolFailure as failure:
            release(self.ledger, claimed, failure)
            return answer(call, tool, error=failure.error)
        except BaseException:  # the caller's own interrupt, or what a signal handler of the host's raises
            give_up(self.ledger, claimed, returned=over or (tool is not None and runs_here(tool)))
            raise
        return answer(call, tool, data=data)

    def execute_many(
        self,
        calls: Iterable[ToolCall | ToolRequest],
        context: ExecutionContext,
        *,
        cancel: threading.Event | None = None,
    ) -> list[ToolResult]:
        """Answer all calls of one turn, in their order, each with its own id.

        Reads run side by side, those without a timeout one after another in the caller's thread. A
        write is a barrier: it begins when all before it are answered, and what follows waits for
        it. Each is judged just before it runs. Once `cancel` is set, what has not begun is answered
        `cancelled`. Calls and requests may be mixed.
        """
        turn = [self.read(one, context) if isinstance(one, ToolRequest) else one for one in calls]
        return run_turn(turn, self._place, lambda call: self.execute(call, context), self.pool, cancel, self._version)

    def reconcile(self, extra: Mapping[str, Any] | None = None) -> list[Settled]:
        """Ask the world about every write of which nobody knows; see `keel.settling.reconcile`.

        Without a ledger there is nothing to ask about. Raises LedgerUnavailable.
        """
        # A pool of its own: checks that hang must not take the workers from calls.
        return [] if self.ledger is None else reconcile(self.ledger, self.registry, Pool(), extra)

    def settle(self, key: str, answer: Happened | NotHappened, reason: str) -> bool:
        """Settle an entry by hand: a person's word, kept with the reason. False if it changed meanwhile.

        Raises KeyError if the ledger has no such key, ValueError for an entry that is settled.
        """
        entry = None if self.ledger is None else self.ledger.recall(key)
        if entry is None:
            raise KeyError(f"the ledger has no entry {key}")
        tool = self.registry.lookup(entry.tool) if entry.tool in self.registry else None
        return settle_by_hand(self.ledger, tool, entry, answer, reason)

    def read(self, request: ToolRequest, context: ExecutionContext) -> ToolCall | ToolResult:
        """Mint a call id and read a request: the call, or the result of one that cannot be read."""
        call_id = self.mint()
        try:
            return to_call(request, call_id)
        except ToolFailure as failure:
            name, error = printable(request.name or "")[:NAME_LENGTH], failure.error
            if error.code == ErrorCode.UNKNOWN_TOOL:
                error = ToolError(code=error.code, message=self.registry.unknown(name, context.principal))
            version = self.registry.lookup(name).version if name in self.registry else None
            return ToolResult(call_id=call_id, tool_name=name, tool_version=version, ok=False, error=error)

    def reads(self, call: ToolCall) -> bool:
        """Whether this call is of a tool that only reads."""
        return call.name in self.registry and self.registry.lookup(call.name).read_only

    def _version(self, call: ToolCall) -> str | None:
        return self.registry.lookup(call.name).version if call.name in self.registry else None

    def _place(self, call: ToolCall) -> Place:
        tool = self.registry.lookup(call.name) if call.name in self.registry else None
        if tool is None or (tool.read_only and runs_here(tool)):
            return Place.HERE
        return Place.ASIDE if tool.read_only else Place.ALONE

    def _run(
        self, tool: Tool, values: dict[str, Any], context: ExecutionContext, call: ToolCall, claimed: Entry | None
    ) -> Any:
        """Run the body with a context of its own, in which it finds its call id and its key."""
        if tool.context_parameter is not None:
            key = None if claimed is None else claimed.key
            context = context.model_copy(update={"call_id": call.call_id, "idempotency_key": key})
        late = None if claimed is None else partial(self._learn, tool, call, claimed)
        return run(self.pool, tool, values, context, call.call_id, late)

    def _learn(self, tool: Tool, call: ToolCall, claimed: Entry | None, job: Job) -> None:
        """A body that was left behind has ended after all: the ledger learns it, the caller does not."""
        try:
            if job.raised is not None:
                raise classify(tool, job.raised, call.call_id) from job.raised
            complete(self.ledger, claimed, check_output(tool, job.returned))
        except ToolFailure as failure:
            release(self.ledger, claimed, failure)


_result = ToolResult.__pydantic_validator__.validate_python  # what model_validate calls, a step sooner


def answer(call: ToolCall, tool: Tool | None, data: Any = None, error: ToolError | None = None) -> ToolResult:
    """The one result of a call."""
    return _result(
        {
            "call_id": call.call_id,
            "tool_name": call.name,
            "tool_version": None if tool is None else tool.version,
            "ok": error is None,
            "data": data,
            "error": error,
        }
    )


def replay(call: ToolCall, settled: Entry) -> ToolResult:
    """The stored outcome of a write as the answer to this call, with the version that made it."""
    data, error = stored_outcome(settled)
    return ToolResult(
        call_id=call.call_id,
        tool_name=call.name,
        tool_version=settled.version,
        ok=error is None,
        data=data,
        error=error,
    )

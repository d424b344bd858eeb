"""The one straight line that a proposal walks before it becomes a call, and after."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from .adapters import NAME_LENGTH, printable, to_call
from .approval import ApprovalDesk, require_approval
from .authorization import check_permission, check_policies
from .contracts import ErrorCode, ExecutionContext, ToolCall, ToolError, ToolFailure, ToolRequest, ToolResult
from .idempotency import claim, complete, give_up, name_action, recall, release, stored_outcome
from .ledger import Entry, Ledger, State
from .output import check_output
from .recovery import classify
from .registry import Tool, ToolRegistry
from .rules import check_rules
from .settling import Happened, NotHappened, Settled, reconcile, settle_by_hand
from .turns import Place, run_turn
from .validation import validate
from .workers import Job, Pool, TookTooLong, run, runs_here

if TYPE_CHECKING:  # loaded by who keeps one
    from .trace import Trace


def mint_call_id() -> str:
    """A new call id: random, so that two processes never make the same one."""
    return f"call_{uuid4().hex}"


class Harness:
    """Judges proposals against a registry, runs what passes, and answers every one.

    `ledger` remembers writes; without one no write runs, for nobody could promise that it happens
    once. `approvals` is the desk where calls wait for a person; without one, a write that needs
    approval is refused. `trace` notes what happens, stage by stage. `mint` makes call ids. Raises
    ValueError for a desk over another ledger, or over none: an approval is used up in the transaction
    of the claim.
    """

    def __init__(
        self,
        registry: ToolRegistry,
        *,
        ledger: Ledger | None = None,
        approvals: ApprovalDesk | None = None,
        trace: Trace | None = None,
        mint: Callable[[], str] = mint_call_id,
    ):
        if approvals is not None and approvals.ledger is not ledger:
            raise ValueError("the desk must be made over the harness's own ledger")
        self.registry = registry
        self.ledger = ledger
        self.approvals = approvals
        self.trace = trace
        self.mint = mint
        self.pool = Pool()
        self._stages = (
            registry.lookup, check_permission, validate, check_policies, name_action, recall, check_rules,
            require_approval, claim, self._run, check_output, complete,
        )  # fmt: skip
        self._watch = None if trace is None else trace.watching(self._walk, self._stages)

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
        if self._watch is None:
            return self._walk(call, context, self._stages)
        return self._watch.execute(call, context, self.registry.find(call.name))

    def _walk(self, call: ToolCall, context: ExecutionContext, stages: tuple[Callable, ...]) -> ToolResult:
        (lookup, check_permission, validate, check_policies, name_action, recall, check_rules,
         require_approval, claim, run, check_output, complete) = stages  # fmt: skip
        tool = claimed = None
        over = False  # whether a body, if one began, has ended
        try:
            tool = lookup(call.name, context.principal)
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
            returned = run(tool, values, context, call, claimed)
            over = True
            data = check_output(tool, returned)
            if claimed is not None:
                complete(self.ledger, claimed, data)
        except ToolFailure as failure:
            try:
                release(self.ledger, claimed, failure)
            except BaseException:  # interrupted there: what the failure says of the effect is lost
                give_up(self.ledger, claimed, returned=not isinstance(failure, TookTooLong))
                raise
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
        results = run_turn(turn, self._place, partial(self.execute, context=context), self.pool, cancel, self._version)
        if self.trace is not None and cancel is not None:
            for result in results:
                if result.error is not None and result.error.code == ErrorCode.CANCELLED:  # it walked no line
                    self.trace.note("answer", result.error.code, context.run_id, result.call_id, result.tool_name)
        return results

    def reconcile(self, extra: Mapping[str, Any] | None = None) -> list[Settled]:
        """Ask the world about every write of which nobody knows; see `keel.settling.reconcile`.

        Without a ledger there is nothing to ask about. Raises LedgerUnavailable.
        """
        # A pool of its own: checks that hang must not take the workers from calls.
        settled = [] if self.ledger is None else reconcile(self.ledger, self.registry, Pool(), extra)
        if self.trace is not None:
            for one in settled:
                self.trace.note("settle", one.after, None, one.entry.call_id, one.entry.tool)
        return settled

    def settle(self, key: str, answer: Happened | NotHappened, reason: str) -> bool:
        """Settle an entry by hand: a person's word, kept with the reason. False if it changed meanwhile.

        Raises KeyError if the ledger has no such key, ValueError for an entry that is settled.
        """
        entry = None if self.ledger is None else self.ledger.recall(key)
        if entry is None:
            raise KeyError(f"the ledger has no entry {key}")
        tool = self.registry.find(entry.tool)
        settled = settle_by_hand(self.ledger, tool, entry, answer, reason)
        if settled and self.trace is not None:
            after = State.DONE if isinstance(answer, Happened) else State.FREE
            self.trace.note("settle", after, None, entry.call_id, entry.tool, **{"keel.settled.by": "a person"})
        return settled

    def read(self, request: ToolRequest, context: ExecutionContext) -> ToolCall | ToolResult:
        """Mint a call id and read a request: the call, or the result of one that cannot be read."""
        if self.trace is None:
            return self._read(request, context)
        began = self.trace.clock()
        read = self._read(request, context)
        self.trace.note_read(request, read, context, began)
        return read

    def _read(self, request: ToolRequest, context: ExecutionContext) -> ToolCall | ToolResult:
        call_id = self.mint()
        try:
            return to_call(request, call_id)
        except ToolFailure as failure:
            name, error = printable(request.name or "")[:NAME_LENGTH], failure.error
            if error.code == ErrorCode.UNKNOWN_TOOL:
                error = ToolError(code=error.code, message=self.registry.unknown(name, context.principal))
            tool = self.registry.find(name)
            version = None if tool is None else tool.version
            return ToolResult(call_id=call_id, tool_name=name, tool_version=version, ok=False, error=error)

    def reads(self, call: ToolCall) -> bool:
        """Whether this call is of a tool that only reads."""
        tool = self.registry.find(call.name)
        return tool is not None and tool.read_only

    def _version(self, call: ToolCall) -> str | None:
        tool = self.registry.find(call.name)
        return None if tool is None else tool.version

    def _place(self, call: ToolCall) -> Place:
        tool = self.registry.find(call.name)
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
        late = None if claimed is None else partial(self._learn, tool, call, context, claimed)
        return run(self.pool, tool, values, context, call.call_id, late)

    def _learn(self, tool: Tool, call: ToolCall, context: ExecutionContext, claimed: Entry, job: Job) -> None:
        """A body that was left behind has ended after all: the ledger learns it, the caller does not."""
        outcome = "ok"
        try:
            if job.raised is not None:
                raise classify(tool, job.raised, call.call_id) from job.raised
            complete(self.ledger, claimed, check_output(tool, job.returned))
        except ToolFailure as failure:
            outcome = failure.error.code
            release(self.ledger, claimed, failure)
        if self.trace is not None:
            self.trace.note("late", outcome, context.run_id, call.call_id, call.name)


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

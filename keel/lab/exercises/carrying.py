"""Exercise 14-c: a desk with a real harness over one ticket tool, whose connection breaks, and answers to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keel.approval import ApprovalDesk
from keel.contracts import ExecutionContext, ToolCall, ToolRequest, ToolResult
from keel.harness import Harness
from keel.idempotency import MemoryLedger
from keel.lab.standing import break_off
from keel.lab.world import World, approver, bodies, everything, one_ticket_each, seeded_mint, ticket_status
from keel.registry import ToolRegistry
from keel.settling import CannotTell, NotHappened, Settled

MOST_STEPS = 25
TICKET = {"title": "login returns 502", "incident_id": "INC-001"}
OTHER = {"title": "salary run stops", "incident_id": "INC-003"}


class TooMany(BaseException):
    """Ends an answer that would go on for ever. Not an Exception, so that `except Exception` lets it out."""


class CountingHarness(Harness):
    """A Harness that ends whoever asks it too often."""

    steps = 0

    def _step(self) -> None:
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise TooMany

    def execute(self, call: ToolCall, context: ExecutionContext) -> ToolResult:
        self._step()
        return super().execute(call, context)

    def reconcile(self, extra: Any = None) -> list[Settled]:
        self._step()
        return super().reconcile(extra)


class TicketDesk:
    """One desk. `breaks` says where the connection is lost: before or after the ticket, how many times.

    A tool without a `key` runs under its call id; one that `tells` nothing has a status check that cannot tell.
    """

    def __init__(self, breaks: str = "", times: int = 1, *, asked=False, key=True, tells=True):
        self.world, registry = World(), ToolRegistry()
        self.left, self.place = times, {"before": "create_ticket", "after": "create_ticket:answer"}.get(breaks)
        ledger = MemoryLedger()
        registry.tool(
            bodies(self.world)["create_ticket"],
            permission="tickets:write",
            needs_approval=asked,
            idempotency_key=one_ticket_each if key else None,
            check_status=ticket_status(self.world) if tells else lambda values, context: CannotTell(),
        )
        self.desk = ApprovalDesk(ledger)
        self.harness = CountingHarness(registry, ledger=ledger, approvals=self.desk, mint=seeded_mint())
        self.context = everything()

    def lose(self) -> None:
        """From here on the connection breaks, as often as was said."""
        if self.place is not None:
            self.world.faults[self.place] = self._break

    def _break(self, arguments: dict[str, Any]) -> None:
        if self.left:
            self.left -= 1
            break_off(arguments)

    def begin(self, arguments: dict[str, Any]) -> None:
        """Another call, whose outcome nobody knows yet."""
        self.world.faults["create_ticket:answer"] = break_off
        self.harness.handle(request_of(arguments), self.context)
        self.world.faults.clear()

    def agree(self, arguments: dict[str, Any]) -> None:
        """A person has seen this call, and has agreed to it."""
        self.harness.handle(request_of(arguments), self.context)
        for one in self.desk.pending():
            self.desk.approve(one.id, approver())

    def carry_out(self, answer: Callable[..., Any], arguments: Any, context: ExecutionContext) -> dict[str, Any]:
        """Let an answer carry out one request. Seen: what it reports, the tickets, how often the body began."""
        self.world.ran.clear()
        try:
            report = answer(self.harness, request_of(arguments), context)
        except TooMany:
            return {"asked": f"more than {MOST_STEPS} times"}
        return {"report": read_report(report), "tickets": len(self.world.tickets), "begun": len(self.world.ran)}


def request_of(arguments: Any) -> ToolRequest:
    """A request for a ticket."""
    return ToolRequest(provider_id="call_1", name="create_ticket", arguments=arguments)


def read_report(report: Any) -> Any:
    """A report in short: its status, and after `not_done` the code."""
    try:
        return f"not_done {report['code']}" if report["status"] == "not_done" else report["status"]
    except (TypeError, LookupError):
        return report


# --- Answers ---------------------------------------------------------------------------------------------------------


def carry_out_stub(harness, request, context): ...


def carry_out_solution(harness, request, context):
    call = harness.read(request, context)
    result = call if isinstance(call, ToolResult) else harness.execute(call, context)
    if not result.ok and result.error.code == "outcome_unknown":
        harness.reconcile()
        result = harness.execute(call, context)
    if result.ok:
        return {"status": "done"}
    if result.error.code == "outcome_unknown":
        return {"status": "unknown"}
    return {"status": "not_done", "code": result.error.code}


def _report(result, unknown="unknown"):
    if result.ok:
        return {"status": "done"}
    code = result.error.code
    return {"status": unknown} if code == "outcome_unknown" else {"status": "not_done", "code": code}


def _is_unknown(result):
    return not result.ok and result.error.code == "outcome_unknown"


def carry_out_unknown_is_done(harness, request, context):
    report = carry_out_solution(harness, request, context)
    return {"status": "done"} if report["status"] == "unknown" else report


def carry_out_unknown_is_no(harness, request, context):
    report = carry_out_solution(harness, request, context)
    return {"status": "not_done", "code": "outcome_unknown"} if report["status"] == "unknown" else report


def carry_out_gives_up(harness, request, context):
    return _report(harness.handle(request, context))


def carry_out_handles_again(harness, request, context):
    result = harness.handle(request, context)
    if _is_unknown(result):
        harness.reconcile()
        result = harness.handle(request, context)
    return _report(result)


def carry_out_settles_by_hand(harness, request, context):
    call = harness.read(request, context)
    result = harness.execute(call, context)
    if _is_unknown(result):
        for entry in harness.ledger.entries():
            harness.settle(entry.key, NotHappened(), "no answer came")
        result = harness.execute(call, context)
    return _report(result)


def carry_out_for_ever(harness, request, context):
    call = harness.read(request, context)
    while _is_unknown(result := harness.execute(call, context)):
        harness.reconcile()
    return _report(result)


def carry_out_first_settled(harness, request, context):
    call = harness.read(request, context)
    if isinstance(call, ToolResult):
        return _report(call)
    result = harness.execute(call, context)
    if _is_unknown(result):
        after = harness.reconcile()[0].after
        return {"status": "done"} if after == "done" else _report(harness.execute(call, context))
    return _report(result)


def carry_out_hopes(harness, request, context):
    call = harness.read(request, context)
    result = harness.execute(call, context)
    if _is_unknown(result):
        harness.reconcile()
        again = harness.execute(call, context)
        return {"status": "done"} if not again.ok and again.error.code == "approval_required" else _report(again)
    return _report(result)


def carry_out_reads_nothing(harness, request, context):
    call = harness.read(request, context)
    result = harness.execute(call, context)
    if _is_unknown(result):
        harness.reconcile()
        result = harness.execute(call, context)
    return _report(result)

"""Keel behind any web framework: what its handlers call. It needs the standard library and keel, nothing else."""

import asyncio
import logging
from pathlib import Path
from typing import Any

from keel import ApprovalDesk, ExecutionContext, Harness, Principal, SqliteLedger, ToolRegistry, ToolRequest, Trace
from keel.telemetry import OpenTelemetry


def once(values: dict[str, Any], context: ExecutionContext) -> str:
    """For a write's `idempotency_key`: the same proposal, sent again under its id, is the same action."""
    return context.extra["request_id"]


class Service:
    """One harness over one folder. Start the same registry over the same folder again, and it goes on."""

    def __init__(self, registry: ToolRegistry, folder: Path):
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)  # the ledger holds what the writes were asked to do
        try:
            send = OpenTelemetry()
        except ImportError:
            send = None
        self.ledger = SqliteLedger(folder / "ledger.sqlite")
        self.desk = ApprovalDesk(self.ledger)
        self.trace = Trace(folder / "trace.jsonl", send=send)
        self.harness = Harness(registry, ledger=self.ledger, approvals=self.desk, trace=self.trace)

    async def call(self, user: Principal, request_id: str, request: ToolRequest) -> dict[str, Any]:
        """Answer what a model proposed. Who asks, and under which id, comes from your own login and client."""
        context = ExecutionContext(principal=user, extra={"request_id": request_id})
        return (await asyncio.to_thread(self.harness.handle, request, context)).model_dump(mode="json")

    async def waiting(self, approver: Principal) -> list[dict[str, Any]]:
        """The questions that this person may decide. Show them the arguments: those are what would run."""
        asked = [one for one in await asyncio.to_thread(self.desk.pending) if one.permission in approver.permissions]
        return [
            {"id": one.id, "tool": one.binding.tool, "for": one.binding.principal, "arguments": one.shown}
            for one in asked
        ]

    async def decide(self, approver: Principal, question_id: str, yes: bool, reason: str) -> str:
        """Say yes or no, or take an unused yes back. LookupError is a 404, PermissionError a 403, ValueError a 409."""
        decide = self.desk.approve if yes else self.desk.deny
        return (await asyncio.to_thread(decide, question_id, approver, reason)).standing.value

    async def tend(self, every_s: float = 60.0) -> None:
        """A task for as long as the service runs: settle, at the start and then regularly, what nobody knows of."""
        while True:
            try:
                await asyncio.to_thread(self.harness.reconcile)
                await asyncio.to_thread(self.desk.expire)
            except Exception:  # the file cannot serve just now: next time, perhaps
                logging.getLogger("service").exception("the ledger could not be tended")
            await asyncio.sleep(every_s)

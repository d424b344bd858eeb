"""A process of its own that sends one write through a harness and is killed on the way: for real.

Desk and ledger are files in a folder, so that they outlive whoever writes. `killed_write` starts a
Python process that claims, runs and completes as any other would, until it kills itself at the
chosen point: no handler runs, nothing is flushed, nobody is told.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from keel.contracts import ExecutionContext, ToolRequest, ToolResult
from keel.harness import Harness
from keel.idempotency import SqliteLedger
from keel.ledger import Entry
from keel.registry import ToolRegistry
from keel.settling import Happened, NotHappened

from .world import IncidentId, everything, one_ticket_each, seeded_mint

# Where a write can die: when the claim is kept, when the ticket is made, when the end is kept.
POINTS = ("before", "after", "done")
_STAND = "stand"  # in the middle, and not dead


class FileDesk:
    """A ticket desk in a file: one line a ticket, on the disk before `book` returns."""

    def __init__(self, folder: str | os.PathLike[str]):
        self.path = Path(folder) / "tickets.txt"

    def book(self, incident_id: str) -> str:
        """Make a ticket and give its id."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(f"{incident_id}\n")
            file.flush()
            os.fsync(file.fileno())
        return f"T-{len(self.tickets())}"

    def tickets(self) -> list[str]:
        """The incidents of all tickets, in the order in which they were made."""
        return self.path.read_text(encoding="utf-8").splitlines() if self.path.exists() else []


def desk_harness(folder: str | os.PathLike[str], die_at: str | None = None, *, can_be_asked: bool = True) -> Harness:
    """A harness over the desk and the ledger in a folder, with one tool: `create_ticket`, which runs unasked.

    A desk that cannot be asked has a tool without `check_status`.
    """
    desk, registry = FileDesk(folder), ToolRegistry()

    def create_ticket(incident_id: IncidentId) -> str:
        """Create the ticket of an incident."""
        _reached("before", die_at)
        ticket_id = desk.book(incident_id)
        _reached("after", die_at)
        return ticket_id

    def look(values: dict[str, Any], context: ExecutionContext) -> Happened | NotHappened:
        made = desk.tickets()
        found = values["incident_id"] in made
        return Happened(f"T-{made.index(values['incident_id']) + 1}") if found else NotHappened()

    registry.tool(
        create_ticket,
        permission="tickets:write",
        needs_approval=False,
        idempotency_key=one_ticket_each,
        check_status=look if can_be_asked else None,
        timeout_s=None,
    )
    return Harness(registry, ledger=SqliteLedger(Path(folder) / "ledger.db"), mint=seeded_mint())


def ask_desk(harness: Harness, incident_id: str = "INC-001") -> ToolResult:
    """Ask for the ticket of an incident."""
    request = ToolRequest(provider_id="call_1", name="create_ticket", arguments={"incident_id": incident_id})
    return harness.handle(request, everything())


def entry_of(harness: Harness) -> Entry:
    """The one entry in a harness's ledger."""
    (entry,) = harness.ledger.entries()
    return entry


def killed_write(folder: str | os.PathLike[str], at: str) -> None:
    """Ask for a ticket in a process that is killed at this point. Raises ValueError for one that is none."""
    if at not in POINTS:
        raise ValueError(f"a process can be killed at {', '.join(POINTS)}, and not at {at!r}")
    died = _start(folder, at)
    died.communicate()


@contextmanager
def running_write(folder: str | os.PathLike[str]) -> Iterator[Callable[[], None]]:
    """A process that has claimed a ticket and stands still before it makes it. Gives what kills it."""
    process = _start(folder, _STAND)

    def kill() -> None:
        process.kill()
        process.communicate()

    try:
        process.stdout.readline()  # it says when it is there
        yield kill
    finally:
        kill()


def _start(folder: str | os.PathLike[str], at: str) -> subprocess.Popen:
    command = [sys.executable, "-m", "keel.lab.killed", os.fspath(folder), at]
    root = os.fspath(Path(__file__).resolve().parents[2])
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    return subprocess.Popen(command, cwd=root, text=True, **pipes)


def _reached(point: str, die_at: str | None) -> None:
    if die_at == point:
        os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))  # on Windows SIGTERM ends a process as hard
    if die_at == _STAND and point == "before":
        print("here", flush=True)
        sys.stdin.read()  # for ever, unless whoever started this is gone
        os._exit(1)


def main() -> None:
    folder, at = sys.argv[1:]
    ask_desk(desk_harness(folder, at))
    _reached("done", at)


if __name__ == "__main__":
    main()

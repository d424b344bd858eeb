"""The on-call assistant from end to end, with all that it needs to outlive its process in one folder.

`assistant(folder, model)` builds it: incidents and a workspace, tickets, a ledger, a desk where a person
is asked, and an agent that saves its run at every step. `take_up(folder, model)` is what a process does
that starts after another has ended, however that ended.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from keel.adapters import ModelTurn
from keel.approval import ApprovalDesk
from keel.harness import Harness
from keel.idempotency import SqliteLedger
from keel.loop import Agent, Budget, Run
from keel.models import Message, Model

from .killed import FileDesk
from .recordings import proposal_turn
from .standing import break_off
from .world import DATA, Ticket, World, add_files, course_registry, everything

GOAL = "Login is down. Look at INC-001 and at the counting service's app.py, and open a ticket."
BUDGET = Budget(turns=12, calls=12)
_RUN = "run.json"


class TicketFile:
    """The tickets of a desk, one line each, on the disk before `append` returns."""

    def __init__(self, folder: Path):
        self._desk = FileDesk(folder)

    def append(self, ticket: Ticket) -> None:
        """Keep one more."""
        self._desk.book(ticket.model_dump_json())

    def __iter__(self) -> Iterator[Ticket]:
        return map(Ticket.model_validate_json, self._desk.tickets())

    def __len__(self) -> int:
        return len(self._desk.tickets())


class FolderWorld(World):
    """A world whose tickets and files stand in a folder that is not its own, and stay there."""

    def __init__(self, folder: Path):
        super().__init__()
        self._at = folder
        self.tickets = TicketFile(folder)

    @cached_property
    def folder(self) -> Path:
        return self._at

    @cached_property
    def workspace(self) -> Path:
        root = self.folder / "workspace"
        shutil.copytree(DATA / "workspace", root, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
        return root


class OnCallModel:
    """Plays a model's part by what stands in the conversation, so that another process can go on with it.

    It looks the incident up, reads a file, proposes a ticket until it is told of one, and says what it found.
    """

    plan = (
        ("lookup_incident", {"incident_id": "INC-001"}),
        ("read_file", {"path": "app.py"}),
        ("create_ticket", {"title": "login returns 502", "incident_id": "INC-001"}),
    )

    def complete(self, messages: list[Message], tools: Any = ()) -> ModelTurn:
        """The next turn."""
        told = [json.loads(one["content"]) for one in messages if one["role"] == "tool"]
        found = {one["tool_name"]: one["data"] for one in told if one["ok"]}
        for name, arguments in self.plan:
            if name not in found:
                return proposal_turn(name, arguments)
        evidence, ticket = found["lookup_incident"]["evidence"], found["create_ticket"]["ticket_id"]
        return ModelTurn(text=f"INC-001: {' and '.join(evidence)}. Ticket {ticket} is open.", finish_reason="stop")


class Assistant:
    """One process's assistant over a folder. A person answers at its `desk`; `world` is what it can touch.

    With `answer_lost` the answer to every new ticket is lost on its way back.
    """

    def __init__(
        self, folder: str | os.PathLike[str], model: Model, *, budget: Budget = BUDGET, answer_lost: bool = True
    ):
        self.folder = Path(folder)
        self.world = FolderWorld(self.folder)
        if answer_lost:
            self.world.faults["create_ticket:answer"] = break_off
        registry = course_registry(self.world)
        add_files(registry, self.world)
        self.ledger = SqliteLedger(self.folder / "ledger.db")
        self.desk = ApprovalDesk(self.ledger)
        self.harness = Harness(registry, ledger=self.ledger, approvals=self.desk)
        self.agent = Agent(model, self.harness, budget, keep=self.keep)

    def run(self, goal: str = GOAL) -> Run:
        """Begin a run, and work until there is a reason to stop."""
        return self.agent.run(goal, everything())

    def take_up(self) -> Run:
        """Settle what nobody knows of, and go on with the saved run. Raises LookupError where there is none."""
        run = self.saved()
        if run is None:
            raise LookupError(f"there is no run in {self.folder.name}: begin one")
        self.harness.reconcile()
        return self.agent.resume(run, everything().model_copy(update={"run_id": run.run_id}))

    def saved(self) -> Run | None:
        """The run as it was saved last, or None."""
        path = self.folder / _RUN
        return Run.model_validate_json(path.read_bytes()) if path.exists() else None

    def keep(self, run: Run) -> None:
        """Save the run. Then ask the world about what nobody knows, before the model is asked or told anything."""
        beside = self.folder / f"{_RUN}.new"
        with beside.open("w", encoding="utf-8") as file:
            file.write(run.model_dump_json())
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, self.folder / _RUN)  # a reader sees the old run or the new one, and never half of one
        self.harness.reconcile()


def assistant(folder: str | os.PathLike[str], model: Model, **options: Any) -> Assistant:
    """The on-call assistant over this folder, which must be there. Options are Assistant's."""
    return Assistant(folder, model, **options)


def take_up(folder: str | os.PathLike[str], model: Model, **options: Any) -> Run:
    """Go on with the run that is saved in a folder, in whatever process."""
    return Assistant(folder, model, **options).take_up()


def killed_assistant(folder: str | os.PathLike[str], at: int | str) -> None:
    """Let a process of its own begin a run in this folder, or take it up, and kill it.

    `at` is how often it has saved the run by then; or "ticket": when one is made, and nobody has been told yet.
    """
    command = [sys.executable, "-m", "keel.lab.capstone", os.fspath(folder), str(at)]
    root = os.fspath(Path(__file__).resolve().parents[2])
    subprocess.run(command, cwd=root, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)


def _die(arguments: Any = None) -> None:
    os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))  # Windows has but the other one


def main() -> None:
    folder, at = sys.argv[1:]
    duty, saves = assistant(folder, OnCallModel()), itertools.count(1)

    def keep(run: Run) -> None:
        duty.keep(run)
        if str(next(saves)) == at:
            _die()

    duty.agent.keep = keep
    if at == "ticket":
        duty.world.faults["create_ticket:answer"] = _die
    duty.run() if duty.saved() is None else duty.take_up()


if __name__ == "__main__":
    main()

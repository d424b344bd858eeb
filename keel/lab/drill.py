"""A drill: one write, all that can go wrong with it, and how ledger and world stand after each step.

It runs over the real Harness and a real ledger. A process that dies is a body that goes no further, a
ledger that the process has left, and a new harness on the same file.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from keel.contracts import ToolRequest, ToolResult
from keel.harness import Harness
from keel.ledger import Entry, MemoryLedger, State
from keel.settling import Happened, NotHappened
from keel.sqlite_ledger import SqliteLedger

from .catalogue import words
from .world import Ticket, World, course_registry, everything, seeded_mint

TICKET = {"title": "login returns 502", "incident_id": "INC-001"}
REWORDED = {**TICKET, "title": "nobody can log in"}
PATIENCE_S = 0.1  # where a body hangs
NO_LIMIT_S = 86_400.0  # where none does: a busy machine must not make a timeout of its own

# Where in the world a step makes the body break off or stand still.
_PLACES = {
    "lose_request": "create_ticket",
    "lose_answer": "create_ticket:answer",
    "hang": "create_ticket",
    "kill_before": "create_ticket",
    "kill_after": "create_ticket:answer",
    "elsewhere": "create_ticket",
}
# The steps of each chapter, as they are offered.
GROUPS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "07": {
        "send": ("call", "reword"),
        "trouble": ("lose_request", "lose_answer", "hang"),
        "after": ("release", "start_over"),
    },
    "07b": {
        "send": ("call", "reword"),
        "trouble": tuple(_PLACES),
        "after": ("release", "restart", "reconcile", "settle_happened", "settle_not_happened", "start_over"),
    },
}
STEPS = {chapter: tuple(step for group in groups.values() for step in group) for chapter, groups in GROUPS.items()}


@dataclass(frozen=True)
class Kept:
    """What the ledger has of the write. `outcome` is the ticket's id, or the code of an error."""

    key: str
    state: str
    live: bool
    returned: bool
    outcome: str | None
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Step:
    """One step and how things stand after it.

    `code` is None where no call was answered, `entry` where the ledger has none. `sense` is False
    for a step that makes no sense now: `answer` says why, and nothing was changed.
    """

    name: str
    done: str
    answer: str
    code: str | None
    entry: Kept | None
    tickets: tuple[str, ...]
    began: int
    sense: bool = True


class _NoSense(Exception):
    """Raised by a step that makes no sense now; its text says why."""


class _Telling:
    """A ledger that tells when an end was written, so that nobody has to guess how long that takes."""

    def __init__(self, *arguments: Any):
        super().__init__(*arguments)
        self.told = threading.Event()

    def end(self, *arguments: Any, **more: Any) -> None:
        try:
            super().end(*arguments, **more)
        finally:
            self.told.set()


class _Memory(_Telling, MemoryLedger):
    pass


class _File(_Telling, SqliteLedger):
    pass


class _Body:
    """A body that stands still until it is let go. One whose process died then ends, and does nothing more."""

    def __init__(self, ledger: _Memory | _File):
        self.ledger = ledger
        self.stands, self.go, self.answered = threading.Event(), threading.Event(), threading.Event()
        self.dead = False
        self.result: ToolResult | None = None
        self.waited_for = False

    def stand(self, arguments: dict[str, Any]) -> None:
        self.stands.set()
        self.go.wait()
        if self.dead:
            raise SystemExit

    def send(self, harness: Harness) -> None:
        """Send the call from a process of its own, and come back when its body stands still."""

        def wait() -> None:
            self.result = harness.handle(_request(TICKET), everything())
            self.answered.set()
            self.stands.set()  # in case that it never came to its body

        self.waited_for = True
        threading.Thread(target=wait, name="keel-drill", daemon=True).start()
        self.stands.wait()

    def let_go(self) -> None:
        """Let it run to its end, and come back when the ledger knows."""
        self.ledger.told.clear()
        self.go.set()
        (self.answered if self.waited_for else self.ledger.told).wait()


class Drill:
    """One write over a world of its own. `step` does one thing and tells how everything stands.

    Raises KeyError for a chapter without a drill.
    """

    def __init__(self, chapter: str):
        self.chapter, self.steps = chapter, STEPS[chapter]
        self._begin()

    def step(self, name: str) -> Step:
        """Do this step. Raises ValueError for one that the chapter does not have."""
        if name not in self.steps:
            raise ValueError(f"chapter {self.chapter} has no step {name!r}; there are {', '.join(self.steps)}")
        try:
            code, answer = getattr(self, f"_{name}")()
        except _NoSense as why:
            return self._stands(name, None, str(why), sense=False)
        return self._stands(name, code, answer)

    def close(self) -> None:
        """End what still stands, and let go of the files."""
        for body in self._bodies:
            if not body.go.is_set():
                body.dead = True
                body.let_go()
        for ledger in {id(one): one for one in [self._ledger, *(body.ledger for body in self._bodies)]}.values():
            if isinstance(ledger, SqliteLedger):
                ledger.leave()

    def _begin(self) -> None:
        self._world, self._mint = World(unasked=["create_ticket"]), seeded_mint()
        self._bodies: list[_Body] = []
        self._start()

    def _start(self) -> None:
        """Another process: nothing of it is older than this."""
        self._ledger = _Memory() if self.chapter == "07" else _File(self._world.folder / "ledger.db")
        self._harness = self._with_patience(NO_LIMIT_S)

    def _with_patience(self, seconds: float) -> Harness:
        self._world.patience_s = seconds
        return Harness(course_registry(self._world), ledger=self._ledger, mint=self._mint)

    def _entry(self) -> Entry | None:
        return next(self._ledger.entries(), None)

    def _standing(self) -> _Body | None:
        """The body that may still go on: there is one key, so there is one at most."""
        return next((body for body in self._bodies if not body.dead and not body.go.is_set()), None)

    def _stands(self, name: str, code: str | None, answer: str, sense: bool = True) -> Step:
        entry, world = self._entry(), self._world
        tickets = tuple(f"{ticket.ticket_id}  {ticket.title}" for ticket in world.tickets)
        done = words(f"ledger_lab.step.{name}")
        return Step(name, done, answer, code, entry and _kept(entry), tickets, len(world.ran), sense)

    def _call(self, arguments: Mapping[str, str] = TICKET) -> tuple[str, str]:
        before = len(self._world.ran)
        result = self._harness.handle(_request(arguments), everything())
        return _heard(result, replayed=len(self._world.ran) == before)

    def _reword(self) -> tuple[str, str]:
        return self._call(REWORDED)

    def _lose_request(self) -> tuple[str, str]:
        return self._cut_off("lose_request")

    def _lose_answer(self) -> tuple[str, str]:
        return self._cut_off("lose_answer")

    def _cut_off(self, name: str) -> tuple[str, str]:
        def breaks(arguments: dict[str, Any]) -> None:
            raise ConnectionResetError("connection reset by peer")

        self._expect_a_body()
        self._world.faults = {_PLACES[name]: breaks}
        heard = self._call()
        self._world.faults = {}
        return heard

    def _expect_a_body(self) -> None:
        entry = self._entry()
        if entry is not None and entry.state is not State.FREE:
            raise _NoSense(words("ledger_lab.senseless.held", state=entry.state))

    def _still_body(self, name: str) -> _Body:
        """A body for the next call, which will stand still where this step says."""
        self._expect_a_body()
        body = _Body(self._ledger)
        self._bodies.append(body)
        self._world.faults = {_PLACES[name]: body.stand}
        return body

    def _hang(self) -> tuple[str, str]:
        self._still_body("hang")
        result = self._with_patience(PATIENCE_S).handle(_request(TICKET), everything())
        self._world.faults = {}
        return _heard(result)

    def _kill_before(self) -> tuple[str | None, str]:
        return self._kill("kill_before")

    def _kill_after(self) -> tuple[str | None, str]:
        return self._kill("kill_after")

    def _kill(self, name: str) -> tuple[str | None, str]:
        self._still_body(name).send(self._harness)
        self._restart()
        return None, words("ledger_lab.heard.nobody")

    def _elsewhere(self) -> tuple[str | None, str]:
        self._still_body("elsewhere").send(self._harness)
        self._world.faults = {}
        self._start()  # the reader sits in another process now
        return None, words("ledger_lab.heard.not_yet")

    def _release(self) -> tuple[str | None, str]:
        body = self._standing()
        if body is None:
            raise _NoSense(words("ledger_lab.senseless.nothing_stands"))
        body.let_go()
        if body.result is None:
            return None, words("ledger_lab.heard.late")
        return None, words("ledger_lab.heard.elsewhere", answer=_heard(body.result)[1])

    def _restart(self) -> tuple[str | None, str]:
        """End this process. What stands still in it dies with it; another process's body does not."""
        own = [body for body in self._bodies if body.ledger is self._ledger]
        for body in own:
            body.dead = body.dead or not body.go.is_set()
        if own or self._standing() is None:
            self._ledger.leave()
        self._world.faults = {}
        self._start()
        return None, words("ledger_lab.heard.nothing")

    def _reconcile(self) -> tuple[str | None, str]:
        found = self._harness.reconcile()
        if not found:
            raise _NoSense(words("ledger_lab.senseless.nothing_unknown"))
        one = found[0]
        key = "ledger_lab.heard.unchanged" if one.after is one.before else "ledger_lab.heard.changed"
        return None, words(key, before=one.before, after=one.after, why=one.why)

    def _settle_happened(self) -> tuple[str | None, str]:
        ticket = next(iter(self._world.tickets), Ticket(ticket_id="T-1", **TICKET))
        return self._settle(Happened(ticket), words("ledger_lab.reason.happened"))

    def _settle_not_happened(self) -> tuple[str | None, str]:
        return self._settle(NotHappened(), words("ledger_lab.reason.not_happened"))

    def _settle(self, answer: Happened | NotHappened, reason: str) -> tuple[str | None, str]:
        entry = self._entry()
        if entry is None:
            raise _NoSense(words("ledger_lab.senseless.no_entry"))
        try:
            self._harness.settle(entry.key, answer, reason)
        except ValueError as refused:
            raise _NoSense(words("ledger_lab.senseless.refused", why=refused)) from refused
        return None, words("ledger_lab.heard.kept")

    def _start_over(self) -> tuple[str | None, str]:
        self.close()
        self._begin()
        return None, words("ledger_lab.heard.nothing")


def _request(arguments: Mapping[str, str]) -> ToolRequest:
    return ToolRequest(name="create_ticket", arguments=dict(arguments))


def _heard(result: ToolResult, replayed: bool = False) -> tuple[str, str]:
    """Code and words of an answer."""
    if result.error is not None:
        return result.error.code, result.error.code
    ticket = result.data["ticket_id"]
    key = "ledger_lab.heard.replayed" if replayed else "ledger_lab.heard.ok"
    return "ok", words(key, ticket=ticket)


def _kept(entry: Entry) -> Kept:
    outcome = json.loads(entry.outcome or "{}")
    short = outcome["data"]["ticket_id"] if outcome.get("data") else outcome.get("error", {}).get("code")
    return Kept(entry.key, entry.state.value, entry.live, entry.returned, short, tuple(entry.notes.splitlines()))

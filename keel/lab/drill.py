"""A drill: one write, all that can go wrong with it, and how ledger and world stand after each step.

It runs over the real Harness and a real ledger. A process that dies is a body that goes no further, a
ledger that the process has left, and a new harness on the same file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from keel.contracts import ToolRequest, ToolResult
from keel.harness import Harness
from keel.ledger import Entry, State
from keel.settling import Happened, NotHappened

from .catalogue import words
from .standing import StandingBody, TellingFile, TellingMemory, break_off
from .world import Ticket, World, course_registry, everything, seeded_mint

TICKET = ToolRequest(name="create_ticket", arguments={"title": "login returns 502", "incident_id": "INC-001"})
REWORDED = ToolRequest(name="create_ticket", arguments={"title": "nobody can log in", "incident_id": "INC-001"})
BEFORE, AFTER = "create_ticket", "create_ticket:answer"  # places in the world: before the effect, and after it
PATIENCE_S = 0.1  # where a body hangs
NO_LIMIT_S = 86_400.0  # where none does: a busy machine must not make a timeout of its own

_SEND, _TROUBLE = ("call", "reword"), ("lose_request", "lose_answer", "hang")
_DEATHS = ("kill_before", "kill_after", "elsewhere")
_CURES = ("restart", "reconcile", "settle_happened", "settle_not_happened")
# The steps of each chapter, as they are offered.
GROUPS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "07": {"send": _SEND, "trouble": _TROUBLE, "after": ("release", "start_over")},
    "07b": {"send": _SEND, "trouble": _TROUBLE + _DEATHS, "after": ("release", *_CURES, "start_over")},
}
STEPS = {chapter: tuple(step for group in groups.values() for step in group) for chapter, groups in GROUPS.items()}

_Heard = tuple[str | None, str]  # the code of an answer, and what was heard in words


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
    """One step and how things stand after it: what the ledger has, which tickets there are, how often the body began.

    `code` is "ok" or an error's, None where no call was answered; `heard` says it in words. `sense` is
    False for a step that makes no sense now: then `heard` says why, and nothing was changed.
    """

    name: str
    done: str
    code: str | None
    heard: str
    entry: Kept | None
    tickets: tuple[str, ...]
    began: int
    sense: bool = True


class _NoSense(Exception):
    """Raised by a step that makes no sense now. Its text says why."""


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
            return self._stands(name, *_MOVES[name](self))
        except _NoSense as why:
            return self._stands(name, None, str(why), sense=False)

    def close(self) -> None:
        """End what still stands, and let go of the files."""
        for body in self._bodies:
            if not body.let_go:
                body.dead = True
                body.go()
        for ledger in [*(body.ledger for body in self._bodies), self._ledger]:
            if isinstance(ledger, TellingFile):
                ledger.leave()

    def _begin(self) -> None:
        self._world, self._mint = World(unasked=["create_ticket"]), seeded_mint()
        self._bodies: list[StandingBody] = []
        self._start()

    def _start(self) -> None:
        """Another process: nothing of it is older than this."""
        self._world.faults = {}
        self._ledger = TellingMemory() if self.chapter == "07" else TellingFile(self._world.folder / "ledger.db")
        self._harness = self._patient(NO_LIMIT_S)

    def _patient(self, seconds: float) -> Harness:
        self._world.patience_s = seconds
        return Harness(course_registry(self._world), ledger=self._ledger, mint=self._mint)

    def _entry(self) -> Entry | None:
        """The entry of this write, the only one that there can be."""
        return next(self._ledger.entries(), None)

    def _standing(self) -> StandingBody | None:
        """The body that may still go on. There is one at most, for all of them run under one key."""
        return next((body for body in self._bodies if not (body.dead or body.let_go)), None)

    def _stands(self, name: str, code: str | None, heard: str, sense: bool = True) -> Step:
        entry, done = self._entry(), words(f"ledger_lab.step.{name}")
        tickets = tuple(f"{ticket.ticket_id}  {ticket.title}" for ticket in self._world.tickets)
        return Step(name, done, code, heard, entry and _kept(entry), tickets, len(self._world.ran), sense)

    def _call(self, request: ToolRequest) -> _Heard:
        before = len(self._world.ran)
        result = self._harness.handle(request, everything())
        self._world.faults = {}
        return _heard(result, replayed=len(self._world.ran) == before)

    def _cut_off(self, place: str) -> _Heard:
        self._expect_a_body()
        self._world.faults = {place: break_off}
        return self._call(TICKET)

    def _expect_a_body(self) -> None:
        """Refuse a step that is about what happens in the body, where none would begin."""
        entry = self._entry()
        if entry is not None and entry.state is not State.FREE:
            raise _NoSense(words("ledger_lab.senseless.held", state=entry.state))

    def _body_at(self, place: str) -> StandingBody:
        """The body of the next call, which will stand still in this place."""
        self._expect_a_body()
        body = StandingBody(self._ledger)
        self._bodies.append(body)
        self._world.faults = {place: body.stand}
        return body

    def _hang(self, place: str) -> _Heard:
        self._body_at(place)
        result = self._patient(PATIENCE_S).handle(TICKET, everything())
        self._world.faults = {}
        return _heard(result)

    def _kill(self, place: str) -> _Heard:
        self._body_at(place).send_aside(partial(self._harness.handle, TICKET, everything()))
        self._restart()
        return None, words("ledger_lab.heard.nobody")

    def _elsewhere(self, place: str) -> _Heard:
        self._body_at(place).send_aside(partial(self._harness.handle, TICKET, everything()))
        self._start()  # from here on the reader is in another process
        return None, words("ledger_lab.heard.not_yet")

    def _release(self) -> _Heard:
        body = self._standing()
        if body is None:
            raise _NoSense(words("ledger_lab.senseless.nothing_stands"))
        body.go()
        if body.result is None:
            return None, words("ledger_lab.heard.late")
        return None, words("ledger_lab.heard.elsewhere", heard=_heard(body.result)[1])

    def _restart(self) -> _Heard:
        """End this process, and with it a body that stands still in it. Another process's body is not touched."""
        body = self._standing()
        if body is None or body.ledger is self._ledger:
            self._ledger.leave()
            if body is not None:
                body.dead = True
        self._start()
        return None, ""

    def _reconcile(self) -> _Heard:
        one = next(iter(self._harness.reconcile()), None)
        if one is None:
            raise _NoSense(words("ledger_lab.senseless.nothing_unknown"))
        if one.after is one.before:
            return None, words("ledger_lab.heard.unchanged", before=one.before, why=one.why)
        return None, words("ledger_lab.heard.changed", before=one.before, after=one.after, why=one.why)

    def _settle(self, happened: bool) -> _Heard:
        """A person's word. Whoever says that it happened names the ticket, also one that is not there."""
        entry = self._entry()
        if entry is None:
            raise _NoSense(words("ledger_lab.senseless.no_entry"))
        ticket = next(iter(self._world.tickets), Ticket(ticket_id="T-1", **TICKET.arguments))
        reason = words("ledger_lab.reason.happened" if happened else "ledger_lab.reason.not_happened")
        try:
            self._harness.settle(entry.key, Happened(ticket) if happened else NotHappened(), reason)
        except ValueError as refused:
            raise _NoSense(words("ledger_lab.senseless.refused", why=refused)) from refused
        return None, words("ledger_lab.heard.kept", reason=reason)

    def _start_over(self) -> _Heard:
        self.close()
        self._begin()
        return None, ""


# What each step calls, and where in the world the body is to break off or stand still.
_MOVES: Mapping[str, Callable[[Drill], _Heard]] = {
    "call": lambda drill: drill._call(TICKET),
    "reword": lambda drill: drill._call(REWORDED),
    "lose_request": lambda drill: drill._cut_off(BEFORE),
    "lose_answer": lambda drill: drill._cut_off(AFTER),
    "hang": lambda drill: drill._hang(BEFORE),
    "kill_before": lambda drill: drill._kill(BEFORE),
    "kill_after": lambda drill: drill._kill(AFTER),
    "elsewhere": lambda drill: drill._elsewhere(BEFORE),
    "release": Drill._release,
    "restart": Drill._restart,
    "reconcile": Drill._reconcile,
    "settle_happened": lambda drill: drill._settle(True),
    "settle_not_happened": lambda drill: drill._settle(False),
    "start_over": Drill._start_over,
}


def _heard(result: ToolResult, replayed: bool = False) -> _Heard:
    """Code and words of an answer."""
    if result.error is not None:
        return result.error.code, words("ledger_lab.heard.failed", code=result.error.code)
    ticket = result.data["ticket_id"]
    return "ok", words("ledger_lab.heard.replayed" if replayed else "ledger_lab.heard.ok", ticket=ticket)


def _kept(entry: Entry) -> Kept:
    outcome = json.loads(entry.outcome or "{}")
    short = outcome["data"]["ticket_id"] if outcome.get("data") else outcome.get("error", {}).get("code")
    return Kept(entry.key, entry.state.value, entry.live, entry.returned, short, tuple(entry.notes.splitlines()))

"""Chapter 07b's exercises: where the claim goes, what an answer of the world settles, what is known at all."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from keel.contracts import ToolFailure
from keel.lab.exercises.model import Case, Exercise, Mistake, Trial, outcome
from keel.ledger import Entry, State
from keel.settling import Answer, CannotTell, Happened, NotHappened

# --- 07b-a: place the claim -----------------------------------------------------------------------------------------


def durable_write_stub(disk, memory, effect): ...


def durable_write_solution(disk, memory, effect):
    entry = disk.read()
    if entry is None:
        disk.write({"state": "running"})
        entry = {"state": "done", "ticket": effect()}
        disk.write(entry)
    if entry["state"] == "running":
        raise ToolFailure("outcome_unknown", "It was begun, and nobody knows whether it happened.")
    return entry["ticket"]


def durable_write_claims_after(disk, memory, effect):
    if disk.read() is None:
        disk.write({"state": "done", "ticket": effect()})
    return disk.read()["ticket"]


def durable_write_in_memory(disk, memory, effect):
    if memory.read() == "running":
        raise ToolFailure("outcome_unknown", "It was begun, and nobody knows whether it happened.")
    if disk.read() is None:
        memory.write("running")
        disk.write(effect())
        memory.write("done")
    return disk.read()


def durable_write_reruns(disk, memory, effect):
    entry = disk.read()
    if entry is None or entry["state"] == "running":
        disk.write({"state": "running"})
        entry = {"state": "done", "ticket": effect()}
        disk.write(entry)
    return entry["ticket"]


def durable_write_calls_done(disk, memory, effect):
    entry = disk.read()
    if entry is None:
        disk.write({"state": "running"})
        entry = {"state": "done", "ticket": effect()}
        disk.write(entry)
    return entry.get("ticket")


def durable_write_frees(disk, memory, effect):
    entry = disk.read()
    if entry is None:
        disk.write({"state": "running"})
        try:
            entry = {"state": "done", "ticket": effect()}
        except Exception:
            disk.write(None)
            raise
        disk.write(entry)
    if entry["state"] == "running":
        raise ToolFailure("outcome_unknown", "It was begun, and nobody knows whether it happened.")
    return entry["ticket"]


class _Killed(BaseException):
    """The process ends here. Not an Exception, so that `except Exception` lets it out."""


class _Machine:
    """A disk, a memory and a desk for tickets. `kill_at` names the step at which its process is killed, once.

    `before_the_claim` is the first write to the disk, before it is there; `before_the_effect` and `after_the_effect`
    are before and after the ticket is made; `while_it_ends` is the first write after that, once it is there.
    `raise_at` names the side of the ticket on which the effect raises, once: `before_its_ticket`, `after_its_ticket`.
    """

    def __init__(self, kill_at: str = "", raise_at: str = ""):
        self.kill_at, self.raise_at, self.dead, self.began = kill_at, raise_at, False, False
        self.on_disk: Any = None
        self.in_memory: Any = None
        self.tickets, self.claim = 0, "nowhere"

    def step(self, name: str) -> None:
        if self.dead or name == self.kill_at:
            self.dead = True
            raise _Killed

    def effect(self) -> str:
        if not self.began:
            self.claim = "disk" if self.on_disk is not None else "memory" if self.in_memory is not None else "nowhere"
        self.began = True
        self.step("before_the_effect")
        self.reset("before_its_ticket")
        self.tickets += 1
        self.step("after_the_effect")
        self.reset("after_its_ticket")
        return f"T-{self.tickets}"

    def reset(self, side: str) -> None:
        if side == self.raise_at:
            self.raise_at = ""
            raise ConnectionResetError("connection reset by peer")

    def start(self, answer: Callable[..., Any]) -> Any:
        """Start a process and let it make the call. Gives what came of it; a process that was killed says nothing."""
        self.dead, self.in_memory = False, None
        try:
            said = outcome(lambda: answer(_Disk(self), _Memory(self), self.effect), ConnectionResetError)
        except _Killed:
            said = None
        if self.dead:
            self.kill_at = ""
            return "killed"
        return said


class _Disk:
    """One entry, kept through a crash."""

    def __init__(self, machine: _Machine):
        self._machine, self._wrote = machine, False

    def read(self) -> Any:
        self._machine.step("disk")
        return copy.deepcopy(self._machine.on_disk)

    def write(self, entry: Any) -> None:
        machine = self._machine
        machine.step("disk" if self._wrote else "before_the_claim")
        self._wrote = True
        machine.on_disk = copy.deepcopy(entry)
        if machine.began:
            machine.step("while_it_ends")


class _Memory:
    """One entry, gone with the process."""

    def __init__(self, machine: _Machine):
        self._machine = machine

    def read(self) -> Any:
        return self._machine.in_memory

    def write(self, entry: Any) -> None:
        self._machine.in_memory = entry


def _durable_case(name: str, kill_at: str, starts: int, said: list[Any], tickets: int, claim: str = "disk") -> Case:
    """One write over some starts of a process. Seen: what each start came to, the tickets, and where the claim was.

    Killed while it ends, an answer may have kept the ticket or only its claim: it is true whichever of the two it says.
    """

    def run(answer: Callable[..., Any]) -> dict[str, Any]:
        machine = _Machine(kill_at)
        got = [machine.start(answer) for _ in range(starts)]
        if kill_at == "while_it_ends":
            got = ["true" if one in ("killed", _TICKET, _UNKNOWN) else one for one in got]
        return {"starts": got, "tickets": machine.tickets, "claim_before_effect": machine.claim}

    starting = f"{starts} start{'s' * (starts > 1)}"
    shown = f"durable_write(disk, memory, effect)  # {starting}" + (f", killed {kill_at}" if kill_at else "")
    return Case(name, shown, run, {"starts": said, "tickets": tickets, "claim_before_effect": claim})


def _raising_case(name: str, raise_at: str, tickets: int) -> Case:
    """One write over two starts, whose effect raises in the first. Seen: as in `_durable_case`.

    The first start may let the exception out, or say itself that nobody knows.
    """

    def run(answer: Callable[..., Any]) -> dict[str, Any]:
        machine = _Machine(raise_at=raise_at)
        first, second = machine.start(answer), machine.start(answer)
        first = "raised" if first in ({"raised": "ConnectionResetError"}, _UNKNOWN) else first
        return {"starts": [first, second], "tickets": machine.tickets, "claim_before_effect": machine.claim}

    shown = f"durable_write(disk, memory, effect)  # 2 starts, effect raises ConnectionResetError {raise_at}"
    return Case(name, shown, run, {"starts": ["raised", _UNKNOWN], "tickets": tickets, "claim_before_effect": "disk"})


_TICKET, _UNKNOWN = {"returned": "T-1"}, {"raised": "outcome_unknown"}

DURABLE_WRITE = Exercise(
    id="07b-a",
    name="durable_write",
    minutes=15,
    stub=durable_write_stub,
    solution=durable_write_solution,
    cases=(
        _durable_case("after_the_effect", "after_the_effect", 2, ["killed", _UNKNOWN], 1),
        _durable_case("before_the_effect", "before_the_effect", 2, ["killed", _UNKNOWN], 0),
        _durable_case("called_once_more", "after_the_effect", 4, ["killed", _UNKNOWN, _UNKNOWN, _UNKNOWN], 1),
        _durable_case("before_the_claim", "before_the_claim", 2, ["killed", _TICKET], 1),
        _raising_case("raises_after", "after_its_ticket", 1),
        _raising_case("raises_before", "before_its_ticket", 0),
        _durable_case("while_it_ends", "while_it_ends", 3, ["true"] * 3, 1),
        _durable_case("once", "", 1, [_TICKET], 1),
        _durable_case("twice", "", 2, [_TICKET, _TICKET], 1),
    ),
    mistakes=(
        Mistake(
            "in_memory",
            durable_write_in_memory,
            lambda first, _: first.got["claim_before_effect"] == "memory" and first.got["tickets"] == 2,
        ),
        Mistake(
            "claims_after",
            durable_write_claims_after,
            lambda first, _: first.got["claim_before_effect"] == "nowhere" and first.got["tickets"] == 2,
        ),
        Mistake(
            "reruns",
            durable_write_reruns,
            lambda first, _: first.case.name == "after_the_effect" and first.got["tickets"] == 2,
        ),
        Mistake(
            "calls_done",
            durable_write_calls_done,
            lambda first, _: first.got["starts"][0] == "killed" and "returned" in first.got["starts"][1],
        ),
        Mistake(
            "frees",
            durable_write_frees,
            lambda first, _: (
                first.case.name == "raises_after" and first.got["starts"] == ["raised", {"returned": "T-2"}]
            ),
        ),
    ),
)

# --- 07b-b: settle an unknown ---------------------------------------------------------------------------------------


def settle_stub(state, may_still_run, answer): ...


def settle_solution(state, may_still_run, answer):
    if state is State.CONFLICT or (state is State.RUNNING and may_still_run):
        return state
    if isinstance(answer, Happened):
        return State.DONE
    if isinstance(answer, NotHappened) and not may_still_run:
        return State.FREE
    return State.UNKNOWN


def settle_frees_unsure(state, may_still_run, answer):
    return State.FREE if isinstance(answer, CannotTell) else settle_solution(state, may_still_run, answer)


def settle_unsure_is_done(state, may_still_run, answer):
    return State.DONE if isinstance(answer, CannotTell) else settle_solution(state, may_still_run, answer)


def settle_absent_is_done(state, may_still_run, answer):
    return State.DONE if isinstance(answer, NotHappened) else settle_solution(state, may_still_run, answer)


def settle_unknown_is_failed(state, may_still_run, answer):
    return State.DONE if isinstance(answer, Happened) else State.FAILED


def settle_frees_running(state, may_still_run, answer):
    return settle_solution(state, may_still_run and state is State.RUNNING, answer)


def settle_decides_conflicts(state, may_still_run, answer):
    return settle_solution(State.UNKNOWN if state is State.CONFLICT else state, may_still_run, answer)


def _settle_case(name: str, state: State, answer: Answer, becomes: State, may_still_run: bool = False) -> Case:
    """One entry and what the world said. Seen: the new state."""
    shown = f"settle(State.{state.name}, may_still_run={may_still_run}, answer={answer!r})"
    return Case(name, shown, lambda judge: judge(state, may_still_run, answer), str(becomes))


def _is(trial: Trial, name: str, state: State) -> bool:
    return trial.case.name == name and trial.got == state


_MADE, _NONE, _SILENT = Happened({"ticket_id": "T-1"}), NotHappened(), CannotTell("the ticket system does not answer")

SETTLE = Exercise(
    id="07b-b",
    name="settle",
    minutes=10,
    stub=settle_stub,
    solution=settle_solution,
    cases=(
        _settle_case("happened", State.UNKNOWN, _MADE, State.DONE),
        _settle_case("not_happened", State.UNKNOWN, _NONE, State.FREE),
        _settle_case("cannot_tell", State.UNKNOWN, _SILENT, State.UNKNOWN),
        _settle_case("happened_late", State.UNKNOWN, _MADE, State.DONE, True),
        _settle_case("not_yet", State.UNKNOWN, _NONE, State.UNKNOWN, True),
        _settle_case("cannot_tell_yet", State.UNKNOWN, _SILENT, State.UNKNOWN, True),
        _settle_case("dead_happened", State.RUNNING, _MADE, State.DONE),
        _settle_case("dead_not_happened", State.RUNNING, _NONE, State.FREE),
        _settle_case("dead_cannot_tell", State.RUNNING, _SILENT, State.UNKNOWN),
        _settle_case("at_work", State.RUNNING, _NONE, State.RUNNING, True),
        _settle_case("at_work_happened", State.RUNNING, _MADE, State.RUNNING, True),
        _settle_case("conflict", State.CONFLICT, _NONE, State.CONFLICT),
        _settle_case("conflict_happened", State.CONFLICT, _MADE, State.CONFLICT),
    ),
    mistakes=(
        Mistake("unknown_is_failed", settle_unknown_is_failed, lambda first, _: first.got == State.FAILED),
        Mistake("absent_is_done", settle_absent_is_done, lambda _, trials: trials["not_happened"].got == State.DONE),
        Mistake("frees_unsure", settle_frees_unsure, lambda first, _: _is(first, "cannot_tell", State.FREE)),
        Mistake(
            "unsure_is_done",
            settle_unsure_is_done,
            lambda first, _: _is(first, "cannot_tell", State.DONE),
        ),
        Mistake("frees_running", settle_frees_running, lambda first, _: _is(first, "not_yet", State.FREE)),
        Mistake(
            "decides_conflicts",
            settle_decides_conflicts,
            lambda first, _: "conflict" in first.case.name and first.got in (State.FREE, State.DONE),
        ),
    ),
)

# --- 07b-c: what is known, and what comes back ----------------------------------------------------------------------


def name_state_stub(entry, age_s, tickets): ...


def name_state_solution(entry, age_s, tickets):
    live = entry is not None and entry.live
    known = "may_happen" if live else "not_happened"
    if tickets:
        known = "happened" if tickets == 1 else "twice"
    if entry is None or entry.state is State.FREE:
        return known, "run"
    if entry.state is State.RUNNING and live:
        return known, "in_progress"
    return known, "replay" if entry.state in (State.DONE, State.FAILED) else "outcome_unknown"


def name_state_ledger_alone(entry, age_s, tickets):
    state = State.FREE if entry is None else entry.state
    known = {State.DONE: "happened", State.FREE: "not_happened", State.FAILED: "not_happened"}.get(state, "may_happen")
    return known, name_state_solution(entry, age_s, tickets)[1]


def name_state_clock(entry, age_s, tickets):
    if entry is not None and entry.state is State.RUNNING:
        entry = entry._replace(live=age_s < 60)
    return name_state_solution(entry, age_s, tickets)


def name_state_world_answers(entry, age_s, tickets):
    known, answer = name_state_solution(entry, age_s, tickets)
    if answer == "outcome_unknown":
        answer = {"happened": "replay", "not_happened": "run"}.get(known, answer)
    return known, answer


def name_state_always_lives(entry, age_s, tickets):
    if entry is not None:
        entry = entry._replace(live=entry.state is State.RUNNING)
    return name_state_solution(entry, age_s, tickets)


def _entry(state: State, live: bool) -> Entry:
    return Entry(
        key="k-1", digest="d", tool="create_ticket", version="1.0", arguments="{}", caller="{}", call_id="c-1",
        token="t", state=state, returned=state in (State.DONE, State.FAILED), live=live,
    )  # fmt: skip


def _name_case(
    name: str, state: State | None, age_s: int, tickets: int, known: str, answer: str, live: bool = False
) -> Case:
    """One entry, an age and a world. Seen: the two words, whatever they are put into."""

    def run(judge: Callable[..., Any]) -> Any:
        returned = judge(None if state is None else _entry(state, live), age_s, tickets)
        return tuple(returned) if isinstance(returned, list) else returned

    entry = "None" if state is None else f"entry(state=State.{state.name}, live={live})"
    return Case(name, f"name_state({entry}, age_s={age_s}, tickets={tickets})", run, (known, answer))


NAME_STATE = Exercise(
    id="07b-c",
    name="name_state",
    minutes=15,
    stub=name_state_stub,
    solution=name_state_solution,
    cases=(
        _name_case("new", None, 0, 0, "not_happened", "run"),
        _name_case("done", State.DONE, 9, 1, "happened", "replay"),
        _name_case("at_work", State.RUNNING, 2, 0, "may_happen", "in_progress", True),
        _name_case("at_work_long", State.RUNNING, 7200, 0, "may_happen", "in_progress", True),
        _name_case("at_work_made", State.RUNNING, 2, 1, "happened", "in_progress", True),
        _name_case("killed_before", State.RUNNING, 2, 0, "not_happened", "outcome_unknown"),
        _name_case("killed_after", State.RUNNING, 2, 1, "happened", "outcome_unknown"),
        _name_case("killed_long_ago", State.RUNNING, 7200, 1, "happened", "outcome_unknown"),
        _name_case("abandoned", State.UNKNOWN, 40, 0, "may_happen", "outcome_unknown", True),
        _name_case("abandoned_made", State.UNKNOWN, 40, 1, "happened", "outcome_unknown", True),
        _name_case("unknown", State.UNKNOWN, 40, 0, "not_happened", "outcome_unknown"),
        _name_case("freed", State.FREE, 40, 0, "not_happened", "run"),
        _name_case("failed", State.FAILED, 40, 0, "not_happened", "replay"),
        _name_case("went_around", None, 0, 1, "happened", "run"),
        _name_case("done_twice", State.DONE, 9, 2, "twice", "replay"),
    ),
    mistakes=(
        Mistake(
            "trusts_the_clock",
            name_state_clock,
            lambda _, trials: (
                trials["at_work_long"].got != trials["at_work"].got
                or trials["killed_after"].got != trials["killed_long_ago"].got
            ),
        ),
        Mistake(
            "ledger_alone",
            name_state_ledger_alone,
            lambda first, trials: (
                first.got[0] != first.case.expected[0] and trials["killed_before"].got == trials["killed_after"].got
            ),
        ),
        Mistake(
            "always_lives",
            name_state_always_lives,
            lambda _, trials: trials["killed_before"].got == ("may_happen", "in_progress"),
        ),
        Mistake(
            "world_answers",
            name_state_world_answers,
            lambda first, _: first.case.name.startswith("killed") and first.got[1] in ("run", "replay"),
        ),
    ),
)

EXERCISES = (DURABLE_WRITE, SETTLE, NAME_STATE)

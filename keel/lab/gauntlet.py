"""The gauntlet: named cases, fired at whatever can handle a request, and judged by looking at the world.

`run_gauntlet(make)` calls `make(world)` for each case, over a world of its own, and gets a `Subject`
back: a `handle` and what else it has. A case is a short script over that. Its verdict is one of six;
being right by accident does not count, so every case first shows that an honest call gets through.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module
from typing import Any

from keel.approval import ApprovalDesk, Question
from keel.contracts import ExecutionContext, Principal, ToolRequest, ToolResult

from .chapters import position
from .world import World, everything

HUNG_S = 0.2  # how long a case may take once a body hangs
_STUCK_S = 10.0  # how long a case may take in which none does


class Verdict(StrEnum):
    """How a case ended."""

    RIGHT = "right"
    WRONG = "wrong outcome"
    CRASHED = "crashed"
    DAMAGE = "did damage"
    HUNG = "hung"
    NOT_BUILT = "not built yet"


@dataclass(frozen=True)
class Subject:
    """What is tested. `lacks` names the chapters whose stage it has neither built nor naively.

    `execute_many(requests, context)` answers a whole turn, in its order. `restart(died)` gives
    another process on the same files and the same world: after the first one has died, or beside it.
    `desk` is where a person is asked. `agent(model)` gives something with `run(goal, context)` and
    `resume(run, context)`.
    """

    handle: Callable[[ToolRequest, ExecutionContext], Any]
    message: Callable[[ToolRequest, Any], str] | None = None
    read: Callable[[list[Any]], list[ToolRequest]] | None = None
    execute_many: Callable[[list[ToolRequest], ExecutionContext], list[Any]] | None = None
    restart: Callable[[bool], Subject] | None = None
    desk: ApprovalDesk | None = None
    agent: Callable[[Any], Any] | None = None
    lacks: frozenset[str] = frozenset()


Make = Callable[[World], Subject]


@dataclass(frozen=True)
class Outcome:
    """One case's end as data. `expected` and `got` are codes or short phrases; `world` is what it shows."""

    case: str
    chapter: str
    verdict: Verdict
    expected: str
    got: str
    world: str


@dataclass(frozen=True)
class Case:
    """One named case: its script, its world, and the damage that is no damage here (tickets that were meant)."""

    id: str
    chapter: str
    script: Callable[[Trial], None]
    tickets: int = 0
    unasked: tuple[str, ...] = ()
    patience_s: float = 30.0

    def world(self) -> World:
        """A new world for one run of this case."""
        return World(unasked=self.unasked, patience_s=self.patience_s)


CASES: dict[str, Case] = {}


def case(chapter: str, **options: Any) -> Callable:
    """Register a script as a case of this chapter, under the function's name. Options are Case's fields."""

    def register(script: Callable[[Trial], None]) -> Callable[[Trial], None]:
        CASES[script.__name__] = Case(script.__name__, chapter, script, **options)
        return script

    return register


class Unmet(Exception):
    """Raised by a case's script: what was expected is not what came."""

    def __init__(self, expected: str, got: str):
        self.expected, self.got = expected, got
        super().__init__(f"expected {expected}, got {got}")


class Trial:
    """One run of one case: the subject, its world, and the few words that scripts are written in."""

    def __init__(self, subject: Subject, world: World):
        self.subject, self.world = subject, world
        self.expected = self.got = ""

    def send(self, name: str, arguments: Any, context: ExecutionContext | None = None) -> Any:
        """Hand a request to the subject, as the principal that may do everything unless told otherwise."""
        self.request = ToolRequest(provider_id="call_1", name=name, arguments=arguments)
        answer = self.subject.handle(self.request, context or everything())
        self.got = code_of(answer)
        return answer

    def expect(self, code: str, name: str, arguments: Any, context: ExecutionContext | None = None) -> Any:
        """Send a request whose answer must have this code; `ok` stands for none. Gives the answer."""
        self.expected = code
        answer = self.send(name, arguments, context)
        if code_of(answer) != code:
            raise Unmet(code, code_of(answer))
        return answer

    def require(self, holds: bool, expected: str, got: str) -> None:
        """Something else that must hold, in words."""
        if not holds:
            raise Unmet(expected, got)

    def expect_stream(self, code: str, chunks: list[Any]) -> Any:
        """Let the subject read a stream, and send it the first request in it. Gives the answer."""
        self.expected = code
        self.request = self.subject.read(chunks)[0]
        answer = self.subject.handle(self.request, everything())
        self.got = code_of(answer)
        if self.got != code:
            raise Unmet(code, self.got)
        return answer

    def begin_and_stop(self, name: str, arguments: Any) -> None:
        """Send a request whose body stands still on its way, as in a process that dies there."""
        request = ToolRequest(provider_id="call_1", name=name, arguments=arguments)
        threading.Thread(target=self._never_mind, args=(request,), daemon=True).start()
        self.require(self.world.stopped.wait(_STUCK_S), "the body to begin", "a body that never began")

    def _never_mind(self, request: ToolRequest) -> None:
        with suppress(BaseException):  # that process is dead: nobody hears what comes of it
            self.subject.handle(request, everything())

    def another_process(self, *, died: bool) -> None:
        """Go on with another process on the same files, after the first has died or while it lives."""
        self.require(self.subject.restart is not None, "another process", "none")
        self.subject = self.subject.restart(died)

    def the_question(self) -> Question:
        """The one question that waits for a person now."""
        waiting = [] if self.subject.desk is None else self.subject.desk.pending()
        self.require(len(waiting) == 1, "one question to a person", f"{len(waiting)} questions")
        return waiting[0]

    def expect_turn(self, codes: str, requests: list[ToolRequest]) -> list[Any]:
        """Send a whole turn. The answers must be as many and have these codes, in order. Gives the answers."""
        self.expected = codes
        self.require(self.subject.execute_many is not None, codes, "no answer to a whole turn")
        answers = self.subject.execute_many(requests, everything())
        self.got = " ".join(map(code_of, answers))
        if self.got != codes:
            raise Unmet(codes, self.got or "nothing")
        return answers

    def untouched(self, *bodies: str) -> None:
        """None of these bodies may have begun since the honest call."""
        ran = [name for name in self.world.ran if name in bodies]
        self.require(not ran, "no body to run", f"{', '.join(ran)} to run")

    def honest_call(self) -> None:
        """An honest call must get through, or every refusal would look right."""
        answer = self.expect("ok", "add", {"a": 2, "b": 3})
        self.require(data_of(answer) == 5, "2 + 3 is 5", str(data_of(answer)))
        self.expected = ""
        self.world.ran.clear()


def code_of(answer: Any) -> str:
    """`ok`, or the error's code. What is no ToolResult is taken as what it looks like: an answer."""
    if isinstance(answer, ToolResult) and answer.error is not None:
        return answer.error.code
    return "ok"


def data_of(answer: Any) -> Any:
    """What came back, plain: the data of a ToolResult, a model as a dict."""
    data = answer.data if isinstance(answer, ToolResult) else answer
    return data.model_dump() if hasattr(data, "model_dump") else data


def message_of(answer: Any) -> str:
    """The error's message, or nothing."""
    return answer.error.message if isinstance(answer, ToolResult) and answer.error else ""


def run_gauntlet(make: Make, cases: Iterable[Case] | None = None) -> list[Outcome]:
    """Run every case (or these) and give one Outcome each, in the order of the chapters.

    Each case gets a world of its own and runs in a thread of its own, so that one which hangs is
    left behind and judged. Raises nothing that a subject could cause.
    """

    import_module("keel.lab.cases_effects")  # they register themselves; this one stands on the other
    chosen = list(CASES.values() if cases is None else cases)
    return [_judge(make, one) for one in sorted(chosen, key=lambda one: position(one.chapter))]


def _judge(make: Make, one: Case) -> Outcome:
    world = one.world()
    try:
        subject = make(world)
    except KeyboardInterrupt:
        raise
    except BaseException as raised:  # a learner's own, and it may not even get made
        return Outcome(one.id, one.chapter, Verdict.CRASHED, "", type(raised).__name__, world.shows())
    if one.chapter in subject.lacks:
        return Outcome(one.id, one.chapter, Verdict.NOT_BUILT, "", "", world.shows())
    trial = Trial(subject, world)
    ended: list[BaseException | None] = []
    thread = threading.Thread(target=_play, args=(one, trial, ended), daemon=True)
    thread.start()
    _wait(thread, world)
    verdict, got = _verdict(one, trial, ended)
    shows = world.shows()
    world.release()  # whoever hangs may end now; what it does to this world counts no more
    return Outcome(one.id, one.chapter, verdict, trial.expected, got, shows)


def _play(one: Case, trial: Trial, ended: list[BaseException | None]) -> None:
    try:
        trial.honest_call()
        one.script(trial)
        ended.append(None)
    except BaseException as raised:  # a subject may let anything escape, SystemExit too
        ended.append(raised)


def _wait(thread: threading.Thread, world: World) -> None:
    """Wait until a case ends, or a body hangs and the subject has had its time to notice.

    The clock starts when the world says that a body hangs: a busy machine makes no case hang.
    """
    give_up = time.monotonic() + _STUCK_S
    while thread.is_alive() and time.monotonic() < give_up:
        if world.hanging.is_set():
            thread.join(HUNG_S)
            return
        thread.join(0.002)


def _verdict(one: Case, trial: Trial, ended: list[BaseException | None]) -> tuple[Verdict, str]:
    """Damage first: whatever was answered, the world has it."""
    raised = ended[0] if ended else None
    if isinstance(raised, Unmet):
        trial.expected = raised.expected
    if trial.world.marks or len(trial.world.tickets) > one.tickets:
        return Verdict.DAMAGE, trial.got or "an exception"
    if not ended:
        return Verdict.HUNG, "no answer"
    if raised is None:
        return Verdict.RIGHT, trial.got
    if isinstance(raised, Unmet):
        return Verdict.WRONG, raised.got
    return Verdict.CRASHED, type(raised.__cause__ or raised).__name__


def score(outcomes: Iterable[Outcome]) -> tuple[int, int]:
    """How many are right, of how many that are built."""
    built = [one for one in outcomes if one.verdict is not Verdict.NOT_BUILT]
    return sum(one.verdict is Verdict.RIGHT for one in built), len(built)


def as_principal(*, permissions: Iterable[str] = (), teams: Iterable[str] = ()) -> ExecutionContext:
    """Somebody who may do just this."""
    return ExecutionContext(principal=Principal(id="bo", permissions=permissions, teams=teams))

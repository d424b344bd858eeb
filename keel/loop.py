"""The loop: a model proposes, the harness disposes, until there is an answer or a reason to stop.

A `Run` is data. It can be put aside at any moment, in the middle of a turn too, and be taken up in
another process: its calls keep their ids, so a write that was done is replayed and not done again. A
read that was under way is read again.
"""

from __future__ import annotations

import operator
import threading
import time
from collections import deque
from collections.abc import Callable
from enum import StrEnum
from functools import partial
from typing import Annotated, Any
from uuid import uuid4

from pydantic import BaseModel, ConfigDict, Field

from .adapters import ModelFailure, assistant_message, kind_of, printable, to_message
from .canonical import digest
from .contracts import ErrorCode, ExecutionContext, Frozen, ToolCall, ToolError, ToolRequest, ToolResult
from .harness import Harness
from .history import History
from .models import Model
from .output import MESSAGE_BYTES, capped
from .recovery import Action, next_step

Count = Annotated[int, Field(ge=0)]


class Stop(StrEnum):
    """Why a run stands still."""

    ANSWERED = "answered"
    BUDGET_EXCEEDED = "budget_exceeded"
    APPROVAL_PENDING = "approval_pending"
    STUCK = "stuck"
    MODEL_FAILED = "model_failed"
    CANCELLED = "cancelled"


class Budget(Frozen):
    """What a run may use in all, over all its pauses. None is no limit.

    `turns` of the model, failed ones too. `calls` of tools: each counts when it first begins,
    however often it is taken up again, and so does each retry. `seconds` in which it was running:
    they stop what can be stopped, and the model's own turn has only the model's own timeout.
    `tokens` as the provider counts them, known after a turn: the last may go over, and of a provider
    that does not count none are used. `retries` of a read that says it may work another time.
    `same_failure`: in how many turns in a row the same call may fail before the run is stuck.
    `history_bytes`: above that, old results are shortened.
    """

    turns: Count | None = 20
    calls: Count | None = 50
    seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    tokens: Count | None = None
    retries: Count = 1
    same_failure: Annotated[int, Field(ge=1)] = 3
    history_bytes: Count = 256 * 1024


class Pending(Frozen):
    """One call of the last turn: what the model sent, our own record of it if it could be read, and its result.

    `begun` says that it has been counted. If it has no result all the same, it was under way when
    the run was broken off. The result `approval_required` is no answer yet: it waits for a person.
    """

    request: ToolRequest
    call: ToolCall | None = None
    begun: bool = False
    result: ToolResult | None = None


class Run(BaseModel):
    """A run as data: where it stands, what it has used, and the conversation so far.

    `turn` holds the calls of the last turn until all of them are answered, and `refused` counts
    those of it that the budget had no room for. `failures` counts in how many turns in a row the
    same call failed, by the digest of its name, arguments and code. `principal` is whom it is for.
    Save it with `model_dump_json()`, and read it back with `Run.model_validate_json(text)`.
    """

    model_config = ConfigDict(extra="forbid")

    goal: str
    run_id: str = Field(default_factory=lambda: uuid4().hex)
    principal: str | None = None
    messages: list[dict[str, Any]] = Field(default_factory=list)
    turn: list[Pending] = Field(default_factory=list)
    turns: int = 0
    calls: int = 0
    refused: int = 0
    seconds: float = 0.0
    tokens: int = 0
    failures: dict[str, int] = Field(default_factory=dict)
    stopped: Stop | None = None
    why: str = ""
    answer: str | None = None


class Agent:
    """Lets a model work towards a goal, within a budget, through a harness.

    `keep(run)` is called whenever the run has changed, and always before the model is asked and
    before a call begins: whoever saves it there can take it up after a crash, with a ledger that
    outlives the process. It may print how far the run is. `cancel` ends the run after what has begun.
    """

    def __init__(
        self,
        model: Model,
        harness: Harness,
        budget: Budget | None = None,
        *,
        system: str | None = None,
        keep: Callable[[Run], None] = lambda run: None,
        cancel: threading.Event | None = None,
    ):
        self.model, self.harness, self.budget = model, harness, budget or Budget()
        self.system, self.keep, self.cancel = system, keep, cancel or threading.Event()

    def run(self, goal: str, context: ExecutionContext) -> Run:
        """Work on a goal until there is a reason to stop. The context's principal is whom the run is for."""
        said = [("system", self.system)] if self.system else []
        messages = [{"role": role, "content": printable(text)} for role, text in [*said, ("user", goal)]]
        return self.resume(Run(goal=printable(goal), run_id=context.run_id, messages=messages), context)

    def resume(self, run: Run, context: ExecutionContext) -> Run:
        """Go on with a run that stands still, from where it is. Its budget is what is left of it.

        Gives the same object, changed. Whatever is raised on the way, it can be taken up again.
        Raises ValueError for a context of another run or principal: the keys of its writes would be
        others, and what was done might be done again.
        """
        if context.run_id != run.run_id:
            raise ValueError("this run began under another run_id: resume it with a context that has the same one")
        if run.principal not in (None, context.principal.id):
            raise ValueError("take a run up for the principal whose it is")
        if run.stopped is Stop.ANSWERED:
            return run
        _change(run, principal=context.principal.id, stopped=None, why="")
        history = History(self.budget.history_bytes)
        self._note("start", "ok", run)
        try:
            while run.stopped is None:
                began = time.monotonic()
                try:
                    self._step(run, self._with_deadline(run, context), history)
                finally:
                    run.seconds += time.monotonic() - began
                    self.keep(run)
        finally:
            self._note("stop", run.stopped or "interrupted", run)
        return run

    def _note(self, stage: str, outcome: str, run: Run, began_ns: int | None = None, **more: Any) -> None:
        """Tell the harness's trace, if it keeps one."""
        if self.harness.trace is not None:
            self.harness.trace.note(stage, outcome, run.run_id, began_ns=began_ns, **more)

    def _step(self, run: Run, context: ExecutionContext, history: History) -> None:
        """One thing more: answer the calls that wait, or ask the model for its next turn."""
        if run.turn:
            self._answer_calls(run, context)
        elif (exhausted := self._exhausted(run, context)) is not None:
            _change(run, stopped=Stop.BUDGET_EXCEEDED, why=exhausted)
        elif self.cancel.is_set():
            _change(run, stopped=Stop.CANCELLED, why="the caller gave up")
        else:
            self._ask_model(run, context, history)

    def _ask_model(self, run: Run, context: ExecutionContext, history: History) -> None:
        _change(run, turns=run.turns + 1)
        self.keep(run)  # or a process that dies with every turn would ask for ever
        began = None if self.harness.trace is None else self.harness.trace.clock()
        try:
            turn = self.model.complete(history.of(run.messages), self.harness.registry.shown(context.principal))
        except ModelFailure as failure:
            self._note("model", Stop.MODEL_FAILED, run, began)
            _change(run, stopped=Stop.MODEL_FAILED, why=printable(str(failure)))
            return
        self._note("model", "ok", run, began, **{"keel.tokens": turn.tokens, "keel.requests": len(turn.requests)})
        # The ids are minted before anything runs, and are kept: they are what a resumed call is known by.
        pending = [self._read(request, context) for request in turn.requests]
        now: dict[str, Any] = {"turn": pending, "refused": 0, "tokens": run.tokens + turn.tokens}
        if not pending:
            now |= {"answer": printable(turn.text), "stopped": Stop.ANSWERED, "why": "the model proposed no more calls"}
        _change(run, assistant_message(turn), **now)

    def _read(self, request: ToolRequest, context: ExecutionContext) -> Pending:
        read = self.harness.read(request, context)
        if isinstance(read, ToolCall):
            return Pending(request=request, call=read)
        storable = {"name": read.tool_name, "arguments": _in_words(request.arguments), "problem": None}
        return Pending(request=request.model_copy(update=storable), result=read)

    def _answer_calls(self, run: Run, context: ExecutionContext) -> None:
        """Carry out what is not answered yet. When all is, it goes back to the model, in call order."""
        in_doubt = _under_way(run)
        self._begin(run)
        self.keep(run)
        begun = _under_way(run)
        calls = [run.turn[at].call for at in begun]
        results = dict(zip(begun, self.harness.execute_many(calls, context, cancel=self.cancel), strict=True))
        _settle(run, results | {at: self._not_denied(run.turn[at].call, results[at]) for at in in_doubt})
        for at in begun:
            self._retry(run, at, context)
        asked = [one.call.name for one in run.turn if _waits(one)]
        if asked:
            _change(run, stopped=Stop.APPROVAL_PENDING, why=f"a person has to agree: {', '.join(asked)}")
        else:
            self._hand_back(run)

    def _begin(self, run: Run) -> None:
        """Count what begins for the first time, as far as the budget goes; the rest is answered without."""
        fresh = [at for at, one in enumerate(run.turn) if one.result is None and not one.begun]
        affordable = self._affordable(run, len(fresh))
        turn = [one.model_copy(update={"result": None}) if _waits(one) else one for one in run.turn]
        for number, at in enumerate(fresh):
            over = None if number < affordable else _failed(turn[at].call, ErrorCode.BUDGET_EXCEEDED, _USED_UP)
            turn[at] = turn[at].model_copy(update={"begun": over is None, "result": over})
            if over is not None:  # it walks no line
                self._note("answer", over.error.code, run, call_id=over.call_id, tool=over.tool_name)
        _change(run, turn=turn, calls=run.calls + affordable)

    def _not_denied(self, call: ToolCall, result: ToolResult) -> ToolResult:
        """The result of a call that was under way when the run was broken off, and may have run before it was asked."""
        if _code(result) not in (ErrorCode.CANCELLED, ErrorCode.UNAVAILABLE) or self.harness.reads(call):
            return result
        message = f"The run was broken off while this {call.name} was under way: it may have happened or not."
        return _failed(call, ErrorCode.OUTCOME_UNKNOWN, message, result.tool_version)

    def _retry(self, run: Run, at: int, context: ExecutionContext) -> None:
        """Repeat a call as the table and the tool allow: a read, a few times, and within the budget."""
        for _ in range(self.budget.retries):
            one, error = run.turn[at].call, run.turn[at].result.error
            wanted = error is not None and next_step(error).action is Action.RETRY and self.harness.reads(one)
            if not wanted or self.cancel.is_set() or _passed(context.deadline) or not self._affordable(run, 1):
                return
            _change(run, calls=run.calls + 1)
            self.keep(run)
            _settle(run, {at: self.harness.execute(one, context)})

    def _hand_back(self, run: Run) -> None:
        """All answers at once, in call order. What fails again in the same words does not stop by itself."""
        failing = {_sameness(one): one.result.tool_name for one in run.turn if _code(one.result) not in _NO_FAILURE}
        failures = {key: run.failures.get(key, 0) + 1 for key in failing}
        refused = sum(one.call is not None and not one.begun for one in run.turn)
        now: dict[str, Any] = {"turn": [], "failures": failures, "refused": refused}
        for key, name in failing.items():
            if failures[key] >= self.budget.same_failure:
                why = f"{name} failed {failures[key]} times in a row with the same arguments"
                now |= {"stopped": Stop.STUCK, "why": why}
        answers = [to_message(one.request, capped(one.result, MESSAGE_BYTES)) for one in run.turn]
        _change(run, *answers, **now)

    def _affordable(self, run: Run, wanted: int) -> int:
        calls = self.budget.calls
        return wanted if calls is None else max(0, min(wanted, calls - run.calls))

    def _exhausted(self, run: Run, context: ExecutionContext) -> str | None:
        """Which part of the budget is used up, in words; None if the model may be asked.

        With its calls used up it may still answer: only if it wanted more of them, they are what it lacks.
        """
        for what in ("turns", "calls", "seconds", "tokens"):
            limit, used = getattr(self.budget, what), getattr(run, what)
            if limit is not None and used >= limit and (what != "calls" or run.refused):
                return f"{what}: {used:g} of {limit:g} used"
        return "the deadline has passed" if _passed(context.deadline) else None

    def _with_deadline(self, run: Run, context: ExecutionContext) -> ExecutionContext:
        if self.budget.seconds is None:
            return context
        ends = time.monotonic() + max(0.0, self.budget.seconds - run.seconds)
        deadline = ends if context.deadline is None else min(ends, context.deadline)
        return context.model_copy(update={"deadline": deadline})


_USED_UP = "The calls of this run are used up. Nothing ran."
_NO_FAILURE = (None, ErrorCode.BUDGET_EXCEEDED, ErrorCode.CANCELLED)  # what says nothing of the call itself


def _change(run: Run, *said: dict[str, Any], **now: Any) -> None:
    """Add messages and set fields, all or nothing: no interrupt comes in between, where no line of Python runs."""
    deque(map(operator.call, (partial(run.messages.extend, said), partial(vars(run).update, now))), maxlen=0)


def _settle(run: Run, results: dict[int, ToolResult]) -> None:
    turn = list(run.turn)
    for at, result in results.items():
        turn[at] = turn[at].model_copy(update={"result": result})
    _change(run, turn=turn)


def _under_way(run: Run) -> list[int]:
    """The places of the calls that have begun and have no result."""
    return [at for at, one in enumerate(run.turn) if one.begun and one.result is None]


def _code(result: ToolResult | None) -> str | None:
    return None if result is None or result.error is None else result.error.code


def _waits(one: Pending) -> bool:
    """Whether it waits for a person."""
    return _code(one.result) == ErrorCode.APPROVAL_REQUIRED


def _passed(deadline: float | None) -> bool:
    return deadline is not None and not time.monotonic() < deadline  # one of NaN has passed


def _failed(call: ToolCall, code: ErrorCode, message: str, version: str | None = None) -> ToolResult:
    error = ToolError(code=code, message=message)
    return ToolResult(call_id=call.call_id, tool_name=call.name, tool_version=version, ok=False, error=error)


def _in_words(sent: Any) -> str:
    """Arguments that could not be read, as text that JSON can hold."""
    try:
        return printable(str(sent))
    except (ValueError, RecursionError):  # a number of thousands of digits, lists in lists in lists
        return kind_of(sent)


def _sameness(one: Pending) -> str:
    """What makes two failing calls the same: never their ids, which differ each time."""
    sent = one.request.arguments if one.call is None else one.call.arguments
    return digest([one.result.tool_name, sent, _code(one.result)])

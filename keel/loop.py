"""The loop: a model proposes, the harness disposes, until there is an answer or a reason to stop.

A `Run` is data. It can be put aside at any moment, in the middle of a turn too, and be taken up in
another process: its calls keep their ids, so what was done already is replayed and not done again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from enum import StrEnum
from typing import Any
from uuid import uuid4

from pydantic import BaseModel, ConfigDict, Field

from .adapters import ModelFailure, assistant_message, to_message
from .canonical import digest
from .contracts import ErrorCode, ExecutionContext, Frozen, ToolCall, ToolError, ToolRequest, ToolResult
from .harness import Harness
from .models import Model
from .output import MESSAGE_BYTES, capped
from .recovery import Action, next_step

_KEPT_CHARACTERS = 200  # of an old result, in a history that has become too long


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

    `turns` of the model, `calls` of tools (retries count), `seconds` in which it was running,
    `tokens` as the provider counts them. `retries` of a read that says it may work another time.
    `same_failure`: how often the same failing call may come before the run is stuck.
    `history_bytes`: above that, old results are shortened.
    """

    turns: int | None = 20
    calls: int | None = 50
    seconds: float | None = None
    tokens: int | None = None
    retries: int = 1
    same_failure: int = 3
    history_bytes: int = 256 * 1024


class Pending(Frozen):
    """One call of the last turn: what the model sent, our own record of it if it could be read, and its result."""

    request: ToolRequest
    call: ToolCall | None = None
    result: ToolResult | None = None


class Run(BaseModel):
    """A run as data: where it stands, what it has used, and the conversation so far.

    `turn` holds the calls of the last turn until all of them are answered. `failures` counts the
    same failing call by the digest of its name, arguments and code. Save it with
    `model_dump_json()`, and read it back with `Run.model_validate_json(text)`.
    """

    model_config = ConfigDict(extra="forbid")

    goal: str
    run_id: str = Field(default_factory=lambda: uuid4().hex)
    messages: list[dict[str, Any]] = Field(default_factory=list)
    turn: list[Pending] = Field(default_factory=list)
    turns: int = 0
    calls: int = 0
    seconds: float = 0.0
    tokens: int = 0
    failures: dict[str, int] = Field(default_factory=dict)
    stopped: Stop | None = None
    why: str = ""
    answer: str | None = None


class Agent:
    """Lets a model work towards a goal, within a budget, through a harness.

    `keep(run)` is called whenever the run has changed, and always before a call begins: whoever
    saves it there can take it up after a crash. It may print how far the run is. `cancel` ends the
    run after what has begun.
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
        self.system, self.keep, self.cancel = system, keep, cancel

    def run(self, goal: str, context: ExecutionContext) -> Run:
        """Work on a goal until there is a reason to stop. The context's principal is whom the run is for."""
        messages = [{"role": "system", "content": self.system}] if self.system else []
        run = Run(goal=goal, run_id=context.run_id, messages=[*messages, {"role": "user", "content": goal}])
        return self.resume(run, context)

    def resume(self, run: Run, context: ExecutionContext) -> Run:
        """Go on with a run that stands still, from where it is. Its budget is what is left of it.

        Gives the same object, changed. Raises ValueError for a context of another run: its keys
        would be others, and what was done might be done again.
        """
        if context.run_id != run.run_id:
            raise ValueError("take a run up with a context of its own run_id")
        if run.stopped is Stop.ANSWERED:
            return run
        run.stopped, run.why = None, ""
        while run.stopped is None:
            began = time.monotonic()
            try:
                self._step(run, self._with_deadline(run, context))
            finally:
                run.seconds += time.monotonic() - began
                self.keep(run)
        return run

    def _step(self, run: Run, context: ExecutionContext) -> None:
        """One thing more: answer the calls that wait, or ask the model for its next turn."""
        if run.turn:
            self._answer_calls(run, context)
        elif (exhausted := self._exhausted(run)) is not None:
            _stop(run, Stop.BUDGET_EXCEEDED, exhausted)
        elif self.cancel is not None and self.cancel.is_set():
            _stop(run, Stop.CANCELLED, "the caller gave up")
        else:
            self._ask_model(run, context)

    def _ask_model(self, run: Run, context: ExecutionContext) -> None:
        history = shortened(run.messages, self.budget.history_bytes)
        try:
            turn = self.model.complete(history, self.harness.registry.schemas(context.principal))
        except ModelFailure as failure:
            _stop(run, Stop.MODEL_FAILED, str(failure))
            return
        run.turns += 1
        run.tokens += turn.tokens
        run.messages.append(assistant_message(turn))
        # The ids are minted before anything runs, and are kept: they are what a resumed call is known by.
        run.turn = [Pending(request=request, **self._read(request, context)) for request in turn.requests]
        if not run.turn:
            run.answer = turn.text
            _stop(run, Stop.ANSWERED, "the model proposed no more calls")

    def _read(self, request: ToolRequest, context: ExecutionContext) -> dict[str, Any]:
        read = self.harness.read(request, context)
        return {"result": read} if isinstance(read, ToolResult) else {"call": read}

    def _answer_calls(self, run: Run, context: ExecutionContext) -> None:
        """Carry out what is not answered yet. When all is, it goes back to the model, in call order."""
        waiting = [at for at, one in enumerate(run.turn) if one.result is None]
        affordable = self._affordable(run, len(waiting))
        for at in waiting[affordable:]:
            self._settle(run, at, _over_budget(run.turn[at].call))
        begin = waiting[:affordable]
        run.calls += len(begin)
        self.keep(run)
        results = self.harness.execute_many([run.turn[at].call for at in begin], context, cancel=self.cancel)
        for at, result in zip(begin, results, strict=True):
            if result.error is None or result.error.code != ErrorCode.APPROVAL_REQUIRED:
                self._settle(run, at, self._retried(run, run.turn[at].call, result, context))
        asked = [one.call.name for one in run.turn if one.result is None]
        if asked:
            _stop(run, Stop.APPROVAL_PENDING, f"a person has to agree: {', '.join(asked)}")
            return
        run.messages += [to_message(one.request, capped(one.result, MESSAGE_BYTES)) for one in run.turn]
        self._look_for_rut(run)
        run.turn = []

    def _settle(self, run: Run, at: int, result: ToolResult) -> None:
        run.turn[at] = run.turn[at].model_copy(update={"result": result})

    def _retried(self, run: Run, call: ToolCall, result: ToolResult, context: ExecutionContext) -> ToolResult:
        """The result, after the retries that the table and the tool allow: of reads, and a few."""
        for _ in range(self.budget.retries):
            if result.error is None or next_step(result.error).action is not Action.RETRY:
                break
            if not self.harness.reads(call) or not self._affordable(run, 1):
                break
            run.calls += 1
            result = self.harness.execute(call, context)
        return result

    def _look_for_rut(self, run: Run) -> None:
        """Count the failing calls of this turn: what fails again in the same words does not stop by itself."""
        failing = {
            digest([one.request.name, str(one.request.arguments), one.result.error.code]): one.request.name
            for one in run.turn
            if one.result.error is not None
        }
        run.failures = {key: run.failures.get(key, 0) + 1 for key in failing}
        for key, name in failing.items():
            if run.failures[key] >= self.budget.same_failure:
                _stop(run, Stop.STUCK, f"{name} failed {run.failures[key]} times in a row with the same arguments")

    def _affordable(self, run: Run, wanted: int) -> int:
        calls = self.budget.calls
        return wanted if calls is None else max(0, min(wanted, calls - run.calls))

    def _exhausted(self, run: Run) -> str | None:
        """Which part of the budget is used up, in words; None if there is some of each."""
        for what in ("turns", "calls", "seconds", "tokens"):
            limit, used = getattr(self.budget, what), getattr(run, what)
            if limit is not None and used >= limit:
                return f"{what}: {used:g} of {limit:g} used"
        return None

    def _with_deadline(self, run: Run, context: ExecutionContext) -> ExecutionContext:
        if self.budget.seconds is None:
            return context
        ends = time.monotonic() + max(0.0, self.budget.seconds - run.seconds)
        deadline = ends if context.deadline is None else min(ends, context.deadline)
        return context.model_copy(update={"deadline": deadline})


def _stop(run: Run, stop: Stop, why: str) -> None:
    run.stopped, run.why = stop, why


def _over_budget(call: ToolCall) -> ToolResult:
    error = ToolError(code=ErrorCode.BUDGET_EXCEEDED, message="The calls of this run are used up. Nothing ran.")
    return ToolResult(call_id=call.call_id, tool_name=call.name, tool_version=None, ok=False, error=error)


def shortened(messages: list[dict[str, Any]], limit: int) -> list[dict[str, Any]]:
    """The history with its oldest tool results cut, until it fits or nothing is left to cut.

    No message is dropped: a call without its answer is refused by most providers. Texts of people
    and of the model stay whole.
    """
    sizes = [len(str(message.get("content") or "")) for message in messages]
    over = sum(sizes) - limit
    if over <= 0:
        return messages
    cut = list(messages)
    for at, message in enumerate(messages):
        if over <= 0:
            break
        if message["role"] == "tool" and sizes[at] > 2 * _KEPT_CHARACTERS:
            beginning = message["content"][:_KEPT_CHARACTERS]
            label = f"(shortened: an older result of {sizes[at]} characters) {beginning} …"
            cut[at] = {**message, "content": label}
            over -= sizes[at] - len(label)
    return cut

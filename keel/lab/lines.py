"""The same line at every stage of the course: `line(upto="05")` is the harness as built up to chapter 05.

What a chapter has built is keel's own stage. What is not built yet is its naive stand-in: the way a
program does it whose author has not thought of the question. `naive` is the line before chapter 01.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from keel import authorization, idempotency, output, recovery, rules, validation, workers
from keel.adapters import assistant_message, read_stream, to_call, to_message
from keel.approval import ApprovalDesk, require_approval
from keel.contracts import ErrorCode, ExecutionContext, ToolCall, ToolFailure, ToolRequest, ToolResult
from keel.harness import Harness, answer, replay
from keel.idempotency import Entry, Ledger, MemoryLedger, SqliteLedger
from keel.loop import Agent
from keel.models import Model
from keel.registry import Tool, bind
from keel.trace import Trace
from keel.turns import Place, run_turn
from keel.workers import Pool

from .chapters import BUILT, CHAPTERS, position
from .gauntlet import Make, Subject
from .world import World, add_files, course_registry, naive_namespace, seeded_mint

Handle = Callable[[ToolRequest, ExecutionContext], Any]


def naive(world: World) -> Subject:
    """Look the name up among all there are, and call it."""
    namespace = naive_namespace(world)

    def handle(request: ToolRequest, context: ExecutionContext) -> Any:
        arguments = request.arguments
        if isinstance(arguments, str):
            arguments = json.loads(arguments)
        return namespace[request.name](**arguments)

    return Subject(
        handle,
        message=lambda request, returned: json.dumps(_plain(returned)),
        read=joined,
        execute_many=first_done_first(handle, world),
        restart=lambda died: naive(world),
        agent=lambda model: HandLoop(model, handle),
    )


class HandLoop:
    """The loop of chapter 02: it ends when the model asks for nothing more, and to go on is to begin again."""

    def __init__(self, model: Model, handle: Handle):
        self.model, self.handle = model, handle

    def run(self, goal: str, context: ExecutionContext) -> str:
        """Let the model work, and give its last words."""
        history: list[dict[str, Any]] = [{"role": "user", "content": goal}]
        while (turn := self.model.complete(history)).requests:
            history.append(assistant_message(turn))
            for request in turn.requests:
                answered = self.handle(request, context)
                content = (
                    answered.model_dump_json() if isinstance(answered, ToolResult) else json.dumps(_plain(answered))
                )
                history.append({"role": "tool", "tool_call_id": request.provider_id, "content": content})
        return turn.text

    def resume(self, run: Any, context: ExecutionContext) -> str:
        """There is nothing that could be taken up."""
        return self.run("", context)


def first_done_first(handle: Handle, world: World) -> Callable[[list[ToolRequest], ExecutionContext], list[Any]]:
    """Fire all calls of a turn at once, take the answers as they come, and stop at the first that failed.

    Whoever pairs these with the calls by their place in the list believes that who was asked first
    is done first; and calls are kept by the model's ids, as if those were never used twice.
    """

    def execute_many(requests: list[ToolRequest], context: ExecutionContext) -> list[Any]:
        answers: list[Any] = []

        def ask(request: ToolRequest) -> None:
            try:
                answers.append(handle(request, context))
            except Exception as raised:
                answers.append(raised)
            world.answers.one_more()

        calls = {request.provider_id: request for request in requests}
        threads = [threading.Thread(target=ask, args=(request,), daemon=True) for request in calls.values()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return list(_until_failure(answers))

    return execute_many


def _until_failure(answers: list[Any]) -> Iterator[Any]:
    for answered in answers:
        if isinstance(answered, Exception):
            raise answered
        yield answered
        if isinstance(answered, ToolResult) and not answered.ok:
            return


def joined(chunks: list[Any]) -> list[ToolRequest]:
    """Join the fragments of a stream as they come, and mend what is missing at the end: one call, complete or not."""
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    parts = [one["function"] for delta in deltas for one in delta.get("tool_calls", ())]
    text = "".join(part["arguments"] for part in parts)
    try:
        json.loads(text)
    except ValueError:
        text += '"}'
    return [ToolRequest(provider_id="call_1", name=parts[0]["name"], arguments=text)]


def finished(
    world: World, change: Callable[[Harness], None] = lambda harness: None, trace: Trace | None = None
) -> Subject:
    """keel's own Harness over the course's tools, with all that is built so far; `change` may do something to it."""
    ledger = SqliteLedger(world.folder / "ledger.db")
    registry, desk = course_registry(world), ApprovalDesk(ledger)
    add_files(registry, world)
    harness = Harness(registry, ledger=ledger, approvals=desk, trace=trace, mint=seeded_mint())
    change(harness)

    def message(request: ToolRequest, result: ToolResult) -> str:
        return to_message(request, output.capped(result))["content"]

    def restart(died: bool) -> Subject:
        if died:
            ledger.leave()
        return finished(world, change, trace)

    lacks = frozenset(CHAPTERS) - BUILT
    agent = partial(Agent, harness=harness)
    return Subject(harness.handle, message, whole, harness.execute_many, restart, desk, agent, lacks)


def whole(chunks: list[Any]) -> list[ToolRequest]:
    """The requests of a stream as keel reads it: what is cut is marked, and will be refused."""
    return list(read_stream(chunks).requests)


def line(upto: str) -> Make:
    """The line as built up to and with this chapter. Raises ValueError for a chapter that is not built yet."""
    if upto not in BUILT:
        raise ValueError(f"chapter {upto} is not built yet; there are {', '.join(sorted(BUILT))}")
    if position(upto) < position("01"):
        return naive
    return lambda world: _Line(world, upto).subject()


def _ledger(world: World, upto: str) -> Ledger | None:
    """What a line remembers its writes in: nothing, then something that dies with it, then a file."""
    reached = position(upto)
    if "07b" in BUILT and reached >= position("07b"):
        return SqliteLedger(world.folder / "ledger.db")
    return MemoryLedger() if "07" in BUILT and reached >= position("07") else None


class _Line:
    """One straight line through the stages, each either keel's or its naive stand-in."""

    def __init__(self, world: World, upto: str):
        self.world, self.upto = world, upto
        self.reached = position(upto)
        self.registry = course_registry(world)
        self.mint = seeded_mint()
        add_files(self.registry, world, confined=self.built("11"))
        self.ledger = _ledger(world, upto)
        self.desk = ApprovalDesk(self.ledger) if self.built("10") else None
        self.pool = Pool()

    def subject(self) -> Subject:
        parts = (self.handle, self.message, self.read_stream, self.execute_many(), self.restart, self.desk)
        return Subject(*parts, agent=self.agent)

    def agent(self, model: Model) -> Agent | HandLoop:
        if not self.built("12"):
            return HandLoop(model, self.handle)
        return Agent(model, Harness(self.registry, ledger=self.ledger, approvals=self.desk, mint=self.mint))

    def restart(self, died: bool) -> Subject:
        if died and isinstance(self.ledger, SqliteLedger):
            self.ledger.leave()
        return _Line(self.world, self.upto).subject()

    def built(self, chapter: str) -> bool:
        """Whether this line has what the chapter builds. A stage that does not exist yet is never built."""
        return chapter in BUILT and position(chapter) <= self.reached

    def handle(self, request: ToolRequest, context: ExecutionContext) -> ToolResult:
        call = ToolCall.model_construct(call_id=self.mint(), name=request.name, arguments={})
        tool = claimed = None
        try:
            call = self.read(request, call.call_id)
            tool = self.lookup(call, context)
            self.check_permission(tool, context)
            values = self.judge(tool, call.arguments)
            self.check_policies(tool, values, context)
            action = idempotency.name_action(self.ledger, tool, values, context, call)
            settled = idempotency.recall(self.ledger, action)
            if settled is not None:
                return replay(call, settled)
            self.check_rules(tool, values, context)
            using = require_approval(self.desk, tool, action)
            claimed = self.claim(tool, action, using)
            returned = self.run(tool, values, context, call)
            data = self.check_output(tool, returned)
            if claimed is not None:
                idempotency.complete(self.ledger, claimed, data)
        except ToolFailure as failure:
            idempotency.release(self.ledger, claimed, failure)
            return answer(call, tool, error=failure.error)
        return answer(call, tool, data=data)

    def execute_many(self) -> Callable[[list[ToolRequest], ExecutionContext], list[ToolResult]]:
        if not self.built("08"):
            return first_done_first(self.handle, self.world)

        def side_by_side(requests: list[ToolRequest], context: ExecutionContext) -> list[ToolResult]:
            return run_turn(requests, self.place, lambda request: self.handle(request, context), self.pool)

        return side_by_side

    def place(self, request: ToolRequest) -> Place:
        known = request.name in self.registry
        return Place.ASIDE if known and self.registry.lookup(request.name).read_only else Place.ALONE

    def read(self, request: ToolRequest, call_id: str) -> ToolCall:
        if self.built("02"):
            return to_call(request, call_id)
        arguments = json.loads(request.arguments) if isinstance(request.arguments, str) else request.arguments
        return ToolCall.model_construct(call_id=call_id, name=request.name, arguments=arguments)

    def read_stream(self, chunks: list[Any]) -> list[ToolRequest]:
        return whole(chunks) if self.built("02") else joined(chunks)

    def lookup(self, call: ToolCall, context: ExecutionContext) -> Tool:
        if self.built("03"):
            return self.registry.lookup(call.name, context.principal)
        if call.name not in self.registry:
            raise ToolFailure(ErrorCode.UNKNOWN_TOOL, f"There is no tool {call.name!r}.")
        return self.registry.lookup(call.name)

    def check_permission(self, tool: Tool, context: ExecutionContext) -> None:
        if self.built("09"):
            authorization.check_permission(tool, context)

    def judge(self, tool: Tool, arguments: dict[str, Any]) -> dict[str, Any]:
        if self.built("04"):
            return validation.validate(tool, arguments)
        if self.built("03"):
            return bind(tool, arguments)
        unknown = arguments.keys() - tool.input_schema["properties"].keys()
        if unknown:
            raise ToolFailure(ErrorCode.INVALID_ARGUMENTS, f"Unknown fields: {', '.join(sorted(unknown))}.")
        return arguments

    def check_policies(self, tool: Tool, values: dict[str, Any], context: ExecutionContext) -> None:
        if self.built("09"):
            authorization.check_policies(tool, values, context)

    def check_rules(self, tool: Tool, values: dict[str, Any], context: ExecutionContext) -> None:
        if self.built("05"):
            rules.check_rules(tool, values, context)

    def claim(self, tool: Tool, action: idempotency.Action | None, using: Any) -> Entry | None:
        return idempotency.claim(self.ledger, tool, action, using) if self.built("07") else None

    def run(self, tool: Tool, values: dict[str, Any], context: ExecutionContext, call: ToolCall) -> Any:
        if self.built("07"):
            return workers.run(self.pool, tool, values, context, call.call_id)
        try:
            return tool.call(values, context)
        except KeyboardInterrupt:
            raise
        except BaseException as raised:
            if self.built("06"):
                raise recovery.classify(tool, raised, call.call_id) from raised
            if isinstance(raised, ToolFailure):  # or it would be caught as a refusal of ours
                raise _Escaped(str(raised)) from raised
            raise

    def check_output(self, tool: Tool, returned: Any) -> Any:
        return output.check_output(tool, returned) if self.built("05") else _plain(returned)

    def message(self, request: ToolRequest, result: ToolResult) -> str:
        if self.built("05"):
            result = output.capped(result)
        return to_message(request, result)["content"]


class _Escaped(Exception):
    """What a body raised, on its way out of a line that does not catch it yet."""


def _plain(value: Any) -> Any:
    return value.model_dump() if hasattr(value, "model_dump") else value

"""The same line at every stage of the course: `line(upto="05")` is the harness as built up to chapter 05.

What a chapter has built is keel's own stage. What is not built yet is its naive stand-in: the way a
program does it whose author has not thought of the question. `naive` is the line before chapter 01.
"""

from __future__ import annotations

import json
from typing import Any

from keel import authorization, output, recovery, rules, validation
from keel.adapters import read_stream, to_call, to_message
from keel.approval import require_approval
from keel.contracts import ErrorCode, ExecutionContext, ToolCall, ToolFailure, ToolRequest, ToolResult
from keel.harness import Harness, answer
from keel.registry import Tool, bind

from .chapters import BUILT, CHAPTERS, position
from .gauntlet import Make, Subject
from .world import World, course_registry, naive_namespace, seeded_mint


def naive(world: World) -> Subject:
    """Look the name up among all there are, and call it."""
    namespace = naive_namespace(world)

    def handle(request: ToolRequest, context: ExecutionContext) -> Any:
        arguments = request.arguments
        if isinstance(arguments, str):
            arguments = json.loads(arguments)
        return namespace[request.name](**arguments)

    return Subject(handle, message=lambda request, returned: json.dumps(_plain(returned)), read=joined)


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


def finished(world: World) -> Subject:
    """keel's own Harness over the course's tools, with all that is built so far."""
    harness = Harness(course_registry(world), mint=seeded_mint())

    def message(request: ToolRequest, result: ToolResult) -> str:
        return to_message(request, output.capped(result))["content"]

    return Subject(harness.handle, message, whole, lacks=frozenset(CHAPTERS) - BUILT)


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


class _Line:
    """One straight line through the stages, each either keel's or its naive stand-in."""

    def __init__(self, world: World, upto: str):
        self.reached = position(upto)
        self.registry = course_registry(world)
        self.mint = seeded_mint()

    def subject(self) -> Subject:
        return Subject(self.handle, self.message, self.read_stream)

    def built(self, chapter: str) -> bool:
        """Whether this line has what the chapter builds. A stage that does not exist yet is never built."""
        return chapter in BUILT and position(chapter) <= self.reached

    def handle(self, request: ToolRequest, context: ExecutionContext) -> ToolResult:
        call, tool = ToolCall.model_construct(call_id=self.mint(), name=request.name, arguments={}), None
        try:
            call = self.read(request, call.call_id)
            tool = self.lookup(call, context)
            self.check_permission(tool, context)
            values = self.judge(tool, call.arguments)
            self.check_policies(tool, values, context)
            self.check_rules(tool, values, context)
            require_approval(tool)
            returned = self.run(tool, values, context, call)
            data = self.check_output(tool, returned)
        except ToolFailure as failure:
            return answer(call, tool, error=failure.error)
        return answer(call, tool, data=data)

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

    def run(self, tool: Tool, values: dict[str, Any], context: ExecutionContext, call: ToolCall) -> Any:
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

"""For models without native tool calls: a form that their reply is held to, and a conversation in plain texts.

What they write in that form is a second way to write the same call; inside there is only one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import groupby
from typing import Any

from .adapters import ModelTurn, read_arguments
from .contracts import ToolFailure, ToolRequest


def structured_form(tools: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """The `response_format` that asks a model without native tool calls for "tool or answer" as JSON text."""
    forms = [_form(answer={"type": "string"})]
    for tool in tools:
        function = tool["function"]
        forms.append(_form(tool={"const": function["name"]}, arguments=function["parameters"]))
    return {"type": "json_schema", "json_schema": {"name": "tool_or_answer", "schema": {"anyOf": forms}}}


def _form(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def read_structured(turn: ModelTurn) -> ModelTurn:
    """Read a turn whose text is in that form: a second way to write the same call. Only where it was asked for.

    A text that is in no such form stays a text.
    """
    try:
        said = {} if turn.requests else read_arguments(turn.text)
    except ToolFailure:
        return turn
    if isinstance(said.get("answer"), str) and len(said) == 1:
        return turn.model_copy(update={"text": said["answer"]})
    if isinstance(said.get("tool"), str) and set(said) <= {"tool", "arguments"}:
        request = ToolRequest(provider_id="call_1", name=said["tool"], arguments=said.get("arguments"))
        return turn.model_copy(update={"text": "", "requests": (request,)})
    return turn


def plain_messages(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A conversation in plain texts, the tools and the form in front: for a model without native tool calls.

    Calls are written in the form of `structured_form`, results as the user's; two texts of one side
    in a row become one, since small models know nothing but question and answer.
    """
    said = [("system", _HOW + "\n".join(_in_words(tool["function"]) for tool in tools))] if tools else []
    for message in messages:
        role, text = message["role"], message.get("content") or ""
        text = text if isinstance(text, str) else json.dumps(text, ensure_ascii=False)
        calls = [one["function"] for one in message.get("tool_calls") or ()]
        if role == "tool":
            role, text = "user", f"Result: {text}"
        elif calls:
            text = "\n".join(f'{{"tool": {json.dumps(one["name"])}, "arguments": {one["arguments"]}}}' for one in calls)
        elif role == "assistant" and tools:
            text = json.dumps({"answer": text}, ensure_ascii=False)
        said.append((role, text))
    sides = groupby(said, key=lambda one: one[0])
    return [{"role": role, "content": "\n".join(text for _, text in side)} for role, side in sides]


_HOW = """Reply with one JSON object and nothing else: a call of a tool, or an answer.
A call: {"tool": "NAME", "arguments": {...}}. Once you have its result, or need no tool: {"answer": "..."}.
Example. User: What is the weather in Oslo? Reply: {"tool": "weather", "arguments": {"city": "Oslo"}}
Example. User: Hello! Reply: {"answer": "Hello! How can I help?"}
Tools:
"""


def _in_words(function: dict[str, Any]) -> str:
    properties = function["parameters"].get("properties", {})
    takes = ", ".join(f"{name}: {one.get('type', 'any')}" for name, one in properties.items())
    return f"- {function['name']}({takes}): {function.get('description', '')}"

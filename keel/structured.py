"""A conversation in plain texts: for models without native tool calls, which answer in the structured form.

`structured_form` of keel.adapters is what their reply is held to, and `read_structured` reads it.
"""

from __future__ import annotations

import json
from itertools import groupby
from typing import Any


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

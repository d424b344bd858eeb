"""The structured form: what a model without native tool calls is told, and what is shown of its answer."""

from __future__ import annotations

import copy
import json

import pytest

from keel.structured import plain_messages

from .kit import ASK, DOUBLE, call, completion, whole

ADD = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "Add two integers.",
        "parameters": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {}}},
    },
}
NOW = {"type": "function", "function": {"name": "now", "parameters": {"type": "object"}}}
HISTORY = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Double 21 and 4."},
    {"role": "assistant", "content": None, "tool_calls": [call('{"n": 21}', id="a"), call('{"n": 4}', id="b")]},
    {"role": "tool", "tool_call_id": "a", "content": '{"ok":true,"data":42}'},
    {"role": "tool", "tool_call_id": "b", "content": '{"ok":true,"data":8}'},
    {"role": "assistant", "content": "42 and 8."},
    {"role": "user", "content": "Thank you."},
]


def test_a_whole_history_becomes_question_and_answer():
    plain = plain_messages(HISTORY, [DOUBLE])
    assert [one["role"] for one in plain] == ["system", "user", "assistant", "user", "assistant", "user"]
    assert all(one.keys() == {"role", "content"} and isinstance(one["content"], str) for one in plain)
    calls = [json.loads(line) for line in plain[2]["content"].splitlines()]
    assert calls == [{"tool": "double", "arguments": {"n": 21}}, {"tool": "double", "arguments": {"n": 4}}]
    assert plain[3]["content"] == 'Result: {"ok":true,"data":42}\nResult: {"ok":true,"data":8}'
    assert json.loads(plain[4]["content"]) == {"answer": "42 and 8."}


def test_the_tools_and_the_form_stand_in_front_of_what_was_said_there():
    system = plain_messages(HISTORY, [DOUBLE, ADD, NOW])[0]["content"]
    assert "- double(n: integer): Double an integer." in system
    assert "- add(a: integer, b: any): Add two integers." in system
    assert "- now(): " in system
    assert '{"tool": "weather", "arguments": {"city": "Oslo"}}' in system and '{"answer": "Hello!' in system
    assert system.endswith("Be brief.")


def test_without_tools_there_is_no_form():
    assert plain_messages(ASK, []) == ASK
    assert plain_messages(HISTORY, [])[-2] == {"role": "assistant", "content": "42 and 8."}


def test_nothing_is_changed_and_texts_in_parts_are_no_crash():
    before = copy.deepcopy(HISTORY)
    plain_messages(HISTORY, [DOUBLE])
    assert before == HISTORY
    parts = [{"role": "user", "content": [{"type": "text", "text": "Double 21."}]}]
    assert "Double 21." in plain_messages(parts, [DOUBLE])[1]["content"]


@pytest.mark.parametrize(
    ("sent", "shown"), [('{"answer": "It is 42."}', ["It is 42."]), ('{"tool": "double", "arguments": {"n": 1}}', [])]
)
def test_people_are_shown_the_answer_and_not_the_form(provider, sent, shown):
    seen = []
    turn = provider(whole(sent), structured=True, on_text=seen.append).complete(ASK, [DOUBLE])
    assert (seen, turn.text) == (shown, "".join(shown))


def test_a_structured_reply_that_was_cut_proposes_nothing(provider):
    body = completion('{"tool": "double", "arguments": {"n": 2', reason="length")
    turn = provider({"body": json.dumps(body)}, structured=True).complete(ASK, [DOUBLE])
    assert turn.requests == ()

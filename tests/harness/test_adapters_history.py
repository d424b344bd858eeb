"""What goes back to a provider: valid after anything that a model sent, each call answered once, in order."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keel import Harness, ToolRegistry, ToolRequest
from keel.adapters import ModelTurn, assistant_message, to_message
from keel.output import capped

from .kit import AMIRA, label
from .replies import part, sent, streamed

KEYS = {
    "user": {"role", "content"},
    "assistant": {"role", "content", "tool_calls"},
    "tool": {"role", "content", "tool_call_id"},
}


def strict(text: str) -> Any:
    """JSON as a strict server reads it: no key twice, no NaN, no half characters."""

    def once(pairs):
        assert len(dict(pairs)) == len(pairs), "a key twice"
        return dict(pairs)

    def none(name):
        raise AssertionError(f"{name} is no JSON")

    return json.loads(text.encode("utf-8"), object_pairs_hook=once, parse_constant=none)


def read_strictly(messages: list[dict[str, Any]]) -> None:
    """Raise AssertionError or ValueError unless a chat-completions server takes these messages."""
    waiting: list[str] = []
    for message in strict(json.dumps(messages, ensure_ascii=False, allow_nan=False)):
        role = message["role"]
        assert set(message) <= KEYS[role], message
        if role == "tool":
            assert waiting and message["tool_call_id"] == waiting.pop(0), "answers nothing, or not in order"
            assert isinstance(message["content"], str)
            strict(message["content"])
            continue
        assert not waiting, f"not answered: {waiting}"
        calls = message.get("tool_calls")
        assert isinstance(message["content"], str) or (role == "assistant" and message["content"] is None and calls)
        assert calls is None or (role == "assistant" and calls), "an empty list of calls"
        for call in calls or ():
            assert set(call) == {"id", "type", "function"} and call["type"] == "function"
            assert set(call["function"]) == {"name", "arguments"}
            assert isinstance(call["id"], str) and call["id"] and call["id"] not in waiting
            assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", call["function"]["name"])
            assert isinstance(strict(call["function"]["arguments"]), dict)
            waiting.append(call["id"])
    assert not waiting, f"not answered: {waiting}"


def tools() -> Harness:
    registry = ToolRegistry()

    @registry.tool(read_only=True)
    def tool(a: Any = None) -> Any:
        return a

    @registry.tool(read_only=True)
    def breaks() -> None:
        raise RuntimeError

    return Harness(registry)


HARNESS = tools()


def goes_back(*turns: ModelTurn) -> list[dict[str, Any]]:
    """The history of a whole run, read strictly."""
    history: list[dict[str, Any]] = [{"role": "user", "content": "Go."}]
    for turn in turns:
        history.append(assistant_message(turn))
        history += [to_message(one, capped(HARNESS.handle(one, AMIRA))) for one in turn.requests]
    read_strictly(history)
    return history


def test_a_good_turn_goes_back_as_it_came():
    history = goes_back(sent(part(id="x", name="tool", arguments='{"a": "é"}'), content="Now."))
    call = {"id": "x", "type": "function", "function": {"name": "tool", "arguments": '{"a": "é"}'}}
    assert history[1] == {"role": "assistant", "content": "Now.", "tool_calls": [call]}
    assert history[2]["tool_call_id"] == "x" and json.loads(history[2]["content"])["data"] == "é"


def test_a_turn_without_calls_has_a_text_also_where_it_is_empty():
    assert goes_back(ModelTurn())[1] == {"role": "assistant", "content": ""}
    assert goes_back(ModelTurn(text="Done.\ud800"))[1]["content"].startswith("Done.")


@pytest.mark.parametrize(
    "ids", [[None, None], ["", ""], ["x", "x"], ["", "call_1"], ["x_2", "x", "x"], ["\ud800", "\udfff"]]
)
def test_each_call_is_answered_under_an_id_of_its_own(ids):
    calls = [part(at, id, "tool", json.dumps({"a": at})) for at, id in enumerate(ids)]
    for turn in (sent(*calls), streamed(*calls)):
        own = [request.provider_id for request in turn.requests]
        assert len(set(own)) == len(ids) and all(own)
        history = goes_back(turn)
        assert [call["id"] for call in history[1]["tool_calls"]] == own == [one["tool_call_id"] for one in history[2:]]
        assert [json.loads(one["content"])["data"] for one in history[2:]] == list(range(len(ids)))


def test_a_providers_own_ids_are_kept():
    turn = sent(part(id="functions.tool:0", name="tool"), part(id="y", name="tool"), part(id="y", name="tool"))
    assert [request.provider_id for request in turn.requests] == ["functions.tool:0", "y", "y_3"]


def test_our_own_ids_never_leave():
    request = sent(part(id="x", name="tool", arguments="{}")).requests[0]
    result = HARNESS.handle(request, AMIRA)
    assert result.call_id != "x" and result.call_id not in json.dumps(to_message(request, result))


def test_a_turn_written_by_hand_has_ids_too():
    turn = ModelTurn(requests=[ToolRequest(name="tool"), ToolRequest(name="tool", provider_id="a"), ToolRequest()])
    assert [request.provider_id for request in turn.requests] == ["call_1", "a", "call_3"]
    goes_back(turn)


@pytest.mark.parametrize(
    "arguments",
    [
        '{"a": 1',
        '{"a": 1, "a": 2}',
        '{"a": NaN}',
        '{"a": "\ud800"}',
        "[]",
        '"{}"',
        "no",
        [],
        5,
        b"{}",
        {"a": float("nan")},
    ],
    ids=label,
)
def test_what_could_not_be_read_goes_back_as_a_call_without_arguments(arguments):
    history = goes_back(ModelTurn(requests=[ToolRequest(provider_id="x", name="tool", arguments=arguments)]))
    assert history[1]["tool_calls"][0]["function"] == {"name": "tool", "arguments": "{}"}
    assert json.loads(history[2]["content"])["error"]["code"] == "invalid_arguments"


def test_what_was_cut_goes_back_without_what_came_of_it():
    history = goes_back(streamed(part(0, "x", "tool", '{"a": "b'), finish="length"))
    assert history[1]["tool_calls"][0]["function"]["arguments"] == "{}"
    assert "cut short" in history[2]["content"]


@pytest.mark.parametrize("name", [None, "", "functions.tool", "a b", "工具", "\ud800", "x" * 1000, "a\n", "Tool-1"])
def test_a_name_that_no_provider_takes_goes_back_as_one_that_it_does(name):
    goes_back(ModelTurn(requests=[ToolRequest(provider_id="x", name=name, arguments="{}")]))


ODD = st.sampled_from(
    ["", "{}", '{"a": 1}', '{"a', '{"a": 1e999}', '{"a": 1, "a": 1}', "[]", "\ud800", "null", '{"a": "é"}']
)
VALUES = st.none() | st.text(max_size=5) | st.integers() | st.floats() | st.just((1,)) | st.builds(object)
ARGUMENTS = ODD | VALUES | st.dictionaries(st.text(max_size=3), VALUES | st.lists(VALUES, max_size=2), max_size=3)
REQUESTS = st.builds(
    ToolRequest,
    provider_id=st.sampled_from([None, "", "x", "y", "x_2", "call_1", "call_2", "\ud800"]) | st.text(max_size=4),
    name=st.sampled_from([None, "", "tool", "breaks", "functions.tool", "x" * 65, "\udfff"]) | st.text(max_size=6),
    arguments=ARGUMENTS,
    problem=st.none() | st.text(max_size=5),
)
TURNS = st.builds(
    ModelTurn, text=st.sampled_from(["", "Hm.", "\ud83d", "日本"]), requests=st.lists(REQUESTS, max_size=4)
)
PARTS = st.lists(
    st.builds(
        part,
        st.sampled_from([None, 0, 1]),
        st.sampled_from([None, "", "x", "call_1"]),
        st.sampled_from([None, "", "tool", "no.tool"]),
        ODD,
    ),
    max_size=4,
)


@given(
    st.lists(TURNS | st.builds(lambda parts: sent(*parts), PARTS) | st.builds(lambda parts: streamed(*parts), PARTS))
)
def test_the_history_is_valid_after_any_sequence_of_turns(turns):
    history = goes_back(*turns)
    assert len(history) == 1 + len(turns) + sum(len(turn.requests) for turn in turns)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda one: one.pop(),
        lambda one: one.pop(2),
        lambda one: one.append(one[3]),
        lambda one: one.insert(2, one.pop()),
        lambda one: one.insert(2, one[0]),
        lambda one: one[1]["tool_calls"][0].update(id=""),
        lambda one: one[1]["tool_calls"][1].update(id="x"),
        lambda one: one[1]["tool_calls"][0]["function"].update(arguments="{"),
        lambda one: one[1]["tool_calls"][0]["function"].update(arguments="[]"),
        lambda one: one[1]["tool_calls"][0]["function"].update(name="a.b"),
        lambda one: one[1].update(tool_calls=[]),
        lambda one: one[1].update(content=5),
    ],
)
def test_the_strict_reader_is_strict(spoil):
    calls = part(id="x", name="tool", arguments="{}"), part(id="y", name="tool", arguments="{}")
    history = json.loads(json.dumps(goes_back(sent(*calls))))
    spoil(history)
    with pytest.raises((AssertionError, ValueError)):
        read_strictly(history)

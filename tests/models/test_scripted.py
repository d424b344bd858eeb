"""ScriptedModel: every turn once, in order, and a clear complaint where the script does not fit."""

from __future__ import annotations

import copy
import json

import pytest

from keel.adapters import ModelFailure, ModelTurn
from keel.contracts import ToolRequest
from keel.models import ScriptedModel, ScriptError, Step

from .kit import ASK, DOUBLE, begun, call, completion, delta, more


def chunks(*events: str) -> list:
    return [json.loads(event.removeprefix("data: ")) for event in events]


WRITTEN = ModelTurn(requests=(ToolRequest(provider_id="call_a", name="double", arguments='{"n": 21}'),))
WHOLE = completion(None, call())
STREAMED = chunks(begun(), more('{"n": '), more("21}"), delta("tool_calls"))


@pytest.mark.parametrize("reply", [WRITTEN, WHOLE, STREAMED], ids=["written", "whole", "streamed"])
def test_the_same_call_however_the_turn_was_kept(reply):
    turn = ScriptedModel([reply]).complete(ASK, [DOUBLE])
    assert [(one.provider_id, one.name, one.arguments) for one in turn.requests] == [("call_a", "double", '{"n": 21}')]


def test_turns_come_once_and_in_order():
    model = ScriptedModel([completion("one"), completion("two")])
    assert [model.complete(ASK).text, model.complete(ASK).text] == ["one", "two"]


@pytest.mark.parametrize("length", [0, 2])
def test_a_script_that_ran_out_says_so_instead_of_going_on(length):
    model = ScriptedModel([completion("again")] * length)
    for _ in range(length):
        model.complete(ASK)
    for _ in range(2):
        with pytest.raises(ScriptError, match=f"has {length} turns, and was asked for one more"):
            model.complete(ASK)


def test_another_question_than_the_expected_one_is_told_with_both():
    model = ScriptedModel([completion("one"), Step(completion("42"), asked="Double 21")])
    model.complete(ASK)
    with pytest.raises(ScriptError) as caught:
        model.complete([{"role": "user", "content": "Delete it all."}])
    assert str(caught.value) == "turn 2 of the script expects 'Double 21', and was asked 'Delete it all.'"
    assert model.complete(ASK).text == "42"  # the turn was not used up


def test_what_must_have_been_asked_can_be_a_function():
    def has_double(messages, tools):
        return any(tool["function"]["name"] == "double" for tool in tools)

    with pytest.raises(ScriptError, match="expects 'has_double'"):
        ScriptedModel([Step(completion("42"), asked=has_double)]).complete(ASK, [])
    assert ScriptedModel([Step(completion("42"), asked=has_double)]).complete(ASK, [DOUBLE]).text == "42"


def test_a_message_without_text_or_no_message_at_all_is_no_crash():
    assert ScriptedModel([completion("one")]).complete([]).text == "one"
    with pytest.raises(ScriptError, match="was asked ''"):
        ScriptedModel([Step(completion("one"), asked="None")]).complete([{"role": "assistant", "content": None}])


def test_a_recorded_error_is_a_failure_and_the_script_goes_on():
    model = ScriptedModel([{"error": {"message": "overloaded"}}, completion("back")])
    with pytest.raises(ModelFailure, match="overloaded"):
        model.complete(ASK)
    assert model.complete(ASK).text == "back"


def test_neither_the_script_nor_the_conversation_is_changed():
    body = completion(None, call(arguments={"n": [21]}))  # an object, as some servers send it
    before = copy.deepcopy((body, STREAMED, ASK))
    turn = ScriptedModel([body]).complete(ASK, [DOUBLE])
    ScriptedModel([STREAMED]).complete(ASK, [DOUBLE])
    turn.requests[0].arguments["n"].append("spoiled")
    assert (body, STREAMED, ASK) == before


def test_what_was_asked_is_kept_as_it_was_then():
    history = [{"role": "assistant", "content": None, "tool_calls": [call()]}]
    model = ScriptedModel([completion("one")])
    model.complete(history)
    history[0]["tool_calls"].clear()
    assert model.asked[0][0]["tool_calls"] == [call()]

"""What a provider has counted for a turn: taken where it is a count, and nothing where it is not."""

import pytest

from keel.adapters import read_response, read_stream


def body(usage):
    return {"choices": [{"message": {"content": "Hello."}, "finish_reason": "stop"}], "usage": usage}


def chunk(text=None, usage=None, reason=None):
    return {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": reason}], "usage": usage}


NONSENSE = [
    None, "12", 12, [12], {}, {"total_tokens": None}, {"total_tokens": "12"}, {"total_tokens": 12.0},
    {"total_tokens": True}, {"total_tokens": -5}, {"total_tokens": 10**400}, {"total_tokens": [12]},
    {"total_tokens": float("nan")}, {"prompt_tokens": 5},
]  # fmt: skip


def test_a_body_says_how_many_tokens_it_took():
    assert read_response(body({"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12})).tokens == 12
    assert read_response({"choices": [{"message": {"content": "Hello."}}]}).tokens == 0


@pytest.mark.parametrize("usage", NONSENSE, ids=range(len(NONSENSE)))
def test_nonsense_counts_nothing_and_costs_no_turn(usage):
    turn = read_response(body(usage))
    assert (turn.tokens, turn.text) == (0, "Hello.")
    turn = read_stream([chunk("Hello.", usage), chunk(reason="stop", usage=usage), {"choices": [], "usage": usage}])
    assert (turn.tokens, turn.text) == (0, "Hello.")


def test_a_stream_says_it_at_its_end():
    end = {"choices": [], "usage": {"total_tokens": 12}}
    assert read_stream([chunk("Hel"), chunk("lo."), chunk(reason="stop"), end]).tokens == 12
    assert read_stream([chunk("Hel"), chunk(reason="stop", usage={"total_tokens": 12})]).tokens == 12


def test_a_stream_that_counts_on_is_not_added_up():
    counting = [chunk("a", {"total_tokens": count}) for count in (10, 11, 12)]
    assert read_stream([*counting, chunk(reason="stop"), {"choices": [], "usage": {"total_tokens": 12}}]).tokens == 12


def test_nonsense_behind_a_count_does_not_take_it_back():
    assert read_stream([chunk("a", {"total_tokens": 12}), chunk("b", {"total_tokens": -1})]).tokens == 12


def test_calls_have_their_tokens_too():
    call = {"id": "a", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    reply = {"choices": [{"message": {"tool_calls": [call]}}], "usage": {"total_tokens": 12}}
    turn = read_response(reply)
    assert (turn.tokens, turn.requests[0].name) == (12, "look")

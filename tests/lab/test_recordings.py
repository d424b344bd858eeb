"""Recorded replies: each can be read, and says how it was made."""

import json

import pytest

from keel.adapters import ModelFailure, read_response, read_stream
from keel.lab.recordings import FOLDER, proposal_turn, recording

NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))


@pytest.mark.parametrize("name", NAMES)
def test_a_recording_says_whether_it_was_written_or_recorded(name):
    held = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    assert set(held) == {"made", "note", "reply"}
    assert held["made"] in ("written", "recorded") and held["note"]


@pytest.mark.parametrize("name", [name for name in NAMES if name != "overloaded"])
def test_a_recording_is_a_turn(name):
    reply = recording(name)
    turn = read_stream(reply) if isinstance(reply, list) else read_response(reply)
    assert turn.text or turn.requests


def test_the_recorded_error_is_no_turn():
    with pytest.raises(ModelFailure, match="overloaded"):
        read_response(recording("overloaded"))


def test_whole_and_streamed_come_to_the_same_call():
    whole, streamed = read_response(recording("one_call")), read_stream(recording("streamed_call"))
    assert whole.requests == streamed.requests


def test_an_unknown_recording_names_those_there_are():
    with pytest.raises(LookupError, match="one_call"):
        recording("nothing")


def test_a_turn_can_be_written_by_hand():
    request = proposal_turn("add", {"a": 1}).requests[0]
    assert (request.name, request.arguments, request.provider_id) == ("add", {"a": 1}, "call_1")

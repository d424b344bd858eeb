"""From a request to a call: one JSON object within the limits, or a refusal, and nothing repaired."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keel import ToolFailure, ToolRequest
from keel.adapters import MAX_BYTES, MAX_DEPTH, check_json, to_call, to_message

from .kit import fire, label

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


def refusal(request: ToolRequest) -> str:
    with pytest.raises(ToolFailure) as caught:
        to_call(request, "c-1")
    return caught.value.error.code


def nested(levels: int, wrap=lambda inner: {"a": inner}):
    value = {}
    for _ in range(levels - 1):
        value = wrap(value)
    return value


@given(st.dictionaries(st.text(), JSON, max_size=5))
def test_an_object_passes_as_it_is(arguments):
    call = to_call(ToolRequest(name="add", arguments=arguments), "c-1")
    assert (call.call_id, call.name, call.arguments) == ("c-1", "add", arguments)


def test_no_arguments_mean_an_empty_object():
    assert to_call(ToolRequest(name="add"), "c-1").arguments == {}


@pytest.mark.parametrize("arguments", [[], [{}], 5, 5.0, True, (), {1}, b"{}", object()], ids=label)
def test_what_is_no_object_is_refused(arguments):
    assert refusal(ToolRequest(name="add", arguments=arguments)) == "invalid_arguments"


@pytest.mark.parametrize("name", [None, "", "functions.x", "getWeather", "read-file", "a" * 65, "a\n", "\ud800"])
def test_a_name_that_no_tool_can_have_is_an_unknown_tool(name):
    assert refusal(ToolRequest(name=name, arguments={})) == "unknown_tool"


def test_a_request_that_cannot_be_a_call_is_refused_whatever_it_holds():
    cut = ToolRequest(name="add", arguments={"a": 1}, problem="the stream was cut short \ud83d" + "x" * 10_000)
    with pytest.raises(ToolFailure, match="cut short") as caught:
        to_call(cut, "c-1")
    assert len(caught.value.error.message) < 400


class Word(str):
    """Text by its type's word, and anything by its methods."""


class Table(dict):
    """A dict that may show one thing and hold another."""


UNFIT = {
    "NaN": math.nan,
    "infinity": math.inf,
    "minus infinity": -math.inf,
    "401 digits": 10**400,
    "minus 401 digits": -(10**400),
    "half a character": "\ud83d",
    "half a character in a key": {"\ud83d": 1},
    "a key that is a number": {1: 1},
    "a key that is nothing": {None: 1},
    "a key of a subclass": {Word("a"): 1},
    "a tuple": (1, 2),
    "a set": {1, 2},
    "bytes": b"x",
    "a subclass of str": Word("a"),
    "a subclass of dict": Table(a=1),
    "an object": object(),
    "a type": int,
}


@pytest.mark.parametrize("where", ["top", "deep"])
@pytest.mark.parametrize("unfit", UNFIT.values(), ids=UNFIT.keys())
def test_what_json_cannot_hold_is_refused(unfit, where):
    arguments = {"a": unfit} if where == "top" else {"a": [1, {"b": [unfit]}], "c": "x"}
    assert refusal(ToolRequest(name="add", arguments=arguments)) == "invalid_arguments"


def test_an_object_of_a_subclass_is_no_object():
    assert refusal(ToolRequest(name="add", arguments=Table(a=1))) == "invalid_arguments"


@pytest.mark.parametrize("number", [10**400 - 1, -(10**400) + 1, 2**63, 1.7976931348623157e308, 5e-324])
def test_numbers_within_the_limits_pass(number):
    check_json({"a": number})


@pytest.mark.parametrize("wrap", [lambda inner: {"a": inner}, lambda inner: {"a": [inner]}], ids=["objects", "both"])
def test_sixty_four_levels_pass_and_no_more(wrap):
    levels = MAX_DEPTH if wrap({}) == {"a": {}} else MAX_DEPTH // 2
    deepest = nested(levels, wrap)
    if wrap({}) != {"a": {}}:
        deepest = {"a": deepest}  # 31 pairs, the innermost object, and this one
    check_json(deepest)
    with pytest.raises(ToolFailure):
        check_json({"a": deepest})


def test_a_megabyte_passes_and_no_more():
    check_json({"a": "x" * (MAX_BYTES - 16)})
    check_json({"a": "é" * (MAX_BYTES // 2 - 16)})
    for too_much in (
        {"a": "x" * MAX_BYTES},
        {"a": "é" * (MAX_BYTES // 2)},
        {"x" * MAX_BYTES: 1},
        {"a": [1] * MAX_BYTES},
    ):
        with pytest.raises(ToolFailure, match="too large"):
            check_json(too_much)


def test_a_list_that_holds_itself_twice_is_refused_at_once():
    loop: list = []
    loop += [loop, loop]
    doubling: list = [1]
    for _ in range(40):
        doubling = [doubling, doubling]  # 2**40 items to whoever writes it out
    for endless in (loop, doubling):
        with pytest.raises(ToolFailure):
            check_json({"a": endless})


def test_the_answer_goes_out_under_the_providers_own_id():
    request = ToolRequest(provider_id="their-7", name="tool", arguments={})
    message = to_message(request, fire(lambda: 5))
    assert message["role"] == "tool" and message["tool_call_id"] == "their-7"
    assert "their-7" not in message["content"] and "call_id" not in message["content"]

"""Whole replies: what is a call, what stays text, and what is no reply at all."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keel import ToolFailure
from keel.adapters import ModelFailure, ModelTurn, read_response, read_stream, to_call
from keel.structured import read_structured

from .kit import label
from .replies import chunk, end, outcomes, part, reply, sent, streamed


def test_calls_come_in_their_order_beside_the_text():
    turn = sent(
        part(id="a", name="f", arguments='{"n": 1}'), part(id="b", name="g", arguments={"n": 2}), content="Now."
    )
    assert (turn.text, turn.finish_reason) == ("Now.", "tool_calls")
    assert [request.provider_id for request in turn.requests] == ["a", "b"]
    assert outcomes(turn) == [("f", {"n": 1}), ("g", {"n": 2})]


@pytest.mark.parametrize("finish", [None, "", "stop", "tool_calls", "function_call"])
@pytest.mark.parametrize("arguments", [None, "", "null", "{}"])
def test_a_whole_reply_may_call_without_arguments(finish, arguments):
    assert outcomes(sent(part(id="a", name="f", arguments=arguments), finish=finish)) == [("f", {})]


CUT = ["length", "content_filter", "max_tokens", "error", "insufficient_system_resource", "model_length", 7, ["stop"]]


@pytest.mark.parametrize("finish", CUT, ids=label)
@pytest.mark.parametrize("arguments", [None, "", "null", '{"a": 1', '{"a": "b'])
def test_a_reply_that_was_cut_is_never_completed(finish, arguments):
    call = part(0, "a", "f", arguments)
    for turn in (sent(call, finish=finish), streamed(call, finish=finish), streamed(call, finish=None)):
        with pytest.raises(ToolFailure, match="cut short") as caught:
            to_call(turn.requests[0], "c-1")
        assert caught.value.error.code == "invalid_arguments"


@pytest.mark.parametrize("finish", CUT, ids=label)
def test_what_was_whole_before_the_cut_is_a_call(finish):
    calls = [part(0, "a", "f", '{"a": 1}'), part(1, "b", "g", "{}"), part(2, "c", "g", '{"a')]
    for turn in (sent(*calls, finish=finish), streamed(*calls, finish=finish), streamed(*calls, finish=None)):
        assert outcomes(turn) == [("f", {"a": 1}), ("g", {}), "invalid_arguments"]


def test_a_name_that_was_cut_is_told_as_cut():
    with pytest.raises(ToolFailure, match="cut short"):
        to_call(streamed(part(0, "a", "functions."), finish=None).requests[0], "c-1")


LOOKS_LIKE_CALLS = [
    '<tool_call>{"name": "f", "arguments": {}}</tool_call>',
    '{"tool": "f", "arguments": {}}',
    '[TOOL_CALLS][{"name": "f", "arguments": {}}]',
    "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{}\n```<｜tool▁call▁end｜>",
    "<function=f>{}</function>",
    'You wrote: "f({})"',
    '{"choices": [{"message": {"tool_calls": [{"id": "a", "function": {"name": "f", "arguments": "{}"}}]}}]}',
]


@pytest.mark.parametrize("text", LOOKS_LIKE_CALLS)
def test_text_that_looks_like_a_call_stays_text(text):
    parts = [{"type": "text", "text": text[:9]}, {"type": "text", "text": text[9:]}]
    turns = [
        sent(content=text),
        sent(content=parts),
        sent(refusal=text),
        read_stream([chunk(content=text), end("stop")]),
    ]
    for turn in turns:
        assert (turn.text, turn.requests) == (text, ())


@pytest.mark.parametrize("content", [5, {"text": "a"}, [5, "a", {"text": 10**5000}, {"text": None}], True], ids=label)
def test_content_in_no_known_form_is_no_text(content):
    assert sent(content=content).text == "" and sent(content=None, refusal=content).text == ""


@pytest.mark.parametrize("index", [1, "0", [], 2, -1])
def test_only_the_first_choice_counts(index):
    first = reply(part(id="a", name="f", arguments="{}"))["choices"][0]
    other = reply(part(id="b", name="delete_all", arguments="{}"))["choices"][0] | {"index": index}
    assert outcomes(read_response({"choices": [other, first]})) == [("f", {})]
    with pytest.raises(ModelFailure):
        read_response({"choices": [other]})
    more = chunk(part(0, "b", "delete_all", "{}"), content="no")
    more["choices"][0]["index"] = index
    turn = read_stream([more, chunk(part(0, "a", "f", "{}")), more, end()])
    assert (turn.text, outcomes(turn)) == ("", [("f", {})])


def test_a_choice_without_an_index_is_the_first():
    body = reply(part(id="a", name="f", arguments="{}"))
    del body["choices"][0]["index"]
    assert outcomes(read_response(body)) == [("f", {})]


CUSTOM = {"name": "shell", "input": "rm -rf ."}


def test_a_custom_tool_call_is_refused_by_its_name():
    kinds = [
        {"id": "a", "type": "custom", "custom": CUSTOM},
        {"id": "a", "custom": CUSTOM},
        {"id": "a", "type": "function", "function": {"name": "", "arguments": ""}, "custom": CUSTOM},
        {"id": "a", "type": "custom", "custom": CUSTOM, "function": {"name": "f", "arguments": "{}"}},
    ]
    for kind in kinds:
        more = {"index": 0, "custom": {"input": " more"}}
        for turn in (sent(kind), streamed(kind), streamed(kind | {"index": 0}, more)):
            assert [request.name for request in turn.requests] == ["shell"]
            with pytest.raises(ToolFailure, match="custom"):
                to_call(turn.requests[0], "c-1")


def test_a_function_with_an_empty_custom_beside_it_is_a_function():
    call = part(0, "a", "f", "{}", custom={"name": "", "input": ""}, type="function")
    assert outcomes(sent(call)) == outcomes(streamed(call)) == [("f", {})]


@pytest.mark.parametrize("call", [{"name": "f", "arguments": "{}"}, {"arguments": "{}"}, {"name": "f"}, "f", ["f"]])
def test_the_retired_form_is_refused_and_not_lost(call):
    for turn in (sent(function_call=call), read_stream([chunk(function_call=call), end("function_call")])):
        with pytest.raises(ToolFailure, match="function_call"):
            to_call(turn.requests[0], "c-1")


def test_the_retired_form_in_fragments_is_one_refusal():
    pieces = [{"name": "f"}, {"arguments": '{"a"'}, {"arguments": ": 1}"}]
    turn = read_stream([*[chunk(function_call=one) for one in pieces], end("function_call")])
    assert [(one.name, one.arguments) for one in turn.requests] == [("f", '{"a": 1}')]
    assert outcomes(turn) == ["invalid_arguments"]


@pytest.mark.parametrize(
    "empty", [None, {}, "", {"name": "", "arguments": ""}, {"name": None, "arguments": None}], ids=str
)
def test_an_empty_retired_form_is_nothing(empty):
    assert sent(function_call=empty).requests == read_stream([chunk(function_call=empty), end()]).requests == ()


@pytest.mark.parametrize("odd", ["f", 5, None, [], [part(id="a", name="f", arguments="{}")]], ids=label)
def test_a_call_that_is_no_object_is_refused_and_takes_no_other_along(odd):
    good = part(0, "a", "f", "{}")
    assert outcomes(sent(odd, good)) == outcomes(streamed(odd, good)) == ["invalid_arguments", ("f", {})]


@pytest.mark.parametrize("odd", ["f", 5, {"0": part(id="a", name="f")}, part(id="a", name="f")], ids=label)
def test_calls_that_are_no_list_are_not_lost(odd):
    body = reply()
    body["choices"][0]["message"]["tool_calls"] = odd
    assert outcomes(read_response(body)) == ["invalid_arguments"]
    piece = chunk()
    piece["choices"][0]["delta"]["tool_calls"] = odd
    assert outcomes(read_stream([piece, end()])) == ["invalid_arguments"]


@pytest.mark.parametrize(
    "body", ["<html>502</html>", "", None, [], [{}], 5, True, b"{}", [10**5000], 10**5000], ids=label
)
def test_what_is_no_object_is_no_reply(body):
    for read in (read_response, lambda one: read_stream([one]), lambda one: read_stream([chunk(content="a"), one])):
        with pytest.raises(ModelFailure, match="no JSON object"):
            read(body)


ERRORS = [{"message": "overloaded", "code": 502}, "overloaded", {"code": "overloaded"}, {"message": ["overloaded"]}]


@pytest.mark.parametrize("error", ERRORS, ids=str)
def test_an_error_is_no_reply_and_is_told(error):
    good = part(0, "a", "f", "{}")
    for read in (read_response, lambda one: read_stream([chunk(good), one, end()])):
        with pytest.raises(ModelFailure, match="overloaded"):
            read({"error": error} | reply(good))


def test_what_is_told_of_an_error_is_short_and_can_be_printed():
    for error in ("x" * 10**6, {"message": "\ud800" * 1000}, {"message": {"a": 10**5000}}, [10**5000]):
        with pytest.raises(ModelFailure) as caught:
            read_response({"error": error})
        assert str(caught.value).encode() and len(str(caught.value)) <= 500


NO_CHOICE = [None, [], [None], ["a"], {}, {"0": {}}, "a", [{"index": 0}], [{"message": None}], [{"message": "hello"}]]


@pytest.mark.parametrize("choices", NO_CHOICE, ids=str)
def test_a_reply_without_a_message_is_none(choices):
    with pytest.raises(ModelFailure, match="no message"):
        read_response({"choices": choices, "detail": "for the operator"})
    with pytest.raises(ModelFailure, match="no message"):
        read_response({})


def test_a_stream_of_nothing_is_no_reply():
    for chunks in ([], [{}], [{"choices": []}], [{"choices": None, "usage": {}}]):
        with pytest.raises(ModelFailure, match="before it began"):
            read_stream(chunks)


def test_usage_and_keep_alives_are_passed_over():
    turn = read_stream([{}, {"choices": [], "usage": {}}, chunk(part(0, "a", "f", "{}")), {"choices": None}, end(), {}])
    assert outcomes(turn) == [("f", {})]


def test_a_whole_message_in_a_stream_is_read_and_one_behind_the_deltas_is_not_read_again():
    message = reply(part(id="a", name="f", arguments="{}"), content="Now.")
    assert outcomes(read_stream([message])) == [("f", {})]
    last = end() | {"choices": [end()["choices"][0] | {"message": message["choices"][0]["message"]}]}
    turn = read_stream([chunk(part(0, "a", "f", "{}"), content="Now."), last])
    assert (turn.text, outcomes(turn)) == ("Now.", [("f", {})])


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 3) | st.builds(lambda: 10**5000) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
KEYS = [
    ("index", "id", "function", "type", "custom"),
    ("content", "tool_calls", "function_call", "refusal"),
    ("message", "delta", "index", "finish_reason"),
    ("choices", "error"),
]


def shaped() -> st.SearchStrategy:
    """Replies that have the right words in the right places, and anything else beside and beneath."""
    inner = st.fixed_dictionaries({}, optional=dict.fromkeys(("name", "arguments", "input"), ANYTHING))
    for keys in KEYS:
        value = inner | st.lists(inner, max_size=3) | ANYTHING
        inner = st.fixed_dictionaries({}, optional=dict.fromkeys(keys, value))
    return inner


@given(st.lists(shaped() | ANYTHING, max_size=4))
def test_any_reply_is_a_turn_or_a_failure_and_nothing_else(bodies):
    for read, body in [*[(read_response, body) for body in bodies], (read_stream, bodies)]:
        try:
            turn = read(body)
        except ModelFailure:
            continue
        assert type(turn) is ModelTurn and turn.model_dump_json()
        assert len(outcomes(turn)) == len({request.provider_id for request in turn.requests})


def test_a_structured_text_is_a_call_only_where_nothing_else_was_called():
    turn = sent(content='{"tool": "f", "arguments": {"n": 1}}', finish="stop")
    assert outcomes(read_structured(turn)) == [("f", {"n": 1})]
    both = sent(part(id="a", name="g", arguments="{}"), content='{"tool": "f", "arguments": {}}')
    assert read_structured(both) == both
    assert read_structured(sent(content='{"answer": "Yes."}')).text == "Yes."
    for text in (
        '{"tool": "f", "arguments": {',
        '{"tool": "f", "x": 1}',
        '{"tool": "f"} {"tool": "f"}',
        "f",
        '{"tool": 1}',
    ):
        assert read_structured(sent(content=text)) == sent(content=text)

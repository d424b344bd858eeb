"""OpenAIModel against a provider in another process: what is read, what is repeated, what is refused."""

from __future__ import annotations

import json

import pytest

from keel import ExecutionContext, Harness, Principal, ToolRegistry
from keel.adapters import ModelFailure, to_call
from keel.contracts import ToolFailure
from keel.loop import Agent, Budget, Stop
from keel.models import OpenAIModel

from .kit import ASK, DONE, DOUBLE, KEY, begun, call, closed_port, completion, delta, more, stream, whole

HTML = "<html><body>502 Bad Gateway</body></html>"


def names_and_arguments(turn):
    return [(one.name, one.arguments) for one in turn.requests]


def failure(model, messages=ASK) -> str:
    with pytest.raises(ModelFailure) as caught:
        model.complete(messages, [DOUBLE])
    return str(caught.value)


def reads(kind):
    """The options that make a model ask for whole replies, or for streamed ones."""
    return {"on_text": lambda _: None} if kind == "streamed" else {}


both = pytest.mark.parametrize("kind", ["whole", "streamed"])


def test_a_call_and_a_text_sent_whole(provider, server):
    model = provider(whole("Let me see.", call()))
    turn = model.complete(ASK, [DOUBLE])
    assert (turn.text, names_and_arguments(turn)) == ("Let me see.", [("double", '{"n": 21}')])
    (sent,) = server.asked(model)
    assert sent["request"] == {"model": model.model, "messages": ASK, "tools": [DOUBLE]}
    assert sent["headers"]["authorization"] == f"Bearer {KEY}"


def test_no_tools_means_no_word_of_tools(provider, server):
    model = provider(whole("Hello."))
    assert model.complete(ASK).text == "Hello."
    assert server.asked(model)[0]["request"].keys() == {"model", "messages"}


def test_parallel_calls_sent_whole(provider):
    turn = provider(whole(None, call('{"n": 1}', id="a"), call('{"n": 2}', id="b"))).complete(ASK, [DOUBLE])
    assert names_and_arguments(turn) == [("double", '{"n": 1}'), ("double", '{"n": 2}')]


def test_parallel_calls_streamed_and_interleaved(provider, server):
    events = [begun(), begun(index=1, id="call_b"), more('{"n":'), more('{"n": 2}', index=1), more(" 1}")]
    model = provider(stream(*events, delta("tool_calls"), DONE), **reads("streamed"))
    assert names_and_arguments(model.complete(ASK, [DOUBLE])) == [("double", '{"n": 1}'), ("double", '{"n": 2}')]
    assert server.asked(model)[0]["request"]["stream"] is True


def test_text_is_shown_as_it_arrives_and_not_at_the_end(provider, server):
    shown = []

    def show(text):
        shown.append(text)
        server.saw(text)  # only now does the provider send the rest

    step = stream(delta(content="Twenty-"), delta(content="one"), delta("stop"), DONE, pause=1)
    assert provider(step, on_text=show).complete(ASK).text == "Twenty-one"
    assert shown == ["Twenty-", "one"]


def test_events_may_be_torn_anywhere(provider):
    text = delta(content="é\u2028\x85中") + ": keep-alive\n\n" + begun('{"n": 21}').replace("\n\n", "\r\n\r\n")
    text += delta("tool_calls") + DONE
    turn = provider(stream(*text), **reads("streamed")).complete(ASK, [DOUBLE])
    assert (turn.text, names_and_arguments(turn)) == ("é\u2028\x85中", [("double", '{"n": 21}')])


def test_only_the_first_choice_is_shown(provider):
    other = {"choices": [{"index": 1, "delta": {"content": "other"}}]}
    shown = []
    events = [f"data: {json.dumps(other)}\n\n", delta(content="first"), delta("stop"), DONE]
    assert provider(stream(*events), on_text=shown.append).complete(ASK).text == "first"
    assert shown == ["first"]


def test_a_server_that_cannot_stream_answers_whole(provider):
    shown = []
    turn = provider(whole("Let me see.", call()), on_text=shown.append).complete(ASK, [DOUBLE])
    assert (turn.text, names_and_arguments(turn), shown) == (
        "Let me see.",
        [("double", '{"n": 21}')],
        ["Let me see."],
    )


@pytest.mark.parametrize("end", ["drop", "hang", "whole"])
def test_a_stream_cut_in_the_middle_is_never_completed(provider, end):
    step = stream(delta(content="I will"), begun(), more('{"n": 2'), end=end)
    turn = provider(step, timeout_s=2.0, **reads("streamed")).complete(ASK, [DOUBLE])
    assert turn.text == "I will"
    with pytest.raises(ToolFailure, match="cut short"):
        to_call(turn.requests[0], "c-1")


def test_a_stream_cut_inside_an_event(provider):
    step = stream(begun(), more('{"n": 2}')[:-20], end="drop")
    turn = provider(step, **reads("streamed")).complete(ASK, [DOUBLE])
    with pytest.raises(ToolFailure, match="cut short"):
        to_call(turn.requests[0], "c-1")


def test_a_stream_that_breaks_before_its_first_event(provider):
    assert "ended before it began" in failure(provider(stream(": hello\n\n", end="drop"), **reads("streamed")))


@both
def test_malformed_arguments_stay_as_sent_and_are_refused(provider, kind):
    bad = '{"n": 21,}'
    step = whole(None, call(bad)) if kind == "whole" else stream(begun(bad), delta("tool_calls"), DONE)
    turn = provider(step, **reads(kind)).complete(ASK, [DOUBLE])
    assert names_and_arguments(turn) == [("double", bad)]
    with pytest.raises(ToolFailure, match="not JSON"):
        to_call(turn.requests[0], "c-1")


@both
@pytest.mark.parametrize("wait", ["retry-after", "retry-after-ms"])
def test_after_429_the_client_waits_as_told_and_succeeds(provider, server, kind, wait):
    told = {"status": 429, "body": "{}", "headers": {wait: "1" if wait == "retry-after" else "1000"}}
    model = provider(told, whole("Here."), **reads(kind))
    assert model.complete(ASK).text == "Here."
    first, second = (one["at"] for one in server.asked(model))
    assert second - first >= 0.9


@both
def test_without_retries_429_is_a_failure_at_once(provider, server, kind):
    model = provider({"status": 429, "body": '{"error": {"message": "slow down"}}'}, max_retries=0, **reads(kind))
    text = failure(model)
    assert "status 429" in text and "slow down" in text
    assert len(server.asked(model)) == 1


def test_retries_are_counted(provider, server):
    model = provider({"status": 503, "body": "busy", "headers": {"retry-after-ms": "1"}}, max_retries=2)
    assert failure(model) == "the provider answered with status 503: busy"
    assert len(server.asked(model)) == 3


@both
def test_500_then_success(provider, server, kind):
    model = provider({"status": 500, "body": HTML, "headers": {"retry-after-ms": "1"}}, whole("Here."), **reads(kind))
    assert model.complete(ASK).text == "Here."
    assert len(server.asked(model)) == 2


@both
def test_a_provider_that_hangs_is_given_up(provider, server, kind):
    model = provider({"hang": True}, timeout_s=0.3, max_retries=1, **reads(kind))
    assert failure(model) == "the model did not answer in time"
    assert len(server.asked(model)) == 2


@both
def test_a_page_of_html_with_status_200(provider, kind):
    text = failure(provider({"body": HTML, "type": "text/html"}, **reads(kind)))
    assert "no JSON object" in text and "Bad Gateway" in text


@both
def test_an_error_object_with_status_200(provider, kind):
    assert failure(provider({"body": '{"error": {"message": "overloaded"}}'}, **reads(kind))) == "overloaded"


def test_an_error_inside_a_stream(provider):
    events = [begun('{"n": 21}'), 'data: {"error": {"message": "overloaded"}}\n\n', DONE]
    assert failure(provider(stream(*events), **reads("streamed"))) == "overloaded"


@pytest.mark.parametrize("event", ["data: what\n\n", "data: [1]\n\n", 'data: {"choices": 5}\n\n'])
def test_events_that_are_no_chunks(provider, event):
    assert failure(provider(stream(event, DONE), **reads("streamed")))


@both
@pytest.mark.parametrize("body", ["", "null", "[" * 100_000, '{"choices": [{"message": 5}]}', "\xff\xfe"])
def test_replies_that_are_none(provider, kind, body):
    assert failure(provider({"body": body}, **reads(kind)))


REFUSALS = {
    404: "The model `{}` does not exist or you do not have access to it.",
    403: "Project has no access to it (model_not_found)",
    400: "Model Not Exist",
    422: "{} is not a valid model ID",
}


@pytest.mark.parametrize("status", REFUSALS)
def test_a_wrong_model_name_names_the_variable(provider, status):
    body = json.dumps({"error": {"message": REFUSALS[status].format("wrong")}})
    text = failure(provider({"status": status, "body": body}, variable="DEEPSEEK_MODEL"))
    assert "does not take the model 'script-" in text and "set DEEPSEEK_MODEL" in text


@pytest.mark.parametrize("message", ["This model's maximum context length is 8192 tokens", "404 page not found"])
def test_other_refusals_are_not_blamed_on_the_name(provider, message):
    assert message in failure(provider({"status": 404, "body": message}))


def test_nobody_listens():
    model = OpenAIModel("m", api_key=KEY, base_url=f"http://127.0.0.1:{closed_port()}/v1", max_retries=0)
    assert "could not be reached" in failure(model)


@pytest.mark.parametrize("address", ["http://[", "127.0.0.1/v1", "nonsense", "http://127.0.0.1:port/v1"])
def test_an_address_that_is_none_is_a_failure_too(address):
    with pytest.raises(ModelFailure):
        OpenAIModel("m", api_key=KEY, base_url=address, max_retries=0).complete(ASK)


@both
def test_half_a_character_is_a_failure_and_no_crash(provider, kind):
    assert failure(provider(whole("Here."), **reads(kind)), [{"role": "user", "content": "\ud800"}])


def test_what_the_caller_gave_is_left_alone(provider):
    messages, tools = [dict(ASK[0])], [json.loads(json.dumps(DOUBLE))]
    provider(whole("Here.")).complete(messages, tools)
    assert (messages, tools) == (ASK, [DOUBLE])


def test_an_error_of_the_showing_function_is_the_callers_own(provider):
    def broken(_):
        raise TypeError("mine")

    with pytest.raises(TypeError, match="mine"):
        provider({"body": json.dumps(completion("Here."))}, on_text=broken).complete(ASK)
    with pytest.raises(TypeError, match="mine"):
        provider(stream(delta(content="Here."), delta("stop"), DONE), on_text=broken).complete(ASK)


def counted(tokens):
    """The last event of a stream that was asked for its tokens: it has no choice in it."""
    return f"data: {json.dumps({'choices': [], 'usage': {'total_tokens': tokens}})}\n\n"


TOO_NEW = {"status": 400, "body": '{"error": {"message": "Unrecognized request argument supplied: stream_options"}}'}
HERE = [delta(content="Here."), delta("stop")]


def wants_usage(server, model):
    return ["stream_options" in one["request"] for one in server.asked(model)]


def test_a_streamed_turn_is_asked_for_its_tokens_and_a_whole_one_says_them_anyway(provider, server):
    model = provider(stream(*HERE, counted(12), DONE), **reads("streamed"))
    turn = model.complete(ASK)
    assert (turn.text, turn.tokens) == ("Here.", 12)
    assert server.asked(model)[0]["request"]["stream_options"] == {"include_usage": True}
    model = provider(whole("Here."))
    model.complete(ASK)
    assert wants_usage(server, model) == [False]


def test_a_budget_of_tokens_ends_a_streamed_run(provider):
    registry = ToolRegistry()

    @registry.tool(read_only=True)
    def double(n: int) -> int:
        return 2 * n

    events = [begun('{"n": 21}'), delta("tool_calls"), counted(40), DONE]
    agent = Agent(provider(stream(*events), **reads("streamed")), Harness(registry), Budget(tokens=100))
    run = agent.run("Double 21.", ExecutionContext(principal=Principal(id="amira")))
    assert (run.stopped, run.turns, run.tokens) == (Stop.BUDGET_EXCEEDED, 3, 120)


@pytest.mark.parametrize("status", [400, 422])
def test_a_server_that_refuses_the_question_is_asked_without_it_and_never_again(provider, server, status):
    shown = []
    model = provider(TOO_NEW | {"status": status}, stream(*HERE, DONE), on_text=shown.append)
    assert [model.complete(ASK).text for _ in range(3)] == ["Here."] * 3 and shown == ["Here."] * 3
    assert wants_usage(server, model) == [True, False, False, False]


def test_what_is_refused_without_the_question_too_was_not_refused_for_it(provider, server):
    wrong = {"status": 400, "body": '{"error": {"message": "too long"}}'}
    model = provider(wrong, wrong, stream(*HERE, counted(12), DONE), **reads("streamed"))
    assert "too long" in failure(model)
    assert model.complete(ASK).tokens == 12
    assert wants_usage(server, model) == [True, False, True]


@pytest.mark.parametrize("status", [401, 403, 404])
def test_other_refusals_are_not_repeated(provider, server, status):
    model = provider({"status": status, "body": "no"}, **reads("streamed"))
    assert failure(model) and len(server.asked(model)) == 1

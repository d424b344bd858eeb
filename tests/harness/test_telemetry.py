"""What a service sees of its calls in OpenTelemetry."""

import sys
import threading
from importlib import import_module

import pytest

from keel import ErrorCode, Harness, MemoryLedger, ToolFailure, ToolRequest, Trace, telemetry
from keel.loop import Agent, Budget
from keel.telemetry import OpenTelemetry
from keel.trace import Event

from .kit import AMIRA, registry_of


def test_without_opentelemetry_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(ImportError, match="pip install opentelemetry-sdk"):
        OpenTelemetry()


@pytest.fixture
def sdk():
    """A tracer of the real SDK, and what it has sent out."""
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider.get_tracer("test"), exporter.get_finished_spans


def fired(tracer, function, **options):
    """Send one request to one tool, and give the trace."""
    trace = Trace(send=OpenTelemetry(tracer))
    harness = Harness(registry_of(function, **options), ledger=MemoryLedger(), trace=trace)
    harness.handle(ToolRequest(name="tool", arguments={}), AMIRA)
    assert trace.lost == 0
    return trace


def test_a_call_is_one_span_with_its_stages_inside_it_and_their_real_times(sdk):
    tracer, finished = sdk
    trace = fired(tracer, lambda: "done", permission="desk:write", read_only=False, needs_approval=False)
    *stages, whole = finished()
    answer = next(event for event in trace.events if event.stage == "answer")
    assert (whole.name, whole.parent, whole.status.is_ok) == ("execute_tool tool", None, True)
    assert (whole.start_time, whole.end_time) == (answer.time_ns - answer.duration_ns, answer.time_ns)
    assert whole.attributes["gen_ai.tool.call.id"] == answer.call_id
    assert whole.attributes["user.id"] == "amira"
    noted = [event for event in trace.events if event.stage not in ("read", "answer")]
    assert [span.name for span in stages] == [f"keel.{event.stage}" for event in noted]
    assert [span.end_time for span in stages] == [event.time_ns for event in noted]
    assert {span.parent.span_id for span in stages} == {whole.context.span_id}
    operations = [one for one in finished() if "gen_ai.operation.name" in one.attributes]
    assert operations == [whole]  # or whoever counts tool calls would count each stage too


def test_a_failed_call_and_the_stage_that_failed_say_so(sdk):
    tracer, finished = sdk

    def broken():
        raise ToolFailure(ErrorCode.NOT_FOUND, "there is no such ticket")

    fired(tracer, broken)
    failed = {span.name for span in finished() if not span.status.is_ok}
    assert failed == {"execute_tool tool", "keel.run"}
    assert {span.attributes["error.type"] for span in finished() if not span.status.is_ok} == {"tool_failed"}
    assert "there is no such ticket" not in "".join(span.to_json() for span in finished())


def test_a_request_that_cannot_be_read_is_a_failed_call(sdk):
    tracer, finished = sdk
    harness = Harness(registry_of(lambda: 1), trace=Trace(send=OpenTelemetry(tracer)))
    harness.handle(ToolRequest(name="tool", arguments="{not json"), AMIRA)
    (span,) = finished()
    assert (span.name, span.attributes["error.type"]) == ("execute_tool tool", "invalid_arguments")


def test_what_an_agent_does_is_inside_its_run(sdk):
    from keel.adapters import ModelTurn
    from keel.models import ScriptedModel

    tracer, finished = sdk
    harness = Harness(registry_of(lambda: 1), trace=Trace(send=OpenTelemetry(tracer)))
    turns = [ModelTurn(requests=[ToolRequest(provider_id="1", name="tool", arguments={})]), ModelTurn(text="It is 1.")]
    Agent(ScriptedModel(turns), harness, Budget(turns=3)).run("What is it?", AMIRA)
    run = next(span for span in finished() if span.name == "invoke_agent")
    inside = [span.name for span in finished() if span.parent and span.parent.span_id == run.context.span_id]
    assert inside == ["chat", "execute_tool tool", "chat"]
    assert run.attributes["keel.outcome"] == "answered"
    assert all(run.start_time <= span.start_time and span.end_time <= run.end_time for span in finished())


def test_a_call_is_part_of_the_request_that_it_came_with(sdk):
    tracer, finished = sdk
    with tracer.start_as_current_span("POST /calls") as request:
        fired(tracer, lambda: 1)
    whole = next(span for span in finished() if span.name == "execute_tool tool")
    assert whole.parent.span_id == request.get_span_context().span_id


def test_calls_that_never_end_are_given_up_the_oldest_first(sdk, monkeypatch):
    tracer, finished = sdk
    monkeypatch.setattr(telemetry, "OPEN", 2)
    send = OpenTelemetry(tracer)
    for number in range(5):
        send(Event(1000 + number, 10, "lookup", "ok", "r", f"c-{number}", "tool"))
        send(Event(1000 + number, 0, "start", "ok", f"r-{number}"))
    calls = [span for span in finished() if span.name == "execute_tool tool"]
    assert [span.attributes["gen_ai.tool.call.id"] for span in calls] == ["c-0", "c-1", "c-2"]
    assert {span.attributes["error.type"] for span in calls} == {"unanswered"}
    runs = [span.attributes["gen_ai.conversation.id"] for span in finished() if span.name == "invoke_agent"]
    assert runs == ["r-0", "r-1", "r-2"]


def test_calls_of_many_threads_keep_their_stages_apart(sdk):
    tracer, finished = sdk
    trace = Trace(send=OpenTelemetry(tracer))
    harness = Harness(registry_of(lambda: 1), trace=trace)

    def fire():
        for _ in range(20):
            harness.handle(ToolRequest(name="tool", arguments={}), AMIRA)

    threads = [threading.Thread(target=fire) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    whole = {span.context.span_id: span for span in finished() if span.name == "execute_tool tool"}
    inside = [span for span in finished() if span.context.span_id not in whole]
    assert (trace.lost, len(whole)) == (0, 160)
    assert len(inside) == 160 * len({span.name for span in inside})
    for span in inside:
        assert span.attributes["gen_ai.tool.call.id"] == whole[span.parent.span_id].attributes["gen_ai.tool.call.id"]


def test_an_exporter_that_breaks_costs_a_count_and_no_call(sdk):
    class Broken:
        def start_span(self, *args, **options):
            raise RuntimeError("no collector")

    trace = Trace(send=OpenTelemetry(Broken()))
    result = Harness(registry_of(lambda: 1), trace=trace).handle(ToolRequest(name="tool", arguments={}), AMIRA)
    assert result.ok
    assert trace.lost > 0


def names_of(kind):
    module = import_module(f"opentelemetry.semconv._incubating.attributes.{kind}_attributes")
    return {name for name in vars(module).values() if isinstance(name, str)}


def test_every_name_is_one_of_the_conventions_or_says_that_it_is_keels_own():
    def breaks(n: int = 0) -> int:
        raise OSError("no")

    trace = Trace(content=True, texts=True)
    harness = Harness(registry_of(breaks), trace=trace)
    harness.handle(ToolRequest(name="tool", arguments={}), AMIRA)
    used = {name for event in trace.events for name in event.attributes() if not name.startswith("keel.")}
    known = set().union(*map(names_of, ("gen_ai", "code", "error", "exception", "user")))
    assert used - known == {"time_unix_nano", "duration_nano"}, "these two a span has without a name for them"
    assert {"code.function.name", "exception.message", "gen_ai.tool.call.result"} <= used

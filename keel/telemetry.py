"""Spans for OpenTelemetry, made of a trace's events: `Trace(send=OpenTelemetry())`.

OpenTelemetry itself is no dependency of keel. It is loaded when somebody asks for it here.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any

from .trace import INTERRUPTED, Event

OPEN = 10_000  # so many calls, and as many runs, may be under way; of more, the oldest are ended as they are
UNANSWERED = "unanswered"

_APART = {"late", "settle"}  # they come when the call's own span has ended, or in another process
_WHOLE = {"answer", "read", "model", "start", "stop"}  # each an operation by itself, and not a part of one
_IN_THE_SPAN = {"time_unix_nano", "duration_nano"}


class OpenTelemetry:
    """Turns events into spans: a call, its stages inside it, and what an agent's run did inside the run.

    `tracer` is OpenTelemetry's own; without one, the tracer of the provider that the program has set.
    What belongs to no open run is part of the caller's current span, if there is one. A call's spans
    are made when it has its result. Raises ImportError where `opentelemetry-api` is missing.
    """

    def __init__(self, tracer: Any = None):
        try:
            from opentelemetry import trace
        except ImportError as error:
            raise ImportError("OpenTelemetry is not installed here: pip install opentelemetry-sdk") from error
        self._api, self._tracer = trace, trace.get_tracer("keel") if tracer is None else tracer
        self._lock = threading.Lock()
        self._calls: OrderedDict[str, list[Event]] = OrderedDict()  # the stages of calls that have no result yet
        self._runs: OrderedDict[str, Any] = OrderedDict()  # the spans of runs that go on

    def __call__(self, event: Event) -> None:
        """Take one event."""
        if event.stage == "start":
            self._start(event)
        elif event.stage == "stop":
            self._stop(event)
        elif event.stage == "answer" or (event.stage == "read" and event.failed):
            with self._lock:
                stages = self._calls.pop(event.call_id, [])
            self._call(event, stages)
        elif event.stage == "read":
            return  # the call itself comes next
        elif event.stage == "model":
            self._end(self._span("chat", event, self._within(event), self._api.SpanKind.CLIENT), event)
        elif event.stage in _APART or event.call_id is None:
            self._stage(event, self._within(event))
        else:
            self._keep(event)

    def _start(self, event: Event) -> None:
        span = self._span("invoke_agent", event, None)
        with self._lock:
            ended = [self._runs.pop(event.run_id, None)]
            self._runs[event.run_id] = span
            ended += [self._runs.popitem(last=False)[1]] if len(self._runs) > OPEN else []
        for one in filter(None, ended):
            one.set_attribute("keel.outcome", UNANSWERED)
            one.end()

    def _stop(self, event: Event) -> None:
        with self._lock:
            span = self._runs.pop(event.run_id, None)
        if span is not None:
            span.set_attributes(_attributes(event))
            self._end(span, event)

    def _keep(self, event: Event) -> None:
        with self._lock:
            self._calls.setdefault(event.call_id, []).append(event)
            forgotten = self._calls.popitem(last=False)[1] if len(self._calls) > OPEN else []
        if forgotten:
            last, spent = forgotten[-1], forgotten[-1].time_ns - _began(forgotten[0])
            self._call(last._replace(duration_ns=spent, stage="answer", outcome=UNANSWERED, more={}), forgotten)

    def _call(self, answer: Event, stages: list[Event]) -> None:
        span = self._span(f"execute_tool {answer.tool or ''}".rstrip(), answer, self._within(answer))
        if span.is_recording():
            inside = self._api.set_span_in_context(span)
            for stage in stages:
                self._stage(stage, inside)
        self._end(span, answer)

    def _stage(self, event: Event, within: Any) -> None:
        self._end(self._span(f"keel.{event.stage}", event, within), event)

    def _within(self, event: Event) -> Any:
        """The context of the open run that this belongs to; None is the caller's own."""
        with self._lock:
            span = self._runs.get(event.run_id)
        return None if span is None else self._api.set_span_in_context(span)

    def _span(self, name: str, event: Event, within: Any, kind: Any = None) -> Any:
        kind = kind or self._api.SpanKind.INTERNAL
        return self._tracer.start_span(name, within, kind, _attributes(event), start_time=_began(event))

    def _end(self, span: Any, event: Event) -> None:
        if event.failed or event.outcome == INTERRUPTED:
            span.set_status(self._api.StatusCode.ERROR, event.outcome)
            span.set_attribute("error.type", event.outcome)
        span.end(event.time_ns)


def _began(event: Event) -> int:
    return event.time_ns - event.duration_ns


def _attributes(event: Event) -> dict[str, Any]:
    """What the span does not say by itself, in types that a span may hold."""
    unsaid = _IN_THE_SPAN if event.stage in _WHOLE else _IN_THE_SPAN | {"gen_ai.operation.name"}
    found = {name: value for name, value in event.attributes().items() if name not in unsaid and value is not None}
    return {name: value if isinstance(value, str | bool | int | float) else str(value) for name, value in found.items()}

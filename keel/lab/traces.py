"""A trace to look at: `timeline` as a picture, `explain` in words."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Sequence

from keel.contracts import ToolError
from keel.recovery import next_step
from keel.trace import Event, Trace, calls_of, read_trace

from .catalogue import words
from .plots import GREY, INK, KINDS, Picture, Sheet

Source = Trace | Iterable[Event] | str | os.PathLike
ROWS = 40  # that a picture can hold and a reader can look at
_LEFT, _WIDTH, _HEIGHT = 240, 380, 24


def events_of(trace: Source) -> list[Event]:
    """The events of a Trace, of a trace file by its path, or of events themselves. Raises OSError for a file."""
    if isinstance(trace, Trace):
        return trace.events
    return read_trace(trace) if isinstance(trace, str | os.PathLike) else list(trace)


def ticking(step_ns: int = 1_000_000) -> Callable[[], int]:
    """A clock for notebooks: each look at it is one millisecond after the last, from the first of May 2026 on."""
    return itertools.count(1_777_593_600_000_000_000, step_ns).__next__


def timeline(trace: Source) -> Picture:
    """One row for each call and each turn of the model, the stages of a call side by side on one axis of time.

    A stage that refused is red, `run` is dark. Of a long trace the last 40 rows are drawn, and it says so.
    """
    rows = _rows(events_of(trace))
    drawn = rows[-ROWS:]
    if not drawn:
        sheet = Sheet(480, 60)
        sheet.text(16, 34, words("trace.timeline.empty"))
        return sheet.picture(words("trace.timeline.title"), words("trace.timeline.empty"))
    first = min(event.time_ns - event.duration_ns for _, events in drawn for event in events)
    span = max(max(event.time_ns for _, events in drawn for event in events) - first, 1)
    sheet = Sheet(_LEFT + _WIDTH + 190, 60 + _HEIGHT * len(drawn))
    for at, (label, events) in enumerate(drawn):
        _draw_row(sheet, 12 + _HEIGHT * at, label, events, first, span)
    bottom = 24 + _HEIGHT * len(drawn)
    sheet.line(_LEFT, bottom - 8, _LEFT + _WIDTH, bottom - 8, GREY)
    sheet.text(_LEFT, bottom + 10, "0", 12, GREY)
    sheet.text(_LEFT + _WIDTH, bottom + 10, f"{span / 1e6:.4g}", 12, GREY, "right")
    sheet.text(_LEFT + _WIDTH + 12, bottom + 10, words("trace.timeline.unit"), 11, GREY)
    lines = [f"{label:<28} {_told(events)}" for label, events in drawn]
    if len(rows) > ROWS:
        more = words("trace.timeline.more", count=len(rows) - ROWS)
        sheet.text(16, bottom + 28, more, 12, GREY)
        lines.insert(0, more)
    return sheet.picture(words("trace.timeline.title"), "\n".join(lines))


def _rows(events: Sequence[Event]) -> list[tuple[str, list[Event]]]:
    """Calls and turns of the model, in the order of their first events."""
    rows, at = [], {}
    for event in events:
        if event.stage == "model":
            rows.append((words("trace.timeline.model"), [event]))
        elif event.call_id is not None:
            if event.call_id not in at:
                at[event.call_id] = len(rows)
                rows.append(("", []))
            rows[at[event.call_id]][1].append(event)
    return [(label or _label(of_call), of_call) for label, of_call in rows]


def _label(events: Sequence[Event]) -> str:
    name = next((event.tool for event in events if event.tool), "?")
    return f"{_short(events[0].call_id)} {name}"


def _short(call_id: str) -> str:
    return call_id if len(call_id) <= 12 else f"{call_id[:11]}…"


def _draw_row(sheet: Sheet, down: float, label: str, events: Sequence[Event], first: int, span: int) -> None:
    sheet.text(16, down + 12, label, ink=INK)
    for event in events:
        if event.stage == "answer" and len(events) > 1:
            continue
        width = max(2.0, _WIDTH * event.duration_ns / span)
        left = _LEFT + _WIDTH * (event.time_ns - event.duration_ns - first) / span
        fill, edge = (
            KINDS["failed"] if event.failed else (("#2563eb", "#2563eb") if _heavy(event) else ("#dbe6fb", GREY))
        )
        sheet.box(left, down, width, 15, fill, edge)
    sheet.text(_LEFT + _WIDTH + 12, down + 12, _outcome(events), 12)


def _heavy(event: Event) -> bool:
    return event.stage in ("run", "model")


def _outcome(events: Sequence[Event]) -> str:
    ends = [
        event.outcome
        for event in events
        if event.stage in ("answer", "model") or (event.stage == "read" and event.failed)
    ]
    return ends[-1] if ends else words("trace.timeline.going")


def _told(events: Sequence[Event]) -> str:
    stages = [
        f"{event.stage}!" if event.failed else event.stage for event in events if event.stage not in ("answer", "model")
    ]
    return f"{' '.join(stages)} → {_outcome(events)}".strip()


def explain(trace: Source, call_id: str) -> str:
    """What one call went through, stage by stage, where it stopped, and what to do next. Made to be printed."""
    calls = calls_of(events_of(trace))
    if call_id not in calls:
        known = ", ".join(list(calls)[:5]) or words("trace.explain.none")
        return words("trace.explain.unknown", call_id=call_id, known=known)
    events = calls[call_id]
    user = next((event.more["user.id"] for event in events if "user.id" in event.more), None)
    tool = next((event.tool for event in events if event.tool), None) or words("trace.explain.unnamed")
    lines = [words("trace.explain.head", call_id=call_id, tool=tool, user=user or words("trace.explain.nobody"))]
    for event in events:
        lines.append("  " + words("trace.explain.line", stage=event.stage, outcome=event.outcome))
        if "exception.type" in event.more:
            kind, place = event.more["exception.type"], event.more.get("code.function.name", "?")
            line = event.more.get("code.line.number", "?")
            lines.append("  " + words("trace.explain.raised", kind=kind, place=place, line=line))
    return "\n".join([*lines, *_verdict(events)])


def _verdict(events: Sequence[Event]) -> list[str]:
    """How it ended, in a sentence; and what was learned of it later."""
    later = [one for one in events if one.stage in ("late", "settle")]
    told = [
        words("trace.explain.late", outcome=one.outcome)
        if one.stage == "late"
        else words("trace.explain.settled", outcome=one.outcome)
        for one in later
    ]
    walked = [one for one in events if one.stage not in ("late", "settle")]
    return [_ending(walked), *told] if walked else told


def _ending(events: Sequence[Event]) -> str:
    last = events[-1]
    stages = [one for one in events if one.stage != "answer"]
    if last.stage != "answer" and not last.failed:
        return words("trace.explain.open", stage=last.stage)
    if last.outcome == "interrupted":
        return words("trace.explain.interrupted", stage=stages[-1].stage if stages else last.stage)
    if last.outcome == "ok":
        source = next((one.more.get("keel.replayed.call.id") for one in stages if one.outcome == "replayed"), None)
        return words("trace.explain.replayed", call_id=source) if source else words("trace.explain.through")
    advice = next_step(ToolError(code=last.outcome, message="")).advice
    stopped = next((one for one in reversed(stages) if one.failed), None)
    if stopped is None:  # a stored failure is replayed, or the call was answered before its first stage
        return words("trace.explain.refused", code=last.outcome, advice=advice)
    return words("trace.explain.stopped", stage=stopped.stage, code=last.outcome, advice=advice)

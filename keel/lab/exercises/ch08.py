"""Chapter 08's exercises: late answers and their calls, ids that repeat, a batch with one failure."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from typing import Any

from keel.contracts import ToolCall, ToolFailure, ToolRequest, ToolResult
from keel.lab.exercises.model import Case, Exercise, Mistake

# --- 08-a: pair late answers ----------------------------------------------------------------------------------------


def pair_stub(calls, results): ...


def pair_solution(calls, results):
    by_id = {result.call_id: result for result in results}
    return [by_id.get(call.call_id) for call in calls]


def pair_by_position(calls, results):
    paired = [result for _, result in zip(calls, results, strict=False)]
    return paired + [None] * (len(calls) - len(paired))


def pair_by_name(calls, results):
    by_name = {result.tool_name: result for result in results}
    return [by_name.get(call.name) for call in calls]


def pair_next_of_name(calls, results):
    left = list(results)
    paired = []
    for call in calls:
        found = next((result for result in left if result.tool_name == call.name), None)
        if found:
            left.remove(found)
        paired.append(found)
    return paired


def pair_drops_missing(calls, results):
    by_id = {result.call_id: result for result in results}
    return [by_id[call.call_id] for call in calls if call.call_id in by_id]


# Each call of a case is written as its id and what it asks about: "c-1:INC-001", "c-2:latency".
def _tool_of(what: str) -> str:
    return "lookup_incident" if what.startswith("INC-") else "query_data"


def _call(written: str) -> ToolCall:
    call_id, what = written.split(":")
    field = "incident_id" if what.startswith("INC-") else "table"
    return ToolCall(call_id=call_id, name=_tool_of(what), arguments={field: what})


def _result(written: str) -> ToolResult:
    call_id, what = written.split(":")
    return ToolResult(call_id=call_id, tool_name=_tool_of(what), tool_version="1.0", ok=True, data={"about": what})


def _pair_case(name: str, calls: str, results: str) -> Case:
    """One turn. Seen: for each call, in order, the result that it got, or None."""
    asked, came = calls.split(), results.split()

    def run(answer: Callable[..., Any]) -> Any:
        returned = answer([_call(one) for one in asked], [_result(one) for one in came])
        if not isinstance(returned, list | tuple):
            return returned
        return [f"{one.call_id}:{one.data['about']}" if isinstance(one, ToolResult) else one for one in returned]

    shown = f"pair(calls=[{', '.join(asked)}], results=[{', '.join(came)}])"
    return Case(name, shown, run, [one if one in came else None for one in asked])


PAIR = Exercise(
    id="08-a",
    name="pair",
    minutes=5,
    stub=pair_stub,
    solution=pair_solution,
    cases=(
        _pair_case("in_order", "c-1:INC-001 c-2:latency", "c-1:INC-001 c-2:latency"),
        _pair_case("out_of_order", "c-1:INC-001 c-2:latency", "c-2:latency c-1:INC-001"),
        _pair_case("one_tool", "c-1:INC-001 c-2:INC-002 c-3:INC-003", "c-3:INC-003 c-1:INC-001 c-2:INC-002"),
        _pair_case("same_question", "c-1:INC-001 c-2:INC-001", "c-2:INC-001 c-1:INC-001"),
        _pair_case("one_missing", "c-1:INC-001 c-2:INC-002", "c-2:INC-002"),
        _pair_case("none_yet", "c-1:INC-001 c-2:latency", ""),
        _pair_case("other_turn", "c-4:INC-004 c-5:INC-005", "c-2:INC-002 c-5:INC-005"),
    ),
    mistakes=(
        Mistake(
            "by_position",
            pair_by_position,
            lambda first, _: first.case.name == "out_of_order" and first.got == first.case.expected[::-1],
        ),
        Mistake("by_name", pair_by_name, lambda first, _: first.case.name == "one_tool" and len(set(first.got)) == 1),
        Mistake(
            "next_of_name",
            pair_next_of_name,
            lambda first, _: first.case.name == "one_tool" and first.got[0].startswith("c-3") and len(first.got) == 3,
        ),
        Mistake(
            "drops_missing",
            pair_drops_missing,
            lambda first, _: first.case.name == "one_missing" and len(first.got) == 1,
        ),
    ),
)

# --- 08-b: ids that repeat ------------------------------------------------------------------------------------------


def answer_turn_stub(requests, handle): ...


def answer_turn_solution(requests, handle):
    messages = []
    for request in requests:
        content = handle(request).model_dump_json(exclude={"call_id"})
        messages.append({"role": "tool", "tool_call_id": request.provider_id, "content": content})
    return messages


def answer_turn_dict(requests, handle):
    by_id = {request.provider_id: request for request in requests}
    return answer_turn_solution(list(by_id.values()), handle)


def answer_turn_results_by_id(requests, handle):
    results = {request.provider_id: handle(request) for request in requests}
    return answer_turn_solution(requests, lambda request: results[request.provider_id])


def answer_turn_drops(requests, handle):
    messages, seen = [], set()
    for request in requests:
        if request.provider_id not in seen:
            seen.add(request.provider_id)
            messages += answer_turn_solution([request], handle)
    return messages


def answer_turn_renames(requests, handle):
    messages = answer_turn_solution(requests, handle)
    for number, message in enumerate(messages):
        if message["tool_call_id"] in [one["tool_call_id"] for one in messages[:number]]:
            message["tool_call_id"] += f"-{number}"
    return messages


def answer_turn_backwards(requests, handle):
    return answer_turn_solution(requests[::-1], handle)[::-1]


def _turn_case(name: str, *requests: str) -> Case:
    """One turn, each request written as provider id and what it asks about. Seen: what was done, what goes back."""
    pairs = [tuple(written.split(":")) for written in requests]

    def run(answer: Callable[..., Any]) -> dict[str, Any]:
        ran: list[str] = []

        def handle(request: ToolRequest) -> ToolResult:
            ran.append(request.arguments["incident_id"])
            return _result(f"c-{len(ran)}:{ran[-1]}")

        sent = [
            ToolRequest(provider_id=provider_id, name="lookup_incident", arguments={"incident_id": what})
            for provider_id, what in pairs
        ]
        returned = answer(sent, handle)
        messages = [_read(one) for one in returned] if isinstance(returned, list | tuple) else returned
        return {"ran": ran, "messages": messages}

    done = {
        "ran": [what for _, what in pairs],
        "messages": [{"role": "tool", "tool_call_id": provider_id, "about": what} for provider_id, what in pairs],
    }
    return Case(name, f"answer_turn([{', '.join(requests)}], handle)", run, done)


def _read(message: Any) -> Any:
    """A message with its content read as the model would, or as it is where that cannot be done."""
    try:
        about = json.loads(message["content"])["data"]["about"]
        return {"role": message["role"], "tool_call_id": message["tool_call_id"], "about": about}
    except (ValueError, TypeError, LookupError):
        return message


ANSWER_TURN = Exercise(
    id="08-b",
    name="answer_turn",
    minutes=10,
    stub=answer_turn_stub,
    solution=answer_turn_solution,
    cases=(
        _turn_case("one", "call_a:INC-001"),
        _turn_case("two", "call_a:INC-001", "call_b:INC-002"),
        _turn_case("repeated", "call_0:INC-001", "call_0:INC-002"),
        _turn_case("repeated_apart", "call_0:INC-001", "call_1:INC-002", "call_0:INC-003"),
        _turn_case("all_the_same", "call_0:INC-001", "call_0:INC-001", "call_0:INC-001"),
        _turn_case("like_ours", "c-2:INC-001", "c-1:INC-002"),
    ),
    mistakes=(
        Mistake("dict_loses_one", answer_turn_dict, lambda first, _: _ran(first) == ["INC-002"]),
        Mistake("drops_the_second", answer_turn_drops, lambda first, _: _ran(first) == ["INC-001"]),
        Mistake(
            "one_answer_twice",
            answer_turn_results_by_id,
            lambda first, _: (
                first.case.name == "repeated" and [one["about"] for one in first.got["messages"]] == ["INC-002"] * 2
            ),
        ),
        Mistake(
            "renames",
            answer_turn_renames,
            lambda first, _: (
                first.case.name == "repeated" and len({one["tool_call_id"] for one in first.got["messages"]}) == 2
            ),
        ),
        Mistake("other_order", answer_turn_backwards, lambda first, _: _other_order(first)),
    ),
)


def _ran(trial: Any) -> Any:
    """What a trial of two requests under one id has carried out; None for any other trial."""
    return trial.got["ran"] if trial.case.name == "repeated" else None


def _other_order(trial: Any) -> bool:
    """Whether a trial has carried out what it should, in another order."""
    ran, asked = trial.got["ran"], trial.case.expected["ran"]
    return ran != asked and sorted(ran) == sorted(asked)


# --- 08-c: a batch with one failure ---------------------------------------------------------------------------------


def batch_stub(calls, reads, run): ...


def batch_solution(calls, reads, run):
    def one(call):
        try:
            return run(call)
        except ToolFailure as failure:
            answer = {"call_id": call.call_id, "tool_name": call.name, "tool_version": None}
            return ToolResult(**answer, ok=False, error=failure.error)

    results = []
    with ThreadPoolExecutor() as pool:
        for _, group in groupby(calls, lambda call: call.name in reads or call.call_id):
            results += pool.map(one, group)
    return results


def _failed(call, failure):
    return ToolResult(call_id=call.call_id, tool_name=call.name, tool_version=None, ok=False, error=failure.error)


def batch_stops(calls, reads, run):
    results = []
    for call in calls:
        try:
            results.append(run(call))
        except ToolFailure as failure:
            results.append(_failed(call, failure))
            break
    return results


def batch_raises(calls, reads, run):
    return [run(call) for call in calls]


def batch_one_by_one(calls, reads, run):
    return [batch_solution([call], reads, run)[0] for call in calls]


def batch_all_at_once(calls, reads, run):
    return batch_solution(calls, {call.name for call in calls}, run)


def batch_no_barrier(calls, reads, run):
    ordered = sorted(calls, key=lambda call: call.name not in reads)
    results = {result.call_id: result for result in batch_solution(ordered, reads, run)}
    return [results[call.call_id] for call in calls]


# How long a body waits for what may come: in vain where it must not come, and long enough where it must.
_NEVER_S, _SOON_S = 0.1, 1.0
_READS = frozenset({"lookup_incident", "count_tickets"})


class _Bench:
    """Carries out the calls of a batch, and arranges that what begins too early or too late is seen.

    In a case that `meets`, each read waits until the next one has ended: side by side they end in reverse order.
    Everywhere else, whatever has calls after it gives the next write, or the next count, the time to begin too early.
    """

    def __init__(self, calls: Sequence[ToolCall], fails: frozenset[str], meets: bool):
        self.order = [call.call_id for call in calls]
        self.fails, self.meets = fails, meets
        self.began = {call_id: threading.Event() for call_id in self.order}
        self.ended = {call_id: threading.Event() for call_id in self.order}
        self.writes = [call.call_id for call in calls if call.name not in _READS]
        self.tickets: list[str] = []
        self.early: list[str] = []
        self.alone: list[str] = []

    def run(self, call: ToolCall) -> ToolResult:
        self.began[call.call_id].set()
        after = self.order[self.order.index(call.call_id) + 1 :]
        if self.meets:
            if after and not self.alone and not self.ended[after[0]].wait(_SOON_S):
                self.alone.append(call.call_id)
        elif after and (call.name not in _READS or after[0] in self.writes) and self.began[after[0]].wait(_NEVER_S):
            self.early.append(after[0])
        try:
            return self._carry_out(call)
        finally:
            self.ended[call.call_id].set()

    def _carry_out(self, call: ToolCall) -> ToolResult:
        if call.call_id in self.fails:
            raise ToolFailure("tickets_closed", "No tickets are taken today.")
        if call.call_id in self.writes:
            self.tickets.append(call.call_id)
        data = {"tickets": len(self.tickets)}
        return ToolResult(call_id=call.call_id, tool_name=call.name, tool_version="1.0", ok=True, data=data)


_NAMES = {"read": "lookup_incident", "count": "count_tickets", "write": "create_ticket"}


def _batch_case(name: str, kinds: str, *said: str | int, fails: str = "", meets: bool = False) -> Case:
    """One batch. Seen: per answer, in order, whose it is and what it says; what began too early, or waited alone."""
    calls = [
        ToolCall(call_id=f"c-{number}", name=_NAMES[kind], arguments={}) for number, kind in enumerate(kinds.split(), 1)
    ]

    def run(answer: Callable[..., Any]) -> dict[str, Any]:
        bench = _Bench(calls, frozenset(fails.split()), meets)
        returned = answer(list(calls), set(_READS), bench.run)
        got = [_said(one) for one in returned] if isinstance(returned, list | tuple) else returned
        if bench.early or bench.alone:  # what came of it is then a matter of chance
            return {"too_early": sorted(bench.early), "waited_alone": sorted(bench.alone)}
        return {"answers": got, "too_early": [], "waited_alone": []}

    answers = [(f"c-{number}", one) for number, one in enumerate(said, 1)]
    shown = f"batch([{', '.join(kinds.split())}], reads, run)" + (f"  # fails: {fails}" if fails else "")
    return Case(name, shown, run, {"answers": answers, "too_early": [], "waited_alone": []})


def _said(one: Any) -> Any:
    if not isinstance(one, ToolResult):
        return one
    return one.call_id, one.data["tickets"] if one.ok else one.error.code


_CLOSED = "tickets_closed"

BATCH = Exercise(
    id="08-c",
    name="batch",
    minutes=20,
    stub=batch_stub,
    solution=batch_solution,
    cases=(
        _batch_case("one_read", "read", 0),
        _batch_case("read_fails", "read read read", 0, _CLOSED, 0, fails="c-2"),
        _batch_case("first_fails", "write write write", _CLOSED, 1, 2, fails="c-1"),
        _batch_case("side_by_side", "read read read", 0, 0, 0, meets=True),
        _batch_case("write_between", "count write count", 0, 1, 1),
        _batch_case("none", ""),
    ),
    mistakes=(
        Mistake("raises", batch_raises, lambda first, _: first.crash.kind == "ToolFailure"),
        Mistake(
            "stops_siblings",
            batch_stops,
            lambda first, _: (
                first.case.name in ("read_fails", "first_fails")
                and len(first.got["answers"]) < 3
                and first.got["answers"] == first.case.expected["answers"][: len(first.got["answers"])]
            ),
        ),
        Mistake(
            "all_at_once",
            batch_all_at_once,
            lambda first, _: first.case.name == "first_fails" and len(first.got["too_early"]) > 0,
        ),
        Mistake("one_by_one", batch_one_by_one, lambda first, _: len(first.got["waited_alone"]) > 0),
        Mistake(
            "no_barrier",
            batch_no_barrier,
            lambda first, _: first.case.name == "write_between" and len(first.got["too_early"]) > 0,
        ),
    ),
)

EXERCISES = (PAIR, ANSWER_TURN, BATCH)

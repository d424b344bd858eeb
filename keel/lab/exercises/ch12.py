"""Chapter 12's exercises: a turn budget, a run that is stuck, a run that was saved in the middle of a turn."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from uuid import uuid4

from keel import adapters
from keel.contracts import ToolCall, ToolError, ToolRequest, ToolResult
from keel.lab.exercises.model import Case, Exercise, Mistake
from keel.lab.exercises.saved_runs import SavedDesk, read_run, saved

# --- 12-a: a turn budget --------------------------------------------------------------------------------------------


def loop_stub(model, handle, turns): ...


def loop_solution(model, handle, turns):
    from keel.adapters import assistant_message, to_message

    history = []
    for _ in range(turns):
        turn = model.complete(history)
        history.append(assistant_message(turn))
        if not turn.requests:
            return history, "answered"
        history += [to_message(request, handle(request)) for request in turn.requests]
    return history, "budget_exceeded"


def _loops(cost=lambda results: 1, turns_more=0, sees=True, answers_last=True):
    """The solution, with one thing done otherwise. `cost` is what a turn with these results costs."""

    def loop(model, handle, turns):
        history, left = [], turns + turns_more
        while left > 0:
            turn = model.complete(history if sees else [])
            history.append(adapters.assistant_message(turn))
            if not turn.requests:
                return history, "answered"
            if left == 1 and not answers_last:
                break
            results = [handle(request) for request in turn.requests]
            history += map(adapters.to_message, turn.requests, results)
            left -= cost(results)
        return history, "budget_exceeded"

    return loop


loop_unbounded = _loops(cost=lambda results: 0)
loop_uncounted = _loops(cost=lambda results: all(result.ok for result in results))
loop_last_unanswered = _loops(answers_last=False)
loop_one_more = _loops(turns_more=1)
loop_counts_calls = _loops(cost=len)
loop_blind = _loops(sees=False)


def loop_answered(model, handle, turns):
    return loop_solution(model, handle, turns)[0], "answered"


class _Enough(BaseException):
    """Ends an answer that asks and asks. Not an Exception, so that `except Exception` lets it out."""


_MOST_TURNS = 20


class _Model:
    """Gives the turns of a script, each written as "read bad" or "" for an answer, and the last one for ever."""

    def __init__(self, script: tuple[str, ...]):
        self.script, self.saw, self.ran, self.calls = script, [], [], 0

    def complete(self, messages: Any, tools: Any = ()) -> adapters.ModelTurn:
        if len(self.saw) == _MOST_TURNS:
            raise _Enough
        written = self.script[min(len(self.saw), len(self.script) - 1)]
        self.saw.append(len(_read_history(messages)))
        return adapters.ModelTurn(text="" if written else "done", requests=tuple(map(self._request, written.split())))

    def _request(self, kind: str) -> ToolRequest:
        self.calls += 1
        name = "lookup_incident" if kind == "read" else "lookup_incidents"
        return ToolRequest(provider_id=f"call_{self.calls}", name=name, arguments={"incident_id": "INC-001"})

    def handle(self, request: ToolRequest) -> ToolResult:
        self.ran.append(request.provider_id.removeprefix("call_"))
        answer = {"call_id": f"c-{len(self.ran)}", "tool_name": request.name}
        if request.name == "lookup_incident":
            return ToolResult(**answer, tool_version="1.0", ok=True, data="found")
        error = ToolError(code="unknown_tool", message="There is no tool of this name.")
        return ToolResult(**answer, tool_version=None, ok=False, error=error)


def _read_history(history: Any) -> Any:
    """A history in short: "asks 1, 2", "answers 1", "says done". What people have said is left out."""
    if not isinstance(history, list | tuple):
        return history
    return [_read_message(one) for one in history if not (isinstance(one, dict) and one.get("role") in _PEOPLE)]


_PEOPLE = ("user", "system")


def _read_message(message: Any) -> Any:
    try:
        if message["role"] == "tool":
            return f"answers {message['tool_call_id'].removeprefix('call_')}"
        asked = [call["id"].removeprefix("call_") for call in message.get("tool_calls") or ()]
        return f"asks {', '.join(asked)}" if asked else f"says {message['content']}"
    except (TypeError, LookupError, AttributeError):
        return message


def _loop_case(name: str, turns: int, script: tuple[str, ...], history: str, stopped: str) -> Case:
    """One run. Seen: how much the model was shown at each turn, which calls ran, the history, and why it ended."""
    lines = history.split("; ") if history else []
    saw = [at for at, line in enumerate(lines) if not line.startswith("answers")]
    ran = [line.removeprefix("answers ") for line in lines if line.startswith("answers")]

    def run(answer: Callable[..., Any]) -> dict[str, Any]:
        model = _Model(script)
        try:
            returned = answer(model, model.handle, turns)
        except _Enough:
            return {"asked": f"more than {_MOST_TURNS} times"}
        if not isinstance(returned, list | tuple) or len(returned) != 2:
            return {"saw": model.saw, "ran": model.ran, "returned": _read_history(returned)}
        return {"saw": model.saw, "ran": model.ran, "history": _read_history(returned[0]), "stopped": returned[1]}

    kinds = [f"[{written.replace(' ', ', ')}]" if written else "answer" for written in script]
    shown = f"loop(model, handle, {turns})  # the model: {', '.join(kinds)}{' for ever' if script[-1] else ''}"
    return Case(name, shown, run, {"saw": saw, "ran": ran, "history": lines, "stopped": stopped})


def _over(trial: Any) -> int:
    """How often the model was asked too often; at least so often, if it was without end."""
    asked = len(trial.got["saw"]) if "saw" in trial.got else _MOST_TURNS
    return asked - len(trial.case.expected["saw"])


def _in(trial: Any, *names: str) -> bool:
    return trial.case.name in names


_TWO = "asks 1; answers 1; asks 2; answers 2"
_THREE = f"{_TWO}; asks 3; answers 3"
_TWICE_TWO = "asks 1, 2; answers 1; answers 2; asks 3, 4; answers 3; answers 4"

LOOP = Exercise(
    id="12-a",
    name="loop",
    minutes=10,
    stub=loop_stub,
    solution=loop_solution,
    cases=(
        _loop_case("at_once", 3, ("",), "says done", "answered"),
        _loop_case("one_call", 3, ("read", ""), "asks 1; answers 1; says done", "answered"),
        _loop_case("endless", 3, ("read",), _THREE, "budget_exceeded"),
        _loop_case("answers_last", 3, ("read", "read", ""), f"{_TWO}; says done", "answered"),
        _loop_case("two_calls", 2, ("read read",), _TWICE_TWO, "budget_exceeded"),
        _loop_case("all_fail", 3, ("bad",), _THREE, "budget_exceeded"),
        _loop_case("some_fail", 2, ("read bad",), _TWICE_TWO, "budget_exceeded"),
        _loop_case("one_turn", 1, ("read read",), "asks 1, 2; answers 1; answers 2", "budget_exceeded"),
        _loop_case("no_turn", 0, ("read",), "", "budget_exceeded"),
    ),
    mistakes=(
        Mistake("unbounded", loop_unbounded, lambda first, _: _in(first, "endless") and _over(first) > 9),
        Mistake("failures_uncounted", loop_uncounted, lambda first, _: "fail" in first.case.name and _over(first) > 1),
        Mistake("one_more", loop_one_more, lambda first, _: _over(first) == 1),
        Mistake("last_unanswered", loop_last_unanswered, lambda first, _: first.got["history"][-1].startswith("asks")),
        Mistake("counts_calls", loop_counts_calls, lambda first, _: _in(first, "two_calls") and _over(first) < 0),
        Mistake(
            "always_answered",
            loop_answered,
            lambda first, _: _in(first, "endless") and first.got["stopped"] == "answered",
        ),
        Mistake(
            "model_sees_nothing", loop_blind, lambda first, _: len(first.got["saw"]) > 1 and not any(first.got["saw"])
        ),
    ),
)

# --- 12-b: detect stuck ---------------------------------------------------------------------------------------------


def stuck_stub(turns): ...


def stuck_solution(turns):
    def failing(turn):
        failed = [(call, result.error.code) for call, result in turn if not result.ok]
        return {(call.name, json.dumps(call.arguments, sort_keys=True), code) for call, code in failed}

    last = [failing(turn) for turn in turns[-3:]]
    return len(last) == 3 and bool(set.intersection(*last))


def _in_each(mark, of=3, failing=True):
    """An answer that looks whether one mark is found in each of the last turns."""

    def stuck(turns):
        last = [{mark(call, result) for call, result in turn if not (failing and result.ok)} for turn in turns[-of:]]
        return len(last) == of and bool(set.intersection(*last))

    return stuck


def _what(call, _=None):
    return call.name, json.dumps(call.arguments, sort_keys=True)


def _mark(call, result):
    return *_what(call), result.error.code


stuck_too_soon = _in_each(_mark, of=2)
stuck_by_id = _in_each(lambda call, result: call.call_id)
stuck_by_message = _in_each(lambda call, result: (*_what(call), result.error.message))
stuck_counts_successes = _in_each(_what, failing=False)
stuck_by_name = _in_each(lambda call, result: call.name)
stuck_whatever_the_code = _in_each(_what)
stuck_by_text = _in_each(lambda call, result: (call.name, str(call.arguments), result.error.code))


def stuck_in_a_turn(turns):
    failing = [_mark(*pair) for turn in turns[-3:] for pair in turn if not pair[1].ok]
    return any(failing.count(mark) >= 3 for mark in failing)


def stuck_in_all(turns):
    failing = [mark for turn in turns for mark in {_mark(*pair) for pair in turn if not pair[1].ok}]
    return any(failing.count(mark) >= 3 for mark in failing)


def stuck_first_only(turns):
    last = [[_mark(*pair) for pair in turn if not pair[1].ok][:1] for turn in turns[-3:]]
    return len(last) == 3 and bool(last[0]) and last[0] == last[1] == last[2]


def stuck_whole_turns(turns):
    last = [[_mark(*pair) for pair in turn if not pair[1].ok] for turn in turns[-3:]]
    return len(last) == 3 and bool(last[0]) and last[0] == last[1] == last[2]


_TOOLS = {"lookup": "lookup_incident", "query": "query_data"}


def _pair(written: str, call_id: str) -> tuple[ToolCall, ToolResult]:
    """A call and its result, written as "query(table=latency,rows=[1]) timeout"; "ok" is no failure."""
    name, _, rest = written.partition("(")
    inside, code = rest.split(") ")
    fields = [field.split("=") for field in inside.split(",")]
    arguments = {field: [value.strip("[]")] if value.startswith("[") else value for field, value in fields}
    call = ToolCall(call_id=call_id, name=_TOOLS[name], arguments=arguments)
    answer = {"call_id": call_id, "tool_name": call.name, "tool_version": "1.0"}
    if code == "ok":
        return call, ToolResult(**answer, ok=True, data={"state": "open"})
    message = "There is no such thing." if code == "not_found" else f"The operator can look up call {call_id}."
    error = ToolError(code=code, message=message)
    return call, ToolResult(**answer, ok=False, error=error)


def _stuck_case(name: str, expected: bool, *turns: str) -> Case:
    """A run so far. Each turn is written as its calls, with " + " between them."""
    written = [turn.split(" + ") if turn else [] for turn in turns]

    def run(answer: Callable[..., Any]) -> Any:
        ids = (f"c-{number}" for number in range(1, 100))
        return answer([[_pair(one, next(ids)) for one in turn] for turn in written])

    shown = ", ".join(f"[{', '.join(turn)}]" for turn in written)
    return Case(name, f"stuck([{shown}])", run, expected)


def _said_so(name: str, answer: bool) -> Callable[[Any, Any], bool]:
    return lambda first, _: first.case.name == name and first.got is answer


_GONE, _OPEN, _SLOW = "lookup(id=INC-009) not_found", "lookup(id=INC-001) ok", "query(table=latency) timeout"
_ONE_MORE, _ANOTHER = "lookup(id=INC-010) not_found", "lookup(id=INC-011) not_found"
_TABLE_FIRST, _TABLE_LAST = "query(table=a,columns=[b]) timeout", "query(columns=[b],table=a) timeout"

STUCK = Exercise(
    id="12-b",
    name="stuck",
    minutes=10,
    stub=stuck_stub,
    solution=stuck_solution,
    cases=(
        _stuck_case("nothing_yet", False),
        _stuck_case("twice", False, _GONE, _GONE),
        _stuck_case("three_times", True, _GONE, _GONE, _GONE),
        _stuck_case("told_with_id", True, _SLOW, _SLOW, _SLOW),
        _stuck_case("works", False, _OPEN, _OPEN, _OPEN),
        _stuck_case("another_tool", False, _GONE, _GONE, "query(id=INC-009) not_found"),
        _stuck_case("searches", False, _GONE, _ONE_MORE, _ANOTHER),
        _stuck_case("other_code", False, _SLOW, _SLOW, "query(table=latency) tool_failed"),
        _stuck_case("in_one_turn", False, f"{_GONE} + {_GONE} + {_GONE}", _OPEN, _OPEN),
        _stuck_case("not_in_a_row", False, _GONE, _GONE, _OPEN, _GONE),
        _stuck_case("long_ago", False, _GONE, _GONE, _GONE, _OPEN),
        _stuck_case("beside_others", True, _GONE, f"{_OPEN} + {_GONE}", f"{_GONE} + {_SLOW}"),
        _stuck_case("second_of_two", True, f"{_ONE_MORE} + {_GONE}", f"{_ANOTHER} + {_GONE}", _GONE),
        _stuck_case("after_others", True, _OPEN, _SLOW, _GONE, _GONE, _GONE),
        _stuck_case("other_order", True, _TABLE_FIRST, _TABLE_LAST, _TABLE_FIRST),
    ),
    mistakes=(
        Mistake("too_soon", stuck_too_soon, _said_so("twice", True)),
        Mistake("by_id", stuck_by_id, _said_so("three_times", False)),
        Mistake("by_message", stuck_by_message, _said_so("told_with_id", False)),
        Mistake("counts_successes", stuck_counts_successes, _said_so("works", True)),
        Mistake("by_name", stuck_by_name, _said_so("searches", True)),
        Mistake("whatever_the_code", stuck_whatever_the_code, _said_so("other_code", True)),
        Mistake("in_a_turn", stuck_in_a_turn, _said_so("in_one_turn", True)),
        Mistake("in_all", stuck_in_all, _said_so("not_in_a_row", True)),
        Mistake("whole_turns", stuck_whole_turns, _said_so("beside_others", False)),
        Mistake("first_only", stuck_first_only, _said_so("second_of_two", False)),
        Mistake("by_text", stuck_by_text, _said_so("other_order", False)),
    ),
)

# --- 12-c: save and resume ------------------------------------------------------------------------------------------


def resume_stub(text, handle): ...


def resume_solution(text, handle):
    run = json.loads(text)
    for one in run["turn"]:
        if one["result"] is not None:
            continue
        if run["calls"] < run["limit"]:
            run["calls"] += 1
            one["result"] = handle(one["call"])
        else:
            one["result"] = {"ok": False, "code": "budget_exceeded"}
    return json.dumps(run)


def _resumes(again=lambda result: result is None, pays=lambda left: left > 0, cost=1, calls=None, keeps=True):
    """The solution, with one thing done otherwise. `again` says whether a call with this result is answered."""

    def resume(text, handle):
        run = json.loads(text)
        run["calls"] = run["calls"] if calls is None else calls
        for one in run["turn"]:
            if again(one["result"]) and pays(run["limit"] - run["calls"]):
                run["calls"] += cost
                one["result"] = handle(one["call"])
            elif one["result"] is None and keeps:
                one["result"] = {"ok": False, "code": "budget_exceeded"}
        return json.dumps(run)

    return resume


resume_answers_again = _resumes(again=lambda result: True)
resume_repeats_failures = _resumes(again=lambda result: not (result and result["ok"]))
resume_refills = _resumes(calls=0)
resume_counts_nothing = _resumes(cost=0)
resume_pays_for_all = _resumes(pays=lambda left: True)
resume_leaves_open = _resumes(keeps=False)


def resume_counts_successes(text, handle):
    run = json.loads(text)
    for one in run["turn"]:
        if one["result"] is None and run["calls"] < run["limit"]:
            one["result"] = handle(one["call"])
            run["calls"] += one["result"]["ok"]
        elif one["result"] is None:
            one["result"] = {"ok": False, "code": "budget_exceeded"}
    return json.dumps(run)


def resume_new_ids(text, handle):
    return resume_solution(text, lambda call: handle({**call, "call_id": uuid4().hex}))


def resume_drops_the_rest(text, handle):
    run = json.loads(resume_solution(text, handle))
    return json.dumps({"turn": run["turn"], "limit": run["limit"], "calls": run["calls"]})


def resume_no_text(text, handle):
    return json.loads(resume_solution(text, handle))


_DONE_NOW = ("T-", "INC-", "unknown_tool")  # how the answer of a call begins that was handled just now


def _resume_case(
    name: str, used: int, limit: int, turn: str, *answers: str, after: int, tickets: str = "", again: bool = False
) -> Case:
    """One saved run, taken up. Seen: which calls were handled, the tickets there are, and what the new text says."""
    states = [written.split(":")[1] for written in turn.split()]
    ids = [f"c-{number}" for number in range(1, len(states) + 1)]

    def run(answer: Callable[..., Any]) -> dict[str, Any]:
        desk = SavedDesk([call_id for call_id, state in zip(ids, states, strict=True) if state == "lost"])
        text = answer(saved(used, limit, turn), desk.handle)
        if again and isinstance(text, str):
            text = answer(text, desk.handle)
        return {"handled": desk.handled, "tickets": list(desk.ledger), **read_run(text)}

    handled = [call_id for call_id, said in zip(ids, answers, strict=True) if said.startswith(_DONE_NOW)]
    seen = {"handled": handled, "tickets": tickets.split(), "used": f"{after} of {limit}", "answers": list(answers)}
    form = "resume(resume(text, handle), handle)" if again else "resume(text, handle)"
    told = ", ".join(f"{call_id} {state}" for call_id, state in zip(ids, states, strict=True))
    return Case(name, f"{form}  # {used} of {limit} used; {told}", run, {**seen, "goal": "kept"})


def _handled(name: str, *ids: str) -> Callable[[Any, Any], bool]:
    return lambda first, _: first.case.name == name and first.got["handled"] == list(ids)


def _refilled(first: Any, _: Any) -> bool:
    """Whether there is more to spend than was left: less is used than before, or the limit is another."""
    (used, limit), (after, right) = (map(int, seen["used"].split(" of ")) for seen in (first.got, first.case.expected))
    return limit > right or used < min(3, after)


_OVER = "budget_exceeded"

RESUME = Exercise(
    id="12-c",
    name="resume",
    minutes=15,
    stub=resume_stub,
    solution=resume_solution,
    cases=(
        _resume_case(
            "lost", 3, 9, "read:done write:lost write:open", "before", "T-1", "T-2", after=5, tickets="c-2 c-3"
        ),
        _resume_case("all_open", 3, 9, "read:open write:open", "INC-001", "T-1", after=5, tickets="c-2"),
        _resume_case("failed", 3, 9, "write:failed read:open", "rule_violated", "INC-002", after=4),
        _resume_case("all_answered", 3, 9, "read:done write:done", "before", "before", after=3),
        _resume_case("one_left", 8, 9, "write:open write:open read:open", "T-1", _OVER, _OVER, after=9, tickets="c-1"),
        _resume_case("none_left", 9, 9, "read:done read:open", "before", _OVER, after=9),
        _resume_case("fails_now", 8, 9, "bad:open read:open", "unknown_tool", _OVER, after=9),
        _resume_case("twice", 3, 9, "write:lost read:open", "T-1", "INC-002", after=5, tickets="c-1", again=True),
    ),
    mistakes=(
        Mistake("no_text", resume_no_text, lambda first, _: first.got["returned"] == "dict"),
        Mistake("new_ids", resume_new_ids, lambda first, _: "another id" in first.got["handled"]),
        Mistake("answers_again", resume_answers_again, _handled("lost", "c-1", "c-2", "c-3")),
        Mistake("refills", resume_refills, _refilled),
        Mistake("counts_nothing", resume_counts_nothing, lambda first, _: first.got["used"] == "3 of 9"),
        Mistake("drops_the_rest", resume_drops_the_rest, lambda first, _: first.got["goal"] == "lost"),
        Mistake("repeats_failures", resume_repeats_failures, _handled("failed", "c-1", "c-2")),
        Mistake("leaves_open", resume_leaves_open, lambda first, _: "open" in first.got["answers"]),
        Mistake("counts_successes", resume_counts_successes, _handled("fails_now", "c-1", "c-2")),
        Mistake("pays_for_all", resume_pays_for_all, _handled("one_left", "c-1", "c-2", "c-3")),
    ),
)

EXERCISES = (LOOP, STUCK, RESUME)

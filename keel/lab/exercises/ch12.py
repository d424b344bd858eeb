"""Chapter 12's exercises: a turn budget, a run that is stuck, a run that was saved in the middle of a turn."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from uuid import uuid4

from keel.adapters import ModelTurn
from keel.contracts import ToolCall, ToolError, ToolRequest, ToolResult
from keel.lab.exercises.model import Case, Exercise, Mistake

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


def _written(turn, handle):
    from keel.adapters import assistant_message, to_message

    results = [handle(request) for request in turn.requests]
    answers = [to_message(request, result) for request, result in zip(turn.requests, results, strict=True)]
    return [assistant_message(turn), *answers], results


def loop_unbounded(model, handle, turns):
    history = []
    while True:
        turn = model.complete(history)
        history += _written(turn, handle)[0]
        if not turn.requests:
            return history, "answered"


def loop_failures_uncounted(model, handle, turns):
    history = []
    while turns > 0:
        turn = model.complete(history)
        messages, results = _written(turn, handle)
        history += messages
        if not turn.requests:
            return history, "answered"
        if all(result.ok for result in results):
            turns -= 1
    return history, "budget_exceeded"


def loop_last_unanswered(model, handle, turns):
    history = []
    for number in range(1, turns + 1):
        turn = model.complete(history)
        messages, _ = _written(turn, handle if number < turns else _not_run)
        history += messages if number < turns else messages[:1]
        if not turn.requests:
            return history, "answered"
    return history, "budget_exceeded"


def _not_run(request):
    return ToolResult(call_id="none", tool_name=request.name, tool_version=None, ok=True)


def loop_one_more(model, handle, turns):
    return loop_solution(model, handle, turns + 1)


def loop_counts_calls(model, handle, turns):
    history = []
    while turns > 0:
        turn = model.complete(history)
        history += _written(turn, handle)[0]
        if not turn.requests:
            return history, "answered"
        turns -= len(turn.requests)
    return history, "budget_exceeded"


def loop_always_answered(model, handle, turns):
    return loop_solution(model, handle, turns)[0], "answered"


def loop_last_answer_late(model, handle, turns):
    history, stopped = loop_solution(model, handle, turns)
    asked = sum(message["role"] == "assistant" for message in history)
    return history, "budget_exceeded" if asked == turns else stopped


def loop_model_sees_nothing(model, handle, turns):
    history = []
    for _ in range(turns):
        turn = model.complete([])
        history += _written(turn, handle)[0]
        if not turn.requests:
            return history, "answered"
    return history, "budget_exceeded"


class _Enough(BaseException):
    """Ends an answer that asks and asks. Not an Exception, so that `except Exception` lets it out."""


_MOST_TURNS = 20


class _Model:
    """Gives the turns of a script, each written as "read bad" or "" for an answer, and the last one for ever."""

    def __init__(self, script: tuple[str, ...]):
        self.script, self.saw, self.ran, self.calls = script, [], [], 0

    def complete(self, messages: Any, tools: Any = ()) -> ModelTurn:
        if len(self.saw) == _MOST_TURNS:
            raise _Enough
        written = self.script[min(len(self.saw), len(self.script) - 1)]
        self.saw.append(len(_read_history(messages)))
        return ModelTurn(text="" if written else "done", requests=tuple(map(self._request, written.split())))

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


def _loop_case(name: str, turns: int, *script: str) -> Case:
    """One run. Seen: how much the model was shown at each turn, which calls ran, the history, and why it ended."""

    def run(answer: Callable[..., Any]) -> dict[str, Any]:
        model = _Model(script)
        try:
            returned = answer(model, model.handle, turns)
        except _Enough:
            return {"asked": f"more than {_MOST_TURNS} times"}
        if not isinstance(returned, list | tuple) or len(returned) != 2:
            return {"saw": model.saw, "ran": model.ran, "returned": _read_history(returned)}
        history, stopped = returned
        return {"saw": model.saw, "ran": model.ran, "history": _read_history(history), "stopped": stopped}

    kinds = [f"[{written.replace(' ', ', ')}]" if written else "answer" for written in script]
    shown = f"loop(model, handle, {turns})  # the model: {', '.join(kinds)}{' for ever' if script[-1] else ''}"
    return Case(name, shown, run, run(loop_solution))


def _asked(trial: Any) -> int:
    """How often the model was asked: at least so often, if it was without end."""
    return len(trial.got["saw"]) if "saw" in trial.got else _MOST_TURNS + 1


LOOP = Exercise(
    id="12-a",
    name="loop",
    minutes=10,
    stub=loop_stub,
    solution=loop_solution,
    cases=(
        _loop_case("at_once", 3, ""),
        _loop_case("one_call", 3, "read", ""),
        _loop_case("endless", 3, "read"),
        _loop_case("answers_last", 3, "read", "read", ""),
        _loop_case("two_calls", 3, "read read"),
        _loop_case("only_failures", 3, "bad"),
        _loop_case("some_fail", 2, "read bad"),
        _loop_case("one_turn", 1, "read read"),
        _loop_case("no_turn", 0, "read"),
    ),
    mistakes=(
        Mistake(
            "unbounded",
            loop_unbounded,
            lambda first, _: first.case.name == "endless" and _asked(first) > _MOST_TURNS,
        ),
        Mistake(
            "failures_uncounted",
            loop_failures_uncounted,
            lambda first, _: first.case.name in ("only_failures", "some_fail") and _asked(first) > 3,
        ),
        Mistake("one_more", loop_one_more, lambda first, _: _asked(first) == len(first.case.expected["saw"]) + 1),
        Mistake(
            "last_unanswered",
            loop_last_unanswered,
            lambda first, _: (
                _asked(first) == len(first.case.expected["saw"]) and first.got["history"][-1].startswith("asks")
            ),
        ),
        Mistake(
            "counts_calls",
            loop_counts_calls,
            lambda first, _: first.case.name == "two_calls" and _asked(first) < 3,
        ),
        Mistake(
            "always_answered",
            loop_always_answered,
            lambda first, _: (first.got["stopped"], first.case.expected["stopped"]) == ("answered", "budget_exceeded"),
        ),
        Mistake(
            "last_answer_late",
            loop_last_answer_late,
            lambda first, _: first.case.name == "answers_last" and first.got["stopped"] == "budget_exceeded",
        ),
        Mistake(
            "model_sees_nothing",
            loop_model_sees_nothing,
            lambda first, _: len(first.got["saw"]) > 1 and not any(first.got["saw"]),
        ),
    ),
)

# --- 12-b: detect stuck ---------------------------------------------------------------------------------------------


def stuck_stub(turns): ...


def stuck_solution(turns):
    def failing(turn):
        return {
            (call.name, json.dumps(call.arguments, sort_keys=True), result.error.code)
            for call, result in turn
            if not result.ok
        }

    last = [failing(turn) for turn in turns[-3:]]
    return len(last) == 3 and bool(set.intersection(*last))


def _common(turns, mark, failing=True):
    """Whether one mark is found in each of the last three turns."""
    last = [{mark(call, result) for call, result in turn if not (failing and result.ok)} for turn in turns[-3:]]
    return len(last) == 3 and bool(set.intersection(*last))


def _arguments(call):
    return json.dumps(call.arguments, sort_keys=True)


def _mark(call, result):
    return call.name, _arguments(call), result.error.code


def stuck_by_id(turns):
    return _common(turns, lambda call, result: call.call_id)


def stuck_by_name(turns):
    return _common(turns, lambda call, result: call.name)


def stuck_by_code(turns):
    return _common(turns, lambda call, result: result.error.code)


def stuck_counts_successes(turns):
    return _common(turns, lambda call, _: (call.name, _arguments(call)), failing=False)


def stuck_by_message(turns):
    return _common(turns, lambda call, result: (call.name, _arguments(call), result.error.message))


def stuck_whatever_the_code(turns):
    return _common(turns, lambda call, result: (call.name, _arguments(call)))


def stuck_by_text(turns):
    return _common(turns, lambda call, result: (call.name, str(call.arguments), result.error.code))


def stuck_in_all(turns):
    failing = [mark for turn in turns for mark in {_mark(*pair) for pair in turn if not pair[1].ok}]
    return any(failing.count(mark) >= 3 for mark in failing)


def stuck_in_a_turn(turns):
    failing = [_mark(*pair) for turn in turns[-3:] for pair in turn if not pair[1].ok]
    return any(failing.count(mark) >= 3 for mark in failing)


def stuck_whole_turns(turns):
    last = [[_mark(*pair) for pair in turn if not pair[1].ok] for turn in turns[-3:]]
    return len(last) == 3 and bool(last[0]) and last[0] == last[1] == last[2]


def stuck_too_soon(turns):
    last = [{_mark(*pair) for pair in turn if not pair[1].ok} for turn in turns[-2:]]
    return len(last) == 2 and bool(set.intersection(*last))


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
    error = ToolError(code=code, message=f"It did not work. The operator can look up call {call_id}.")
    return call, ToolResult(**answer, ok=False, error=error)


def _stuck_case(name: str, expected: bool, *turns: str) -> Case:
    """A run so far. Each turn is written as its calls, with " + " between them."""
    written = [turn.split(" + ") if turn else [] for turn in turns]

    def run(answer: Callable[..., Any]) -> Any:
        ids = (f"c-{number}" for number in range(1, 100))
        return answer([[_pair(one, next(ids)) for one in turn] for turn in written])

    return Case(name, f"stuck([{', '.join(f'[{", ".join(turn)}]' for turn in written)}])", run, expected)


def _too_much(name: str) -> Callable[[Any, Any], bool]:
    return lambda first, _: first.case.name == name and first.got is True


_GONE, _OPEN, _SLOW = "lookup(id=INC-009) not_found", "lookup(id=INC-001) ok", "query(table=latency) timeout"

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
        _stuck_case("works", False, _OPEN, _OPEN, _OPEN),
        _stuck_case("searches", False, _GONE, "lookup(id=INC-010) not_found", "lookup(id=INC-011) not_found"),
        _stuck_case("another_tool", False, _GONE, _GONE, "query(id=INC-009) not_found"),
        _stuck_case("other_code", False, _SLOW, _SLOW, "query(table=latency) tool_failed"),
        _stuck_case("in_one_turn", False, f"{_GONE} + {_GONE} + {_GONE}", _OPEN, _OPEN),
        _stuck_case("not_in_a_row", False, _GONE, _GONE, _OPEN, _GONE),
        _stuck_case("long_ago", False, _GONE, _GONE, _GONE, _OPEN),
        _stuck_case("beside_others", True, _GONE, f"{_OPEN} + {_GONE}", f"{_GONE} + {_SLOW}"),
        _stuck_case("after_others", True, _OPEN, _SLOW, _GONE, _GONE, _GONE),
        _stuck_case(
            "other_order",
            True,
            "query(table=latency,columns=[p50]) timeout",
            "query(columns=[p50],table=latency) timeout",
            "query(table=latency,columns=[p50]) timeout",
        ),
    ),
    mistakes=(
        Mistake("too_soon", stuck_too_soon, _too_much("twice")),
        Mistake(
            "by_message",
            stuck_by_message,
            lambda first, trials: (
                first.case.name == "three_times"
                and trials["beside_others"].got is False
                and any("message" in code.co_names or "error" in code.co_names for code in ())
            ),
        ),
        Mistake(
            "by_id",
            stuck_by_id,
            lambda first, trials: first.case.name == "three_times" and first.got is False,
        ),
        Mistake("counts_successes", stuck_counts_successes, _too_much("works")),
        Mistake("by_name", stuck_by_name, _too_much("searches")),
        Mistake("by_code", stuck_by_code, _too_much("searches")),
        Mistake("whatever_the_code", stuck_whatever_the_code, _too_much("other_code")),
        Mistake("in_a_turn", stuck_in_a_turn, _too_much("in_one_turn")),
        Mistake("in_all", stuck_in_all, _too_much("not_in_a_row")),
        Mistake(
            "whole_turns",
            stuck_whole_turns,
            lambda first, _: first.case.name == "beside_others" and first.got is False,
        ),
        Mistake(
            "by_text",
            stuck_by_text,
            lambda first, _: first.case.name == "other_order" and first.got is False,
        ),
    ),
)

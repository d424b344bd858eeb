"""Chapter 02's exercises: parse one arguments text, answer by the provider's id, join the fragments of a stream."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from keel.contracts import ToolError, ToolRequest, ToolResult
from keel.lab.exercises.model import Case, Exercise, Mistake, outcome
from keel.lab.exercises.showing import show

# --- 02-a: parse one object -----------------------------------------------------------------------------------------


def parse_stub(text): ...


def parse_solution(text):
    def once(pairs):
        if len(dict(pairs)) < len(pairs):
            raise ValueError("a key stands there twice")
        return dict(pairs)

    def refuse(word):
        raise ValueError(f"{word} is not JSON")

    value = json.loads(text.strip() or "null", object_pairs_hook=once, parse_constant=refuse)
    if value is not None and not isinstance(value, dict):
        raise ValueError("the arguments are not an object")
    return value or {}


def parse_bare(text):
    return json.loads(text)


def parse_swallows(text):
    try:
        return parse_solution(text)
    except ValueError:
        return {}


def parse_unwraps(text):
    try:
        value = json.loads(text)
    except ValueError:
        return parse_solution(text)
    return parse_solution(value if isinstance(value, str) else text)


def parse_repairs(text):
    for end in ("", '"}', "}"):
        try:
            return parse_solution(text + end)
        except ValueError:
            continue
    raise ValueError("the arguments are not an object")


def _parse_case(name: str, text: str, expected: dict[str, Any] | None = None) -> Case:
    """One text. Seen: the dict that came back, or that the text was refused."""
    wanted = {"raised": "ValueError"} if expected is None else {"returned": expected}
    return Case(name, f"parse({show(text)})", lambda answer: outcome(lambda: answer(text), ValueError), wanted)


PARSE = Exercise(
    id="02-a",
    name="parse",
    minutes=10,
    stub=parse_stub,
    solution=parse_solution,
    cases=(
        _parse_case(
            "object", '{"title": "502", "tags": ["auth", {"n": 1}]}', {"title": "502", "tags": ["auth", {"n": 1}]}
        ),
        _parse_case("empty", "", {}),
        _parse_case("whitespace", " \n", {}),
        _parse_case("null", "null", {}),
        _parse_case("list", '["INC-001"]'),
        _parse_case("nothing", "[]"),
        _parse_case("double_encoded", '"{\\"incident_id\\": \\"INC-001\\"}"'),
        _parse_case("duplicate", '{"incident_id": "INC-001", "incident_id": "INC-002"}'),
        _parse_case("inner_duplicate", '{"filter": {"team": "identity", "team": "payments"}}'),
        _parse_case("nan", '{"limit": NaN}'),
        _parse_case("infinity", '{"limit": -Infinity}'),
        _parse_case("trailing", '{"incident_id": "INC-001"} {"incident_id": "INC-002"}'),
        _parse_case("cut", '{"incident_id": "INC-00'),
        _parse_case("single_quotes", "{'incident_id': 'INC-001'}"),
    ),
    mistakes=(
        Mistake("bare", parse_bare, lambda _, trials: trials["list"].got == {"returned": ["INC-001"]}),
        Mistake(
            "swallows",
            parse_swallows,
            lambda first, _: first.case.name in ("list", "cut") and first.got == {"returned": {}},
        ),
        Mistake(
            "unwraps",
            parse_unwraps,
            lambda first, _: first.case.name == "double_encoded" and isinstance(first.got["returned"], dict),
        ),
        Mistake(
            "repairs",
            parse_repairs,
            lambda first, _: first.case.name == "cut" and isinstance(first.got["returned"], dict),
        ),
    ),
)

# --- 02-b: answer by the provider's id ------------------------------------------------------------------------------


def answer_stub(request, result): ...


def answer_solution(request, result):
    return {
        "role": "tool",
        "tool_call_id": request.provider_id,
        "content": result.model_dump_json(exclude={"call_id"}),
    }


def answer_sends_ours(request, result):
    return {"role": "tool", "tool_call_id": result.call_id, "content": result.model_dump_json()}


def answer_adopts(request, result):
    result = result.model_copy(update={"call_id": request.provider_id})
    return {"role": "tool", "tool_call_id": result.call_id, "content": result.model_dump_json()}


def answer_data_alone(request, result):
    return {"role": "tool", "tool_call_id": request.provider_id, "content": json.dumps(result.data)}


def _answer_case(name: str, *pairs: tuple[ToolRequest, ToolResult]) -> Case:
    """Answer some requests of one turn. Seen of each message: whom it reaches, and what the model reads in it."""

    def run(answer: Callable[..., Any]) -> list[Any]:
        return [_read(answer(request.model_copy(), result.model_copy()), result) for request, result in pairs]

    expected = [
        {"role": "tool", "tool_call_id": request.provider_id, "says": _said(result.model_dump(), result)}
        for request, result in pairs
    ]
    shown = "; ".join(
        f"answer(request(provider_id={request.provider_id!r}), result(call_id={result.call_id!r}))"
        for request, result in pairs
    )
    return Case(name, shown, run, expected)


def _read(message: Any, result: ToolResult) -> Any:
    """A message with its content read as the model would, or as it is where that cannot be done."""
    if not isinstance(message, dict) or not isinstance(message.get("content"), str):
        return message
    try:
        says = _said(json.loads(message["content"]), result)
    except (ValueError, TypeError, LookupError, AttributeError):
        return message
    return {"role": message.get("role"), "tool_call_id": message.get("tool_call_id"), "says": says}


def _said(content: dict[str, Any], result: ToolResult) -> dict[str, Any]:
    """What a content tells: the outcome, and a call id if it is not the one that we minted."""
    said = {"ok": content["ok"], "data": content.get("data"), "code": (content.get("error") or {}).get("code")}
    if content.get("call_id", result.call_id) != result.call_id:
        said["call_id"] = content["call_id"]
    return said


def _pair(provider_id: str, call_id: str, **fields: Any) -> tuple[ToolRequest, ToolResult]:
    request = ToolRequest(provider_id=provider_id, name="lookup_incident", arguments='{"incident_id": "INC-001"}')
    result = ToolResult(
        call_id=call_id, tool_name="lookup_incident", tool_version="1.0", ok="error" not in fields, **fields
    )
    return request, result


_MISSING = ToolError(code="invalid_arguments", message="incident_id: is missing.")

ANSWER = Exercise(
    id="02-b",
    name="answer",
    minutes=5,
    stub=answer_stub,
    solution=answer_solution,
    cases=(
        _answer_case("success", _pair("call_7f2", "c-1", data={"severity": "high"})),
        _answer_case("failure", _pair("call_7f2", "c-1", error=_MISSING)),
        _answer_case(
            "two_calls",
            _pair("call_7f2", "c-1", data={"severity": "high"}),
            _pair("call_9ab", "c-2", data={"severity": "low"}),
        ),
        _answer_case(
            "lookalike_ids",
            _pair("c-2", "c-1", data={"severity": "high"}),
            _pair("c-1", "c-2", data={"severity": "low"}),
        ),
    ),
    mistakes=(
        Mistake(
            "sends_ours",
            answer_sends_ours,
            lambda first, _: first.case.name != "lookalike_ids" and first.got[0]["tool_call_id"] == "c-1",
        ),
        Mistake("adopts", answer_adopts, lambda first, _: first.got[0]["says"]["call_id"] == "call_7f2"),
        Mistake(
            "data_alone",
            answer_data_alone,
            lambda first, _: json.loads(first.got[0]["content"]) == {"severity": "high"},
        ),
    ),
)

# --- 02-c: join the fragments of a stream ---------------------------------------------------------------------------


def join_stub(fragments): ...


def join_solution(fragments):
    calls = {}
    for piece in fragments:
        call = calls.setdefault(piece["index"], {"id": None, "name": None, "arguments": "", "problem": None})
        call["id"] = call["id"] or piece["id"]
        call["name"] = call["name"] or piece["name"]
        call["arguments"] += piece["arguments"] or ""
    for call in calls.values():
        try:
            json.loads(call["arguments"] or "{}")
        except ValueError:
            call["problem"] = "cut"
    return list(calls.values())


def join_parses_each(fragments):
    calls = {}
    for piece in fragments:
        call = calls.setdefault(piece["index"], {"id": piece["id"], "name": piece["name"], "arguments": {}})
        call["arguments"].update(json.loads(piece["arguments"] or "{}"))
    return list(calls.values())


def join_closes(fragments):
    calls = {}
    for piece in fragments:
        call = calls.setdefault(piece["index"], {"id": None, "name": None, "arguments": "", "problem": None})
        call["id"] = call["id"] or piece["id"]
        call["name"] = call["name"] or piece["name"]
        call["arguments"] += piece["arguments"] or ""
    for call in calls.values():
        if call["arguments"] and not call["arguments"].endswith("}"):
            call["arguments"] += '"}' if call["arguments"].count('"') % 2 else "}"
    return list(calls.values())


def join_drops(fragments):
    return [call for call in join_solution(fragments) if call["problem"] is None]


def join_raises(fragments):
    calls = join_solution(fragments)
    for call in calls:
        json.loads(call["arguments"] or "{}")
    return calls


def _piece(index: int, arguments: str | None, id: str | None = None, name: str | None = None) -> dict[str, Any]:
    return {"index": index, "id": id, "name": name, "arguments": arguments}


def _joined(id: str, name: str, arguments: str, problem: str | None = None) -> dict[str, Any]:
    return {"id": id, "name": name, "arguments": arguments, "problem": problem}


def _join_case(name: str, fragments: list[dict[str, Any]], expected: list[dict[str, Any]]) -> Case:
    """One stream. Seen: the four fields of each call, whatever else the answer kept beside them."""

    def run(answer: Callable[..., Any]) -> Any:
        calls = answer([dict(fragment) for fragment in fragments])
        if isinstance(calls, dict | str) or not hasattr(calls, "__iter__"):
            return calls
        return [{key: call.get(key) for key in expected[0]} if isinstance(call, dict) else call for call in calls]

    pieces = ", ".join(f"{piece['index']}: {piece['arguments']!r}" for piece in fragments)
    return Case(name, f"join(fragments)  # {pieces}", run, expected)


_LOOK, _ADD = {"id": "call_1", "name": "lookup_incident"}, {"id": "call_2", "name": "add"}
_WHOLE = '{"incident_id": "INC-001"}'

JOIN = Exercise(
    id="02-c",
    name="join",
    minutes=15,
    stub=join_stub,
    solution=join_solution,
    cases=(
        _join_case(
            "one",
            [_piece(0, "", **_LOOK), _piece(0, '{"incident'), _piece(0, '_id": "INC-0'), _piece(0, '01"}')],
            [_joined(**_LOOK, arguments=_WHOLE)],
        ),
        _join_case(
            "repeated_id",
            [_piece(0, '{"incident_id": ', **_LOOK), _piece(0, '"INC-001"}', **_LOOK)],
            [_joined(**_LOOK, arguments=_WHOLE)],
        ),
        _join_case("no_arguments", [_piece(0, None, **_LOOK)], [_joined(**_LOOK, arguments="")]),
        _join_case(
            "two",
            [
                _piece(0, '{"incident_id": ', **_LOOK),
                _piece(0, '"INC-001"}'),
                _piece(1, '{"a": 2,', **_ADD),
                _piece(1, ' "b": 3}'),
            ],
            [_joined(**_LOOK, arguments=_WHOLE), _joined(**_ADD, arguments='{"a": 2, "b": 3}')],
        ),
        _join_case(
            "interleaved",
            [
                _piece(0, '{"incident_id": ', **_LOOK),
                _piece(1, '{"a": 2,', **_ADD),
                _piece(0, '"INC-001"}'),
                _piece(1, ' "b": 3}'),
            ],
            [_joined(**_LOOK, arguments=_WHOLE), _joined(**_ADD, arguments='{"a": 2, "b": 3}')],
        ),
        _join_case(
            "cut_number",
            [_piece(0, '{"a": 2, ', **_ADD), _piece(0, '"b": 3')],
            [_joined(**_ADD, arguments='{"a": 2, "b": 3', problem="cut")],
        ),
        _join_case(
            "cut_text",
            [_piece(0, '{"incident_id": ', **_LOOK), _piece(0, '"INC-0')],
            [_joined(**_LOOK, arguments='{"incident_id": "INC-0', problem="cut")],
        ),
        _join_case(
            "second_cut",
            [_piece(0, _WHOLE, **_LOOK), _piece(1, '{"a": 2', **_ADD)],
            [_joined(**_LOOK, arguments=_WHOLE), _joined(**_ADD, arguments='{"a": 2', problem="cut")],
        ),
    ),
    mistakes=(
        Mistake(
            "parses_each",
            join_parses_each,
            lambda first, _: first.case.name == "one" and first.crash.kind == "JSONDecodeError",
        ),
        Mistake("raises", join_raises, lambda first, _: "cut" in first.case.name and first.crash is not None),
        Mistake(
            "drops",
            join_drops,
            lambda first, _: "cut" in first.case.name and len(first.got) < len(first.case.expected),
        ),
        Mistake(
            "closes",
            join_closes,
            lambda first, _: "cut" in first.case.name and isinstance(json.loads(first.got[-1]["arguments"]), dict),
        ),
    ),
)

EXERCISES = (PARSE, ANSWER, JOIN)

"""Other answers to chapter 02's exercises."""

import ast
import json
import re
from dataclasses import asdict, dataclass

# --- 02-a ---


def parse_step_by_step(text):
    if text.strip() in ("", "null"):
        return {}

    def no_duplicates(pairs):
        result = {}
        for key, value in pairs:
            if key in result:
                raise ValueError(key)
            result[key] = value
        return result

    def no_constants(name):
        raise ValueError(name)

    parsed = json.loads(text, object_pairs_hook=no_duplicates, parse_constant=no_constants)
    if type(parsed) is not dict:
        raise ValueError("Expected a JSON object")
    return parsed


def parse_by_a_decoder(text):
    def pairs_to_dict(pairs):
        keys = [key for key, _ in pairs]
        if len(set(keys)) != len(keys):
            raise ValueError("duplicate")
        return dict(pairs)

    stripped = text.strip()
    if not stripped:
        return {}
    value, end = json.JSONDecoder(object_pairs_hook=pairs_to_dict).raw_decode(stripped)
    if end != len(stripped):
        raise ValueError("trailing text")
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError("no object")
    json.dumps(value, allow_nan=False)
    return value


def parse_with_a_own_error(text):
    class BadArguments(ValueError):
        pass

    def hook(pairs):
        if len({k for k, _ in pairs}) < len(pairs):
            raise BadArguments
        return {k: v for k, v in pairs}  # noqa: C416

    def constant(_):
        raise BadArguments

    try:
        value = json.loads(text or "{}", object_pairs_hook=hook, parse_constant=constant)
    except BadArguments:
        raise
    except json.JSONDecodeError as error:
        if text.isspace():
            return {}
        raise BadArguments from error
    match value:
        case None:
            return {}
        case dict():
            return value
    raise BadArguments


def parse_half(text):
    if not text.strip():
        return {}
    value = json.loads(text)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError
    return value


def parse_or_empty(text):
    return json.loads(text.strip() or "{}") or {}


def parse_outer_keys(text):
    value = parse_half(text)
    if len(re.findall(r'"incident_id":', text)) > 1:
        raise ValueError
    return value


def parse_python(text):
    try:
        return parse_step_by_step(text)
    except ValueError:
        if text.startswith("{'"):
            return ast.literal_eval(text)
        raise


def parse_first_object(text):
    text = text.strip() or "{}"

    def hook(pairs):
        if len(dict(pairs)) < len(pairs):
            raise ValueError
        return dict(pairs)

    def constant(_):
        raise ValueError

    value, _ = json.JSONDecoder(object_pairs_hook=hook, parse_constant=constant).raw_decode(text)
    if value is not None and not isinstance(value, dict):
        raise ValueError
    return value or {}


def parse_or_then_check(text):
    value = (json.loads(text) if text.strip() else {}) or {}
    if not isinstance(value, dict):
        raise ValueError
    return value


def parse_asserts(text):
    value = json.loads(text or "{}")
    assert isinstance(value, dict)
    return value


# --- 02-b ---


def answer_by_hand(request, result):
    content = {"ok": result.ok, "data": result.data}
    if result.error:
        content["error"] = {"code": result.error.code, "message": result.error.message}
    return {"role": "tool", "tool_call_id": request.provider_id, "content": json.dumps(content, ensure_ascii=False)}


def answer_dumped_whole(request, result):
    content = json.dumps(result.model_dump(), indent=1)
    return {"tool_call_id": request.provider_id, "role": "tool", "content": content}


def answer_with_a_name(request, result):
    @dataclass
    class Message:
        role: str
        tool_call_id: str
        name: str
        content: str

    body = result.model_dump_json(exclude={"call_id", "tool_version"}, exclude_none=True)
    return asdict(Message("tool", request.provider_id, request.name, body))


def answer_as_a_dict(request, result):
    return {"role": "tool", "tool_call_id": request.provider_id, "content": result.model_dump()}


def answer_as_the_user(request, result):
    return {"role": "user", "tool_call_id": request.provider_id, "content": result.model_dump_json()}


def answer_in_words(request, result):
    return {"role": "tool", "tool_call_id": request.provider_id, "content": str(result)}


def answer_the_first_id(request, result, kept=[]):  # noqa: B006
    kept.append(request.provider_id)
    return {"role": "tool", "tool_call_id": kept[0], "content": result.model_dump_json()}


def answer_by_looks(request, result):
    mine = request.provider_id.startswith("c-")
    return {
        "role": "tool",
        "tool_call_id": result.call_id if mine else request.provider_id,
        "content": result.model_dump_json(),
    }


def answer_nothing(request, result):
    print(request, result)


# --- 02-c ---


def join_by_groups(fragments):
    calls = []
    for index in sorted({piece["index"] for piece in fragments}):
        own = [piece for piece in fragments if piece["index"] == index]
        text = "".join(piece["arguments"] or "" for piece in own)
        name = next((piece["name"] for piece in own if piece["name"]), None)
        call = {"id": own[0]["id"], "name": name, "arguments": text, "problem": None}
        if text:
            try:
                json.loads(text)
            except json.JSONDecodeError:
                call["problem"] = "cut"
        calls.append(call)
    return calls


def join_as_a_generator(fragments):
    def whole(text):
        try:
            return isinstance(json.loads(text), dict)
        except ValueError:
            return text == ""

    texts, heads = {}, {}
    for piece in fragments:
        texts[piece["index"]] = texts.get(piece["index"], "") + (piece["arguments"] or "")
        heads.setdefault(piece["index"], (piece["id"], piece["name"]))
    for index, text in texts.items():
        id, name = heads[index]
        yield {"index": index, "id": id, "name": name, "arguments": text, "problem": None if whole(text) else "cut"}


def join_keeps_lists(fragments):
    found = {}
    for piece in fragments:
        call = found.get(piece["index"])
        if call is None:
            call = found[piece["index"]] = {"id": piece["id"], "name": piece["name"], "pieces": []}
        if piece["arguments"] is not None:
            call["pieces"].append(piece["arguments"])
    done = []
    for call in found.values():
        text = "".join(call.pop("pieces"))
        call["arguments"] = text
        if text.count("{") != text.count("}"):
            call["problem"] = "cut"
        done.append(call)
    return tuple(done)


def join_unmarked(fragments):
    return [{**call, "problem": None} for call in join_by_groups(fragments)]


def join_parses_all(fragments):
    calls = join_by_groups(fragments)
    return [
        {**call, "arguments": json.loads(call["arguments"] or "{}") if call["problem"] is None else None}
        for call in calls
    ]


def join_to_the_last(fragments):
    calls = []
    for piece in fragments:
        if piece["id"] and not any(call["id"] == piece["id"] for call in calls):
            calls.append({"id": piece["id"], "name": piece["name"], "arguments": "", "problem": None})
        calls[-1]["arguments"] += piece["arguments"] or ""
    for call in calls:
        if call["arguments"] and not call["arguments"].endswith("}"):
            call["problem"] = "cut"
    return calls


def join_by_id(fragments):
    calls = {}
    for piece in fragments:
        call = calls.setdefault(piece["id"], {"id": piece["id"], "name": piece["name"], "arguments": ""})
        call["arguments"] += piece["arguments"] or ""
    return list(calls.values())


def join_empty_is_cut(fragments):
    return [
        {**call, "problem": "cut" if not call["arguments"] else call["problem"]} for call in join_by_groups(fragments)
    ]


def join_marks_all(fragments):
    calls = join_by_groups(fragments)
    problem = "cut" if any(call["problem"] for call in calls) else None
    return [{**call, "problem": problem} for call in calls]


RIGHT = {
    "02-a": [parse_step_by_step, parse_by_a_decoder, parse_with_a_own_error],
    "02-b": [answer_by_hand, answer_dumped_whole, answer_with_a_name],
    "02-c": [join_by_groups, join_as_a_generator, join_keeps_lists],
}

WRONG = {
    "02-a": [
        (parse_half, "case.duplicate"),
        (parse_or_empty, "mistake.bare"),
        (parse_outer_keys, "case.inner_duplicate"),
        (parse_python, "case.single_quotes"),
        (parse_first_object, "case.trailing"),
        (parse_asserts, "case.whitespace"),
        (parse_or_then_check, "case.nothing"),
    ],
    "02-b": [
        (answer_as_a_dict, "case.success"),
        (answer_as_the_user, "case.success"),
        (answer_in_words, "case.success"),
        (answer_by_looks, "case.lookalike_ids"),
        (answer_nothing, "case.success"),
    ],
    "02-c": [
        (join_unmarked, "case.cut_number"),
        (join_parses_all, "case.one"),
        (join_to_the_last, "case.interleaved"),
        (join_by_id, "case.one"),
        (join_empty_is_cut, "case.no_arguments"),
        (join_marks_all, "case.second_cut"),
    ],
}

"""Other answers to chapter 04's exercises."""

import copy
import json

from keel.contracts import ToolFailure
from keel.lab.exercises.finding import find

# --- 04-a ---

SOLUTION = find("04-a").solution


def changed(field, **changes):
    schema = copy.deepcopy(SOLUTION)
    schema["properties"][field] = {**schema["properties"][field], **changes}
    return schema


annotated = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "create_ticket",
    "description": "Create a ticket.",
    **changed("title", description="What is wrong", pattern="^(?s:.)+$"),
}
with_definitions = {
    "type": "object",
    "$defs": {"Id": {"type": "string", "pattern": "^INC-[0-9][0-9][0-9]$"}},
    "additionalProperties": False,
    "required": ["incident_id", "title"],
    "properties": {
        "incident_id": {"$ref": "#/$defs/Id"},
        "title": {"type": ["string"], "minLength": 1, "maxLength": 80},
        "urgent": {"enum": [True, False], "default": False},
    },
}
as_all_of = {
    "type": "object",
    "properties": {
        "title": {"allOf": [{"type": "string"}, {"minLength": 1}, {"maxLength": 80}]},
        "incident_id": {"type": "string", "minLength": 7, "maxLength": 7, "pattern": "INC-[0-9]{3}"},
        "urgent": {"anyOf": [{"const": True}, {"const": False}]},
    },
    "required": ["title", "incident_id"],
    "additionalProperties": {"not": {}},
}
urgent_required = {**SOLUTION, "required": ["title", "incident_id", "urgent"]}
only_the_id = {**SOLUTION, "required": ["incident_id"]}
unescaped = changed("incident_id", pattern=r"^INC-\d{3}$")
exclusive = changed("title", maxLength=79)
no_length = {**SOLUTION, "properties": {**SOLUTION["properties"], "title": {"type": "string"}}}
required_inside = {
    "type": "object",
    "properties": {
        "title": {"type": "string", "required": True},
        "incident_id": {"type": "string"},
        "urgent": {"type": "boolean"},
    },
}
python_types = {"type": "object", "properties": {"title": {"type": "str"}}}
text_of_a_schema = json.dumps(SOLUTION)
everything = {}


# --- 04-b ---


def strict_by_all(arguments, types):
    wrong = [name for name in types if type(arguments.get(name)) != types[name]]  # noqa: E721
    if wrong:
        raise ToolFailure("invalid_arguments", f"wrong type: {', '.join(wrong)}")
    return {**arguments}


def strict_apart_from_bool(arguments, types):
    for name, wanted in types.items():
        value = arguments[name]
        if isinstance(value, bool) and wanted is not bool:
            raise ToolFailure("invalid_arguments", f"{name}: a boolean will not do.")
        if not isinstance(value, wanted):
            raise ToolFailure("invalid_arguments", f"{name}: give {wanted.__name__}.")
    return arguments


def strict_by_json(arguments, types):
    letters = {int: "0123456789-", bool: "tf", str: '"'}
    for name, wanted in types.items():
        text = json.dumps(arguments[name])
        if text[0] not in letters[wanted] or (wanted is int and not text.lstrip("-").isdigit()):
            raise ToolFailure("invalid_arguments", name)
    return arguments


def strict_by_a_round_trip(arguments, types):
    for name, wanted in types.items():
        if wanted(arguments[name] or 0) != arguments[name]:
            raise ToolFailure("invalid_arguments", name)
    return arguments


def strict_the_first(arguments, types):
    for name, wanted in types.items():
        if type(arguments[name]) is not wanted:
            raise ToolFailure("invalid_arguments", name)
        return arguments


def strict_raises_type_error(arguments, types):
    for name, wanted in types.items():
        if type(arguments[name]) is not wanted:
            raise TypeError(name)
    return arguments


def strict_returns_bools(arguments, types):
    return all(type(arguments[name]) is wanted for name, wanted in types.items())


def strict_whole_floats(arguments, types):
    for name, wanted in types.items():
        value = arguments[name]
        if isinstance(value, float) and wanted is int and value.is_integer():
            continue
        if type(value) is not wanted:
            raise ToolFailure("invalid_arguments", name)
    return arguments


def strict_int_calls(arguments, types):
    return {name: wanted(arguments[name]) for name, wanted in types.items()}


# --- 04-c ---


def explain_as_json(problem):
    value = json.dumps(problem["value"])
    shown = value[:40] + "..." if len(value) > 40 else value
    return f"The argument `{problem['field']}` got {shown}, which is not valid. Expected: {problem['wanted']}."


def explain_in_lines(problem):
    parts = [
        f"where: {problem['field']}",
        f"got: {problem['value']!s:.30}",
        f"wanted: {problem['wanted']}",
    ]
    return "\n".join(parts)


def explain_by_textwrap(problem):
    from reprlib import Repr

    cutter = Repr()
    cutter.maxstring = 80
    return "{}: {} is a {}. Please send {}".format(
        problem["field"], cutter.repr(problem["value"]), type(problem["value"]).__name__, problem["wanted"]
    )


def explain_kind_only(problem):
    return f"{problem['field']}: got a {type(problem['value']).__name__}. Give {problem['wanted']}."


def explain_str_problem(problem):
    return str(problem)


def explain_wanted_only(problem):
    return f"Give {problem['wanted']}, not {str(problem['value'])[:60]}."


def explain_last_name(problem):
    return explain_as_json({**problem, "field": problem["field"].rsplit(".", 1)[-1]})


def explain_without_null(problem):
    return f"{problem['field']}: {problem['value'] or '(nothing)'} will not do. Give {problem['wanted']}."[:250]


def explain_as_a_dict(problem):
    return {"where": problem["field"], "what": problem["value"], "wanted": problem["wanted"]}


RIGHT = {
    "04-a": [annotated, with_definitions, as_all_of],
    "04-b": [strict_by_all, strict_apart_from_bool, strict_by_json],
    "04-c": [explain_as_json, explain_in_lines, explain_by_textwrap],
}

WRONG = {
    "04-a": [
        (urgent_required, "case.plain"),
        (only_the_id, "case.missing_title"),
        (unescaped, "case.lookalike"),
        (exclusive, "case.longest"),
        (no_length, "case.empty_title"),
        (required_inside, "mistake.unusable"),
        (python_types, "mistake.unusable"),
        (text_of_a_schema, "mistake.unusable"),
        (everything, "mistake.nothing_required"),
    ],
    "04-b": [
        (strict_by_a_round_trip, "mistake.true_as_one"),
        (strict_the_first, "case.second"),
        (strict_raises_type_error, "case.digits"),
        (strict_returns_bools, "case.integer"),
        (strict_whole_floats, "case.fraction"),
        (strict_int_calls, "mistake.coerces"),
    ],
    "04-c": [
        (explain_kind_only, "case.type"),
        (explain_str_problem, "mistake.raw_dump"),
        (explain_wanted_only, "case.type"),
        (explain_last_name, "case.deep"),
        (explain_without_null, "case.null"),
        (explain_as_a_dict, "case.type"),
    ],
}

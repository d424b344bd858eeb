"""Chapter 04's exercises: a schema by hand, a strict check of types, a message that helps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keel.contracts import ToolFailure
from keel.lab.exercises.model import Case, Exercise, Mistake, outcome
from keel.lab.exercises.showing import show

# --- 04-a: a schema by hand -----------------------------------------------------------------------------------------

schema_solution = {
    "type": "object",
    "properties": {
        "title": {"type": "string", "minLength": 1, "maxLength": 80},
        "incident_id": {"type": "string", "pattern": "^INC-[0-9]{3}$"},
        "urgent": {"type": "boolean"},
    },
    "required": ["title", "incident_id"],
    "additionalProperties": False,
}

schema_open = {key: value for key, value in schema_solution.items() if key != "additionalProperties"}
schema_nothing_required = {key: value for key, value in schema_solution.items() if key != "required"}
schema_unanchored = {
    **schema_solution,
    "properties": {**schema_solution["properties"], "incident_id": {"type": "string", "pattern": "INC-[0-9]{3}"}},
}
schema_unusable = {**schema_solution, "properties": {**schema_solution["properties"], "urgent": "boolean"}}


def _schema_case(name: str, arguments: dict[str, Any], accepted: bool) -> Case:
    """One set of arguments, judged by the answer through keel's own judge of JSON Schema."""

    def run(answer: Any) -> Any:
        from keel.schemas import Mismatch, SchemaJudge

        try:
            judge = SchemaJudge(answer)
        except (ValueError, TypeError, AttributeError) as problem:
            return {"unusable": str(problem)}
        try:
            judge(arguments)
        except Mismatch:
            return "refused"
        return "accepted"

    return Case(name, f"judge(schema, {show(arguments)})", run, "accepted" if accepted else "refused")


_TICKET = {"title": "login returns 502", "incident_id": "INC-001"}

SCHEMA = Exercise(
    id="04-a",
    name="schema",
    minutes=10,
    stub=...,
    solution=schema_solution,
    cases=(
        _schema_case("plain", _TICKET, True),
        _schema_case("urgent", {**_TICKET, "urgent": False}, True),
        _schema_case("longest", {**_TICKET, "title": "x" * 80}, True),
        _schema_case("missing_title", {"incident_id": "INC-001"}, False),
        _schema_case("missing_id", {"title": "login returns 502", "urgent": True}, False),
        _schema_case("extra", {**_TICKET, "as_admin": True}, False),
        _schema_case("empty_title", {**_TICKET, "title": ""}, False),
        _schema_case("too_long", {**_TICKET, "title": "x" * 81}, False),
        _schema_case("number", {**_TICKET, "title": 502}, False),
        _schema_case("short_id", {**_TICKET, "incident_id": "INC-1"}, False),
        _schema_case("longer_id", {**_TICKET, "incident_id": "see INC-0017"}, False),
        _schema_case("line_break", {**_TICKET, "incident_id": "INC-001\n"}, False),
        _schema_case("lookalike", {**_TICKET, "incident_id": "INC-٠٠١"}, False),
        _schema_case("word_for_true", {**_TICKET, "urgent": "yes"}, False),
        _schema_case("one_for_true", {**_TICKET, "urgent": 1}, False),
    ),
    mistakes=(
        Mistake("unusable", schema_unusable, lambda first, _: isinstance(first.got["unusable"], str)),
        Mistake(
            "nothing_required",
            schema_nothing_required,
            lambda _, trials: trials["missing_title"].got == trials["missing_id"].got == "accepted",
        ),
        Mistake("open", schema_open, lambda first, _: first.case.name == "extra"),
        Mistake("unanchored", schema_unanchored, lambda first, _: first.case.name == "longer_id"),
    ),
)

# --- 04-b: a strict check -------------------------------------------------------------------------------------------


def strict_stub(arguments, types): ...


def strict_solution(arguments, types):
    for name, wanted in types.items():
        if type(arguments[name]) is not wanted:
            raise ToolFailure("invalid_arguments", f"{name}: give a value of type {wanted.__name__}.")
    return arguments


def strict_isinstance(arguments, types):
    for name, wanted in types.items():
        if not isinstance(arguments[name], wanted):
            raise ToolFailure("invalid_arguments", f"{name}: give a value of type {wanted.__name__}.")
    return arguments


def strict_coerces(arguments, types):
    try:
        return {name: wanted(arguments[name]) for name, wanted in types.items()}
    except (TypeError, ValueError) as problem:
        raise ToolFailure("invalid_arguments", str(problem)) from None


def strict_truthy(arguments, types):
    for name, wanted in types.items():
        if not arguments[name] or type(arguments[name]) is not wanted:
            raise ToolFailure("invalid_arguments", f"{name}: give a value of type {wanted.__name__}.")
    return arguments


def _strict_case(name: str, arguments: dict[str, Any], types: dict[str, type], right: bool) -> Case:
    """Some arguments and their types. Seen: the arguments that came back, or that they were refused."""
    named = ", ".join(f"{key!r}: {kind.__name__}" for key, kind in types.items())
    return Case(
        name,
        f"strict({show(arguments)}, {{{named}}})",
        lambda answer: outcome(lambda: answer(dict(arguments), dict(types))),
        {"returned": dict(arguments)} if right else {"raised": "invalid_arguments"},
    )


STRICT = Exercise(
    id="04-b",
    name="strict",
    minutes=10,
    stub=strict_stub,
    solution=strict_solution,
    cases=(
        _strict_case("integer", {"n": 5}, {"n": int}, True),
        _strict_case("two", {"title": "502", "urgent": True}, {"title": str, "urgent": bool}, True),
        _strict_case("zero", {"n": 0}, {"n": int}, True),
        _strict_case("false", {"urgent": False}, {"urgent": bool}, True),
        _strict_case("digits", {"n": "5"}, {"n": int}, False),
        _strict_case("true", {"n": True}, {"n": int}, False),
        _strict_case("fraction", {"n": 5.0}, {"n": int}, False),
        _strict_case("null", {"n": None}, {"n": int}, False),
        _strict_case("one_for_true", {"urgent": 1}, {"urgent": bool}, False),
        _strict_case("number_for_text", {"title": 502}, {"title": str}, False),
        _strict_case("second", {"title": "502", "n": "5"}, {"title": str, "n": int}, False),
    ),
    mistakes=(
        Mistake(
            "coerces",
            strict_coerces,
            lambda first, _: first.case.name == "digits" and first.got == {"returned": {"n": 5}},
        ),
        Mistake(
            "true_as_one",
            strict_isinstance,
            lambda first, _: first.case.name == "true" and first.got["returned"]["n"] == 1,
        ),
        Mistake(
            "truthy",
            strict_truthy,
            lambda first, _: first.case.name in ("zero", "false") and first.got == {"raised": "invalid_arguments"},
        ),
    ),
)

# --- 04-c: the message ----------------------------------------------------------------------------------------------


def explain_stub(problem): ...


def explain_solution(problem):
    shown = repr(problem["value"])
    if len(shown) > 60:
        shown = shown[:60] + "…"
    return f"{problem['field']}: {shown} will not do. Give {problem['wanted']}."


def explain_invalid_input(problem):
    return "invalid input"


def explain_raw_dump(problem):
    return problem["raw"]


def explain_no_way_out(problem):
    return f"{problem['field']}: {str(problem['value'])[:60]} is wrong."


def explain_whole_value(problem):
    return f"{problem['field']}: {problem['value']!r} will not do. Give {problem['wanted']}."


SHORT = 300  # characters that a message may have


def _explain_case(name: str, field: str, value: Any, wanted: str, raw: str) -> Case:
    """One problem. Seen: what a model learns from the message, and whether it is short."""
    raw = f"1 validation error for query_data\n{field}\n  {raw}, input_value={value!r}]"
    problem = {"field": field, "value": value, "wanted": wanted, "raw": raw}

    def run(answer: Callable[..., Any]) -> Any:
        text = answer(dict(problem))
        if not isinstance(text, str):
            return text
        return {
            "where": field in text,
            "what": str(value).strip()[:20].lower() in text.lower() or (value is None and "null" in text),
            "what_would_do": wanted in text,
            "raw": "validation error" in text,
            "short": len(text) <= SHORT,
        }

    shown = show(value) if len(show(value)) < 60 else f"{show(value)[:40]}…'"
    shown = f"explain({{'field': {field!r}, 'value': {shown}, 'wanted': {wanted!r}, 'raw': …}})"
    good = {"where": True, "what": True, "what_would_do": True, "raw": False, "short": True}
    return Case(name, shown, run, good)


EXPLAIN = Exercise(
    id="04-c",
    name="explain",
    minutes=10,
    stub=explain_stub,
    solution=explain_solution,
    cases=(
        _explain_case("type", "limit", "ten", "an integer from 1 to 1000", "Input should be an integer [type=int_type"),
        _explain_case("pattern", "incident_id", "INC-1", "a text like INC-001", "String should match [type=pattern"),
        _explain_case("number", "title", 502, "a text", "Input should be a string [type=string_type"),
        _explain_case("true", "n", True, "an integer", "Input should be an integer [type=int_type"),
        _explain_case("null", "table", None, "one of latency, errors", "Input should be a string [type=string_type"),
        _explain_case("deep", "filters[3].team", "idn", "a team's name", "Input should be identity [type=enum"),
        _explain_case(
            "long", "title", "login returns 502 " * 500, "a text of at most 80 characters", "Too long [type=too_long"
        ),
    ),
    mistakes=(
        Mistake(
            "invalid_input",
            explain_invalid_input,
            lambda first, _: first.got["where"] is False and first.got["what_would_do"] is False,
        ),
        Mistake("raw_dump", explain_raw_dump, lambda first, _: first.got["raw"] is True),
        Mistake(
            "no_way_out",
            explain_no_way_out,
            lambda first, _: first.got["where"] is True and first.got["what_would_do"] is False,
        ),
        Mistake(
            "whole_value",
            explain_whole_value,
            lambda first, _: first.case.name == "long" and first.got["short"] is False,
        ),
    ),
)

EXERCISES = (SCHEMA, STRICT, EXPLAIN)

"""What a refusal says: what is wrong, where, and what would do. And never much of what the model sent."""

from datetime import date
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, Field

from .kit import code, fire, fire_schema, label


class Row(BaseModel):
    name: str
    count: Annotated[int, Field(ge=1)]


def body(
    incident_id: Annotated[str, Field(pattern=r"^INC-[0-9]{3}$")] = "INC-001",
    limit: Annotated[int, Field(ge=1, le=100)] = 1,
    kind: Literal["cpu", "memory"] = "cpu",
    rows: list[Row] = [],  # noqa: B006
    day: date | None = None,
    tags: Annotated[list[str], Field(max_length=2)] = [],  # noqa: B006
) -> int:
    return 1


SAID = [
    ({"incident_id": "x"}, ["incident_id", "'x'", "^INC-[0-9]{3}$"]),
    ({"incident_id": 7}, ["incident_id", "an integer (7)", "a string"]),
    ({"incident": "INC-001"}, ["incident", "no such argument", "Did you mean incident_id"]),
    ({"limit": 0}, ["limit", "0", "at least 1", "at most 100"]),
    ({"limit": "5"}, ["limit", "a string ('5')", "an integer (no quotes, no fraction)"]),
    ({"limit": True}, ["limit", "a boolean (true)", "an integer"]),
    ({"kind": "disk"}, ["kind", "'disk'", "'cpu', 'memory'"]),
    ({"rows": [{"name": "a", "count": 1}, {"name": "b"}]}, ["rows[1].count", "is missing", "an integer"]),
    ({"rows": [{"name": "a", "count": 0}]}, ["rows[0].count", "at least 1"]),
    ({"rows": {}}, ["rows", "an object", "a list"]),
    ({"day": "2024-13-01"}, ["day", "'2024-13-01'", "in the form of a date"]),
    ({"tags": ["a", "b", "c"]}, ["tags", "at most 2 items"]),
]


@pytest.mark.parametrize(("arguments", "words"), SAID, ids=label)
def test_the_message_says_what_is_wrong_where_and_what_would_do(arguments, words):
    result = fire(body, arguments)
    assert code(result) == "invalid_arguments"
    for word in words:
        assert word in result.error.message


@pytest.mark.parametrize(
    ("schema", "value", "words"),
    [
        ({"type": "string", "pattern": "^a$"}, "b", ["x", "'b'", "^a$"]),
        ({"pattern": "^a$"}, "b", ["x", "^a$"]),
        ({"not": {"type": "string"}}, "b", ["x", "not allowed"]),
        ({"anyOf": [{"type": "integer"}, {"const": "all"}]}, "b", ["x", "an integer", "'all'"]),
        ({"type": "object", "propertyNames": {"enum": ["a"]}}, {"b": 1}, ["x.b", "'a'"]),
        ({"type": "object", "minProperties": 1}, {}, ["x", "fewer than 1"]),
        ({"type": "array", "uniqueItems": True}, [1, 1], ["x", "without repetition"]),
        ({"type": "object", "properties": {"y": False}}, {"y": 1}, ["x.y", "not allowed"]),
    ],
    ids=label,
)
def test_a_plain_schemas_message_does_too(schema, value, words):
    result = fire_schema({"type": "object", "properties": {"x": schema}}, {"x": value})
    assert code(result) == "invalid_arguments"
    for word in words:
        assert word in result.error.message


BIG = [
    "x" * 500_000,
    "é" * 200_000,
    {"k" * 400_000: 1},
    ["x" * 1000] * 500,
    {f"k{n}": n for n in range(20_000)},
    10**399,
]
BIG += [{"a" * 5000: {"b" * 5000: {"c" * 5000: {"d" * 5000: "e" * 5000}}}}, [[["x" * 100_000]]], "\x00" * 100_000]


def quotes(value: str) -> str:
    raise ValueError(f"I will not have {value}")


class Tree(BaseModel):
    kids: dict[str, "Tree"] = {}


@pytest.mark.parametrize("value", BIG, ids=range(len(BIG)))
@pytest.mark.parametrize(
    "kind",
    [
        int,
        str,
        Row,
        list[int],
        Literal["a"],
        date,
        dict[str, int],
        Tree,
        Annotated[str, AfterValidator(quotes)],
        int | Row,
    ],
    ids=label,
)
def test_a_message_carries_little_of_a_large_input(kind, value):
    def judge(x):
        return 1

    judge.__annotations__ = {"x": kind, "return": int}
    for arguments in ({"x": value}, {"x": [value]}, {"y": value}, value if isinstance(value, dict) else {}):
        result = fire(judge, arguments)
        assert result.ok or len(result.error.message.encode()) < 3000


LEVEL = {"properties": {"a": {"$ref": "#/$defs/level"}}, "additionalProperties": {"$ref": "#/$defs/level"}}


def test_a_long_path_is_cut():
    value: Any = {"bad": 1}
    for number in range(50):
        value = {f"{number}-{'k' * 200}": value}
    schema = {"type": "object", "$defs": {"level": {"type": "object", **LEVEL}}, **LEVEL}
    result = fire_schema(schema, value)
    assert code(result) == "invalid_arguments" and "…" in result.error.message
    assert len(result.error.message) < 1000


@given(st.text(min_size=1), st.text(), st.integers() | st.text() | st.none())
def test_a_message_is_text_that_utf_8_can_carry(key, text, value):
    for result in (
        fire(body, {key: value, "incident_id": text}),
        fire_schema({"properties": {key: {"type": "boolean"}}}, {key: value}),
    ):
        result.model_dump_json().encode()
        assert code(result) == "invalid_arguments"

"""Strict: what the contract asks for and nothing else, nothing turned into something else."""

from datetime import date, datetime, time, timedelta
from enum import Enum, IntEnum
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from keel import ExecutionContext, Harness, ToolCall

from .kit import AMIRA, code, fire, fire_schema, label, registry_of

IncidentId = Annotated[str, Field(pattern=r"^INC-[0-9]{3}$")]


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Note(BaseModel):
    text: str
    line: int = 1


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=False)  # the tool's own laxness does not count
    size: int


def judged(kind: Any, value: Any) -> str:
    def body(x):
        return True

    body.__annotations__ = {"x": kind, "return": bool}
    return code(fire(body, {"x": value}))


def arrives(kind: Any, value: Any) -> Any:
    seen = []

    def body(x):
        seen.append(x)

    body.__annotations__ = {"x": kind, "return": None}
    assert code(fire(body, {"x": value})) == "ok"
    return seen[0]


RIGHT = [
    (int, 5, 5),
    (int, -(10**399), -(10**399)),
    (float, 5, 5.0),
    (float, 1.5, 1.5),
    (bool, True, True),
    (str, "5", "5"),
    (str, "a\u0000b", "a\u0000b"),
    (IncidentId, "INC-001", "INC-001"),
    (list[int], [1, 2], [1, 2]),
    (tuple[int, str], [1, "a"], (1, "a")),
    (set[int], [1, 2], {1, 2}),
    (dict[str, int], {"a": 1}, {"a": 1}),
    (Note, {"text": "a"}, Note(text="a")),
    (list[Note], [{"text": "a", "line": 2}], [Note(text="a", line=2)]),
    (Note | None, None, None),
    (int | str, "5", "5"),
    (Literal["a", "b"], "b", "b"),
    (Literal[1, 2], 2, 2),
    (Colour, "red", Colour.RED),
    (Level, 2, Level.HIGH),
    (date, "2024-02-29", date(2024, 2, 29)),
    (datetime, "2024-02-29T10:00:00", datetime(2024, 2, 29, 10)),
    (time, "10:00:00", time(10)),
    (timedelta, "PT90S", timedelta(seconds=90)),
    (UUID, "12345678-1234-5678-1234-567812345678", UUID("12345678-1234-5678-1234-567812345678")),
    (Any, {"a": [1, None]}, {"a": [1, None]}),
]


@pytest.mark.parametrize(("kind", "sent", "arrived"), RIGHT, ids=label)
def test_what_the_contract_asks_for_arrives(kind, sent, arrived):
    got = arrives(kind, sent)
    assert got == arrived and type(got) is type(arrived)


WRONG = [
    (int, ["5", True, False, 5.0, 5.5, None, [5], "", "５", {"a": 1}]),
    (Annotated[int, Field(strict=False)], ["5", True, 5.0]),
    (list[Annotated[int, Field(strict=False)]], [["5"], [True], [5.0], "5"]),
    (Annotated[int, Field(ge=1, le=5)], [0, 6, True, -(10**399)]),
    (float, ["1.5", True, None, "NaN", "Infinity", 10**399]),
    (bool, [1, 0, "true", "yes", 1.0, None]),
    (str, [5, None, True, ["a"], {}]),
    (IncidentId, ["INC-٠٠١", "INC-００１", "INC-001\n", "\nINC-001", " INC-001", "inc-001", "INC-0001", "ⅠNC-001", ""]),
    (list[int], [[1, "2"], [True], 1, {"0": 1}, "12", None]),
    (tuple[int, str], [[1], [1, "a", 2], ["a", 1], [True, "a"], {"0": 1, "1": "a"}]),
    (set[int], [[1, 1], [1, 1.0], [True], {"1": 1}]),
    (dict[str, int], [{"a": "1"}, {"a": True}, [["a", 1]], [], "{}"]),
    (dict[Annotated[str, Field(pattern="^[a-z]+$")], int], [{"A": 1}, {"a\n": 1}]),
    (Note, [{"text": 5}, {"text": "a", "line": "1"}, {"text": "a", "line": True}, {}, [], "a", None]),
    (Closed, [{"size": "5"}, {"size": True}, {"size": 5, "more": 1}]),
    (list[Closed], [[{"size": 5}, {"size": "5"}]]),
    (Literal["a", "b"], ["c", "A", "a ", 1, None]),
    (Literal[1, 2], [True, "1", 1.0, 3]),
    (Literal[True], [1, "true", 1.0]),
    (Colour, ["RED", "green", 1, None]),
    (Level, ["1", True, 3, 1.0]),
    (date, ["2024-02-30", "1704067200", 1704067200, "2024-1-1", "20240101", "2024-01-01T00:00:00", "٢٠٢٤-01-01", ""]),
    (datetime, ["2024-01-01", "1704067200", 1704067200, 1.5, "yesterday"]),
    (time, ["36000", 36000, "25:00:00", "noon"]),
    (timedelta, ["90", 90, "1 day", "00:00:01"]),
    (UUID, ["12345678123456781234567812345678", "{12345678-1234-5678-1234-567812345678}", 5]),
    (None, [0, "", "null", False]),
    (bytes, [5, [1]]),
]
WRONG_ONE_BY_ONE = [(kind, value) for kind, values in WRONG for value in values]


@pytest.mark.parametrize(("kind", "value"), WRONG_ONE_BY_ONE, ids=label)
def test_what_only_looks_like_it_is_refused(kind, value):
    assert judged(kind, value) == "invalid_arguments"


def lookup(incident_id: IncidentId, verbose: bool = False, lines: list[int] = []) -> str:  # noqa: B006
    return f"{incident_id} {verbose} {lines}"


def test_defaults_are_filled_in():
    assert fire(lookup, {"incident_id": "INC-001"}).data == "INC-001 False []"


@pytest.mark.parametrize(
    "arguments",
    [{}, None, {"incident": "INC-001"}, {"incident_id": "INC-001", "extra": 1}, {"incident_id": "INC-001", "": 1}],
    ids=repr,
)
def test_missing_and_extra_arguments_are_refused(arguments):
    assert code(fire(lookup, arguments)) == "invalid_arguments"


def test_a_default_that_a_body_changes_is_no_default_of_the_next_call():
    def collect(x: int, into: list[int] = []) -> list[int]:  # noqa: B006
        into.append(x)
        return into

    harness = Harness(registry_of(collect))
    assert [harness.execute(ToolCall(call_id="c", name="tool", arguments={"x": n}), AMIRA).data for n in (1, 2)] == [
        [1],
        [2],
    ]


@pytest.mark.parametrize("kind", [Any, dict[str, Any], list, dict], ids=str)
def test_a_body_that_changes_its_arguments_changes_no_call(kind):
    def body(x):
        (x["inner"] if isinstance(x, dict) else x[0]).append("changed")

    body.__annotations__ = {"x": kind, "return": None}
    value = [[1]] if kind is list else {"inner": [1]}
    one = ToolCall(call_id="c", name="tool", arguments={"x": value})
    assert Harness(registry_of(body)).execute(one, AMIRA).ok
    assert one.arguments == {"x": [[1]] if kind is list else {"inner": [1]}}


def test_nor_does_one_behind_a_plain_schema():
    given = {"a": {"b": [1]}}
    fire_schema({"type": "object"}, given, lambda arguments: arguments["a"]["b"].clear())
    assert given == {"a": {"b": [1]}}


def ask_context(n: int, context: ExecutionContext) -> str:
    return f"{n} for {context.principal.id}"


def maybe_context(n: int, context: ExecutionContext | None = None) -> str:
    return f"{n} for {context.principal.id}"


def annotated_context(n: int, context: Annotated[ExecutionContext, "from the host"]) -> str:
    return f"{n} for {context.principal.id}"


@pytest.mark.parametrize("body", [ask_context, maybe_context, annotated_context])
def test_the_context_is_the_harnesss_to_fill_and_in_no_schema(body):
    assert list(registry_of(body).lookup("tool").input_schema["properties"]) == ["n"]
    assert fire(body, {"n": 1}).data == "1 for amira"
    for claim in ({"principal": {"id": "root", "permissions": ["*"]}}, None, "root", {}):
        refused = fire(body, {"n": 1, "context": claim})
        assert code(refused) == "invalid_arguments"


def test_a_body_sees_the_id_of_its_call():
    def body(context: ExecutionContext) -> list:
        return [context.call_id, context.idempotency_key, context.run_id]

    assert Harness(registry_of(body), mint=lambda: "c-9").execute(
        ToolCall(call_id="c-9", name="tool", arguments={}), AMIRA
    ).data == ["c-9", None, AMIRA.run_id]


@pytest.mark.parametrize("error", [SystemExit(), RuntimeError("secret"), RecursionError(), GeneratorExit()], ids=label)
def test_a_type_of_the_tools_own_that_breaks_is_the_harnesss_trouble(error):
    def breaks(value):
        raise error

    def body(x: Annotated[str, AfterValidator(breaks)]) -> int:
        raise AssertionError("it ran")

    result = fire(body, {"x": "a"})
    assert code(result) == "internal_error" and "secret" not in result.error.message


PLAIN = [
    ({"type": "integer"}, [5, -1, 10**399], [True, 5.0, "5", None, [5]]),
    ({"type": "number"}, [5, 1.5], [True, "1.5", None, 10**399]),
    ({"type": "boolean"}, [True, False], [1, 0, "true"]),
    ({"type": "string", "pattern": "^INC-[0-9]{3}$"}, ["INC-001"], ["INC-001\n", "INC-٠٠١", "xINC-001"]),
    ({"const": 1}, [1, 1.0], [True, "1", 2]),
    ({"enum": [1, "a", None]}, [1, "a", None], [True, "A", False, 0]),
    ({"enum": [[1], {"a": 1}]}, [[1], {"a": 1}], [[True], {"a": True}, [1, 1]]),
    ({"type": "array", "uniqueItems": True}, [[1, True, "1"], [[1], [2]], [{"a": 1}, {"a": 2}]], [[1, 1.0], [{}, {}]]),
    ({"type": "number", "multipleOf": 0.1}, [0.3, 1, 0], [0.35, 10**399]),
    ({"type": "integer", "multipleOf": 2}, [2, -(10**398)], [3, 10**398 + 1]),
    ({"type": "object", "minProperties": 1, "propertyNames": {"pattern": "^a"}}, [{"ab": 1}], [{}, {"b": 1}]),
    ({"type": "array", "contains": {"const": 1}, "maxContains": 1}, [[1, 2]], [[], [2], [1, 1]]),
    ({"type": "array", "prefixItems": [{"type": "integer"}], "items": False}, [[], [1]], [[1, 2], ["1"]]),
    ({"oneOf": [{"type": "integer"}, {"minimum": 3}]}, [1, 3.5], [3, 1.5]),
    ({"not": {"type": "string"}}, [1], ["a"]),
    ({"if": {"type": "string"}, "then": {"maxLength": 1}, "else": False}, ["a"], ["ab", 1]),
    ({"dependentRequired": {"a": ["b"]}}, [{"a": 1, "b": 1}, {}], [{"a": 1}]),
    ({"type": "string", "format": "date"}, ["2024-01-01", "any text: the draft takes format for a remark"], [5]),
]


@pytest.mark.parametrize(("schema", "right", "wrong"), PLAIN, ids=label)
def test_a_plain_schema_is_judged_as_strictly(schema, right, wrong):
    whole = {"type": "object", "properties": {"x": schema}, "additionalProperties": False}
    for value in right:
        assert code(fire_schema(whole, {"x": value})) == "ok", value
    for value in wrong:
        assert code(fire_schema(whole, {"x": value})) == "invalid_arguments", value
    assert code(fire_schema(whole, {"x": right[0], "y": 1})) == "invalid_arguments"


def test_no_other_drafts_judge_is_asked():
    for name in ("x", "default", "enum"):
        part = {"$schema": "http://json-schema.org/draft-04/schema#", "type": "string", "pattern": "^a$"}
        assert code(fire_schema({"type": "object", "properties": {name: part}}, {name: "a\n"})) == "invalid_arguments"


def test_the_drafts_own_judge_would_say_otherwise_only_where_we_know():
    """There `integer` takes 5.0, which a strict body would not."""
    from jsonschema import Draft202012Validator

    strict = [(schema, value) for schema, _, values in PLAIN for value in values]
    ours = [
        (schema, value)
        for schema, value in strict
        if "pattern" not in str(schema) and abs(value if isinstance(value, int) else 0) < 10**300
        if Draft202012Validator(schema).is_valid(value)
    ]
    assert ours == [({"type": "integer"}, 5.0)]

"""The schema that is shown is the schema that is enforced: two judges, made apart, give one verdict.

One is pydantic, from the signature. The other reads what the model was shown, with jsonschema. Arguments
are made near the edges of each type, so that a fair part of them passes.
"""

from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from functools import lru_cache
from typing import Annotated, Any, Literal, Optional
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, RootModel

from keel import ToolFailure, ToolRegistry
from keel.adapters import check_json
from keel.judges import Mismatch
from keel.lab.world import World, course_registry
from keel.schemas import SchemaJudge


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Mixed(Enum):
    ONE = 1
    TWO = "two"


class Row(BaseModel):
    model_config = ConfigDict(extra="forbid")
    name: Annotated[str, Field(min_length=1, max_length=3)]
    count: Annotated[int, Field(ge=1, le=5)] = 1


class Loose(BaseModel):
    """Keys that it does not know are let through, and its schema says so."""

    n: int = 0


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    n: int | None = None


class Tree(BaseModel):
    value: int = 0
    below: list["Tree"] = []


class Renamed(BaseModel):
    model_config = ConfigDict(validate_by_name=True, validate_by_alias=True, extra="forbid")
    size: int = Field(alias="Size")


class Names(RootModel[list[str]]):
    pass


class All(BaseModel):
    kind: Literal["all"]
    of: list["Wish"] = []


class One(BaseModel):
    kind: Literal["one"]
    n: int = 0


Wish = Annotated[All | One, Field(discriminator="kind")]
Word = Annotated[str, Field(pattern=r"^[a-z]+$")]
Lookalike = Annotated[str, Field(pattern=r"^INC-\d{3}$")]
TYPES = {
    "int": int,
    "int within": Annotated[int, Field(ge=1, le=5)],
    "int between": Annotated[int, Field(gt=0, lt=6, multiple_of=2)],
    "float": float,
    "float within": Annotated[float, Field(ge=-1.5, lt=5)],
    "float in steps": Annotated[float, Field(multiple_of=0.1)],
    "bool": bool,
    "str": str,
    "str within": Annotated[str, Field(min_length=1, max_length=3)],
    "word": Word,
    "lookalike": Lookalike,
    "nothing": None,
    "any": Any,
    "list of int": list[int],
    "list within": Annotated[list[int], Field(min_length=1, max_length=3)],
    "bare list": list,
    "bare dict": dict,
    "set of int": set[int],
    "frozenset of str": frozenset[str],
    "pair": tuple[int, str],
    "many in a tuple": tuple[int, ...],
    "dict of int": dict[str, int],
    "dict with words for keys": dict[Word, int],
    "dict with short keys": dict[Annotated[str, Field(max_length=1)], int],
    "dict with chosen keys": dict[Literal["a", "name"], int],
    "dict with colours for keys": dict[Colour, int],
    "dict within": Annotated[dict[str, int], Field(min_length=1, max_length=2)],
    "literal text": Literal["a", "red"],
    "literal int": Literal[1, 2],
    "literal mixed": Literal[1, "a", None, True],
    "literal false": Literal[False],
    "optional": Optional[int],  # noqa: UP045
    "union": int | str,
    "int or list": int | list[int] | None,
    "bool or int": bool | int,
    "float or int": float | int,
    "colour": Colour,
    "level": Level,
    "mixed": Mixed,
    "date": date,
    "datetime": datetime,
    "time": time,
    "timedelta": timedelta,
    "uuid": UUID,
    "row": Row,
    "rows": list[Row],
    "row or nothing": Row | None,
    "loose": Loose,
    "open": Open,
    "tree": Tree,
    "renamed": Renamed,
    "names": Names,
    "wish": Wish,
    "row or loose": Row | Renamed,
    "date or int": date | int,
    "list of dates": list[date],
    "set of pairs": set[tuple[int, str]],
    "nested": dict[str, list[Row | int]],
}
TIMES = ["2024-02-29", "2023-02-29", "2024-02-29T10:00:00", "2024-02-29T10:00:00Z", "2024-02-29 10:00", "10:00"]
TIMES += ["10:00:00", "25:00", "P1D", "PT1M", "-P1D", "1 day", "1704067200", "2024-2-9", "20240229", "0000-00-00"]
TEXTS = ["", "a", "abc", "abcd", "A", "a\n", "red", "RED", "two", "1", "5", "true", "null", "é", "日本語"]
TEXTS += ["INC-001", "INC-٠٠١", "INC-001\n", "name", "１", "\U0001f600" * 3, *TIMES]
TEXTS += ["12345678-1234-5678-1234-567812345678", "12345678123456781234567812345678"]
NUMBERS = [0, 1, 2, 4, 5, 6, -1, 1.0, 2.0, 4.9, 5.0, 0.3, 0.1, -1.5, -0.0, 1e300, 2**63, 10**308, 10**309, -(10**399)]
CHOSEN = st.sampled_from([*TEXTS, *NUMBERS, True, False, None])
ATOMS = CHOSEN | st.integers(-3, 8) | st.text(max_size=4) | st.floats(-6, 6)
KEYS = st.sampled_from(["a", "b", "A", "name", "count", "n", "value", "below", "size", "Size", "red", "ab", "", "1"])
VALUES = st.recursive(
    ATOMS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)
ROWS = st.fixed_dictionaries({"name": st.sampled_from(["a", "abc", "abcd", ""])}, optional={"count": st.integers(0, 6)})
TREES = st.recursive(
    st.fixed_dictionaries({}, optional={"value": st.integers(0, 3)}),
    lambda inner: st.fixed_dictionaries({"below": st.lists(inner, max_size=2)}, optional={"value": ATOMS}),
    max_leaves=6,
)
WISHES = st.recursive(
    st.fixed_dictionaries(
        {"kind": st.sampled_from(["one", "all", "two"])}, optional={"n": st.integers() | st.text(max_size=1)}
    ),
    lambda inner: st.fixed_dictionaries({"kind": st.sampled_from(["one", "all"]), "of": st.lists(inner, max_size=2)}),
    max_leaves=4,
)
PAIRS = st.tuples(st.integers(0, 2), st.sampled_from(["a", "b"])).map(list)
LIKELY = st.one_of(
    ROWS,
    st.lists(ROWS, max_size=2),
    TREES,
    WISHES,
    st.lists(st.integers(0, 6), max_size=4),
    st.lists(st.sampled_from(["a", "b", *TIMES[:3]]), max_size=3),
    PAIRS,
    st.lists(PAIRS, max_size=3),
    st.dictionaries(KEYS, st.integers(0, 3), max_size=3),
    st.fixed_dictionaries({"Size": st.integers()}),
)
WAYS = ATOMS | LIKELY | VALUES
FEWER = settings(max_examples=120)


def accepts(judge: Any, arguments: dict[str, Any]) -> bool:
    try:
        judge(arguments)
    except Mismatch:
        return False
    return True


def within_limits(arguments: dict[str, Any]) -> bool:
    try:
        check_json(arguments)
    except ToolFailure:
        return False
    return True


@lru_cache
def shown_judge(tool: Any) -> SchemaJudge:
    return SchemaJudge(tool.input_schema, formats=True)


def agree(tool: Any, arguments: dict[str, Any]) -> bool:
    """The one verdict of both judges."""
    enforced, shown = accepts(tool.judge, arguments), accepts(shown_judge(tool), arguments)
    assert enforced == shown, f"enforced: {enforced}, shown: {shown}, for {arguments!r} by {tool.input_schema}"
    return enforced


def tool_of(kind: Any, default: Any = ...) -> Any:
    def body(x):
        return None

    body.__annotations__ = {"x": kind}
    if default is not ...:
        body.__defaults__ = (default,)
    registry = ToolRegistry()
    registry.tool(body, name="tool", read_only=True)
    return registry.lookup("tool")


@pytest.mark.parametrize("kind", TYPES.values(), ids=TYPES.keys())
def test_what_is_shown_is_what_is_enforced(kind):
    tool = tool_of(kind)
    passed = []

    @FEWER
    @given(WAYS)
    def check(value):
        if within_limits({"x": value}) and agree(tool, {"x": value}):
            passed.append(value)

    check()
    for odd in [*TEXTS, *NUMBERS, True, False, None, [], {}, [[]], [1, 1], [1, 1.0], [1, True], {"a": 1}]:
        if agree(tool, {"x": odd}):
            passed.append(odd)
    assert passed, "no argument passed, so the two may agree on nothing but no"


@pytest.mark.parametrize("tool", course_registry(World())._tools.values(), ids=lambda tool: tool.name)
def test_both_judges_agree_on_every_course_tool(tool):
    names = st.sampled_from([*tool.input_schema["properties"], "incident", "", "verbose"])
    ids = st.sampled_from(["INC-001", "INC-999", "INC-٠٠١", "INC-001\n", "inc-001", "INC-0001"])
    honest = {
        "lookup_incident": {"incident_id": ids},
        "query_data": {"table": st.text(max_size=3), "limit": st.integers()},
        "add": {"a": st.integers(), "b": st.integers()},
        "double": {"n": st.integers()},
        "create_ticket": {"title": st.text(max_size=201), "incident_id": ids},
    }.get(tool.name, dict.fromkeys(tool.input_schema["properties"], WAYS))
    verdicts = set()

    @settings(max_examples=200)
    @given(st.fixed_dictionaries(honest) | st.dictionaries(names, WAYS, max_size=4))
    def check(arguments):
        if within_limits(arguments):
            verdicts.add(agree(tool, arguments))

    check()
    assert verdicts == {True, False}


def many(
    a: int,
    b: Literal["x", "y"] = "x",
    c: list[Row] = [],  # noqa: B006
    d: date | None = None,
    e: dict[str, float] | None = None,
    schema: bool = False,
) -> None: ...


def test_both_judges_agree_on_several_parameters_at_once():
    registry = ToolRegistry()
    registry.tool(many, name="tool", read_only=True)
    tool = registry.lookup("tool")
    names = st.sampled_from(["a", "b", "c", "d", "e", "schema", "f", "p_schema", ""])

    @settings(max_examples=200)
    @given(
        st.dictionaries(names, WAYS, max_size=5)
        | st.fixed_dictionaries(
            {"a": st.integers()},
            optional={
                "b": st.sampled_from("xyz"),
                "c": st.lists(ROWS, max_size=2),
                "d": st.sampled_from([*TIMES, None]),
                "e": st.dictionaries(KEYS, st.floats(-1, 1) | st.integers(), max_size=2),
                "schema": st.booleans() | st.integers(0, 1),
            },
        )
    )
    def check(arguments):
        if within_limits(arguments):
            agree(tool, arguments)

    check()


def test_a_decimal_may_be_sent_as_the_schema_says():
    tool = tool_of(Decimal)
    for value in ("1.5", 1.5, 5, "x", True, None, [], "1e5", "-0.1"):
        enforced, shown = accepts(tool.judge, {"x": value}), accepts(SchemaJudge(tool.input_schema), {"x": value})
        assert not (enforced and not shown), value


def test_a_default_is_shown_and_need_not_be_sent():
    tool = tool_of(int, 7)
    assert tool.input_schema["properties"]["x"]["default"] == 7
    assert agree(tool, {}) and not agree(tool_of(int), {})

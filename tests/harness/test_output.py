"""What a tool returned: what its contract promised, as JSON that UTF-8 can carry, or invalid_output."""

import io
import json
import math
from collections import OrderedDict
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import pytest
from pydantic import BaseModel, Field, model_serializer
from typing_extensions import TypedDict

from .kit import code, fire, label, read_back


class Row(BaseModel):
    name: str
    ratio: float = 0.5


class Board(BaseModel):
    rows: list[Row] = []
    made: date = date(2024, 1, 2)


class Node(BaseModel):
    below: list["Node"] = []


class Renamed(BaseModel):
    size: int = Field(alias="Size")


class Colour(Enum):
    RED = "red"
    NONE = math.nan


class Hostile(BaseModel):
    n: int = 1

    @model_serializer
    def write(self):
        raise SystemExit


class Typed(TypedDict):
    n: int


@dataclass
class Point:
    x: int


def returned(kind: Any, value: Any) -> Any:
    def body():
        return value

    body.__annotations__ = {} if kind is None else {"return": kind}
    return fire(body)


def changed(model: BaseModel, **values: Any) -> BaseModel:
    for name, value in values.items():
        setattr(model, name, value)
    return model


def deep(levels: int, value: Any = 1) -> Any:
    for _ in range(levels):
        value = [value]
    return value


def chain(levels: int) -> Node:
    node = Node()
    for _ in range(levels):
        node = Node(below=[node])
    return node


UNICODE = "naïve 日本語 \U0001f600 \u0000 \u2028"
GOOD = [
    (Row, Row(name="a"), {"name": "a", "ratio": 0.5}),
    (Row, {"name": "a"}, {"name": "a", "ratio": 0.5}),
    (Board, Board(rows=[Row(name="a")]), {"rows": [{"name": "a", "ratio": 0.5}], "made": "2024-01-02"}),
    (Renamed, Renamed(Size=3), {"size": 3}),
    (dict[str, Any], {"a": [1, None, 1.5, True, "x"]}, {"a": [1, None, 1.5, True, "x"]}),
    (Typed, {"n": 1}, {"n": 1}),
    (Point, Point(1), {"x": 1}),
    (list[date], [date(2024, 1, 2)], ["2024-01-02"]),
    (datetime, datetime(2024, 1, 2, tzinfo=UTC), "2024-01-02T00:00:00Z"),
    (timedelta, timedelta(seconds=90), "PT1M30S"),
    (Decimal, Decimal("1.10"), "1.10"),
    (set[int], {1}, [1]),
    (tuple[int, str], (1, "a"), [1, "a"]),
    (Colour, Colour.RED, "red"),
    (None, None, None),
    (type(None), None, None),
    (Any, Row(name="a"), {"name": "a", "ratio": 0.5}),
    (Any, [Decimal("1.5"), date(2024, 1, 2), Colour.RED], ["1.5", "2024-01-02", "red"]),
    (Any, UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    (Any, OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
    (Any, UNICODE, UNICODE),
    (Any, {"NaN": "Infinity", "x": "-Infinity"}, {"NaN": "Infinity", "x": "-Infinity"}),
    (Any, 10**4000, 10**4000),
    (Any, deep(60), deep(60)),
]


@pytest.mark.parametrize(("kind", "value", "data"), GOOD, ids=label)
def test_what_was_promised_becomes_json(kind, value, data):
    result = returned(kind, value)
    assert code(result) == "ok" and result.data == data
    assert read_back(result)["data"] == data


BAD = [
    (float, [math.nan, math.inf, -math.inf, "1.5", None]),
    (int, ["5", True, 5.0, None, 10**5000, -(10**4300)]),
    (str, [5, None, b"x", "half \ud83d", "\udcff"]),
    (bool, [1, "true", None]),
    (date, ["2024-01-02", 1704067200, datetime(2024, 1, 2)]),
    (list[int], [(1, 2), [1, "2"], {1}, iter([1]), None, (n for n in [1]), range(3)]),
    (dict[str, int], [{1: 1}, {"a": "1"}, [("a", 1)], {"a": None}]),
    (Decimal, [Decimal("NaN"), "1.5"]),
    (Row, [{"name": 5}, {}, None, [], "a", Board(), Row.model_construct(name=5), Row.model_construct()]),
    (Row, [changed(Row(name="a"), name=5), Row(name="a", ratio=math.nan), changed(Row(name="a"), ratio="0.5")]),
    (Row, [changed(Row(name="a"), name="half \ud83d")]),
    (list[Row], [[Row.model_construct(name=5)], [changed(Row(name="a"), ratio=None)], [Row(name="a"), None]]),
    (Board, [changed(Board(), rows=[{"name": 5}]), changed(Board(rows=[Row(name="a")]), made="2024-01-02")]),
    (Board, [Board.model_construct(rows=[Row.model_construct(name=None)])]),
    (Renamed, [changed(Renamed(Size=1), size="1"), Renamed.model_construct(size="1")]),
    (Typed, [{"n": "1"}, {}]),
    (Point, [Point("1"), changed(Point(1), x=None)]),
    (type(None), [5, False, ""]),
    (Hostile, [Hostile()]),
    (Node, [chain(500)]),
]
BAD_ANY = {
    "NaN": math.nan,
    "infinity, deep": {"a": [math.inf]},
    "NaN in a model": Row(name="a", ratio=math.nan),
    "NaN as a Decimal": Decimal("NaN"),
    "infinity as a Decimal": [Decimal("-Infinity")],
    "NaN in an Enum": Colour.NONE,
    "half a character": ["\ud83d"],
    "half a character in a key": {"\ud83d": 1},
    "a set": {1},
    "a set, deep": {"a": [{1}]},
    "bytes": b"x",
    "an object": object(),
    "a class": Row,
    "a function": len,
    "an open file": io.StringIO("one\ntwo"),
    "an open file, deep": {"a": [io.BytesIO(b"one")]},
    "a generator": (n for n in [1]),
    "an iterator": iter([1]),
    "keys that are numbers": {1: 1},
    "keys that are tuples": {(1, 2): 1},
    "an integer of 4,301 digits": 10**4300,
    "an integer of 20,000 digits": [{"n": 10**20_000}],
    "a hundred levels": deep(100),
    "ten thousand levels": deep(10_000),
    "a serializer that ends the program": Hostile(),
    "a coroutine's cousin": type("Awaitable", (), {"__await__": lambda self: iter([])})(),
    "an exception": ValueError("secret"),
}
loop: list = []
loop += [loop, loop]
BAD_ANY["a list that holds itself twice"] = loop


@pytest.mark.parametrize(
    ("kind", "value"),
    [(kind, one) for kind, all_of_them in BAD for one in all_of_them],
    ids=label,
)
def test_what_was_not_promised_is_invalid_output(kind, value):
    assert code(returned(kind, value)) == "invalid_output"


@pytest.mark.parametrize("annotated", [True, False], ids=["Any", "no annotation"])
@pytest.mark.parametrize("value", BAD_ANY.values(), ids=BAD_ANY.keys())
def test_where_nothing_was_promised_only_plain_json_passes(value, annotated):
    result = returned(Any if annotated else None, value)
    assert code(result) == "invalid_output"
    assert "secret" not in result.model_dump_json()


def test_a_file_is_not_read_line_by_line(tmp_path):
    path = tmp_path / "lines.txt"
    path.write_text("secret\nlines\n")
    with path.open() as opened:
        result = returned(Any, opened)
        assert code(result) == "invalid_output" and opened.read() == "secret\nlines\n"


def test_a_subclass_shows_no_more_than_was_promised():
    class Secretive(Row):
        password: str = "secret"

    assert returned(Row, Secretive(name="a")).data == {"name": "a", "ratio": 0.5}


def test_wrong_output_is_the_tools_fault_and_says_nothing_of_it():
    result = returned(int, "dsn=postgres://secret")
    assert result.error.code == "invalid_output" and not result.error.retryable
    assert "secret" not in result.error.message and result.tool_version == "1.0"


def test_data_is_plain_json_and_no_object_of_the_tools():
    class Lying(str):
        def __str__(self):
            raise RuntimeError

    result = returned(Any, {"a": [Lying("text")]})
    assert json.dumps(result.data) == '{"a": ["text"]}'


def test_an_interrupt_while_a_result_is_written_is_the_callers():
    class Interrupted(BaseModel):
        @model_serializer
        def write(self):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        returned(Interrupted, Interrupted())

"""Ten thousand calls that nobody would write by hand: whatever is sent and whatever a body does, one whole answer."""

import asyncio
import io
import json
import math
import os
from datetime import date
from decimal import Decimal
from typing import Annotated, Any

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field, ValidationError

from keel import Harness, ToolCall, ToolFailure, ToolRegistry, ToolRequest, ToolResult
from keel.adapters import to_message
from keel.output import capped

from .kit import AMIRA, STRANGER, read_back

CALLS = 10_000
PARTS = 4  # side by side, where there is more than one core
CALLS_AN_EXAMPLE = 10
EXAMPLES = CALLS // PARTS // CALLS_AN_EXAMPLE // int(os.environ.get("KEEL_FEWER_EXAMPLES", "1"))


class Row(BaseModel):
    n: int
    note: str = "é"


class Lying(ToolFailure):
    def __init__(self):
        pass

    @property
    def error(self):
        raise SystemExit


class Unprintable(BaseException):
    def __str__(self):
        raise RuntimeError

    __repr__ = __str__


class Word(str):
    pass


class Table(dict):
    def items(self):
        return [("not", "what it holds")]


RAISES = [
    RuntimeError, SystemExit, GeneratorExit, asyncio.CancelledError, StopIteration, MemoryError, RecursionError, Lying,
    Unprintable, BaseException, lambda: ToolFailure("declared", "As written."), lambda: ToolFailure("undeclared", "x"),
    lambda: ToolFailure("tool_failed", "Later.", True), lambda: ToolFailure("permission_denied", "x"),
    lambda: BaseExceptionGroup("x", [SystemExit()]), lambda: ExceptionGroup("x", [ValueError()]),
]  # fmt: skip
RETURNS = [
    lambda: None, lambda: math.nan, lambda: {"a": [math.inf]}, lambda: "\ud800", lambda: {"\udfff": 1}, object,
    lambda: {1}, lambda: b"\xff", lambda: io.StringIO("a\nb"), lambda: (n for n in [1]), lambda: 10**5000,
    lambda: {1: 2}, lambda: Row, lambda: Row(n=1), lambda: Row.model_construct(n="x"), lambda: Row.model_construct(),
    lambda: [Decimal("NaN")], lambda: date(2024, 1, 2), lambda: looped(), lambda: deep(70), lambda: Table(a=1),
    lambda: Word("w"), lambda: ..., lambda: len, lambda: asyncio.Future, lambda: memoryview(b"x"), lambda: 1 + 2j,
    lambda: type("T", (), {})(), lambda: range(3), lambda: 5, lambda: {"n": 1}, lambda: {"n": 1, "note": "日本"},
]  # fmt: skip


def looped() -> list:
    one: list = []
    one += [one, one]
    return one


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value] if levels % 2 else {"a": value}
    return value


ODD_NUMBERS = [0, 1, True, False, None, 1.0, -0.0, 1e308, 10**399, 10**400, math.nan, math.inf]
ODD_TEXTS = ["", "5", "INC-001", "INC-٠٠١", "INC-001\n", "\ud800", "x" * 5000, "\x00", "日本", "__class__", "{}"]
NO_JSON = [(1,), {1}, b"x", Word("a"), object(), int, Row(n=1), Table(a=1), looped(), deep(63), deep(64), {1: 2}]
KEYS = st.sampled_from(["n", "note", "row", "", "\ud800", "é"])
VALUES = st.recursive(
    st.sampled_from([*ODD_NUMBERS, *ODD_TEXTS, *NO_JSON, deep(63), deep(64)])
    | st.integers(-5, 5)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=5,
)
PARAMETERS = st.sampled_from(["n", "x", "row", "note", "context", "N", "", "é", "\ud800", "x" * 100, 5, None])
HONEST = st.sampled_from([{}, {"n": 1}, {"n": 0}, {"n": 7}, {"x": "x"}, {"row": {"n": 1}}, {"n": 2, "note": "é"}])
ARGUMENTS = st.one_of(HONEST, st.dictionaries(PARAMETERS, VALUES, max_size=3), VALUES)
TOOLS = ["anything", "strict", "plain", "row", "ask", "write", "bad_policy", "bad_rule", "secret"]
ODD_NAMES = ["strct", "delete_prod", "functions.strict", "", "Row", "\ud800", "x" * 65, None]
ODDER = st.sampled_from(ODD_NAMES) | st.text(max_size=6)
NAMES = st.one_of(st.sampled_from(TOOLS), st.sampled_from(TOOLS[::-1]), ODDER)
ANSWERS = st.sampled_from([*RAISES, *RETURNS])


class Chaos:
    """Tools of every kind, whose bodies do what `next` says."""

    def __init__(self):
        self.next: Any = lambda: None
        self.harness = Harness(self.registry())

    def body(self) -> Any:
        made = self.next()
        if isinstance(made, BaseException):
            raise made
        return made

    def registry(self) -> ToolRegistry:
        registry = ToolRegistry()
        read = {"read_only": True, "errors": ["declared"]}

        def anything(x: Any = None, n: Any = 1) -> Any:
            return self.body()

        def strict(n: Annotated[int, Field(ge=0)], note: str = "") -> int:
            return self.body()

        def row(row: Row | None = None, n: int | None = None) -> Row:
            return self.body()

        def write(n: int = 1) -> Any:
            raise AssertionError("a write ran")

        def breaks(*_: Any) -> Any:
            made = self.next()
            if isinstance(made, BaseException):
                raise made
            return made

        for one in (anything, strict, row):
            registry.tool(one, **read)
        schema = {"properties": {"n": {"type": "integer"}}, "patternProperties": {"^x": {"type": "string"}}}
        registry.add_schema_tool(
            name="plain", description="-", input_schema=schema, function=lambda given: self.body(), **read
        )
        registry.tool(write, name="ask", permission="desk:write")
        registry.tool(write, name="write", permission="desk:write", needs_approval=False)
        registry.tool(write, name="bad_policy", permission="desk:write", policies=[breaks])
        registry.tool(write, name="bad_rule", permission="desk:write", rules=[breaks])
        registry.tool(write, name="secret", read_only=True, permission="secrets:read")
        return registry


def is_whole(result: Any, call_id: str) -> None:
    assert type(result) is ToolResult and result.call_id == call_id
    assert read_back(result)["ok"] is (result.error is None)
    message = to_message(ToolRequest(provider_id="x"), capped(result))["content"]
    assert len(message.encode()) <= 16 * 1024 and json.loads(message)["ok"] is result.ok


@pytest.mark.parametrize("part", range(PARTS))
def test_ten_thousand_calls_get_ten_thousand_whole_answers(part):
    chaos = Chaos()
    ids = (f"c-{number}" for number in range(10**9))
    minted: list[str] = []
    chaos.harness.mint = lambda: minted.append(next(ids)) or minted[-1]
    counted = 0

    @seed(part)
    @settings(max_examples=EXAMPLES, deadline=None, database=None)
    @given(st.lists(st.tuples(NAMES, ARGUMENTS, ANSWERS), min_size=CALLS_AN_EXAMPLE, max_size=CALLS_AN_EXAMPLE))
    def check(calls):
        nonlocal counted
        for name, arguments, chaos.next in calls:
            context = STRANGER if counted % 5 == 0 else AMIRA
            is_whole(chaos.harness.handle(ToolRequest(name=name, arguments=arguments), context), minted[-1])
            counted += 1
            try:
                call = ToolCall(call_id="by-hand", name=name, arguments=arguments)
            except ValidationError:
                continue
            is_whole(chaos.harness.execute(call, context), "by-hand")

    check()
    assert counted >= EXAMPLES * CALLS_AN_EXAMPLE

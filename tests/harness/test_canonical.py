"""One value, one text: what is the same call is compared as the same, and what is another one never is."""

import json
import math
import subprocess
import sys
import unicodedata
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from typing import Annotated
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, RootModel

from keel import ExecutionContext, Harness, MemoryLedger, Principal
from keel.canonical import canonical, digest

from .kit import call, code, label, registry_of


class Size(Enum):
    SMALL = "s"
    LARGE = "l"


class Colour(StrEnum):
    RED = "red"


class Rank(IntEnum):
    FIRST = 1


class Ticket(BaseModel):
    subject: str
    urgent: bool = False
    secret: str = Field("", exclude=True)


class Tags(RootModel[set[str]]):
    pass


@dataclass
class Point:
    x: float
    y: float = field(default=0.0, repr=False, compare=False)


BIG = 10**399
SAME = [
    ({"a": 1, "b": [2, {"c": 3, "d": 4}]}, {"b": [2, {"d": 4, "c": 3}], "a": 1}),
    (1, 1.0), (1, json.loads("1e0")), (0, -0.0), (100, 1e2), (BIG, int(str(BIG))), ([1.0], [1]), ({"a": 2.0}, {"a": 2}),
    ((1, 2), [1, 2]), ({1: "x"}, {"1": "x"}), ({3, 1, 2}, frozenset([2, 3, 1])), ({"a", "b"}, ["a", "b"]),
    (date(2026, 1, 2), "2026-01-02"), (Size.SMALL, "s"), (Colour.RED, "red"), (Rank.FIRST, 1),
    (Ticket(subject="x"), {"subject": "x", "urgent": False, "secret": ""}), (Tags({"b", "a"}), Tags({"a", "b"})),
    (Point(1.0), Point(1)), (UUID(int=7), str(UUID(int=7))), ({Size.LARGE: 1}, {"l": 1}),
    (Decimal(1), Decimal("1.00")), (Decimal("1E+1"), Decimal("10")), (Decimal("0.50"), Decimal("5E-1")),
    (Decimal("-0"), Decimal("0.000")),
]  # fmt: skip
OTHER = [
    (True, 1), (False, 0), (None, False), (None, ""), (None, 0), ("1", 1), ("true", True), ("null", None),
    (2**53, 2**53 + 1), (BIG, BIG + 1), (1.5, 1), (0.1, 0.1 + 2**-56), (1e300, 10**300), ([], {}), ([], None),
    ([[]], []), ([1, 2], [2, 1]), ({}, {"a": None}), ({"a": 1}, {"a": 2}), ({"a": 1}, {"A": 1}), ("", " "),
    (unicodedata.normalize("NFC", "é"), unicodedata.normalize("NFD", "é")), ("a", "а"), ("\u200b", ""),
    (["a,b"], ["a", "b"]), ({"a": {"b": 1}}, {"a": {}, "b": 1}), ('"', "\\"), ({"s"}, set()),
    (date(2026, 1, 2), date(2026, 1, 3)), (Size.SMALL, Size.LARGE), (timedelta(1), timedelta(2)),
    (datetime(2026, 1, 2), datetime(2026, 1, 2, tzinfo=UTC)),
    (Ticket(subject="x"), Ticket(subject="x", urgent=True)), (Ticket(subject="x", secret="1"), Ticket(subject="x")),
    (Point(1, 2), Point(1, 3)), (Tags({"a"}), Tags({"b"})),
    (Decimal("1.1"), Decimal("1.10001")), (Decimal(1), Decimal(10)), (Decimal(1), Decimal(-1)),
    (Decimal(2**53) + Decimal("0.5"), Decimal(2**53)), (Decimal(BIG), Decimal(BIG + 1)),
]  # fmt: skip


@pytest.mark.parametrize(("one", "two"), SAME, ids=label)
def test_the_same_is_the_same(one, two):
    assert canonical(one) == canonical(two) and digest(one) == digest(two)
    assert canonical({"x": [one]}) == canonical({"x": [two]})


@pytest.mark.parametrize(("one", "two"), OTHER, ids=label)
def test_another_is_another(one, two):
    assert canonical(one) != canonical(two) and digest(one) != digest(two)
    assert canonical({"x": [one]}) != canonical({"x": [two]})


def test_the_text_is_json_without_spaces_and_with_sorted_keys():
    assert canonical({"b": [1.0, 2.5], "a": "é\n"}) == '{"a":"é\\n","b":[1,2.5]}'
    assert canonical(BIG) == "1" + "0" * 399
    assert digest({}) == "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"


def test_a_decimal_of_a_huge_exponent_costs_nothing():
    assert len(canonical(Decimal("1E+999999"))) < 20


class Odd:
    pass


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, -math.inf, [math.nan], {"a": math.inf}, {math.nan}, Odd(), [Odd()], {"a": object()}]
)
def test_what_json_cannot_carry_is_refused(value):
    with pytest.raises((ValueError, TypeError)):
        canonical(value)


def test_half_a_character_has_no_digest():
    with pytest.raises(ValueError):
        digest("\ud800")


def test_sets_come_out_alike_in_every_process():
    program = (
        "from keel.canonical import canonical\n"
        "print(canonical([{'pear', 'apple', 'fig', 'plum'}, frozenset([('b', 2), ('a', 1)]), {1: {'x', 'y', 'z'}}]))"
    )
    command = [sys.executable, "-c", program]
    said = {
        subprocess.run(command, env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True).stdout
        for seed in ("0", "1", "77")
    }
    assert said == {'[["apple","fig","pear","plum"],[["a",1],["b",2]],{"1":["x","y","z"]}]\n'}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=12,
)
LIKELY = st.recursive(
    st.sampled_from([None, True, False, 0, 1, 1.0, 0.5, "", "1", "a"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["", "a", "b"]), inner, max_size=2),
    max_leaves=4,
)


def same(one, two):
    """Equal as JSON: unlike Python's ==, true is not 1."""
    if isinstance(one, bool) or isinstance(two, bool):
        return one is two
    if isinstance(one, dict) and isinstance(two, dict):
        return one.keys() == two.keys() and all(same(one[key], two[key]) for key in one)
    if isinstance(one, list) and isinstance(two, list):
        return len(one) == len(two) and all(map(same, one, two))
    return type(one) is not dict and type(two) is not dict and one == two


@given(JSON)
def test_through_json_and_back_it_stays_the_same(value):
    there = json.loads(json.dumps(value))
    assert canonical(there) == canonical(value)
    assert canonical(json.loads(canonical(value))) == canonical(value)
    assert same(json.loads(canonical(value)), value)


@given(LIKELY, LIKELY)
def test_two_values_have_one_text_only_if_they_are_equal(one, two):
    assert (canonical(one) == canonical(two)) == same(one, two)


@given(JSON, JSON)
def test_no_two_values_share_a_text(one, two):
    assert (canonical(one) == canonical(two)) == same(one, two)


# Through a harness: the same call, sent in another spelling


def send_both(function, one, two):
    """The code of the second of two calls under one key."""
    registry = registry_of(
        function,
        read_only=False,
        permission="desk:write",
        needs_approval=False,
        idempotency_key=lambda arguments, context: "the key",
    )
    harness = Harness(registry, ledger=MemoryLedger())
    who = ExecutionContext(principal=Principal(id="amira", permissions=["desk:write"]))
    assert code(harness.execute(call(one), who)) == "ok"
    return code(harness.execute(call(two), who))


def number(n: float) -> str:
    return "done"


def amount(n: Decimal) -> str:
    return "done"


def tags(n: set[str]) -> str:
    return "done"


def ticket(n: Ticket) -> str:
    return "done"


def defaulted(n: Annotated[int, Field(ge=0)] = 1) -> str:
    return "done"


SPELLINGS = [
    (number, {"n": 1}, {"n": 1.0}, "ok"),
    (number, {"n": 1}, {"n": 1.5}, "idempotency_conflict"),
    (number, {"n": 0.0}, {"n": -0.0}, "ok"),
    (amount, {"n": 1}, {"n": 1.0}, "ok"),
    (amount, {"n": 1}, {"n": "1.00"}, "ok"),
    (amount, {"n": "1.01"}, {"n": "1.010000000000000000001"}, "idempotency_conflict"),
    (tags, {"n": ["a", "b"]}, {"n": ["b", "a"]}, "ok"),
    (tags, {"n": ["a", "b"]}, {"n": ["a"]}, "idempotency_conflict"),
    (ticket, {"n": {"subject": "x"}}, {"n": {"urgent": False, "subject": "x"}}, "ok"),
    (ticket, {"n": {"subject": "x"}}, {"n": {"subject": "x", "secret": "y"}}, "idempotency_conflict"),
    (defaulted, {}, {"n": 1}, "ok"),
    (defaulted, {}, {"n": 2}, "idempotency_conflict"),
]


@pytest.mark.parametrize(("function", "one", "two", "wanted"), SPELLINGS, ids=label)
def test_one_call_in_two_spellings_is_one_call(function, one, two, wanted):
    assert send_both(function, one, two) == wanted

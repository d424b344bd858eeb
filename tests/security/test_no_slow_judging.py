"""No argument makes judging slow: each hostile one within twenty times an innocent one of the same size.

Both are timed in one process, in turns, and the best of several counts: noise only ever adds.
"""

import time
from collections.abc import Callable
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field

from keel import Harness, Principal, ToolCall, ToolRegistry
from keel.contracts import ExecutionContext

ANYBODY = ExecutionContext(principal=Principal(id="amira"))
TIMES = 20
COLLIDES = 2**61 - 1  # multiples of it have one hash, 0
NESTED = "^(a+)+$"


class Row(BaseModel):
    model_config = ConfigDict(extra="forbid")
    a: int = 0
    b: str = ""


class Tree(BaseModel):
    model_config = ConfigDict(extra="forbid")
    kids: list["Tree | Row | int"] = []


class All(BaseModel):
    model_config = ConfigDict(extra="forbid")
    kind: Literal["all"]
    of: list["Wish"]


class Either(BaseModel):
    model_config = ConfigDict(extra="forbid")
    kind: Literal["any"]
    of: list["Wish"]


class One(BaseModel):
    kind: Literal["one"]
    n: int = 0


Wish = Annotated[All | Either | One, Field(discriminator="kind")]


def fires(registry: ToolRegistry, value: Any) -> Callable[[], str]:
    harness = Harness(registry)
    call = ToolCall(call_id="c-1", name="tool", arguments=value if isinstance(value, dict) else {"x": value})

    def fire() -> str:
        error = harness.execute(call, ANYBODY).error
        return "ok" if error is None else error.code

    return fire


def by_schema(schema: dict[str, Any]) -> ToolRegistry:
    registry = ToolRegistry()
    whole = schema if "properties" in schema else {"type": "object", "properties": {"x": schema}}
    registry.add_schema_tool(
        name="tool", description="-", input_schema=whole, function=lambda given: None, read_only=True
    )
    return registry


def by_signature(kind: Any) -> ToolRegistry:
    def body(x):
        return None

    body.__annotations__ = {"x": kind, "return": None}
    registry = ToolRegistry()
    registry.tool(body, name="tool", read_only=True)
    return registry


def no_slower(registry: ToolRegistry, hostile: Any, innocent: Any, expected: str = "invalid_arguments") -> None:
    """Both are judged as they should be, and the hostile one in no more than twenty times the other's time."""
    sides = fires(registry, hostile), fires(registry, innocent)
    assert [one() for one in sides] == [expected, "ok"]
    best = [float("inf")] * 2
    for _ in range(8):
        for at, side in enumerate(sides):
            start = time.perf_counter()
            side()
            best[at] = min(best[at], time.perf_counter() - start)
        if best[0] <= TIMES * best[1]:
            return
    raise AssertionError(f"{best[0] / best[1]:.0f} times the time of an innocent argument: {best[0]:.4f} s")


PATTERNED = {"a signature": Annotated[str, Field(pattern=NESTED)], "a schema": {"type": "string", "pattern": NESTED}}


@pytest.mark.parametrize("contract", PATTERNED.values(), ids=PATTERNED.keys())
def test_nested_quantifiers(contract):
    registry = by_schema(contract) if isinstance(contract, dict) else by_signature(contract)
    no_slower(registry, "a" * 100_000 + "!", "a" * 100_001)


class Backtracks(BaseModel):
    model_config = ConfigDict(regex_engine="python-re")
    s: str = Field(pattern=NESTED)


def test_nested_quantifiers_where_a_model_asks_for_pythons_own_engine():
    no_slower(by_signature(Backtracks), {"x": {"s": "a" * 40 + "!"}}, {"x": {"s": "a" * 41}})


def test_nested_quantifiers_in_a_compiled_pattern():
    import re

    kind = Annotated[str, Field(pattern=re.compile(NESTED))]
    no_slower(by_signature(kind), "a" * 40 + "!", "a" * 41)


def test_nested_quantifiers_under_another_drafts_name():
    property_ = {"$schema": "http://json-schema.org/draft-04/schema#", "type": "string", "pattern": NESTED}
    registry = by_schema({"type": "object", "properties": {"default": property_}})
    no_slower(registry, {"default": "a" * 40 + "!"}, {"default": "a" * 41})


def test_nested_quantifiers_in_names():
    schema = {"properties": {}, "patternProperties": {NESTED: {"type": "integer"}}, "additionalProperties": False}
    keys = {"a" * 10_000 + str(number): 1 for number in range(10)}
    no_slower(by_schema(schema), keys, {"a" * (10_000 + number): 1 for number in range(10)})
    names = {"type": "object", "propertyNames": {"pattern": NESTED}}
    no_slower(by_schema({"properties": {"x": names}}), {"x": keys}, {"x": {key[:10_000]: 1 for key in keys}})


UNIQUE = {"type": "array", "uniqueItems": True}
LISTS = {
    "small numbers": (lambda n: n, 5000),
    "numbers of one hash": (lambda n: n * COLLIDES, 1200),
    "negative numbers of one hash": (lambda n: -n * COLLIDES, 1200),
    "floats": (lambda n: n + 0.5, 3000),
    "huge floats": (lambda n: float(n) * 1e300, 1000),
    "texts": (lambda n: f"t{n}", 3500),
}
OBJECTS = {
    "objects": (lambda n: {"a": n}, 900),
    "lists": (lambda n: [n, 0], 900),
    "objects of many keys": (lambda n: {f"k{m}": n for m in range(50)}, 50),
}


@pytest.mark.parametrize(("make", "count"), LISTS.values(), ids=LISTS.keys())
def test_unique_items(make, count):
    items = [make(number) for number in range(1, count)]
    innocent = [f"{number:20}" for number in range(count)]
    no_slower(by_schema(UNIQUE), [*items, items[-1]], innocent)
    no_slower(by_schema(UNIQUE), items, innocent, "ok")


@pytest.mark.parametrize(("make", "count"), OBJECTS.values(), ids=OBJECTS.keys())
def test_unique_items_that_hold_numbers_of_one_hash(make, count):
    items = [make(number * COLLIDES) for number in range(1, count)]
    innocent = [make(10**20 + number) for number in range(1, count)]
    no_slower(by_schema(UNIQUE), [*items, items[-1]], innocent)
    no_slower(by_schema(UNIQUE), items, innocent, "ok")


def test_unique_items_at_the_largest_size():
    numbers = [number * COLLIDES for number in range(1, 30_000)]
    no_slower(by_schema(UNIQUE), numbers, [10**20 + number for number in range(1, 30_000)], "ok")


def test_a_set_of_numbers_of_one_hash_is_never_made():
    innocent = [10**20 + number for number in range(4_000)]
    for kind in (set[int], frozenset[int], set[int | str]):
        no_slower(by_signature(kind), [number * COLLIDES for number in range(4_000)], innocent)
    pairs = [[number * COLLIDES, 1] for number in range(3_000)]
    no_slower(by_signature(set[tuple[int, int]]), pairs, [[number, 1] for number in range(3_000)])


def test_a_set_of_equal_numbers_is_only_a_repetition():
    no_slower(by_signature(set[int]), [7] * 4000, list(range(4000)))


def deep(levels: int, end: Any, key: str = "a") -> Any:
    value = end
    for _ in range(levels):
        value = {key: value}
    return value


def recursive(*branches: dict[str, Any], word: str = "anyOf") -> dict[str, Any]:
    level = {word: [{"type": "string"}, *branches]}
    return {"type": "object", "$defs": {"level": level}, "properties": {"a": {"$ref": "#/$defs/level"}}}


def branch(*required: str) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": {"$ref": "#/$defs/level"}}, "required": list(required)}


@pytest.mark.parametrize("word", ["anyOf", "oneOf"])
@pytest.mark.parametrize("levels", [15, 30, 60])
def test_alternatives_that_all_lead_back(word, levels):
    schema = recursive(branch("z"), branch("y"), branch("x"), branch("a"), word=word)
    no_slower(by_schema(schema), deep(levels, 1), deep(levels, "text"))


def test_conditions_and_negations_that_lead_back():
    again = {"properties": {"a": {"$ref": "#/$defs/level"}}}
    for level in (
        {"if": again, "then": again, "else": again},
        {"not": {"not": again}, "allOf": [again, again]},
        {"dependentSchemas": {"a": again}, **again},
        {"allOf": [again, {"anyOf": [again, again]}, {"oneOf": [again, False]}]},
    ):
        schema = {"type": "object", "$defs": {"level": level}, "properties": {"a": {"$ref": "#/$defs/level"}}}
        no_slower(by_schema(schema), deep(55, 1), deep(55, "text"), "ok")


def test_a_large_value_below_many_levels_is_read_once():
    schema = recursive(branch("z"), branch("a"))
    schema["$defs"]["level"]["anyOf"].insert(0, {"properties": {"a": False}, "type": "object", "required": ["q"]})
    big = "x" * 900_000
    no_slower(by_schema(schema), deep(60, [big]), deep(60, big))


def test_unique_items_within_unique_items_are_written_out_once():
    level = {"type": "array", "uniqueItems": True, "items": {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/level"}]}}
    schema = {"type": "object", "$defs": {"level": level}, "properties": {"x": {"$ref": "#/$defs/level"}}}
    value: Any = ["x" * 900_000]
    for number in range(60):
        value = [str(number), value]
    no_slower(by_schema(schema), value, ["x" * 900_000, "0"], "ok")


def test_deep_objects():
    no_slower(by_schema(recursive(branch("a"))), deep(62, 5), deep(62, "text"))
    tree: Any = {"kids": ["no"]}
    fine: Any = {"kids": [1]}
    for _ in range(28):
        tree, fine = {"kids": [tree]}, {"kids": [fine]}
    no_slower(by_signature(Tree), {"x": tree}, {"x": fine})


def test_types_that_hold_each_other():
    hostile: Any = {"kind": "one", "n": "x"}
    innocent: Any = {"kind": "one", "n": 1}
    for number in range(30):
        kind = "all" if number % 2 else "any"
        hostile, innocent = {"kind": kind, "of": [hostile]}, {"kind": kind, "of": [innocent]}
    no_slower(by_signature(Wish), {"x": hostile}, {"x": innocent})


def test_too_deep_objects():
    no_slower(by_schema({"properties": {}}), {"x": deep(5000, 1)}, {"x": [1] * 5000})


def test_wide_objects():
    hostile, innocent = {f"k{n}": "x" for n in range(20_000)}, {f"k{n}": n for n in range(20_000)}
    wide = {"type": "object", "properties": {}, "additionalProperties": {"type": "integer"}}
    no_slower(by_schema(wide), hostile, innocent)
    no_slower(by_signature(dict[str, int]), {"x": hostile}, {"x": innocent})
    no_slower(by_signature(list[int] | dict[str, int]), {"x": hostile}, {"x": innocent})


def test_many_extra_keys():
    extra = {f"k{n}": 1 for n in range(20_000)}
    same_size = {"x": [1] * 40_000}
    no_slower(by_signature(list[int]), extra | {"x": [1]}, same_size)
    no_slower(by_schema({"properties": {"x": {}}, "additionalProperties": False}), extra, same_size)
    no_slower(by_signature(list[int] | Row), {"x": extra}, same_size)
    no_slower(by_signature(list[Row | list[int]]), {"x": [extra]}, {"x": [[1] * 40_000]})
    names = {"type": "object", "propertyNames": {"maxLength": 1}}
    no_slower(by_schema({"properties": {"x": {"anyOf": [names, {"type": "array"}]}}}), {"x": extra}, same_size)


def test_long_lists_of_wrong_items():
    wrong, right = ["x"] * 8_000, [1] * 8_000
    for kind in (
        list[int],
        list[int | bool],
        tuple[int, ...],
        list[Literal[1, 2]],
        Annotated[list[int], Field(min_length=1)],
    ):
        no_slower(by_signature(kind), wrong, right)
    items = {"type": "array", "items": {"type": "integer"}}
    no_slower(by_schema(items), wrong, right)
    no_slower(by_schema({"anyOf": [items, {"type": "array", "items": {"enum": [1, 2]}}]}), wrong, right)
    no_slower(by_signature(list[Row]), [{"a": "x", "b": 1}] * 5000, [{"a": 1, "b": "x"}] * 5000)


def test_contains():
    schema = {"type": "array", "contains": {"const": 5}, "minContains": 2}
    no_slower(by_schema(schema), [*[1] * 20_000, 5], [*[1] * 20_000, 5, 5])


def test_properties_by_pattern_and_the_rest():
    patterns = {f"^{letter}(a+)+$": {"type": "integer"} for letter in "bcdefgh"}
    schema = {"properties": {}, "patternProperties": patterns, "additionalProperties": {"type": "string"}}
    hostile = {f"baaa{'a' * 40}{n}!": 1 for n in range(2000)}
    no_slower(by_schema(schema), hostile, {f"baaa{'a' * 40}{n}!": "x" for n in range(2000)})


def test_numbers_of_many_digits():
    schema = {"type": "array", "items": {"type": "number", "multipleOf": 0.01, "maximum": 5}}
    no_slower(by_schema(schema), [10**399] * 1500, [1.25] * 1500)
    no_slower(by_signature(list[int]), ["9" * 399] * 1500, [10**399] * 1500)


def test_a_name_far_from_all_names():
    registry = ToolRegistry()
    for number in range(2000):
        registry.tool(lambda: None, name=f"read_thing_{number}", read_only=True)
    harness = Harness(registry)

    def fire(name: str) -> None:
        harness.execute(ToolCall(call_id="c-1", name=name, arguments={}), ANYBODY)

    best = {}
    for _ in range(5):
        for name in ("read_thing_5", "read_thing_x", "_".join("abcdefgh" * 4)[:64], "read_" * 12):
            start = time.perf_counter()
            fire(name)
            best[name] = min(best.get(name, 1e9), time.perf_counter() - start)
    known = best.pop("read_thing_x")
    assert max(best.values()) < TIMES * known

"""What is refused when the program starts, so that it need not be found out when a model calls."""

import functools
import math
import re
from datetime import date
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field, StringConstraints

from keel import ExecutionContext, Principal, RegistrationError, ToolRegistry

from .kit import label


def read(n: int = 1) -> int:
    return n


def refused(function: Any = read, *, match: str | None = None, **options: Any) -> None:
    options = {"name": "tool", "read_only": True} | options
    registry = ToolRegistry()
    with pytest.raises(RegistrationError, match=match):
        registry.tool(function, **options)
    assert len(registry) == 0


def refused_schema(schema: Any, *, match: str | None = None, function: Any = len, **options: Any) -> None:
    registry = ToolRegistry()
    options = {"name": "tool", "description": "-", "read_only": True} | options
    with pytest.raises(RegistrationError, match=match):
        registry.add_schema_tool(input_schema=schema, function=function, **options)
    assert len(registry) == 0


def accepted_schema(schema: Any) -> None:
    ToolRegistry().add_schema_tool(name="tool", description="-", input_schema=schema, function=len, read_only=True)


# A contract that contradicts itself, or protects nothing


@pytest.mark.parametrize("permission", [None, ""])
def test_a_write_without_a_permission(permission):
    refused(read_only=False, permission=permission, match="permission")
    refused_schema({}, read_only=False, permission=permission, match="permission")


def test_a_second_tool_of_the_same_name():
    registry = ToolRegistry()
    registry.tool(read, name="tool", read_only=True)
    with pytest.raises(RegistrationError, match="already"):
        registry.tool(read, name="tool", read_only=True)
    with pytest.raises(RegistrationError, match="already"):
        registry.add_schema_tool(name="tool", description="-", input_schema={}, function=len, read_only=True)


@pytest.mark.parametrize("name", ["", "Read", "read-file", "1st", "_x", "é", "x" * 65, "read\n", 5, None], ids=ascii)
def test_a_name_that_no_call_could_have(name):
    refused(lambda: 1, name=name)


def test_a_read_that_destroys():
    refused(destructive=True, match="destroys")


def test_an_approval_that_nobody_would_be_asked_for():
    write = {"read_only": False, "permission": "desk:write", "needs_approval": False}
    refused(four_eyes=True, match="four_eyes", **write)
    refused(approver_permission="desk:approve", match="approver_permission", **write)


@pytest.mark.parametrize("flag", ["read_only", "destructive", "idempotent", "needs_approval", "four_eyes", "shared"])
@pytest.mark.parametrize("value", ["false", 0, 1, None, []], ids=label)
def test_a_flag_that_only_looks_like_yes_or_no(flag, value):
    options = {"read_only": False, "permission": "desk:write"} | {flag: value}
    refused(match=flag, **options)


@pytest.mark.parametrize("code", ["timeout", "tool_failed", "unknown_tool", "Not Found", "", "x" * 65, 5, None])
def test_a_business_code_that_is_reserved_or_none(code):
    refused(errors=[code], match="code")


def test_business_codes_as_one_text_or_rules_as_one_function():
    refused(errors="not_found")
    refused(errors="abc")
    for option in ("rules", "policies"):
        refused(**{option: print})
        refused(**{option: None})
        refused(**{option: ["a rule"]})


@pytest.mark.parametrize("timeout", [0, -1, math.nan, "5", [], -math.inf])
def test_a_timeout_that_is_no_time(timeout):
    refused(timeout_s=timeout, match="timeout_s")


@pytest.mark.parametrize("version", [1, 1.0, None, "", "\ud800"], ids=ascii)
def test_a_version_that_is_no_text(version):
    refused(version=version, match="version")


def test_a_description_or_permission_that_is_no_text():
    for wrong in (5, b"x", "\ud800"):
        refused(description=wrong, match="description")
        refused(permission=wrong, match="permission")


def test_an_option_that_does_not_exist():
    refused(readonly=True)


# A signature that nothing could judge


def positional(n: int, /) -> int: ...
def several(*numbers: int) -> int: ...
def anything(**options: int) -> int: ...
def untyped(n) -> int: ...
def two_contexts(here: ExecutionContext, there: ExecutionContext) -> int: ...
def a_principal(who: Principal) -> int: ...
def a_context_in_a_list(all_of_them: list[ExecutionContext]) -> int: ...
def a_name_that_is_none(n: "Nowhere") -> int: ...  # noqa: F821
def generator(n: int) -> int:
    yield n


async def stream(n: int):
    yield n


class Mine(ExecutionContext):
    """A context of the host's own: a model that could send it would write its own permissions."""


def my_context(context: Mine) -> int: ...


BODIES = [positional, several, anything, untyped, two_contexts, a_principal, a_context_in_a_list, my_context]
BODIES += [a_name_that_is_none, generator, stream]


@pytest.mark.parametrize("function", BODIES, ids=lambda one: one.__name__)
def test_a_signature_that_cannot_be_judged(function):
    refused(function)


def test_a_function_without_a_name():
    refused(lambda n: n, name=None)
    refused(functools.partial(read, 1), name=None)


class Colour(Enum):
    RED = "red"


class Closed:
    """A class that pydantic knows nothing of."""


class And(BaseModel):
    of: list["And | Or"]


class Or(BaseModel):
    one_of: list["And | Or"]


class Tree(BaseModel):
    below: list["Tree | int | dict[str, int]"] = []


class Pair(BaseModel):
    left: "Pair | None" = None
    right: "Pair | None" = None


class All(BaseModel):
    kind: Literal["all"]
    of: list["Wish"]


class Some(BaseModel):
    kind: Literal["some"]
    of: list["Wish"]


Wish = Annotated[All | Some, Field(discriminator="kind")]

UNJUDGEABLE = {
    "types that hold each other": And | Or,
    "a type that holds types that hold each other": list[And],
    "a lookahead": Annotated[str, Field(pattern="(?=a)a")],
    "a reference back": Annotated[str, Field(pattern=r"(a)\1")],
    "no pattern": Annotated[str, Field(pattern="(")],
    "a pattern whose flags nobody is shown": Annotated[str, Field(pattern=re.compile("^a$", re.IGNORECASE))],
    "text that is changed before it is judged": Annotated[str, StringConstraints(strip_whitespace=True)],
    "text made lower-case": Annotated[str, StringConstraints(to_lower=True)],
    "keys that are numbers": dict[int, str],
    "keys that are dates": dict[date, str],
    "a class of its own": Closed,
    "a type": type[int],
}


@pytest.mark.parametrize("kind", UNJUDGEABLE.values(), ids=UNJUDGEABLE.keys())
def test_a_type_that_cannot_be_judged(kind):
    def body(x):
        return x

    body.__annotations__ = {"x": kind}
    refused(body)


@pytest.mark.parametrize("kind", [Tree, Pair, Wish, int | str | list[int] | dict[str, int]], ids=label)
def test_types_that_hold_themselves_can_be_judged_where_each_value_has_one_way(kind):
    def body(x):
        return x

    body.__annotations__ = {"x": kind}
    ToolRegistry().tool(body, read_only=True)


def test_a_default_that_no_schema_can_show():
    def body(x: float = math.nan) -> float:
        return x

    refused(body)


# A plain schema that could not be judged, or not in linear time


@pytest.mark.parametrize(
    "reference",
    ["#/$defs/nowhere", "#nowhere", "other.json", "https://example.invalid/s.json", "file:///etc/hostname", "urn:x:y"],
)
@pytest.mark.parametrize("keyword", ["$ref", "$dynamicRef"])
def test_a_reference_that_leads_nowhere_or_out_of_the_schema(reference, keyword):
    for schema in (
        {keyword: reference},
        {"type": "object", "properties": {"a": {keyword: reference}}},
        {"type": "object", "properties": {"default": {keyword: reference}}},
        {"type": "object", "properties": {"enum": {"items": {keyword: reference}}}},
        {"type": "object", "properties": {"a": {"anyOf": [{"not": {keyword: reference}}]}}},
        {"type": "object", "$defs": {"const": {"patternProperties": {"^a": {keyword: reference}}}}},
    ):
        refused_schema(schema, match="reference")


def test_a_reference_to_what_is_no_schema():
    for place in ({"enum": [{"type": "string"}]}, {"const": {"type": "string"}}, {"default": {"type": "string"}}):
        name = next(iter(place))
        pointer = f"#/$defs/x/{name}" + ("/0" if name == "enum" else "")
        refused_schema({"$defs": {"x": place}, "properties": {"a": {"$ref": pointer}}}, match="reference")
    refused_schema({"$defs": {"x": {"note": {"type": 5}}}, "properties": {"a": {"$ref": "#/$defs/x/note"}}})


def test_an_id_inside_the_schema():
    refused_schema({"properties": {"a": {"$id": "https://example.invalid/", "$ref": "#/x"}}})
    refused_schema({"properties": {"default": {"$id": "https://example.invalid/"}}}, match=r"\$id")


@pytest.mark.parametrize("pattern", ["(?=a)", "(?<!a)b", r"(a)\1", "(", "[", "a{2,1}"])
def test_a_pattern_that_cannot_be_run_in_linear_time(pattern):
    refused_schema({"properties": {"a": {"type": "string", "pattern": pattern}}}, match="pattern")
    refused_schema({"patternProperties": {pattern: {}}}, match="pattern")
    refused_schema({"properties": {"default": {"type": "string", "pattern": pattern}}}, match="pattern")


@pytest.mark.parametrize("keyword", ["unevaluatedProperties", "unevaluatedItems"])
def test_unevaluated_properties_and_items(keyword):
    refused_schema({"type": "object", keyword: False}, match=keyword)
    refused_schema({"properties": {"a": {keyword: {"type": "string"}}}}, match=keyword)
    accepted_schema({"properties": {keyword: {"type": "string"}}})  # a property may be called so


WRONG_SCHEMAS = [True, None, 5, "{}", [], {"type": "string"}, {"type": ["object"]}, {"type": "objekt"}]
WRONG_SCHEMAS += [{"properties": []}, {"required": "a"}, {"properties": {"a": 5}}, {"enum": 5}, {"minimum": "1"}]
WRONG_SCHEMAS += [{"properties": {"a": {"default": math.nan}}}, {"description": "\ud800"}, {"x": object()}, {"x": {1}}]


@pytest.mark.parametrize("schema", WRONG_SCHEMAS, ids=label)
def test_what_is_no_schema_of_an_object(schema):
    refused_schema(schema)


def test_the_dialect_of_another_draft_is_not_believed():
    draft_4 = "http://json-schema.org/draft-04/schema#"
    nested = {"$schema": draft_4, "type": "integer", "minimum": 1, "exclusiveMinimum": True}
    refused_schema({"properties": {"a": nested}})
    refused_schema({"properties": {"default": nested}})


def without_a_place(): ...
def with_too_many(one, two): ...
def one_by_one(given):
    yield given


@pytest.mark.parametrize("function", [without_a_place, with_too_many, one_by_one, 5, None], ids=label)
def test_a_body_that_cannot_take_one_dict(function):
    refused_schema({}, function=function)


def test_a_nested_model_that_changes_text():
    class Note(BaseModel):
        model_config = {"str_strip_whitespace": True}
        text: str

    def body(note: Note) -> int:
        return 1

    refused(body)

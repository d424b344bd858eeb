"""A closed list of tools: what is shown to whom, and what a wrong name is told."""

import copy
import json
import pickle
import pprint
from typing import Annotated

import pytest
from pydantic import Field

from keel import ExecutionContext, Harness, Principal, ToolFailure, ToolRegistry, ToolRequest
from keel.registry import bind

from .kit import AMIRA, code

READER = Principal(id="rea", permissions=["desk:read"])
NOBODY = Principal(id="nobody")


def nothing() -> None:
    """Do nothing."""


def desk() -> ToolRegistry:
    registry = ToolRegistry()
    for name, permission in (
        ("lookup_incident", "desk:read"),
        ("list_incidents", "desk:read"),
        ("read_calendar", None),
        ("lookup_secrets", "secrets:read"),
        ("list_secrets", "secrets:read"),
        ("read_salaries", "secrets:read"),
    ):
        registry.tool(nothing, name=name, read_only=True, permission=permission)
    return registry


def shown(registry: ToolRegistry, principal: Principal | None = None) -> list[str]:
    return [one["function"]["name"] for one in registry.schemas(principal)]


def told(registry: ToolRegistry, name: str, principal: Principal) -> str:
    with pytest.raises(ToolFailure) as caught:
        registry.lookup(name, principal)
    assert caught.value.error.code == "unknown_tool" and not caught.value.error.retryable
    return caught.value.error.message


def test_a_decorated_function_is_a_tool_and_stays_itself():
    registry = ToolRegistry()

    @registry.tool(version="2.1", read_only=True)
    def add(a: int, b: int = 1) -> int:
        """Add two integers."""
        return a + b

    assert add(2, 3) == 5
    tool = registry.lookup("add")
    assert (tool.name, tool.version, tool.description) == ("add", "2.1", "Add two integers.")
    assert tool.input_schema == {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer", "default": 1}},
        "required": ["a"],
        "additionalProperties": False,
    }
    assert "add" in registry and len(registry) == 1 and registry.names() == ["add"]


def test_not_stated_means_that_it_changes_the_world():
    registry = ToolRegistry()
    registry.tool(nothing, name="write", permission="desk:write")
    registry.tool(nothing, name="read", read_only=True)
    write, read = registry.lookup("write"), registry.lookup("read")
    assert (write.read_only, write.destructive, write.needs_approval) == (False, True, True)
    assert (read.read_only, read.destructive, read.needs_approval) == (True, False, False)


def test_a_plain_schema_is_shown_as_it_was_given():
    schema = {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}
    registry = ToolRegistry()
    registry.add_schema_tool(name="seek", description="Seek.", input_schema=schema, function=len, read_only=True)
    assert registry.schemas() == [
        {"type": "function", "function": {"name": "seek", "description": "Seek.", "parameters": schema}}
    ]


@pytest.mark.parametrize("principal", [READER, NOBODY, None], ids=["reader", "nobody", "the host itself"])
def test_a_principal_is_shown_what_it_may_use_and_no_more(principal):
    all_of_them = ["lookup_incident", "list_incidents", "read_calendar", "lookup_secrets", "list_secrets"]
    expected = {"rea": all_of_them[:3], "nobody": ["read_calendar"]}
    wanted = [*all_of_them, "read_salaries"] if principal is None else expected[principal.id]
    assert shown(desk(), principal) == wanted


def test_what_is_shown_is_up_to_date_after_a_tool_was_added():
    registry = desk()
    before = shown(registry, READER)
    registry.tool(nothing, name="new_tool", read_only=True, permission="desk:read")
    assert shown(registry, READER) == [*before, "new_tool"]


def test_whoever_changes_what_is_shown_changes_no_contract():
    registry = ToolRegistry()
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    registry.add_schema_tool(name="plain", description="-", input_schema=schema, function=len, read_only=True)
    before = json.dumps(registry.schemas(READER))
    for one in registry.schemas(READER):
        one["function"]["parameters"]["properties"]["n"].clear()
        one["function"]["parameters"].pop("required")
    registry.lookup("plain").input_schema["properties"]["n"]["type"] = "string"
    schema.clear()
    assert json.dumps(registry.schemas(READER)) == before
    harness = Harness(registry)
    assert code(harness.handle(ToolRequest(name="plain", arguments={"n": "x"}), AMIRA)) == "invalid_arguments"
    assert code(harness.handle(ToolRequest(name="plain", arguments={}), AMIRA)) == "invalid_arguments"


def test_what_all_models_are_shown_is_one_list_that_is_made_once():
    registry = desk()
    shown = registry.shown(READER)
    assert shown == registry.schemas(READER) and json.dumps(shown) == json.dumps(registry.schemas(READER))
    assert registry.shown(Principal(id="another", permissions=["desk:read"])) is shown
    registry.tool(nothing, name="new_tool", read_only=True)
    assert [one["function"]["name"] for one in registry.shown(READER)][-1] == "new_tool" and len(shown) == 3


CHANGES = {
    "a tool more": lambda tools: tools.append({}),
    "a tool less": lambda tools: tools.pop(),
    "another order": lambda tools: tools.sort(key=str),
    "two lists in one": lambda tools: tools.__iadd__([{}]),
    "another tool": lambda tools: tools.__setitem__(0, {}),
    "another description": lambda tools: tools[0]["function"].update(description="Free."),
    "a field more": lambda tools: tools[0]["function"].setdefault("strict", True),
    "another type": lambda tools: parameter(tools).__setitem__("type", "string"),
    "no bounds": lambda tools: parameter(tools).pop("enum"),
    "other bounds": lambda tools: parameter(tools)["enum"].extend([3]),
    "nothing required": lambda tools: tools[0]["function"]["parameters"]["required"].clear(),
    "all in place": lambda tools: tools[0].__ior__({"type": "custom"}),
}


def parameter(tools):
    return tools[0]["function"]["parameters"]["properties"]["n"]


@pytest.mark.parametrize("what", CHANGES)
def test_what_all_models_are_shown_is_changed_by_none_of_them_but_each_may_have_a_copy(what):
    registry = ToolRegistry()
    schema = {"type": "object", "properties": {"n": {"type": "integer", "enum": [1, 2]}}, "required": ["n"]}
    registry.add_schema_tool(name="plain", description="-", input_schema=schema, function=len, read_only=True)
    before = registry.schemas()
    with pytest.raises(TypeError, match="deepcopy"):
        CHANGES[what](registry.shown())
    for own in (copy.deepcopy(registry.shown()), pickle.loads(pickle.dumps(registry.shown()))):
        assert own == before and type(own) is list and type(parameter(own)) is dict
        CHANGES[what](own)
    assert registry.shown() == before == registry.schemas()


def test_what_is_shown_looks_like_what_it_was_made_from():
    shown, plain = desk().shown(), desk().schemas()
    assert (repr(shown), pprint.pformat(shown)) == (repr(plain), pprint.pformat(plain))


def test_a_near_miss_is_told_the_name_it_missed():
    assert "lookup_incident" in told(desk(), "lookup_incidentt", AMIRA.principal)


def test_among_many_names_the_nearest_few_are_named():
    registry = desk()
    for number in range(300):
        registry.tool(nothing, name=f"other_thing_{number}", read_only=True)
    message = told(registry, "find_incident", READER)
    assert "lookup_incident" in message
    assert sum(name in message for name in registry.names()) <= 8
    assert len(message) < 400


@pytest.mark.parametrize("name", ["lookup_secret", "read_salary", "list_secret", "secrets", "x", "zzz"])
@pytest.mark.parametrize("crowd", [0, 50], ids=["few tools", "many tools"])
def test_a_wrong_name_is_told_no_tool_that_the_principal_may_not_use(name, crowd):
    registry = desk()
    for number in range(crowd):
        registry.tool(nothing, name=f"other_{number}", read_only=True)
    for principal in (READER, NOBODY):
        message = told(registry, name, principal).replace(repr(name), "")
        assert "secrets" not in message and "salaries" not in message


def test_who_may_use_nothing_is_told_nothing():
    registry = ToolRegistry()
    registry.tool(nothing, name="lookup_secrets", read_only=True, permission="secrets:read")
    assert "lookup_secrets" not in told(registry, "lookup_secret", NOBODY)


def test_a_name_that_no_tool_can_have_is_told_the_same_way():
    result = Harness(desk()).handle(ToolRequest(name="functions.lookup_incident"), ExecutionContext(principal=READER))
    assert code(result) == "unknown_tool" and result.tool_version is None
    assert "lookup_incident" in result.error.message and "secrets" not in result.error.message


@pytest.mark.parametrize("name", ["x" * 100_000, "é" * 100_000, "\ud800" * 100], ids=["long", "long é", "half"])
def test_a_long_name_comes_back_short(name):
    result = Harness(desk()).handle(ToolRequest(name=name), AMIRA)
    assert code(result) == "unknown_tool"
    assert len(result.model_dump_json().encode()) < 1500


def test_a_schema_tool_gets_its_arguments_as_one_dict_and_the_context_beside_it():
    seen = {}

    def body(given, where: ExecutionContext):
        seen.update(given, who=where.principal.id)

    registry = ToolRegistry()
    schema = {"type": "object", "properties": {"where": {"type": "string"}}}
    registry.add_schema_tool(name="plain", description="-", input_schema=schema, function=body, read_only=True)
    Harness(registry).handle(ToolRequest(name="plain", arguments={"where": "here"}), AMIRA)
    assert seen == {"where": "here", "who": "amira"}


def test_binding_judges_names_and_no_types():
    registry = ToolRegistry()

    @registry.tool(read_only=True)
    def read_file(path: str, lines: int = 10) -> str:
        return path

    tool = registry.lookup("read_file")
    assert bind(tool, {"path": 123}) == {"path": 123}
    for wrong in ({}, {"lines": 1}, {"path": "a", "mode": "r"}):
        with pytest.raises(ToolFailure, match="path"):
            bind(tool, wrong)
    with pytest.raises(ToolFailure) as caught:
        bind(tool, {f"{'x' * 1000}{number}": 1 for number in range(1000)})
    assert len(caught.value.error.message) < 1000


def test_parameters_may_have_names_that_pydantic_wants_for_itself():
    registry = ToolRegistry()

    @registry.tool(read_only=True)
    def odd(
        schema: str,
        copy: int,
        model_config: str,
        _hidden: int,
        self: int,
        p_copy: str,
        json: Annotated[int, Field(ge=1)],
    ) -> list[str]:
        return [schema, str(copy), model_config, str(_hidden), str(self), p_copy, str(json)]

    names = ["schema", "copy", "model_config", "_hidden", "self", "p_copy", "json"]
    assert list(registry.lookup("odd").input_schema["properties"]) == names
    arguments = {"schema": "a", "copy": 2, "model_config": "c", "_hidden": 4, "self": 5, "p_copy": "f", "json": 7}
    result = Harness(registry).handle(ToolRequest(name="odd", arguments=arguments), AMIRA)
    assert result.data == ["a", "2", "c", "4", "5", "f", "7"]

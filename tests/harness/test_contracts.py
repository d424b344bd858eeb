"""The shapes that travel: frozen, closed, and whole also when a call failed."""

import pytest
from pydantic import ValidationError

from keel import (
    ErrorCode,
    ExecutionContext,
    Principal,
    ToolCall,
    ToolError,
    ToolFailure,
    ToolRequest,
    ToolResult,
)

AMIRA = Principal(id="amira")
ERROR = ToolError(code="tool_failed", message="It broke.")
OK = {"call_id": "c-1", "tool_name": "add", "tool_version": "1.0", "ok": True, "data": 5}
FAILED = {"call_id": "c-1", "tool_name": "add", "tool_version": "1.0", "ok": False, "error": ERROR}

ONE_OF_EACH = [
    ToolCall(call_id="c-1", name="add", arguments={}),
    ToolResult(**OK),
    ERROR,
    ToolRequest(),
    AMIRA,
    ExecutionContext(principal=AMIRA),
]


@pytest.mark.parametrize("one", ONE_OF_EACH, ids=lambda one: type(one).__name__)
def test_a_contract_does_not_change_after_it_was_made(one):
    for name in type(one).model_fields:
        with pytest.raises(ValidationError):
            setattr(one, name, "changed")


@pytest.mark.parametrize("one", ONE_OF_EACH, ids=lambda one: type(one).__name__)
def test_a_contract_refuses_a_field_that_it_does_not_know(one):
    fields = {name: getattr(one, name) for name in type(one).model_fields}
    with pytest.raises(ValidationError):
        type(one)(**fields, is_admin=True)


@pytest.mark.parametrize("name", ["a", "add", "lookup_incident", "a1_", "x" * 64])
def test_a_name_is_lower_case_letters_digits_and_underscores(name):
    assert ToolCall(call_id="c-1", name=name, arguments={}).name == name


WRONG_NAMES = ["", "_a", "1a", "Add", "getWeather", "a-b", "functions.x", "a b", "a\n", "é", "а", "a١", "x" * 65]


@pytest.mark.parametrize("name", WRONG_NAMES, ids=ascii)
def test_any_other_name_is_no_name(name):
    with pytest.raises(ValidationError):
        ToolCall(call_id="c-1", name=name, arguments={})


@pytest.mark.parametrize("arguments", ["{}", [], None, [("a", 1)], 5])
def test_arguments_are_a_dict(arguments):
    with pytest.raises(ValidationError):
        ToolCall(call_id="c-1", name="add", arguments=arguments)


@pytest.mark.parametrize("call_id", ["", None, 5, "\ud800"], ids=ascii)
def test_a_call_has_an_id_that_utf_8_can_carry(call_id):
    with pytest.raises(ValidationError):
        ToolCall(call_id=call_id, name="add", arguments={})


def test_a_result_is_ok_exactly_when_it_has_no_error():
    assert ToolResult(**OK).ok and not ToolResult(**FAILED).ok
    for wrong in ({**OK, "error": ERROR}, {**OK, "ok": False}, {**FAILED, "ok": True}, {**FAILED, "error": None}):
        with pytest.raises(ValidationError):
            ToolResult(**wrong)


def test_a_failed_call_has_no_data():
    with pytest.raises(ValidationError):
        ToolResult(**FAILED, data={"half": "done"})


def test_a_result_says_its_tools_version_even_if_that_is_none():
    assert ToolResult(**{**FAILED, "tool_version": None}).tool_version is None
    with pytest.raises(ValidationError):
        ToolResult(**{key: value for key, value in OK.items() if key != "tool_version"})


@pytest.mark.parametrize("message", ["half \ud83d", "\udcff", 5, None], ids=ascii)
def test_an_errors_message_is_text_that_utf_8_can_carry(message):
    with pytest.raises(ValidationError):
        ToolError(code="tool_failed", message=message)


@pytest.mark.parametrize("code", ["", "Not Found", "not-found", "a" * 65])
def test_an_errors_code_is_a_name(code):
    with pytest.raises(ValidationError):
        ToolError(code=code, message="-")


def test_a_failure_carries_its_error():
    failure = ToolFailure(ErrorCode.TIMEOUT, "Too slow.", retryable=True)
    assert failure.error == ToolError(code="timeout", message="Too slow.", retryable=True)
    assert type(failure.error.code) is str


def test_the_reserved_codes_are_these_sixteen():
    expected = """unknown_tool invalid_arguments rule_violated permission_denied approval_required approval_denied
    idempotency_conflict in_progress timeout outcome_unknown tool_failed invalid_output budget_exceeded unavailable
    cancelled internal_error"""
    assert [str(one) for one in ErrorCode] == expected.split()


def test_a_principal_has_permissions_and_no_text_that_looks_like_them():
    assert Principal(id="bo", permissions=["a"]).permissions == frozenset({"a"})
    with pytest.raises(ValidationError):
        Principal(id="bo", permissions="a")
    with pytest.raises(ValidationError):
        Principal(id="")


def test_run_ids_are_random_unless_given():
    ids = {ExecutionContext(principal=AMIRA).run_id for _ in range(100)}
    assert len(ids) == 100
    assert ExecutionContext(principal=AMIRA, run_id="r-1").run_id == "r-1"

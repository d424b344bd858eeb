"""What a failed call is worth: a next step for every code, and of what a body raises only what was promised."""

import asyncio

import pytest

from keel import ErrorCode, ToolError, ToolFailure
from keel.recovery import NEXT_STEPS, Action, classify, next_step

from .kit import code, fire, registry_of

SECRET = "dsn=postgres://desk:not-for-models@db"


def error(code: str, retryable: bool = False) -> ToolError:
    return ToolError(code=code, message="-", retryable=retryable)


@pytest.mark.parametrize("reserved", list(ErrorCode))
def test_every_code_has_a_next_step(reserved):
    for retryable in (True, False):
        step = next_step(error(reserved, retryable))
        assert step.action in set(Action) and len(step.advice) > 20
    assert set(NEXT_STEPS) == set(ErrorCode)


STEPS = {
    "unknown_tool": "tell_model",
    "invalid_arguments": "tell_model",
    "rule_violated": "tell_model",
    "permission_denied": "stop",
    "approval_required": "ask_person",
    "approval_denied": "stop",
    "idempotency_conflict": "stop",
    "in_progress": "wait",
    "timeout": "retry",
    "outcome_unknown": "ask_world",
    "tool_failed": "stop",
    "invalid_output": "stop",
    "budget_exceeded": "stop",
    "unavailable": "wait",
    "cancelled": "none",
    "internal_error": "stop",
}


@pytest.mark.parametrize(("one", "action"), STEPS.items())
def test_the_next_step_is_the_one_of_the_table(one, action):
    assert next_step(error(one)).action == action


def test_a_read_that_says_it_may_work_later_may_be_retried():
    assert next_step(error("tool_failed", retryable=True)).action == "retry"
    assert next_step(error("desk_closed", retryable=True)).action == "retry"
    assert next_step(error("desk_closed")).action == "tell_model"


@pytest.mark.parametrize("reserved", ["outcome_unknown", "permission_denied", "approval_required", "invalid_arguments"])
def test_retryable_moves_no_boundary(reserved):
    assert next_step(error(reserved, retryable=True)) == next_step(error(reserved))


def test_the_table_cannot_be_changed_by_accident():
    with pytest.raises(TypeError):
        NEXT_STEPS["timeout"] = None


def raising(raised: BaseException):
    def body() -> int:
        raise raised

    return body


@pytest.mark.parametrize("retryable", [True, False])
def test_a_declared_failure_is_passed_on_as_written(retryable):
    failure = ToolFailure("not_found", f"No such thing. {SECRET}", retryable)
    result = fire(raising(failure), {}, errors=["not_found"])
    assert result.error == failure.error and result.tool_version == "1.0"


@pytest.mark.parametrize("one", ["not_found", "permission_denied", "approval_required", "timeout", "unavailable"])
def test_an_undeclared_failure_is_not(one):
    result = fire(raising(ToolFailure(one, SECRET, True)), {}, errors=["something_else"])
    assert code(result) == "tool_failed" and SECRET not in result.model_dump_json() and not result.error.retryable


def test_a_read_may_say_tool_failed_itself():
    result = fire(raising(ToolFailure("tool_failed", "The database is restarting.", retryable=True)))
    assert (result.error.message, result.error.retryable) == ("The database is restarting.", True)


class Lying(ToolFailure):
    """A ToolFailure whose error is whatever it likes to be."""

    def __init__(self, answer):
        self.answer = answer

    @property
    def error(self):
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


class Dumps:
    def __init__(self, **fields):
        self.fields = fields

    def model_dump(self):
        return self.fields


LIES = [None, 5, ValueError(SECRET), SystemExit(SECRET), GeneratorExit(), ToolFailure("not_found", SECRET)]
LIES += [Dumps(code="not_found", message=5), Dumps(code="not_found", message="\ud800"), Dumps(code="permission_denied")]
LIES += [Dumps(code="not_found", message=SECRET, retryable=1), Dumps(code="not_found", message=SECRET, extra=1)]
LIES += [Dumps(code="permission_denied", message=SECRET, retryable=False)]


@pytest.mark.parametrize("lie", LIES, ids=range(len(LIES)))
def test_a_failure_that_lies_about_its_error_is_a_broken_tool(lie):
    result = fire(raising(Lying(lie)), {}, errors=["not_found"])
    assert code(result) == "tool_failed" and SECRET not in result.model_dump_json()


class Unprintable(Exception):
    def __str__(self):
        raise RuntimeError(SECRET)

    __repr__ = __str__


class Pretender(Exception):
    """Says of itself that it is another class, and breaks when asked."""

    @property
    def __class__(self):
        raise RuntimeError(SECRET)


class Disguised(Exception):
    __class__ = ToolFailure
    error = ToolError(code="permission_denied", message=SECRET)


RAISED = [ZeroDivisionError(SECRET), SystemExit(SECRET), SystemExit(), GeneratorExit(), StopIteration(SECRET)]
RAISED += [asyncio.CancelledError(SECRET), MemoryError(), RecursionError(SECRET), OSError(5, SECRET), Unprintable()]
RAISED += [
    BaseException(SECRET),
    BaseExceptionGroup(SECRET, [SystemExit()]),
    UnicodeDecodeError("utf-8", b"", 0, 1, SECRET),
]
RAISED += [
    Disguised(SECRET),
    TimeoutError(SECRET),
    AssertionError(SECRET),
]


@pytest.mark.parametrize("raised", RAISED, ids=range(len(RAISED)))
def test_whatever_a_read_raises_is_one_sentence_with_the_calls_id(raised):
    result = fire(raising(raised))
    assert code(result) == "tool_failed" and not result.error.retryable
    assert result.call_id in result.error.message and SECRET not in result.model_dump_json()
    assert result.error.message == f"tool broke. The operator can look up call {result.call_id}."


def test_an_exception_that_breaks_when_asked_for_its_class_is_one_too():
    def body() -> int:
        raise Pretender

    result = fire(body)
    assert code(result) == "tool_failed" and SECRET not in result.model_dump_json()


@pytest.mark.parametrize("raised", [*RAISED, ToolFailure("tool_failed", SECRET, True)], ids=range(len(RAISED) + 1))
def test_after_a_write_nobody_knows(raised):
    tool = registry_of(raising(raised), read_only=False, permission="desk:write").lookup("tool")
    failure = classify(tool, raised, "c-7").error
    assert (failure.code, failure.retryable) == ("outcome_unknown", False)
    assert "c-7" in failure.message and SECRET not in failure.message


def test_a_write_may_promise_that_nothing_happened():
    promise = ToolFailure("desk_closed", "The desk is closed.", retryable=True)
    tool = registry_of(raising(promise), read_only=False, permission="desk:write", errors=["desk_closed"]).lookup(
        "tool"
    )
    assert classify(tool, promise, "c-7").error == promise.error


def test_an_interrupt_in_a_body_in_the_callers_thread_is_the_callers():
    with pytest.raises(KeyboardInterrupt):
        fire(raising(KeyboardInterrupt()), timeout_s=None)
    with pytest.raises(KeyboardInterrupt):
        fire(raising(Lying(KeyboardInterrupt())), {}, errors=["not_found"], timeout_s=None)


def test_an_interrupt_in_a_worker_is_an_answer_like_any_other():
    assert code(fire(raising(KeyboardInterrupt()))) == "tool_failed"

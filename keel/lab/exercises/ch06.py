"""Chapter 06's exercises: the next step for every code, a bounded retry of reads, a crash that keeps its secret."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keel.contracts import ErrorCode, ToolError, ToolFailure, ToolResult
from keel.lab.exercises.model import Case, Exercise, Mistake

# --- 06-a: the next step for every code -----------------------------------------------------------------------------


def recover_stub(error): ...


def recover_solution(error):
    if error.code == "tool_failed":
        return "retry" if error.retryable else "stop"
    codes = {
        "stop": "permission_denied approval_denied idempotency_conflict invalid_output budget_exceeded internal_error",
        "ask_person": "approval_required",
        "ask_world": "outcome_unknown",
        "retry": "timeout",
        "wait": "in_progress unavailable",
        "none": "cancelled",
    }
    return next((action for action, listed in codes.items() if error.code in listed.split()), "tell_model")


def recover_by_message(error):
    for word, action in (("person", "ask_person"), ("happened", "ask_world"), ("running", "wait")):
        if word in error.message:
            return action
    return recover_solution(error) if error.code != "approval_required" else "stop"


def recover_gives_up(error):
    if error.code in ("unknown_tool", "invalid_arguments", "rule_violated"):
        return "stop"
    return recover_solution(error)


def recover_by_retryable(error):
    return "retry" if error.retryable else "stop"


def recover_repeats_unknown(error):
    return "retry" if error.code == "outcome_unknown" else recover_solution(error)


_SAYS = {  # code: (the next step, a message as the harness might write it)
    "unknown_tool": ("tell_model", "There is no tool 'lookup_incidents'. The nearest are: lookup_incident."),
    "invalid_arguments": ("tell_model", "limit: got a string. Give an integer."),
    "rule_violated": ("tell_model", "limit: ask for 1 to 1000 rows."),
    "permission_denied": ("stop", "You may not read this incident."),
    "approval_required": ("ask_person", "A person has to agree first."),
    "approval_denied": ("stop", "No."),
    "idempotency_conflict": ("stop", "This key was used with other arguments."),
    "in_progress": ("wait", "The same action is running now."),
    "timeout": ("retry", "query_data took too long."),
    "outcome_unknown": ("ask_world", "create_ticket broke, and it may have happened or not."),
    "tool_failed": ("stop", "query_data broke. The operator can look up call c-1."),
    "invalid_output": ("stop", "lookup_incident returned something that its contract does not allow."),
    "budget_exceeded": ("stop", "20 calls were allowed."),
    "unavailable": ("wait", "The ledger cannot be reached."),
    "cancelled": ("none", "The caller gave up."),
    "internal_error": ("stop", "own_team broke, so nothing ran."),
}
_RETRYABLE = {ErrorCode.IN_PROGRESS, ErrorCode.TIMEOUT, ErrorCode.UNAVAILABLE}


def _recover_case(name: str, code: str, action: str, message: str, retryable: bool) -> Case:
    error = ToolError(code=code, message=message, retryable=retryable)
    shown = f"recover(ToolError(code={code!r}, retryable={retryable}, message={message!r}))"
    return Case(name, shown, lambda answer: answer(error.model_copy()), action)


RECOVER = Exercise(
    id="06-a",
    name="recover",
    minutes=10,
    stub=recover_stub,
    solution=recover_solution,
    cases=(
        *(_recover_case(code, code, action, message, code in _RETRYABLE) for code, (action, message) in _SAYS.items()),
        _recover_case("tool_may_retry", "tool_failed", "retry", "The database is restarting.", True),
        _recover_case(
            "reworded", "approval_required", "ask_person", "Somebody has to say yes before this runs.", False
        ),
        _recover_case(
            "misleading", "permission_denied", "stop", "Not even a person who is running this may retry.", False
        ),
        _recover_case("business", "incident_not_found", "tell_model", "There is no incident INC-999.", False),
    ),
    mistakes=(
        Mistake("gives_up", recover_gives_up, lambda _, trials: trials["invalid_arguments"].got == "stop"),
        Mistake("repeats_unknown", recover_repeats_unknown, lambda _, trials: trials["outcome_unknown"].got == "retry"),
        Mistake(
            "reads_message",
            recover_by_message,
            lambda _, trials: any(
                trials[one].got != trials[other].got
                for one, other in (("reworded", "approval_required"), ("misleading", "permission_denied"))
            ),
        ),
    ),
)

# --- 06-b: bounded retry of reads -----------------------------------------------------------------------------------


def retry_stub(run, read_only, tries): ...


def retry_solution(run, read_only, tries):
    result = run()
    while not result.ok and result.error.retryable and read_only and tries > 1:
        tries -= 1
        result = run()
    return result


def retry_repeats_writes(run, read_only, tries):
    return retry_solution(run, True, tries)


def retry_unbounded(run, read_only, tries):
    result = run()
    while not result.ok and result.error.retryable and read_only:
        result = run()
    return result


def retry_repeats_refusals(run, read_only, tries):
    for _ in range(tries if read_only else 1):
        result = run()
        if result.ok:
            break
    return result


def retry_one_too_many(run, read_only, tries):
    result = run()
    for _ in range(tries):
        if result.ok or not result.error.retryable or not read_only:
            break
        result = run()
    return result


TOO_MANY = 25


class _TooMany(BaseException):
    """Ends an answer that would go on for ever. Not an Exception, so that `except Exception` lets it out."""


def _retry_case(name: str, codes: tuple[str | None, ...], read_only: bool, tries: int, runs: int) -> Case:
    """One call, whose runs end with these codes, one after another; the last one stays. None is a success.

    Seen: how often it ran, and what came back. A write that ran has made a ticket, whatever its answer says.
    """

    def run(answer: Callable[..., Any]) -> dict[str, Any]:
        ran: list[str | None] = []

        def body() -> ToolResult:
            ran.append(codes[min(len(ran), len(codes) - 1)])
            if len(ran) > TOO_MANY:
                raise _TooMany
            return _result(ran[-1])

        try:
            returned = answer(body, read_only, tries)
        except _TooMany:
            return {"runs": f"over {TOO_MANY}"}
        code = "ok" if isinstance(returned, ToolResult) and returned.ok else _code_of(returned)
        return {"runs" if read_only else "tickets": len(ran), "code": code}

    expected = {"runs" if read_only else "tickets": runs, "code": codes[min(runs, len(codes)) - 1] or "ok"}
    ends = ", ".join(code or "ok" for code in codes)
    return Case(name, f"retry(run, read_only={read_only}, tries={tries})  # run: {ends}", run, expected)


def _result(code: str | None) -> ToolResult:
    common = {"call_id": "c-1", "tool_name": "query_data", "tool_version": "1.0"}
    if code is None:
        return ToolResult(**common, ok=True, data={"rows": []})
    retryable = code in ("timeout", "database_busy", "tickets_busy")
    return ToolResult(**common, ok=False, error=ToolError(code=code, message="Not now.", retryable=retryable))


def _code_of(returned: Any) -> Any:
    return returned.error.code if isinstance(returned, ToolResult) else returned


RETRY = Exercise(
    id="06-b",
    name="retry",
    minutes=10,
    stub=retry_stub,
    solution=retry_solution,
    cases=(
        _retry_case("success", (None,), True, 3, 1),
        _retry_case("second_time", ("timeout", None), True, 3, 2),
        _retry_case("last_time", ("timeout", "database_busy", None), True, 3, 3),
        _retry_case("not_retryable", ("invalid_arguments",), True, 3, 1),
        _retry_case("then_refused", ("timeout", "permission_denied"), True, 5, 2),
        _retry_case("never", ("timeout",), True, 3, 3),
        _retry_case("one_try", ("timeout",), True, 1, 1),
        _retry_case("write", ("tickets_busy",), False, 3, 1),
        _retry_case("write_success", (None,), False, 3, 1),
    ),
    mistakes=(
        Mistake(
            "repeats_refusals",
            retry_repeats_refusals,
            lambda first, _: first.case.name in ("not_retryable", "then_refused") and first.got["runs"] > 1,
        ),
        Mistake("unbounded", retry_unbounded, lambda first, _: first.got["runs"] == f"over {TOO_MANY}"),
        Mistake(
            "one_too_many", retry_one_too_many, lambda first, _: first.case.name == "never" and first.got["runs"] == 4
        ),
        Mistake("repeats_writes", retry_repeats_writes, lambda first, _: first.got["tickets"] > 1),
    ),
)

# --- 06-c: wrap a crash ---------------------------------------------------------------------------------------------


def guard_stub(body, call_id): ...


def guard_solution(body, call_id):
    try:
        return body()
    except ToolFailure:
        raise
    except Exception:
        raise ToolFailure("tool_failed", f"The tool broke. The operator can look up call {call_id}.") from None


def guard_tells(body, call_id):
    try:
        return body()
    except ToolFailure:
        raise
    except Exception as problem:
        raise ToolFailure("tool_failed", f"{call_id}: {problem}") from None


def guard_swallows_interrupt(body, call_id):
    try:
        return body()
    except ToolFailure:
        raise
    except BaseException:
        raise ToolFailure("tool_failed", f"The tool broke. The operator can look up call {call_id}.") from None


def guard_wraps_all(body, call_id):
    try:
        return body()
    except Exception:
        raise ToolFailure("tool_failed", f"The tool broke. The operator can look up call {call_id}.") from None


def guard_mute(body, call_id):
    try:
        return body()
    except ToolFailure:
        raise
    except Exception:
        raise ToolFailure("tool_failed", "Something went wrong.") from None


SECRET = "dsn=postgres://desk:not-for-models@db"


class _Unprintable(Exception):
    """An exception whose text cannot be had."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


def _guard_case(name: str, raises: Callable[[], BaseException] | None, **expected: Any) -> Case:
    """One body, which raises or returns 5. Seen: what came out, and of a `tool_failed` what its message gives away."""

    def body() -> int:
        if raises is not None:
            raise raises()
        return 5

    def run(answer: Callable[..., Any]) -> dict[str, Any]:
        try:
            return {"returned": answer(body, "c-7")}
        except ToolFailure as failure:
            code, message = failure.error.code, failure.error.message
            return {"raised": code, **(_gives_away(message) if code == "tool_failed" else {})}
        except KeyboardInterrupt:
            return {"raised": "KeyboardInterrupt"}

    what = f"raise {type(raises()).__name__}" if raises else "return 5"
    return Case(name, f"guard(body, 'c-7')  # body: {what}", run, expected)


def _gives_away(message: str) -> dict[str, bool]:
    return {"text_of_the_crash": "postgres" in message, "names_the_call": "c-7" in message}


_WRAPPED = {"raised": "tool_failed", "text_of_the_crash": False, "names_the_call": True}

GUARD = Exercise(
    id="06-c",
    name="guard",
    minutes=10,
    stub=guard_stub,
    solution=guard_solution,
    cases=(
        _guard_case("success", None, returned=5),
        _guard_case("connection", lambda: ConnectionError(f"cannot connect: {SECRET}"), **_WRAPPED),
        _guard_case("key", lambda: KeyError(SECRET), **_WRAPPED),
        _guard_case("file", lambda: OSError(2, "no such file", SECRET), **_WRAPPED),
        _guard_case("unprintable", _Unprintable, **_WRAPPED),
        _guard_case(
            "own_failure",
            lambda: ToolFailure("incident_not_found", "There is no incident INC-999."),
            raised="incident_not_found",
        ),
        _guard_case("interrupt", KeyboardInterrupt, raised="KeyboardInterrupt"),
    ),
    mistakes=(
        Mistake("tells", guard_tells, lambda first, _: first.got["text_of_the_crash"] is True),
        Mistake(
            "mute",
            guard_mute,
            lambda first, _: first.got["raised"] == "tool_failed" and first.got["names_the_call"] is False,
        ),
        Mistake(
            "wraps_all",
            guard_wraps_all,
            lambda first, _: first.case.name == "own_failure" and first.got["raised"] == "tool_failed",
        ),
        Mistake(
            "swallows_interrupt",
            guard_swallows_interrupt,
            lambda first, _: first.case.name == "interrupt" and first.got.get("raised") != "KeyboardInterrupt",
        ),
    ),
)

EXERCISES = (RECOVER, RETRY, GUARD)

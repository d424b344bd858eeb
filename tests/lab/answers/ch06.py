"""Other answers to chapter 06's exercises."""

import contextlib
import itertools
import sys
import traceback

from keel.contracts import ErrorCode, ToolError, ToolFailure
from keel.recovery import NEXT_STEPS

# --- 06-a ---


def recover_by_table(error):
    table = {
        ErrorCode.PERMISSION_DENIED: "stop",
        ErrorCode.APPROVAL_REQUIRED: "ask_person",
        ErrorCode.APPROVAL_DENIED: "stop",
        ErrorCode.IDEMPOTENCY_CONFLICT: "stop",
        ErrorCode.IN_PROGRESS: "wait",
        ErrorCode.TIMEOUT: "retry",
        ErrorCode.OUTCOME_UNKNOWN: "ask_world",
        ErrorCode.TOOL_FAILED: "retry" if error.retryable else "stop",
        ErrorCode.INVALID_OUTPUT: "stop",
        ErrorCode.BUDGET_EXCEEDED: "stop",
        ErrorCode.UNAVAILABLE: "wait",
        ErrorCode.CANCELLED: "none",
        ErrorCode.INTERNAL_ERROR: "stop",
    }
    return table.get(error.code, "tell_model")


def recover_by_match(error):
    match error.code, error.retryable:
        case ("timeout", _) | ("tool_failed", True):
            return "retry"
        case (("in_progress" | "unavailable"), _):
            return "wait"
        case "approval_required", _:
            return "ask_person"
        case "outcome_unknown", _:
            return "ask_world"
        case "cancelled", _:
            return "none"
        case (("unknown_tool" | "invalid_arguments" | "rule_violated"), _):
            return "tell_model"
        case code, _ if code in set(ErrorCode):
            return "stop"
    return "tell_model"


def recover_by_the_package(error):
    if error.code == "tool_failed" and error.retryable:
        return "retry"
    step = NEXT_STEPS.get(error.code)
    return step.action if step else "tell_model"


def recover_stops_else(error):
    known = {"unknown_tool": "tell_model", "invalid_arguments": "tell_model", "rule_violated": "tell_model"}
    known |= {"approval_required": "ask_person", "timeout": "retry", "outcome_unknown": "ask_world"}
    known |= {"in_progress": "wait", "unavailable": "wait", "cancelled": "none"}
    return known.get(error.code, "retry" if error.retryable else "stop")


def recover_all_to_the_model(error):
    return "tell_model"


def recover_retryable_first(error):
    return "retry" if error.retryable else recover_by_table(error)


def recover_from_words(error):
    message = error.message.lower()
    if "agree" in message:
        return "ask_person"
    if "happened" in message:
        return "ask_world"
    if error.code == "approval_required":
        return "wait"
    return recover_by_table(error)


def recover_unknown_stops(error):
    return "stop" if error.code == "outcome_unknown" else recover_by_table(error)


def recover_never_retries_tools(error):
    return "stop" if error.code == "tool_failed" else recover_by_table(error)


def recover_with_key_error(error):
    if error.code not in set(ErrorCode):
        raise KeyError(error.code)
    return recover_by_table(error)


# --- 06-b ---


def retry_by_for(run, read_only, tries):
    for number in range(1, tries + 1):
        result = run()
        if result.ok or not read_only or not result.error.retryable or number == tries:
            return result


def retry_by_recursion(run, read_only, tries):
    result = run()
    if result.error is None or not result.error.retryable:
        return result
    return retry_by_recursion(run, read_only, tries - 1) if read_only and tries > 1 else result


def retry_by_generator(run, read_only, tries):
    allowed = tries if read_only else 1
    results = (run() for _ in range(allowed))
    last = None
    for last in results:
        if not (last.error and last.error.retryable):
            break
    return last


def retry_until_ok(run, read_only, tries):
    while not (result := run()).ok:
        pass
    return result


def retry_the_first_result(run, read_only, tries):
    first = result = run()
    while read_only and not result.ok and result.error.retryable and tries > 1:
        tries, result = tries - 1, run()
    return first


def retry_the_first_advice(run, read_only, tries):
    result = run()
    if not result.ok and result.error.retryable and read_only:
        for _ in range(tries - 1):
            result = run()
            if result.ok:
                break
    return result


def retry_none(run, read_only, tries):
    return run()


def retry_all(run, read_only, tries):
    for _ in range(tries):
        result = run()
        if result.ok or not result.error.retryable:
            return result
    return result


def retry_gives_none(run, read_only, tries):
    for _ in range(tries if read_only else 1):
        result = run()
        if result.ok or not result.error.retryable:
            return result


def retry_runs_all(run, read_only, tries):
    results = [run() for _ in range(tries if read_only else 1)]
    return next((one for one in results if one.ok), results[-1])


def retry_zero_based(run, read_only, tries):
    for number in itertools.count():
        result = run()
        if result.ok or not result.error.retryable or not read_only or number >= tries:
            return result


# --- 06-c ---


def guard_by_a_flag(body, call_id):
    try:
        result = body()
    except (ToolFailure, KeyboardInterrupt):
        raise
    except BaseException as error:
        failure = ToolFailure("tool_failed", f"This tool is broken. Ask about call {call_id}.")
        raise failure from error
    return result


def guard_by_isinstance(body, call_id):
    failure = None
    try:
        return body()
    except Exception as error:
        failure = error if isinstance(error, ToolFailure) else None
    if failure:
        raise failure
    raise ToolFailure(ErrorCode.TOOL_FAILED, call_id + " failed.", False)


def guard_logs(body, call_id):
    log = {}
    try:
        return body()
    except Exception as error:
        if isinstance(error, ToolFailure):
            raise
        log[call_id] = (type(error).__name__, sys.exc_info()[2].tb_lineno)
        kind = type(error).__name__
    raise ToolFailure("tool_failed", f"A {kind} in call {call_id}.")


def guard_repr(body, call_id):
    try:
        return body()
    except ToolFailure:
        raise
    except Exception as error:
        raise ToolFailure("tool_failed", f"{call_id} broke with {error!r}") from None


def guard_traceback(body, call_id):
    try:
        return body()
    except ToolFailure:
        raise
    except Exception:
        raise ToolFailure("tool_failed", f"{call_id}: {traceback.format_exc()[-200:]}") from None


def guard_none(body, call_id):
    with contextlib.suppress(Exception):
        return body()


def guard_bare(body, call_id):
    try:
        return body()
    except ToolFailure:
        raise
    except:  # noqa: E722
        raise ToolFailure("tool_failed", f"Call {call_id} broke.") from None


def guard_returns(body, call_id):
    try:
        return body()
    except ToolFailure:
        raise
    except Exception:
        return ToolError(code="tool_failed", message=f"Call {call_id} broke.")


def guard_other_code(body, call_id):
    try:
        return body()
    except ToolFailure:
        raise
    except Exception:
        raise ToolFailure("internal_error", f"Call {call_id} broke.") from None


def guard_cuts_the_text(body, call_id):
    try:
        return body()
    except ToolFailure:
        raise
    except Exception as error:
        raise ToolFailure("tool_failed", f"{call_id}: {str(error).split('dsn=')[0]}") from None


def guard_returns_the_interrupt(body, call_id):
    try:
        return body()
    except ToolFailure:
        raise
    except KeyboardInterrupt:
        return "stopped"
    except Exception:
        raise ToolFailure("tool_failed", f"Call {call_id} broke.") from None


RIGHT = {
    "06-a": [recover_by_table, recover_by_match, recover_by_the_package],
    "06-b": [retry_by_for, retry_by_recursion, retry_by_generator],
    "06-c": [guard_by_a_flag, guard_by_isinstance, guard_logs],
}

WRONG = {
    "06-a": [
        (recover_stops_else, "case.business"),
        (recover_all_to_the_model, "case.permission_denied"),
        (recover_retryable_first, "case.in_progress"),
        (recover_from_words, "mistake.reads_message"),
        (recover_unknown_stops, "case.outcome_unknown"),
        (recover_never_retries_tools, "case.tool_may_retry"),
        (recover_with_key_error, "case.business"),
    ],
    "06-b": [
        (retry_until_ok, "mistake.unbounded"),
        (retry_the_first_result, "case.second_time"),
        (retry_the_first_advice, "mistake.repeats_refusals"),
        (retry_none, "case.second_time"),
        (retry_all, "mistake.repeats_writes"),
        (retry_gives_none, "case.never"),
        (retry_runs_all, "case.success"),
        (retry_zero_based, "mistake.one_too_many"),
    ],
    "06-c": [
        (guard_repr, "mistake.tells"),
        (guard_traceback, "mistake.tells"),
        (guard_none, "case.connection"),
        (guard_bare, "mistake.swallows_interrupt"),
        (guard_returns, "case.connection"),
        (guard_other_code, "case.connection"),
        (guard_cuts_the_text, "case.unprintable"),
        (guard_returns_the_interrupt, "mistake.swallows_interrupt"),
    ],
}

"""What a failed call is worth to the next turn: which error it is, and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from .contracts import ErrorCode, ToolError, ToolFailure
from .registry import Tool


class Action(StrEnum):
    """The kinds of next step. Repeating a call and changing it are two things."""

    TELL_MODEL = "tell_model"
    ASK_PERSON = "ask_person"
    ASK_WORLD = "ask_world"
    RETRY = "retry"
    WAIT = "wait"
    STOP = "stop"
    NONE = "none"


@dataclass(frozen=True)
class NextStep:
    """What to do after an error: an action for programs, a sentence for people."""

    action: Action
    advice: str


NEXT_STEPS: Mapping[str, NextStep] = MappingProxyType(
    {
        ErrorCode.UNKNOWN_TOOL: NextStep(
            Action.TELL_MODEL, "Tell the model which names exist. Repeating the same name is useless."
        ),
        ErrorCode.INVALID_ARGUMENTS: NextStep(
            Action.TELL_MODEL, "Give the message back to the model: it says what is wrong, where, and what would do."
        ),
        ErrorCode.RULE_VIOLATED: NextStep(Action.TELL_MODEL, "Tell the model the rule, so that it can keep it."),
        ErrorCode.PERMISSION_DENIED: NextStep(Action.STOP, "Stop. Asking again, in any words, changes nothing."),
        ErrorCode.APPROVAL_REQUIRED: NextStep(
            Action.ASK_PERSON, "Ask a person. The model has nothing to fix, and no other name will do."
        ),
        ErrorCode.APPROVAL_DENIED: NextStep(Action.STOP, "Stop. A person said no, or the answer came too late."),
        ErrorCode.IDEMPOTENCY_CONFLICT: NextStep(
            Action.STOP, "Stop. One key was used for two different actions: that is a bug or an attack."
        ),
        ErrorCode.IN_PROGRESS: NextStep(Action.WAIT, "Wait. The same action is running now."),
        ErrorCode.TIMEOUT: NextStep(Action.RETRY, "Retry within the budget. It was a read: nothing has changed."),
        ErrorCode.OUTCOME_UNKNOWN: NextStep(
            Action.ASK_WORLD, "Ask the outside world whether it happened. Never just repeat it."
        ),
        ErrorCode.TOOL_FAILED: NextStep(Action.STOP, "Retry within the budget if the error says retryable; else stop."),
        ErrorCode.INVALID_OUTPUT: NextStep(Action.STOP, "Stop, and mend the tool: it broke its own contract."),
        ErrorCode.BUDGET_EXCEEDED: NextStep(Action.STOP, "Stop. The turns, the calls or the time are used up."),
        ErrorCode.UNAVAILABLE: NextStep(Action.WAIT, "Wait, or call the operator. Nothing ran."),
        ErrorCode.CANCELLED: NextStep(Action.NONE, "Nothing to do: the caller gave up before the tool began."),
        ErrorCode.INTERNAL_ERROR: NextStep(Action.STOP, "Stop, and mend the harness. Nothing ran."),
    }
)

_BUSINESS = NextStep(Action.TELL_MODEL, "A fact of the business. Tell the model, as you would tell a person.")
_RETRY = NextStep(Action.RETRY, "Retry within the budget: the tool says that it may work another time.")


def next_step(error: ToolError) -> NextStep:
    """The next step for an error, by its code alone and, where the tool has the say, `retryable`.

    A code that is not in the table is a tool's business code.
    """
    if error.retryable and (error.code == ErrorCode.TOOL_FAILED or error.code not in NEXT_STEPS):
        return _RETRY
    return NEXT_STEPS.get(error.code, _BUSINESS)


def classify(tool: Tool, raised: BaseException, call_id: str) -> ToolFailure:
    """What a body raised, as the failure that goes out.

    A ToolFailure whose code the tool declares is passed on as written: it promises that nothing
    happened. A read may say `tool_failed` itself, to give its own message and `retryable`. Of all
    else only a fixed sentence goes out, for the text may hold secrets; and after a write it is
    `outcome_unknown`, for the effect may be out there.
    """
    declared = _declared(tool, raised)
    if declared is not None:
        return declared
    if tool.read_only:
        return ToolFailure(ErrorCode.TOOL_FAILED, f"{tool.name} broke. The operator can look up call {call_id}.")
    return ToolFailure(
        ErrorCode.OUTCOME_UNKNOWN,
        f"{tool.name} broke, and it may have happened or not. The operator can look up call {call_id}.",
    )


def _declared(tool: Tool, raised: BaseException) -> ToolFailure | None:
    """A ToolFailure that the tool may raise, made anew: the body's own object may be anything."""
    try:
        if not isinstance(raised, ToolFailure):
            return None
        error = ToolError.model_validate(raised.error.model_dump(), strict=True)
        allowed = tool.errors | {ErrorCode.TOOL_FAILED} if tool.read_only else tool.errors
        return ToolFailure(error.code, error.message, error.retryable) if error.code in allowed else None
    except KeyboardInterrupt:
        raise
    except BaseException:
        return None

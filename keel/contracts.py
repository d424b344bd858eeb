"""The shapes that travel through the harness: requests, calls, results, errors, and who is asking.

All of them are frozen and refuse fields they do not know. A *request* is what a model sent, as it
sent it. A *call* is our own record of it, under an id that we made. A *result* answers a call,
also when the call failed.
"""

from enum import StrEnum
from typing import Annotated, Any
from uuid import uuid4

from pydantic import BaseModel, ConfigDict, Field, model_validator

NAME_PATTERN = r"^[a-z][a-z0-9_]*$"
NAME_LENGTH = 64

# A pattern makes pydantic look at the text as UTF-8, so that a lone surrogate is refused here.
Text = Annotated[str, Field(pattern=r"(?s)^.*$")]
Filled = Annotated[str, Field(pattern=r"(?s)^.+$")]
Name = Annotated[str, Field(pattern=NAME_PATTERN, max_length=NAME_LENGTH)]


class Frozen(BaseModel):
    """What all contracts share: no change after construction, no unknown field."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ErrorCode(StrEnum):
    """Why a call failed: a closed, reserved list. A tool may declare business codes beside it.

    Programs branch on the code and never on the message; `keel.recovery` holds what to do next.
    """

    UNKNOWN_TOOL = "unknown_tool"
    INVALID_ARGUMENTS = "invalid_arguments"
    RULE_VIOLATED = "rule_violated"
    PERMISSION_DENIED = "permission_denied"
    APPROVAL_REQUIRED = "approval_required"
    APPROVAL_DENIED = "approval_denied"
    IDEMPOTENCY_CONFLICT = "idempotency_conflict"
    IN_PROGRESS = "in_progress"
    TIMEOUT = "timeout"
    OUTCOME_UNKNOWN = "outcome_unknown"
    TOOL_FAILED = "tool_failed"
    INVALID_OUTPUT = "invalid_output"
    BUDGET_EXCEEDED = "budget_exceeded"
    UNAVAILABLE = "unavailable"
    CANCELLED = "cancelled"
    INTERNAL_ERROR = "internal_error"


class ToolError(Frozen):
    """What went wrong: a code for programs, a message for people and models.

    `retryable` is advice: repeating the *same* call may help. It is no order, and it says nothing
    of whether a *changed* call would do better.
    """

    code: Name
    message: Text
    retryable: bool = False


class ToolFailure(Exception):
    """Raised by a stage, or by a tool's body, to end a call with this error.

    From a body it is passed on as written if the tool declares the code in its `errors`: the
    author's promise that nothing happened. The harness is the one place that catches it.
    """

    def __init__(self, code: str, message: str, retryable: bool = False):
        self.error = ToolError(code=str(code), message=message, retryable=retryable)
        super().__init__(f"{self.error.code}: {message}")


class ToolRequest(Frozen):
    """One tool call as the model sent it: nothing in it has been checked.

    `arguments` is text, an object, or nothing. `provider_id` is the model's own id, kept only to
    answer with. `problem` says why the request cannot be a call whatever it holds (cut short, of a
    kind that is not ours).
    """

    provider_id: str | None = None
    name: str | None = None
    arguments: Any = None
    problem: str | None = None


class ToolCall(Frozen):
    """Our record of one proposed call. `arguments` stays a dict until it has been judged.

    `call_id` is minted by the harness and never by the model: retries, keys, the trace and the
    answer hang on it.
    """

    call_id: Filled
    name: Name
    arguments: dict[str, Any]


class ToolResult(Frozen):
    """The answer to one call, complete also when the call failed.

    `error` is None if and only if `ok`; a failed call has no data. `tool_version` is None only
    where no tool was found. `data` is JSON.
    """

    call_id: str
    tool_name: str
    tool_version: str | None
    ok: bool
    data: Any | None = None
    error: ToolError | None = None

    @model_validator(mode="after")
    def _one_or_the_other(self):
        if self.ok is not (self.error is None):
            raise ValueError("a result is ok exactly when it has no error")
        if self.data is not None and not self.ok:
            raise ValueError("a failed call has no data")
        return self


class Principal(Frozen):
    """The person or service on whose behalf calls are made, as the host knows it.

    It comes from the host's own login and never from a sentence that a model wrote.
    """

    id: Filled
    permissions: frozenset[str] = frozenset()
    teams: frozenset[str] = frozenset()


class ExecutionContext(Frozen):
    """Under which circumstances a call runs. Made by the host; a model cannot write any of it.

    `deadline` is a value of `time.monotonic()`, in seconds, or None. `call_id` and
    `idempotency_key` are set by the harness on the copy that a tool's body sees. `extra` is what
    the host wants its tools, rules and policies to see.
    """

    principal: Principal
    run_id: Filled = Field(default_factory=lambda: uuid4().hex)
    deadline: float | None = None
    call_id: str | None = None
    idempotency_key: str | None = None
    extra: dict[str, Any] = Field(default_factory=dict)

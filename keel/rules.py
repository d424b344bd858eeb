"""Business rules: the arguments are well formed, but does the business allow these values now?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .adapters import printable
from .contracts import ErrorCode, ExecutionContext, ToolFailure
from .registry import Tool


def check_rules(tool: Tool, values: dict[str, Any], context: ExecutionContext) -> None:
    """Ask every rule of the tool, in order: `rule(values, context)` gives None, or the sentence that it says.

    Raises ToolFailure: `rule_violated` with that sentence; `internal_error` if a rule breaks or
    answers anything else, for then nobody knows what it meant.
    """
    for rule in tool.rules:
        sentence = ask(rule, values, context)
        if sentence is None:
            continue
        if not isinstance(sentence, str):
            raise broken(rule)
        raise ToolFailure(ErrorCode.RULE_VIOLATED, printable(sentence))


def ask(judge: Callable, *arguments: Any) -> Any:
    """Call a rule, a policy or a key function of the host's. If it breaks, nothing may run.

    Raises ToolFailure `internal_error`, also for a ToolFailure that it raised itself: a judge
    answers, it does not end the call by its own code. A KeyboardInterrupt is the caller's.
    """
    try:
        return judge(*arguments)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise broken(judge) from error


def broken(judge: Callable) -> ToolFailure:
    """What to raise when a judge broke. Its text stays inside: only the name goes out."""
    name = getattr(judge, "__name__", type(judge).__name__)
    return ToolFailure(ErrorCode.INTERNAL_ERROR, f"{name} broke, so nothing ran. The operator has to mend it.")

"""The call bench: write a call's name and arguments by hand, fire it, and see how far it gets.

`try_call` is the whole of it, as data. `call_bench("03")` shows it as fields and a button;
`call_bench("03", name="add", arguments='{"a": 2, "b": 3}')` does without.
"""

from __future__ import annotations

import html
import json
from dataclasses import dataclass
from typing import Any

from keel.adapters import read_arguments
from keel.contracts import ErrorCode, ExecutionContext, ToolFailure, ToolRequest, ToolResult

from .cards import roomy, spoken
from .catalogue import words
from .chapters import BUILT, position
from .display import show_widget, widgets_on, wrapped
from .failures import as_json, walked
from .lines import line
from .strip import strip_html, strip_text
from .world import World, confined_files, course_registry, everything

# The stage that says no with this code. What is not here was said by the tool itself, while it ran.
_STOPS_AT = {
    ErrorCode.UNKNOWN_TOOL: "lookup",
    ErrorCode.PERMISSION_DENIED: "permission",
    ErrorCode.INVALID_ARGUMENTS: "validate",
    ErrorCode.IDEMPOTENCY_CONFLICT: "recall",
    ErrorCode.RULE_VIOLATED: "rules",
    ErrorCode.APPROVAL_REQUIRED: "approve",
    ErrorCode.APPROVAL_DENIED: "approve",
    ErrorCode.INVALID_OUTPUT: "output",
}
_SHOWN_LINES = 30  # of a result, on the page; the result itself is whole
FIRST_CALL = ("add", '{"a": 2, "b": 3}')


@dataclass(frozen=True)
class Tried:
    """One call on the bench and what came of it. `escaped` names an exception that nobody caught."""

    chapter: str
    name: str
    arguments: str
    result: ToolResult | None
    stopped_at: str | None
    escaped: str
    world: str

    @property
    def strip(self) -> Any:
        """The stages that this chapter has, lit to where the call stopped."""
        built = frozenset(one for one in BUILT if position(one) <= position(self.chapter))
        return walked(self.stopped_at, built)

    @property
    def outcome(self) -> str:
        """The result as JSON, or what escaped."""
        if self.result is None:
            return words("bench.escaped", what=self.escaped)
        lines = as_json(self.result).splitlines()
        more = words("bench.more", lines=len(lines) - _SHOWN_LINES)
        return "\n".join(lines if len(lines) <= _SHOWN_LINES else [*lines[:_SHOWN_LINES], more])

    @property
    def text(self) -> str:
        """All of it, as printed."""
        call = words("bench.call", name=self.name, arguments=self.arguments)
        return "\n".join([call, strip_text(self.strip), self.outcome, words("bench.world", world=self.world)])


def try_call(chapter: str, name: str, arguments: str, context: ExecutionContext | None = None) -> Tried:
    """Send one call to the line as built up to this chapter, over a fresh world. Raises nothing.

    Without a context it comes from somebody who may do everything.
    """
    world = World()
    request = ToolRequest(provider_id="call_1", name=name, arguments=arguments)
    try:
        result = line(chapter)(world).handle(request, context or everything())
    except Exception as error:
        return Tried(chapter, name, arguments, None, "run", type(error.__cause__ or error).__name__, world.shows())
    return Tried(chapter, name, arguments, result, _stage(result, arguments), "", world.shows())


def _stage(result: ToolResult, arguments: str) -> str | None:
    if result.error is None:
        return None
    if result.error.code == ErrorCode.INVALID_ARGUMENTS:
        try:
            read_arguments(arguments)
        except ToolFailure:
            return "read"
    return _STOPS_AT.get(result.error.code, "run")


def call_bench(
    chapter: str, name: str | None = None, arguments: str = "{}", *, context: ExecutionContext | None = None
) -> None:
    """Show the bench of a chapter; with a name, fire that call and print what came of it.

    `context` says who asks; without one it is somebody who may do everything.

    Raises ValueError for a chapter that is not built.
    """
    line(chapter)
    if name is not None:
        text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        print(try_call(chapter, str(name), text, context).text)
        return
    tools = [
        *course_registry(World()).names(),
        *(confined_files(World()) if position(chapter) >= position("11") else ()),
    ]
    print(wrapped(words("bench.intro", tools=", ".join(tools))))
    if widgets_on():
        show_widget(bench_widget(chapter, context), words("bench.stand_in"))
    else:
        print(words("bench.how", chapter=chapter))


def bench_widget(chapter: str, context: ExecutionContext | None = None) -> Any:
    """A field for the name, one for the arguments, a button, and beneath them what came of the last call."""
    import ipywidgets

    wide = ipywidgets.Layout(width="36em")
    name = ipywidgets.Text(value=FIRST_CALL[0], description=words("bench.name"), layout=wide)
    text = ipywidgets.Textarea(value=FIRST_CALL[1], description=words("bench.arguments"), rows=3, layout=wide)
    button = ipywidgets.Button(description=words("bench.fire"))
    said = ipywidgets.HTML(spoken(words("bench.idle")))

    def fire(_: Any) -> None:
        said.value = _tried_html(try_call(chapter, name.value, text.value, context))

    button.on_click(fire)
    return ipywidgets.VBox([name, text, button, said])


def _tried_html(tried: Tried) -> str:
    style = "margin:6px 0;white-space:pre-wrap;word-break:normal"
    shown = f'<pre style="{style}">{html.escape(tried.outcome, quote=False)}</pre>'
    aftermath = f"<div>{html.escape(words('bench.world', world=tried.world))}</div>"
    return roomy(f"{strip_html(tried.strip)}{shown}{aftermath}")

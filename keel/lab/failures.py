"""The failure lab: predict a code, fire one of the four canonical calls, see where it stopped and what is next.

`fire` is the whole of it, as data. `failure_lab()` prints the four calls and shows them as buttons;
`failure_lab(fire="unknown_tool")` does without buttons.
"""

from __future__ import annotations

import html
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from keel.contracts import ErrorCode, ToolRequest, ToolResult
from keel.harness import Harness
from keel.lab.cards import roomy, spoken
from keel.lab.catalogue import words
from keel.lab.chapters import BUILT
from keel.lab.display import show_widget, widgets_on
from keel.lab.four import FOUR
from keel.lab.strip import FIRST_FORM, STAGES, Box, Look, Strip, strip_html, strip_text
from keel.lab.world import World, course_registry, everything, seeded_mint
from keel.recovery import NextStep, next_step

# What can be predicted: a code, or that the call runs.
OK = "ok"
CHOICES = (OK, "unknown_tool", "invalid_arguments", "permission_denied", "approval_required")
STOPS_AT = {
    ErrorCode.UNKNOWN_TOOL: "lookup",
    ErrorCode.INVALID_ARGUMENTS: "validate",
    ErrorCode.APPROVAL_REQUIRED: "approve",
}


@dataclass(frozen=True)
class Fired:
    """One call and all that came of it. `stopped_at` and `step` are None for the call that ran to the end."""

    case: str
    request: ToolRequest
    result: ToolResult
    stopped_at: str | None
    step: NextStep | None
    world: str
    predicted: str | None

    @property
    def code(self) -> str:
        """The code that came back; "ok" for a call that ran."""
        return self.result.error.code if self.result.error else OK

    @property
    def strip(self) -> Strip:
        """The stages, lit to where the call stopped."""
        return walked(self.stopped_at)

    @property
    def text(self) -> str:
        """All of it, as printed."""
        stages = [strip_text(self.strip), words("failure_lab.legend")]
        parts = [proposal(self.case), self.guess, *stages, as_json(self.result), self.next, self.aftermath]
        return "\n".join(part for part in parts if part)

    @property
    def guess(self) -> str:
        """How the prediction did; empty where there was none."""
        if self.predicted is None:
            return ""
        key = {"predicted": self.predicted, "code": self.code}
        right = self.predicted == self.code
        return words("failure_lab.guess_right", **key) if right else words("failure_lab.guess_wrong", **key)

    @property
    def next(self) -> str:
        """What to do next."""
        if self.step is None:
            return words("failure_lab.next_nothing")
        return words("failure_lab.next", action=self.step.action.value, advice=self.step.advice)

    @property
    def aftermath(self) -> str:
        """What the call has done to the world."""
        return words("failure_lab.world", world=self.world)


def fire(case: str, predicted: str | None = None) -> Fired:
    """Send one canonical call to the finished harness over a fresh world. Raises KeyError for an unknown case."""
    world, request = World(), FOUR[case]
    result = Harness(course_registry(world), mint=seeded_mint()).handle(request, everything())
    if result.error is None:
        return Fired(case, request, result, None, None, world.shows(), predicted)
    stopped_at = STOPS_AT[ErrorCode(result.error.code)]
    return Fired(case, request, result, stopped_at, next_step(result.error), world.shows(), predicted)


def walked(stopped_at: str | None, built: frozenset[str] = BUILT) -> Strip:
    """The strip of one call: passed stages, the one that stopped it, those it never reached, those not built."""
    names = list(STAGES)
    stop = len(names) if stopped_at is None else names.index(stopped_at)
    boxes = {name: _box(name, number, stop, built) for number, name in enumerate(names)}
    if stopped_at is None:
        return Strip(boxes, words("failure_lab.ran_through"))
    return Strip(boxes, words("failure_lab.stopped", stage=words(f"strip.stage.{stopped_at}")))


def _box(name: str, number: int, stop: int, built: frozenset[str]) -> Box:
    if STAGES[name] not in built and name not in FIRST_FORM:
        return Box(name, "unbuilt", STAGES[name])
    if name == "recover":  # it answers failures, and only those
        return Box(name, "unreached" if stop == len(STAGES) else "passed")
    look: Look = "passed" if number < stop else "stopped" if number == stop else "unreached"
    return Box(name, look)


def as_json(result: ToolResult) -> str:
    """A ToolResult as JSON, as a program would get it."""
    return json.dumps(result.model_dump(mode="json"), indent=2, ensure_ascii=False)


def proposal(case: str) -> str:
    """One of the four calls in full, as a line."""
    return words("failure_lab.line", case=case, name=FOUR[case].name, arguments=json.dumps(FOUR[case].arguments))


def label(request: ToolRequest) -> str:
    """A call in one line: its name and its fields, without their values."""
    return f"{request.name}({', '.join(request.arguments)})"


def failure_lab(fire: str | None = None, predict: str | None = None) -> None:
    """Print the four calls, and show a button for each; with `fire`, fire that one and print what came of it.

    `predict` is the code that you expect. Unknown names are told and not raised.
    """
    if fire is not None:
        print(_fired_text(fire, predict))
        return
    print(words("failure_lab.intro"))
    for case in FOUR:
        print("  " + proposal(case))
    if widgets_on():
        show_widget(lab_widget(), "  ".join(f"[ {label(request)} ]" for request in FOUR.values()))
    else:
        print(words("failure_lab.how", case=next(iter(FOUR)), choices=", ".join(CHOICES)))


def _fired_text(case: str, predicted: str | None) -> str:
    if case not in FOUR:
        return words("failure_lab.no_such", case=case, cases=", ".join(FOUR))
    if predicted is not None and predicted not in CHOICES:
        return words("failure_lab.no_choice", predicted=predicted, choices=", ".join(CHOICES))
    return fire(case, predicted).text


def lab_widget() -> Any:
    """Five codes to predict from, four calls to fire, and beneath them what came of the last one."""
    import ipywidgets

    said = ipywidgets.HTML(spoken(words("failure_lab.predict_first")))
    codes = ipywidgets.ToggleButtons(options=CHOICES, value=None, style={"button_width": "auto"})
    buttons = [
        ipywidgets.Button(description=label(request), tooltip=case, layout=ipywidgets.Layout(width="auto"))
        for case, request in FOUR.items()
    ]
    for case, button in zip(FOUR, buttons, strict=True):
        button.on_click(_on_fire(case, codes, said))
    ask = ipywidgets.HTML(f"<b>{html.escape(words('failure_lab.which_code'))}</b>")
    send = ipywidgets.HTML(f"<b>{html.escape(words('failure_lab.which_call'))}</b>")
    row = ipywidgets.HBox(buttons, layout=ipywidgets.Layout(flex_flow="row wrap"))
    return ipywidgets.VBox([ask, codes, send, row, said])


def _on_fire(case: str, codes: Any, said: Any) -> Callable[[Any], None]:
    def fired(_: Any) -> None:
        if codes.value is None:
            said.value = spoken(words("failure_lab.predict_first"))
            return
        said.value = fired_html(fire(case, codes.value))
        codes.value = None  # the next call wants a prediction of its own

    return fired


def fired_html(fired: Fired) -> str:
    """What came of a call, for the widget."""
    lines = "".join(f"<div>{html.escape(line)}</div>" for line in (fired.next, fired.aftermath))
    style, result = "margin:6px 0;white-space:pre-wrap;word-break:normal", as_json(fired.result)
    shown = f'<pre style="{style}">{html.escape(result, quote=False)}</pre>'
    call = f"<code>{html.escape(label(fired.request))}</code>"
    return roomy(f"{spoken(fired.guess)}<div>{call}</div>{strip_html(fired.strip)}{shown}{lines}")

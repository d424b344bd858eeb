"""The ledger lab: send one write, let things go wrong, and see ledger and world side by side after each step.

`keel.lab.drill` is the whole of it, as data. `ledger_lab("07")` shows the steps as buttons;
`ledger_lab("07", steps=["lose_answer", "call"])` does without.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from html import escape
from itertools import zip_longest
from typing import Any

from .cards import roomy, spoken
from .catalogue import words
from .display import show_widget, widgets_on, wrapped
from .drill import GROUPS, STEPS, Drill, Step

_LEFT, _FIELD, _VALUE = 58, 10, 20  # widths of the ledger's column, of the names in it, and of a short value
_Row = list[tuple[str, str]]


def ledger_lab(chapter: str, steps: Iterable[str] | None = None) -> None:
    """Show the lab of a chapter, "07" or "07b"; with `steps`, go through them and print how things stood after each.

    What does not exist is told and not raised.
    """
    if chapter not in tuple(STEPS):
        print(words("ledger_lab.no_chapter", chapter=chapter, chapters=", ".join(STEPS)))
    elif steps is not None:
        print(_gone_through(chapter, steps))
    else:
        print(wrapped(words("ledger_lab.intro")))
        if widgets_on():
            show_widget(lab_widget(chapter), "  ".join(f"[ {step} ]" for step in STEPS[chapter]))
        else:
            print(wrapped(words("ledger_lab.how", chapter=chapter, steps=", ".join(STEPS[chapter]))))


def _gone_through(chapter: str, steps: Any) -> str:
    offered = ", ".join(STEPS[chapter])
    chosen = [steps] if isinstance(steps, str) else list(steps) if isinstance(steps, Iterable) else []
    if not chosen:
        return wrapped(words("ledger_lab.no_steps", steps=offered))
    for name in chosen:
        if name not in STEPS[chapter]:
            return wrapped(words("ledger_lab.no_step", step=name, steps=offered))
    drill = Drill(chapter)
    try:
        return "\n".join(step_text(drill.step(name), number) for number, name in enumerate(chosen, 1))
    finally:
        drill.close()


def step_text(step: Step, number: int) -> str:
    """One step as printed: what was done, what was heard, and ledger and world side by side."""
    lines = [heading(step, number), *(f"   {line}" for line in [heard(step)] if line)]
    if step.sense:
        left = [words("ledger_lab.ledger"), *(line for row in ledger_rows(step) for line in _row_lines(row))]
        right = [words("ledger_lab.world"), *(f"  {line}" for line in world_rows(step))]
        lines += [f"   {a:<{_LEFT}}{b}".rstrip() for a, b in zip_longest(left, right, fillvalue="")]
    return "\n".join(lines)


def _row_lines(row: _Row) -> list[str]:
    if len(row) > 1:
        return ["  " + "".join(f"{field:<{_FIELD}}{value:<{_VALUE}}" for field, value in row).rstrip()]
    field, value = row[0]
    parts = textwrap.wrap(value, _LEFT - _FIELD - 4)
    return [f"  {'' if at else field:<{_FIELD}}{part}" for at, part in enumerate(parts)]


def heading(step: Step, number: int) -> str:
    """Which step it was, and what it does."""
    return words("ledger_lab.heading", number=number, step=step.name, done=step.done)


def heard(step: Step) -> str:
    """What was heard, or why nothing was done; empty where there is nothing to hear."""
    return step.heard if step.sense else words("ledger_lab.not_done", why=step.heard)


def ledger_rows(step: Step) -> list[_Row]:
    """The ledger's side, in rows of one or two (field, value)."""
    entry = step.entry
    if entry is None:
        return [[("entry", words("ledger_lab.nothing"))]]
    yes_no = {True: words("ledger_lab.yes"), False: words("ledger_lab.no")}
    outcome = entry.outcome or words("ledger_lab.nothing")
    return [
        [("key", entry.key)],
        [("state", entry.state), ("outcome", outcome)],
        [("live", yes_no[entry.live]), ("returned", yes_no[entry.returned])],
        *([("notes" if at == 0 else "", note)] for at, note in enumerate(entry.notes)),
    ]


def world_rows(step: Step) -> list[str]:
    """The world's side."""
    made = words(f"ledger_lab.tickets.{_count(len(step.tickets))}", number=len(step.tickets))
    began = words(f"ledger_lab.began.{_count(step.began)}", number=step.began)
    return [made, *(f"  {ticket}" for ticket in step.tickets), began]


def _count(number: int) -> str:
    """The part of the catalogue's key that goes with a number."""
    return ("none", "one")[number] if number < 2 else "more"


def lab_widget(chapter: str) -> Any:
    """Buttons for the steps; beneath them what each step came to.

    The newest stands first: it appears where the reader looks, right under the buttons, however long the list.
    """
    import ipywidgets

    drill, shown = Drill(chapter), []
    said = ipywidgets.HTML(spoken(words("ledger_lab.idle")))

    def press(button: Any) -> None:
        step = drill.step(button.description)
        if step.name == "start_over":
            shown.clear()
        shown.append(step)
        said.value = steps_html(shown)

    rows = []
    for group, names in GROUPS[chapter].items():
        rows.append(ipywidgets.HTML(f"<b>{escape(words(f'ledger_lab.group.{group}'))}</b>"))
        buttons = [_button(name, press) for name in names]
        rows.append(ipywidgets.HBox(buttons, layout=ipywidgets.Layout(flex_flow="row wrap")))
    return ipywidgets.VBox([*rows, said])


def _button(name: str, press: Any) -> Any:
    import ipywidgets

    tip = words(f"ledger_lab.step.{name}")
    button = ipywidgets.Button(description=name, tooltip=tip, layout=ipywidgets.Layout(width="auto"))
    button.on_click(press)
    return button


_CARD = "border-top:1px solid #8a8f98;margin-top:8px;padding-top:6px"
_SIDES = "display:grid;grid-template-columns:minmax(0,3fr) minmax(0,2fr);gap:0 16px;margin:4px 0"
_SIDE = "border-left:2px solid #8a8f98;padding-left:10px"
_FIELDS = "display:grid;grid-template-columns:5em 7em 6em minmax(0,1fr);margin:0"


def steps_html(steps: Sequence[Step]) -> str:
    """All steps so far, for the widget, the newest first."""
    numbered = list(enumerate(steps, 1))
    return roomy("".join(_step_html(step, number, newest=number == len(steps)) for number, step in reversed(numbered)))


def _step_html(step: Step, number: int, newest: bool) -> str:
    line = spoken(heard(step) or step.done) if newest else f"<div>{escape(heard(step), quote=False)}</div>"
    top = f"<div><b>{escape(heading(step, number), quote=False)}</b></div>{line}"
    sides = f'<div style="{_SIDES}">{_ledger_html(step)}{_world_html(step)}</div>' if step.sense else ""
    return f'<div style="{_CARD}">{top}{sides}</div>'


def _ledger_html(step: Step) -> str:
    fields = ""
    for row in ledger_rows(step):
        wide = ";grid-column:span 3" if len(row) == 1 else ""
        for field, value in row:
            name = f'<dt style="font-weight:normal"><code>{escape(field)}</code></dt>'
            fields += f'{name}<dd style="margin:0{wide}">{escape(value, quote=False)}</dd>'
    return f'<div style="{_SIDE}"><b>{escape(words("ledger_lab.ledger"))}</b><dl style="{_FIELDS}">{fields}</dl></div>'


def _world_html(step: Step) -> str:
    lines = "".join(f'<div style="white-space:pre-wrap">{escape(line)}</div>' for line in world_rows(step))
    return f'<div style="{_SIDE}"><b>{escape(words("ledger_lab.world"))}</b>{lines}</div>'

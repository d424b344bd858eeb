"""The ledger lab: send one write, let things go wrong, and see ledger and world side by side after each step.

`keel.lab.drill` is the whole of it, as data. `ledger_lab("07")` shows the steps as buttons;
`ledger_lab("07", steps=["lose_answer", "call"])` does without.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from html import escape
from itertools import zip_longest
from typing import Any

from .cards import roomy, spoken
from .catalogue import words
from .display import show_widget, widgets_on, wrapped
from .drill import GROUPS, STEPS, Drill, Step

_LEFT, _FIELD = 58, 10  # widths of the ledger's column, and of the names in it


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
    """One step as printed: what was done, what was answered, and ledger and world side by side."""
    lines = [heading(step, number), f"   {answer(step)}"]
    if step.sense:
        left, right = [words("ledger_lab.ledger")], [words("ledger_lab.world")]
        for field, value in ledger_rows(step):
            parts = textwrap.wrap(value, _LEFT - _FIELD - 4)
            left += [f"  {'' if at else field:<{_FIELD}}{part}" for at, part in enumerate(parts)]
        right += [f"  {row}" for row in world_rows(step)]
        lines += [f"   {a:<{_LEFT}}{b}".rstrip() for a, b in zip_longest(left, right, fillvalue="")]
    return "\n".join(lines)


def heading(step: Step, number: int) -> str:
    """Which step it was, and what it does."""
    return words("ledger_lab.heading", number=number, step=step.name, done=step.done)


def answer(step: Step) -> str:
    """What was answered, or why nothing was done."""
    key = "ledger_lab.answer" if step.sense else "ledger_lab.not_done"
    return words(key, answer=step.answer)


def ledger_rows(step: Step) -> list[tuple[str, str]]:
    """The ledger's side, as (field, value)."""
    entry = step.entry
    if entry is None:
        return [("entry", words("ledger_lab.nothing"))]
    yes_no = {True: words("ledger_lab.yes"), False: words("ledger_lab.no")}
    rows = [("key", entry.key), ("state", entry.state), ("live", yes_no[entry.live])]
    rows += [("returned", yes_no[entry.returned]), ("outcome", entry.outcome or words("ledger_lab.nothing"))]
    return rows + [("notes", note) for note in entry.notes]


def world_rows(step: Step) -> list[str]:
    """The world's side."""
    made = _counted("tickets", len(step.tickets))
    return [made, *(f"  {ticket}" for ticket in step.tickets), _counted("began", step.began)]


def _counted(what: str, number: int) -> str:
    return words(f"ledger_lab.{what}_{number if number < 2 else 'more'}", number=number)


def lab_widget(chapter: str) -> Any:
    """Buttons for the steps; beneath them what the last one came to, then all of them.

    The newest stands first: it appears where the reader looks, right under the buttons, however long the list.
    """
    import ipywidgets

    drill, shown = Drill(chapter), []
    said, told = ipywidgets.HTML(spoken(words("ledger_lab.idle"))), ipywidgets.HTML()

    def press(button: Any) -> None:
        step = drill.step(button.description)
        if step.name == "start_over":
            shown.clear()
        shown.insert(0, step_html(step, len(shown) + 1))
        said.value = roomy(spoken(f"{step.name}. {answer(step)}"))
        told.value = roomy("".join(shown))

    rows = []
    for group, names in GROUPS[chapter].items():
        rows.append(ipywidgets.HTML(f"<b>{escape(words(f'ledger_lab.group.{group}'))}</b>"))
        buttons = [_button(name, press) for name in names]
        rows.append(ipywidgets.HBox(buttons, layout=ipywidgets.Layout(flex_flow="row wrap")))
    return ipywidgets.VBox([*rows, said, told])


def _button(name: str, press: Any) -> Any:
    import ipywidgets

    tip = words(f"ledger_lab.step.{name}")
    button = ipywidgets.Button(description=name, tooltip=tip, layout=ipywidgets.Layout(width="auto"))
    button.on_click(press)
    return button


_CARD = "border-top:1px solid #8a8f98;padding:6px 0"
_SIDES = "display:grid;grid-template-columns:minmax(0,3fr) minmax(0,2fr);gap:0 24px"
_TABLE = "display:grid;grid-template-columns:max-content minmax(0,1fr);gap:0 12px;margin:0"
_VALUE = "margin:0;overflow-wrap:anywhere"


def step_html(step: Step, number: int) -> str:
    """One step, for the widget."""
    top = f"<div><b>{escape(heading(step, number))}</b></div><div>{escape(answer(step))}</div>"
    if not step.sense:
        return f'<div style="{_CARD}">{top}</div>'
    fields = "".join(
        f'<dt><code>{escape(field)}</code></dt><dd style="{_VALUE}">{escape(value, quote=False)}</dd>'
        for field, value in ledger_rows(step)
    )
    ledger = f'<div><b>{escape(words("ledger_lab.ledger"))}</b><dl style="{_TABLE}">{fields}</dl></div>'
    lines = "".join(f"<div>{escape(row)}</div>" for row in world_rows(step))
    world = f"<div><b>{escape(words('ledger_lab.world'))}</b>{lines}</div>"
    return f'<div style="{_CARD}">{top}<div style="{_SIDES}">{ledger}{world}</div></div>'

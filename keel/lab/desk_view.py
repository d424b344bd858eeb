"""The approval desk: the calls that wait for a person, and a yes or a no to each.

`keel.lab.asked` is what is shown of a call. `approval_desk(desk, someone)` shows buttons;
`approval_desk(desk, someone, approve="q-1")` answers without.
"""

from __future__ import annotations

from html import escape
from typing import Any

from keel.approval import ApprovalDesk, Question, Standing
from keel.contracts import Principal
from keel.ledger import LedgerUnavailable

from .asked import HEAD, Argument, QuestionCard, minutes_left, plain, question_card, question_text
from .cards import roomy, spoken
from .catalogue import words
from .display import show_widget, widgets_on, wrapped

_AT_ONCE = 10  # cards in the widget: a flood of questions must not fill the page
_SHORT = 400  # characters of an unexpected error's text


def approval_desk(
    desk: ApprovalDesk,
    approver: Principal | None = None,
    *,
    approve: Any = None,
    deny: Any = None,
    reason: str = "",
    unfold: Any = None,
) -> None:
    """Show what waits at a desk, with buttons for the approver; `approve` or `deny` answers one by its id, without.

    `unfold` prints one question with nothing folded. Whatever goes wrong is told and not raised, and decides nothing.
    """
    if approve is not None and deny is not None:
        print(words("approval_desk.both"))
    elif approve is not None or deny is not None:
        verdict, question_id = ("approve", approve) if deny is None else ("deny", deny)
        print(wrapped(answered(desk, approver, verdict, str(question_id), str(reason))))
    elif unfold is not None:
        print(desk_text(desk, str(unfold)))
    elif widgets_on():
        window = DeskWindow(desk, approver)
        show_widget(window.box, desk_text(desk))
    else:
        print(desk_text(desk))


def desk_text(desk: ApprovalDesk, unfold: str | None = None) -> str:
    """What waits, and how to answer it; with `unfold` that one question, whole."""
    try:
        waiting, now = desk.pending(), desk.clock()
        if unfold is not None:
            whole = [question_text(one, now) for one in waiting if one.id == unfold]
            return whole[0] if whole else words("approval_desk.not_waiting", id=plain(unfold))
        texts = [question_card(one, now).printed() for one in waiting]
    except Exception as error:
        return wrapped(trouble(error))
    how = [wrapped(words("approval_desk.how", id=plain(waiting[0].id)))] if waiting else []
    return "\n\n".join([how_many(len(waiting)), *texts, *how])


def how_many(number: int) -> str:
    """How many questions wait, in words."""
    many = ("none", "one")[number] if number < 2 else "more"
    return words(f"approval_desk.intro.{many}", number=number)


def answered(desk: ApprovalDesk, approver: Principal | None, verdict: str, question_id: str, reason: str) -> str:
    """Answer one question, and tell what came of it. Raises nothing; what was not answered waits on."""
    if not isinstance(approver, Principal):
        return words("approval_desk.no_person")
    try:
        decide = desk.approve if verdict == "approve" else desk.deny
        question = decide(question_id, approver, reason)
        minutes = minutes_left(question, desk.clock())
    except Exception as error:
        return trouble(error)
    by, who, tool = map(plain, (approver.id, question.binding.principal, question.binding.tool))
    return words(f"approval_desk.said.{question.standing}", by=by, who=who, tool=tool, minutes=minutes)


def trouble(error: Exception) -> str:
    """An error of the desk's in words."""
    why = plain(str(error)).rstrip(".")
    if isinstance(error, LedgerUnavailable):
        return words("approval_desk.unavailable", why=why)
    if type(error) in (LookupError, PermissionError, ValueError):
        return words("approval_desk.refused", why=why)
    return words("approval_desk.broke", kind=type(error).__name__, why=why[:_SHORT])


class DeskWindow:
    """The desk as a widget: `box` holds a card with two buttons for each question.

    Nothing is chosen beforehand, no key in a field answers, and what was answered keeps its place until
    `refresh`: a second click, or Enter pressed twice, never meets the next question.
    """

    def __init__(self, desk: ApprovalDesk, approver: Principal | None):
        import ipywidgets

        self.desk, self.approver = desk, approver
        self.rows: dict[str, _Row] = {}
        self.said, self.cards = ipywidgets.HTML(), ipywidgets.VBox()
        self.box = ipywidgets.VBox([_button("refresh", "", lambda _: self.refresh()), self.said, self.cards])
        self.refresh()

    def refresh(self) -> None:
        """Show what waits now, and nothing else."""
        self._look({})

    def press(self, verdict: str, row: _Row) -> None:
        """Answer the question of this row, and read the desk anew. A press of what is answered already is none."""
        if getattr(row, verdict).disabled:
            return
        says = answered(self.desk, self.approver, verdict, row.id, row.reason.value)
        self._look(self.rows)
        row.state.value = spoken(says)

    def _look(self, rows: dict[str, _Row]) -> None:
        try:
            waiting, now = self.desk.pending(), self.desk.clock()
            known = {one.id: one for one in (waiting if not rows else self.desk.history())}
            new = [one for one in waiting if one.id not in rows][: max(0, _AT_ONCE - len(rows))]
            rows = rows | {one.id: _Row(question_card(one, now), one.id, self) for one in new}
        except Exception as error:
            self.said.value = spoken(trouble(error))
            return
        for question_id, row in rows.items():
            row.stands(known.get(question_id))
        behind = len({one.id for one in waiting} - rows.keys())
        self.rows, self.cards.children = rows, [row.box for row in rows.values()]
        self.said.value = _status(len(waiting), behind, self.approver)


def _status(waiting: int, behind: int, approver: Any) -> str:
    parts = [how_many(waiting)]
    if behind:
        parts.append(words("approval_desk.more_wait", number=behind))
    if waiting and not isinstance(approver, Principal):
        parts.append(words("approval_desk.nobody"))
    return spoken(" ".join(parts))


class _Row:
    """One card with its field for a reason and its buttons: deny comes first on the way of the keyboard."""

    def __init__(self, card: QuestionCard, question_id: str, window: DeskWindow):
        import ipywidgets

        self.id = question_id
        self.state = ipywidgets.HTML()
        hint, label = words("approval_desk.button.reason_hint"), words("approval_desk.button.reason")
        self.reason = ipywidgets.Text(
            description=label,
            placeholder=hint,
            style={"description_width": "initial"},
            layout=ipywidgets.Layout(width="36em"),
        )
        self.deny, self.approve = (
            _button(verdict, card.id, lambda _, verdict=verdict: window.press(verdict, self))
            for verdict in ("deny", "approve")
        )
        answer = [self.reason, ipywidgets.HBox([self.deny, self.approve])]
        here = isinstance(window.approver, Principal)
        self.box = ipywidgets.VBox([ipywidgets.HTML(card_html(card)), *(answer if here else []), self.state])

    def stands(self, question: Question | None) -> None:
        """Say how the question stands, and offer what can still be answered: an approval can be taken back."""
        standing = "gone" if question is None else question.standing
        by = plain(question.decided_by or "") if question else ""
        self.approve.disabled = standing != Standing.PENDING
        self.deny.disabled = standing not in (Standing.PENDING, Standing.APPROVED)
        self.state.value = f"<div>{escape(words(f'approval_desk.standing.{standing}', by=by), quote=False)}</div>"


def _button(verdict: str, question_id: str, press: Any) -> Any:
    import ipywidgets

    label = words(f"approval_desk.button.{verdict}")
    tip = words("approval_desk.tip.answer", verdict=label, id=question_id).strip()
    button = ipywidgets.Button(description=label, tooltip=tip)
    button.on_click(press)
    return button


_CARD = "border-top:1px solid #8a8f98;margin-top:8px;padding-top:6px"
_GRID = "display:grid;grid-template-columns:6em minmax(0,1fr);margin:0"
_NAME = "font-weight:normal;white-space:nowrap;width:auto"
_VALUE = "white-space:break-spaces;overflow-wrap:anywhere;word-break:normal"
_ARGUMENT = f"border-left:2px solid #8a8f98;padding-left:10px;margin:2px 0;{_VALUE}"


def card_html(card: QuestionCard) -> str:
    """The card for the widget. Each argument stands behind a line of its own; a long one opens by mouse or keyboard."""
    none = escape(words("approval_desk.no_arguments"))
    arguments = "".join(map(_argument_html, card.arguments)) or none
    facts = [(name, f"<code>{escape(value)}</code>") for name, value in card.facts]
    terms = [(name, escape(value, quote=False)) for name, value in card.terms]
    rows = [*facts, (words("approval_desk.field.arguments"), arguments), *terms]
    cells = "".join(
        f'<dt style="{_NAME}">{escape(name)}</dt><dd style="margin:0;{_VALUE}">{value}</dd>' for name, value in rows
    )
    heading = escape(card.heading, quote=False)
    return roomy(f'<div style="{_CARD}"><b>{heading}</b><dl style="{_GRID}">{cells}</dl></div>')


def _argument_html(argument: Argument) -> str:
    whole = f'<div style="{_ARGUMENT}"><code>{escape(argument.text, quote=False)}</code></div>'
    if not argument.long:
        return whole
    beginning = escape(argument.text[:HEAD], quote=False)
    fold = escape(words("approval_desk.fold", number=f"{argument.holds:,}"), quote=False)
    summary = f'<summary style="{_ARGUMENT}"><code>{beginning}</code> … <b>{fold}</b></summary>'
    return f"<details>{summary}{whole}</details>"

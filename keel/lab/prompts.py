"""Two kinds of question: `predict` before a cell that shows the answer, `quiz` to test oneself.

The question, the reply and its reasons are data; the widget is a thin view over them. `predict("01-a")` prints the
question and shows buttons; `predict("01-a", answer="b")` answers without any.
"""

from __future__ import annotations

import html
import tomllib
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Literal

from keel.lab import progress_file
from keel.lab.cards import roomy, spoken
from keel.lab.catalogue import WordsError, words, words_under
from keel.lab.display import show_widget, widgets_on, wrapped

Kind = Literal["predict", "quiz"]


@dataclass(frozen=True)
class Prompt:
    """A question with its options {letter: text}, and the letter that is right."""

    kind: Kind
    id: str
    question: str
    options: dict[str, str]
    right: str

    @property
    def text(self) -> str:
        """The question and its options, as printed."""
        options = [wrapped(text, f"  {letter}) ", "     ") for letter, text in self.options.items()]
        return "\n".join([wrapped(self.question), *options])


@dataclass(frozen=True)
class Reply:
    """What an answer gets: whether it was right, what is said at once, and what stays folded until it is opened."""

    option: str
    right: bool
    says: str
    folded: str = ""

    @property
    def text(self) -> str:
        """All of it, as printed."""
        return "\n".join(wrapped(part) for part in (self.says, self.folded) if part)


def predict(prompt_id: str, answer: str | None = None) -> None:
    """Ask for a prediction before the next cell, and keep it. Prints; shows buttons where it can."""
    _ask("predict", prompt_id, answer)


def quiz(prompt_id: str, answer: str | None = None) -> None:
    """Ask a question and say at once whether the answer is right, and why. Prints; shows buttons where it can."""
    _ask("quiz", prompt_id, answer)


@lru_cache(maxsize=1)
def _right_options() -> dict[str, dict[str, str]]:
    return tomllib.loads((Path(__file__).parent / "answers.toml").read_text(encoding="utf-8"))


def prompt_ids(kind: Kind, chapter: str | None = None) -> list[str]:
    """The ids of all questions of a kind, or of one chapter's."""
    ids = _right_options()[kind]
    return [name for name in ids if chapter is None or name.rpartition("-")[0] == chapter]


def find_prompt(kind: Kind, prompt_id: str) -> Prompt | None:
    """The question of that id in the chosen language, or None."""
    right = _right_options()[kind].get(prompt_id)
    if right is None:
        return None
    chapter = prompt_id.rpartition("-")[0]
    question = words(f"ch{chapter}.{kind}.{prompt_id}.question")
    return Prompt(kind, prompt_id, question, words_under(f"ch{chapter}.{kind}.{prompt_id}.option"), right)


def reply_to(prompt: Prompt, option: str) -> Reply:
    """What answering `option` gets. Keeps nothing. Raises KeyError for a letter that is no option."""
    chapter = prompt.id.rpartition("-")[0]
    right = option == prompt.right
    if prompt.kind == "predict":
        says = words("prompts.kept", option=option, text=prompt.options[option], then=_then(prompt.id))
        return Reply(option, right, says, words(f"ch{chapter}.predict.{prompt.id}.explain"))
    because = words_under(f"ch{chapter}.quiz.{prompt.id}.because")[option]
    verdict = words("prompts.right", option=option) if right else words("prompts.wrong", option=option)
    return Reply(option, right, f"{verdict} {because}")


def _then(prompt_id: str) -> str:
    """What to do after a prediction: this prompt's own `then`, where its answer is not simply the next cell's."""
    try:
        return words(f"ch{prompt_id.rpartition('-')[0]}.predict.{prompt_id}.then")
    except WordsError:
        return words("prompts.then")


def prompt_widget(prompt: Prompt) -> Any:
    """The buttons of a question, one per option, and the reply beneath them once one is pressed."""
    import ipywidgets

    said = ipywidgets.HTML()
    buttons = [
        ipywidgets.Button(description=letter, tooltip=text, layout=ipywidgets.Layout(width="4em"))
        for letter, text in prompt.options.items()
    ]
    for button in buttons:
        button.on_click(partial(_pressed, prompt, buttons, said))
    return ipywidgets.VBox([ipywidgets.HBox(buttons), said])


def reply_html(reply: Reply) -> str:
    """A reply for a widget. What is folded stands in a <details> that opens by mouse or by keyboard."""
    if not reply.folded:
        return roomy(spoken(reply.says))
    summary, folded = html.escape(words("prompts.unfold"), quote=False), html.escape(reply.folded, quote=False)
    return roomy(f"{spoken(reply.says)}<details><summary>{summary}</summary>{folded}</details>")


def _ask(kind: Kind, prompt_id: str, answer: str | None) -> None:
    prompt = find_prompt(kind, prompt_id)
    if prompt is None:
        print(words("prompts.no_such", id=prompt_id, ids=", ".join(prompt_ids(kind))))
        return
    print(prompt.text)
    if answer is not None:
        _print_reply(prompt, str(answer).strip().lower())
    elif widgets_on():
        show_widget(prompt_widget(prompt), "  ".join(f"[ {letter} ]" for letter in prompt.options))
    else:
        print(words("prompts.how", kind=kind, id=prompt_id, option=next(iter(prompt.options))))


def _print_reply(prompt: Prompt, option: str) -> None:
    if option not in prompt.options:
        print(words("prompts.no_option", option=option, options=", ".join(prompt.options)))
        return
    print(_answered(prompt, option).text)


def _pressed(prompt: Prompt, buttons: list[Any], said: Any, pressed: Any) -> None:
    reply = _answered(prompt, pressed.description)
    for button in buttons:
        button.button_style = ""
    pressed.button_style = "info" if prompt.kind == "predict" else "success" if reply.right else "warning"
    said.value = reply_html(reply)


def _answered(prompt: Prompt, option: str) -> Reply:
    reply = reply_to(prompt, option)
    if prompt.kind == "predict":
        _, note = progress_file.record_prediction(prompt.id, option)
        if note:
            return Reply(reply.option, reply.right, f"{reply.says} {note}", reply.folded)
    return reply

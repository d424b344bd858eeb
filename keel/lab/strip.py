"""The strip of stages: what a call walks through, which of it this chapter builds, and what is still to come.

Drawn with plain HTML and inline styles, not with SVG: a page that JupyterLab does not trust yet keeps those and drops
the other, lines wrap on a narrow page, and a screen reader reads the stages as words.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from keel.lab.catalogue import words
from keel.lab.chapters import position

# Every stage in the order in which a call meets it, and the chapter that builds it.
STAGES = {
    "read": "02",
    "lookup": "03",
    "permission": "09",
    "validate": "04",
    "policies": "09",
    "recall": "07",
    "rules": "05",
    "approve": "10",
    "claim": "07",
    "run": "01",
    "output": "05",
    "complete": "07",
    "recover": "06",
}
# What is built inside run, later than run itself; what stands around the stages; what lies beneath them.
PARTS = {"timeout": "07", "many": "08", "inside": "11"}
AROUND, BENEATH = {"loop": "12"}, {"trace": "13"}
CHAPTER_OF = STAGES | PARTS | AROUND | BENEATH

# Chapter 01 builds these in a first, small form; their own chapters finish them.
FIRST_FORM = ("lookup", "validate", "approve")
# 07b makes outlive a crash what 07 has built.
LIT_AGAIN = {"07b": ("recall", "claim", "complete")}

Look = Literal["lit", "built", "small", "unbuilt", "passed", "stopped", "unreached"]

# Greys and colours that can be read on a white page and on a dark one; the text of a plain box is the page's own.
STYLES: Mapping[str, str] = {
    "lit": "border:2px solid #2563eb;background-color:#2563eb;color:#ffffff;font-weight:bold",
    "built": "border:2px solid #757a82",
    "small": "border:2px solid #757a82",
    "unbuilt": "border:2px dashed #9aa0a8;color:#7d828a",
    "passed": "border:2px solid #2e9e5b",
    "stopped": "border:2px solid #b45309;background-color:#b45309;color:#ffffff;font-weight:bold",
    "unreached": "border:2px dashed #9aa0a8;color:#7d828a",
}
# The same looks in text, and for whoever cannot see the colours.
BRACKETS: Mapping[str, str] = {
    "lit": "[{}]",
    "built": "{}",
    "small": "{}",
    "unbuilt": "({})",
    "passed": "{}",
    "stopped": "[{}]",
    "unreached": "({})",
}


@dataclass(frozen=True)
class Box:
    """One stage as it is shown: its name, the chapter's number behind it (or nothing), its look."""

    name: str
    look: Look
    number: str = ""

    @property
    def label(self) -> str:
        """The stage's word, with its number."""
        return words(f"strip.stage.{self.name}") + (f" {self.number}" if self.number else "")

    @property
    def text(self) -> str:
        """The label as text: in [] where lit, in () where not built."""
        return BRACKETS[self.look].format(self.label)


@dataclass(frozen=True, repr=False)
class Strip:
    """A strip to show: every box by its name, and the sentence under it."""

    boxes: Mapping[str, Box]
    sentence: str

    def __repr__(self) -> str:
        return strip_text(self)

    def _repr_html_(self) -> str:
        return strip_html(self)


def stage_strip(chapter: str) -> Strip:
    """The strip of one chapter ("05"): its own stages lit, later ones grey with their chapter's number.

    Raises ValueError for a chapter that does not exist.
    """
    position(chapter)
    boxes = {name: _box(name, chapter) for name in CHAPTER_OF}
    kind = {"00": "none", "01": "first", "13": "last", "14": "all"}.get(chapter, "one")
    return Strip(boxes, words(f"strip.sentence.{kind}", chapter=chapter))


def _box(name: str, chapter: str) -> Box:
    own, now = position(CHAPTER_OF[name]), position(chapter)
    if chapter == "01" and name in FIRST_FORM:
        return Box(name, "lit", CHAPTER_OF[name])
    if own == now or chapter == "14" or name in LIT_AGAIN.get(chapter, ()):
        return Box(name, "lit")
    if own < now:
        return Box(name, "built")
    look: Look = "small" if name in FIRST_FORM and now > 1 else "unbuilt"
    return Box(name, look, CHAPTER_OF[name])


def strip_text(strip: Strip) -> str:
    """The strip as lines of text, its sentence last."""
    row = " · ".join(strip.boxes[name].text + _parts_text(strip, name) for name in STAGES)
    row = row.replace(f"{strip.boxes['approve'].text} · ", f"{strip.boxes['approve'].text} + ")
    turns = [0, row.index(strip.boxes["rules"].text), row.index(strip.boxes["run"].text), len(row)]
    lines = [row[start:end].rstrip() for start, end in pairwise(turns)]
    lines += [f"{strip.boxes[name].text}" for name in (*AROUND, *BENEATH) if name in strip.boxes]
    return "\n".join([*(f"  {line}" for line in lines), strip.sentence])


def _parts_text(strip: Strip, name: str) -> str:
    parts = [strip.boxes[part].text for part in PARTS if part in strip.boxes]
    return f" {{{', '.join(parts)}}}" if name == "run" and parts else ""


def strip_html(strip: Strip) -> str:
    """The strip as HTML: the loop as a frame, the stages in a row that wraps, the trace as a bar beneath."""
    # The arrow stays with the stage before it: a line that wraps does not begin with one.
    arrow = '<span aria-hidden="true" style="color:#7d828a;margin:0 3px">{}</span>'
    stages = "".join(
        '<span style="display:inline-flex;align-items:center">'
        + _stage_html(strip, name)
        + (arrow.format("+" if name == "approve" else "›") if name != "recover" else "")
        + "</span>"
        for name in STAGES
    )
    row = f'<div style="display:flex;flex-wrap:wrap;align-items:center;row-gap:6px">{stages}</div>'
    beneath = "".join(_bar_html(strip.boxes[name]) for name in BENEATH if name in strip.boxes)
    inner = f"{row}{beneath}"
    for name in AROUND:
        inner = _frame_html(strip.boxes[name], inner) if name in strip.boxes else inner
    sentence = f'<div style="margin-top:6px">{html.escape(strip.sentence)}</div>'
    return f'<div style="font-size:13px;line-height:1.3;max-width:960px;margin:6px 0">{inner}{sentence}</div>'


def _stage_html(strip: Strip, name: str) -> str:
    parts = [strip.boxes[part] for part in PARTS if name == "run" and part in strip.boxes]
    return _box_html(strip.boxes[name], parts)


def _box_html(box: Box, parts: Iterable[Box] = ()) -> str:
    inner = "".join(f" {_box_html(part)}" for part in parts)
    style = f"{STYLES[box.look]};border-radius:6px;padding:2px 7px;display:inline-block"
    if not inner:
        return f'<span style="{style}">{_label_html(box)}</span>'
    label = f'<span style="{style};border-width:0;padding:0 5px">{_label_html(box)}</span>'
    frame = STYLES["unbuilt" if box.look == "unbuilt" else "built"]
    row = "display:inline-flex;flex-wrap:wrap;gap:4px;align-items:center"
    return f'<span style="{frame};border-radius:6px;padding:2px 4px;{row}">{label}{inner}</span>'


def _label_html(box: Box) -> str:
    number = f' <span style="font-size:10px">{box.number}</span>' if box.number else ""
    return html.escape(words(f"strip.stage.{box.name}")) + number


def _frame_html(box: Box, inner: str) -> str:
    border = STYLES[box.look].split(";")[0]
    style = f"{border};border-radius:10px;padding:6px 8px 8px 8px"
    return f'<div style="{style}"><div style="margin-bottom:6px">{_box_html(box)}</div>{inner}</div>'


def _bar_html(box: Box) -> str:
    style = f"{STYLES[box.look]};border-radius:6px;padding:1px 7px;margin-top:8px;text-align:center"
    return f'<div style="{style}">{_label_html(box)}</div>'

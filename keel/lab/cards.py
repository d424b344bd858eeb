"""A text that a notebook shows in a coloured frame, and a terminal as it is."""

from __future__ import annotations

import html
from dataclasses import dataclass

TONES = {"good": "#2e9e5b", "bad": "#d1762b", "plain": "#8a8f98"}


@dataclass(frozen=True, repr=False)
class Card:
    """Words to show: `text` is the whole of it, `tone` (good, bad or plain) only colours the frame."""

    text: str
    tone: str = "plain"

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return framed(self.text, self.tone)


def roomy(inner: str) -> str:
    """HTML for a widget, with the line height of running text; a widget's own is that of a row of buttons."""
    return f'<div style="line-height:1.5;max-width:960px">{inner}</div>'


def spoken(text: str) -> str:
    """A line that a screen reader reads out when it changes."""
    return f'<div role="status" aria-live="polite">{html.escape(text, quote=False)}</div>'


def framed(text: str, tone: str) -> str:
    """The text as HTML: escaped, lines kept, long lines wrapped, colours that hold on light and dark pages."""
    edge = f"border-left:4px solid {TONES[tone]};padding:2px 0 2px 12px;margin:4px 0"
    style = f"{edge};white-space:pre-wrap;word-break:normal;overflow-wrap:break-word"
    return f'<pre style="{style}">{html.escape(text)}</pre>'

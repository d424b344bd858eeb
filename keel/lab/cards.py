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


def framed(text: str, tone: str) -> str:
    """The text as HTML: escaped, lines kept, long lines wrapped, colours that hold on light and dark pages."""
    style = f"border-left:4px solid {TONES[tone]};padding:2px 0 2px 12px;margin:4px 0;white-space:pre-wrap"
    return f'<pre style="{style}">{html.escape(text)}</pre>'

"""Show a widget where one can be shown. Everything a widget says is printed as well: the print is what is compared."""

from __future__ import annotations

import os
import sys
import textwrap
from typing import Any

WIDTH = 96


def widgets_on() -> bool:
    """Whether widgets can be shown: in a kernel that has ipywidgets, and not switched off by KEEL_WIDGETS=off."""
    if os.environ.get("KEEL_WIDGETS", "").strip().lower() == "off":
        return False
    if not in_kernel():
        return False
    try:
        import ipywidgets  # noqa: F401
    except ImportError:
        return False
    return True


def in_kernel() -> bool:
    """Whether this code runs in a Jupyter kernel."""
    ipython = sys.modules.get("IPython")  # a kernel has loaded it; where nobody has, there is no kernel
    shell = ipython.get_ipython() if ipython else None
    return getattr(shell, "kernel", None) is not None


def show_widget(widget: Any, stand_in: str) -> None:
    """Display a widget; `stand_in` is the text that a page without a kernel shows in its place."""
    from IPython.display import display

    bundle = widget._repr_mimebundle_()
    display({**bundle, "text/plain": stand_in}, raw=True)


def wrapped(text: str, first: str = "", rest: str | None = None) -> str:
    """A text in lines that fit a page, its own line breaks kept; `first` begins the first line, `rest` the others."""
    rest = first if rest is None else rest
    lines: list[str] = []
    for line in text.split("\n"):
        lines += textwrap.wrap(line, WIDTH, initial_indent=rest if lines else first, subsequent_indent=rest) or [""]
    return "\n".join(lines)

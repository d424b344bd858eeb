"""Any value as short, repeatable text, and equality that tells `True` from `1`."""

from __future__ import annotations

import re
from typing import Any

LONGEST = 300
DEEPEST = 6


def show(value: Any) -> str:
    """Like repr, but the same in every run (sets sorted, addresses left out), short, and never raising."""
    try:
        text = _show(value, 0)
    except Exception:
        text = f"<{type(value).__name__}>"
    return text if len(text) <= LONGEST else text[:LONGEST] + "…"


def steady(text: str) -> str:
    """A text without the addresses that Python writes into it."""
    return re.sub(r" at 0x[0-9a-fA-F]+", "", text)


def same(one: Any, other: Any) -> bool:
    """Equal in value and in kind: `True` is not `1`, `1` is not `1.0`; a str of any subclass equals its text."""
    if isinstance(one, str) and isinstance(other, str):
        return str.__eq__(one, other)
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def _show(value: Any, depth: int) -> str:
    if depth > DEEPEST:
        return "…"
    if isinstance(value, str):
        return repr(str.__str__(value))
    if type(value) is dict:
        return "{" + ", ".join(f"{_show(k, depth + 1)}: {_show(v, depth + 1)}" for k, v in value.items()) + "}"
    if type(value) in (set, frozenset):
        return "{" + ", ".join(sorted(_show(item, depth + 1) for item in value)) + "}" if value else "set()"
    if type(value) is list:
        return "[" + ", ".join(_show(item, depth + 1) for item in value) + "]"
    if type(value) is tuple:
        return "(" + ", ".join(_show(item, depth + 1) for item in value) + ("," if len(value) == 1 else "") + ")"
    return steady(repr(value))

"""The one table of `make bench`: what was measured, the figure, the limit, what the call was judged for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

WIDTH = 62


class Row(NamedTuple):
    """One line. What others cost has no limit here; `judged` says what such a call was judged for."""

    what: str
    ratio: float
    limit: float | None = None
    judged: str = ""


def table(rows: Iterable[Row], note: str | None = None) -> str:
    """The rows under their heads, then the note, if there is one to give."""
    lines = [f"{'what':<{WIDTH}} {'ratio':>6} {'limit':>6}  judged for"]
    for row in rows:
        limit = "-" if row.limit is None else f"{row.limit:.2f}"
        lines.append(f"{row.what:<{WIDTH}} {row.ratio:>6.2f} {limit:>6}  {row.judged}".rstrip())
    return "\n".join(lines if note is None else [*lines, note])

"""How often a person is asked: one working day of calls, and how many questions each way of asking makes of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from keel.contracts import ExecutionContext, Principal, ToolRequest

from .catalogue import words
from .plots import INK, Picture, Sheet

# What the day holds of each kind. The last are the honest tickets, asked for again and again.
_READS, _UNKNOWN, _MALFORMED, _FOREIGN, _TICKETS = 70, 8, 12, 10, 20
WAYS = ("every_call", "every_write", "last_of_all")


def day_of_calls() -> list[ToolRequest]:
    """A hundred and twenty calls of one assistant: mostly reads, some mistakes, and a few tickets asked for again."""
    return [_request(number, *call) for number, call in enumerate(_calls(), start=1)]


def _calls() -> Iterator[tuple[str, dict[str, object]]]:
    own = ("INC-001", "INC-005", "INC-006")
    for number in range(_READS):
        yield "lookup_incident", {"incident_id": own[number % 3]}
    for _ in range(_UNKNOWN):
        yield "open_ticket", {"incident_id": "INC-001"}
    for _ in range(_MALFORMED):
        yield "create_ticket", {"incident": "INC-001"}
    for _ in range(_FOREIGN):
        yield "create_ticket", {"title": "the salary run stops", "incident_id": "INC-003"}
    for number in range(_TICKETS):
        yield "create_ticket", {"title": "login returns 502", "incident_id": own[number % 3]}


def _request(number: int, name: str, arguments: dict[str, object]) -> ToolRequest:
    return ToolRequest(provider_id=f"call_{number}", name=name, arguments=arguments)


def on_call() -> ExecutionContext:
    """Somebody of the team identity, who may read and create tickets."""
    return ExecutionContext(
        principal=Principal(id="dana", permissions=["incidents:read", "tickets:write"], teams=["identity"])
    )


def questions_picture(counts: Mapping[str, int]) -> Picture:
    """How many questions a person gets under each of three ways of asking: `every_call`, `every_write`, `last_of_all`.

    Raises ValueError for another way.
    """
    unknown = set(counts) - set(WAYS)
    if unknown:
        raise ValueError(f"the ways are {', '.join(WAYS)}, and not {', '.join(sorted(unknown))}")
    rows = [(words(f"plots.questions.{way}"), counts[way]) for way in WAYS if way in counts]
    most = max([1, *counts.values()])
    sheet = Sheet(640, 30 + 44 * len(rows))
    for at, (label, number) in enumerate(rows):
        down = 24 + 44 * at
        sheet.text(16, down, label)
        sheet.box(16, down + 6, max(2, 540 * number / most), 14, "#b45309" if at < len(rows) - 1 else "#17633c")
        sheet.text(24 + 540 * number / most, down + 18, str(number), ink=INK, bold=True)
    wide = max((len(label) for label, _ in rows), default=0)
    lines = [f"{label:<{wide}}  {number:>4}  {'▇' * round(40 * number / most)}".rstrip() for label, number in rows]
    return sheet.picture(words("plots.questions.title"), "\n".join(lines))

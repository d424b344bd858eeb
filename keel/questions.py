"""What a person is asked, and what they said: one record for each question, kept beside the ledger's entries."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    import sqlite3


class Standing(StrEnum):
    """How a question stands. `USED`: approved, and the one call that it was for has been claimed."""

    PENDING = "pending"
    APPROVED = "approved"
    DENIED = "denied"
    EXPIRED = "expired"
    USED = "used"


class Binding(NamedTuple):
    """What an approval is for, and nothing else: this action, by this tool, in this version, for this principal."""

    key: str
    digest: str
    tool: str
    version: str
    principal: str


class Question(NamedTuple):
    """One question to a person, and the answer.

    `arguments` is the canonical JSON of the judged arguments, defaults included: what would run.
    Times are seconds since 1970. `times` counts how often the same call has asked. `four_eyes`: the
    one who asks may not answer; `permission` is what whoever answers must hold.
    """

    id: str
    binding: Binding
    arguments: str
    call_id: str
    run_id: str
    asked_at: float
    expires_at: float
    permission: str
    four_eyes: bool
    standing: Standing = Standing.PENDING
    times: int = 1
    decided_by: str | None = None
    decided_at: float | None = None
    reason: str = ""

    @property
    def shown(self) -> str:
        """The arguments as text for a person: whole, still JSON, and with nothing in it that cannot be seen."""
        return visible(self.arguments)

    def at(self, now: float) -> Question:
        """The question as it stands at this time: what nobody answered or used in time is EXPIRED."""
        open_still = self.standing in (Standing.PENDING, Standing.APPROVED)
        return self._replace(standing=Standing.EXPIRED) if open_still and not now < self.expires_at else self


def visible(text: str) -> str:
    """The text with whatever a person cannot see, or what turns the text around it, written as JSON would."""
    return "".join(one if one.isprintable() and one not in _BLANK else _escaped(one) for one in text)


def _escaped(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


# Characters that count as printable, and show nothing: fillers and variation selectors.
_BLANK = frozenset(map(chr, (0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0)))
_BLANK |= frozenset(map(chr, (*range(0x180B, 0x1810), *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))))


class Questions(Protocol):
    """Where questions are kept. Only used inside a ledger's transaction."""

    def get(self, question_id: str) -> Question | None:
        """The question of this id, or None."""

    def latest(self, binding: Binding) -> Question | None:
        """The last question that was asked for exactly this, or None."""

    def put(self, question: Question) -> None:
        """Keep a question, in the place of the one with its id."""

    def standing(self, *standings: Standing) -> list[Question]:
        """The questions that stand so, or all, in the order in which they were asked."""


class MemoryQuestions:
    """Questions that live and die with their process."""

    def __init__(self):
        self._by_id: dict[str, Question] = {}
        self._latest: dict[Binding, str] = {}

    def get(self, question_id: str) -> Question | None:
        return self._by_id.get(question_id)

    def latest(self, binding: Binding) -> Question | None:
        return self._by_id.get(self._latest.get(binding, ""))

    def put(self, question: Question) -> None:
        if question.id not in self._by_id:
            self._latest[question.binding] = question.id
        self._by_id[question.id] = question

    def standing(self, *standings: Standing) -> list[Question]:
        return [one for one in self._by_id.values() if not standings or one.standing in standings]


SCHEMA = """
CREATE TABLE questions (
  number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, key TEXT NOT NULL, digest TEXT NOT NULL, tool TEXT NOT NULL,
  version TEXT NOT NULL, principal TEXT NOT NULL, arguments TEXT NOT NULL, call_id TEXT NOT NULL, run_id TEXT NOT NULL,
  asked_at REAL NOT NULL, expires_at REAL NOT NULL, permission TEXT NOT NULL, four_eyes INTEGER NOT NULL,
  standing TEXT NOT NULL, times INTEGER NOT NULL, decided_by TEXT, decided_at REAL, reason TEXT NOT NULL
) STRICT;
CREATE INDEX by_binding ON questions (key, digest);
CREATE INDEX open_questions ON questions (standing) WHERE standing IN ('pending', 'approved')
"""
_FIELDS = (
    "id, key, digest, tool, version, principal, arguments, call_id, run_id, asked_at, expires_at, permission, "
    "four_eyes, standing, times, decided_by, decided_at, reason"
)
_LATEST = f"""
SELECT {_FIELDS} FROM questions WHERE key = ? AND digest = ? AND tool = ? AND version = ? AND principal = ?
ORDER BY number DESC LIMIT 1
"""
_PUT = f"""
INSERT INTO questions ({_FIELDS}) VALUES ({", ".join("?" * 18)})
ON CONFLICT (id) DO UPDATE SET standing = excluded.standing, times = excluded.times, decided_by = excluded.decided_by,
  decided_at = excluded.decided_at, reason = excluded.reason
"""


class SqliteQuestions:
    """Questions in the ledger's own file, through its open connection."""

    def __init__(self, db: sqlite3.Connection):
        self._db = db

    def get(self, question_id: str) -> Question | None:
        return self._one(f"SELECT {_FIELDS} FROM questions WHERE id = ?", (question_id,))

    def latest(self, binding: Binding) -> Question | None:
        return self._one(_LATEST, binding)

    def put(self, question: Question) -> None:
        question_id, binding, *rest = question
        self._db.execute(_PUT, (question_id, *binding, *rest))

    def standing(self, *standings: Standing) -> list[Question]:
        marks = ", ".join(f"'{Standing(one)}'" for one in standings or tuple(Standing))
        rows = self._db.execute(f"SELECT {_FIELDS} FROM questions WHERE standing IN ({marks}) ORDER BY number")
        return list(map(_question, rows))

    def _one(self, sql: str, values: Iterable[str]) -> Question | None:
        row = self._db.execute(sql, tuple(values)).fetchone()
        return None if row is None else _question(row)


def _question(row: tuple) -> Question:
    question_id, *binding = row[:6]
    *same, four_eyes, standing, times, by, at, reason = row[6:]
    return Question(question_id, Binding(*binding), *same, four_eyes != 0, _STANDINGS[standing], times, by, at, reason)


_STANDINGS = {one.value: one for one in Standing}

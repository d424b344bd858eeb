"""What it costs to do a thing once: a durable write, its replay, and a read that can be left behind."""

from __future__ import annotations

import itertools
import os
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from keel import ExecutionContext, Harness, Principal, SqliteLedger, ToolCall, ToolRegistry
from keel.ledger import Entry, State

AMIRA = ExecutionContext(principal=Principal(id="amira", permissions=["tickets:write"]))
TURNS = 400
MILLION = 1_000_000


def medians(*functions: Callable[[], object], turns: int = TURNS) -> list[float]:
    """The middle time of each function in seconds, measured in turns: a disk has no meaningful best time."""
    spent: list[list[float]] = [[] for _ in functions]
    for _ in range(turns):
        for at, function in enumerate(functions):
            start = time.perf_counter()
            function()
            spent[at].append(time.perf_counter() - start)
    return [statistics.median(one[turns // 10 :]) for one in spent]


def harness_on(folder: Path) -> Harness:
    """A harness with a ledger in a file, a write under a key of its own and a read with a timeout."""
    registry = ToolRegistry()

    @registry.tool(
        permission="tickets:write",
        needs_approval=False,
        timeout_s=None,
        idempotency_key=lambda values, context: values["title"],
    )
    def create_ticket(title: str) -> str:
        """Create a ticket."""
        return "T-1"

    @registry.tool(read_only=True, timeout_s=30.0)
    def find_ticket(title: str) -> str:
        """Find a ticket."""
        return "T-1"

    return Harness(registry, ledger=SqliteLedger(folder / "ledger.db"))


def call(name: str, title: str) -> ToolCall:
    return ToolCall(call_id="c-1", name=name, arguments={"title": title})


def durable_write(folder: Path) -> tuple[str, float, float]:
    """A fresh write against an fsync'ed append of as many bytes as its entry has."""
    harness, numbers = harness_on(folder), itertools.count()
    log = os.open(folder / "log", os.O_CREAT | os.O_WRONLY | os.O_APPEND)

    def write() -> None:
        assert harness.execute(call("create_ticket", f"ticket {next(numbers)}"), AMIRA).ok

    write()
    size = sum(len(str(part)) for part in next(harness.ledger.entries()))

    def append() -> None:
        os.write(log, b"x" * size)
        os.fsync(log)

    fresh, least = medians(write, append)
    if least >= 0.001:
        return "a durable write, against one fsync'ed append", fresh / least, 1.35
    return f"a durable write, µs above an append of {least * 1e6:.0f} µs", (fresh - least) * 1e6, 100.0


def replay(folder: Path) -> tuple[str, float, float]:
    """The answer of a settled write against a bare SELECT of its row."""
    harness = harness_on(folder)
    known = call("create_ticket", "the same every time")
    harness.execute(known, AMIRA)
    key = next(harness.ledger.entries()).key
    db = sqlite3.connect(folder / "ledger.db", isolation_level=None)
    select = "SELECT * FROM entries WHERE key = ?"
    again, least = medians(
        lambda: harness.execute(known, AMIRA), lambda: db.execute(select, (key,)).fetchone(), turns=4000
    )
    return "a replay, against a SELECT of its row", again / least, 10.0


def guarded_read(folder: Path) -> tuple[str, float, float]:
    """A read with a timeout against a body handed to an executor and waited for."""
    harness, executor = harness_on(folder), ThreadPoolExecutor(1)
    find, body = call("find_ticket", "ticket"), harness.registry.lookup("find_ticket").function
    read, least = medians(
        lambda: harness.execute(find, AMIRA), lambda: executor.submit(body, "ticket").result(30.0), turns=4000
    )
    return "a guarded read, against submit(…).result(timeout)", read / least, 1.35


def growth(folder: Path) -> tuple[str, float, float]:
    """A replay from a ledger of a million entries against one of a thousand."""
    sides = []
    for rows in (1_000, MILLION):
        place = folder / str(rows)
        place.mkdir()
        harness = harness_on(place)
        harness.execute(call("create_ticket", "0"), AMIRA)
        _fill(place / "ledger.db", next(harness.ledger.entries()), rows)
        titles = itertools.cycle([f"{number * 7919 % rows}" for number in range(5000)])
        sides.append(lambda harness=harness, titles=titles: harness.execute(call("create_ticket", next(titles)), AMIRA))
        assert sides[-1]().ok
    few, many = medians(*sides, turns=4000)
    return "a replay among 1,000,000 entries, against 1,000", many / few, 1.5


def _fill(path: Path, like: Entry, rows: int) -> None:
    """Put in the entries that so many tickets would have left."""
    from keel.canonical import digest

    columns = list(like._fields[:-1])
    values = like._replace(state=State.DONE)._asdict()
    marks = ", ".join("?" for _ in columns)
    db = sqlite3.connect(path)
    db.execute("PRAGMA synchronous = OFF")
    db.executemany(
        f"INSERT INTO entries ({', '.join(columns)}, claimed_at) VALUES ({marks}, '')",
        (
            [
                {**values, "key": like.key.replace('"0"', f'"{number}"'), "digest": digest({"title": f"{number}"})}[one]
                for one in columns
            ]
            for number in range(1, rows)
        ),
    )
    db.commit()
    db.close()


def rows() -> list[tuple[str, float, float]]:
    """What was measured, the figure, the limit; on the disk that holds temporary files."""
    measured = []
    for measure in (durable_write, replay, guarded_read, growth):
        with tempfile.TemporaryDirectory() as folder:
            measured.append(measure(Path(folder)))
    return measured

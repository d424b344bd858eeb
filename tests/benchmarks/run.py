"""What the harness costs, as ratios against what any honest program must do. `make bench` runs this.

Each pair is measured in one run, interleaved, and the smallest time of each side counts: noise only
ever adds. The limits are printed beside the figures; nothing here passes or fails.
"""

from __future__ import annotations

import gc
import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable

import loop
import once
import peers
from pydantic import BaseModel, ConfigDict
from table import Row, table

import bootstrap
from keel import ExecutionContext, Harness, Principal, ToolCall, ToolRegistry, Trace
from keel.adapters import read_arguments
from keel.lab.world import Incident, IncidentId

ROUNDS = 60


class Arguments(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")
    incident_id: IncidentId


def lookup_incident(incident_id: IncidentId) -> Incident:
    """Look up one incident by its id."""
    return Incident(
        incident_id=incident_id,
        service="auth-api",
        severity="high",
        symptom="login returns 502",
        evidence=["auth-api timeout", "database pool exhausted"],
    )


def best(*functions: Callable[[], object], calls: int = 500) -> list[float]:
    """The smallest time of each function for `calls` calls, in seconds, measured in turns."""
    smallest = [float("inf")] * len(functions)
    gc.disable()
    for _ in range(ROUNDS):
        for at, function in enumerate(functions):
            start = time.perf_counter()
            for _ in itertools.repeat(None, calls):
                function()
            smallest[at] = min(smallest[at], time.perf_counter() - start)
    gc.enable()
    return smallest


def make(tools: int) -> tuple[Harness, ExecutionContext]:
    """A harness with lookup_incident among so many tools, and somebody who may use all of them."""
    registry = ToolRegistry()
    registry.tool(lookup_incident, version="1.0", read_only=True, permission="incidents:read", timeout_s=None)
    schema = {"type": "object", "properties": {}, "additionalProperties": False}
    for number in range(tools - 1):
        registry.add_schema_tool(
            name=f"{('read', 'list', 'find')[number % 3]}_thing_{number}",
            description="-",
            input_schema=schema,
            function=lambda arguments: None,
            read_only=True,
        )
    return Harness(registry), ExecutionContext(principal=Principal(id="amira", permissions=["incidents:read"]))


def floor(arguments: dict[str, object]) -> Callable[[], object]:
    """Validate, run, dump: what any honest program must do."""
    return lambda: lookup_incident(Arguments.model_validate(arguments).incident_id).model_dump(mode="json")


def dispatch(trace: Trace | None = None) -> float:
    """The whole line against the floor."""
    harness, context = make(10)
    harness = Harness(harness.registry, trace=trace)
    call = ToolCall(call_id="c-1", name="lookup_incident", arguments={"incident_id": "INC-001"})
    least = floor(call.arguments)
    assert harness.execute(call, context).data == least()
    line, spent = best(lambda: harness.execute(call, context), least)
    return line / spent


def growth(name: str, calls: int) -> float:
    """One call among 10,000 tools against the same among 10."""
    sides = []
    for count in (10, 10_000):
        harness, context = make(count)
        call = ToolCall(call_id="c-1", name=name, arguments={"incident_id": "INC-001"})
        harness.execute(call, context)
        sides.append(lambda harness=harness, call=call, context=context: harness.execute(call, context))
    few, many = best(*sides, calls=calls)
    return many / few


TICKET = {"incident_id": "INC-001", "title": "login returns 502", "severity": "high", "notify": True, "n": 3}
STEP = {"at": "2026-05-01T10:00:00Z", "who": "amira", "did": "looked at the pool of the database, é"}
ROW = {"id": 1234, "name": "user 1234", "tags": ["a", "b"], "ok": True, "share": 0.25}
ARGUMENTS = [  # what it is, the arguments, the limit
    ("a call of 100 B", TICKET, 2.75),
    ("a call of 1 KB", {"title": "login returns 502", "steps": [STEP] * 9, "limit": 20}, 2.75),
    ("100 KB of objects", {"rows": [ROW] * 1200}, 4.0),
    ("100 KB of numbers", {"n": [1234567, 7, -40, 0.125, 12.5e-8] * 2900}, 4.0),
    ("100 KB of one long text", {"text": "some words in here\n" * 5000}, 4.0),
    ("100 KB of one long non-ASCII text", {"text": "日本語のテキスト" * 4200}, 4.0),
]


def parsing(arguments: dict[str, object]) -> float:
    """Reading an argument text against json.loads of the same text."""
    text = json.dumps(arguments, ensure_ascii=False)
    assert read_arguments(text) == arguments
    read, least = best(lambda: read_arguments(text), lambda: json.loads(text), calls=max(2, 50_000 // len(text)))
    return read / least


_PYDANTIC = (
    "from pydantic import BaseModel, Field, TypeAdapter, create_model\nclass M(BaseModel):\n    name: str = Field('')\n"
)
_MEASURE = """
import pathlib, time
start = time.perf_counter()
{program}
spent = time.perf_counter() - start
status = pathlib.Path("/proc/self/status")  # Linux alone tells the peak of this program and no other
peak = status.read_text().split("VmHWM:")[1].split()[0] if status.exists() else "nan"
print(spent, peak)
"""


def started(program: str) -> tuple[float, float]:
    """Seconds that a program takes in a fresh interpreter, and its peak memory in KiB."""
    command = [sys.executable, "-c", _MEASURE.format(program=program)]
    # Compiled once and kept, as everywhere: what is measured is importing and no compiling.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    spent, memory = subprocess.run(command, capture_output=True, text=True, check=True, env=env).stdout.split()
    return float(spent), float(memory)


def importing() -> tuple[float, float]:
    """`import keel` against a program that imports pydantic and defines one model: time ratio, MiB more."""
    ours, theirs = [], []
    for _ in range(25):
        ours.append(started("import keel"))
        theirs.append(started(_PYDANTIC))
    time_ratio = min(spent for spent, _ in ours) / min(spent for spent, _ in theirs)
    return time_ratio, (min(memory for _, memory in ours) - min(memory for _, memory in theirs)) / 1024


def main() -> None:
    import_time, import_memory = importing()
    rows = [
        ("a dispatch, against validate + body + dump", dispatch(), 2.5),
        ("the same with a trace in memory", dispatch(Trace(keep=1000)), 3.2),
        ("a dispatch among 10,000 tools, against 10", growth("lookup_incident", 500), 1.2),
        ("an unknown name among 10,000 tools, against 10", growth("read_thing_x", 20), 3.0),
        *((f"reading {what}, against json.loads", parsing(sent), limit) for what, sent, limit in ARGUMENTS),
        ("import keel, against importing pydantic", import_time, 1.2),
        ("memory that import keel adds to that, MiB", import_memory, 4.0),
        *once.rows(),
        *loop.rows(make),
    ]
    others, note = peers.rows(bootstrap.Place())
    print(table([*(Row(*row) for row in rows), *others], note))


if __name__ == "__main__":
    main()

"""Processes that write through a ledger and are killed there, and the hand that kills them.

Run as a program it reads one job a line, forks a writer for it, and answers in one line: forked from
a parent that has loaded everything, a writer costs milliseconds. `Writers` is the other end of it.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from keel import ExecutionContext, Happened, Harness, NotHappened, Principal, SqliteLedger, ToolCall, ToolRegistry

CLERK = ExecutionContext(principal=Principal(id="clerk", permissions=["desk:write"]))
# In the order in which a writer comes by. "in claim" and "in end" are inside the statement, before its commit.
STEPS = (
    "start", "before recall", "after recall", "before claim", "in claim", "after claim",
    "before effect", "after effect", "before end", "in end", "after end",
)  # fmt: skip


def pass_by(step: str) -> None:
    """Stop nowhere."""


def order_tools(effects: str, at: Callable[[str], None] = pass_by, timeout_s: float | None = None) -> ToolRegistry:
    """One write, `order`: its effect is one more line in a file, on the disk when the body goes on."""
    registry = ToolRegistry()

    def has_happened(arguments: dict[str, Any], context: ExecutionContext) -> Happened | NotHappened:
        return Happened(receipt(arguments["what"])) if count_effects(effects, arguments["what"]) else NotHappened()

    @registry.tool(
        permission="desk:write",
        needs_approval=False,
        timeout_s=timeout_s,
        idempotency_key=lambda arguments, context: arguments["what"],
        check_status=has_happened,
    )
    def order(what: str, amount: int = 1) -> dict[str, str]:
        at("before effect")
        file = os.open(effects, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, f"{what}\n".encode())
        os.fsync(file)
        os.close(file)
        at("after effect")
        return receipt(what)

    return registry


def receipt(what: str) -> dict[str, str]:
    return {"ordered": what}


def count_effects(effects: str, what: str) -> int:
    """How often it was done, by what the world shows."""
    return Path(effects).read_text().splitlines().count(what) if os.path.exists(effects) else 0


def order_call(what: str, amount: int = 1) -> ToolCall:
    return ToolCall(call_id="c-1", name="order", arguments={"what": what, "amount": amount})


class WatchedLedger(SqliteLedger):
    """A ledger that says where it is."""

    def __init__(self, path: str, at: Callable[[str], None]):
        super().__init__(path)
        self.at = at

    def recall(self, key):
        self.at("before recall")
        found = super().recall(key)
        self.at("after recall")
        return found

    def claim(self, entry, also=None):
        self.at("before claim")
        now = super().claim(entry, also)
        self.at("after claim")
        return now

    def end(self, *arguments, **options):
        self.at("before end")
        super().end(*arguments, **options)
        self.at("after end")

    def _open(self):
        super()._open()
        # The claim and the end each call one function of SQLite's: here it is one that can stop.
        self._db.create_function("datetime", 1, lambda _: self.at("in claim") or "2026-01-01 00:00:00")
        self._db.create_function("max", 2, lambda one, other: self.at("in end") or max(one, other))


class Writers:
    """A prepared parent of writers, and what it is asked to do. To be used as `with Writers() as writers`."""

    def __enter__(self) -> Writers:
        command = [sys.executable, __file__]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(self, *raised: Any) -> None:
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()

    def __call__(self, do: str, **job: Any) -> Any:
        self.process.stdin.write(json.dumps({"do": do} | job) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


# What follows runs in the other processes.


def write(job: dict[str, Any], at: Callable[[str], None]) -> None:
    """One writer's work: settle what is open, if it is to, then order."""
    at("start")
    if "gate" in job:
        os.close(job["gate"][1])
        os.read(job["gate"][0], 1)  # until the parent closes it, for all at once
    ledger = WatchedLedger(job["ledger"], at)
    harness = Harness(order_tools(job["effects"], at, job.get("timeout_s")), ledger=ledger)
    if job.get("reconcile"):
        harness.reconcile()
    for _ in range(job.get("calls", 1)):
        at(harness.execute(order_call(job["what"]), CLERK).model_dump_json())


def fork_writer(job: dict[str, Any]) -> tuple[int, int]:
    """Start a writer. Gives its process id, and a pipe on which it writes a line wherever it comes by."""
    reading, writing = os.pipe()
    child = os.fork()
    if child:
        os.close(writing)
        return child, reading

    def at(step: str) -> None:
        os.write(writing, f"{step}\n".encode())
        if step == job.get("stop"):
            signal.pause()

    os.close(reading)
    try:
        write(job, at)
    finally:
        os._exit(0)


def read_steps(pipe: int, last: str | None, limit_s: float | None = None) -> list[str]:
    """The steps that come by, up to the last one, the writer's end, or the limit."""
    text, until = b"", None if limit_s is None else time.monotonic() + limit_s
    while last is None or f"{last}\n".encode() not in text:
        if until is not None and not select.select([pipe], [], [], max(until - time.monotonic(), 0))[0]:
            break
        more = os.read(pipe, 1 << 16)
        if not more:
            break
        text += more
    return text.decode().splitlines()


def kill(job: dict[str, Any]) -> list[str]:
    """Kill a writer where it stops, or some time after its start. Gives the steps that it came by."""
    child, pipe = fork_writer(job)
    stop = job.get("stop")
    steps = read_steps(pipe, stop or "start")
    if not stop:
        steps += read_steps(pipe, None, job["after_s"])
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    steps += read_steps(pipe, None)
    os.close(pipe)
    return steps


def measure(job: dict[str, Any]) -> float:
    """How long a writer takes that nobody kills."""
    begin = time.monotonic()
    child, pipe = fork_writer(job)
    os.waitpid(child, 0)
    os.close(pipe)
    return time.monotonic() - begin


def race(job: dict[str, Any]) -> list[list[Any]]:
    """Many writers at once. Gives the different answers, and how often each was given."""
    gate = os.pipe()
    writers = [fork_writer(job | {"gate": gate}) for _ in range(job["processes"])]
    for end_of_gate in gate:
        os.close(end_of_gate)
    answers: Counter[str] = Counter()
    for child, pipe in writers:
        for line in read_steps(pipe, None):
            if line.startswith("{"):
                result = json.loads(line)
                answers[json.dumps([result["error"] and result["error"]["code"], result["data"]])] += 1
        os.waitpid(child, 0)
        os.close(pipe)
    return [[*json.loads(answer), times] for answer, times in answers.items()]


_held: dict[int, int] = {}


def hold(job: dict[str, Any]) -> int:
    """A writer that stops in its body, and stays there."""
    child, pipe = fork_writer(job | {"stop": "before effect"})
    read_steps(pipe, "before effect")
    _held[child] = pipe
    return child


def end(job: dict[str, Any]) -> None:
    """Kill a held writer, and leave it as a zombie."""
    os.kill(job["pid"], signal.SIGKILL)
    os.waitid(os.P_PID, job["pid"], os.WEXITED | os.WNOWAIT)


def reap(job: dict[str, Any]) -> None:
    os.waitpid(job["pid"], 0)
    os.close(_held.pop(job["pid"]))


if __name__ == "__main__":
    for request in sys.stdin:
        asked = json.loads(request)
        print(json.dumps(globals()[asked.pop("do")](asked)), flush=True)
    for held in _held:
        os.kill(held, signal.SIGKILL)

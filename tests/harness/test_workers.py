"""A body that takes too long is left behind: its call is answered, the ledger learns the rest, and nothing piles up."""

import asyncio
import gc
import math
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from keel import Harness, ToolCall, ToolFailure, ToolRegistry, workers
from keel.idempotency import MemoryLedger, State

from .kit import AMIRA, code, label, registry_of

WRITE = {"read_only": False, "permission": "desk:write", "needs_approval": False}
SOON = 0.05  # the timeout of what is to be left behind
BLINK = 1e-9


def ask(harness, name="tool", context=AMIRA, call_id="c-1", **arguments):
    return harness.execute(ToolCall(call_id=call_id, name=name, arguments=arguments), context)


def until(condition):
    """Wait for something that must come; only a hang takes the whole time."""
    last = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < last, "it never came"
        time.sleep(0.002)


def only(ledger):
    [entry] = ledger.entries()
    return entry


def keel_threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("keel-")]


def test_a_read_that_takes_too_long_is_a_timeout(gate):
    harness = Harness(registry_of(lambda: gate.wait(30), timeout_s=SOON))
    result = ask(harness)
    assert code(result) == "timeout" and result.error.retryable and result.tool_version == "1.0"
    assert harness.pool.abandoned == 1
    gate.set()
    until(lambda: harness.pool.abandoned == 0)


def hanging(ledger, gate, end, **options):
    """A write that hangs until the gate opens and then ends as `end` does. Only the first one hangs."""
    ran = []

    def body() -> int:
        ran.append(1)
        if len(ran) == 1:
            gate.wait(30)
            return end()
        return 100

    return ran, Harness(registry_of(body, **(WRITE | {"timeout_s": SOON} | options)), ledger=ledger)


def raising(raised):
    def end():
        raise raised

    return end


def test_a_write_that_takes_too_long_may_have_happened(ledger, gate):
    ran, harness = hanging(ledger, gate, lambda: 7)
    result = ask(harness)
    assert code(result) == "outcome_unknown" and not result.error.retryable
    assert (only(ledger).state, only(ledger).live) == (State.UNKNOWN, True)
    assert code(ask(harness)) == "outcome_unknown" and ran == [1]


FROM_INSIDE = [TimeoutError(), asyncio.CancelledError(), SystemExit(1), KeyboardInterrupt()]
FROM_INSIDE += [GeneratorExit(), StopIteration(3), workers.TookTooLong("timeout", "-", True)]


@pytest.mark.parametrize("raised", FROM_INSIDE, ids=label)
def test_a_body_that_says_timeout_itself_has_failed(raised):
    harness = Harness(registry_of(raising(raised)))
    assert code(ask(harness)) == "tool_failed" and harness.pool.abandoned == 0
    assert ask(harness).error.message == "tool broke. The operator can look up call c-1."


@pytest.mark.parametrize("raised", FROM_INSIDE, ids=label)
def test_and_a_write_that_does_is_over_and_unknown(raised, ledger):
    harness = Harness(registry_of(raising(raised), **WRITE), ledger=ledger)
    assert code(ask(harness)) == "outcome_unknown" and harness.pool.abandoned == 0
    assert (only(ledger).state, only(ledger).live) == (State.UNKNOWN, False)


class Trap(ToolFailure):
    """A failure that interrupts whoever looks at it."""

    def __init__(self):
        pass

    @property
    def error(self):
        raise KeyboardInterrupt


def test_a_trap_is_sprung_where_the_body_ran():
    try:
        result = ask(Harness(registry_of(raising(Trap()))))
    except KeyboardInterrupt:
        pytest.fail("it was sprung in the caller's thread")
    assert code(result) == "tool_failed"


@pytest.mark.parametrize("end", [raising(Trap()), raising(SystemExit())], ids=["trap", "exit"])
def test_a_late_end_takes_no_worker_with_it(end, ledger, gate, monkeypatch):
    died = []
    monkeypatch.setattr(threading, "excepthook", died.append)
    _, harness = hanging(ledger, gate, end)
    ask(harness)
    gate.set()
    until(lambda: not only(ledger).live)
    until(lambda: harness.pool.abandoned == 0)
    assert ask(harness, call_id="c-2").data == 100 and not died


def test_nor_does_a_ledger_that_breaks_when_it_is_told(gate, monkeypatch):
    class Breaks(MemoryLedger):
        def end(self, *args, **kwargs):
            if threading.current_thread() is not threading.main_thread():
                raise RuntimeError("a bug of the ledger's")
            super().end(*args, **kwargs)

    died = []
    monkeypatch.setattr(threading, "excepthook", died.append)
    _, harness = hanging(Breaks(), gate, lambda: 7)
    ask(harness)
    gate.set()
    until(lambda: harness.pool.abandoned == 0)
    until(lambda: harness.pool._idle or died)
    assert ask(harness, call_id="c-2").data == 100 and not died


def test_without_a_timeout_a_body_runs_in_the_callers_thread():
    def where() -> int:
        return threading.get_ident()

    assert ask(Harness(registry_of(where, timeout_s=None))).data == threading.get_ident()
    assert ask(Harness(registry_of(where))).data != threading.get_ident()


@pytest.mark.parametrize("timeout_s", [math.inf, 1e300, 10**400, threading.TIMEOUT_MAX * 2], ids=label)
def test_a_timeout_may_be_as_long_as_it_likes(timeout_s):
    assert ask(Harness(registry_of(lambda: 7, timeout_s=timeout_s))).data == 7
    context = AMIRA.model_copy(update={"deadline": float(min(timeout_s, 1e308))})
    assert ask(Harness(registry_of(lambda: 7, timeout_s=timeout_s)), context=context).data == 7


def test_a_body_that_did_not_begin_in_time_never_begins(ledger):
    """Whichever came first: what the ledger says and what happened agree."""
    ran = []

    def body() -> int:
        ran.append(1)
        return 7

    harness = Harness(registry_of(body, timeout_s=BLINK, **WRITE), ledger=ledger)
    for number in range(50):
        ran.clear()
        assert code(ask(harness, call_id=f"c-{number}")) in ("outcome_unknown", "ok")
        until(lambda: harness.pool.abandoned == 0)
        [entry] = [entry for entry in ledger.entries() if entry.call_id == f"c-{number}"]
        assert not entry.live and (entry.state is State.DONE) == (ran == [1])


def in_s(seconds):
    return AMIRA.model_copy(update={"deadline": time.monotonic() + seconds})


def test_the_deadline_cuts_a_read_short(gate):
    harness = Harness(registry_of(lambda: gate.wait(30), timeout_s=2))
    result = ask(harness, context=in_s(0.5))
    assert code(result) == "budget_exceeded" and not result.error.retryable and harness.pool.abandoned == 1


def test_of_a_write_cut_by_the_deadline_nobody_knows(ledger, gate):
    ran, harness = hanging(ledger, gate, lambda: 7, timeout_s=30)
    context = in_s(0.5)
    assert code(ask(harness, context=context)) == "outcome_unknown"
    gate.set()
    until(lambda: only(ledger).state is State.DONE)
    assert ask(harness, context=context).data == 7 and ran == [1]


@pytest.mark.parametrize("timeout_s", [None, 30], ids=label)
@pytest.mark.parametrize("deadline", [math.nan, -math.inf, 0.0], ids=label)
def test_after_the_deadline_nothing_runs_and_the_key_is_free(ledger, timeout_s, deadline):
    ran = []
    harness = Harness(registry_of(lambda: ran.append(1), timeout_s=timeout_s, **WRITE), ledger=ledger)
    result = ask(harness, context=AMIRA.model_copy(update={"deadline": deadline}))
    assert code(result) == "budget_exceeded" and not ran and only(ledger).state is State.FREE
    assert ask(harness).ok and ran == [1]


def test_eight_are_left_behind_and_no_ninth_is_begun(ledger, gate):
    ran = []

    def body(hang: bool) -> int:
        ran.append(hang)
        if hang:
            gate.wait(30)
        return 7

    harness = Harness(registry_of(body, timeout_s=SOON, **WRITE), ledger=ledger)
    for number in range(8):
        assert ask(harness, call_id=f"quick-{number}", hang=False).ok, "those left behind block no later call"
        assert code(ask(harness, call_id=f"slow-{number}", hang=True)) == "outcome_unknown"
    ran.clear()
    refused = ask(harness, call_id="ninth", hang=False)
    assert code(refused) == "unavailable" and refused.error.retryable and not ran
    assert [entry.state for entry in ledger.entries() if entry.call_id == "ninth"] == [State.FREE]
    gate.set()
    until(lambda: harness.pool.abandoned == 0)
    assert ask(harness, call_id="ninth", hang=False).ok and ran == [False]


def test_where_no_thread_can_be_had_nothing_runs(ledger, monkeypatch):
    ran = []

    def no_thread(self):
        raise RuntimeError("can't start new thread")

    harness = Harness(registry_of(lambda: ran.append(1), **WRITE), ledger=ledger)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", no_thread)
        assert code(ask(harness)) == "unavailable"
    assert not ran and only(ledger).state is State.FREE and ask(harness).ok


LEFT_BEHIND = """
import asyncio, sys, threading, time
from keel import ExecutionContext, Harness, Principal, ToolCall, ToolRegistry
from keel.idempotency import SqliteLedger

registry = ToolRegistry()
options = dict(read_only=False, permission="w", needs_approval=False, timeout_s=0.05)

@registry.tool(**options)
def sync() -> int:
    time.sleep(1000)

@registry.tool(**options)
async def cancelled() -> int:
    await asyncio.sleep(1000)

@registry.tool(**options)
async def deaf() -> int:
    while True:
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            pass

@registry.tool(**options)
async def blocking() -> int:
    time.sleep(1000)

@registry.tool(**options)
async def threaded() -> int:
    await asyncio.to_thread(time.sleep, 1000)

harness = Harness(registry, ledger=SqliteLedger(sys.argv[2]))
context = ExecutionContext(principal=Principal(id="a", permissions=["w"]))
result = harness.execute(ToolCall(call_id="c-1", name=sys.argv[1], arguments={}), context)
print(result.error.code)
"""


def run_script(script, *arguments):
    environment = os.environ | {"PYTHONPATH": os.path.dirname(os.path.dirname(workers.__file__))}
    command = [sys.executable, "-X", "dev", "-W", "ignore", "-c", script, *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("body", ["sync", "cancelled", "deaf", "blocking", "threaded"])
def test_what_was_left_behind_does_not_keep_the_program_from_ending(body, tmp_path):
    done = run_script(LEFT_BEHIND, body, tmp_path / "ledger.db")
    assert (done.returncode, done.stdout, done.stderr) == (0, "outcome_unknown\n", "")


FORKED = """
import os, sys
from keel import ExecutionContext, Harness, Principal, ToolCall, ToolRegistry
from keel.idempotency import SqliteLedger

registry = ToolRegistry()
options = dict(read_only=False, permission="w", needs_approval=False)

@registry.tool(**options)
def sync(n: int) -> int:
    return n

@registry.tool(**options)
async def on_loop(n: int) -> int:
    return n

harness = Harness(registry, ledger=SqliteLedger(sys.argv[1]))
context = ExecutionContext(principal=Principal(id="a", permissions=["w"]))

def call(n):
    calls = [ToolCall(call_id=f"{name}-{n}", name=name, arguments={"n": n}) for name in ("sync", "on_loop")]
    return [result.data for result in harness.execute_many(calls, context)]

assert call(1) == [1, 1]
harness.pool.abandoned = 8
child = os.fork()
if child == 0:
    os._exit(0 if call(2) == [2, 2] and harness.pool.abandoned == 0 else 7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
harness.pool.abandoned = 0
assert call(3) == [3, 3] and call(2) == [2, 2]
print("both")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_child_can_call_tools_and_so_can_its_parent(tmp_path):
    done = run_script(FORKED, tmp_path / "ledger.db")
    assert (done.returncode, done.stdout) == (0, "both\n"), done.stderr


def test_a_body_may_call_the_harness_as_deep_as_it_likes():
    registry = ToolRegistry()
    harness = Harness(registry)

    @registry.tool(read_only=True, timeout_s=20)
    def down(levels: int) -> int:
        return 1 + ask(harness, "down", levels=levels - 1).data if levels else 0

    assert ask(harness, "down", levels=30).data == 30


def test_a_hundred_threads_at_once_get_their_own_answers(ledger):
    together = threading.Barrier(100)

    def body(n: int) -> int:
        together.wait(30)
        return n

    harness = Harness(registry_of(body, **WRITE), ledger=ledger)
    with ThreadPoolExecutor(100) as pool:
        results = list(pool.map(lambda n: ask(harness, call_id=f"c-{n}", n=n), range(100)))
    assert [(result.call_id, result.data) for result in results] == [(f"c-{n}", n) for n in range(100)]


def test_workers_are_kept():
    seen = []
    harness = Harness(registry_of(lambda: seen.append(threading.current_thread())))
    before = len(keel_threads())
    assert all(ask(harness).ok for _ in range(1000))
    # One that has just answered may not rest yet when the next call comes.
    assert len(set(seen)) <= 5 and len(keel_threads()) <= before + 5


def test_workers_that_rest_long_end(monkeypatch):
    monkeypatch.setattr(workers, "_IDLE_S", 0.02)
    before = set(keel_threads())
    harness = Harness(registry_of(lambda: 7))
    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(lambda _: ask(harness).ok, range(50)))
    until(lambda: set(keel_threads()) <= before)
    assert ask(harness).ok


def test_a_harness_that_is_dropped_leaves_no_thread(monkeypatch):
    monkeypatch.setattr(workers, "_IDLE_S", 0.02)
    before = set(keel_threads())

    async def body() -> int:
        return await asyncio.to_thread(lambda: 7)

    harness = Harness(registry_of(body))
    assert ask(harness).data == 7 and set(keel_threads()) - before
    del harness
    gc.collect()
    until(lambda: set(keel_threads()) <= before)


def test_a_harness_that_is_dropped_still_tells_its_ledger(ledger, gate):
    _, harness = hanging(ledger, gate, lambda: 7)
    ask(harness)
    del harness
    gc.collect()
    gate.set()
    until(lambda: only(ledger).state is State.DONE)


def interrupt_caller(harness):
    """Interrupt the main thread, which waits for the body that calls this."""
    last = time.monotonic() + 20
    while harness.pool.abandoned == 0 and time.monotonic() < last:
        time.sleep(0.02)  # a signal that comes just before the waiting begins does not end it
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        again = time.monotonic() + 2
        while harness.pool.abandoned == 0 and time.monotonic() < again:
            time.sleep(0.002)


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="no signal can be sent to a thread here")
def test_the_callers_own_interrupt_passes_and_the_ledger_learns_the_rest(ledger, gate):
    ran = []

    def body() -> int:
        ran.append(1)
        if len(ran) == 1:
            interrupt_caller(harness)
            gate.wait(30)
        return 7

    harness = Harness(registry_of(body, **WRITE), ledger=ledger)
    with pytest.raises(KeyboardInterrupt):
        ask(harness)
        time.sleep(30)  # where the signal comes in, if not in the call
    assert only(ledger).state is State.UNKNOWN and harness.pool.abandoned == 1
    gate.set()
    until(lambda: only(ledger).state is State.DONE)
    assert ask(harness).data == 7 and ran == [1]


def test_whoever_is_interrupted_when_the_body_has_just_ended_loses_nothing():
    told = []
    pool = workers.Pool()
    job = pool.start(lambda: 7, told.append)
    assert job.wait(30)
    job.forsake()
    job.forsake()
    assert told == [job] and job.returned == 7 and pool.abandoned == 0


def test_a_job_that_is_forsaken_before_it_begins_never_begins():
    ran, told = [], []
    pool = workers.Pool()
    job = pool.job(lambda: ran.append(1), told.append)
    job.forsake()
    pool.begin(job)
    assert pool.start(lambda: 8).wait(30)
    assert told == [job] and not ran and isinstance(job.raised, TimeoutError) and pool.abandoned == 0

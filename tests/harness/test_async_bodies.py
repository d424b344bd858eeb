"""Async bodies run on a loop of the harness's own: cancelled in time, in no other's way, inside Jupyter's loop too."""

import asyncio
import gc
import sys
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import ContextVar

import pytest

from keel import Harness, ToolCall, ToolFailure, ToolRegistry, workers
from keel.idempotency import State
from keel.settling import NotHappened

from .kit import AMIRA, code, label, registry_of
from .test_workers import FROM_INSIDE, SOON, WRITE, Trap, ask, only, until

WHO = ContextVar("who", default="nobody")


async def quick() -> int:
    return 7


async def passes(gate):
    """Wait for a gate of threads without blocking the loop."""
    while not gate.is_set():
        await asyncio.sleep(0.002)


def two_tools(slow, timeout_s=SOON):
    """A harness with a tool that is `slow`, and one that is quick."""
    registry = ToolRegistry()
    registry.tool(slow, name="slow", read_only=True, timeout_s=timeout_s)
    registry.tool(quick, name="quick", read_only=True, timeout_s=5)
    return Harness(registry)


def test_they_share_one_loop_in_a_thread_of_its_own():
    async def where() -> list[int]:
        return [id(asyncio.get_running_loop()), threading.get_ident()]

    harness = Harness(registry_of(where))
    [loop, thread], *others = [ask(harness).data for _ in range(20)]
    assert all(other == [loop, thread] for other in others) and thread != threading.get_ident()


def test_at_the_timeout_they_are_cancelled():
    cleaned = threading.Event()

    async def body() -> int:
        try:
            await asyncio.sleep(60)
        finally:
            cleaned.set()

    harness = Harness(registry_of(body, timeout_s=SOON))
    assert code(ask(harness)) == "timeout"
    assert cleaned.wait(20)
    until(lambda: harness.pool.abandoned == 0)


@pytest.mark.parametrize("timeout_s", [None, 5], ids=label)
def test_all_of_it_works_inside_a_running_loop(timeout_s):
    harness = two_tools(lambda: 8, timeout_s)

    async def slow() -> int:
        await asyncio.sleep(60)

    impatient = two_tools(slow)

    async def cell():
        return [ask(harness, "quick").data, ask(harness, "slow").data, code(ask(impatient, "slow"))]

    assert asyncio.run(cell()) == [7, 8, "timeout"]


def test_without_a_timeout_they_run_on_the_loop_as_well(gate):
    async def body() -> int:
        await passes(gate)
        return threading.get_ident()

    harness = Harness(registry_of(body, timeout_s=None))
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(ask, harness)
        gate.set()
        assert answer.result(20).data != threading.get_ident()


def test_one_that_is_deaf_to_the_cancellation_is_left_behind_and_counted(gate):
    async def deaf() -> int:
        while not gate.is_set():
            with suppress(asyncio.CancelledError):
                await passes(gate)
        return 1

    harness = two_tools(deaf)
    for number in range(1, 9):
        assert code(ask(harness, "slow")) == "timeout" and harness.pool.abandoned == number
        assert number == 8 or ask(harness, "quick").data == 7
    assert code(ask(harness, "quick")) == "unavailable"
    gate.set()
    until(lambda: harness.pool.abandoned == 0)
    assert ask(harness, "quick").data == 7


def test_one_that_blocks_the_loop_blocks_no_later_call(gate):
    async def blocks() -> int:
        gate.wait(30)
        return 1

    harness = two_tools(blocks)
    assert code(ask(harness, "slow")) == "timeout"
    assert ask(harness, "quick").data == 7 and harness.pool.abandoned == 1
    gate.set()
    until(lambda: harness.pool.abandoned == 0)


def test_not_even_while_it_still_has_time(gate):
    inside = threading.Event()

    async def blocks() -> int:
        inside.set()
        gate.wait(30)
        return 1

    harness = two_tools(blocks, timeout_s=60)
    with ThreadPoolExecutor(1) as pool:
        blocked = pool.submit(ask, harness, "slow")
        assert inside.wait(20)
        assert [ask(harness, "quick").data for _ in range(5)] == [7] * 5
        gate.set()
        assert blocked.result(20).data == 1 and harness.pool.abandoned == 0


def test_a_body_sees_what_its_caller_has_set():
    async def on_loop() -> str:
        return WHO.get()

    def in_worker() -> str:
        return WHO.get()

    for body, timeout_s in ((on_loop, 5), (on_loop, None), (in_worker, 5), (in_worker, None)):
        harness = Harness(registry_of(body, timeout_s=timeout_s))
        for who in ("amira", "bo"):
            before = WHO.set(who)
            try:
                assert ask(harness).data == who
                turn = [ToolCall(call_id=f"c-{n}", name="tool", arguments={}) for n in range(5)]
                assert [result.data for result in harness.execute_many(turn, AMIRA)] == [who] * 5
            finally:
                WHO.reset(before)


@pytest.mark.parametrize("raised", [*FROM_INSIDE, Trap(), ValueError(), ToolFailure("timeout", "-")], ids=label)
def test_what_it_raises_is_a_failure_like_any_other(raised, ledger):
    async def body() -> int:
        raise raised

    reads = Harness(registry_of(body))
    assert code(ask(reads)) == "tool_failed" and reads.pool.abandoned == 0
    writes = Harness(registry_of(body, **WRITE), ledger=ledger)
    assert code(ask(writes)) == "outcome_unknown" and writes.pool.abandoned == 0
    assert (only(ledger).state, only(ledger).live) == (State.UNKNOWN, False)


def test_a_declared_failure_is_passed_on(ledger):
    async def body() -> int:
        raise ToolFailure("desk_closed", "The desk is closed.", retryable=True)

    result = ask(Harness(registry_of(body, errors=["desk_closed"], **WRITE), ledger=ledger))
    assert (result.error.code, result.error.message) == ("desk_closed", "The desk is closed.")
    assert only(ledger).state is State.FREE


async def stops_the_loop() -> int:
    asyncio.get_running_loop().stop()
    await asyncio.sleep(0.001)
    return 1


async def leaves_a_task_that_exits() -> int:
    async def exits():
        sys.exit(3)

    task = asyncio.ensure_future(exits())
    await asyncio.wait([task])
    task.exception()
    return 1


async def closes_the_loop() -> int:
    asyncio.get_running_loop().close()
    return 1


@pytest.mark.parametrize("vandal", [stops_the_loop, leaves_a_task_that_exits, closes_the_loop], ids=label)
def test_nobody_takes_the_loop_from_the_others(vandal, gate):
    async def waits() -> int:
        await passes(gate)
        return 1

    registry = ToolRegistry()
    for body in (vandal, waits, quick):
        registry.tool(body, read_only=True, timeout_s=5)
    harness = Harness(registry)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(ask, harness, "waits")
        assert code(ask(harness, vandal.__name__)) in ("ok", "tool_failed")
        assert ask(harness, "quick").data == 7
        gate.set()
        assert waiting.result(20).data == 1


def test_one_that_closes_the_loop_behind_our_back_is_in_nobodys_way():
    loops = []

    async def catches() -> int:
        loops.append(asyncio.get_running_loop())
        return 1

    registry = ToolRegistry()
    for body in (catches, quick):
        registry.tool(body, read_only=True, timeout_s=20)
    harness = Harness(registry)
    assert ask(harness, "catches").ok
    loops[0].call_soon_threadsafe(loops[0].stop)
    # Between two runs of the loop nobody may be inside it, and it can be closed: tried until it is.
    for _ in range(10000):
        if loops[0].is_closed():
            break
        try:
            loops[0].close()
        except RuntimeError:
            loops[0].call_soon_threadsafe(loops[0].stop)
    assert ask(harness, "quick").data == 7 and ask(harness, "catches").ok


def test_of_a_write_that_takes_too_long_nobody_knows_until_it_ends(ledger, gate):
    ran = []

    async def body() -> int:
        ran.append(1)
        while not gate.is_set():
            with suppress(asyncio.CancelledError):
                await passes(gate)
        return 7

    harness = Harness(registry_of(body, timeout_s=SOON, **WRITE), ledger=ledger)
    assert code(ask(harness)) == "outcome_unknown" and only(ledger).live
    assert code(ask(harness)) == "outcome_unknown"
    gate.set()
    until(lambda: only(ledger).state is State.DONE)
    assert (ask(harness).data, ran) == (7, [1])


def test_one_that_was_cancelled_stays_unknown_and_may_be_asked_about(ledger):
    async def body() -> int:
        await asyncio.sleep(60)

    options = WRITE | {"timeout_s": SOON, "check_status": lambda values, context: NotHappened()}
    harness = Harness(registry_of(body, **options), ledger=ledger)
    assert code(ask(harness)) == "outcome_unknown"
    until(lambda: not only(ledger).live)
    assert only(ledger).state is State.UNKNOWN
    assert [looked.after for looked in harness.reconcile()] == [State.FREE]


def test_what_it_gave_to_a_thread_may_still_happen(ledger, gate):
    """The coroutine can be cancelled and its thread cannot: the key is not free before both are over."""
    effects, cancelled = [], threading.Event()

    def effect():
        gate.wait(30)
        effects.append(1)

    async def body() -> int:
        try:
            await asyncio.to_thread(effect)
        finally:
            cancelled.set()

    options = WRITE | {"timeout_s": SOON, "check_status": lambda values, context: NotHappened()}
    harness = Harness(registry_of(body, **options), ledger=ledger)
    assert code(ask(harness)) == "outcome_unknown" and cancelled.wait(20)
    for _ in range(20):
        time.sleep(0.005)  # for the word of the end, which must not come
        harness.reconcile()
        assert code(ask(harness)) == "outcome_unknown" and harness.pool.abandoned == 1
    gate.set()
    until(lambda: not only(ledger).live)
    assert effects == [1] and only(ledger).state is State.UNKNOWN
    until(lambda: harness.pool.abandoned == 0)


def test_hanging_threads_are_counted_and_in_nobodys_way(gate):
    async def slow() -> int:
        await asyncio.to_thread(gate.wait, 30)

    registry = ToolRegistry()
    registry.tool(slow, read_only=True, timeout_s=SOON)

    @registry.tool(read_only=True, timeout_s=20)
    async def threaded() -> list[int]:
        return list(await asyncio.gather(*(asyncio.to_thread(lambda n=n: n) for n in range(20))))

    harness = Harness(registry)
    for number in range(1, 9):
        assert code(ask(harness, "slow")) == "timeout" and harness.pool.abandoned == number
        assert number == 8 or ask(harness, "threaded").data == list(range(20))
    assert code(ask(harness, "threaded")) == "unavailable"
    gate.set()
    until(lambda: harness.pool.abandoned == 0)


def test_a_thread_says_what_it_raised():
    async def body() -> str:
        def breaks():
            raise LookupError("from the thread")

        try:
            await asyncio.to_thread(breaks)
        except LookupError as error:
            return str(error)

    assert ask(Harness(registry_of(body))).data == "from the thread"


def test_a_thread_that_outlives_its_body_holds_up_no_answer(gate):
    async def body() -> int:
        asyncio.get_running_loop().run_in_executor(None, gate.wait, 30)
        return 7

    assert ask(Harness(registry_of(body, timeout_s=20))).data == 7


def test_sync_and_async_bodies_may_call_each_other_through_the_harness():
    registry = ToolRegistry()
    harness = Harness(registry)

    def deeper(levels: int) -> int:
        name = "on_loop" if levels % 2 else "in_worker"
        return 1 + ask(harness, name, levels=levels - 1).data if levels else 0

    @registry.tool(read_only=True, timeout_s=30)
    def in_worker(levels: int) -> int:
        return deeper(levels)

    @registry.tool(read_only=True, timeout_s=30)
    async def on_loop(levels: int) -> int:
        return deeper(levels)

    @registry.tool(read_only=True, timeout_s=30)
    async def only_loops(levels: int) -> int:
        return 1 + ask(harness, "only_loops", levels=levels - 1).data if levels else 0

    assert ask(harness, "on_loop", levels=6).data == 6
    assert ask(harness, "only_loops", levels=30).data == 30
    assert harness.pool.abandoned == 0


def test_a_hundred_at_once_get_their_own_answers(ledger):
    entered = []

    async def body(n: int) -> int:
        entered.append(n)
        while len(entered) < 100:
            await asyncio.sleep(0.002)
        return n

    harness = Harness(registry_of(body, **WRITE), ledger=ledger)
    with ThreadPoolExecutor(100) as pool:
        results = list(pool.map(lambda n: ask(harness, call_id=f"c-{n}", n=n), range(100)))
    assert [(result.call_id, result.data) for result in results] == [(f"c-{n}", n) for n in range(100)]


def test_an_object_that_is_called_like_a_coroutine_function_is_one():
    class Client:
        async def __call__(self, n: int) -> int:
            await asyncio.sleep(0)
            return n

    assert ask(Harness(registry_of(Client())), n=4).data == 4


class Big(dict):
    """Something that a body returns and that can be watched."""


@pytest.fixture
def no_gc():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("on_loop", [False, True])
def test_nothing_keeps_the_last_result_alive(on_loop, fails, no_gc, monkeypatch):
    monkeypatch.setattr(workers, "_IDLE_S", 60)
    watched = []

    def body():
        big = Big(n=7)
        watched.append(weakref.ref(big))
        if fails:
            raise ValueError("with the big one in its frame")
        return big

    async def async_body():
        return body()

    harness = Harness(registry_of(async_body if on_loop else body))
    result = ask(harness)
    assert result.data == (None if fails else {"n": 7})
    until(lambda: watched[0]() is None)

"""All calls of one turn: one answer each, in their order, whatever finishes first and whoever fails."""

import itertools
import signal
import threading
import time

import pytest

from keel import Harness, ToolCall, ToolFailure, ToolRegistry, ToolRequest
from keel.idempotency import MemoryLedger, State
from keel.turns import WIDTH, Place, run_turn
from keel.workers import Pool

from .kit import AMIRA, code
from .test_workers import SOON, WRITE, interrupt_caller, until


def read(function, registry, **options):
    registry.tool(function, **({"read_only": True, "timeout_s": 30} | options))


def call(name, number=0, **arguments):
    return ToolCall(call_id=f"c-{number}", name=name, arguments=arguments)


def many(registry, turn, ledger=None, **options):
    numbers = itertools.count()
    harness = Harness(registry, ledger=ledger or MemoryLedger(), mint=lambda: f"minted-{next(numbers)}")
    return harness.execute_many(turn, AMIRA, **options)


def ids(results):
    return [result.call_id for result in results]


def data(results):
    return [result.data for result in results]


@pytest.mark.parametrize("number", [2, 3, WIDTH, WIDTH + 1])
@pytest.mark.parametrize("on_loop", [False, True])
def test_reads_run_side_by_side(number, on_loop):
    registry, inside, all_in = ToolRegistry(), [], threading.Event()

    def meet(n: int) -> int:
        inside.append(n)
        if len(inside) == number:
            all_in.set()
        assert all_in.wait(20), "the others never came in"
        return n

    async def meet_on_loop(n: int) -> int:
        import asyncio

        return await asyncio.to_thread(meet, n)

    read(meet_on_loop if on_loop else meet, registry, name="meet")
    results = many(registry, [call("meet", n, n=n) for n in range(number)])
    assert data(results) == list(range(number)) and ids(results) == [f"c-{n}" for n in range(number)]


def test_answers_come_in_the_order_of_the_calls_and_not_of_their_ends():
    registry = ToolRegistry()
    done = [threading.Event() for _ in range(6)]

    def after_the_next(n: int) -> int:
        assert n == 5 or done[n + 1].wait(20)
        done[n].set()
        return n

    read(after_the_next, registry)
    assert data(many(registry, [call("after_the_next", n, n=n) for n in range(6)])) == list(range(6))


def diary(registry, **options):
    """A read and a write that write down when they begin and end."""
    lines = []

    def note(kind, n):
        lines.append(f"{kind}{n} in")
        time.sleep(0.005)  # long enough for whoever may run beside it to begin
        lines.append(f"{kind}{n} out")
        return n

    def look(n: int) -> int:
        return note("r", n)

    def change(n: int) -> int:
        return note("w", n)

    read(look, registry)
    registry.tool(change, **(WRITE | options))
    return lines


@pytest.mark.parametrize("timeout_s", [None, 30])
def test_a_write_is_a_barrier_both_ways(ledger, timeout_s):
    registry = ToolRegistry()
    lines = diary(registry, timeout_s=timeout_s)
    kinds = "rrrwrrwwrr"
    names = {"r": "look", "w": "change"}
    results = many(registry, [call(names[kind], n, n=n) for n, kind in enumerate(kinds)], ledger)
    assert data(results) == list(range(10)) and ids(results) == [f"c-{n}" for n in range(10)]
    for n, kind in enumerate(kinds):
        if kind == "w":
            before = {f"{kinds[m]}{m} {end}" for m in range(n) for end in ("in", "out")}
            at = lines.index(f"w{n} in")
            assert set(lines[:at]) == before and lines[at + 1] == f"w{n} out"


def test_a_write_is_judged_just_before_it_runs(ledger):
    registry, left = ToolRegistry(), [2]

    def some_left(values, context):
        return None if left[0] > 0 else "There is none left."

    def own_team(tool, values, context):
        return left[0] > 1

    def take() -> int:
        left[0] -= 1
        return left[0]

    registry.tool(take, name="take", rules=[some_left], **WRITE)
    registry.tool(take, name="take_one_of_two", policies=[own_team], **WRITE)
    results = many(registry, [call("take", n) for n in range(4)], ledger)
    assert [code(result) for result in results] == ["ok", "ok", "rule_violated", "rule_violated"] and left == [0]
    left[0] = 2
    results = many(registry, [call("take_one_of_two", n) for n in range(10, 13)], ledger)
    assert [code(result) for result in results] == ["ok", "permission_denied", "permission_denied"] and left == [1]


def failing(registry, gate):
    def breaks() -> int:
        raise SystemExit(1)

    def hangs() -> int:
        gate.wait(30)

    def quick(n: int) -> int:
        return n

    for body in (breaks, quick):
        read(body, registry)
    read(hangs, registry, timeout_s=SOON)
    read(lambda: 1, registry, name="refuses", rules=[lambda values, context: "No."])
    registry.tool(breaks, name="write_breaks", **WRITE)
    registry.tool(hangs, name="write_hangs", **(WRITE | {"timeout_s": SOON}))


BAD = [
    (call("no_such_tool", 1), "unknown_tool"),
    (call("breaks", 1), "tool_failed"),
    (call("hangs", 1), "timeout"),
    (call("refuses", 1), "rule_violated"),
    (call("quick", 1, n="one"), "invalid_arguments"),
    (call("write_breaks", 1), "outcome_unknown"),
    (call("write_hangs", 1), "outcome_unknown"),
    (ToolRequest(name="quick", arguments="{cut"), "invalid_arguments"),
    (ToolRequest(name="read-file"), "unknown_tool"),
    (ToolRequest(), "unknown_tool"),
]


@pytest.mark.parametrize(("bad", "expected"), BAD, ids=range(len(BAD)))
def test_one_that_fails_takes_no_sibling_down(bad, expected, gate):
    registry = ToolRegistry()
    failing(registry, gate)
    results = many(registry, [call("quick", 0, n=0), bad, call("quick", 2, n=2), call("quick", 3, n=3)])
    assert [code(result) for result in results] == ["ok", expected, "ok", "ok"]
    assert data(results) == [0, None, 2, 3]
    assert ids(results) == ["c-0", "minted-0" if isinstance(bad, ToolRequest) else "c-1", "c-2", "c-3"]


def test_nor_do_all_of_them_at_once(gate):
    registry = ToolRegistry()
    failing(registry, gate)
    turn = [one for bad, _ in BAD for one in (bad, call("quick", 9, n=9))]
    expected = [one for _, expected in BAD for one in (expected, "ok")]
    assert [code(result) for result in many(registry, turn)] == expected


def test_an_empty_turn_has_no_answers():
    assert many(ToolRegistry(), []) == []


def test_two_hundred_reads():
    registry = ToolRegistry()
    read(lambda: threading.get_ident(), registry, name="where")
    before = threading.active_count()
    results = many(registry, [call("where", n) for n in range(200)])
    assert ids(results) == [f"c-{n}" for n in range(200)] and all(result.ok for result in results)
    assert threading.active_count() <= before + 3 * WIDTH


def test_a_turn_may_come_from_a_generator():
    registry = ToolRegistry()
    read(lambda: 1, registry, name="one")
    assert data(many(registry, (call("one", n) for n in range(3)))) == [1, 1, 1]


def test_calls_and_requests_may_be_mixed_and_ids_may_repeat():
    registry = ToolRegistry()

    def echo(n: int) -> int:
        return n

    read(echo, registry)
    turn = [
        ToolRequest(provider_id="same", name="echo", arguments='{"n": 0}'),
        call("echo", 7, n=1),
        ToolRequest(provider_id="same", name="echo", arguments={"n": 2}),
        call("echo", 7, n=3),
        ToolRequest(provider_id="", name="echo", arguments={"n": 4}),
        ToolRequest(name="echo", arguments={"n": 5}),
    ]
    results = many(registry, turn)
    assert data(results) == [0, 1, 2, 3, 4, 5]
    assert ids(results) == ["minted-0", "c-7", "minted-1", "c-7", "minted-2", "minted-3"]


def counting(registry, **options):
    effects = []

    def add(n: int = 0) -> int:
        effects.append(n)
        return len(effects)

    registry.tool(add, **(WRITE | options))
    return effects


def test_equal_keys_in_one_turn_make_one_effect(ledger):
    registry = ToolRegistry()
    effects = counting(registry, idempotency_key=lambda values, context: "the one order")
    turn = [call("add", n) for n in range(3)] + [call("add", 3, n=1)]
    results = many(registry, [*turn, ToolRequest(name="add", arguments="")], ledger)
    assert [code(result) for result in results] == ["ok", "ok", "ok", "idempotency_conflict", "ok"]
    assert data(results) == [1, 1, 1, None, 1] and effects == [0]
    assert ids(results) == ["c-0", "c-1", "c-2", "c-3", "minted-0"]


def test_a_call_id_that_repeats_is_the_same_call(ledger):
    registry = ToolRegistry()
    effects = counting(registry)
    results = many(registry, [call("add", 1), call("add", 1), call("add", 1, n=2), call("add", 2)], ledger)
    assert [code(result) for result in results] == ["ok", "ok", "idempotency_conflict", "ok"]
    assert data(results) == [1, 1, None, 2] and effects == [0, 0]


def test_what_has_not_begun_when_the_caller_gives_up_is_cancelled(ledger):
    registry, cancel = ToolRegistry(), threading.Event()
    effects = counting(registry)
    cancel.set()
    turn = [call("add", 1), call("add", 2), call("no_such_tool", 3), ToolRequest(name="add", arguments="{")]
    results = many(registry, turn, ledger, cancel=cancel)
    assert [code(result) for result in results] == ["cancelled", "cancelled", "cancelled", "invalid_arguments"]
    assert ids(results) == ["c-1", "c-2", "c-3", "minted-0"] and not effects and not list(ledger.entries())
    assert [result.tool_name for result in results] == ["add", "add", "no_such_tool", "add"]


def test_what_has_begun_gets_its_real_answer(ledger):
    registry, cancel = ToolRegistry(), threading.Event()
    effects = counting(registry)
    both_in = threading.Barrier(3)

    def look(n: int) -> int:
        both_in.wait(20)
        assert cancel.wait(20)
        return n

    read(look, registry)

    def gives_up():
        both_in.wait(20)
        cancel.set()

    caller = threading.Thread(target=gives_up)
    caller.start()
    turn = [call("look", 0, n=0), call("look", 1, n=1), call("add", 2), call("look", 3, n=3)]
    results = many(registry, turn, ledger, cancel=cancel)
    caller.join()
    assert [code(result) for result in results] == ["ok", "ok", "cancelled", "cancelled"]
    assert data(results) == [0, 1, None, None] and not effects


def test_a_write_that_gives_up_for_the_rest_has_happened_itself(ledger):
    registry, cancel = ToolRegistry(), threading.Event()

    def last() -> int:
        cancel.set()
        return 7

    registry.tool(last, **WRITE)
    results = many(registry, [call("last", 0), call("last", 1)], ledger, cancel=cancel)
    assert [code(result) for result in results] == ["ok", "cancelled"] and results[0].data == 7


def test_what_is_cancelled_carries_the_version_that_it_is_given():
    cancel = threading.Event()
    cancel.set()
    turn = [call("known", 0), call("unknown", 1)]
    versions = {"known": "2.0"}
    results = run_turn(
        turn, lambda one: Place.HERE, lambda one: None, Pool(), cancel, lambda one: versions.get(one.name)
    )
    assert [result.tool_version for result in results] == ["2.0", None]


def test_reads_without_a_timeout_stay_in_the_callers_thread():
    registry, meet = ToolRegistry(), threading.Barrier(2)

    def here() -> int:
        meet.wait(20)  # while it runs here, the one aside runs too
        return threading.get_ident()

    def aside() -> int:
        meet.wait(20)
        return threading.get_ident()

    read(here, registry, timeout_s=None)
    read(aside, registry)
    results = data(many(registry, [call("here", 0), call("aside", 1), call("aside", 2), call("here", 3)]))
    assert results[0] == results[3] == threading.get_ident() and threading.get_ident() not in results[1:3]


def test_the_callers_interrupt_passes_and_nothing_more_begins(ledger):
    registry = ToolRegistry()
    effects = counting(registry)

    def interrupted() -> int:
        raise KeyboardInterrupt

    registry.tool(interrupted, **(WRITE | {"timeout_s": None}))
    harness = Harness(registry, ledger=ledger)
    with pytest.raises(KeyboardInterrupt):
        harness.execute_many([call("add", 0), call("interrupted", 1), call("add", 2)], AMIRA)
    assert effects == [0]
    states = {entry.call_id: (entry.state, entry.live) for entry in ledger.entries()}
    assert states == {"c-0": (State.DONE, False), "c-1": (State.UNKNOWN, False)}


def test_among_reads_too():
    registry, begun = ToolRegistry(), []
    all_in, go_on = threading.Barrier(WIDTH + 1), threading.Event()

    def waits(n: int) -> int:
        begun.append(n)
        if len(begun) <= WIDTH:
            all_in.wait(20)
            go_on.wait(20)
        return n

    def interrupted() -> int:
        all_in.wait(20)
        raise KeyboardInterrupt

    read(waits, registry)
    read(interrupted, registry, timeout_s=None)
    harness = Harness(registry)
    with pytest.raises(KeyboardInterrupt):
        harness.execute_many([*(call("waits", n, n=n) for n in range(100)), call("interrupted", 100)], AMIRA)
    go_on.set()
    until(lambda: len(harness.pool._idle) >= WIDTH)
    assert len(begun) == WIDTH


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="no signal can be sent to a thread here")
def test_and_while_the_caller_only_waits(gate):
    registry, begun = ToolRegistry(), []

    def waits() -> int:
        begun.append(1)
        interrupt_caller(harness)
        gate.wait(30)
        return 7

    read(waits, registry)
    registry.tool(lambda: begun.append(2), name="after", **WRITE)
    harness = Harness(registry, ledger=MemoryLedger())
    with pytest.raises(KeyboardInterrupt):
        harness.execute_many([call("waits", 0), call("after", 1)], AMIRA)
        time.sleep(30)  # where the signal comes in, if not in the turn
    gate.set()
    until(lambda: harness.pool.abandoned == 0)
    assert begun == [1]


def test_where_no_worker_is_to_be_had_each_says_so_itself():
    registry, ran = ToolRegistry(), []
    read(lambda: ran.append(1), registry, name="aside")
    read(lambda: 7, registry, name="here", timeout_s=None)
    harness = Harness(registry)
    harness.pool.abandoned = harness.pool.max_abandoned
    results = harness.execute_many([call("aside", 0), call("here", 1), call("aside", 2), call("aside", 3)], AMIRA)
    assert [code(result) for result in results] == ["unavailable", "ok", "unavailable", "unavailable"]
    assert ids(results) == ["c-0", "c-1", "c-2", "c-3"] and not ran


def test_a_body_may_ask_for_a_whole_turn_itself():
    registry = ToolRegistry()
    harness = Harness(registry)

    def tree(levels: int) -> int:
        if not levels:
            return 1
        return sum(data(harness.execute_many([call("tree", n, levels=levels - 1) for n in range(3)], AMIRA)))

    read(tree, registry)
    assert tree(4) == 81


def test_a_failure_that_is_declared_is_this_calls_own():
    registry = ToolRegistry()

    def find(n: int) -> int:
        if n % 2:
            raise ToolFailure("not_found", f"There is no {n}.")
        return n

    read(find, registry, errors=["not_found"])
    results = many(registry, [call("find", n, n=n) for n in range(40)])
    assert [result.data if result.ok else result.error.message for result in results] == [
        f"There is no {n}." if n % 2 else n for n in range(40)
    ]

"""A write is killed wherever it stands, and happens once all the same: what is unknown is asked about, not repeated."""

import os
import random
import sqlite3
import sys
from collections import Counter

import pytest

from keel import Harness, SqliteLedger
from keel.ledger import State

from .killed_writer import CLERK, STEPS, Writers, count_effects, order_call, order_tools, receipt
from .kit import code

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no fork and no SIGKILL")

CLAIMED = STEPS.index("after claim")
DONE = STEPS.index("after effect")
ENDED = STEPS.index("after end")


@pytest.fixture(scope="module")
def writers():
    with Writers() as writers:
        yield writers


@pytest.fixture
def desk(tmp_path):
    return {"ledger": str(tmp_path / "ledger.db"), "effects": str(tmp_path / "effects.txt")}


def harness_at(desk):
    """What looks after a kill: another process than the one that was killed."""
    return Harness(order_tools(desk["effects"]), ledger=SqliteLedger(desk["ledger"]))


def check_after_kill(desk, what, steps, settled_between=False):
    """Whatever a killed writer left: nothing runs again by itself, the world is asked, and then it is done once."""
    harness = harness_at(desk)
    before = count_effects(desk["effects"], what)
    assert before <= 1
    first = harness.execute(order_call(what), CLERK)
    if code(first) == "outcome_unknown":
        assert "after end" not in steps, "a recorded end was lost"
        assert code(harness.execute(order_call(what), CLERK)) == "outcome_unknown"
        assert count_effects(desk["effects"], what) == before
        settled = [one for one in harness.reconcile() if f'"{what}"' in one.entry.arguments]
        assert [one.after for one in settled] == [State.DONE if before else State.FREE]
        assert count_effects(desk["effects"], what) == before
        second = harness.execute(order_call(what), CLERK)
    else:
        assert code(first) == "ok"
        assert before or settled_between or "after claim" not in steps, "a claim was lost"
        second = first
    assert second.ok and second.data == receipt(what)
    again = harness.execute(order_call(what), CLERK)
    assert again.ok and again.data == receipt(what)
    assert count_effects(desk["effects"], what) == 1
    assert code(harness.execute(order_call(what, amount=2), CLERK)) == "idempotency_conflict"
    harness.ledger.close()
    check_file(desk)
    return code(first), before


def check_file(desk):
    db = sqlite3.connect(desk["ledger"])
    assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    db.close()


@pytest.mark.parametrize("timeout_s", [None, 30.0], ids=["in the caller's thread", "in a worker"])
@pytest.mark.parametrize("step", STEPS)
def test_a_write_that_is_killed_at_a_step_happens_once(writers, desk, step, timeout_s):
    steps = writers("kill", **desk, what="paper", stop=step, timeout_s=timeout_s)
    at = STEPS.index(step)
    assert [one for one in steps if one in STEPS] == list(STEPS[: at + 1])
    seen = SqliteLedger(desk["ledger"]).entries()
    states = [entry.state for entry in seen] if at > STEPS.index("before recall") else []
    if at < CLAIMED:
        assert not states
    else:
        assert states == [State.DONE if at >= ENDED else State.RUNNING]
    first, before = check_after_kill(desk, "paper", steps)
    assert before == (at >= DONE)
    assert first == ("outcome_unknown" if CLAIMED <= at < ENDED else "ok")


def kill_at_random(writers, desk, kills, seed):
    """Kill writers at random instants, several in a row at one action, and look after each row."""
    chance = random.Random(seed)
    whole = max(writers("measure", **desk, what=f"unkilled {n}") for n in range(3))
    left, found = kills, Counter()
    while left:
        what, row, steps, earlier = f"order {left}", chance.choice([1, 1, 2, 3]), [], 0
        if chance.random() < 0.3:  # a ledger that is not there yet: its making may be killed too
            desk = desk | {"ledger": f"{desk['ledger']}-{left}"}
        for turn in range(min(row, left)):
            job = {"reconcile": turn > 0, "timeout_s": chance.choice([None, 30.0])}
            steps += writers("kill", **desk, **job, what=what, after_s=chance.uniform(0, whole))
            done = count_effects(desk["effects"], what)
            assert earlier <= done <= 1
            earlier, left = done, left - 1
        found[check_after_kill(desk, what, steps, turn > 0)] += 1
    return found


def test_a_write_that_is_killed_at_any_instant_happens_once(writers, desk):
    assert kill_at_random(writers, desk, kills=28, seed=1).total() > 10


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(10))
def test_a_thousand_kills(writers, desk, seed, tmp_path_factory):
    found = kill_at_random(writers, desk, kills=60, seed=seed)
    for n in range(4):
        for step in STEPS[1:]:
            one = {name: f"{path}-{step}-{n}".replace(" ", "-") for name, path in desk.items()}
            found[check_after_kill(one, "paper", writers("kill", **one, what="paper", stop=step))] += 1
    assert {("ok", 0), ("ok", 1), ("outcome_unknown", 0), ("outcome_unknown", 1)} <= set(found)


def test_many_processes_with_one_key_make_one_effect(writers, desk):
    answers = writers("race", **desk, what="paper", processes=8, calls=200)
    assert sum(times for *_, times in answers) == 1600
    assert {(code, str(data)) for code, data, _ in answers} <= {(None, str(receipt("paper"))), ("in_progress", "None")}
    assert count_effects(desk["effects"], "paper") == 1
    (entry,) = SqliteLedger(desk["ledger"]).entries()
    assert entry.state is State.DONE
    check_file(desk)


def test_many_processes_begin_one_ledger_together(writers, desk):
    """Short runs: its making, its first claim and the going of the first owner all fall together."""
    for n in range(25):
        one = {name: f"{path}-{n}" for name, path in desk.items()}
        answers = writers("race", **one, what="paper", processes=8, calls=5)
        assert {code for code, *_ in answers} <= {None, "in_progress"}
        assert count_effects(one["effects"], "paper") == 1


def test_a_claim_of_a_living_process_is_in_progress_and_of_a_killed_one_unknown(writers, desk):
    pid = writers("hold", **desk, what="paper")
    harness = harness_at(desk)
    assert code(harness.execute(order_call("paper"), CLERK)) == "in_progress"
    assert harness.reconcile() == []
    assert code(harness.execute(order_call("paper"), CLERK)) == "in_progress"
    writers("end", pid=pid)
    os.kill(pid, 0)  # a zombie still has its number
    assert code(harness.execute(order_call("paper"), CLERK)) == "outcome_unknown"
    writers("reap", pid=pid)
    assert code(harness.execute(order_call("paper"), CLERK)) == "outcome_unknown"
    assert count_effects(desk["effects"], "paper") == 0
    assert [one.after for one in harness.reconcile()] == [State.FREE]
    assert code(harness.execute(order_call("paper"), CLERK)) == "ok"
    assert count_effects(desk["effects"], "paper") == 1


def test_no_clock_decides_whether_an_owner_lives(writers, desk, monkeypatch):
    pid = writers("hold", **desk, what="paper")
    harness = harness_at(desk)
    for year, now in (("1970", 0.0), ("2999", 3.2e10)):
        monkeypatch.setattr("time.time", lambda now=now: now)
        with sqlite3.connect(desk["ledger"]) as db:
            db.execute("UPDATE entries SET claimed_at = ?", (f"{year}-01-01 00:00:00",))
        db.close()
        assert code(harness.execute(order_call("paper"), CLERK)) == "in_progress"
    writers("end", pid=pid)
    assert code(harness.execute(order_call("paper"), CLERK)) == "outcome_unknown"
    writers("reap", pid=pid)

"""What every ledger does: one claim per key, an end that counts once, and late news kept for a person."""

import itertools
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from keel import MemoryLedger, SqliteLedger
from keel.ledger import OPEN, UNSETTLED, Entry, LedgerUnavailable, State
from keel.sqlite_ledger import APPLICATION_ID


def entry(key="key", token="token", **fields):
    given = {"digest": "digest", "tool": "tool", "version": "1.0", "arguments": "{}", "caller": "{}", "call_id": "c-1"}
    return Entry(key=key, token=token, **given | fields)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.db"


@pytest.fixture(params=["memory", "sqlite"])
def ledger(request, path):
    return MemoryLedger() if request.param == "memory" else SqliteLedger(path)


def put(ledger, state, *, returned=True, outcome='{"data": 1}'):
    """An entry in this state, and the claim that it came from."""
    claim = ledger.claim(entry())
    if state in (State.DONE, State.FAILED, State.FREE, State.UNKNOWN):
        ledger.end(claim, state, outcome if state in (State.DONE, State.FAILED) else None, returned=returned)
    if state is State.CONFLICT:
        ledger.end(claim, State.UNKNOWN, returned=False)
        assert ledger.settle(ledger.recall("key"), State.FREE, None, "seen by hand")
        ledger.end(claim, State.DONE, outcome)
    assert ledger.recall("key").state is state
    return claim


def test_a_new_key_is_claimed_and_kept_whole(ledger):
    assert ledger.recall("key") is None
    mine = entry(digest="d", tool="t", version="2", arguments='{"a": 1}', caller='{"principal": "p"}', call_id="c-9")
    claim = ledger.claim(mine)
    assert claim.token == "token" and claim.live and claim.state is State.RUNNING
    assert ledger.recall("key") == claim == mine._replace(owner=claim.owner, live=True)


@pytest.mark.parametrize("state", [state for state in State if state is not State.FREE])
def test_a_key_that_is_held_or_settled_is_not_claimed_again(ledger, state):
    put(ledger, state)
    before = ledger.recall("key")
    assert ledger.claim(entry(token="second", digest="other")) == before
    assert ledger.recall("key") == before


def test_a_free_key_is_claimed_anew_and_remembers_its_past(ledger):
    first = ledger.claim(entry(arguments="[1]"))
    ledger.end(first, State.UNKNOWN)
    assert ledger.settle(ledger.recall("key"), State.FREE, None, "asked the shop")
    second = ledger.claim(entry(token="second", arguments="[2]", digest="new", call_id="c-2"))
    assert second.token == "second" and second.live
    now = ledger.recall("key")
    assert (now.state, now.outcome, now.returned) == (State.RUNNING, None, False)
    assert (now.arguments, now.digest, now.call_id) == ("[2]", "new", "c-2") and "asked the shop" in now.notes


@pytest.mark.parametrize("state", [State.DONE, State.FAILED, State.FREE, State.UNKNOWN])
@pytest.mark.parametrize("returned", [True, False])
def test_an_end_says_what_the_body_came_to(ledger, state, returned):
    claim = ledger.claim(entry())
    ledger.end(claim, state, "{}", returned=returned)
    now = ledger.recall("key")
    assert (now.state, now.outcome, now.returned) == (state, "{}", returned)
    assert now.live == (state is State.UNKNOWN and not returned)


def test_what_timed_out_counts_when_it_comes_in_late(ledger):
    for n, (late, state) in enumerate(itertools.product([State.DONE, State.FAILED, State.FREE], OPEN)):
        claim = ledger.claim(entry(f"key {n}", f"token {n}"))
        if state is State.UNKNOWN:
            ledger.end(claim, State.UNKNOWN, returned=False)
        ledger.end(claim, late, '"late"')
        now = ledger.recall(claim.key)
        assert (now.state, now.outcome, now.returned, now.live) == (late, '"late"', True, False)


AGREE = [(State.DONE, State.DONE), *itertools.product([State.FREE, State.FAILED], repeat=2)]
UNDECIDED = [(settled, State.UNKNOWN) for settled in (State.DONE, State.FREE, State.FAILED)]
CONTRADICT = [
    (settled, late) for settled, late in itertools.product([State.DONE, State.FREE, State.FAILED], repeat=2)
    if (settled, late) not in AGREE
]  # fmt: skip


def settled_before_its_end(ledger, settled):
    claim = ledger.claim(entry())
    ledger.end(claim, State.UNKNOWN, returned=False)
    assert ledger.settle(ledger.recall("key"), settled, '"by hand"', "looked")
    return claim


@pytest.mark.parametrize(("settled", "late"), [*AGREE, *UNDECIDED])
def test_a_late_end_that_agrees_or_does_not_know_changes_nothing(ledger, settled, late):
    claim = settled_before_its_end(ledger, settled)
    before = ledger.recall("key")
    ledger.end(claim, late, '"late"')
    assert ledger.recall("key") == before._replace(returned=True)


@pytest.mark.parametrize(("settled", "late"), CONTRADICT)
def test_a_late_end_that_says_the_other_thing_is_a_conflict_that_keeps_both(ledger, settled, late):
    claim = settled_before_its_end(ledger, settled)
    ledger.end(claim, late, '"late"')
    now = ledger.recall("key")
    assert now.state is State.CONFLICT and now.outcome == '"by hand"'
    assert "looked" in now.notes and '"late"' in now.notes
    for again in State:
        ledger.end(claim, again, "{}")
        assert ledger.recall("key").state is State.CONFLICT
    assert ledger.claim(entry(token="second")).token == "token"


def test_an_effect_of_an_attempt_that_was_given_up_is_a_conflict_of_the_next(ledger):
    first = settled_before_its_end(ledger, State.FREE)
    second = ledger.claim(entry(token="second"))
    for nothing in (State.FREE, State.FAILED, State.UNKNOWN):
        ledger.end(first, nothing, "{}")
        assert ledger.recall("key").state is State.RUNNING
    ledger.end(first, State.DONE, '"the first"')
    ledger.end(second, State.DONE, '"the second"')
    now = ledger.recall("key")
    assert now.state is State.CONFLICT and '"the first"' in now.notes and '"the second"' in now.notes


def test_an_end_of_nothing_is_nothing(ledger):
    claim = ledger.claim(entry())
    ledger.end(claim._replace(key="never claimed"), State.DONE, "{}")
    assert ledger.recall("never claimed") is None
    ledger.end(claim._replace(owner=claim.owner + 1), State.DONE, "{}")
    assert ledger.recall("key").state is State.RUNNING


@pytest.mark.parametrize("state", UNSETTLED)
def test_only_what_was_seen_is_settled_and_only_once(ledger, state):
    put(ledger, state)
    seen = ledger.recall("key")
    for other in (seen._replace(token="x"), seen._replace(state=State.DONE), seen._replace(notes="x")):
        assert not ledger.settle(other, State.FREE, None, "no")
    assert not ledger.settle(seen._replace(key="x"), State.FREE, None, "no")
    assert ledger.recall("key") == seen
    assert ledger.settle(seen, State.DONE, '"told"', "yes")
    assert not ledger.settle(seen, State.FREE, None, "no")
    now = ledger.recall("key")
    assert (now.state, now.outcome, now.notes) == (State.DONE, '"told"', seen.notes + "yes\n")


def test_entries_are_found_by_their_state(ledger):
    for state in (State.DONE, State.FAILED, State.FREE, State.UNKNOWN):
        ledger.end(ledger.claim(entry(state, state)), state, "{}")
    ledger.claim(entry(State.RUNNING, State.RUNNING))
    assert {one.key for one in ledger.entries()} == set(State) - {State.CONFLICT}
    assert {one.key for one in ledger.entries(*UNSETTLED)} == {"running", "unknown"}
    assert [one.key for one in ledger.entries(State.DONE)] == ["done"]
    assert not list(ledger.entries(State.CONFLICT))


KEYS = [
    "",
    "'; DROP TABLE entries; --",
    '"',
    "\\",
    "\0",
    "a\0b",
    "\u00e9",
    "e\u0301",
    "🎫",
    "%",
    "_",
    "KEY",
    "key",
    "k" * 1_000_000,
]


def test_any_text_is_a_key_and_no_two_are_one(ledger):
    for n, key in enumerate(KEYS):
        claim = ledger.claim(entry(key, str(n), arguments=key, caller=key))
        assert claim.token == str(n)
        ledger.end(claim, State.DONE, f'"{n}"')
    for n, key in enumerate(KEYS):
        found = ledger.recall(key)
        assert (found.key, found.outcome, found.arguments, found.caller) == (key, f'"{n}"', key, key)


def test_an_outcome_of_ten_megabytes_is_kept_whole(ledger):
    ledger.end(ledger.claim(entry()), State.DONE, "é" * 5_000_000)
    assert ledger.recall("key").outcome == "é" * 5_000_000


@pytest.mark.parametrize("rounds", [40])
def test_of_many_threads_one_wins(ledger, rounds):
    with ThreadPoolExecutor(8) as pool:
        for n in range(rounds):
            together = threading.Barrier(8)

            def claim(which, n=n, together=together):
                together.wait()
                return ledger.claim(entry(f"key {n}", f"{n} of {which}")).token == f"{n} of {which}"

            assert sum(pool.map(claim, range(8))) == 1


def test_of_many_who_settle_one_wins(ledger):
    with ThreadPoolExecutor(8) as pool:
        for n in range(40):
            ledger.end(ledger.claim(entry(f"key {n}", f"token {n}")), State.UNKNOWN)
            seen, together = ledger.recall(f"key {n}"), threading.Barrier(8)

            def settle(which, seen=seen, together=together):
                together.wait()
                return ledger.settle(seen, State.DONE if which % 2 else State.FREE, None, str(which))

            assert sum(pool.map(settle, range(8))) == 1


# The one in a file


@pytest.mark.parametrize("part", ["key", "arguments", "caller", "call_id", "digest"])
def test_what_a_file_cannot_hold_is_not_claimed(path, part):
    ledger = SqliteLedger(path)
    with pytest.raises(LedgerUnavailable):
        ledger.claim(entry(**{"key": "k"} | {part: "\ud800"}))
    assert not list(ledger.entries())


def test_an_owner_that_ends_and_goes_between_two_looks_has_ended(path, monkeypatch):
    ledger, other = SqliteLedger(path), SqliteLedger(path)
    claim = other.claim(entry())

    def gone_by_now(seen):
        other.end(claim, State.DONE, "{}")
        return False

    monkeypatch.setattr(ledger, "_lives", gone_by_now)
    assert ledger.recall("key").state is State.DONE


def test_an_entry_that_vanishes_is_not_taken_for_a_claim(path):
    """Another program may remove an entry just when it has been in the way."""
    ledger = SqliteLedger(path)
    ledger.claim(entry())
    ledger._recall = lambda db, key: None
    with pytest.raises(LedgerUnavailable, match="removes"):
        ledger.claim(entry(token="second"))


def test_what_marks_the_file_as_a_ledger(path):
    SqliteLedger(path).recall("key")
    db = sqlite3.connect(path)
    assert db.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
    assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    db.close()


def test_a_claim_waits_for_the_disk_and_an_end_does_not(path):
    ledger, said = SqliteLedger(path), []
    ledger.recall("key")
    ledger._db.set_trace_callback(said.append)

    def level():
        return ledger._db.execute("PRAGMA synchronous").fetchone()[0]

    for n in range(2):
        claim = ledger.claim(entry(f"key {n}", f"token {n}"))
        assert level() == 3
        ledger.end(claim, State.UNKNOWN)
        assert level() == 1
    assert ledger.settle(ledger.recall("key 0"), State.FREE, None, "asked") and level() == 3


def test_nothing_is_written_into_what_an_interrupt_left_open(path):
    ledger = SqliteLedger(path)
    ledger.recall("key")
    ledger._db.execute("BEGIN IMMEDIATE")
    ledger.claim(entry())
    assert not ledger._db.in_transaction and SqliteLedger(path).recall("key").token == "token"


def test_a_commit_that_fails_leaves_nothing_open(path):
    """On a disk without WAL a reader may be in the way of a commit: what follows must not be written into that."""
    ledger = SqliteLedger(path, patience_s=0.05)
    claim = settled_before_its_end(ledger, State.FREE)
    ledger._db.execute("PRAGMA journal_mode = DELETE")
    ledger._wal = False
    reader = sqlite3.connect(path, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM entries").fetchall()
    with pytest.raises(LedgerUnavailable, match="locked"):
        ledger._with_db(ledger._end_late, claim, State.DONE, "{}", True)
    assert not ledger._db.in_transaction
    reader.execute("COMMIT")
    reader.close()
    ledger._files = ledger._identities()
    ledger.end(claim, State.DONE, "{}")
    assert SqliteLedger(path).recall("key").state is State.CONFLICT


def test_a_process_that_leaves_its_place_reads_as_dead(path):
    ledger = SqliteLedger(path)
    claim = ledger.claim(entry())
    ledger.leave()
    assert not ledger.recall("key").live
    assert ledger.claim(entry("another", "two")).owner != claim.owner

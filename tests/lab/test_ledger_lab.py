"""The ledger lab: every step, the sequences that tell something, and the same as text and by buttons."""

import json
import subprocess
import sys
import threading
import time
from itertools import product
from pathlib import Path

import pytest

from keel.lab import drill as drill_module
from keel.lab import ledger_lab
from keel.lab.drill import PATIENCE_S, STEPS, Drill
from keel.lab.ledgers import lab_widget

ROOT = Path(__file__).parents[2]
KEY = json.dumps(["create_ticket", "amira", "ticket:INC-001"])
TELLING = [
    ("07", ["lose_answer", "call"]),
    ("07", ["hang", "call", "release", "call", "reword"]),
    ("07b", ["kill_before", "call", "reconcile", "call"]),
    ("07b", ["kill_after", "reconcile", "call", "start_over"]),
    ("07b", ["elsewhere", "call", "reconcile", "release", "call"]),
]
both_chapters = pytest.mark.parametrize("chapter", STEPS)


@pytest.fixture
def go():
    """`go("07", "call", …)` goes through steps and gives all of them."""
    drills = []

    def through(chapter, *names):
        drills.append(Drill(chapter))
        return [drills[-1].step(name) for name in names]

    yield through
    for one in drills:
        one.close()


def codes(steps):
    return [step.code for step in steps]


def ids(step):
    return [ticket.split()[0] for ticket in step.tickets]


# --- chapter 07, and what it shares with 07b ---


@both_chapters
def test_a_call_and_the_same_call_again(go, chapter):
    first, again = go(chapter, "call", "call")
    assert codes([first, again]) == ["ok", "ok"] and "T-1" in first.heard and "ledger" not in first.heard
    assert "out of the ledger" in again.heard
    assert first.entry.key == KEY and first.entry.state == "done" and first.entry.outcome == "T-1"
    assert (first.entry.live, first.entry.returned, first.entry.notes) == (False, True, ())
    assert ids(again) == ["T-1"] and again.began == 1


@both_chapters
def test_a_lost_request_and_a_lost_answer_look_the_same_in_the_ledger(go, chapter):
    requested = go(chapter, "lose_request", "call")
    answered = go(chapter, "lose_answer", "call")
    assert codes(requested) == codes(answered) == ["outcome_unknown"] * 2
    for one, other in zip(requested, answered, strict=True):
        assert one.entry == other.entry and one.heard == other.heard and one.began == other.began == 1
        assert (one.entry.state, one.entry.live, one.entry.returned) == ("unknown", False, True)
        assert (ids(one), ids(other)) == ([], ["T-1"])


@both_chapters
@pytest.mark.parametrize("before", ["call", "lose_request", "lose_answer"])
def test_other_words_under_the_same_key_are_refused(go, chapter, before):
    first, reworded = go(chapter, before, "reword")
    assert reworded.code == "idempotency_conflict"
    assert (reworded.entry, reworded.tickets, reworded.began) == (first.entry, first.tickets, first.began)


@both_chapters
def test_other_words_alone_are_just_a_call(go, chapter):
    reworded, call = go(chapter, "reword", "call")
    assert codes([reworded, call]) == ["ok", "idempotency_conflict"] and len(call.tickets) == 1


@both_chapters
def test_a_late_end_is_learned(go, chapter):
    hang, call, release, again = go(chapter, "hang", "call", "release", "call")
    assert codes([hang, call, release, again]) == ["outcome_unknown", "outcome_unknown", None, "ok"]
    assert (hang.entry.state, hang.entry.live, hang.entry.returned, ids(hang)) == ("unknown", True, False, [])
    assert (release.entry.state, release.entry.returned, ids(release)) == ("done", True, ["T-1"])
    assert "out of the ledger" in again.heard and again.began == 1 and len(again.tickets) == 1


@both_chapters
def test_a_hanging_step_comes_back(go, chapter):
    began = time.monotonic()
    go(chapter, "hang")
    assert PATIENCE_S <= time.monotonic() - began < PATIENCE_S + 5


@both_chapters
def test_starting_over(go, chapter):
    *_, over, call = go(chapter, "hang", "start_over", "call")
    assert (over.entry, over.tickets, over.began) == (None, (), 0)
    assert call.code == "ok" and ids(call) == ["T-1"] and call.began == 1


# --- chapter 07b: processes that die, or live elsewhere ---


@pytest.mark.parametrize("death, made", [("kill_before", 0), ("kill_after", 1)])
def test_a_death_is_unknown_and_nothing_runs_again(go, death, made):
    steps = go("07b", death, "call", "restart", "call")
    assert codes(steps) == [None, "outcome_unknown", None, "outcome_unknown"]
    assert steps[0].heard == "nobody heard of it"
    for step in steps:
        assert (step.entry.state, step.entry.live, step.entry.returned) == ("running", False, False)
        assert len(step.tickets) == made and step.began == 1


@pytest.mark.parametrize("death, state, began", [("kill_before", "free", 2), ("kill_after", "done", 1)])
def test_asking_the_world_after_a_death(go, death, state, began):
    _, reconcile, call = go("07b", death, "reconcile", "call")
    assert reconcile.entry.state == state and reconcile.heard.startswith(f"running becomes {state}: ")
    assert reconcile.entry.notes[0].startswith("asked the world: ")
    assert call.code == "ok" and ids(call) == ["T-1"] and call.began == began


@pytest.mark.parametrize("lost, state", [("lose_request", "free"), ("lose_answer", "done")])
def test_asking_the_world_after_a_loss(go, lost, state):
    _, reconcile, call = go("07b", lost, "reconcile", "call")
    assert reconcile.entry.state == state
    assert call.code == "ok" and ids(call) == ["T-1"]


def test_what_runs_in_another_process_is_in_progress(go):
    start, call, ask, restart, again, release, last = go(
        "07b", "elsewhere", "call", "reconcile", "restart", "call", "release", "call"
    )
    assert (start.entry.state, start.entry.live, ids(start)) == ("running", True, [])
    assert codes([call, again]) == ["in_progress"] * 2 and not ask.sense
    assert restart.entry == start.entry, "the end of this process is not the end of the other"
    assert release.heard == "in the other process, answer: ok, T-1" and release.entry.state == "done"
    assert last.code == "ok" and ids(last) == ["T-1"] and last.began == 1


def test_a_hanging_body_dies_with_its_process(go):
    _, early, restart, release, late, call = go("07b", "hang", "reconcile", "restart", "release", "reconcile", "call")
    assert early.heard.startswith("still unknown: ") and early.entry.state == "unknown"
    assert (restart.entry.live, restart.entry.returned) == (False, False) and not release.sense
    assert late.entry.state == "free" and call.code == "ok" and ids(call) == ["T-1"] and call.began == 2


@pytest.mark.parametrize(
    "death, word, state, tickets",
    [
        ("kill_before", "settle_not_happened", "free", ["T-1"]),
        ("kill_after", "settle_happened", "done", ["T-1"]),
        ("kill_before", "settle_happened", "done", []),
        ("kill_after", "settle_not_happened", "free", ["T-1", "T-2"]),
    ],
    ids=["right: not made", "right: made", "wrong: made", "wrong: not made"],
)
def test_a_persons_word_is_believed_right_or_wrong(go, death, word, state, tickets):
    _, settled, call = go("07b", death, word, "call")
    reason = settled.heard.removeprefix("kept, with the reason: ")
    assert settled.entry.state == state and settled.entry.notes == (f"settled by hand: {reason}",)
    assert call.code == "ok" and ids(call) == tickets


def test_nobody_may_say_that_a_running_body_did_nothing(go):
    for start in ("elsewhere", "hang"):
        first, said = go("07b", start, "settle_not_happened")
        assert not said.sense and "its body may still be running" in said.heard and said.entry == first.entry
    _, said, release, call = go("07b", "elsewhere", "settle_happened", "release", "call")
    assert (said.entry.state, release.entry.state, call.code) == ("done", "done", "ok") and ids(call) == ["T-1"]


def test_a_body_of_a_dead_process_does_nothing_more(go):
    before = set(threading.enumerate())
    drill = Drill("07b")
    drill.step("kill_before")
    drill.step("reconcile")
    drill.step("call")
    world, ledger = drill._world, drill._ledger
    drill.close()
    assert len(world.tickets) == 1 and next(ledger.entries()).state == "done"
    ledger.leave()
    assert not [one for one in set(threading.enumerate()) - before if one.name == "keel-drill"]


# --- steps that make no sense now ---

SENSELESS = [
    ("07", [], "release"),
    ("07", ["call"], "release"),
    ("07", ["hang", "release"], "release"),
    *[("07", [before], after) for before, after in product(("call", "hang"), ("lose_request", "lose_answer", "hang"))],
    ("07b", [], "reconcile"),
    ("07b", ["call"], "reconcile"),
    ("07b", [], "settle_happened"),
    ("07b", ["call"], "settle_happened"),
    ("07b", ["call"], "settle_not_happened"),
    ("07b", ["kill_before"], "release"),
    *[("07b", ["kill_after"], after) for after in ("kill_before", "kill_after", "elsewhere", "hang", "lose_answer")],
]


@pytest.mark.parametrize("chapter, before, senseless", SENSELESS, ids=str)
def test_a_step_that_makes_no_sense_says_so_and_changes_nothing(go, chapter, before, senseless):
    *_, last = [*go(chapter, *before, "call"), *go(chapter, *before, senseless)]
    assert not last.sense and last.code is None and last.heard.endswith(".")
    with_it, without = go(chapter, *before, senseless, "call")[-1], go(chapter, *before, "call")[-1]
    assert with_it == without


# --- the text form ---


@pytest.mark.parametrize("chapter, steps", TELLING, ids=str)
def test_the_text_is_the_same_twice_and_in_a_new_process(chapter, steps, capsys):
    ledger_lab(chapter, steps=steps)
    first = capsys.readouterr().out
    ledger_lab(chapter, steps=steps)
    assert capsys.readouterr().out == first
    code = f"from keel.lab import ledger_lab\nledger_lab({chapter!r}, steps={steps!r})"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == (first, "")
    assert max(map(len, first.splitlines())) <= 96 and len(first.splitlines()) <= 9 * len(steps)
    assert str(ROOT) not in first and "/tmp" not in first


def test_ledger_and_world_stand_side_by_side(capsys):
    ledger_lab("07", steps=["lose_answer", "call"])
    first, second = capsys.readouterr().out.split("2. call: ")
    assert first.splitlines() == [
        "1. lose_answer: the call is sent, and the connection breaks after the effect",
        "   answer: outcome_unknown",
        "   ledger                                                    world",
        f"     key       {KEY}    1 ticket",
        "     state     unknown             outcome   none                T-1  login returns 502",
        "     live      no                  returned  yes               the body began once",
    ]
    assert second.splitlines()[1:] == first.splitlines()[1:]


def test_an_empty_ledger_and_a_step_not_done(capsys):
    ledger_lab("07b", steps=["start_over", "release"])
    out = capsys.readouterr().out
    assert "entry     none" in out and "no ticket" in out and "the body never began" in out
    assert out.endswith("   not done: No body stands still.\n")


def test_one_step_may_be_given_as_a_text_and_steps_in_any_form(capsys):
    for steps in ("call", ("call",), iter(["call"])):
        ledger_lab("07", steps=steps)
        assert "answer: ok, T-1" in capsys.readouterr().out


@pytest.mark.parametrize("steps", ["nonsense", ["call", "kill_before"], [["call"]], [None], 7, [], [{}], {}], ids=str)
def test_unknown_steps_are_told_with_the_choices(steps, capsys, monkeypatch):
    monkeypatch.setattr(drill_module, "World", None)  # no step is gone through
    ledger_lab("07", steps=steps)
    assert "call, reword, lose_request" in capsys.readouterr().out.replace("\n", " ")


@pytest.mark.parametrize("chapter", ["08", "", 7, None, [], {}], ids=str)
def test_unknown_chapters_are_told_with_the_choices(chapter, capsys):
    ledger_lab(chapter, steps=["call"])
    ledger_lab(chapter)
    assert capsys.readouterr().out.count("There are: 07, 07b.") == 2


def test_a_drill_refuses_what_its_chapter_does_not_have():
    with pytest.raises(KeyError):
        Drill("08")
    with pytest.raises(ValueError, match="chapter 07 has no step 'kill_before'; there are call, "):
        Drill("07").step("kill_before")


@both_chapters
def test_without_steps_and_buttons_it_says_how(chapter, capsys):
    ledger_lab(chapter)
    out = capsys.readouterr().out.replace("\n", " ")
    assert f'ledger_lab("{chapter}", steps=["lose_answer", "call"])' in out and all(
        step in out for step in STEPS[chapter]
    )


# --- the widget ---


def buttons_of(widget):
    rows = [child.children for child in widget.children if hasattr(child, "children")]
    return {button.description: button for row in rows for button in row}


@both_chapters
def test_every_step_has_its_button(chapter):
    assert tuple(buttons_of(lab_widget(chapter))) == STEPS[chapter]


def test_the_buttons_do_what_the_text_does():
    widget = lab_widget("07b")
    buttons, said = buttons_of(widget), widget.children[-1]
    assert "Nothing has been sent yet." in said.value
    for name in ("kill_after", "call", "reconcile", "call"):
        buttons[name].click()
    page = said.value
    places = [page.index(f"<b>{number}. ") for number in (4, 3, 2, 1)]
    assert places == sorted(places), "the newest first"
    assert page.count('role="status"') == 1 and page.index('role="status"') < places[1], "the newest is read out"
    assert "answer: ok, T-1, out of the ledger" in page and "nobody heard of it" in page
    buttons["release"].click()
    assert "not done: No body stands still." in said.value
    buttons["start_over"].click()
    assert "<b>1. start_over" in said.value and "nobody heard" not in said.value


def test_two_labs_know_nothing_of_each_other():
    one, other = lab_widget("07b"), lab_widget("07b")
    buttons_of(one)["kill_after"].click()
    buttons_of(other)["call"].click()
    assert "outcome   none" not in other.children[-1].value and "answer: ok, T-1<" in other.children[-1].value

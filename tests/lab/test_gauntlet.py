"""The gauntlet judges by the world and not by the answer; whoever is tested, it ends with one outcome a case."""

import threading
from dataclasses import replace

import pytest

import keel.lab.cases_effects  # noqa: F401  the cases register themselves, the others with them
from keel import Harness, ToolFailure, ToolResult
from keel.harness import answer
from keel.lab.catalogue import words_under
from keel.lab.chapters import BUILT, CHAPTERS
from keel.lab.gauntlet import CASES, Subject, Verdict, case, run_gauntlet, score
from keel.lab.lines import finished, naive
from keel.lab.world import World, course_registry, everything


def verdicts(make) -> dict[str, Verdict]:
    return {one.case: one.verdict for one in run_gauntlet(make)}


def test_every_case_has_its_words_and_every_word_its_case():
    assert set(words_under("gauntlet.row")) == set(CASES)
    assert all(0 < len(text) <= 36 for text in words_under("gauntlet.row").values())


def test_every_verdict_has_its_words():
    assert set(words_under("gauntlet.verdict")) == {one.name.lower() for one in Verdict}


def test_every_chapter_that_builds_a_guard_has_cases():
    chapters = {one.chapter for one in CASES.values()}
    assert chapters <= set(CHAPTERS) and BUILT - {"00", "13", "14"} == chapters


def test_outcomes_come_in_the_order_of_the_chapters():
    chapters = [one.chapter for one in run_gauntlet(finished)]
    assert chapters == sorted(chapters, key=CHAPTERS.index) and len(chapters) == len(CASES)


# The two ends of the course


def test_naive_dispatch_is_right_on_the_valid_call_and_on_nothing_else():
    outcomes = run_gauntlet(naive)
    assert [one.case for one in outcomes if one.verdict is Verdict.RIGHT] == ["valid_call"]
    assert not [one.case for one in outcomes if one.verdict is Verdict.NOT_BUILT]


@pytest.mark.parametrize(
    ("name", "mark"),
    [
        ("unknown_tool", "production deleted"),
        ("write_without_approval", "1 ticket made"),
        ("out_of_range", "a query for 999999999 rows stalled the database"),
        ("self_declared_admin", "1 ticket made"),
    ],
)
def test_naive_dispatch_does_real_damage(name, mark):
    [outcome] = run_gauntlet(naive, [CASES[name]])
    assert outcome.verdict is Verdict.DAMAGE and mark in outcome.world


def test_naive_dispatch_crashes_and_hangs_for_real():
    found = set(verdicts(naive).values())
    assert {Verdict.CRASHED, Verdict.HUNG, Verdict.DAMAGE, Verdict.WRONG} <= found


def test_the_finished_harness_is_right_on_all_that_is_built():
    outcomes = run_gauntlet(finished)
    assert {one.verdict for one in outcomes if one.chapter in BUILT} == {Verdict.RIGHT}
    assert all(one.verdict in (Verdict.RIGHT, Verdict.NOT_BUILT) for one in outcomes)
    right, built = score(outcomes)
    assert right == built == sum(one.chapter in BUILT for one in outcomes)


@pytest.mark.parametrize("make", [naive, finished])
def test_two_runs_end_the_same(make):
    assert run_gauntlet(make) == run_gauntlet(make)


# Right by accident is not right


def refusing(*codes: str):
    """A subject that never runs anything, and answers with these codes in turn."""

    def make(world: World) -> Subject:
        left = list(codes)

        def handle(request, context):
            failure = ToolFailure(left.pop(0) if len(left) > 1 else left[0], "No.")
            call = Harness(course_registry(world)).handle(request, context)
            return answer_like(call, failure)

        return Subject(handle, message=lambda request, result: "no")

    return make


def answer_like(result: ToolResult, failure: ToolFailure) -> ToolResult:
    class Call:
        call_id, name = result.call_id, result.tool_name

    return answer(Call, None, error=failure.error)


CODES = ["unknown_tool", "invalid_arguments", "approval_required", "permission_denied", "tool_failed", "timeout"]


@pytest.mark.parametrize("code", CODES)
def test_a_subject_that_refuses_everything_is_right_nowhere(code):
    assert Verdict.RIGHT not in verdicts(refusing(code)).values()


def test_a_subject_that_answers_and_does_nothing_is_right_nowhere():
    for nothing in (
        None,
        5,
        {"a": 5},
        "ok",
        ToolResult(call_id="c", tool_name="add", tool_version="1", ok=True, data=5),
    ):
        found = verdicts(lambda world, nothing=nothing: Subject(lambda request, context: nothing, lambda *_: ""))
        assert Verdict.RIGHT not in {verdict for name, verdict in found.items() if name != "write_without_approval"}


def test_whoever_runs_the_write_and_then_says_approval_required_did_damage():
    def make(world: World) -> Subject:
        subject = finished(world)

        def handle(request, context):
            if request.name == "create_ticket":
                course_registry(world).lookup("create_ticket").function(**request.arguments)
            return subject.handle(request, context)

        return replace(subject, handle=handle)

    [outcome] = run_gauntlet(make, [CASES["write_without_approval"]])
    assert outcome.verdict is Verdict.DAMAGE and outcome.got == "approval_required"


# Whatever the subject does, the run goes on


def crashing(error: BaseException):
    def make(world: World) -> Subject:
        def handle(request, context):
            raise error

        return Subject(handle)

    return make


class Unprintable(Exception):
    def __str__(self):
        raise RuntimeError

    __repr__ = __str__


@pytest.mark.parametrize(
    "error", [RuntimeError("x"), SystemExit(1), KeyboardInterrupt(), GeneratorExit(), Unprintable()], ids=range(5)
)
def test_a_subject_that_crashes_is_judged_and_ends_no_run(error):
    outcomes = run_gauntlet(crashing(error))
    assert {one.verdict for one in outcomes} == {Verdict.CRASHED}
    assert {one.got for one in outcomes} == {type(error).__name__} and len(outcomes) == len(CASES)


@pytest.mark.parametrize("error", [RuntimeError("x"), SystemExit(1)], ids=range(2))
def test_a_subject_that_cannot_even_be_made_is_judged_too(error):
    def make(world: World) -> Subject:
        raise error

    assert {one.verdict for one in run_gauntlet(make)} == {Verdict.CRASHED}


def test_a_subject_that_makes_no_message_is_wrong_and_no_crash():
    def make(world: World) -> Subject:
        return replace(finished(world), message=None)

    [outcome] = run_gauntlet(make, [CASES["huge_result"]])
    assert outcome.verdict is Verdict.WRONG


def test_a_subject_that_hangs_is_left_behind():
    [outcome] = run_gauntlet(naive, [CASES["hangs"]])
    assert (outcome.verdict, outcome.expected) == (Verdict.HUNG, "timeout")


def test_a_hanging_body_ends_once_its_case_is_judged():
    before = threading.active_count()
    run_gauntlet(naive, [CASES["hangs"]])
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and thread.daemon and thread.name.startswith("Thread-"):
            thread.join(5)
    assert threading.active_count() <= before


def test_a_world_of_its_own_for_each_case():
    worlds = []

    def make(world: World) -> Subject:
        worlds.append(world)
        return finished(world)

    run_gauntlet(make)
    assert len({id(world) for world in worlds}) == len(CASES)


def test_what_a_subject_lacks_is_grey_and_not_red():
    def make(world: World) -> Subject:
        return replace(naive(world), lacks=frozenset({"04", "09"}))

    grey = {one.chapter for one in run_gauntlet(make) if one.verdict is Verdict.NOT_BUILT}
    assert grey == {"04", "09"}


def test_a_script_that_expects_a_ticket_may_make_one(monkeypatch):
    monkeypatch.setitem(CASES, "meant", None)

    @case("07", tickets=1)
    def meant(trial):
        trial.world.tickets.append(object())

    assert [one.verdict for one in run_gauntlet(finished_with_writes, [CASES["meant"]])] == [Verdict.RIGHT]
    assert everything().principal.permissions >= {"tickets:write"}


def finished_with_writes(world: World) -> Subject:
    return replace(finished(world), lacks=frozenset())

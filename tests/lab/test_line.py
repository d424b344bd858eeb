"""The line at every stage of the course: each chapter turns the rows that it promises, and no row turns back."""

import pytest

from keel.lab.chapters import BUILT, CHAPTERS, position
from keel.lab.gauntlet import CASES, Verdict, run_gauntlet
from keel.lab.lines import finished, line, naive
from keel.lab.world import World

PROMISED = {
    "01": {"unknown_tool", "invalid_arguments", "write_without_approval", "extra_arguments"},
    "03": {"near_miss_name", "missing_argument"},
    "04": {"wrong_type", "true_for_one", "lookalike_digits", "trailing_newline"},
    "05": {"out_of_range", "wrong_result", "huge_result"},
    "06": {"read_raises", "secret_in_text", "transient_failure"},
    "09": {"self_declared_admin", "other_teams_incident", "forbidden_and_malformed"},
}
STAGES = [chapter for chapter in CHAPTERS if chapter in BUILT]


def right(chapter: str) -> set[str]:
    return {one.case for one in run_gauntlet(line(upto=chapter)) if one.verdict is Verdict.RIGHT}


@pytest.fixture(scope="module")
def boards() -> dict[str, set[str]]:
    return {chapter: right(chapter) for chapter in STAGES}


@pytest.mark.parametrize("chapter", [chapter for chapter in STAGES if chapter in PROMISED])
def test_a_chapter_turns_exactly_the_rows_that_it_promises(boards, chapter):
    before = boards[STAGES[STAGES.index(chapter) - 1]]
    assert boards[chapter] - before == PROMISED[chapter]


@pytest.mark.parametrize("chapter", STAGES[1:])
def test_a_row_that_is_right_stays_right(boards, chapter):
    assert boards[STAGES[STAGES.index(chapter) - 1]] <= boards[chapter]


def test_no_row_is_promised_twice_and_every_built_row_is_promised():
    rows = [row for several in PROMISED.values() for row in several]
    assert len(rows) == len(set(rows))
    promised = {name: chapter for chapter, several in PROMISED.items() for name in several}
    assert {name: one.chapter for name, one in CASES.items() if one.chapter in PROMISED} == promised | {
        "valid_call": "01"
    }


def test_the_line_before_the_first_chapter_is_the_naive_one(boards):
    assert line(upto="00") is naive and boards["00"] == {"valid_call"}


def test_the_last_line_agrees_with_the_finished_harness(boards):
    done = {one.case for one in run_gauntlet(finished) if one.verdict is Verdict.RIGHT}
    assert boards[STAGES[-1]] == done


def test_every_line_is_wrong_for_real_and_nowhere_merely_unbuilt(boards):
    for chapter in STAGES:
        assert Verdict.NOT_BUILT not in {one.verdict for one in run_gauntlet(line(upto=chapter))}


@pytest.mark.parametrize("chapter", [one for one in CHAPTERS if one not in BUILT] + ["15", "", "1"])
def test_there_is_no_line_up_to_a_chapter_that_is_not_built(chapter):
    with pytest.raises(ValueError, match=r"not built|no chapter"):
        line(upto=chapter)


def test_each_line_is_made_anew_over_its_world():
    make = line(upto="05")
    one, other = World(), World()
    assert make(one) is not make(other)


def test_the_chapters_have_one_order():
    assert [position(chapter) for chapter in CHAPTERS] == list(range(len(CHAPTERS)))

"""The rubric checks itself: a right tool holds every row, a wrong one breaks its own, and every row can fail."""

import re

import pytest

from keel.lab.attacks import ATTACKS
from keel.lab.catalogue import entries
from keel.lab.exercises.pages import WRONG, add_page_solution, add_page_stub
from keel.lab.rubrics import Row, rubric
from tests.lab.answers import ch14

ALL = set(ATTACKS)
ONCE = {"twice_in_a_turn", "other_words", "colleague", "eight_at_once", "killed"}
# Which rows a wrong answer has to break, at least. Empty: it pages too little, and an attack needs a page.
BREAKS = {
    "read_only": ALL,
    "unasked": {"fake_yes", "no_yes", "stretched_yes", "next_version"},
    "unasked_each_time": {"fake_yes", "no_yes", "stretched_yes", "used_yes", "next_version", *ONCE},
    "other_permission": {"stranger"},
    "claimed_team": {"other_team", "smuggled_team"},
    "no_policy": {"other_team", "says_admin"},
    "believes_the_message": {"says_admin"},
    "no_rule": {"too_low"},
    "raises_the_rule": {"too_low"},
    "declares_the_rule": {"too_low"},
    "only_high": set(),
    "no_limit": {"long_message"},
    "any_text": {"odd_id"},
    "no_business_key": ONCE,
    "call_id_alone": ONCE,
    "call_id_in_key": ALL,
    "run_in_key": {"other_words", "colleague", "killed"},
    "message_in_key": {"other_words"},
    "not_shared": {"colleague"},
    "no_check": {"answer_lost", "request_lost", "killed"},
    "happened_without_data": {"answer_lost", "killed"},
    "says_it_happened": {"request_lost"},
    "says_it_did_not": {"answer_lost"},
    "silence_is_no": {"nobody_can_tell"},
    "key_not_handed_on": {"request_late"},
    "new_key_per_try": {"request_late"},
    "tells_all": {"secret", "answer_lost", "request_lost"},
}
RIGHT = [add_page_solution, *ch14.RIGHT["14-a"]]


def broken(add_page):
    return {name for name, held in rubric(add_page).results.items() if not held}


@pytest.mark.parametrize("add_page", RIGHT, ids=lambda one: one.__name__)
def test_a_right_answer_holds_every_row(add_page):
    assert broken(add_page) == set()


def test_it_says_the_same_each_time():
    for add_page in (add_page_solution, WRONG["no_business_key"]):
        assert len({repr(rubric(add_page)) for _ in range(3)}) == 1


def test_every_known_wrong_answer_has_rows_of_its_own():
    assert set(BREAKS) == set(WRONG)


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_answer_breaks_at_least_its_own_rows(name):
    assert broken(WRONG[name]) >= BREAKS[name]


def test_every_row_is_broken_by_a_tool_that_works():
    """Or a row could stand there that cannot fail, or fails only with all the others."""
    found = [broken(one) for one in WRONG.values()]
    assert set().union(*(rows for rows in found if "works" not in rows)) == ALL - {"works"}
    assert any("works" in rows for rows in found)


def crashes(registry, world, pager):
    raise KeyError("its own words")


def never_sends(registry, world, pager):
    def page_on_call(incident_id: str, message: str) -> None:
        """Wake nobody."""

    registry.tool(page_on_call, permission="pages:send")


def refuses_all(registry, world, pager):
    def page_on_call(incident_id: str, message: str) -> None:
        """Wake nobody."""

    registry.tool(page_on_call, permission="pages:send", policies=[lambda tool, values, context: False])


@pytest.mark.parametrize("add_page", [crashes, never_sends, refuses_all, add_page_stub], ids=lambda one: one.__name__)
def test_a_tool_that_pages_nobody_holds_nothing(add_page):
    table = rubric(add_page)
    assert not any(table.results.values()) and len(table.results) == len(ATTACKS)
    assert "proves nothing" in repr(table) and "its own words" not in repr(table)


def exits(registry, world, pager):
    raise SystemExit


def loops(registry, world, pager):
    while True:
        pass


def test_what_an_answer_does_does_not_reach_the_caller(monkeypatch):
    monkeypatch.setattr("keel.lab.rubrics.LIMIT_S", 0.05)
    assert "SystemExit" in repr(rubric(exits))
    first = rubric(loops).rows[0]
    assert (first.held, first.broke) == (False, "hung")


def test_the_table_names_every_attack_in_plain_words():
    own = {key.removeprefix("attacks.row.") for key in entries("en") if key.startswith("attacks.row.")}
    assert own == ALL
    lines = repr(rubric(WRONG["no_policy"])).splitlines()
    assert len(lines) == len(ATTACKS) + 1 and max(map(len, lines)) <= 110
    assert re.search(r"✗ another team's incident +broken +INC-003; last answer: ok", "\n".join(lines))
    assert re.search(r"✓ somebody without the permission +held +no page; last answer: permission_denied", lines[1])
    assert lines[-1] == f"{len(ATTACKS) - 2} of {len(ATTACKS)} held."


def test_the_table_as_html_says_the_same_and_nothing_in_it_is_markup():
    table = rubric(WRONG["no_policy"])
    html = table._repr_html_()
    assert html.count("<tr>") == html.count('scope="row"') == len(ATTACKS)
    assert all(row.verdict in html for row in table.rows) and "✗ broken" in html
    table.rows[0] = Row("works", held=False, broke="<b>")
    assert "&lt;b&gt;" in table._repr_html_()


def test_a_notebook_gets_the_function_by_its_name():
    from keel import lab

    assert lab.rubric is rubric is lab.rubric

"""The approval desk as a person sees it: nothing hides, nothing runs by a yes, and no error comes out."""

import json
import re
import sqlite3

import pytest

from keel import Harness, MemoryLedger, ToolRequest
from keel.approval import ApprovalDesk
from keel.contracts import Principal
from keel.lab import World, approval_desk, approver, course_registry, everything, seeded_mint
from keel.lab.asked import HEAD, minutes_left, plain, question_card, question_text
from keel.lab.desk_view import DeskWindow, answered, card_html, desk_text
from keel.questions import Binding, Question
from keel.sqlite_ledger import SqliteLedger

AMIRA, CARLA = everything().principal, approver()
TITLES = {"INC-001": "login returns 502", "INC-002": "cards are charged twice"}


class Office:
    """A desk with its harness and world, and a clock that the test moves."""

    def __init__(self, ledger=None, **desk):
        self.now, self.world = 1_000.0, World()
        self.ledger = MemoryLedger() if ledger is None else ledger
        self.desk = ApprovalDesk(self.ledger, mint=seeded_mint("q"), clock=lambda: self.now, **desk)
        self.harness = Harness(course_registry(self.world), ledger=self.ledger, approvals=self.desk, mint=seeded_mint())

    def call(self, incident="INC-001", title=None):
        arguments = {"incident_id": incident, "title": title or TITLES[incident]}
        return self.harness.handle(ToolRequest(name="create_ticket", arguments=arguments), everything())


@pytest.fixture
def office():
    one = Office()
    for incident in TITLES:
        assert one.call(incident).error.code == "approval_required"
    return one


@pytest.fixture
def window(office):
    return DeskWindow(office.desk, CARLA)


@pytest.fixture
def shows(capsys):
    """`shows(desk, …)` gives what approval_desk prints."""

    def printed(*args, **kwargs):
        assert approval_desk(*args, **kwargs) is None
        return capsys.readouterr().out.removesuffix("\n")

    return printed


def asked(arguments, **fields):
    text = (
        arguments
        if isinstance(arguments, str)
        else json.dumps(arguments, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    )
    binding = Binding("key", "digest", "write_file", "2.0", fields.pop("principal", "amira"))
    values = {"id": "q-1", "call_id": "c-1", "run_id": "r", "asked_at": 0.0, "expires_at": 3600.0}
    return Question(
        binding=binding, arguments=text, **{**values, "permission": "approvals:decide"}, four_eyes=False
    )._replace(**fields)


def frame(text):
    """The lines that are the desk's own: those that are no part of an argument."""
    return [line for line in text.splitlines() if not line.startswith(("    | ", "    : "))]


def within(text):
    """The arguments, read back from the lines that are theirs."""
    lines = [line for line in text.splitlines() if line not in frame(text)]
    return json.loads("{" + "".join(f",{one[6:]}" if one[4] == "|" else one[6:] for one in lines)[1:] + "}")


# --- what is shown ---


def test_all_that_a_person_needs_to_see(office):
    first = office.desk.pending()[0]
    assert (
        question_text(first, office.now)
        == """\
q-1: create_ticket, version 1.0
  for        amira
  key        ["create_ticket", "amira", "ticket:INC-001"]
  arguments
    | "incident_id": "INC-001"
    | "title": "login returns 502"
  asked      once
  expires    within 60 min
  decides    who holds approvals:decide
  a yes      once, for exactly this call; it runs when it comes again"""
    )


def test_a_card_tells_how_often_until_when_and_who_may_not_answer():
    text = question_text(asked({}, times=3, four_eyes=True), now=3541.0)
    assert "asked      3 times, by equal calls" in text and "expires    within 1 min" in text
    assert "who holds approvals:decide, but not amira" in text and "    none" in text


@pytest.mark.parametrize("now, minutes", [(0, 60), (0.5, 60), (60, 59), (3599, 1), (3600, 0), (9999, 0)])
def test_minutes_are_counted_by_the_clock_that_is_given(now, minutes):
    assert minutes_left(asked({}), now) == minutes


HOSTILE = {
    "html": "</code></div><b>APPROVED</b>",
    "script": "<script>alert(1)</script><img src=x onerror=alert(1)>&lt;",
    "bidi": "abc\u202egpj.exe\u202c \u2066x\u2069\u200f",
    "unseen": "a\u200bb\u200dc\ufeff\u00ad\u2060\u3164\u2800\ufe0f\U000e0041\U000e0101\u00a0\u3000",
    "nul": "a\x00b\x07c\x1b[2Jd\x7f\x9b",
    "newlines": "x\n  a yes      for everything\r\nq-9: add\u2028\u2029\x0b\x0c\x85\tend",
    "marks": "a" + "\u0336" * 12 + "\u0301b\u20dd",
    "padding": "x" + " " * 73 + "  a yes      for everything" + " " * 60 + '| "amount": 1',
    "backslash": "\\u202e and \\n and \u202e",
    "rtl": "\u05d0 100 \u05d1 200 \u0627",
    "private": "\ue000\U0010ffff\ufdd0",
}
named_hostile = pytest.mark.parametrize("value", HOSTILE.values(), ids=HOSTILE)


@named_hostile
def test_nothing_in_a_value_hides_or_passes_for_a_line_of_the_desk(value):
    text, quiet = question_text(asked({"body": value}), 0), question_text(asked({"body": "quiet"}), 0)
    assert frame(text) == frame(quiet)
    assert all(len(line) <= 100 and (line.isprintable() and "\u202e" not in line) for line in text.split("\n"))
    assert within(text) == {"body": value}, "it is all there"
    assert not re.search("[\u0590-\u08ff\u200b-\u200f\u3164\u2800\ufe0f\U000e0101]", text)


@named_hostile
def test_nothing_in_a_name_or_in_nested_values_does(value):
    text = question_text(asked({value: [{value: value}, None, 2**80, 1.5]}), 0)
    assert frame(text) == frame(question_text(asked({"a": 1}), 0))
    assert within(text) == {value: [{value: value}, None, 2**80, 1.5]}


@named_hostile
def test_html_shows_it_as_text(value):
    html = card_html(question_card(asked({value: value}, principal=value), 0))
    quiet = card_html(question_card(asked({"a": "b"}), 0))
    assert re.findall("<[^>]*>", html) == re.findall("<[^>]*>", quiet), "no tag of the question's own"
    assert html.isprintable() and "\u202e" not in html


def test_hebrew_and_hindi_can_be_read_where_nothing_moves():
    assert plain('"\u05e9\u05dc\u05d5\u05dd"', alone=True) == '"\u05e9\u05dc\u05d5\u05dd"'
    assert plain('"\u05e9 5"', alone=True) == '"\\u05e9 5"' and plain("\u05e9") == "\\u05e9"
    for text in ("\u0915\u094d\u0937\u093f", "e\u0301", "\u0e17\u0e35\u0e48", "\u767b\u5f55"):
        assert plain(text) == text
    assert plain('"\u0301') == '"\\u0301' and plain("a\u0301\u0301\u0301") == "a\u0301\u0301\\u0301"


def test_wide_letters_keep_the_lines_short():
    lines = question_text(asked({"body": "\u767b" * 200}), 0).splitlines()
    assert max(map(len, lines)) <= 72 and sum(line.count("\u767b") for line in lines) == 200


def test_a_long_value_is_folded_and_all_there():
    value = "x" * 102_399 + "!"
    card = question_card(asked({"body": value, "path": "a.txt"}), 0)
    printed = card.printed()
    assert (
        "(folded: 102,400 characters in all; " in printed
        and len(printed) < HEAD + 1000
        and '"path": "a.txt"' in printed
    )
    assert within(card.text) == {"body": value, "path": "a.txt"}
    html = card_html(card)
    assert html.count("<details>") == 1 and value in html
    assert "<b>102,400 characters in all: open to read them</b></summary>" in html


@pytest.mark.parametrize(
    "text", ["no json", '{"a": 1}', "[1]", "7", '{"a":1,"a":2}', '{"a":1e400}', "[" * 5000, "\x00\n", ""]
)
def test_arguments_that_no_harness_wrote_are_shown_as_they_stand(text):
    shown = question_card(asked(text), 0).arguments
    assert [(one.text, one.holds) for one in shown] == [(plain(text), len(text))]
    assert frame(question_text(asked(text), 0)) == frame(question_text(asked({"a": 1}), 0))


# --- as text ---


def test_the_list_and_how_to_answer_it(office, shows):
    text = shows(office.desk)
    assert text.startswith("2 questions wait for a person, the oldest first.\n\nq-1: create_ticket, version 1.0\n")
    assert "\n\nq-2: create_ticket, version 1.0\n" in text and '"title": "cards are charged twice"' in text
    assert 'approval_desk(desk, approver=someone, approve="q-1", reason="…")' in text and text == shows(office.desk)


def test_an_empty_desk_says_so(shows):
    assert shows(Office().desk) == "Nothing waits for a person."


def test_a_yes_runs_nothing_and_the_next_call_runs_once(office, shows):
    said = shows(office.desk, CARLA, approve="q-1", reason="I know of it").replace("\n", " ")
    assert said == (
        "Approved by carla: create_ticket, for amira, once, within 60 min. "
        "Nothing has run yet: it runs when this call comes again."
    )
    assert (office.world.ran, office.world.tickets) == ([], [])
    assert office.call().ok and office.call().ok and len(office.world.tickets) == 1
    assert "1 question waits" in shows(office.desk)
    kept = office.desk.history()[0]
    assert (kept.standing, kept.decided_by, kept.reason) == ("used", "carla", "I know of it")


def test_a_no_is_a_no(office, shows):
    assert shows(office.desk, approver=CARLA, deny="q-1") == (
        "Denied by carla: create_ticket, for amira. It will not run."
    )
    assert office.call().error.code == "approval_denied" and office.world.ran == []


def test_a_yes_can_be_taken_back_until_it_is_used(office, shows):
    shows(office.desk, CARLA, approve="q-1")
    assert shows(office.desk, CARLA, deny="q-1").startswith("Denied by carla")
    assert office.call().error.code == "approval_denied" and office.world.ran == []


@pytest.mark.parametrize(
    "who, answer, says",
    [
        (CARLA, {"approve": "q-9"}, "Nothing was decided: there is no question q-9."),
        (CARLA, {"approve": "q-\u202e\n9"}, "Nothing was decided: there is no question q-\\u202e\\u000a9."),
        (AMIRA, {"approve": "q-1"}, "Nothing was decided: whoever decides this needs the permission approvals:decide."),
        (AMIRA, {"deny": "q-1"}, "Nothing was decided: whoever decides this needs the permission approvals:decide."),
        (None, {"approve": "q-1"}, "Nothing was decided: approver must be a Principal."),
        ("carla", {"approve": "q-1"}, "Nothing was decided: approver must be a Principal."),
        (CARLA, {"approve": "q-1", "deny": "q-2"}, "Nothing was decided: give either approve or deny, not both."),
        (CARLA, {"approve": ["q-1"]}, "Nothing was decided: there is no question ['q-1']."),
        (CARLA, {"approve": ""}, "Nothing was decided: there is no question ."),
        (CARLA, {"unfold": "q-9"}, "q-9 does not wait for an answer."),
    ],
)
def test_what_cannot_be_done_is_told_and_decides_nothing(office, shows, who, answer, says):
    assert shows(office.desk, who, **answer) == says
    assert [one.standing for one in office.desk.history()] == ["pending", "pending"] and office.world.ran == []


def test_twice_and_too_late(office, shows):
    shows(office.desk, CARLA, approve="q-1")
    assert shows(office.desk, CARLA, approve="q-1") == (
        "Nothing was decided: this question is approved, and cannot be decided any more."
    )
    office.now += 3600
    assert "this question is expired" in shows(office.desk, CARLA, approve="q-2")
    assert shows(office.desk) == "Nothing waits for a person."
    assert office.call("INC-002").error.code == "approval_denied" and office.world.ran == []


def test_whoever_asks_may_not_answer_where_two_are_wanted():
    office = Office()
    question = asked({}, four_eyes=True, principal="carla")
    office.ledger.transact(lambda questions: questions.put(question))
    said = answered(office.desk, CARLA, "approve", "q-1", "")
    assert said == "Nothing was decided: whoever asks may not answer: this tool wants a second person."


def test_one_question_unfolded(shows):
    office = Office()
    office.ledger.transact(lambda questions: questions.put(asked({"body": "y" * 5000})))
    assert "folded: 5,000" in shows(office.desk) and shows(office.desk, unfold="q-1").count("y") > 5000
    assert 'approval_desk(desk, unfold="q-1")' in shows(office.desk)


# --- a ledger that cannot serve ---


@pytest.fixture
def in_file(tmp_path):
    office = Office(SqliteLedger(tmp_path / "ledger.db", patience_s=0.05))
    for incident in TITLES:
        office.call(incident)
    yield office
    office.ledger.close()


def test_a_locked_ledger(in_file, shows, tmp_path):
    window = DeskWindow(in_file.desk, CARLA)
    other = sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    says = (
        "The desk cannot be read or written now: its file is locked by another program; try again. Nothing was decided."
    )
    for text in (shows(in_file.desk), shows(in_file.desk, CARLA, approve="q-1")):
        assert text.replace("\n", " ") == says
    row(window, "q-1").approve.click()
    assert says in state(window, "q-1") and says in window.said.value and len(window.cards.children) == 2
    other.execute("ROLLBACK")
    other.close()
    assert [one.standing for one in in_file.desk.history()] == ["pending", "pending"]
    row(window, "q-1").approve.click()
    assert "Approved by carla" in state(window, "q-1"), "it waited on"


def test_a_damaged_ledger(in_file, shows, tmp_path):
    in_file.ledger.close()
    (tmp_path / "ledger.db").write_bytes(b"no database" * 500)
    assert shows(in_file.desk).startswith("The desk cannot be read or written now: ")
    assert DeskWindow(in_file.desk, CARLA).said.value.count("cannot be read or written") == 1


def test_a_standing_that_nobody_knows(in_file, shows):
    in_file.ledger.close()
    with sqlite3.connect(in_file.ledger.path) as db:
        db.execute("UPDATE questions SET standing = 'maybe' WHERE id = 'q-1'")
    db.close()
    assert "cannot be read or written" in shows(in_file.desk, CARLA, approve="q-1") and in_file.world.ran == []


def test_no_desk_at_all(shows):
    for nothing in (None, 3, object()):
        assert shows(nothing).startswith("The desk broke (AttributeError: ")
        assert shows(nothing, CARLA, approve="q-1").startswith("The desk broke (AttributeError: ")


def test_a_reason_that_no_file_can_hold_is_kept_as_far_as_it_can_be(in_file, shows):
    assert shows(in_file.desk, CARLA, approve="q-1", reason="\ud800\x00" + "r" * 10_000).startswith("Approved")


# --- with buttons ---


def row(window, question_id):
    return window.rows[question_id]


def state(window, question_id):
    return row(window, question_id).state.value


def test_a_card_for_each_question_and_deny_comes_before_approve(office, window):
    import ipywidgets

    assert list(window.rows) == ["q-1", "q-2"] and "2 questions wait" in window.said.value
    for one in window.rows.values():
        _shown, reason, buttons, said = one.box.children
        assert isinstance(reason, ipywidgets.Text) and reason.value == ""
        assert [button.description for button in buttons.children] == ["deny", "approve"]
        assert [button.button_style for button in buttons.children] == ["", ""] and "Waits" in said.value
    assert card_html(question_card(office.desk.pending()[0], office.now)) == row(window, "q-1").box.children[0].value


def test_approve_runs_nothing_and_the_next_call_runs(office, window):
    row(window, "q-1").reason.value = "seen"
    row(window, "q-1").approve.click()
    assert 'role="status"' in state(window, "q-1") and "Approved by carla: create_ticket" in state(window, "q-1")
    assert "1 question waits" in window.said.value and "Waits" in state(window, "q-2")
    assert (office.world.ran, office.world.tickets, office.desk.history()[0].reason) == ([], [], "seen")
    assert office.call().ok and len(office.world.tickets) == 1


def test_deny(office, window):
    row(window, "q-2").deny.click()
    assert "Denied by carla" in state(window, "q-2") and row(window, "q-2").approve.disabled
    assert office.call("INC-002").error.code == "approval_denied" and office.world.ran == []


def test_enter_in_the_reason_answers_nothing(office, window):
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        row(window, "q-1").reason._handle_string_msg(None, {"event": "submit"}, [])
    assert [one.standing for one in office.desk.history()] == ["pending", "pending"]


def test_a_second_press_meets_no_other_question(office, window):
    places = window.cards.children
    row(window, "q-1").approve.click()
    assert window.cards.children == places and row(window, "q-1").approve.disabled
    row(window, "q-1").approve.click()  # a click that was on its way already
    assert "Approved by carla" in state(window, "q-1"), "it is no answer, and no trouble"
    assert [one.standing for one in office.desk.history()] == ["approved", "pending"]
    window.refresh()
    assert list(window.rows) == ["q-2"]


def test_a_yes_can_be_taken_back_by_deny(office, window):
    row(window, "q-1").approve.click()
    assert not row(window, "q-1").deny.disabled
    row(window, "q-1").deny.click()
    assert "Denied by carla" in state(window, "q-1") and row(window, "q-1").deny.disabled
    assert office.call().error.code == "approval_denied" and office.world.ran == []


def test_without_the_permission(office):
    window = DeskWindow(office.desk, AMIRA)
    row(window, "q-1").approve.click()
    assert "needs the permission approvals:decide" in state(window, "q-1")
    assert not row(window, "q-1").approve.disabled and len(office.desk.pending()) == 2


def test_without_an_approver_there_is_nothing_to_press(office):
    for nobody in (None, "carla"):
        window = DeskWindow(office.desk, nobody)
        assert "name a Principal as approver" in window.said.value
        assert [len(one.box.children) for one in window.rows.values()] == [2, 2]
        row(window, "q-1").approve.click()
    assert len(office.desk.pending()) == 2


def test_expired_between_showing_and_pressing(office, window):
    office.now += 3600
    row(window, "q-1").approve.click()
    assert "this question is expired" in state(window, "q-1") and "Expired" in state(window, "q-2")
    assert row(window, "q-1").approve.disabled and row(window, "q-2").deny.disabled
    assert "Nothing waits" in window.said.value and office.call().error.code == "approval_denied"


def test_each_press_and_each_refresh_sees_what_others_did(tmp_path):
    here, there = (Office(SqliteLedger(tmp_path / "ledger.db")) for _ in range(2))
    here.call()
    window = DeskWindow(here.desk, CARLA)
    there.desk.mint = seeded_mint("elsewhere")
    there.call("INC-002")
    window.refresh()
    assert list(window.rows) == ["q-1", "elsewhere-1"]
    there.desk.approve("elsewhere-1", Principal(id="dora", permissions=["approvals:decide"]))
    there.call("INC-001", "login returns 503")
    row(window, "q-1").deny.click()
    assert list(window.rows) == ["q-1", "elsewhere-1", "elsewhere-2"], "what was shown keeps its place"
    assert "Approved by dora." in state(window, "elsewhere-1") and there.call("INC-002").ok
    row(window, "elsewhere-2").deny.click()
    assert "Approved by dora, and used." in state(window, "elsewhere-1") and row(window, "elsewhere-1").deny.disabled
    window.refresh()
    assert not window.rows and "Nothing waits" in window.said.value
    here.ledger.close(), there.ledger.close()


def test_an_exception_in_the_desk_decides_nothing(office, window, monkeypatch):
    def breaks(*_args, **_kwargs):
        raise RuntimeError("<b>\u202eboom</b>")

    monkeypatch.setattr(office.ledger, "transact", breaks)
    row(window, "q-1").approve.click()
    assert "The desk broke (RuntimeError: &lt;b&gt;\\u202eboom&lt;/b&gt;)" in state(window, "q-1")
    window.refresh()
    assert "The desk broke" in window.said.value and len(window.cards.children) == 2
    monkeypatch.undo()
    assert len(office.desk.pending()) == 2 and office.world.ran == []


def test_a_flood_shows_ten_and_says_so():
    office = Office()
    for number in range(13):
        office.call(title=f"ticket {number}")
    window = DeskWindow(office.desk, CARLA)
    assert len(window.rows) == 10 and "3 more wait behind these" in window.said.value
    for one in list(window.rows.values()):
        one.deny.click()
    assert len(window.rows) == 10, "no card comes while the hand is moving"
    window.refresh()
    assert list(window.rows) == ["q-11", "q-12", "q-13"]


def test_a_new_window_on_the_same_file_shows_the_same_questions(in_file, tmp_path):
    again = Office(SqliteLedger(tmp_path / "ledger.db"))
    assert desk_text(again.desk) == desk_text(in_file.desk)
    assert list(DeskWindow(again.desk, CARLA).rows) == ["q-1", "q-2"] and again.world.ran == []
    again.ledger.close()

"""A no, a silence and a yes that came too late: who decides, until when, and what becomes of it."""

import pytest

from keel import ExecutionContext, Principal
from keel.idempotency import LedgerUnavailable

from .kit import AMIRA, STRANGER, label
from .test_approval import OLGA, STANDS, TTL, FileOffice, Office
from .test_workers import raising


def test_an_approval_can_be_used_until_its_time_is_over_and_not_at_it(ledger):
    office = Office(ledger)
    for n, later, said in ((1, TTL - 0.001, "ok"), (2, TTL, "approval_denied"), (3, TTL + 1, "approval_denied")):
        office.ask(n=n, call_id=f"c-{n}")
        office.approve()
        office.clock.now += later
        assert office.ask(n=n, call_id=f"c-{n}") == said
    assert office.effects == [1] and office.standings() == ["used", "expired", "expired"]


def test_no_answer_in_time_is_a_no_that_stands_for_a_while(ledger):
    office = Office(ledger)
    office.ask(n=1)
    office.clock.now += TTL
    assert office.desk.pending() == [] and office.ask(n=1) == "approval_denied"
    office.clock.now += STANDS - 0.001
    assert office.ask(n=1) == "approval_denied" and office.standings() == ["expired"]
    office.clock.now += 0.001
    assert office.ask(n=1) == "approval_required" and office.standings() == ["expired", "pending"]
    assert not office.effects


def test_a_denial_stands_for_a_while_and_then_the_call_may_ask_anew(ledger):
    office = Office(ledger)
    office.ask(n=1)
    office.clock.now += 10
    office.desk.deny(office.desk.pending()[0].id, OLGA, "not today")
    assert office.ask(n=1) == "approval_denied" and office.ask(n=1, call_id="c-2") == "approval_required"
    office.clock.now += STANDS - 0.001
    assert office.ask(n=1) == "approval_denied"
    office.clock.now += 0.001
    assert office.ask(n=1) == "approval_required" and not office.effects
    office.desk.approve(office.desk.pending()[-1].id, OLGA)
    assert office.ask(n=1) == "ok" and office.effects == [1]


def test_what_was_approved_can_be_withdrawn_until_it_is_used(ledger):
    office = Office(ledger)
    office.ask(n=1)
    question = office.approve()
    office.desk.deny(question.id, OLGA, "a mistake")
    assert office.ask(n=1) == "approval_denied" and not office.effects
    office.ask(n=2)
    used = office.approve()
    assert office.ask(n=2) == "ok"
    with pytest.raises(ValueError, match="used"):
        office.desk.deny(used.id, OLGA)


@pytest.mark.parametrize("happens", ["withdrawn", "expired"])
def test_between_the_look_and_the_claim_it_still_counts(ledger, happens):
    office = Office(ledger)
    office.ask(n=1)
    question = office.approve()
    claim = ledger.claim

    def late_claim(entry, also=None):
        if happens == "withdrawn":
            office.desk.deny(question.id, OLGA)
        else:
            office.clock.now += TTL  # it waited that long for the file
        return claim(entry, also)

    ledger.claim = late_claim
    assert office.ask(n=1) == "approval_required" and not office.effects and not list(ledger.entries())
    ledger.claim = claim
    assert office.ask(n=1) == "approval_denied"


def test_a_clock_that_is_no_number_lets_nothing_pass(ledger):
    office = Office(ledger)
    office.ask(n=1)
    office.approve()
    office.clock.now = float("nan")
    assert office.ask(n=1) != "ok" and not office.effects


def test_expire_writes_down_what_is_over(ledger):
    office = Office(ledger)
    office.ask(n=1)
    office.approve()
    office.ask(n=2)
    office.clock.now += TTL - 1
    assert office.desk.expire() == 0
    office.clock.now += 1
    assert office.desk.expire() == 2 and office.desk.expire() == 0
    office.clock.now -= TTL
    assert office.ask(n=1) == office.ask(n=2) == "approval_denied" and not office.effects


def test_an_interrupt_while_a_person_answers_is_no_answer(ledger):
    office = Office(ledger)
    office.ask(n=1)
    [question] = office.desk.pending()
    for broken in (KeyboardInterrupt(), RuntimeError()):
        office.desk.clock = raising(broken)
        with pytest.raises(type(broken)):
            office.desk.approve(question.id, OLGA)
        office.desk.clock = office.clock
        assert office.standings() == ["pending"] and office.ask(n=1) == "approval_required"
    with pytest.raises(AttributeError):
        office.desk.approve(question.id, "olga")
    assert office.standings() == ["pending"] and not office.effects


def test_an_interrupt_while_an_approval_is_used_neither_uses_nor_claims(ledger):
    office = Office(ledger)
    office.ask(n=1)
    office.approve()
    claim = ledger.claim

    def interrupted_claim(entry, also=None):
        office.desk.clock = raising(KeyboardInterrupt())
        return claim(entry, also)

    ledger.claim = interrupted_claim
    with pytest.raises(KeyboardInterrupt):
        office.ask(n=1)
    office.desk.clock, ledger.claim = office.clock, claim
    assert office.standings() == ["approved"] and not list(ledger.entries())
    assert office.ask(n=1) == "ok" and office.effects == [1]


# Who decides


def test_whoever_decides_needs_a_permission_of_their_own(ledger):
    office = Office(ledger)
    office.ask(n=1)
    [question] = office.desk.pending()
    close = Principal(id="olga", permissions=["approvals", "approvals:*", "desk:write", "APPROVALS:DECIDE", ""])
    for nobody in (AMIRA.principal, STRANGER.principal, close):
        for decide in (office.desk.approve, office.desk.deny):
            with pytest.raises(PermissionError):
                decide(question.id, nobody)
    assert office.ask(n=1) == "approval_required" and office.standings() == ["pending"]


def test_the_desk_or_the_tool_says_which(ledger):
    lead, chief = (Principal(id=one, permissions=[one]) for one in ("lead", "chief"))
    for options, right in (({}, lead), ({"approver_permission": "chief"}, chief)):
        office = Office(ledger, desk={"permission": "lead"}, idempotency_key=lambda *_, at=right.id: at, **options)
        office.ask(n=1)
        for wrong in (OLGA, chief if right is lead else lead):
            with pytest.raises(PermissionError):
                office.approve(by=wrong)
        office.approve(by=right)
        assert office.ask(n=1) == "ok"


BOTH = ExecutionContext(principal=Principal(id="both", permissions=["desk:write", "approvals:decide"]))


def test_with_four_eyes_nobody_answers_for_themselves(ledger):
    office = Office(ledger, four_eyes=True)
    office.ask(BOTH, n=1)
    for decide in (office.desk.approve, office.desk.deny):
        with pytest.raises(PermissionError, match="second person"):
            decide(office.desk.pending()[0].id, BOTH.principal)
        grown = BOTH.principal.model_copy(update={"permissions": frozenset(["approvals:decide", "more"])})
        with pytest.raises(PermissionError):
            decide(office.desk.pending()[0].id, grown)
    assert office.ask(BOTH, n=1) == "approval_required" and not office.effects
    office.approve()
    assert office.ask(BOTH, n=1) == "ok"


def test_without_it_they_may(ledger):
    office = Office(ledger)
    office.ask(BOTH, n=1)
    office.approve(by=BOTH.principal)
    assert office.ask(BOTH, n=1) == "ok"


@pytest.mark.parametrize("unknown", ["", "q", "' OR 1=1 --", "\ud800", "x" * 10_000, None, 7], ids=label)
def test_an_unknown_question_cannot_be_decided(ledger, unknown):
    office = Office(ledger)
    office.ask(n=1)
    for decide in (office.desk.approve, office.desk.deny):
        with pytest.raises((LookupError, LedgerUnavailable)):
            decide(unknown, OLGA)
    assert office.standings() == ["pending"]


def test_a_question_is_decided_once(ledger):
    office = Office(ledger)
    office.ask(n=1)
    question = office.approve()
    with pytest.raises(ValueError, match="approved"):
        office.desk.approve(question.id, OLGA)
    office.desk.deny(question.id, OLGA)
    for decide in (office.desk.approve, office.desk.deny):
        with pytest.raises(ValueError, match="denied"):
            decide(question.id, OLGA)
    assert office.ask(n=1) == "approval_denied"


def test_after_its_time_a_question_cannot_be_decided(ledger):
    office = Office(ledger)
    office.ask(n=1)
    [question] = office.desk.pending()
    office.clock.now += TTL
    for decide in (office.desk.approve, office.desk.deny):
        with pytest.raises(ValueError, match="expired"):
            decide(question.id, OLGA)
    assert office.ask(n=1) == "approval_denied" and not office.effects


def test_who_decided_when_and_why_is_kept(ledger):
    office = Office(ledger)
    office.ask(n=1)
    office.clock.now += 5
    office.approve(reason="agreed by phone \ud800")
    assert office.ask(n=1) == "ok"
    office.ask(n=2, call_id="c-2")
    office.clock.now += 5
    office.desk.deny(office.desk.pending()[0].id, OLGA, "too many")
    kept = [(one.standing, one.decided_by, one.decided_at, one.reason) for one in office.desk.history()]
    assert kept == [("used", "olga", 1005, "agreed by phone ?"), ("denied", "olga", 1010, "too many")]


def test_a_desk_in_a_file_outlives_its_process(tmp_path):
    office = FileOffice(tmp_path)
    office.ask(n=1)
    office.ledger.close()
    again = FileOffice(tmp_path)
    [question] = again.desk.pending()
    assert again.done() == 0 and question.arguments == '{"n":1}'
    again.approve()
    again.ledger.close()
    assert FileOffice(tmp_path).ask(n=1) == "ok" and again.done() == 1

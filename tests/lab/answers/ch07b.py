"""Other answers to chapter 07b's exercises."""

import contextlib
from types import SimpleNamespace

from keel.contracts import ToolFailure
from keel.idempotency import recall
from keel.ledger import OPEN, UNSETTLED, Entry, State
from keel.registry import ToolRegistry
from keel.settling import CannotTell, Happened, NotHappened, reconcile
from keel.workers import Pool

# --- 07b-a ---


def write_by_text(disk, memory, effect):
    kept = disk.read() or ""
    if kept == "begun":
        raise ToolFailure("outcome_unknown", "nobody knows")
    if not kept:
        disk.write("begun")
        kept = effect()
        disk.write(kept)
    return kept


def write_in_steps(disk, memory, effect):
    entry = disk.read() or {}
    if "ticket" in entry:
        return entry["ticket"]
    if "claim" in entry:
        disk.write({**entry, "asked_again": True})
        raise ToolFailure("outcome_unknown", "nobody knows")
    disk.write({"claim": 1})
    ticket = effect()
    disk.write({"claim": 1, "returned": True})
    disk.write({"claim": 1, "returned": True, "ticket": ticket})
    return ticket


def write_with_both(disk, memory, effect):
    entry = memory.read() or disk.read()
    match entry:
        case None:
            disk.write(("running", None))
            memory.write(("done", effect()))
            disk.write(memory.read())
            return memory.read()[1]
        case "done", ticket:
            return ticket
    raise ToolFailure("outcome_unknown", "nobody knows")


def write_says_unknown_at_once(disk, memory, effect):
    entry = disk.read()
    if isinstance(entry, str):
        return entry
    try:
        if entry:
            raise LookupError
        disk.write([1])
        entry = effect()
    except (LookupError, ConnectionError) as error:
        raise ToolFailure("outcome_unknown", "nobody knows") from error
    disk.write(entry)
    return entry


def write_with_finally(disk, memory, effect):
    ticket = None
    try:
        if disk.read() is None:
            ticket = effect()
    finally:
        disk.write(ticket or "failed")
    return disk.read()


def write_done_first(disk, memory, effect):
    if disk.read() is None:
        disk.write({"state": "done"})
        disk.write({"state": "done", "ticket": effect()})
    return disk.read().get("ticket")


def write_unknown_once(disk, memory, effect):
    entry = disk.read()
    if entry == "running":
        disk.write(None)
        raise ToolFailure("outcome_unknown", "nobody knows")
    if entry is None:
        disk.write("running")
        entry = effect()
        disk.write(entry)
    return entry


def write_always_new(disk, memory, effect):
    disk.write("running")
    ticket = effect()
    disk.write(ticket)
    return ticket


def write_keeps_no_ticket(disk, memory, effect):
    if disk.read() is not None:
        raise ToolFailure("outcome_unknown", "nobody knows")
    disk.write("running")
    return effect()


def write_calls_it_failed(disk, memory, effect):
    if disk.read() == "running":
        raise ToolFailure("tool_failed", "The last try was cut short.", retryable=True)
    return write_by_text(disk, memory, effect) if disk.read() else _begin(disk, effect)


def _begin(disk, effect):
    disk.write("running")
    ticket = effect()
    disk.write(ticket)
    return ticket


def write_swallows(disk, memory, effect):
    with contextlib.suppress(BaseException):
        memory.write("running")
        disk.write(effect())
    return disk.read()


def write_frees_on_anything(disk, memory, effect):
    if disk.read() is None:
        disk.write("begun")
        try:
            ticket = effect()
        except BaseException:
            disk.write(None)
            raise
        disk.write(ticket)
    return write_by_text(disk, memory, effect)


def write_tries_again(disk, memory, effect):
    def twice():
        try:
            return effect()
        except ConnectionResetError:
            return effect()

    return write_by_text(disk, memory, twice)


def write_notes_a_failure(disk, memory, effect):
    try:
        return write_by_text(disk, memory, effect)
    except ConnectionResetError:
        disk.write("failed")
        raise


# --- 07b-b ---


def settle_by_match(state, may_still_run, answer):
    match state, may_still_run, answer:
        case (State.CONFLICT, _, _) | (State.RUNNING, True, _):
            return state
        case _, _, Happened():
            return State.DONE
        case _, False, NotHappened():
            return State.FREE
    return "unknown"


def settle_by_table(state, may_still_run, answer):
    if state not in OPEN or (may_still_run and state == "running"):
        return str(state)
    table = {Happened: State.DONE, NotHappened: State.UNKNOWN if may_still_run else State.FREE}
    return table.get(type(answer), State.UNKNOWN)


def settle_step_by_step(state, may_still_run, answer):
    assert state in UNSETTLED
    new = State.UNKNOWN
    if type(answer) is Happened:
        new = State.DONE
    elif type(answer) is NotHappened:
        new = State.UNKNOWN if may_still_run else State.FREE
    if state == State.CONFLICT:
        new = state
    if state == State.RUNNING and may_still_run:
        new = state
    return new


class OneEntry:
    """A ledger that holds one entry, whoever owns it."""

    def __init__(self, entry):
        self.entry = entry

    def entries(self, *states):
        return iter([self.entry] if self.entry.state in states else [])

    def settle(self, seen, state, outcome, note):
        self.entry = seen._replace(state=state)
        return True


def settle_by_the_package(state, may_still_run, answer):
    registry = ToolRegistry()

    @registry.tool(version="1.0", permission="tickets:write", check_status=lambda values, context: answer)
    def create_ticket() -> dict:
        """Create a ticket."""

    caller = '{"principal": "amira", "permissions": [], "teams": [], "run_id": "run-1"}'
    ledger = OneEntry(Entry("k", "d", "create_ticket", "1.0", "{}", caller, "c-1", "t", state, live=may_still_run))
    reconcile(ledger, registry, Pool())
    return ledger.entry.state


def settle_keeps_running(state, may_still_run, answer):
    return state if isinstance(answer, CannotTell) else settle_by_match(state, may_still_run, answer)


def settle_at_work(state, may_still_run, answer):
    return settle_by_match(State.UNKNOWN if state is State.RUNNING else state, may_still_run, answer)


def settle_happened_at_work(state, may_still_run, answer):
    return State.DONE if isinstance(answer, Happened) else settle_by_match(state, may_still_run, answer)


def settle_waits(state, may_still_run, answer):
    return state if may_still_run else settle_by_match(state, may_still_run, answer)


def settle_all_done(state, may_still_run, answer):
    return State.DONE


def settle_free_is_failed(state, may_still_run, answer):
    new = settle_by_match(state, may_still_run, answer)
    return State.FAILED if new is State.FREE else new


def settle_unsure_is_conflict(state, may_still_run, answer):
    return State.CONFLICT if isinstance(answer, CannotTell) else settle_by_match(state, may_still_run, answer)


def settle_unsure_when_dead(state, may_still_run, answer):
    if isinstance(answer, CannotTell) and state is State.RUNNING:
        return State.FREE
    return settle_by_match(state, may_still_run, answer)


def settle_optimistic(state, may_still_run, answer):
    return State.DONE if isinstance(answer, Happened) or state is State.CONFLICT else State.FREE


# --- 07b-c ---


def name_by_match(entry, age_s, tickets):
    match tickets:
        case 0 if entry and entry.live:
            known = "may_happen"
        case 0:
            known = "not_happened"
        case 1:
            known = "happened"
        case _:
            known = "twice"
    match entry and (entry.state, entry.live):
        case None | (State.FREE, _):
            return known, "run"
        case ((State.DONE | State.FAILED), _):
            return known, "replay"
        case State.RUNNING, True:
            return known, "in_progress"
    return known, "outcome_unknown"


def name_by_tables(entry, age_s, tickets):
    alive = bool(entry) and entry.live
    known = ["may_happen" if alive else "not_happened", "happened", "twice"][min(tickets, 2)]
    answers = {None: "run", State.FREE: "run", State.DONE: "replay", State.FAILED: "replay"}
    answers[State.RUNNING] = ["outcome_unknown", "in_progress"][alive]
    return [known, answers.get(entry and entry.state, "outcome_unknown")]


def name_in_two_parts(entry, age_s, tickets):
    def known():
        if tickets:
            return "happened" if tickets < 2 else "twice"
        return "not_happened" if entry is None or not entry.live else "may_happen"

    def says():
        if entry is None or entry.state == "free":
            return "run"
        if entry.state in ("done", "failed"):
            return "replay"
        return "in_progress" if entry.live and entry.state == "running" else "outcome_unknown"

    return known(), says()


def name_by_the_package(entry, age_s, tickets):
    action = SimpleNamespace(key="k", digest=entry and entry.digest, tool=SimpleNamespace(name="create_ticket"))
    known = name_by_match(entry, age_s, tickets)[0]
    try:
        found = recall(SimpleNamespace(recall=lambda key: entry), action)
    except ToolFailure as failure:
        return known, failure.error.code
    return known, "run" if found is None else "replay"


def name_old_claims_are_dead(entry, age_s, tickets):
    known, says = name_by_match(entry, age_s, tickets)
    return known, "outcome_unknown" if says == "in_progress" and age_s > 600 else says


def name_young_claims_live(entry, age_s, tickets):
    known, says = name_by_match(entry, age_s, tickets)
    young = entry is not None and entry.state is State.RUNNING and age_s < 30
    return known, "in_progress" if young else says


def name_by_the_world(entry, age_s, tickets):
    known = name_by_match(entry, age_s, tickets)[0]
    return known, {"happened": "replay", "twice": "replay", "not_happened": "run"}.get(known, "in_progress")


def name_by_the_ledger(entry, age_s, tickets):
    if entry is None or entry.state is State.FREE:
        return "not_happened", "run"
    if entry.state is State.DONE:
        return "happened", "replay"
    return "may_happen", "in_progress" if entry.state is State.RUNNING and entry.live else "outcome_unknown"


def name_failed_is_unknown(entry, age_s, tickets):
    known, says = name_by_match(entry, age_s, tickets)
    return known, "outcome_unknown" if entry is not None and entry.state is State.FAILED else says


def name_never_twice(entry, age_s, tickets):
    return name_by_match(entry, age_s, min(tickets, 1))


def name_reruns_killed(entry, age_s, tickets):
    known, says = name_by_match(entry, age_s, tickets)
    return known, "run" if says == "outcome_unknown" and not tickets else says


def name_abandoned_is_over(entry, age_s, tickets):
    known, says = name_by_match(entry, age_s, tickets)
    over = entry is not None and entry.state is State.UNKNOWN and not tickets
    return "not_happened" if over else known, says


def name_known_only(entry, age_s, tickets):
    return name_by_match(entry, age_s, tickets)[0]


def name_replays_what_is_there(entry, age_s, tickets):
    known, says = name_by_match(entry, age_s, tickets)
    return known, "replay" if entry is None and tickets else says


RIGHT = {
    "07b-a": [write_by_text, write_in_steps, write_with_both, write_says_unknown_at_once],
    "07b-b": [settle_by_match, settle_by_table, settle_step_by_step, settle_by_the_package],
    "07b-c": [name_by_match, name_by_tables, name_in_two_parts, name_by_the_package],
}

WRONG = {
    "07b-a": [
        (write_with_finally, "mistake.claims_after"),
        (write_done_first, "mistake.calls_done"),
        (write_unknown_once, "case.called_once_more"),
        (write_always_new, "mistake.reruns"),
        (write_keeps_no_ticket, "case.twice"),
        (write_calls_it_failed, "case.after_the_effect"),
        (write_swallows, "mistake.in_memory"),
        (write_frees_on_anything, "mistake.frees"),
        (write_tries_again, "case.raises_after"),
        (write_notes_a_failure, "case.raises_after"),
    ],
    "07b-b": [
        (settle_keeps_running, "case.dead_cannot_tell"),
        (settle_at_work, "case.at_work"),
        (settle_happened_at_work, "case.at_work_happened"),
        (settle_waits, "case.happened_late"),
        (settle_all_done, "mistake.absent_is_done"),
        (settle_free_is_failed, "mistake.unknown_is_failed"),
        (settle_unsure_is_conflict, "case.cannot_tell"),
        (settle_unsure_when_dead, "case.dead_cannot_tell"),
        (settle_optimistic, "mistake.frees_unsure"),
    ],
    "07b-c": [
        (name_old_claims_are_dead, "mistake.trusts_the_clock"),
        (name_young_claims_live, "mistake.trusts_the_clock"),
        (name_by_the_world, "case.at_work_made"),
        (name_by_the_ledger, "mistake.ledger_alone"),
        (name_failed_is_unknown, "case.failed"),
        (name_never_twice, "case.done_twice"),
        (name_reruns_killed, "mistake.world_answers"),
        (name_abandoned_is_over, "case.abandoned"),
        (name_known_only, "case.new"),
        (name_replays_what_is_there, "case.went_around"),
    ],
}

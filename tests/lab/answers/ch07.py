"""Other answers to chapter 07's exercises."""

import contextlib
import hashlib
import json
import secrets
import time
import uuid

from keel.canonical import canonical, digest
from keel.contracts import ErrorCode, ToolFailure
from keel.ledger import State

# --- 07-a ---


def once_by_states(ledger, key, arguments, effect):
    state, kept, outcome = ledger.get(key, (State.FREE, None, None))
    if state is not State.FREE and kept != canonical(arguments):
        raise ToolFailure(ErrorCode.IDEMPOTENCY_CONFLICT, "other arguments")
    if state is State.DONE:
        return outcome
    if state is State.RUNNING:
        raise ToolFailure(ErrorCode.OUTCOME_UNKNOWN, "nobody knows")
    ledger[key] = (State.RUNNING, canonical(arguments), None)
    outcome = effect()
    ledger[key] = (State.DONE, canonical(arguments), outcome)
    return outcome


def once_by_try(ledger, key, arguments, effect):
    try:
        entry = ledger[key]
    except KeyError:
        entry = ledger[key] = {"of": digest(arguments), "state": "running"}
        try:
            entry["data"] = effect()
        except Exception as error:
            entry["state"] = "unknown"
            raise ToolFailure("outcome_unknown", "It may have happened.") from error
        entry["state"] = "done"
    if entry["of"] != digest(arguments):
        raise ToolFailure("idempotency_conflict", "No.") from None
    if entry["state"] != "done":
        raise ToolFailure("outcome_unknown", "It may have happened.")
    return entry["data"]


def once_in_two_entries(ledger, key, arguments, effect):
    claim, done = ("claim", key), ("done", key)
    if ledger.setdefault(claim, arguments) is not arguments:
        if ledger[claim] != arguments:
            raise ToolFailure("idempotency_conflict", "This key means something else.")
        if done not in ledger:
            raise ToolFailure("outcome_unknown", "Begun, and never ended.")
    else:
        ledger[done] = effect()
    return ledger[done]


def once_without_a_ledger(ledger, key, arguments, effect):
    return effect()


def once_by_arguments(ledger, key, arguments, effect):
    asked = canonical(arguments)
    if asked not in ledger:
        ledger[asked] = None
        ledger[asked] = (effect(),)
    if ledger[asked] is None:
        raise ToolFailure("outcome_unknown", "It may have happened.")
    return ledger[asked][0]


def once_notes_exceptions(ledger, key, arguments, effect):
    if key not in ledger:
        try:
            ledger[key] = (arguments, effect())
        except Exception:
            ledger[key] = (arguments,)
            raise
    if ledger[key][0] != arguments:
        raise ToolFailure("idempotency_conflict", "other arguments")
    if len(ledger[key]) == 1:
        raise ToolFailure("outcome_unknown", "nobody knows")
    return ledger[key][1]


def once_as_sent(ledger, key, arguments, effect):
    text = json.dumps(arguments)
    if ledger.setdefault(key, [text])[0] != text:
        raise ToolFailure("idempotency_conflict", "other arguments")
    if len(ledger[key]) == 1:
        ledger[key] += ["begun"]
        ledger[key] += [effect()]
    if len(ledger[key]) == 2:
        raise ToolFailure("outcome_unknown", "nobody knows")
    return ledger[key][2]


def once_calls_it_failed(ledger, key, arguments, effect):
    if key not in ledger:
        ledger[key] = {"arguments": arguments}
        ledger[key]["result"] = effect()
    if ledger[key]["arguments"] != arguments:
        raise ToolFailure("idempotency_conflict", "other arguments")
    if "result" not in ledger[key]:
        raise ToolFailure("tool_failed", "It failed.")
    return ledger[key]["result"]


def once_runs_the_others(ledger, key, arguments, effect):
    if ledger.get(key, [None])[0] != arguments:
        ledger[key] = [arguments]
        ledger[key].append(effect())
    if len(ledger[key]) == 1:
        raise ToolFailure("outcome_unknown", "nobody knows")
    return ledger[key][1]


def once_swallows(ledger, key, arguments, effect):
    with contextlib.suppress(ConnectionResetError):
        return once_in_two_entries(ledger, key, arguments, effect)


def once_tries_again(ledger, key, arguments, effect):
    def twice():
        try:
            return effect()
        except ToolFailure:
            return effect()

    return once_in_two_entries(ledger, key, arguments, twice)


def once_keeps_the_failure(ledger, key, arguments, effect):
    if isinstance(ledger.get(key), ToolFailure):
        raise ledger[key]
    try:
        return once_in_two_entries(ledger, key, arguments, effect)
    except ToolFailure as failure:
        if str(failure.error.code) not in ("outcome_unknown", "idempotency_conflict"):
            ledger[key] = failure
        raise


def once_frees_what_failed(ledger, key, arguments, effect):
    if key not in ledger:
        ledger[key] = [arguments]
        try:
            ledger[key].append(effect())
        except ToolFailure:
            ledger.pop(key)
            raise
    kept, *results = ledger[key]
    if kept != arguments:
        raise ToolFailure("idempotency_conflict", "other arguments")
    if not results:
        raise ToolFailure("outcome_unknown", "nobody knows")
    return results[0]


def once_asks_the_state_first(ledger, key, arguments, effect):
    entry = ledger.setdefault(key, {"state": "free"})
    if entry["state"] == "running":
        raise ToolFailure("outcome_unknown", "nobody knows")
    if entry["state"] == "free":
        entry.update(state="running", arguments=arguments)
        entry.update(state="done", result=effect())
    if entry["arguments"] != arguments:
        raise ToolFailure("idempotency_conflict", "other arguments")
    return entry["result"]


# --- 07-b ---


def key_by_digest(values, context):
    return digest(values)


def key_by_canonical(values, context):
    return f"create_ticket {canonical(values)}"


def key_by_lengths(values, context):
    title, incident = values["title"], values["incident_id"]
    return f"{len(incident)}:{incident}{title}"


def key_by_repr(values, context):
    return context.principal.id + repr(tuple(values[name] for name in sorted(values)))


def key_by_hash_of_join(values, context):
    return hashlib.sha256((values["title"] + values["incident_id"]).encode()).hexdigest()


def key_in_small_letters(values, context):
    return json.dumps([values["title"].casefold(), values["incident_id"].lower()])


def key_by_str(values, context):
    return str(values)


def key_as_a_list(values, context):
    return [values["title"], values["incident_id"]]


def key_of_the_title(values, context):
    return values["title"]


def key_constant(values, context):
    return "create_ticket"


def key_of_the_day(values, context):
    return json.dumps([values["title"], values["incident_id"], time.strftime("%Y-%m-%d")])


def key_with_token(values, context):
    return json.dumps([values["title"], values["incident_id"], secrets.token_hex(4)])


def key_of_run_and_call(values, context):
    return json.dumps([context.run_id, context.call_id])


def key_of_both(values, context):
    return json.dumps([values["incident_id"], values["title"], context.run_id, context.call_id])


def key_by_join(values, context):
    return "|".join([values["title"], values["incident_id"]])


def key_given(values, context):
    return context.idempotency_key


# --- 07-c ---


def book_by_recursion(title, context, service, tries=3):
    try:
        return service.book(title, context.idempotency_key)
    except ConnectionResetError:
        if tries == 1:
            raise
        return book_by_recursion(title, context, service, tries - 1)


def book_by_suppress(title, context, service):
    key = f"{context.idempotency_key}/ticket"
    for _ in range(2):
        with contextlib.suppress(ConnectionResetError):
            return service.book(title=title, key=key)
    return service.book(title=title, key=key)


def book_by_a_counter(title, context, service):
    key, made = str(uuid.uuid5(uuid.NAMESPACE_OID, context.idempotency_key)), 0
    while True:
        made += 1
        try:
            return service.book(title, key=key)
        except OSError as error:
            if made >= 3:
                raise error


def book_once(title, context, service):
    return service.book(title, key=context.idempotency_key)


def book_with_random(title, context, service):
    for left in range(2, -1, -1):
        try:
            return service.book(title, key=uuid.uuid4().hex)
        except ConnectionResetError:
            if not left:
                raise


def book_in_the_title(title, context, service):
    return service.book(f"{title} [{context.idempotency_key}]")


def book_with_headers(title, context, service):
    return service.book(title, headers={"Idempotency-Key": context.idempotency_key})


def book_four_times(title, context, service):
    for left in range(3, -1, -1):
        try:
            return service.book(title, key=context.idempotency_key)
        except ConnectionResetError:
            if not left:
                raise


def book_or_none(title, context, service):
    for _ in range(3):
        with contextlib.suppress(ConnectionResetError):
            return service.book(title, key=context.idempotency_key)


def book_by_call_id(title, context, service):
    for left in range(2, -1, -1):
        try:
            return service.book(title, key=context.call_id)
        except ConnectionResetError:
            if not left:
                raise


def book_for_ever(title, context, service):
    while True:
        try:
            return service.book(title, key=context.idempotency_key)
        except Exception:
            continue


RIGHT = {
    "07-a": [once_by_states, once_by_try, once_in_two_entries],
    "07-b": [key_by_digest, key_by_canonical, key_by_lengths, key_by_repr, key_in_small_letters],
    "07-c": [book_by_recursion, book_by_suppress, book_by_a_counter],
}

WRONG = {
    "07-a": [
        (once_without_a_ledger, "case.again"),
        (once_by_arguments, "case.other_key"),
        (once_notes_exceptions, "mistake.claims_after"),
        (once_as_sent, "case.other_order"),
        (once_calls_it_failed, "case.answer_lost"),
        (once_runs_the_others, "case.other_arguments"),
        (once_swallows, "case.answer_lost"),
        (once_tries_again, "case.tool_failure"),
        (once_keeps_the_failure, "case.tool_failure"),
        (once_frees_what_failed, "mistake.trusts_tool_failures"),
        (once_asks_the_state_first, "mistake.unknown_first"),
    ],
    "07-b": [
        (key_by_hash_of_join, "mistake.joined"),
        (key_by_str, "case.other_order"),
        (key_as_a_list, "case.text"),
        (key_of_the_title, "case.other_incident"),
        (key_constant, "case.other_incident"),
        (key_of_the_day, "mistake.clock"),
        (key_with_token, "mistake.chance"),
        (key_of_run_and_call, "case.other_incident"),
        (key_of_both, "mistake.call_id"),
        (key_by_join, "mistake.joined"),
        (key_given, "case.text"),
    ],
    "07-c": [
        (book_once, "case.answer_lost"),
        (book_with_random, "mistake.new_key"),
        (book_in_the_title, "mistake.no_key"),
        (book_with_headers, "mistake.unread_field"),
        (book_four_times, "case.never"),
        (book_or_none, "case.never"),
        (book_by_call_id, "case.called_again"),
        (book_for_ever, "mistake.unbounded"),
    ],
}

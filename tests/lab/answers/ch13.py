"""Other answers to chapter 13's exercises."""

import copy
import json
from itertools import groupby

# --- 13-a ---

GOOD = {"ok", "replayed"}
SECRET = ("password", "token", "secret", "api_key")


def stopped_in_one_pass(events, call_id):
    last, before = None, None
    for event in events:
        if event["call_id"] == call_id:
            last, before = event, last
    if last["stage"] != "answer":
        return f"after {last['stage']}"
    return None if last["outcome"] in GOOD else before["stage"]


def stopped_by_the_answer(events, call_id):
    own = [(event["stage"], event["outcome"]) for event in reversed(events) if event["call_id"] == call_id]
    (stage, answer), *walked = own
    if stage != "answer":
        return "after " + stage
    return None if answer in GOOD else next(stage for stage, outcome in walked if outcome not in GOOD)


def stopped_before_the_answer(events, call_id):
    own = [event for event in events if event["call_id"] == call_id]
    *walked, last = own
    if last["stage"] != "answer":
        return f"after {last['stage']}"
    return walked[-1]["stage"] if walked[-1]["outcome"] not in GOOD else None


def stopped_by_groups(events, call_id):
    ordered = sorted(events, key=lambda event: event["call_id"])
    own = next(list(group) for key, group in groupby(ordered, lambda event: event["call_id"]) if key == call_id)
    return stopped_in_one_pass(own, call_id)


def stopped_at_the_end(events, call_id):
    return events[-1]["stage"]


def stopped_at_the_last_failure(events, call_id):
    failed = [event["stage"] for event in events if event["call_id"] == call_id and event["outcome"] != "ok"]
    return failed[-1] if failed else None


def stopped_at_the_first_failure(events, call_id):
    return next((event["stage"] for event in events if event["outcome"] != "ok"), None)


def stopped_without_news(events, call_id):
    own = [e["stage"] for e in events if e["call_id"] == call_id and e["outcome"] not in GOOD]
    return own[0] if own else None


def stopped_with_the_neighbours_stage(events, call_id):
    told = stopped_in_one_pass(events, call_id)
    return f"after {events[-1]['stage']}" if told and told.startswith("after") else told


def stopped_bare(events, call_id):
    told = stopped_in_one_pass(events, call_id)
    return told and told.removeprefix("after ")


def stopped_with_a_code(events, call_id):
    return next((e["outcome"] for e in events if e["call_id"] == call_id and e["outcome"] not in GOOD), None)


def stopped_at_what_is_not_ok(events, call_id):
    own = [event for event in events if event["call_id"] == call_id]
    if own[-1]["stage"] != "answer":
        return f"after {own[-1]['stage']}"
    return next((event["stage"] for event in own if event["outcome"] != "ok"), None)


def stopped_with_the_event(events, call_id):
    return next((e for e in events if e["call_id"] == call_id and e["outcome"] not in GOOD), None)


def stopped_says_ok(events, call_id):
    return stopped_in_one_pass(events, call_id) or "ok"


def stopped_breaks(events, call_id):
    return events[call_id]["stage"]


# --- 13-b ---


def secret_key(key):
    return any(one in key.casefold() for one in SECRET)


def hidden_itself(value):
    if isinstance(value, dict):
        return {key: "[hidden]" if secret_key(key) else hidden_itself(inner) for key, inner in value.items()}
    return [hidden_itself(inner) for inner in value] if isinstance(value, list) else value


def hidden_by_json(value):
    def pairs(found):
        return {key: "[hidden]" if secret_key(key) else inner for key, inner in found}

    return json.loads(json.dumps(value), object_pairs_hook=pairs)


def hidden_in_a_copy(value):
    waiting = [made := copy.deepcopy(value)]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            for key in filter(secret_key, one):
                one[key] = "[hidden]"
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one
    return made


def hidden_flat(value):
    if not isinstance(value, dict):
        return value
    return {key: "[hidden]" if secret_key(key) else inner for key, inner in value.items()}


def hidden_shallow(value):
    made = dict(value) if isinstance(value, dict) else value
    for key, inner in made.items() if isinstance(made, dict) else ():
        if secret_key(key):
            made[key] = "[hidden]"
        elif isinstance(inner, dict):
            inner.update(hidden_shallow(inner))
    return made


def hidden_dicts_alone(value):
    if not isinstance(value, dict):
        return value
    return {key: "[hidden]" if secret_key(key) else hidden_dicts_alone(inner) for key, inner in value.items()}


def hidden_and_gone(value):
    if isinstance(value, list):
        return [hidden_and_gone(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    return {key: hidden_and_gone(inner) for key, inner in value.items() if not secret_key(key)}


def hidden_ids_too(value):
    if isinstance(value, dict):
        return {key: "[hidden]" if secret_key(key) or "id" in key else value[key] for key in value}
    return value


def hidden_small_letters(value):
    if isinstance(value, dict):
        return {k: "[hidden]" if any(s in k for s in SECRET) else hidden_small_letters(v) for k, v in value.items()}
    return list(map(hidden_small_letters, value)) if isinstance(value, list) else value


def hidden_exact(value):
    if isinstance(value, dict):
        return {k: "[hidden]" if k.lower() in SECRET else hidden_exact(v) for k, v in value.items()}
    return list(map(hidden_exact, value)) if isinstance(value, list) else value


def hidden_only_texts(value):
    if isinstance(value, dict):
        return {
            key: "[hidden]" if secret_key(key) and not isinstance(inner, dict | list) else hidden_only_texts(inner)
            for key, inner in value.items()
        }
    return list(map(hidden_only_texts, value)) if isinstance(value, list) else value


def hidden_only_strings(value):
    if isinstance(value, dict):
        return {
            key: "[hidden]" if secret_key(key) and not isinstance(inner, int) else hidden_only_strings(inner)
            for key, inner in value.items()
        }
    return list(map(hidden_only_strings, value)) if isinstance(value, list) else value


def hidden_words(value):
    if isinstance(value, str):
        return "[hidden]" if secret_key(value) else value
    if isinstance(value, dict):
        return {key: "[hidden]" if secret_key(key) else hidden_words(inner) for key, inner in value.items()}
    return list(map(hidden_words, value)) if isinstance(value, list) else value


def hidden_and_strict(value):
    if isinstance(value, dict):
        return {key: "[hidden]" if secret_key(key) else hidden_and_strict(inner) for key, inner in value.items()}
    return list(map(hidden_and_strict, value)) if isinstance(value, list) else str(value)


def hidden_as_text(value):
    return json.dumps(hidden_itself(value))


def hidden_returning_nothing(value):
    hidden_itself(value)


# --- 13-c ---


def red_by_length(guard, cases):
    red = set()
    for name, guards in cases.items():
        if guard in guards and len(guards) == 1:
            red.add(name)
    return red


def red_by_what_is_left(guard, cases):
    return {name for name, guards in cases.items() if guards and not [one for one in guards if one != guard]}


def red_by_sets(guard, cases):
    return set(filter(lambda name: set(cases[name]) == {guard}, cases))


def red_first(guard, cases):
    for name, guards in cases.items():
        if guards == [guard]:
            return {name}
    return set()


def red_everything(guard, cases):
    return set(cases)


def red_named(guard, cases):
    return {name for name in cases if guard in cases[name]}


def red_front(guard, cases):
    return {name for name, guards in cases.items() if guards and guards[0] == guard}


def red_last(guard, cases):
    return {name for name, guards in cases.items() if guards and guards.pop() == guard}


def red_nothing_left(guard, cases):
    return {name for name, guards in cases.items() if not set(guards) - {guard}}


def red_removed(guard, cases):
    red = red_by_length(guard, cases)
    for guards in cases.values():
        if guard in guards:
            guards.remove(guard)
    return red


def red_as_a_list(guard, cases):
    return sorted(red_by_length(guard, cases))


def red_one_text(guard, cases):
    return {name for name, guards in cases.items() if guards == guard}


def red_at_least_one(guard, cases):
    return red_by_length(guard, cases) or None


def green(guard, cases):
    return set(cases) - red_by_length(guard, cases)


RIGHT = {
    "13-a": [stopped_in_one_pass, stopped_by_the_answer, stopped_before_the_answer, stopped_by_groups],
    "13-b": [hidden_itself, hidden_by_json, hidden_in_a_copy],
    "13-c": [red_by_length, red_by_what_is_left, red_by_sets],
}

WRONG = {
    "13-a": [
        (stopped_at_the_end, "mistake.the_answer"),
        (stopped_at_the_last_failure, "mistake.the_answer"),
        (stopped_at_the_first_failure, "mistake.another_call"),
        (stopped_without_news, "mistake.came_through"),
        (stopped_with_the_neighbours_stage, "case.killed_beside"),
        (stopped_bare, "mistake.blames_claim"),
        (stopped_with_a_code, "mistake.a_code"),
        (stopped_at_what_is_not_ok, "mistake.a_replay"),
        (stopped_with_the_event, "case.refused"),
        (stopped_says_ok, "case.through"),
        (stopped_breaks, "case.refused"),
    ],
    "13-b": [
        (hidden_flat, "mistake.top_only"),
        (hidden_shallow, "mistake.changes_input"),
        (hidden_dicts_alone, "mistake.past_lists"),
        (hidden_and_gone, "mistake.drops_keys"),
        (hidden_ids_too, "mistake.drops_ids"),
        (hidden_small_letters, "mistake.by_case"),
        (hidden_exact, "mistake.whole_name"),
        (hidden_only_texts, "mistake.leaves"),
        (hidden_only_strings, "case.number"),
        (hidden_words, "mistake.by_text"),
        (hidden_and_strict, "case.any_case"),
        (hidden_as_text, "case.flat"),
        (hidden_returning_nothing, "case.flat"),
    ],
    "13-c": [
        (red_first, "mistake.first_only"),
        (red_everything, "mistake.all"),
        (red_named, "mistake.named"),
        (red_front, "mistake.in_front"),
        (red_last, "mistake.behind"),
        (red_nothing_left, "mistake.unguarded"),
        (red_removed, "mistake.for_good"),
        (red_as_a_list, "case.one"),
        (red_one_text, "case.one"),
        (red_at_least_one, "case.none"),
        (green, "case.one"),
    ],
}

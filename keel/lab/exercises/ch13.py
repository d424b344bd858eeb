"""Chapter 13's exercises: where a call stopped, what a trace must not hold, which rows a missing guard turns red."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from keel.lab.exercises.model import Case, Exercise, Mistake, Trial
from keel.lab.exercises.showing import show

# --- 13-a: where did this call stop? --------------------------------------------------------------------------------


def stopped_at_stub(events, call_id): ...


def stopped_at_solution(events, call_id):
    *stages, last = [event for event in events if event["call_id"] == call_id]
    if last["stage"] != "answer":
        return f"after {last['stage']}"
    if last["outcome"] in ("ok", "replayed"):
        return None
    return [event["stage"] for event in stages if event["stage"] != "answer"][-1]


def _stops(own=True, ends=lambda stage: f"after {stage}", good=("ok", "replayed"), at=0, tells="stage"):
    """Looks for a refusal among the events of the last walk, with one thing done otherwise than would be right."""

    def stopped_at(events, call_id):
        seen = [event for event in events if event["call_id"] == call_id or not own]
        if seen[-1]["stage"] != "answer":
            return ends(seen[-1]["stage"])
        earlier = [number for number, event in enumerate(seen[:-1]) if event["stage"] == "answer"]
        walk = seen[earlier[-1] + 1 :] if earlier and own else seen
        refused = [event[tells] for event in walk if event["outcome"] not in good]
        return refused[at] if refused else None

    return stopped_at


stopped_at_of_any_call = _stops(own=False)
stopped_at_the_answer = _stops(at=-1)
stopped_at_nothing = _stops(ends=lambda stage: None)
stopped_at_the_last_that_passed = _stops(ends=lambda stage: stage)
stopped_at_a_replay = _stops(good=("ok",))
stopped_at_a_code = _stops(tells="outcome")


def stopped_at_an_earlier_walk(events, call_id):
    own = [event for event in events if event["call_id"] == call_id]
    if own[-1]["stage"] != "answer":
        return f"after {own[-1]['stage']}"
    return next((event["stage"] for event in own if event["outcome"] not in ("ok", "replayed")), None)


def stopped_at_the_last_line(events, call_id):
    last = [event for event in events if event["stage"] != "answer"][-1]
    if events[-1]["stage"] != "answer":
        return f"after {last['stage']}"
    return None if last["outcome"] in ("ok", "replayed") else last["stage"]


def stopped_at_the_first_gap(events, call_id):
    first = next(at for at, event in enumerate(events) if event["call_id"] == call_id)
    after = (at for at, event in enumerate(events) if at > first and event["call_id"] != call_id)
    return stopped_at_solution(events[first : next(after, None)], call_id)


def _stop_case(name: str, expected: str | None, *written: str) -> Case:
    """A trace, from which c-1 is asked for. Each event is written "c-1 rules rule_violated"; no code means ok."""
    fields = [(*one.split(), "ok")[:3] for one in written]
    events = [{"call_id": call_id, "stage": stage, "outcome": outcome} for call_id, stage, outcome in fields]
    shown = f'stopped_at(events, "c-1")  # {"; ".join(written)}'
    return Case(name, shown, lambda answer: answer(copy.deepcopy(events), "c-1"), expected)


def _said(name: str, *answers: Any) -> Callable[[Trial, Mapping[str, Trial]], bool]:
    return lambda first, _: first.case.name == name and first.got in answers


_DENIED, _VIOLATED = "permission permission_denied", "rules rule_violated"
_ASKED = ("c-1 rules", "c-1 approve approval_required", "c-1 answer approval_required", "c-1 rules")

STOPPED_AT = Exercise(
    id="13-a",
    name="stopped_at",
    minutes=8,
    stub=stopped_at_stub,
    solution=stopped_at_solution,
    cases=(
        _stop_case("refused", "permission", "c-1 read", "c-1 lookup", f"c-1 {_DENIED}", "c-1 answer permission_denied"),
        _stop_case("through", None, "c-1 read", "c-1 lookup", "c-1 run", "c-1 output", "c-1 answer"),
        _stop_case(
            "neighbour_refused",
            None,
            "c-1 read",
            "c-2 read",
            f"c-2 {_DENIED}",
            "c-1 run",
            "c-2 answer permission_denied",
            "c-1 answer",
        ),
        _stop_case(
            "neighbour_last",
            "rules",
            "c-1 read",
            "c-2 read",
            f"c-1 {_VIOLATED}",
            "c-1 answer rule_violated",
            "c-2 run",
            "c-2 answer",
        ),
        _stop_case("late_answer", None, "c-1 read", "c-1 run", "c-2 read", "c-2 run", "c-2 answer", "c-1 answer"),
        _stop_case("killed", "after claim", "c-1 read", "c-1 rules", "c-1 claim"),
        _stop_case(
            "killed_beside", "after claim", "c-1 read", "c-2 read", "c-1 claim", "c-2 run", "c-2 output", "c-2 answer"
        ),
        _stop_case("replayed", None, "c-1 read", "c-1 recall replayed", "c-1 answer"),
        _stop_case("in_the_body", "run", "c-1 read", "c-1 claim", "c-1 run timeout", "c-1 answer outcome_unknown"),
        _stop_case("agreed_to", None, *_ASKED, "c-1 approve", "c-1 claim", "c-1 run", "c-1 answer"),
        _stop_case("killed_after_a_yes", "after claim", *_ASKED, "c-1 approve", "c-1 claim"),
    ),
    mistakes=(
        Mistake("the_answer", stopped_at_the_answer, _said("refused", "answer")),
        Mistake("a_code", stopped_at_a_code, _said("refused", "permission_denied")),
        Mistake("another_call", stopped_at_of_any_call, _said("neighbour_refused", "permission", "answer")),
        Mistake("last_line", stopped_at_the_last_line, _said("neighbour_last", None, "run", "answer", "after run")),
        Mistake("first_gap", stopped_at_the_first_gap, _said("neighbour_refused", "after read")),
        Mistake("came_through", stopped_at_nothing, _said("killed", None, "ok")),
        Mistake("blames_claim", stopped_at_the_last_that_passed, _said("killed", "claim")),
        Mistake("an_earlier_walk", stopped_at_an_earlier_walk, _said("agreed_to", "approve")),
        Mistake("a_replay", stopped_at_a_replay, _said("replayed", "recall")),
    ),
)

# --- 13-b: redact ---------------------------------------------------------------------------------------------------


def hidden_stub(value): ...


def hidden_solution(value):
    def copied(one):
        if isinstance(one, list):
            return [copied(inner) for inner in one]
        if not isinstance(one, dict):
            return one
        return {key: "[hidden]" if is_secret(key) else copied(inner) for key, inner in one.items()}

    def is_secret(key):
        return any(name in key.lower() for name in ("password", "token", "secret", "api_key"))

    return copied(value)


_NAMES = ("password", "token", "secret", "api_key")


def _named(key: str) -> bool:
    return any(name in key.lower() for name in _NAMES)


def _hides(secret=_named, depth=9, lists=True, drops=False, hides=lambda inner: "[hidden]", text=lambda one: one):
    """The solution, with one thing done otherwise."""

    def hidden(value, left=depth):
        if isinstance(value, list) and lists:
            return [hidden(inner, left) for inner in value]
        if not isinstance(value, dict) or not left:
            return text(value)
        kept = {key: inner for key, inner in value.items() if not (drops and secret(key))}
        return {key: hides(inner) if secret(key) else hidden(inner, left - 1) for key, inner in kept.items()}

    return lambda value: hidden(value)


def _inner_strings(value: Any) -> Any:
    """A dict under a secret's key is looked into again, and not hidden as a whole."""
    return hidden_solution(value) if isinstance(value, dict) else "[hidden]"


hidden_at_the_top = _hides(depth=1)
hidden_past_lists = _hides(lists=False)
hidden_and_dropped = _hides(drops=True)
hidden_with_ids = _hides(secret=lambda key: _named(key) or key.endswith("_id"))
hidden_by_case = _hides(secret=lambda key: any(name in key for name in _NAMES))
hidden_by_whole_name = _hides(secret=lambda key: key.lower() in _NAMES)
hidden_at_the_leaves = _hides(hides=_inner_strings)
hidden_by_text = _hides(text=lambda one: "[hidden]" if isinstance(one, str) and _named(one) else one)


def hidden_in_place(value):
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        value[key] = "[hidden]" if isinstance(key, str) and _named(key) else hidden_in_place(value[key])
    return value


_UNCHANGED = "as it was"


def _hidden_case(name: str, value: Any, expected: Any) -> Case:
    """One value. Seen: the copy, and whether the value itself is as it was."""

    def run(answer: Callable[..., Any]) -> dict[str, Any]:
        given = copy.deepcopy(value)
        returned = copy.deepcopy(answer(given))
        return {"returned": returned, "input": _UNCHANGED if given == value else given}

    return Case(name, f"hidden({show(value)})", run, {"returned": expected, "input": _UNCHANGED})


def _returned(name: str, *answers: Any) -> Callable[[Trial, Mapping[str, Trial]], bool]:
    return lambda first, _: first.case.name == name and first.got["returned"] in answers


def _ids(trial: Trial) -> bool:
    """Whether the ids are still there."""
    text = show(trial.got["returned"])
    return "c-1" in text and "INC-001" in text


def _leaks(name: str, secret: str) -> Callable[[Trial, Mapping[str, Trial]], bool]:
    return lambda first, _: first.case.name == name and secret in show(first.got["returned"])


_HIDDEN = "[hidden]"
_DEEP = {"tool": "sign_in", "arguments": {"auth": {"user": "amira", "password": "x1"}}}
_LISTED = {"headers": [{"name": "accept"}, {"token": "x2"}], "rows": [[{"secret": "x3"}]]}
_PLAIN = [{"ok": True, "data": None, "limit": 5}, 0.5]
_CALL = {"call_id": "c-1", "arguments": {"incident_id": "INC-001"}, "token": "x4"}

REDACT = Exercise(
    id="13-b",
    name="hidden",
    minutes=8,
    stub=hidden_stub,
    solution=hidden_solution,
    cases=(
        _hidden_case("flat", {"user": "amira", "password": "x0"}, {"user": "amira", "password": _HIDDEN}),
        _hidden_case("ids", _CALL, {**_CALL, "token": _HIDDEN}),
        _hidden_case(
            "nested", _DEEP, {"tool": "sign_in", "arguments": {"auth": {"user": "amira", "password": _HIDDEN}}}
        ),
        _hidden_case(
            "in_lists", _LISTED, {"headers": [{"name": "accept"}, {"token": _HIDDEN}], "rows": [[{"secret": _HIDDEN}]]}
        ),
        _hidden_case(
            "any_case", {"Password": "x5", "API_KEY": "x6", "n": 1}, {"Password": _HIDDEN, "API_KEY": _HIDDEN, "n": 1}
        ),
        _hidden_case("part_of_name", {"github_token": "x7", "n": 2}, {"github_token": _HIDDEN, "n": 2}),
        _hidden_case("all_below", {"secret": {"user": "root", "pin": 1234}}, {"secret": _HIDDEN}),
        _hidden_case("number", {"api_key": 4711, "token": ["x8", "x9"]}, {"api_key": _HIDDEN, "token": _HIDDEN}),
        _hidden_case("only_a_word", {"symptom": "password reset fails"}, {"symptom": "password reset fails"}),
        _hidden_case("nothing", _PLAIN, _PLAIN),
    ),
    mistakes=(
        Mistake("changes_input", hidden_in_place, lambda first, _: first.got["input"] != _UNCHANGED),
        Mistake("drops_keys", hidden_and_dropped, _returned("flat", {"user": "amira"})),
        Mistake("drops_ids", hidden_with_ids, lambda first, _: first.case.name == "ids" and not _ids(first)),
        Mistake("top_only", hidden_at_the_top, _returned("nested", _DEEP)),
        Mistake("past_lists", hidden_past_lists, _returned("in_lists", _LISTED)),
        Mistake("by_case", hidden_by_case, _leaks("any_case", "x")),
        Mistake("whole_name", hidden_by_whole_name, _returned("part_of_name", {"github_token": "x7", "n": 2})),
        Mistake("leaves", hidden_at_the_leaves, _leaks("all_below", "1234")),
        Mistake("by_text", hidden_by_text, _returned("only_a_word", {"symptom": _HIDDEN})),
    ),
)


# --- 13-c: predict sabotage -----------------------------------------------------------------------------------------


def turns_red_stub(guard, cases): ...


def turns_red_solution(guard, cases):
    return {name for name, guards in cases.items() if guards == [guard]}


def turns_red_all(guard, cases):
    return set(cases)


def turns_red_the_first(guard, cases):
    return set(sorted(turns_red_solution(guard, cases), key=list(cases).index)[:1])


def turns_red_where_named(guard, cases):
    return {name for name, guards in cases.items() if guard in guards}


def turns_red_where_in_front(guard, cases):
    return {name for name, guards in cases.items() if guards[:1] == [guard]}


def turns_red_where_behind(guard, cases):
    return {name for name, guards in cases.items() if guards[-1:] == [guard]}


def turns_red_without_guards(guard, cases):
    return {name for name, guards in cases.items() if all(one == guard for one in guards)}


def turns_red_for_good(guard, cases):
    red = turns_red_solution(guard, cases)
    for guards in cases.values():
        guards[:] = [one for one in guards if one != guard]
    return red


_TABLE = {
    "stranger": ["permission"],
    "other_team": ["permission"],
    "text_as_limit": ["validate"],
    "stranger_writes": ["permission", "approve"],
    "too_low": ["rules"],
    "too_low_no_yes": ["rules", "approve"],
    "no_yes": ["approve"],
    "twice": ["recall", "claim"],
    "own_look_up": [],
}
_GUARDS = ("permission", "validate", "recall", "rules", "approve", "claim")


def _rows(names: Iterable[str]) -> dict[str, list[str]]:
    return {name: list(_TABLE[name]) for name in names}


def _red_case(name: str, guard: str, rows: str, red: str) -> Case:
    """One guard is taken out, over these rows of the table."""
    names = rows.split()
    shown = f"turns_red({guard!r}, {show(_rows(names))})"
    return Case(name, shown, lambda answer: answer(guard, _rows(names)), set(red.split()))


def _drill(answer: Callable[..., Any]) -> dict[str, Any]:
    cases = _rows(_TABLE)
    return {guard: answer(guard, cases) for guard in _GUARDS}


_DRILL = f"{{guard: turns_red(guard, cases) for guard in {_GUARDS}}}  # cases = {_TABLE}"
_ALL_RED = {
    "permission": {"stranger", "other_team"},
    "validate": {"text_as_limit"},
    "recall": set(),
    "rules": {"too_low"},
    "approve": {"no_yes"},
    "claim": set(),
}


def _reds(name: str, *rows: str) -> Callable[[Trial, Mapping[str, Trial]], bool]:
    return lambda first, _: first.case.name == name and first.got == set(rows)


def _both_ways(first: Trial, trials: Mapping[str, Trial]) -> bool:
    """Whether a second guard counts for nothing, wherever it stands."""
    behind = first.case.name == "second_behind" and first.got == {"stranger", "stranger_writes"}
    return behind and trials["second_in_front"].got == {"no_yes", "stranger_writes"}


TURNS_RED = Exercise(
    id="13-c",
    name="turns_red",
    minutes=10,
    stub=turns_red_stub,
    solution=turns_red_solution,
    cases=(
        _red_case("one", "permission", "stranger text_as_limit", "stranger"),
        _red_case("two", "permission", "text_as_limit stranger other_team", "stranger other_team"),
        _red_case("second_behind", "permission", "stranger stranger_writes", "stranger"),
        _red_case("second_in_front", "approve", "no_yes stranger_writes", "no_yes"),
        _red_case("permitted", "rules", "own_look_up too_low", "too_low"),
        _red_case("none", "recall", "twice no_yes", ""),
        Case("drill", _DRILL, _drill, _ALL_RED),
    ),
    mistakes=(
        Mistake("all", turns_red_all, _reds("one", "stranger", "text_as_limit")),
        Mistake("first_only", turns_red_the_first, lambda first, _: first.case.name == "two" and len(first.got) == 1),
        Mistake("named", turns_red_where_named, _both_ways),
        Mistake("in_front", turns_red_where_in_front, _reds("second_behind", "stranger", "stranger_writes")),
        Mistake("behind", turns_red_where_behind, _reds("second_in_front", "no_yes", "stranger_writes")),
        Mistake("unguarded", turns_red_without_guards, _reds("permitted", "own_look_up", "too_low")),
        Mistake(
            "for_good",
            turns_red_for_good,
            lambda first, _: first.case.name == "drill" and first.got["claim"] == {"twice"},
        ),
    ),
)

EXERCISES = (STOPPED_AT, REDACT, TURNS_RED)

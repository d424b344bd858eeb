"""Other answers to chapter 12's exercises."""

import json

from keel.adapters import assistant_message, to_message
from keel.contracts import ToolCall

# --- 12-a ---


def loop_while(model, handle, turns):
    history, left = [], turns
    while left:
        left -= 1
        turn = model.complete(list(history))
        history = [*history, assistant_message(turn)]
        for request in turn.requests:
            history.append(to_message(request, handle(request)))
        if not turn.requests:
            return [history, "answered"]
    return [history, "budget_exceeded"]


def loop_with_a_goal(model, handle, turns):
    history = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Why?"}]
    for _ in range(turns):
        if not (turn := model.complete(history)).requests:
            return [*history, assistant_message(turn)], "answered"
        history.append(assistant_message(turn))
        history += [to_message(request, handle(request)) for request in turn.requests]
    return history, "budget_exceeded"


def loop_of_itself(model, handle, turns, history=()):
    if turns == 0:
        return list(history), "budget_exceeded"
    turn = model.complete(list(history))
    history = [*history, assistant_message(turn)]
    if not turn.requests:
        return history, "answered"
    answers = [to_message(request, handle(request)) for request in turn.requests]
    return loop_of_itself(model, handle, turns - 1, history + answers)


def loop_by_hand(model, handle, turns):
    history = []
    while (turn := model.complete(history)).requests:
        history.append(assistant_message(turn))
        history += [to_message(request, handle(request)) for request in turn.requests]
    return [*history, assistant_message(turn)], "answered"


def loop_counting_good_turns(model, handle, turns):
    history, good = [], 0
    while good < turns:
        turn = model.complete(history)
        history.append(assistant_message(turn))
        if not turn.requests:
            return history, "answered"
        results = [handle(request) for request in turn.requests]
        history += [to_message(request, result) for request, result in zip(turn.requests, results, strict=True)]
        good += any(result.ok for result in results)
    return history, "budget_exceeded"


def loop_breaking_first(model, handle, turns):
    history, asked = [], 0
    while (turn := model.complete(history)).requests:
        asked += 1
        history.append(assistant_message(turn))
        if asked == turns:
            return history, "budget_exceeded"
        history += [to_message(request, handle(request)) for request in turn.requests]
    return [*history, assistant_message(turn)], "answered"


def loop_asking_first(model, handle, turns):
    history, asked = [], 0
    while (turn := model.complete(history)).requests:
        if asked == turns:
            return history, "budget_exceeded"
        asked += 1
        history.append(assistant_message(turn))
        history += [to_message(request, handle(request)) for request in turn.requests]
    return [*history, assistant_message(turn)], "answered"


def loop_one_less(model, handle, turns):
    return loop_while(model, handle, max(0, turns - 1))


def loop_history_alone(model, handle, turns):
    return loop_while(model, handle, turns)[0]


def loop_losing_the_answer(model, handle, turns):
    history, stopped = loop_while(model, handle, turns)
    return history[:-1] if stopped == "answered" else history, stopped


def loop_hangs(model, handle, turns):
    while turns:
        history = loop_while(model, handle, turns)
    return history


def loop_catching_all(model, handle, turns):
    history = []
    while True:
        try:
            turn = model.complete(history)
        except BaseException:
            continue
        if not turn.requests:
            return [*history, assistant_message(turn)], "answered"
        history.append(assistant_message(turn))
        history += [to_message(request, handle(request)) for request in turn.requests]


# --- 12-b ---


def failures_of(turn):
    return [(call.name, call.arguments, result.error.code) for call, result in turn if not result.ok]


def stuck_in_lists(turns):
    if len(turns) < 3:
        return False
    first, second, third = map(failures_of, turns[-3:])
    return any(one in first and one in second for one in third)


def stuck_counting(turns):
    counts = []
    for turn in turns:
        kept = []
        for one in failures_of(turn):
            before = next((number for known, number in counts if known == one), 0)
            kept.append((one, before + 1))
        counts = kept
    return any(number >= 3 for _, number in counts)


def stuck_from_behind(turns):
    for call, result in turns[-1] if turns else ():
        mark = (call.name, call.arguments, result.error.code) if result.error else None
        if mark and len(turns) > 2 and all(mark in failures_of(turn) for turn in turns[-3:]):
            return True
    return False


def stuck_on_whole_calls(turns):
    last = [[call for call, result in turn if not result.ok] for turn in turns[-3:]]
    return len(last) == 3 and any(call in last[0] and call in last[1] for call in last[2])


def stuck_on_whole_errors(turns):
    last = [[(c.name, c.arguments, r.error) for c, r in turn if r.error] for turn in turns[-3:]]
    return len(last) == 3 and any(one in last[0] and one in last[1] for one in last[2])


def stuck_on_any_failure(turns):
    return len(turns) >= 3 and all(map(failures_of, turns[-3:]))


def stuck_on_names(turns):
    last = [{(call.name, result.error.code) for call, result in turn if not result.ok} for turn in turns[-3:]]
    return len(last) == 3 and bool(last[0] & last[1] & last[2])


def stuck_on_arguments(turns):
    last = [[(call.arguments, result.error.code) for call, result in turn if not result.ok] for turn in turns[-3:]]
    return len(last) == 3 and any(one in last[0] and one in last[1] for one in last[2])


def stuck_on_repetition(turns):
    last = [[(call.name, call.arguments) for call, _ in turn] for turn in turns[-3:]]
    return len(last) == 3 and any(one in last[0] and one in last[1] for one in last[2])


def stuck_anywhere(turns):
    return any(stuck_in_lists(turns[: end + 1]) for end in range(len(turns)))


def stuck_over_all(turns):
    failed = [one for turn in turns for one in failures_of(turn)]
    return any(failed.count(one) >= 3 for one in failed if sum(one in failures_of(turn) for turn in turns) >= 3)


def stuck_flat(turns):
    failed = [one for turn in turns for one in failures_of(turn)]
    return any(failed.count(one) >= 3 for one in failed)


def stuck_at_two(turns):
    return len(turns) > 1 and any(one in failures_of(turns[-2]) for one in failures_of(turns[-1]))


def stuck_on_equal_turns(turns):
    last = [failures_of(turn) for turn in turns[-3:]]
    return len(last) == 3 and last[0] != [] and last[0] == last[1] == last[2]


def stuck_on_texts(turns):
    last = [{str(one) for one in failures_of(turn)} for turn in turns[-3:]]
    return len(last) == 3 and bool(last[0] & last[1] & last[2])


def stuck_breaks(turns):
    return any(one in failures_of(turns[-2]) and one in failures_of(turns[-3]) for one in failures_of(turns[-1]))


# --- 12-c ---

UNPAID = {"ok": False, "code": "budget_exceeded"}


def resume_with_what_is_left(text, handle):
    run = json.loads(text)
    left = run["limit"] - run["calls"]
    waiting = [one for one in run["turn"] if one["result"] is None]
    for number, one in enumerate(waiting):
        one["result"] = handle(one["call"]) if number < left else dict(UNPAID)
    return json.dumps({**run, "calls": run["calls"] + min(left, len(waiting))})


def resume_with_a_call(text, handle):
    run = json.loads(text)
    for one in run["turn"]:
        if one["result"] is None and run["calls"] >= run["limit"]:
            one["result"] = UNPAID
        elif one["result"] is None:
            one["result"] = handle(ToolCall(**one["call"]))
            run["calls"] += 1
    return json.dumps(run, indent=2)


def resume_in_steps(text, handle):
    run = json.loads(text)
    entry = next((one for one in run["turn"] if one["result"] is None), None)
    if entry is None:
        return text
    affordable = run["calls"] < run["limit"]
    entry["result"] = handle(entry["call"]) if affordable else UNPAID
    run["calls"] += affordable
    return resume_in_steps(json.dumps(run), handle)


def altered(change):
    """The right answer over a run that `change` has altered."""

    def resume(text, handle):
        run = json.loads(text)
        change(run)
        return resume_in_steps(json.dumps(run), handle)

    resume.__name__ = f"resume_after_{change.__name__}"
    return resume


def forgetting_answers(run):
    for one in run["turn"]:
        one["result"] = None


def forgetting_failures(run):
    for one in run["turn"]:
        if one["result"] and not one["result"]["ok"]:
            one["result"] = None


def counting_anew(run):
    run["calls"] = 0


def raising_the_limit(run):
    run["limit"] += run["calls"]


def numbering_anew(run):
    for number, one in enumerate(run["turn"], 1):
        one["call"]["call_id"] = f"call-{number}"


def losing_the_goal(run):
    del run["goal"]


def resume_paying_for_all(text, handle):
    run = json.loads(text)
    for one in run["turn"]:
        if one["result"] is None:
            one["result"] = handle(one["call"])
            run["calls"] += 1
    return json.dumps(run)


def resume_uncounted(text, handle):
    return json.dumps({**json.loads(resume_in_steps(text, handle)), "calls": json.loads(text)["calls"]})


def resume_stopping(text, handle):
    run = json.loads(text)
    for one in run["turn"]:
        if one["result"] is None:
            if run["calls"] >= run["limit"]:
                break
            run["calls"] += 1
            one["result"] = handle(one["call"])
    return json.dumps(run)


def resume_all_or_none(text, handle):
    run = json.loads(text)
    waiting = [one for one in run["turn"] if one["result"] is None]
    paid = run["calls"] + len(waiting) <= run["limit"]
    for one in waiting:
        run["calls"] += paid
        one["result"] = handle(one["call"]) if paid else UNPAID
    return json.dumps(run)


def resume_backwards(text, handle):
    run = json.loads(text)
    run["turn"].reverse()
    run = json.loads(resume_in_steps(json.dumps(run), handle))
    run["turn"].reverse()
    return json.dumps(run)


def resume_as_a_dict(text, handle):
    return json.loads(resume_in_steps(text, handle))


def resume_returning_nothing(text, handle):
    resume_in_steps(text, handle)


def resume_as_repr(text, handle):
    return str(resume_as_a_dict(text, handle))


def resume_the_turn_alone(text, handle):
    return json.dumps(resume_as_a_dict(text, handle)["turn"])


RIGHT = {
    "12-a": [loop_while, loop_with_a_goal, loop_of_itself],
    "12-b": [stuck_in_lists, stuck_counting, stuck_from_behind],
    "12-c": [resume_with_what_is_left, resume_with_a_call, resume_in_steps],
}

WRONG = {
    "12-a": [
        (loop_by_hand, "mistake.unbounded"),
        (loop_counting_good_turns, "mistake.failures_uncounted"),
        (loop_breaking_first, "mistake.last_unanswered"),
        (loop_asking_first, "mistake.one_more"),
        (loop_one_less, "case.endless"),
        (loop_history_alone, "case.at_once"),
        (loop_losing_the_answer, "case.at_once"),
        (loop_hangs, "case.at_once"),
        (loop_catching_all, "case.endless"),
    ],
    "12-b": [
        (stuck_on_whole_calls, "mistake.by_id"),
        (stuck_on_whole_errors, "mistake.by_message"),
        (stuck_on_any_failure, "case.another_tool"),
        (stuck_on_names, "mistake.by_name"),
        (stuck_on_arguments, "case.another_tool"),
        (stuck_on_repetition, "mistake.counts_successes"),
        (stuck_anywhere, "case.long_ago"),
        (stuck_over_all, "mistake.in_all"),
        (stuck_flat, "mistake.in_a_turn"),
        (stuck_at_two, "mistake.too_soon"),
        (stuck_on_equal_turns, "mistake.whole_turns"),
        (stuck_on_texts, "mistake.by_text"),
        (stuck_breaks, "case.nothing_yet"),
    ],
    "12-c": [
        (altered(forgetting_answers), "mistake.answers_again"),
        (altered(forgetting_failures), "mistake.repeats_failures"),
        (altered(counting_anew), "mistake.refills"),
        (altered(raising_the_limit), "mistake.refills"),
        (altered(numbering_anew), "mistake.new_ids"),
        (altered(losing_the_goal), "mistake.drops_the_rest"),
        (resume_paying_for_all, "mistake.pays_for_all"),
        (resume_uncounted, "mistake.counts_nothing"),
        (resume_stopping, "mistake.leaves_open"),
        (resume_all_or_none, "case.one_left"),
        (resume_backwards, "case.lost"),
        (resume_as_a_dict, "mistake.no_text"),
        (resume_returning_nothing, "case.lost"),
        (resume_as_repr, "case.lost"),
        (resume_the_turn_alone, "case.lost"),
    ],
}

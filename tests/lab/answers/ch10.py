"""Other answers to chapter 10's exercises."""

from keel.lab.exercises.ch10 import order_solution

BOUND = ["principal", "tool", "version", "key", "arguments"]

# --- 10-a ---


def redeem_by_index(approvals, request):
    for at in range(len(approvals)):
        approval = approvals[at]
        if [approval[name] for name in BOUND] == [request[name] for name in BOUND] and approval["until"] > request[
            "at"
        ]:
            del approvals[at]
            return True
    return False


def redeem_by_next(approvals, request):
    wanted = {name: request[name] for name in BOUND}
    found = next((one for one in approvals if wanted.items() <= one.items() and one["until"] > request["at"]), None)
    if found is not None:
        approvals.remove(found)
    return found is not None


def redeem_and_sweep(approvals, request):
    approvals[:] = [one for one in approvals if one["until"] > request["at"]]
    return redeem_by_index(approvals, request)


def redeem_keeps_a_mark(approvals, request):
    for approval in approvals:
        fits = all(approval[name] == value for name, value in request.items() if name != "at")
        if fits and not approval.get("used") and request["at"] < approval["until"]:
            approval["used"] = True
            return True
    return False


def redeem_any(approvals, request):
    return bool(approvals)


def redeem_never(approvals, request):
    return False


def redeem_pops(approvals, request):
    if not approvals:
        return False
    approval = approvals.pop()
    return all(approval[name] == request[name] for name in BOUND) and request["at"] < approval["until"]


def redeem_without_principal(approvals, request):
    for approval in approvals:
        if all(approval[name] == request[name] for name in BOUND[1:]) and request["at"] < approval["until"]:
            approvals.remove(approval)
            return True
    return False


def redeem_by_arguments(approvals, request):
    for approval in approvals:
        if approval["arguments"] == request["arguments"] and request["at"] < approval["until"]:
            approvals.remove(approval)
            return True
    return False


def redeem_to_the_last_second(approvals, request):
    return redeem_by_next(approvals, {**request, "at": request["at"] - 1})


def redeem_for_ever(approvals, request):
    return redeem_by_next(approvals, {**request, "at": 0})


def redeem_looks_only(approvals, request):
    return any(all(one[name] == request[name] for name in BOUND) and request["at"] < one["until"] for one in approvals)


def redeem_from_a_copy(approvals, request):
    approvals = [one for one in approvals if one["until"] > request["at"]]
    return redeem_by_next(approvals, request)


def redeem_all_that_fit(approvals, request):
    before = len(approvals)
    wanted = {name: request[name] for name in BOUND}
    approvals[:] = [one for one in approvals if not (wanted.items() <= one.items() and one["until"] > request["at"])]
    return len(approvals) < before


def redeem_clears(approvals, request):
    found = redeem_by_next(approvals, request)
    if found:
        approvals.clear()
    return found


# --- 10-b: values ---

order_by_tuple = tuple(order_solution)
order_by_loop = [stage for stage in order_solution if stage]
order_by_join = [*order_solution[:4], *order_solution[4:]]


def _swapped(one, other):
    """The right order with two stages in each other's place."""
    return [{one: other, other: one}.get(stage, stage) for stage in order_solution]


order_short = order_solution[:-1]
order_twice = [*order_solution, "run"]
order_text = " ".join(order_solution)
order_numbers = list(range(9))
order_backwards = order_solution[::-1]
order_shuffled = ["run", "rules", "ask", "validate", "redeem", "lookup", "recall", "permission", "policies"]
order_ask_first = ["ask", *[one for one in order_solution if one != "ask"]]


# --- 10-c ---


def answer_casefold(ask):
    try:
        typed = ask()
    except (EOFError, KeyboardInterrupt):
        typed = ""
    return typed.casefold().strip() == "yes"


def answer_by_set(ask):
    try:
        return {ask().strip().upper()} == {"YES"}
    except BaseException:
        return False


def answer_with_finally(ask):
    agreed = False
    try:
        agreed = " ".join(ask().lower().split()) == "yes"
    finally:
        return agreed  # noqa: B012


def answer_asks_until_clear(ask):
    try:
        while True:
            typed = ask().strip().lower()
            if typed in ("yes", "no"):
                return typed == "yes"
    except (EOFError, KeyboardInterrupt):
        return False


def answer_always(ask):
    ask()
    return True


def answer_never(ask):
    return False


def answer_not_empty(ask):
    try:
        return bool(ask().strip())
    except (EOFError, KeyboardInterrupt):
        return False


def answer_first_letter(ask):
    try:
        return ask().strip().lower()[:1] == "y"
    except (EOFError, KeyboardInterrupt):
        return False


def answer_first_word(ask):
    try:
        return ask().lower().split()[:1] == ["yes"]
    except (EOFError, KeyboardInterrupt):
        return False


def answer_y_too(ask):
    try:
        return ask().strip().lower() in ("y", "yes")
    except (EOFError, KeyboardInterrupt):
        return False


def answer_exactly(ask):
    try:
        return ask() == "yes"
    except (EOFError, KeyboardInterrupt):
        return False


def answer_misses_the_interrupt(ask):
    try:
        return ask().strip().lower() == "yes"
    except Exception:
        return False


def answer_goes_on_when_interrupted(ask):
    try:
        return ask().strip().lower() == "yes"
    except Exception:
        return False
    except KeyboardInterrupt:
        return True


def answer_misses_both(ask):
    return ask().strip().casefold() == "yes"


def answer_goes_on(ask):
    try:
        return ask().strip().lower() == "yes"
    except BaseException:
        return True


def answer_says_text(ask):
    try:
        return "yes" if ask().strip().lower() == "yes" else "no"
    except (EOFError, KeyboardInterrupt):
        return "no"


def answer_asks_for_ever(ask):
    while True:
        try:
            if ask().strip().lower() == "yes":
                return True
        except (EOFError, KeyboardInterrupt):
            continue


RIGHT = {
    "10-a": [redeem_by_index, redeem_by_next, redeem_and_sweep, redeem_keeps_a_mark],
    "10-b": [order_by_loop, order_by_join, list(order_by_tuple)],
    "10-c": [answer_casefold, answer_by_set, answer_with_finally, answer_asks_until_clear],
}

WRONG = {
    "10-a": [
        (redeem_any, "mistake.reusable"),
        (redeem_never, "case.exact"),
        (redeem_pops, "mistake.spends_on_refusal"),
        (redeem_without_principal, "case.other_principal"),
        (redeem_by_arguments, "case.other_principal"),
        (redeem_to_the_last_second, "mistake.ignores_expiry"),
        (redeem_for_ever, "mistake.ignores_expiry"),
        (redeem_looks_only, "mistake.reusable"),
        (redeem_from_a_copy, "mistake.reusable"),
        (redeem_all_that_fit, "mistake.removes_all"),
        (redeem_clears, "mistake.removes_all"),
    ],
    "10-b": [
        (order_short, "case.agreed"),
        (order_twice, "case.agreed"),
        (order_text, "case.agreed"),
        (order_numbers, "case.agreed"),
        (order_backwards, "mistake.redeems_before_asking"),
        (order_shuffled, "case.agreed"),
        (order_ask_first, "mistake.asks_before_judging"),
        (_swapped("ask", "redeem"), "mistake.redeems_before_asking"),
        (_swapped("redeem", "run"), "mistake.runs_before_redeeming"),
        (_swapped("recall", "rules"), "mistake.judges_what_is_done"),
        (_swapped("rules", "ask"), "mistake.asks_before_judging"),
        (_swapped("permission", "validate"), "mistake.judges_strangers"),
        (_swapped("policies", "recall"), "mistake.replays_to_strangers"),
        (_swapped("policies", "rules"), "case.other_team"),
        (_swapped("lookup", "permission"), "case.agreed"),
    ],
    "10-c": [
        (answer_always, "case.no"),
        (answer_never, "case.yes"),
        (answer_not_empty, "case.no"),
        (answer_first_letter, "case.y"),
        (answer_first_word, "mistake.starts_with_yes"),
        (answer_y_too, "case.y"),
        (answer_exactly, "case.shouted"),
        (answer_misses_both, "mistake.lets_it_out"),
        (answer_misses_the_interrupt, "mistake.lets_the_interrupt_out"),
        (answer_goes_on, "mistake.closed_approves"),
        (answer_goes_on_when_interrupted, "mistake.interrupt_approves"),
        (answer_says_text, "case.yes"),
    ],
}

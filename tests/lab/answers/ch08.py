"""Other answers to chapter 08's exercises."""

import asyncio
import json
import threading
from concurrent.futures import ThreadPoolExecutor

from keel.adapters import ModelTurn, to_message
from keel.contracts import ToolFailure, ToolResult
from keel.turns import Place, run_turn
from keel.workers import Pool

# --- 08-a ---


def pair_by_loop(calls, results):
    paired = [None] * len(calls)
    for result in results:
        for at, call in enumerate(calls):
            if call.call_id == result.call_id:
                paired[at] = result
    return paired


def pair_by_next(calls, results):
    return [next((result for result in results if result.call_id == call.call_id), None) for call in calls]


def pair_by_filled_dict(calls, results):
    waiting = dict.fromkeys([call.call_id for call in calls])
    for result in results:
        if result.call_id in waiting:
            waiting[result.call_id] = result
    return list(waiting.values())


def pair_sorted(calls, results):
    return sorted(results, key=lambda result: result.call_id)


def pair_as_they_come(calls, results):
    return list(results)


def pair_with_key_error(calls, results):
    by_id = {result.call_id: result for result in results}
    return [by_id[call.call_id] for call in calls]


def pair_by_question(calls, results):
    by_question = {result.data["about"]: result for result in results}
    return [by_question.get(next(iter(call.arguments.values()))) for call in calls]


def pair_takes_strangers(calls, results):
    own = pair_by_next(calls, results)
    strangers = [result for result in results if result not in own]
    return [result or (strangers.pop(0) if strangers else None) for result in own]


def pair_all_by_id(calls, results):
    by_id = dict.fromkeys(call.call_id for call in calls) | {result.call_id: result for result in results}
    return list(by_id.values())


# --- 08-b ---


def answer_by_to_message(requests, handle):
    return [to_message(request, handle(request)) for request in requests]


def answer_after_all_have_run(requests, handle):
    results = [handle(request) for request in requests]
    return [to_message(request, result) for request, result in zip(requests, results, strict=True)]


def answer_by_hand(requests, handle):
    messages = ()
    for request in requests:
        result = handle(request)
        content = json.dumps({"ok": result.ok, "data": result.data})
        messages += ({"role": "tool", "tool_call_id": request.provider_id, "content": content},)
    return messages


def answer_twice_handled(requests, handle):
    results = {request.provider_id: handle(request) for request in requests}
    assert results
    return [to_message(request, handle(request)) for request in requests]


def answer_under_ours(requests, handle):
    messages = []
    for request in requests:
        result = handle(request)
        messages.append({"role": "tool", "tool_call_id": result.call_id, "content": result.model_dump_json()})
    return messages


def answer_by_set(requests, handle):
    ids = dict.fromkeys(request.provider_id for request in requests)
    first = {name: next(one for one in requests if one.provider_id == name) for name in ids}
    return [to_message(request, handle(request)) for request in first.values()]


def answer_the_last_only(requests, handle):
    results = {}
    for request in requests:
        results[request.provider_id] = handle(request)
    return [to_message(request, results[request.provider_id]) for request in requests]


def answer_refuses_repeats(requests, handle):
    if len({request.provider_id for request in requests}) < len(requests):
        raise ToolFailure("invalid_arguments", "an id stands there twice")
    return answer_by_to_message(requests, handle)


def answer_numbers_all(requests, handle):
    messages = answer_by_to_message(requests, handle)
    return [{**message, "tool_call_id": f"call_{number}"} for number, message in enumerate(messages)]


def answer_reversed(requests, handle):
    return [to_message(request, handle(request)) for request in reversed(requests)]


def answer_backwards(requests, handle):
    results = [handle(request) for request in reversed(requests)]
    return [to_message(request, result) for request, result in zip(requests, reversed(results), strict=True)]


def answer_sorted(requests, handle):
    return answer_by_to_message(sorted(requests, key=lambda request: request.provider_id), handle)


def answer_in_another_order(requests, handle):
    return answer_by_to_message(requests, handle)[::-1]


def answer_through_the_adapter(requests, handle):
    return answer_by_to_message(ModelTurn(requests=requests).requests, handle)


# --- 08-c ---


def guarded(run, call):
    try:
        return run(call)
    except ToolFailure as failure:
        return ToolResult(
            call_id=call.call_id, tool_name=call.name, tool_version=None, ok=False, data=None, error=failure.error
        )


def batch_by_futures(calls, reads, run):
    results = {}
    with ThreadPoolExecutor(16) as pool:
        waiting = {}
        for call in [*calls, None]:
            if call is not None and call.name in reads:
                waiting[call.call_id] = pool.submit(guarded, run, call)
                continue
            results |= {call_id: future.result() for call_id, future in waiting.items()}
            waiting = {}
            if call is not None:
                results[call.call_id] = guarded(run, call)
    return [results[call.call_id] for call in calls]


def batch_by_threads(calls, reads, run):
    results, threads = [None] * len(calls), []

    def work(at):
        results[at] = guarded(run, calls[at])

    for at, call in enumerate(calls):
        if call.name not in reads:
            for thread in threads:
                thread.join()
            work(at)
        else:
            threads.append(threading.Thread(target=work, args=(at,)))
            threads[-1].start()
    for thread in threads:
        thread.join()
    return results


def batch_by_asyncio(calls, reads, run):
    async def all_of_them():
        results, group = [], []
        for call in calls:
            if call.name not in reads:
                results += await asyncio.gather(*group)
                results.append(await asyncio.to_thread(guarded, run, call))
                group = []
            else:
                group.append(asyncio.to_thread(guarded, run, call))
        return results + await asyncio.gather(*group)

    return asyncio.run(all_of_them())


def batch_by_the_package(calls, reads, run):
    def place(call):
        return Place.ASIDE if call.name in reads else Place.ALONE

    return run_turn(calls, place, lambda call: guarded(run, call), Pool())


def batch_in_one_thread(calls, reads, run):
    return [guarded(run, call) for call in calls]


def batch_by_submit(calls, reads, run):
    with ThreadPoolExecutor() as pool:
        futures = [pool.submit(guarded, run, call) for call in calls]
        return [future.result() for future in futures]


def batch_without_failures(calls, reads, run):
    return [result for result in batch_by_threads(calls, reads, run) if result.ok]


def batch_failures_as_errors(calls, reads, run):
    return [result if result.ok else result.error for result in batch_by_threads(calls, reads, run)]


def batch_stops_writes(calls, reads, run):
    results = []
    for call in calls:
        if results and not results[-1].ok:
            break
        results += batch_by_threads([call], reads, run)
    return results


def batch_lets_it_out(calls, reads, run):
    with ThreadPoolExecutor() as pool:
        return list(pool.map(run, calls))


def batch_writes_do_not_wait(calls, reads, run):
    results, threads = [None] * len(calls), []

    def work(at):
        results[at] = guarded(run, calls[at])

    for at, call in enumerate(calls):
        if call.name in reads:
            threads.append(threading.Thread(target=work, args=(at,)))
            threads[-1].start()
    for at, call in enumerate(calls):
        if call.name not in reads:
            work(at)
    for thread in threads:
        thread.join()
    return results


def batch_one_id_for_all(calls, reads, run):
    results = batch_by_threads(calls, reads, run)
    return [one if one.ok else one.model_copy(update={"call_id": calls[0].call_id}) for one in results]


def batch_by_name(calls, reads, run):
    by_name = {result.tool_name: result for result in batch_by_threads(calls, reads, run)}
    return [by_name[call.name] for call in calls]


RIGHT = {
    "08-a": [pair_by_loop, pair_by_next, pair_by_filled_dict],
    "08-b": [answer_by_to_message, answer_after_all_have_run, answer_by_hand],
    "08-c": [batch_by_futures, batch_by_threads, batch_by_asyncio, batch_by_the_package],
}

WRONG = {
    "08-a": [
        (pair_sorted, "mistake.drops_missing"),
        (pair_as_they_come, "mistake.by_position"),
        (pair_with_key_error, "case.one_missing"),
        (pair_by_question, "case.same_question"),
        (pair_takes_strangers, "case.other_turn"),
        (pair_all_by_id, "case.other_turn"),
    ],
    "08-b": [
        (answer_twice_handled, "case.one"),
        (answer_under_ours, "case.one"),
        (answer_by_set, "mistake.drops_the_second"),
        (answer_the_last_only, "mistake.one_answer_twice"),
        (answer_refuses_repeats, "case.repeated"),
        (answer_numbers_all, "case.one"),
        (answer_reversed, "mistake.other_order"),
        (answer_backwards, "mistake.other_order"),
        (answer_sorted, "mistake.other_order"),
        (answer_in_another_order, "case.two"),
        (answer_through_the_adapter, "mistake.renames"),
    ],
    "08-c": [
        (batch_in_one_thread, "mistake.one_by_one"),
        (batch_by_submit, "mistake.all_at_once"),
        (batch_without_failures, "case.read_fails"),
        (batch_failures_as_errors, "case.read_fails"),
        (batch_stops_writes, "mistake.stops_siblings"),
        (batch_lets_it_out, "mistake.raises"),
        (batch_writes_do_not_wait, "mistake.no_barrier"),
        (batch_one_id_for_all, "case.read_fails"),
        (batch_by_name, "case.read_fails"),
    ],
}

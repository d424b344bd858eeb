"""A megabyte that was written to hurt: refused, or read, about as fast as a harmless text, and without recursion."""

import json
import subprocess
import sys
import time
from contextlib import suppress

import pytest

from keel import ToolFailure
from keel.adapters import MAX_BYTES, read_arguments, read_stream

from .replies import chunk, end, outcomes, part, streamed

SIZE = MAX_BYTES - 100
TIMES = 200  # json.loads of harmless objects of that size; most take less than two, and a busy machine is no fault
HARMLESS = json.dumps({"rows": [{"id": at, "name": f"row {at}", "ok": True} for at in range(SIZE // 42)]})


def filled(unit: str, before: str = "", after: str = "") -> str:
    return before + unit * ((SIZE - len(before) - len(after)) // len(unit)) + after


REFUSED = {
    "lists that never close": filled("["),
    "objects that never close": filled('{"a":'),
    "lists in lists": "[" * (SIZE // 2) + "]" * (SIZE // 2),
    "objects in objects": '{"a":' * (SIZE // 6) + "1" + "}" * (SIZE // 6),
    "65 levels, again and again": filled("[" * 64 + "]" * 64 + ",", '{"a": [', "1]}"),
    "one integer": filled("1", '{"a": ', "}"),
    "one integer below zero": filled("1", '{"a": -', "}"),
    "one number with a fraction": filled("1", '{"a": ', ".5}"),
    "one exponent": filled("9", '{"a": 1e', "}"),
    "integers of 401 digits": filled("1" * 401 + ",", '{"a": [', "1]}"),
    "one key again and again": filled('"a":1,', "{", '"a":1}'),
    "quotes": filled('"'),
    "quotes behind backslashes": filled('\\"', '{"a": "'),
    "backslashes": filled("\\"),
    "a text that never ends": filled("a", '{"a": "'),
    "a text of escapes that never ends": filled("\\n", '{"a": "'),
    "halves of characters": filled("\\ud800", '{"a": "', '"}'),
    "halves in the wrong order": filled("\\ude00\\ud83d", '{"a": "', '"}'),
    "half a character at the end": filled("\\ud83d\\ude00", '{"a": "', '\\ud83d"}'),
    "brackets and quotes": filled('["]', '{"a": "'),
    "closing brackets": filled("]"),
    "colons": filled(":"),
    "minus": filled("-"),
    "letters": filled("x"),
    "NaN": filled("NaN,", '{"a": [', "1]}"),
}
READ = {
    "one text": filled("a", '{"a": "', '"}'),
    "a text of brackets": filled("[", '{"a": "', '"}'),
    "a text of digits": filled("1", '{"a": "', '"}'),
    "a text of escaped quotes": filled('\\"', '{"a": "', '"}'),
    "a text of whole characters in escapes": filled("\\ud83d\\ude00", '{"a": "', '"}'),
    "white space": filled(" ", "{", "}"),
    "empty lists": filled("[],", '{"a": [', "1]}"),
    "digits of a fraction": filled("1", '{"a": 0.', "}"),
    "integers of 400 digits": filled("1" * 400 + ",", '{"a": [', "1]}"),
    "nothing but zeros in an exponent": filled("0", '{"a": 1e', "}"),
}


@pytest.fixture(scope="module")
def harmless() -> float:
    """Seconds for json.loads of the harmless text, at its best."""
    spent = []
    for _ in range(5):
        start = time.perf_counter()
        json.loads(HARMLESS)
        spent.append(time.perf_counter() - start)
    return min(spent)


def quickest(function, enough: float) -> float:
    """The smallest time of a few tries; the first that is short enough will do."""
    best = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        function()
        best = min(best, time.perf_counter() - start)
        if best < enough:
            break
    return best


@pytest.mark.parametrize("text", [*REFUSED.values(), *READ.values()], ids=[*REFUSED, *READ])
def test_a_megabyte_takes_no_longer_than_a_harmless_one(text, harmless):
    assert SIZE * 0.99 < len(text) < MAX_BYTES

    def read():
        with suppress(ToolFailure):
            read_arguments(text)

    assert quickest(read, TIMES * harmless) < TIMES * harmless


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
def test_it_is_refused_with_a_short_reason(text):
    with pytest.raises(ToolFailure) as caught:
        read_arguments(text)
    assert caught.value.error.code == "invalid_arguments" and len(caught.value.error.message) < 200


@pytest.mark.parametrize("text", READ.values(), ids=READ)
def test_what_is_only_large_is_read(text):
    assert read_arguments(text) == json.loads(text)


PROGRAM = """
import json, sys
from keel import Harness, ToolRegistry, ToolRequest, ExecutionContext, Principal
from keel.adapters import ModelTurn, assistant_message, check_json, read_response, ModelFailure

registry = ToolRegistry()
registry.add_schema_tool(name="tool", description="-", input_schema={}, function=lambda given: 1, read_only=True)
harness, context = Harness(registry), ExecutionContext(principal=Principal(id="a"))
texts = ["[" * 10**6, '{"a":' * 10**5 + "1" + "}" * 10**5, '{"a":' * 64 + "1" + "}" * 64, '{"a":' * 65 + "1" + "}" * 65]
deep = {}
for _ in range(10**5):
    deep = {"a": [deep]}
harness.handle(ToolRequest(name="tool", arguments={}), context)

def below(frames):
    if frames:
        return below(frames - 1)
    codes = []
    for sent in [*texts, deep]:
        request = ToolRequest(provider_id="x", name="tool", arguments=sent)
        codes.append(harness.handle(request, context).error)
        assistant_message(ModelTurn(requests=[request]))
    try:
        read_response(deep)
        read_response([deep])
    except ModelFailure:
        pass
    return ["ok" if error is None else error.code for error in codes]

sys.setrecursionlimit(200)
print(json.dumps([below(0), below(60)]))
"""


def test_little_room_on_the_stack_is_enough_for_a_clean_refusal():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr[-2000:]
    for codes in json.loads(done.stdout):
        assert {*codes[:2], *codes[3:]} == {"invalid_arguments"} and codes[2] in ("ok", "invalid_arguments")


def test_no_host_setting_makes_long_integers_slow():
    program = (
        "import sys, keel.adapters as a\nsys.set_int_max_str_digits(0)\n"
        "try:\n    a.read_arguments('{\"a\": ' + '9' * (1 << 20 >> 1) + '}')\n"
        "except a.ToolFailure as failure:\n    print(failure)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert "more than 400 digits" in done.stdout, done.stderr[-2000:]


def test_a_stream_of_many_fragments_is_read_once(harmless):
    one = [chunk(part(0, "x", "f", ""))] + [chunk(part(0, None, None, "a")) for _ in range(20_000)] + [end()]
    assert quickest(lambda: read_stream(one), 1000 * harmless) < 1000 * harmless
    many = [part(0, f"call-{at}", "f", "") for at in range(5_000)] + [part(0, None, None, "{}") for _ in range(5_000)]
    assert len(outcomes(streamed(*many))) == 5_000

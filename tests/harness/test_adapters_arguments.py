"""What a model wrote for arguments: one JSON object within the limits, or a refusal that says why."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keel import ToolFailure, ToolRequest
from keel.adapters import MAX_BYTES, MAX_DEPTH, MAX_DIGITS, read_arguments, to_call

from .kit import label
from .test_adapters import JSON


def why_not(text: str) -> str:
    with pytest.raises(ToolFailure) as caught:
        read_arguments(text)
    assert caught.value.error.code == "invalid_arguments" and not caught.value.error.retryable
    return caught.value.error.message


@pytest.mark.parametrize("text", [None, "", " ", "\n\t ", "null", " null\n", "{}", " {} ", {}], ids=label)
def test_no_arguments_are_an_empty_object(text):
    assert read_arguments(text) == {}


@given(st.dictionaries(st.text(), JSON, max_size=5), st.booleans(), st.sampled_from([None, 1]))
def test_an_object_as_text_comes_out_as_it_is(value, escaped, indent):
    text = json.dumps(value, ensure_ascii=escaped, indent=indent)
    assert json.dumps(read_arguments(text)) == json.dumps(value)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('""', "a string"),
        ('"{}"', "a string"),
        (json.dumps('{"a": 1}'), "a string"),
        ("[]", "a list"),
        ('[{"a": 1}]', "a list"),
        ("5", "an integer"),
        ("0", "an integer"),
        ("1.5", "a number"),
        ("false", "a boolean"),
    ],
)
def test_what_is_no_object_is_named(text, kind):
    assert kind in why_not(text)


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "}",
        "{'a': 1}",
        '{"a": 1,}',
        '{"a": 1} {"b": 2}',
        '{"a": 1}{"a": 1}',
        '{"a": 1}x',
        '```json\n{"a": 1}\n```',
        '{"a": True}',
        '{"a": None}',
        "{a: 1}",
        '{"a": 01}',
        '{"a": +1}',
        '{"a": .5}',
        '{"a": 1.}',
        '{"a": 0x1}',
        '{"a": "\n"}',
        '{"a": "\x00"}',
        r'{"a": "\x41"}',
        r'{"a": "\u12"}',
        '{"a" 1}',
        '{"a": 1 /* one */}',
        "nul",
        '\ufeff{"a": 1}',
        "{}\x00",
        "\u00a0{}",
        '{"a": "b',
        '{"a": [1, 2}',
        "NULL",
        "undefined",
        '{"a": １}',
        "{,}",
    ],
    ids=label,
)
def test_nothing_is_repaired(text):
    assert "are not JSON" in why_not(text)


@pytest.mark.parametrize(
    "text",
    ['{"a": 1, "a": 2}', '{"a": 1, "a": 1}', '{"x": [{"a": 1, "a": 2}]}', r'{"a": 1, "\u0061": 2}', '{"": 1, "": 2}'],
)
def test_a_key_twice_is_refused_wherever_it_stands(text):
    assert "a key twice" in why_not(text)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
@pytest.mark.parametrize("form", ['{"a": %s}', '{"a": [1, {"b": %s}]}'])
def test_a_number_that_json_does_not_have_is_refused(number, form):
    assert f"the number {number}" in why_not(form % number)


@pytest.mark.parametrize(
    "number",
    ["1e999", "-1e999", "1E+999", "1e309", "1e0000000000309", "9" * 250 + "e99", "9" * 309 + ".5",
     "1" + "0" * 350 + "e-1", "0." + "0" * 10 + "1e320", "9" * 300 + "E9", "1" * 10_000 + ".0"],
    ids=lambda number: f"{number[:8]}…{number[-5:]}",
)  # fmt: skip
def test_a_number_that_becomes_infinite_is_refused_however_it_is_written(number):
    assert "the number" in why_not(f'{{"a": [{number}]}}')


@pytest.mark.parametrize(
    "number", ["1e308", "1e-999", "0.1", "-0.0", "0e999", "12345678901234567890", "0." + "1" * 900]
)
def test_other_numbers_pass(number):
    assert read_arguments(f'{{"a": {number}}}') == {"a": json.loads(number)}


@pytest.mark.parametrize("before", ["", "x" * 199, "x" * 1000, "1" * 199 + "x"])
@pytest.mark.parametrize("sign", ["", "-"])
def test_integers_of_four_hundred_digits_pass_and_no_longer_ones(before, sign):
    good, bad = sign + "9" * MAX_DIGITS, sign + "9" * (MAX_DIGITS + 1)
    assert read_arguments(f'{{"b": "{before}", "a": {good}}}')["a"] == int(good)
    assert f"more than {MAX_DIGITS} digits" in why_not(f'{{"b": "{before}", "a": {bad}}}')


def test_digits_in_a_text_are_a_text():
    assert read_arguments('{"a": "%s", "b": 7}' % ("1" * 50_000)) == {"a": "1" * 50_000, "b": 7}


@pytest.mark.parametrize("half", ["\ud83d", "\ude00", r"\ud83d", r"\uDE00", r"\uD83Dx", r"\ude00\ud83d"], ids=ascii)
@pytest.mark.parametrize("form", ['{"a": "%s"}', '{"%s": 1}', '{"é": [{"a": "x%s"}]}'])
def test_half_a_character_is_refused(half, form):
    assert "half a character" in why_not(form % half)


@pytest.mark.parametrize("text", [r"\ud83d\ude00", "😀", r"\\ud83d", r"\ud55c", r"\uD83D\uDE00 \uD83D\uDE00"])
def test_whole_characters_pass(text):
    assert read_arguments(f'{{"a": "{text}"}}') == json.loads(f'{{"a": "{text}"}}')


def nested(levels: int, kind: str) -> str:
    opening, closing = {"lists": ("[", "]"), "objects": ('{"a":', "}"), "both": ('[{"[":', "}]")}[kind]
    times = (levels - 1) // 2 if kind == "both" else levels - 1
    inner = "[]" if kind == "both" and levels % 2 == 0 else "1"
    return '{"a":' + opening * times + inner + closing * times + "}"


@pytest.mark.parametrize("kind", ["lists", "objects", "both"])
def test_sixty_four_levels_of_text_pass_and_no_more(kind):
    assert read_arguments(nested(MAX_DEPTH, kind))
    assert f"more than {MAX_DEPTH} levels" in why_not(nested(MAX_DEPTH + 1, kind))


@pytest.mark.parametrize(
    "text",
    [
        '{"a": "%s"}' % ("[" * 500),
        r'{"a": "\"%s\\"}' % ("{" * 500),
        '{"a": [' + "[],{}," * 500 + "[]]}",
        '{"%s": "", "": "\\\\", "b": ""}' % ("[{" * 100),
        r'{"a": "\\\"%s", "b": ["\\", "]"]}' % ("[" * 99),
    ],
    ids=["in a text", "behind escapes", "side by side", "in a key", "behind more escapes"],
)
def test_brackets_that_do_not_nest_are_no_levels(text):
    assert read_arguments(text) == json.loads(text)


@pytest.mark.parametrize("text", ['{"a": [%s' % ("[]," * 200), '{"a": %s]}' % ("[[]," * 60 + "[]" * 60), "[]" * 70])
def test_brackets_that_do_not_match_are_no_json_and_not_too_deep(text):
    assert "are not JSON" in why_not(text)


def test_a_megabyte_of_text_passes_and_no_more():
    for one in ("x", "é", "😀"):
        room = (MAX_BYTES - len('{"a": ""}')) // len(one.encode())
        assert len(read_arguments('{"a": "%s"}' % (one * room))["a"]) == room
        assert "too large" in why_not('{"a": "%s"}' % (one * (room + 1)) + " " * 3)
    assert "too large" in why_not(" " * (MAX_BYTES + 1))


def test_the_same_object_passes_as_a_text_and_as_it_is():
    value = {"a": [0.5] * 100_000, "b": r"\ud83d is only text here"}
    assert read_arguments(json.dumps(value)) == value == read_arguments(value)


def test_a_refusal_quotes_little():
    for text in ('{"a": %s}' % ("1" * 5000), '{"a": 1e%s}' % ("9" * 5000), "x" * 5000):
        assert len(why_not(text)) < 200


@given(st.text() | st.text('{}[]":,\\u dD8e19.-+nulltrue \n', max_size=60))
def test_any_text_is_an_object_or_a_refusal(text):
    request = ToolRequest(name="tool", arguments=text)
    try:
        arguments = to_call(request, "c-1").arguments
    except ToolFailure as failure:
        assert failure.error.code == "invalid_arguments"
    else:
        assert arguments == ({} if text.strip() in ("", "null") else json.loads(text))

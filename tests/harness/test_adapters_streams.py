"""Calls that come in fragments: told apart by id and index, and never two of them in one."""

import json
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import keel
from keel.adapters import read_arguments, read_stream

from .replies import chunk, end, function, outcomes, part, streamed

F, G = ("f", {"a": 1}), ("g", {"b": 2})
REFUSED = ("invalid_arguments", "unknown_tool")


def test_a_call_in_fragments():
    turn = streamed(
        part(0, "x", "f", ""), part(0, None, None, '{"a"'), part(0, "", "", ": 1}"), part(0, None, None, "")
    )
    assert outcomes(turn) == [F] and turn.requests[0].provider_id == "x"


def test_two_calls_one_after_the_other_and_interleaved():
    heads = [part(0, "x", "f", ""), part(1, "y", "g", "")]
    rest = [part(0, None, None, '{"a": 1}'), part(1, None, None, '{"b": 2}')]
    assert outcomes(streamed(heads[0], rest[0], heads[1], rest[1])) == [F, G]
    assert outcomes(streamed(*heads, *rest)) == outcomes(streamed(*heads, *rest[::-1])) == [F, G]
    halves = [part(at % 2, None, None, text) for at, text in enumerate(['{"a"', '{"b"', ": 1", ": 2", "}", "}"])]
    assert outcomes(streamed(*heads, *halves)) == [F, G]


def test_an_index_may_be_missing():
    one = [part(None, "x", "f", ""), part(None, None, None, '{"a": '), part(None, None, None, "1}")]
    two = [part(None, "y", "g", '{"b"'), part(None, None, None, ": 2}")]
    assert outcomes(streamed(*one)) == [F]
    assert outcomes(streamed(*one, *two)) == [F, G]


@pytest.mark.parametrize("index", [None, 0, 1, 7, -1, "0", 10**12, 0.0, [0]], ids=str)
def test_an_id_may_be_repeated_in_every_chunk(index):
    one = [
        part(index, "x", "f", ""),
        part(index, "x", None, '{"a": '),
        part(index, "x", "f", "1}"),
        part(index, "x", "f"),
    ]
    two = [part(index, "y", "g", '{"b": '), part(index, "y", "g", "2}"), part(index, "y", "g", "")]
    assert outcomes(streamed(*one)) == [F]
    assert outcomes(streamed(*one, *two)) == [F, G]
    woven = [one[0], two[0], one[1], two[1], one[2], two[2], one[3]]
    assert outcomes(streamed(*woven)) == [F, G]


def test_two_ids_on_one_index_are_two_calls():
    assert outcomes(streamed(part(0, "x", "f", '{"a": 1}'), part(0, "y", "g", '{"b": 2}'))) == [F, G]
    assert outcomes(
        streamed(
            part(0, "x", "f", '{"a": '),
            part(0, None, None, "1}"),
            part(0, "y", "g", '{"b": '),
            part(0, None, None, "2}"),
        )
    ) == [F, G]


@pytest.mark.parametrize("id", [None, ""])
@pytest.mark.parametrize("index", [None, 0])
def test_without_ids_a_name_opens_the_next_call(id, index):
    one = [part(index, id, "f", '{"a": '), part(index, id, None, "1}")]
    two = [part(index, id, "g", ""), part(index, id, "", '{"b": 2}')]
    assert outcomes(streamed(*one, *two)) == [F, G]
    assert outcomes(streamed(*one, *one)) == [F, F]
    assert len({request.provider_id for request in streamed(*one, *one).requests}) == 2


def test_an_id_may_come_late_and_an_index_late_too():
    assert outcomes(streamed(part(0, None, "f", ""), part(0, "x", None, '{"a": 1}'))) == [F]
    assert outcomes(streamed(part(0, "x", None, ""), part(0, None, "f", '{"a": 1}'))) == [F]
    assert outcomes(streamed(part(0, "x", "f", ""), part(None, "x", None, '{"a": 1}'))) == [F]
    assert outcomes(streamed(part(0), part(0, "x", "f", '{"a": 1}'))) == [F]


def test_arguments_may_move_to_an_index_of_their_own():
    assert outcomes(
        streamed(part(0, "x", "f", '{"a": 1}'), part(0, "y", "g", ""), part(1, None, None, '{"b": 2}'))
    ) == [F, G]


def test_a_name_may_come_in_pieces():
    assert outcomes(streamed(part(0, "x", "look", ""), part(0, None, "_up", ""), part(0, None, None, "{}"))) == [
        ("look_up", {})
    ]
    assert outcomes(streamed(part(0, "x", "go", ""), part(0, None, "go", "{}"))) == [("gogo", {})]


def test_arguments_may_come_as_an_object_once():
    assert outcomes(streamed(part(0, "x", "f", ""), part(0, None, None, {"a": 1}))) == [F]
    for more in ({"a": 1}, "{}", [], 5):
        assert outcomes(streamed(part(0, "x", "f", {"a": 1}), part(0, None, None, more))) == ["invalid_arguments"]


def test_a_character_may_come_in_two_halves():
    turn = read_stream(
        [
            chunk(part(0, "x", "f", '{"a": "\ud83d'), content="\ud83d"),
            chunk(part(0, None, None, '\ude00"}'), content="\ude00"),
            end(),
        ]
    )
    assert (turn.text, outcomes(turn)) == ("😀", [("f", {"a": "😀"})])
    lone = read_stream([chunk(part(0, "x", "f", '{"a": "\ud83d"}'), content="a\ud83d"), end()])
    assert lone.text.encode() and outcomes(lone) == ["invalid_arguments"]


def test_a_call_without_arguments_is_one_only_where_the_stream_says_that_it_is_over():
    ping = part(0, "x", "ping", "")
    assert outcomes(streamed(ping)) == outcomes(streamed(ping, finish="stop")) == [("ping", {})]
    assert outcomes(streamed(ping, part(1, "y", "ping", ""))) == [("ping", {}), ("ping", {})]
    assert outcomes(streamed(ping, finish=None)) == outcomes(streamed(ping, finish="length")) == ["invalid_arguments"]


# What can be read in two ways, or lost something on its way: (fragments, and what each of them comes to).
UNCLEAR = {
    "one id, two objects": ([part(0, "x", "f", '{"a": 1}'), part(0, "x", "f", '{"a": 2}')], [REFUSED]),
    "no ids, an echo behind the arguments": ([part(0, None, "f", '{"a": 1}'), part(0, None, "f", "")], [F, REFUSED]),
    "no ids, one name twice": ([part(0, None, "f", ""), part(0, None, "f", "{}")], [REFUSED]),
    "an id twice, once without arguments": ([part(0, "x", "f", '{"a": 1}'), part(1, "x", "f", "")], [F, REFUSED]),
    "arguments whose head was lost": ([part(0, "x", "f", ""), part(1, None, None, '{"b": 2}')], [REFUSED, REFUSED]),
    "arguments before any head": ([part(0, None, None, '{"b": 2}'), part(0, "x", "f", "")], [REFUSED, REFUSED]),
    "one pair of arguments for two heads": (
        [part(0, "x", "f", ""), part(0, "y", "g", ""), part(0, None, None, '{"b": 2}')],
        [REFUSED, G],
    ),
    "two pairs of arguments for two heads": (
        [part(0, "x", "f", ""), part(0, "y", "g", ""), part(0, None, None, "{}"), part(0, None, None, '{"b": 2}')],
        [REFUSED, REFUSED],
    ),
    "two names glued": ([part(0, None, "f", ""), part(0, None, "g", '{"b": 2}')], [("fg", {"b": 2})]),
    "an echo by name of a call with an id": ([part(0, "x", "f", '{"a": 1}'), part(0, None, "f", "")], [F]),
}


@pytest.mark.parametrize("case", UNCLEAR)
def test_what_is_not_clearly_a_call_is_refused(case):
    parts, wanted = UNCLEAR[case]
    got = outcomes(streamed(*parts))
    assert len(got) == len(wanted)
    for have, want in zip(got, wanted, strict=True):
        assert have in want if want is REFUSED else have == want


# Any split of any stream.


def recorded() -> dict[str, list]:
    folder = Path(keel.__file__).parents[1] / "data" / "recordings"
    replies = {path.stem: json.loads(path.read_text(encoding="utf-8"))["reply"] for path in folder.glob("*.json")}
    return {name: reply for name, reply in sorted(replies.items()) if isinstance(reply, list)}


RECORDED = recorded()
IDS = ["each", "head", "none"]
CALLS = st.lists(
    st.tuples(
        st.sampled_from(["f", "gogo", "look_up", "aaa", "get_weather"]),
        st.dictionaries(
            st.sampled_from(["a", "city", "é😀"]), st.text(max_size=6) | st.integers() | st.none(), max_size=3
        ),
        st.booleans(),
    ),
    min_size=1,
    max_size=4,
)


def pieces(draw, text: str) -> list[str]:
    """The text, cut at any bytes, which are characters here: all of it is sent as JSON."""
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=4)))
    return [text[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(text)], strict=True)]


def fragments(draw, index, id, name, arguments, ids: str) -> list[dict]:
    """One call in fragments: its name in pieces, then its arguments in pieces."""
    said = [(one, "") for one in pieces(draw, name) if one] + [("", one) for one in pieces(draw, arguments)]
    if ids == "each":  # a provider that repeats the id repeats the name too, or sends it once and whole
        again = draw(st.sampled_from([name, "", None]))
        said = [(name, ""), *[(again, one) for _, one in said]]
    own = [
        id if ids == "each" or (ids == "head" and at == 0) else draw(st.sampled_from([None, ""]))
        for at in range(len(said))
    ]
    return [part(index, own[at], *one) for at, one in enumerate(said)]


def woven(draw, queues: list[list]) -> list:
    """All of the queues in one, each in its own order."""
    queues, out = [list(queue) for queue in queues if queue], []
    while queues:
        queue = draw(st.sampled_from(queues))
        out.append(queue.pop(0))
        queues = [one for one in queues if one]
    return out


@st.composite
def streams(draw):
    """A stream of some calls, split anywhere, and what it must come to."""
    calls, ids = draw(CALLS), draw(st.sampled_from(IDS))
    interleaved = draw(st.booleans())
    indexed = interleaved or ids == "none" or draw(st.booleans())
    queues = [
        fragments(draw, at if indexed else None, f"call-{at}", name, json.dumps(arguments, ensure_ascii=escaped), ids)
        for at, (name, arguments, escaped) in enumerate(calls)
    ]
    parts = woven(draw, queues) if interleaved else [one for queue in queues for one in queue]
    order = dict.fromkeys(one["index"] for one in parts) if interleaved else range(len(calls))
    calls = [(calls[at][0], calls[at][1]) for at in order]  # a turn has its calls as they began
    text = draw(st.text(max_size=8))
    chunks = [chunk(content=one) for one in pieces(draw, text)] + [chunk(one) for one in parts]
    return [*chunks, end()], text, calls, ids, list(order)


@given(streams())
def test_any_split_of_a_stream_gives_the_same_turn(made):
    chunks, text, calls, ids, order = made
    turn = read_stream(chunks)
    got = outcomes(turn)
    if ids == "none":  # a name that comes in two equal halves may be one that came twice
        for have, want in zip(got, calls, strict=True):
            assert have == want or (have == "invalid_arguments" and len(set(want[0])) < len(want[0]))
    else:
        assert got == calls
        assert [request.provider_id for request in turn.requests] == [f"call-{at}" for at in order]
    assert (turn.text, turn.finish_reason) == (text, "tool_calls")


@given(streams(), st.data())
def test_a_stream_that_breaks_off_anywhere_has_whole_calls_or_refused_ones(made, data):
    chunks, _, calls, _, _ = made
    kept = data.draw(st.integers(1, len(chunks) - 1))
    for have, (name, arguments) in zip(outcomes(read_stream(chunks[:kept])), calls, strict=False):
        assert have in ((name, arguments), *REFUSED) or have[1] == arguments


def split(draw, chunks: list) -> list:
    """The same stream with each text of it sent in pieces."""
    out = []
    for one in chunks:
        choice = (one.get("choices") or [{}])[0]
        delta = choice.get("delta") or {}
        out += [chunk(content=piece) for piece in pieces(draw, delta.get("content") or "")]
        for call in delta.get("tool_calls") or []:
            said = call["function"]
            out.append(chunk(call | {"function": function(said.get("name"), "")}))
            bare = {"index": call["index"]}
            out += [
                chunk(bare | {"function": {"arguments": piece}}) for piece in pieces(draw, said.get("arguments") or "")
            ]
        out.append({"choices": [choice | {"delta": {}}]})
    return out


@pytest.mark.parametrize("name", RECORDED)
def test_any_split_of_a_recorded_stream_gives_the_same_turn(name):
    whole = read_stream(RECORDED[name])

    @given(st.data())
    def check(data):
        again = read_stream(split(data.draw, RECORDED[name]))
        assert again == whole and outcomes(again) == outcomes(whole)

    check()


@pytest.mark.parametrize("name", RECORDED)
def test_a_recorded_stream_cut_at_any_byte_of_its_arguments_is_whole_or_refused(name):
    whole = read_stream(RECORDED[name]).requests
    assert whole
    for request in whole:
        for stop in range(len(request.arguments)):
            cut = streamed(part(0, "x", request.name, request.arguments[:stop]), finish=None)
            assert outcomes(cut) == ["invalid_arguments"]


WILD = st.lists(
    st.builds(
        part,
        st.sampled_from([None, 0, 1, "0"]),
        st.sampled_from([None, "", "x", "y"]),
        st.sampled_from([None, "", "f", "g"]),
        st.sampled_from([None, "", "{}", '{"a": 1}', '{"a"', ": 1}", '{"b": 2}', "null"]),
    ),
    max_size=6,
)


@given(WILD, st.sampled_from([None, "tool_calls", "length"]))
def test_no_call_has_arguments_that_were_not_sent_as_one_text(parts, finish):
    """Of any fragments: an argument text of a call is whole fragments joined, each of which is used once."""
    turn = streamed(*parts, finish=finish)
    texts = [one["function"].get("arguments") or "" for one in parts]
    assert sum(len(request.arguments or "") for request in turn.requests) == sum(map(len, texts))
    for request, have in zip(turn.requests, outcomes(turn), strict=True):
        assert request.problem or have in REFUSED or have[1] == read_arguments(request.arguments)
    named = [one for one in parts if one["function"].get("name")]
    assert len([have for have in outcomes(turn) if have not in REFUSED]) <= len(named)


@given(WILD)
def test_a_call_without_arguments_is_never_one_that_lost_them(parts):
    assume(any((one["function"].get("arguments") or "") not in ("", "{}", "null") for one in parts))
    turn = streamed(*parts)
    orphans = [request for request in turn.requests if not request.name and request.arguments]
    for request in turn.requests:
        if orphans and request.name and not request.arguments:
            assert request.problem is not None

"""What goes back to the model is capped in bytes, is whole UTF-8, and says that it was cut."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keel import ToolError, ToolRequest, ToolResult
from keel.adapters import to_message
from keel.output import MESSAGE_BYTES, capped

from .kit import fire


def answered(data=None, message: str | None = None) -> ToolResult:
    error = None if message is None else ToolError(code="tool_failed", message=message)
    return ToolResult(call_id="c-1", tool_name="tool", tool_version="1.0", ok=message is None, data=data, error=error)


def content(result: ToolResult, *limit: int) -> str:
    return to_message(ToolRequest(provider_id="x"), capped(result, *limit))["content"]


LONG = ["x" * 100_000, "é" * 100_000, "\U0001f600" * 100_000, "\x00" * 100_000, '"\\' * 100_000, "\x00" * 16_000]
LONG += ["é" * 16_000, "\u2028" * 50_000, "x" * (MESSAGE_BYTES - 100), "x" * MESSAGE_BYTES]


@pytest.mark.parametrize("text", LONG, ids=range(len(LONG)))
@pytest.mark.parametrize(
    "wrap", [lambda t: t, lambda t: {"a": [t, 1]}, lambda t: [*t[:5000]]], ids=["text", "object", "list"]
)
def test_cut_data_is_within_the_limit_and_says_so(text, wrap):
    whole = answered(wrap(text))
    said = content(whole)
    assert len(said.encode()) <= MESSAGE_BYTES
    data = json.loads(said)["data"]
    if data == whole.data:
        return
    assert data["truncated"] is True and data["bytes"] > MESSAGE_BYTES - 200
    beginning = data["beginning"]
    assert len(beginning) > 1000 or "\x00" in text
    assert json.dumps(whole.data, ensure_ascii=False, separators=(",", ":"))[:50] == beginning[:50]


@pytest.mark.parametrize("text", LONG, ids=range(len(LONG)))
def test_a_cut_message_is_within_the_limit_and_says_so(text):
    whole = answered(message=text)
    said = content(whole)
    assert len(said.encode()) <= MESSAGE_BYTES
    error = json.loads(said)["error"]
    assert error["message"] == text or error["message"].endswith("… (cut)")
    assert error["code"] == "tool_failed"


def test_what_fits_goes_back_whole():
    for whole in (answered({"a": "é" * 1000}), answered(message="short"), answered("x" * (MESSAGE_BYTES - 200))):
        assert capped(whole) is whole


@given(st.text(min_size=200, max_size=800), st.integers(512, 3000))
def test_whatever_the_limit_the_message_is_within_it(text, limit):
    for whole in (answered(text * 10), answered({"a": [text] * 8}), answered(message=text * 10)):
        said = content(whole, limit)
        assert len(said.encode("utf-8")) <= limit
        json.loads(said)


def test_the_result_itself_stays_whole():
    whole = answered("x" * 100_000)
    cut = capped(whole)
    assert whole.data == "x" * 100_000
    assert (cut.call_id, cut.tool_name, cut.tool_version, cut.ok) == ("c-1", "tool", "1.0", True)


def test_a_message_that_quotes_the_models_own_input_is_capped_too():
    def body(n: int) -> int:
        return n

    result = fire(body, {"n": 1}, rules=[lambda values, context: "no: " + "é" * 50_000])
    assert len(result.error.message) > 50_000
    assert len(content(result).encode()) <= MESSAGE_BYTES

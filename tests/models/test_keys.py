"""No key is ever shown: not in a repr, not in a message, not in a printed traceback, not in what a server echoes."""

from __future__ import annotations

import json
import traceback

import pytest

from keel.adapters import ModelFailure
from keel.models import OpenAIModel, connect

from .kit import ASK, DONE, DOUBLE, KEY, begun, closed_port, stream

ECHO = json.dumps({"error": {"message": f"refused: Authorization: Bearer {KEY}"}})
SHOWN = {"on_text": lambda _: None}

STEPS = {
    "401": ({"status": 401, "body": ECHO}, {}),
    "403": ({"status": 403, "body": ECHO}, SHOWN),
    "400": ({"status": 400, "body": ECHO}, {}),
    "500": ({"status": 500, "body": ECHO}, SHOWN),
    "html": ({"body": f"<pre>Bearer {KEY}</pre>", "type": "text/html"}, {}),
    "error object": ({"body": ECHO}, {}),
    "error in a stream": (stream(begun(), f"data: {ECHO}\n\n", DONE), SHOWN),
    "cut across the key": ({"status": 400, "body": "x" * (200 - len(KEY) // 2) + KEY}, {}),
}


def told(model: OpenAIModel) -> str:
    """All that a person could be shown of a failing request."""
    with pytest.raises(ModelFailure) as caught:
        model.complete(ASK, [DOUBLE])
    parts = [str(caught.value), repr(caught.value), repr(model), str(model)]
    return "\n".join([*parts, *traceback.format_exception(caught.value)])


@pytest.mark.parametrize("name", STEPS)
def test_no_failure_shows_the_key(provider, name):
    step, options = STEPS[name]
    text = told(provider(step, max_retries=0, **options))
    assert KEY not in text and KEY[: len(KEY) // 2] not in text, text


def test_401_says_what_is_wrong_all_the_same(provider):
    assert "the provider refused the key (status 401)" in told(provider({"status": 401, "body": ECHO}))


def test_nor_does_a_line_that_is_dead(provider):
    assert KEY not in told(
        OpenAIModel("m", api_key=KEY, base_url=f"http://127.0.0.1:{closed_port()}/v1", max_retries=0)
    )


@pytest.mark.parametrize("odd", ["\n{}\n", "{}\r\nx: y", "{}…", "{}\x00"], ids=["lines", "header", "ellipsis", "nul"])
def test_a_key_that_no_header_can_carry(odd):
    model = OpenAIModel("m", api_key=odd.format(KEY), base_url=f"http://127.0.0.1:{closed_port()}/v1", max_retries=0)
    assert KEY not in told(model)


def test_the_objects_that_hold_it_do_not_print_it():
    model = connect({"DEEPSEEK_API_KEY": KEY})
    assert KEY not in f"{model!r} {model} {[model]} {ModelFailure('x')!r}"


def test_a_traceback_through_the_constructor():
    with pytest.raises(ModelFailure) as caught:
        OpenAIModel("m", api_key=KEY, base_url="http://127.0.0.1:port", max_retries=0).complete(ASK)
    assert KEY not in "".join(traceback.format_exception(caught.value))

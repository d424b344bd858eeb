"""The same model against a server that others wrote: the PyPI package fakellm, where it is installed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import urllib.request

import pytest

from keel.adapters import ModelFailure
from keel.models import OpenAIModel

from .kit import ASK, DOUBLE, KEY, closed_port

pytest.importorskip("fakellm", reason="fakellm is not installed: `pip install fakellm` brings it and its web server")

RULES = """
rules:
  - {name: one, when: {messages_contain: "Double 21"}, respond: {tool_calls: [
      {name: double, arguments: {n: 21}}, {name: double, arguments: {n: 4}}]}}
  - {name: text, when: {messages_contain: "Hello"}, respond: {content: "Hello to you, too."}}
  - {name: busy, when: {messages_contain: "Busy"}, respond: {status: 429, error: "slow down"}}
"""


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fakellm")
    (folder / "rules.yaml").write_text(RULES, encoding="utf-8")
    port = closed_port()
    command = [sys.executable, "-m", "uvicorn", "fakellm.server:app", "--host", "127.0.0.1", "--port", str(port)]
    env = os.environ | {"FAKELLM_CONFIG": str(folder / "rules.yaml")}
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with subprocess.Popen([*command, "--log-level", "error"], env=env) as process:
        try:
            for _ in range(300):
                try:
                    opener.open(f"http://127.0.0.1:{port}/_fakellm/stats", timeout=5).close()
                    break
                except OSError:
                    time.sleep(0.1)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            process.kill()


def model(address, **options):
    return OpenAIModel("m", api_key=KEY, base_url=address, timeout_s=15.0, max_retries=0, **options)


@pytest.mark.parametrize("on_text", [None, lambda _: None], ids=["whole", "streamed"])
def test_parallel_calls(address, on_text):
    turn = model(address, on_text=on_text).complete(ASK, [DOUBLE])
    assert [(one.name, one.arguments) for one in turn.requests] == [("double", '{"n": 21}'), ("double", '{"n": 4}')]


def test_text_is_shown_as_it_streams(address):
    shown = []
    turn = model(address, on_text=shown.append).complete([{"role": "user", "content": "Hello"}])
    assert "".join(shown) == turn.text == "Hello to you, too."


def test_too_many_requests(address):
    with pytest.raises(ModelFailure, match=r"status 429.*slow down"):
        model(address).complete([{"role": "user", "content": "Busy"}])

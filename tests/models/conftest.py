"""One provider process for all tests of a worker; it ends with it, whatever happens."""

from __future__ import annotations

import json
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from keel.models import OpenAIModel

from .kit import KEY
from .server import PROGRAM


class Asker:
    """Lays scripts down at the provider, and makes models that are answered by them."""

    def __init__(self, port: int):
        self.address = f"http://127.0.0.1:{port}"
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        self._scripts = 0

    def _open(self, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        with self._opener.open(f"{self.address}{path}", data, timeout=20) as reply:
            return json.loads(reply.read())

    def model(self, *steps: dict[str, Any], **options: Any) -> OpenAIModel:
        """A model whose requests get these answers, one after the other, the last one for ever."""
        self._scripts += 1
        name = f"script-{self._scripts}"
        self._open(f"/script/{name}", steps)
        return OpenAIModel(name, **{"api_key": KEY, "base_url": f"{self.address}/v1", "timeout_s": 15.0} | options)

    def saw(self, _: str) -> None:
        """Tell the provider that text was shown."""
        self._open("/seen")

    def asked(self, model: OpenAIModel) -> list[dict[str, Any]]:
        """The requests that came for a model, with their headers and times."""
        return self._open(f"/asked/{model.model}")


@pytest.fixture(scope="session")
def server() -> Iterator[Asker]:
    with subprocess.Popen(PROGRAM, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Asker(int(process.stdout.readline()))
        finally:
            process.stdin.close()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy named in the environment is for the world outside."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")


@pytest.fixture
def provider(server: Asker) -> Callable[..., OpenAIModel]:
    return server.model

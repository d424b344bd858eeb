"""bootstrap.py: which Python, which words for which trouble, one environment for all commands."""

import ast
import errno
import hashlib
import os
import shutil
import subprocess
import sys
import threading
import time
import zipfile
from pathlib import Path

import pytest

import bootstrap

ROOT = Path(bootstrap.ROOT)
posix_only = pytest.mark.skipif(os.name == "nt", reason="uses small shell scripts")


# Which Python


def test_the_syntax_is_old_enough_to_reach_the_message():
    ast.parse((ROOT / "bootstrap.py").read_text(encoding="utf-8"), feature_version=(3, 6))


@pytest.mark.parametrize("version", [(3, 6, 15), (3, 8, 18), (3, 10, 13, "final", 0)])
def test_an_old_python_is_named_with_its_place(version):
    message = bootstrap.too_old_message(version, "/usr/bin/python3")
    assert f"needs Python 3.11 or newer, found {'.'.join(map(str, version[:3]))} at /usr/bin/python3" in message
    assert "\n" not in message


@pytest.mark.parametrize("version", [(3, 11, 0), (3, 14, 1)])
def test_a_python_that_will_do_gets_no_message(version):
    assert bootstrap.too_old_message(version, "python") is None


@pytest.mark.parametrize("name", ["python3.6", "python3.8", "python3.10"])
def test_a_real_old_python_says_so_without_a_traceback(name, tmp_path):
    command = [name, str(ROOT / "bootstrap.py"), "lab"]
    if shutil.which(name) is None or subprocess.run([name, "--version"], capture_output=True, check=False).returncode:
        pytest.skip(f"no {name} here")
    environment = dict(os.environ, KEEL_BOOTSTRAP_AGAIN="1")
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path, check=False)
    assert done.returncode == 1
    assert "needs Python 3.11 or newer" in done.stderr
    assert "Traceback" not in done.stderr


def test_with_no_newer_python_the_message_is_all(monkeypatch, capsys):
    monkeypatch.setattr(bootstrap.sys, "version_info", (3, 8, 18))
    monkeypatch.setattr(bootstrap, "find_newer_python", lambda: None)
    assert bootstrap.main(["lab"]) == 1
    assert "found 3.8.18" in capsys.readouterr().err


@posix_only
def test_a_newer_python_is_looked_for_and_tried(monkeypatch, tmp_path):
    (tmp_path / "python3.13").write_text("#!/bin/sh\nexit 127\n")  # what a version manager leaves for one not chosen
    (tmp_path / "python3.13").chmod(0o755)
    (tmp_path / "python3.12").symlink_to(sys.executable)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert bootstrap.find_newer_python() == ["python3.12"]


@posix_only
def test_a_python_without_venv_is_told_what_to_install(monkeypatch, tmp_path):
    fake = tmp_path / "python3"
    fake.write_text("#!/bin/sh\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setattr(bootstrap, "base_python", lambda: str(fake))
    with pytest.raises(bootstrap.SetupError, match="cannot make virtual environments") as caught:
        bootstrap.check_venv_module()
    if os.path.exists("/etc/debian_version"):
        assert "apt install python3-venv" in str(caught.value)


# What went wrong, in words


@pytest.mark.parametrize(
    "output, words",
    [
        ("Failed to establish a new connection: [Errno 111] Connection refused", "HTTPS_PROXY"),
        ("Temporary failure in name resolution\nERROR: No matching distribution found for anyio", "HTTPS_PROXY"),
        ("ProxyError('Cannot connect to proxy.', OSError('Tunnel connection failed: 403'))", "HTTPS_PROXY"),
        ("Max retries exceeded (SSLCertVerificationError: CERTIFICATE_VERIFY_FAILED)", "global.cert"),
        ("Connection refused\nERROR: Could not install packages: [Errno 28] No space left on device", "no space left"),
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE", "its hash differs"),
        ("OSError: [Errno 13] Permission denied: '/x/.venv/bin'", "could not be written (OSError"),
        ("ERROR: Failed building wheel for rpds-py", "no ready-made build"),
        ("something {new}", "something {new}"),
    ],
)
def test_what_pip_said_is_explained(output, words):
    assert words in bootstrap.explain_pip(output)


@pytest.mark.parametrize(
    "number, words", [(errno.ENOSPC, "no space left"), (errno.EROFS, "could not be written"), (errno.EACCES, "Copy")]
)
def test_a_full_or_closed_disk_is_one_paragraph(number, words, monkeypatch, capsys):
    def fail(place):
        raise OSError(number, os.strerror(number), str(ROOT / ".venv"))

    monkeypatch.setattr(bootstrap, "ensure_environment", fail)
    assert bootstrap.main(["lint"]) == 1
    error = capsys.readouterr().err
    assert words in error
    assert error.strip().count("\n") == 0


def test_ctrl_c_ends_with_one_line(monkeypatch, capsys):
    def interrupt(place):
        raise KeyboardInterrupt

    monkeypatch.setattr(bootstrap, "ensure_environment", interrupt)
    assert bootstrap.main(["lint"]) == 130
    assert "Nothing is lost" in capsys.readouterr().err


def test_an_unknown_command_gets_the_list(capsys):
    assert bootstrap.main(["tset"]) == 1
    error = capsys.readouterr().err
    assert all(name in error for name in bootstrap.COMMANDS)


# The environment. It is made for real, but from a lock of one small package, so that it takes seconds.

BACKEND = """
import zipfile

def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    name = "toy-1.0-py3-none-any.whl"
    with zipfile.ZipFile(f"{wheel_directory}/{name}", "w") as wheel:
        wheel.writestr("toy-1.0.dist-info/METADATA", "Metadata-Version: 2.1\\nName: toy\\nVersion: 1.0\\n")
        wheel.writestr("toy-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr("toy-1.0.dist-info/RECORD", "")
    return name
"""
PROJECT = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'


def make_wheel(folder, name):
    """Write a wheel of one empty module and return its line in a lock."""
    path = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(f"{name}.py", "")
        wheel.writestr(f"{name}-1.0.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        wheel.writestr(f"{name}-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{name}-1.0.dist-info/RECORD", "")
    return f"{name}==1.0 --hash=sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}\n"


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A checkout whose lock names one small package, found in a folder and nowhere else."""
    wheels = tmp_path / "wheels"
    root = tmp_path / "a copy"
    wheels.mkdir()
    root.mkdir()
    (root / "pyproject.toml").write_text(PROJECT)
    (root / "backend.py").write_text(BACKEND)
    (root / "requirements.lock").write_text(make_wheel(wheels, "keel_probe"))
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    # A closed port of this machine stands for a network that is not there.
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/none")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    monkeypatch.setattr(bootstrap, "IMPORTS", ["keel_probe"])
    return bootstrap.Place(str(root))


def test_an_interrupted_environment_is_repaired_left_alone_and_survives_a_lost_network(place, monkeypatch, capsys):
    left_over = Path(place.venv, "left over")
    os.mkdir(place.venv)
    left_over.touch()
    Path(place.unfinished).touch()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    bootstrap.ensure_environment(place)
    assert "the last run was interrupted" in capsys.readouterr().out
    assert not left_over.exists()

    bootstrap.ensure_environment(place)
    assert capsys.readouterr().out == "keel: the environment is ready, nothing to install\n"

    with open(place.lock, "a") as file:
        file.write(f"another-probe==1.0 --hash=sha256:{'0' * 64}\n")
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_RETRIES", "0")
    with pytest.raises(bootstrap.SetupError, match="HTTPS_PROXY"):
        bootstrap.ensure_environment(place)
    said = capsys.readouterr().out
    assert "installing 2 packages" in said
    assert "making .venv" not in said
    # What is here is old but whole: the next run brings it up to date and need not make it again.
    assert not bootstrap.is_ready(place)
    assert bootstrap.why_rebuild(place) is None


def test_an_environment_that_does_not_start_is_replaced(place):
    os.mkdir(place.venv)
    assert "does not start" in bootstrap.why_rebuild(place)


@pytest.mark.parametrize("failure", [KeyboardInterrupt, OSError(errno.ENOSPC, "full"), bootstrap.SetupError("no")])
def test_a_failed_rebuild_gives_the_old_environment_back(place, monkeypatch, failure):
    def fail(command):
        raise failure

    os.mkdir(place.venv)
    Path(place.venv, "precious").touch()
    monkeypatch.setattr(bootstrap, "run_quietly", fail)
    with pytest.raises(type(failure) if isinstance(failure, Exception) else failure):
        bootstrap.rebuild(place)
    assert os.listdir(place.venv) == ["precious"]


def test_an_incomplete_copy_is_named(place):
    os.remove(place.lock)
    with pytest.raises(bootstrap.SetupError, match=r"requirements\.lock is missing"):
        bootstrap.ensure_environment(place)


def test_two_runs_at_once_take_turns(place, capsys):
    order = []

    def second():
        with bootstrap.only_one(place):
            order.append("second")

    with bootstrap.only_one(place):
        thread = threading.Thread(target=second)
        thread.start()
        time.sleep(0.4)
        order.append("first")
    thread.join(5)
    assert order == ["first", "second"]
    assert "waiting for it" in capsys.readouterr().out


def test_the_stamp_depends_on_lock_project_and_python(place, monkeypatch):
    seen = {bootstrap.digest(place)}
    for path in (place.lock, place.project):
        with open(path, "a") as file:
            file.write("\n")
        seen.add(bootstrap.digest(place))
    monkeypatch.setattr(bootstrap.sys, "version_info", (3, 14, 0))
    seen.add(bootstrap.digest(place))
    assert len(seen) == 4


# The small ones


def test_every_command_has_a_target_in_the_makefile():
    targets = {
        name
        for line in (ROOT / "Makefile").read_text().splitlines()
        if line[:1].isalpha() and ":" in line and "=" not in line
        for name in line.split(":")[0].split()
    }
    assert set(bootstrap.COMMANDS) | {"help"} == targets


@pytest.mark.skipif(shutil.which("make") is None, reason="no make here")
def test_make_hands_its_arguments_on():
    command = ["make", "-n", "-C", str(ROOT), "test", "notebooks", "ARGS=-k registry", "CH=00 01", "CHECK=1"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "bootstrap.py test -- -k registry" in said
    assert "bootstrap.py notebooks 00 01 --check" in said


def test_without_chromium_the_reader_is_told_what_to_install(place, monkeypatch):
    monkeypatch.setattr(bootstrap, "find_chromium", lambda: None)
    with pytest.raises(bootstrap.SetupError, match="apt install chromium"):
        bootstrap.test_browser(place, [])


def test_a_browser_test_gets_a_second_try_and_no_third(place, monkeypatch):
    chromium = "/usr/bin/chromium"
    monkeypatch.setattr(bootstrap, "find_chromium", lambda: chromium)
    monkeypatch.setattr(bootstrap, "ensure_environment", lambda place: None)
    monkeypatch.setattr(bootstrap, "has_files", lambda *arguments: True)

    def runs(*outcomes):
        left = list(outcomes)
        monkeypatch.setattr(bootstrap, "run_pytest", lambda *arguments: left.pop(0))
        return bootstrap.test_browser(place, []), len(left)

    def came_to(passed, failed, exit_code):
        return bootstrap.Outcome("browser tests", passed, failed, exit_code=exit_code)

    assert runs(came_to(9, 1, 1), came_to(1, 0, 0)) == (0, 0)
    assert runs(came_to(8, 2, 1), came_to(1, 1, 1), came_to(1, 0, 0)) == (1, 1), "once is enough"
    assert runs(came_to(9, 1, 1), came_to(0, 0, 5)) == (1, 0), "nothing was run again: still failed"
    assert runs(came_to(6, 4, 1), came_to(4, 0, 0)) == (1, 1), "four failures are no stray key"
    assert runs(came_to(2, 0, 2), came_to(1, 0, 0)) == (1, 1), "a run that broke off is not mended"
    assert runs(came_to(10, 0, 0), came_to(1, 0, 0)) == (0, 1)


def test_tests_get_no_key_and_keep_no_progress(monkeypatch):
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "DEEPSEEK_MODEL", "KEEL_LOCAL_MODEL", "PYTHONPATH"):
        monkeypatch.setenv(name, "x")
    environment = bootstrap.test_environ()
    assert not [name for name in environment if "OPENAI" in name or "DEEPSEEK" in name or "LOCAL_MODEL" in name]
    assert "PYTHONPATH" not in environment
    assert environment["KEEL_PROGRESS"] == "off"


def test_clean_removes_what_was_made_and_nothing_else(place):
    for name in (".venv", ".venv.old", "keel/__pycache__", "notebooks/.ipynb_checkpoints"):
        os.makedirs(os.path.join(place.root, name))
    Path(place.root, "notebooks", "mine.ipynb").touch()
    bootstrap.clean(place, [])
    left = {path.relative_to(place.root).as_posix() for path in Path(place.root).rglob("*") if path.is_file()}
    assert left == {"pyproject.toml", "backend.py", "requirements.lock", "notebooks/mine.ipynb"}
    assert not Path(place.venv).exists()


@pytest.mark.soak
def test_a_fresh_copy_becomes_a_working_environment(tmp_path):
    """The real thing, from the real lock: a minute, and a network."""
    copy = tmp_path / "copy"
    ignored = shutil.ignore_patterns(".git", ".venv*", "__pycache__", ".*_cache")
    shutil.copytree(ROOT, copy, ignore=ignored)
    done = subprocess.run(
        [sys.executable, "bootstrap.py", "test", "--", "tests/setup/test_lock.py"],
        cwd=copy,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].endswith(" passed, 0 failed")

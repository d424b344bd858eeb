"""`bootstrap.py lab` and `test`, run for real with the interpreter that runs this."""

import os
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import nbformat
import pytest

import bootstrap

# The environment is the one that is running: making one is tested elsewhere.
DRIVER = """
import sys
sys.path.insert(0, {repo!r})
import bootstrap
bootstrap.ensure_environment = lambda place: None
class Here(bootstrap.Place):
    python = sys.executable
sys.exit(bootstrap.{command}(Here({root!r}), {arguments!r}))
"""


def start(command, root, arguments, **variables):
    """Run one command of bootstrap.py over a small checkout."""
    code = DRIVER.format(repo=bootstrap.ROOT, command=command, root=str(root), arguments=arguments)
    environment = {**os.environ, "KEEL_NO_BROWSER": "1", **variables}
    environment.pop("JUPYTER_TOKEN", None)
    # What a test runner under which this runs has set for its own workers.
    environment = {name: value for name, value in environment.items() if not name.startswith("PYTEST")}
    environment.update(PYTEST_DISABLE_PLUGIN_AUTOLOAD="1", PYTEST_PLUGINS="xdist.plugin,nbval.plugin")
    return subprocess.Popen(
        [sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def write_notebook(root, *sources_and_outputs):
    """Write a first chapter of code cells that print what is given."""
    notebook = nbformat.v4.new_notebook()
    for number, (source, output) in enumerate(sources_and_outputs, 1):
        cell = nbformat.v4.new_code_cell(source, id=f"c{number}", execution_count=number)
        cell.outputs = [nbformat.v4.new_output("stream", name="stdout", text=output)]
        notebook.cells.append(cell)
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    path = Path(root, *bootstrap.FIRST_CHAPTER.split("/"))
    path.parent.mkdir(exist_ok=True)
    nbformat.write(notebook, path)


@pytest.fixture
def taken():
    """A port on which somebody else listens."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield server.getsockname()[1]


def test_lab_takes_another_port_prints_its_address_answers_and_ends(tmp_path, taken):
    write_notebook(tmp_path, ("print(1)", "1\n"))
    process = start("lab", tmp_path, ["--port", str(taken)])
    said = []
    try:
        for line in process.stdout:
            said.append(line)
            if line.startswith("Open "):
                break
        address = said[-1].split()[1]
        host, _, rest = address.removeprefix("http://").partition("/")
        assert host.startswith("127.0.0.1:") and host != f"127.0.0.1:{taken}", said
        assert rest.startswith("lab/tree/notebooks/00_start_here.ipynb?token=")
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(address, timeout=20) as page:
            assert page.status == 200
            assert "JupyterLab" in page.read().decode()
        with pytest.raises(urllib.error.HTTPError, match="403"):
            opener.open(f"http://{host}/api/contents", timeout=20)
    finally:
        process.send_signal(signal.SIGINT if os.name != "nt" else signal.SIGTERM)
        rest = process.communicate(timeout=30)[0]
    assert process.returncode == 0, rest
    assert "Traceback" not in rest


def test_the_next_free_port_is_chosen_and_said(taken, capsys):
    chosen = bootstrap.choose_port("127.0.0.1", taken)
    assert chosen > taken
    assert f"port {taken} is taken, using {chosen}" in capsys.readouterr().out


@pytest.mark.parametrize("port", ["0", "65536", "http"])
def test_a_number_that_is_no_port_is_refused(port):
    with pytest.raises(bootstrap.SetupError, match="no port number"):
        bootstrap.lab_options(["--port", port])


@pytest.mark.parametrize("variable", ["CI", "KEEL_NO_BROWSER"])
def test_no_page_is_opened_where_nobody_looks(variable, monkeypatch):
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setenv(variable, "1")
    assert not bootstrap.has_browser()


@pytest.mark.parametrize("user, expected", [(0, True), (1000, False)])
def test_root_is_allowed_only_as_root(user, expected, monkeypatch):
    monkeypatch.setattr(bootstrap.os, "geteuid", lambda: user, raising=False)
    command = bootstrap.lab_command(bootstrap.Place(), "127.0.0.1", 8888, False, [])
    assert ("--allow-root" in command) is expected
    assert "--no-browser" in command


def test_any_interface_is_no_address_for_a_browser():
    assert bootstrap.host_in_address("0.0.0.0") == "127.0.0.1"
    assert bootstrap.host_in_address("::1") == "[::1]"


def test_tests_and_chapters_both_run_and_are_summed_up(tmp_path):
    write_notebook(
        tmp_path,
        ("import os; print(os.environ.get('OPENAI_API_KEY'), os.environ['KEEL_PROGRESS'])", "None off\n"),
        ("print('now')", "then\n"),
    )
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_three.py").write_text(
        "import pytest\ndef test_a(): pass\ndef test_b(): assert False\ndef test_c(): pytest.skip('no')\n"
    )
    (tmp_path / "pyproject.toml").write_text('[tool.pytest.ini_options]\ntestpaths = ["tests"]\n')
    process = start("test", tmp_path, ["--", "-n", "0"], OPENAI_API_KEY="not a key")
    lines = process.communicate(timeout=60)[0].splitlines()
    assert process.returncode == 1
    assert lines[-1] == "2 passed, 2 failed, 1 skipped", lines
    assert " tests: 1 passed, 1 failed, 1 skipped in " in lines[-3]
    assert " chapters: 1 passed, 1 failed in " in lines[-2]


def test_an_empty_checkout_has_nothing_to_run(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(bootstrap, "ensure_environment", lambda place: None)
    assert bootstrap.test(bootstrap.Place(str(tmp_path)), []) == 0
    said = capsys.readouterr().out
    assert "no tests in tests/ yet" in said
    assert "no chapters in notebooks/ yet" in said
    assert said.splitlines()[-1] == "0 passed, 0 failed"


def test_paths_choose_the_run_they_belong_to(tmp_path):
    for name in ("tests/lab", "notebooks"):
        (tmp_path / name).mkdir(parents=True)
    place = bootstrap.Place(str(tmp_path))
    assert bootstrap.split_paths(place, ["-k", "x", "tests/lab::test_a"]) == (["-k", "x"], ["tests/lab::test_a"], [])
    assert bootstrap.split_paths(place, ["-x", "notebooks"]) == (["-x"], [], ["notebooks"])


def test_no_tests_chosen_is_no_failure_but_a_run_that_broke_off_is_one(capsys):
    assert bootstrap.close([bootstrap.Outcome("tests", exit_code=5)]) == 0
    assert bootstrap.close([bootstrap.Outcome("tests", passed=3, exit_code=3)]) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "3 passed, 1 failed"

"""scripts/notebooks.py: chapters are run and written back, byte for byte the same each time."""

import json

import nbformat
import pytest

from scripts import notebooks


def code(number, source, *tags):
    """Return a code cell with a stable id."""
    return nbformat.v4.new_code_cell(source, id=f"cell-{number}", metadata={"tags": list(tags)} if tags else {})


def write(path, *cells):
    """Write a notebook as an editor leaves it: other metadata, old outputs."""
    notebook = nbformat.v4.new_notebook(cells=list(cells))
    notebook.metadata = {"language_info": {"name": "python", "version": "3.11.7"}, "widgets": {"state": {}}}
    nbformat.write(notebook, path)
    return path


def outputs(path, number):
    """Return the stored outputs of the n-th cell."""
    return json.loads(path.read_text(encoding="utf-8"))["cells"][number]["outputs"]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A chapter with one cell of each kind, run once."""
    path = write(
        tmp_path_factory.mktemp("chapters") / "00_all.ipynb",
        nbformat.v4.new_markdown_cell("# A title", id="title"),
        code(1, "print('one'); print('two')\n'中文'"),
        code(2, "import ipywidgets\nipywidgets.VBox([ipywidgets.Button(description='Fire')])"),
        code(3, "1 / 0", "raises-exception"),
        code(4, "import os\nprint(os.environ.get('OPENAI_API_KEY'))", "live", "nbval-skip"),
    )
    changed = notebooks.refresh(path)
    return path, changed


def test_changed_cells_are_named(written):
    assert written[1] == [f"cell {number + 1} (cell-{number})" for number in (1, 2, 3, 4)]


def test_a_second_run_changes_no_byte(written):
    path = written[0]
    before = path.read_bytes()
    assert notebooks.refresh(path) == []
    assert path.read_bytes() == before


def test_metadata_names_no_version_and_no_widgets(written):
    stored = json.loads(written[0].read_text(encoding="utf-8"))
    assert stored["metadata"] == notebooks.METADATA
    assert [cell["execution_count"] for cell in stored["cells"][1:]] == [1, 2, 3, 4]
    assert [cell["id"] for cell in stored["cells"]] == ["title", "cell-1", "cell-2", "cell-3", "cell-4"]


def test_a_stream_is_one_output_and_text_stays_readable(written):
    stream, result = outputs(written[0], 1)
    assert stream["text"] == ["one\n", "two\n"]
    assert result["data"] == {"text/plain": ["'中文'"]}
    assert "中文" in written[0].read_text(encoding="utf-8")


def test_a_widget_is_kept_as_text(written):
    (view,) = outputs(written[0], 2)
    assert list(view["data"]) == ["text/plain"]
    assert "Fire" in view["data"]["text/plain"][0]


def test_an_announced_error_is_kept_without_paths(written):
    (error,) = outputs(written[0], 3)
    assert error["traceback"] == ["ZeroDivisionError: division by zero"]


@pytest.mark.parametrize(
    "source, words",
    [
        ("1 / 0", r"cell 2 \(cell-2\) raised ZeroDivisionError"),
        ("import sys; print('oh', file=sys.stderr)", r"cell 2 \(cell-2\) wrote to stderr: oh"),
    ],
)
def test_what_should_not_be_there_is_refused_and_the_file_stays(tmp_path, source, words):
    path = write(tmp_path / "01_bad.ipynb", code(1, "print('fine')"), code(2, source))
    before = path.read_bytes()
    with pytest.raises(notebooks.Refused, match=words):
        notebooks.refresh(path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_a_cell_that_hangs_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(notebooks, "CELL_SECONDS", 1)
    path = write(tmp_path / "01_slow.ipynb", code(1, "import time; time.sleep(30)"))
    with pytest.raises(notebooks.Refused, match="more than 1 seconds"):
        notebooks.refresh(path)


def test_the_command_runs_chapters_without_keys_and_check_writes_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("OPENAI_API_KEY", "not a key")
    path = write(tmp_path / "00_a.ipynb", code(1, "import os\nassert 'OPENAI_API_KEY' not in os.environ"))
    write(tmp_path / "01_b.ipynb", code(1, "raise SystemError"))
    before = path.read_bytes()
    assert notebooks.main(["--folder", str(tmp_path), "--check"]) == 2
    first, second = capsys.readouterr().out.splitlines()
    assert first == "00_a.ipynb: would change: cell 1 (cell-1)"
    assert second.startswith("01_b.ipynb: refused: cell 1 (cell-1) raised SystemError")
    assert path.read_bytes() == before


def test_a_name_that_is_no_chapter_is_refused(tmp_path, capsys):
    assert notebooks.main(["--folder", str(tmp_path), "99"]) == 2
    assert "no chapter begins with '99'" in capsys.readouterr().out


def test_model_ids_are_taken_out_of_text():
    text = f"Link(IPY_MODEL_{'0a' * 16})"
    notebook = nbformat.v4.new_notebook(cells=[code(1, "x")])
    data = {"text/plain": text, notebooks.WIDGET_VIEW: {"model_id": "0a" * 16}}
    notebook.cells[0].outputs = [nbformat.v4.new_output("display_data", data=data)]
    notebooks.normalise(notebook)
    assert notebook.cells[0].outputs[0]["data"] == {"text/plain": "Link(IPY_MODEL_)"}


def test_checkpoints_are_no_chapters(tmp_path):
    (tmp_path / ".ipynb_checkpoints").mkdir()
    write(tmp_path / ".ipynb_checkpoints" / "00_a.ipynb", code(1, "1"))
    assert notebooks.find_chapters(tmp_path) == []

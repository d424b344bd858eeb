"""Run the chapters from top to bottom in fresh kernels and write them back: ``python scripts/notebooks.py 00 01``.

Running it twice changes no byte, on any machine and under any Python that the course allows: what differs from run to
run (times, versions, widget ids, tracebacks with their paths) is taken out, and what should not be there (an error
nobody announced, anything on stderr) is refused. A chapter that is refused stays as it was.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

ROOT = Path(__file__).resolve().parent.parent
START_SECONDS = 60
CELL_SECONDS = 60
CHAPTER_SECONDS = 300
SIDE_BY_SIDE = 2
METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    # No version: another Python must write the same bytes.
    "language_info": {
        "file_extension": ".py",
        "mimetype": "text/x-python",
        "name": "python",
        "pygments_lexer": "ipython3",
    },
}
CELL_METADATA = ("jupyter", "slideshow", "tags")
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
MODEL_ID = re.compile(r"IPY_MODEL_[0-9a-f]{32}")
MODEL_VARIABLES = re.compile(r"^(OPENAI_|DEEPSEEK_|KEEL_LOCAL_MODEL$)")


class Refused(Exception):
    """A chapter that must not be written back; the text says which cell, and why."""


def find_chapters(folder, names=()):
    """Return the notebooks under a folder whose names begin with one of ``names``, or all of them."""
    found = [path for path in sorted(Path(folder).rglob("*.ipynb")) if ".ipynb_checkpoints" not in path.parts]
    chosen = [path for path in found if not names or any(path.name.startswith(Path(name).name) for name in names)]
    for name in names:
        if not any(path.name.startswith(Path(name).name) for path in found):
            raise Refused(f"no chapter begins with {name!r}")
    return chosen


def execute(notebook, folder):
    """Run all cells in a fresh kernel, in place, and refuse an error that no ``raises-exception`` announces."""
    for cell in code_cells(notebook):
        cell.outputs, cell.execution_count = [], None
    client = NotebookClient(
        notebook,
        timeout=CELL_SECONDS,
        startup_timeout=START_SECONDS,
        kernel_name="python3",
        record_timing=False,
        store_widget_state=False,
        resources={"metadata": {"path": str(folder)}},
    )
    try:
        client.execute()
    except CellExecutionError as error:
        raise Refused(f"{where_it_failed(notebook)} raised {error.ename}: {error.evalue}") from error
    except CellTimeoutError as error:
        raise Refused(f"a cell ran for more than {CELL_SECONDS} seconds") from error
    except DeadKernelError as error:
        raise Refused("the kernel died") from error


def code_cells(notebook):
    """Return the code cells in order."""
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def name_of(notebook, cell):
    """Return how a cell is named to a person: its place and its id."""
    return f"cell {notebook.cells.index(cell) + 1} ({cell.get('id', 'no id')})"


def where_it_failed(notebook):
    """Return the name of the cell with the last error in it: the run stopped there."""
    failed = [cell for cell in code_cells(notebook) if any(output.output_type == "error" for output in cell.outputs)]
    return name_of(notebook, failed[-1]) if failed else "a cell"


def normalise(notebook):
    """Take out, in place, what differs from run to run; refuse what must not be stored."""
    notebook.metadata = nbformat.from_dict(METADATA)
    count = 0
    for cell in notebook.cells:
        cell.metadata = nbformat.from_dict({key: cell.metadata[key] for key in CELL_METADATA if key in cell.metadata})
        if cell.cell_type != "code":
            continue
        if cell.source.strip():
            count += 1
            cell.execution_count = count
        cell.outputs = [normalise_output(notebook, cell, output) for output in coalesce(cell.outputs)]
    nbformat.validate(notebook)


def coalesce(outputs):
    """Join pieces of one stream that follow each other: how a kernel cuts them is chance."""
    joined = []
    for output in outputs:
        last = joined[-1] if joined else None
        if last is not None and output.output_type == last.output_type == "stream" and output.name == last.name:
            last.text += output.text
        else:
            joined.append(output)
    return joined


def normalise_output(notebook, cell, output):
    """Return one output in the form in which it is stored."""
    if output.output_type == "stream" and output.name == "stderr":
        raise Refused(f"{name_of(notebook, cell)} wrote to stderr: {output.text.strip()[:500]}")
    if output.output_type == "execute_result":
        output.execution_count = cell.execution_count
    if output.output_type == "error":
        # Frames name paths and lines of this machine and of this Python.
        output.traceback = [f"{output.ename}: {output.evalue}"]
    if "data" in output:
        # The model behind a view lives only as long as its kernel; the text form is what stays.
        output.data.pop(WIDGET_VIEW, None)
        if "text/plain" in output.data:
            output.data["text/plain"] = MODEL_ID.sub("IPY_MODEL_", output.data["text/plain"])
    return output


def changed_cells(before, after):
    """Return the names of the cells whose stored form differs."""
    old = {cell.get("id"): cell for cell in before.cells}
    return [name_of(after, cell) for cell in after.cells if old.get(cell.get("id")) != cell]


def write_atomically(path, text):
    """Replace a file whole or not at all."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-", suffix=".tmp")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        os.chmod(name, path.stat().st_mode & 0o777)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def refresh(path, check=False):
    """Run one chapter, and write it back if that changes it; return what changed, in words."""
    path = Path(path)
    stored = path.read_bytes()
    before = nbformat.reads(stored.decode("utf-8"), as_version=4)
    after = nbformat.reads(stored.decode("utf-8"), as_version=4)
    execute(after, path.parent)
    normalise(after)
    text = nbformat.writes(after).rstrip("\n") + "\n"
    if text.encode("utf-8") == stored:
        return []
    if not check:
        write_atomically(path, text)
    return changed_cells(before, after) or ["its form only"]


def refresh_apart(path, check):
    """Run `refresh` in a process of its own, which can be ended when it hangs; return (exit code, report)."""
    command = [sys.executable, __file__, "--one", str(path), *(["--check"] if check else [])]
    try:
        done = subprocess.run(
            command, capture_output=True, timeout=CHAPTER_SECONDS, encoding="utf-8", env=environment(), check=False
        )
    except subprocess.TimeoutExpired:
        return 2, f"{path.name}: refused: it ran for more than {CHAPTER_SECONDS} seconds"
    report = done.stdout.strip()
    if done.returncode not in (0, 1, 2) or not report:
        return 2, f"{path.name}: refused: {(done.stderr or done.stdout).strip()[-2000:]}"
    return done.returncode, report


def environment():
    """Return the variables for a chapter: it must run without a key, and without a reader's progress."""
    kept = {name: value for name, value in os.environ.items() if not MODEL_VARIABLES.match(name)}
    kept.pop("JUPYTER_PATH", None)
    return {**kept, "KEEL_PROGRESS": "off", "JUPYTER_PREFER_ENV_PATH": "1"}


def report_one(path, check):
    """Run one chapter and print its line; return 0 for unchanged or written, 1 for a change under check, 2 refused."""
    try:
        changed = refresh(path, check)
    except (Refused, nbformat.ValidationError, nbformat.reader.NotJSONError, UnicodeDecodeError) as error:
        print(f"{path.name}: refused: {error}")
        return 2
    if not changed:
        print(f"{path.name}: unchanged")
        return 0
    print(f"{path.name}: {'would change' if check else 'written'}: {', '.join(changed)}")
    return 1 if check else 0


def main(arguments=None):
    """Refresh the chosen chapters, two at a time, and return the worst exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="how the chapters' names begin, such as 00 01 (default: all)")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if anything would change")
    parser.add_argument("--folder", type=Path, default=ROOT / "notebooks", help=argparse.SUPPRESS)
    parser.add_argument("--one", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.one:
        return report_one(options.one, options.check)
    try:
        chapters = find_chapters(options.folder, options.names)
    except Refused as error:
        print(error)
        return 2
    if not chapters:
        print(f"there are no chapters in {options.folder.name}/ yet")
        return 0
    worst = 0
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        for code, report in pool.map(lambda path: refresh_apart(path, options.check), chapters):
            print(report, flush=True)
            worst = max(worst, code)
    return worst


if __name__ == "__main__":
    sys.exit(main())

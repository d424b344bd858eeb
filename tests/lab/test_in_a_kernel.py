"""The lab in a real kernel: what a notebook would store is there, is the same twice, and nothing goes to stderr."""

import json
import os

import nbformat
import pytest
from nbclient import NotebookClient

CELLS = {
    "strip": "from keel.lab.strip import stage_strip\nstage_strip('01')",
    "doctor": "from keel.lab.checkup import doctor\ndoctor()",
    "predict": "from keel.lab.prompts import predict, quiz\npredict('01-a')",
    "answered": "predict('01-a', answer='b')",
    "quiz": "quiz('01-b')",
    "stub": "from keel.lab.exercises import check, hint, progress, solution\ndef dispatch(call, tools):\n    ...\n"
    "check('01-a', dispatch)",
    "talking": "def what_next(code):\n    print('asked', code)\n    return missing_name\ncheck('01-b', what_next)",
    "endless": "def mint(proposal):\n    while True:\n        pass\ncheck('01-c', mint)",
    "globals": "def delete_prod(): 1 / 0\ndef dispatch(call, tools):\n"
    "    name, arguments = call['name'], call['arguments']\n"
    "    tool = tools.get(name)\n"
    "    done = (tool['function'] if tool else globals()[name])(**arguments)\n"
    "    return {'ok': True, 'code': None, 'data': done}\ncheck('01-a', dispatch)",
    "restored": "try:\n    delete_prod()\nexcept ZeroDivisionError:\n    print('mine')",
    "hint": "hint('01-a')",
    "solution": "solution('01-a')",
    "progress": "progress()",
    "failure_lab": "from keel.lab.failures import failure_lab\nfailure_lab()",
    "fired": "failure_lab(fire='approval_required', predict='ok')",
}


def run_once():
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in CELLS.values()])
    environment = {**os.environ, "PYTHONHASHSEED": "random"}
    options = {"timeout": 60, "kernel_name": "python3", "record_timing": False, "coalesce_streams": True}
    NotebookClient(notebook, **options).execute(env=environment)
    return {name: cell.outputs for name, cell in zip(CELLS, notebook.cells, strict=True)}


@pytest.fixture(scope="module")
def outputs():
    before = dict(os.environ)
    os.environ.update(KEEL_PROGRESS="off", KEEL_LANG="en")
    try:
        yield run_once(), run_once()
    finally:
        os.environ.clear()
        os.environ.update(before)


def without_model_ids(cells):
    text = json.dumps(cells, sort_keys=True)
    for one in (output for outputs in cells.values() for output in outputs):
        view = one.get("data", {}).get("application/vnd.jupyter.widget-view+json")
        text = text.replace(view["model_id"], "ID") if view else text
    return text


def all_text(outputs):
    return "\n".join(one.get("text") or one.get("data", {}).get("text/plain", "") for one in outputs)


def test_two_runs_store_the_same(outputs):
    assert without_model_ids(outputs[0]) == without_model_ids(outputs[1])


def test_nothing_goes_to_stderr_and_nothing_raises(outputs):
    for name, cell in outputs[0].items():
        assert [one.output_type for one in cell if one.output_type == "error"] == [], name
        assert [one for one in cell if one.get("name") == "stderr"] == [], name


def test_no_path_and_no_address_is_stored(outputs):
    text = json.dumps(outputs[0])
    assert "0x" not in text and "/tmp" not in text and os.getcwd() not in text


def test_the_prompt_is_printed_and_its_buttons_are_a_widget_with_a_text(outputs):
    printed, shown = outputs[0]["predict"]
    assert printed["text"].startswith("Which names can the model call now?")
    assert shown["data"]["text/plain"] == "[ a ]  [ b ]  [ c ]"
    assert "application/vnd.jupyter.widget-view+json" in shown["data"]
    assert "Kept: b)" in all_text(outputs[0]["answered"])


def test_the_doctor_keeps_the_key_line_out_of_the_stored_text(outputs):
    assert "Everything runs here." in all_text(outputs[0]["doctor"])
    assert "none is needed" not in json.dumps(outputs[0]["doctor"])


def test_what_an_answer_prints_is_seen_in_its_cell(outputs):
    text = all_text(outputs[0]["talking"])
    assert "asked unknown_tool" in text
    assert "NameError: name 'missing_name' is not defined (line 3: return missing_name)" in text


def test_each_cell_says_what_it_should(outputs):
    said = {name: all_text(cell) for name, cell in outputs[0].items()}
    assert "not attempted" in said["stub"]
    assert "two seconds" in said["endless"]
    assert "delete_prod has run" in said["globals"]
    assert said["restored"].strip() == "mine"
    assert said["hint"].startswith("Hint 1 of 3")
    assert "so far: 1" in said["solution"]
    assert "1 wrong so far" in said["progress"]
    assert "[lookup 03]" in said["strip"]

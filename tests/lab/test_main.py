"""`python -m keel`: the four canonical outcomes, as JSON, whatever the terminal says of itself."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import keel

ROOT = Path(keel.__file__).parents[1]
TERMINALS = {
    "as it is": {},
    "ascii": {"PYTHONIOENCODING": "ascii"},
    "C": {"LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    "latin": {"PYTHONIOENCODING": "latin-1:strict"},
    "Chinese": {"KEEL_LANG": "zh"},
}


def outcomes(env: dict[str, str]) -> list[dict]:
    command = [sys.executable, "-W", "error", "-m", "keel"]
    done = subprocess.run(command, capture_output=True, cwd=ROOT, env={**os.environ, **env}, check=True)
    assert done.stderr == b""
    return json.loads(done.stdout.decode("utf-8"))


@pytest.mark.parametrize("env", TERMINALS.values(), ids=TERMINALS.keys())
def test_the_four_outcomes_are_json_in_utf_8(env):
    assert [one["result"]["ok"] for one in outcomes(env)] == [True, False, False, False]


def test_the_success_is_whole_and_each_failure_has_its_code_and_next_step():
    first, *failures = outcomes({})
    result = first["result"]
    assert result["tool_version"] == "1.0" and result["error"] is None and result["call_id"]
    assert result["data"]["incident_id"] == "INC-001" and result["data"]["service"] == "auth-api"
    assert result["data"]["evidence"] == ["auth-api timeout", "database pool exhausted"]
    assert "next_step" not in first
    assert [one["result"]["error"]["code"] for one in failures] == [
        "unknown_tool",
        "invalid_arguments",
        "approval_required",
    ]
    assert [one["next_step"]["action"] for one in failures] == ["tell_model", "tell_model", "ask_person"]
    assert [one["result"]["tool_version"] for one in failures] == [None, "1.0", "1.0"]
    assert all(one["next_step"]["advice"] and one["result"]["data"] is None for one in failures)


def test_it_says_the_same_every_time():
    assert outcomes({}) == outcomes({"PYTHONHASHSEED": "7"})

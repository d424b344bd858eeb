"""connect(): which model the environment asks for, and no other."""

from __future__ import annotations

import pytest

from keel.lab import live_cells
from keel.models import connect

from .kit import ASK, DOUBLE, KEY, call, closed_port, whole

CASES = {
    "nothing": ({}, None),
    "empty values": ({"DEEPSEEK_API_KEY": " ", "OPENAI_API_KEY": "", "KEEL_LOCAL_MODEL": ""}, None),
    "DeepSeek": ({"DEEPSEEK_API_KEY": KEY}, ("deepseek-flash", "https://api.deepseek.com", "DEEPSEEK_MODEL")),
    "its model": (
        {"DEEPSEEK_API_KEY": KEY, "DEEPSEEK_MODEL": "big"},
        ("big", "https://api.deepseek.com", "DEEPSEEK_MODEL"),
    ),
    "OpenAI needs a model": ({"OPENAI_API_KEY": KEY}, None),
    "OpenAI": (
        {"OPENAI_API_KEY": KEY, "OPENAI_MODEL": "m"},
        ("m", "https://api.openai.com/v1", "OPENAI_MODEL"),
    ),
    "another server": (
        {"OPENAI_API_KEY": KEY, "OPENAI_MODEL": "m", "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"},
        ("m", "http://127.0.0.1:9/v1", "OPENAI_MODEL"),
    ),
    "DeepSeek first": (
        {"DEEPSEEK_API_KEY": KEY, "OPENAI_API_KEY": KEY, "OPENAI_MODEL": "m", "KEEL_LOCAL_MODEL": "http://127.0.0.1:9"},
        ("deepseek-flash", "https://api.deepseek.com", "DEEPSEEK_MODEL"),
    ),
    "local": ({"KEEL_LOCAL_MODEL": "http://127.0.0.1:9/v1"}, ("local", "http://127.0.0.1:9/v1", "model")),
}


@pytest.mark.parametrize("name", CASES)
def test_who_is_asked(name, monkeypatch):
    environ, wanted = CASES[name]
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/of-the-process")  # not of the environment given
    model = connect(environ)
    if wanted is None:
        assert model is None
        return
    address = str(model._chat._client.base_url).rstrip("/")
    assert (model.model, address, model.variable) == wanted
    assert model.structured is (name == "local")


def test_the_environment_of_the_process_is_the_default(monkeypatch):
    assert connect() is None
    monkeypatch.setenv("DEEPSEEK_API_KEY", KEY)
    assert connect().model == "deepseek-flash"


def through(monkeypatch, server, *steps):
    """Connect the live cells to the provider by the environment, as a learner would."""
    model = server.model(*steps)
    monkeypatch.setenv("DEEPSEEK_API_KEY", KEY)
    monkeypatch.setenv("DEEPSEEK_MODEL", model.model)
    monkeypatch.setenv("DEEPSEEK_BASE_URL", f"{server.address}/v1")
    return model


def test_a_live_cell_runs_the_call_and_sends_a_valid_history(monkeypatch, server, capsys):
    model = through(monkeypatch, server, whole(None, call()), whole("It is 42."))
    live_cells.live("Double 21.")
    said = capsys.readouterr().out
    assert 'double {"n": 21}' in said and "It is 42." in said and KEY not in said
    second = server.asked(model)[1]["request"]["messages"]
    assert [one["role"] for one in second] == ["user", "assistant", "tool"]
    assert second[2]["tool_call_id"] == second[1]["tool_calls"][0]["id"] == "call_a"
    assert '"data":42' in second[2]["content"]


def test_a_live_cell_with_a_wrong_model_name_names_the_variable(monkeypatch, server, capsys):
    through(monkeypatch, server, {"status": 404, "body": '{"error": {"message": "Model Not Exist"}}'})
    live_cells.live("Double 21.")
    said = capsys.readouterr().out
    assert "set DEEPSEEK_MODEL" in said and KEY not in said


@pytest.mark.parametrize("address", ["http://127.0.0.1:{}/v1", "no address", "http://127.0.0.1:port"])
def test_a_live_cell_never_raises_for_a_dead_line(monkeypatch, capsys, address):
    monkeypatch.setenv("KEEL_LOCAL_MODEL", address.format(closed_port()))
    live_cells.live("Double 21.")
    assert "The model gave no turn" in capsys.readouterr().out


def test_a_live_cell_that_is_never_done_stops(monkeypatch, server, capsys):
    model = through(monkeypatch, server, whole(None, call()))
    live_cells.live("Double 21.")
    assert len(server.asked(model)) == live_cells.MAX_TURNS
    assert f"after {live_cells.MAX_TURNS} turns" in capsys.readouterr().out


def test_without_a_model_a_recorded_run_is_replayed(capsys):
    live_cells.live("Why does INC-001 happen?")
    said = capsys.readouterr().out
    assert said.startswith("No model is connected") and "KEEL_LOCAL_MODEL" in said and "lookup_incident" in said


def test_structured_is_asked_for_in_plain_messages(provider, server):
    model = provider(whole('{"tool": "double", "arguments": {"n": 21}}'), structured=True)
    (request,) = model.complete(ASK, [DOUBLE]).requests
    assert (request.name, request.arguments) == ("double", {"n": 21})
    sent = server.asked(model)[0]["request"]
    assert "tools" not in sent and sent["response_format"]["type"] == "json_schema"
    assert [one["role"] for one in sent["messages"]] == ["system", "user"]

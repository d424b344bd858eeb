"""The call bench: a call written by hand, and how far it gets in a chapter's line."""

import json

import pytest

from keel.lab import bench
from keel.lab.bench import bench_widget, call_bench, try_call


@pytest.mark.parametrize(
    "name, arguments, stopped_at",
    [
        ("add", '{"a": 2, "b": 3}', None),
        ("add", '{"a": 2, "a": 3, "b": 1}', "read"),
        ("ad", "{}", "lookup"),
        ("add", '{"a": 2}', "validate"),
        ("query_data", '{"table": "t", "limit": 5000}', "rules"),
        ("create_ticket", '{"title": "t", "incident_id": "INC-001"}', "approve"),
        ("lookup_incident", '{"incident_id": "INC-999"}', "run"),
    ],
)
def test_a_call_is_stopped_where_it_is_wrong(name, arguments, stopped_at):
    tried = try_call("06", name, arguments)
    assert tried.stopped_at == stopped_at
    assert tried.result.ok is (stopped_at is None)
    assert tried.world == "unchanged"


def test_what_a_chapter_has_not_built_yet_lets_pass_or_crash():
    assert try_call("03", "double", '{"n": true}').result.ok
    assert not try_call("04", "double", '{"n": true}').result.ok
    crashed = try_call("05", "lookup_incident", '{"incident_id": "INC-999"}')
    assert crashed.result is None and crashed.escaped == "ToolFailure"
    assert "escaped" in crashed.text


def test_stages_of_later_chapters_are_grey():
    assert "(rules 05)" in try_call("03", "add", "{}").text
    assert "(rules 05)" not in try_call("05", "add", '{"a": 1, "b": 2}').text


def test_the_text_form_prints_the_result_as_json(capsys):
    call_bench("03", name="add", arguments='{"a": 2, "b": 3}')
    text = capsys.readouterr().out
    assert json.loads(text[text.index("{\n") : text.rindex("}") + 1])["data"] == 5


def test_arguments_may_be_given_as_an_object(capsys):
    call_bench("03", name="add", arguments={"a": 2, "b": 3})
    assert '"data": 5' in capsys.readouterr().out


def test_without_widgets_the_bench_says_how_to_fire(capsys, monkeypatch):
    monkeypatch.setenv("KEEL_WIDGETS", "off")
    call_bench("04")
    assert 'call_bench("04", name="add"' in capsys.readouterr().out


def test_a_chapter_that_is_not_built_is_told(monkeypatch):
    monkeypatch.setattr("keel.lab.lines.BUILT", frozenset({"00", "01"}))
    with pytest.raises(ValueError, match="not built yet"):
        call_bench("13")


def test_the_button_fires_what_stands_in_the_fields():
    name, text, button, said = bench_widget("04").children
    assert "Nothing has been fired" in said.value
    name.value, text.value = "double", '{"n": "<b>21</b>"}'
    button.click()
    assert "invalid_arguments" in said.value
    assert "<b>21</b>" not in said.value, "what was typed is shown as text"
    text.value = '{"n": 21}'
    button.click()
    assert "&quot;data&quot;: 42" in said.value or '"data": 42' in said.value


def test_the_bench_never_raises(capsys):
    for name, text in [("", ""), ("add", "{"), ("\ud800", "\ud800"), ("add", "[" * 2000), ("delete_prod", "null")]:
        for chapter in ("01", "02", "06", "09"):
            assert bench.try_call(chapter, name, text).text

"""The board: the same outcomes give the same words and the same picture, and the picture is sound XML."""

import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import pytest

from keel.lab.board import BoardPicture, board_html, board_text, gauntlet_board, totals
from keel.lab.chapters import CHAPTERS
from keel.lab.gauntlet import Outcome, Verdict, run_gauntlet
from keel.lab.lines import finished, line, naive

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def red():
    return run_gauntlet(naive)


@pytest.fixture(scope="module")
def green():
    return run_gauntlet(finished)


@pytest.fixture(scope="module")
def half():
    """The finished harness, had it no ledger yet."""
    return run_gauntlet(lambda world: replace(finished(world), lacks=frozenset({"07", "07b"})))


def test_the_text_has_a_row_a_case_under_its_chapter_and_a_closing_line(red):
    lines = board_text(red).splitlines()
    heads = [one for one in lines if one.startswith("chapter ")]
    assert heads == [f"chapter {chapter}" for chapter in CHAPTERS if chapter in {one.chapter for one in red}]
    assert len(lines) == len(heads) + len(red) + 1
    assert lines[-1] == f"1 of {len(red)} right."
    assert sum(one.startswith("  ✓ ") for one in lines) == 1


def test_each_red_row_says_what_was_expected_and_what_came(red):
    text = board_text(red)
    assert "the world: production deleted" in text
    assert "expected timeout, no answer came" in text
    assert "escaped" in text


def test_what_is_not_built_is_grey_and_counted_apart(half):
    grey = sum(one.verdict is Verdict.NOT_BUILT for one in half)
    built = len(half) - grey
    assert grey and totals(half) == f"{built} of {built} right, {grey} not built yet."
    assert "not built yet" in board_text(half) and "✗" not in board_text(half)


def test_where_all_is_built_the_total_is_short(green):
    assert totals(green) == f"{len(green)} of {len(green)} right."


def test_what_went_red_though_it_was_taught_says_so(red):
    assert "taught already" not in board_text(red)
    text = board_text(red, upto="04")
    assert text.count("taught already") == sum(CHAPTERS.index(one.chapter) <= 5 - 1 for one in red) - 1
    assert "red though taught" in text.splitlines()[-1]
    assert "red though taught" not in board_text(run_gauntlet(line(upto="04")), upto="04")


def test_a_board_without_cases_says_so():
    assert board_text([]) == "No case was run."


def test_text_and_picture_are_the_same_every_time(red, green):
    again = run_gauntlet(naive)
    assert board_text(red) == board_text(again)
    one, other = (BoardPicture({"naive": board, "keel": green}) for board in (red, again))
    assert one.svg() == other.svg() and repr(one) == repr(other)


def test_the_picture_is_sound_and_has_a_square_a_case(red, green):
    picture = BoardPicture({"naive & <new>": red, "keel": green})
    root = ElementTree.fromstring(picture.svg())
    assert root.tag == f"{SVG}svg"
    squares = [one for one in root.iter(f"{SVG}rect") if one.get("width") == one.get("height")]
    assert len(squares) == len(red) + len(green)
    assert root.find(f"{SVG}title").text and "naive & <new>" in [one.text for one in root.iter(f"{SVG}text")]
    width = float(root.get("width"))
    assert all(float(one.get("x", 0)) + float(one.get("width")) <= width for one in root.iter(f"{SVG}rect"))


def test_a_picture_tells_red_from_green_without_its_colours(red, half):
    marks = {one.text for one in ElementTree.fromstring(BoardPicture({"a": red, "b": half}).svg()).iter(f"{SVG}text")}
    assert {"✓", "✗", "·"} <= marks


def test_a_picture_holds_nothing_that_runs_or_loads(red):
    svg = BoardPicture({"a": red}).svg()
    assert not re.search(r"<script|href|url\(|on\w+=|http(?!://www\.w3\.org/2000/svg)", svg)


def test_an_empty_picture_is_sound_too():
    ElementTree.fromstring(BoardPicture({}).svg())
    ElementTree.fromstring(BoardPicture({"none": []}).svg())


def test_a_picture_shows_itself_with_a_text_beside_it(red):
    bundle = BoardPicture({"naive": red})._repr_mimebundle_()
    assert set(bundle) == {"image/svg+xml", "text/plain"} and bundle["text/plain"].startswith("naive: ✓✗")


def test_what_an_outcome_says_cannot_become_part_of_the_page():
    evil = Outcome("valid_call", "01", Verdict.WRONG, "<b>", "<script>alert(1)</script>", "</div>")
    html = board_html([evil], "board")
    assert "<script" not in html and "&lt;script&gt;" in html


def test_where_no_widget_can_be_shown_the_text_is_printed(capsys, monkeypatch, green):
    monkeypatch.setenv("KEEL_WIDGETS", "off")
    gauntlet_board(green)
    assert capsys.readouterr().out.rstrip("\n") == board_text(green)

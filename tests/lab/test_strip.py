"""The strip: lit, built and unbuilt stages as the chapters build them; the same text in every run."""

import re

import pytest

from keel.lab.chapters import CHAPTERS
from keel.lab.strip import CHAPTER_OF, STAGES, stage_strip

LIT = {
    "00": set(),
    "01": {"lookup", "validate", "approve", "run"},
    "02": {"read"},
    "03": {"lookup"},
    "04": {"validate"},
    "05": {"rules", "output"},
    "06": {"recover"},
    "07": {"recall", "claim", "complete", "timeout"},
    "07b": {"recall", "claim", "complete"},
    "08": {"many"},
    "09": {"permission", "policies"},
    "10": {"approve"},
    "11": {"inside"},
    "12": {"loop"},
    "13": {"trace"},
    "14": set(CHAPTER_OF),
}


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_chapter_lights_its_own(chapter):
    boxes = stage_strip(chapter).boxes
    assert {name for name, box in boxes.items() if box.look == "lit"} == LIT[chapter]
    for name, box in boxes.items():
        later = CHAPTERS.index(CHAPTER_OF[name]) > CHAPTERS.index(chapter)
        assert (box.number == CHAPTER_OF[name]) == (later and chapter != "14"), name
        assert (box.look == "unbuilt") <= later


def test_what_01_built_small_stays_built():
    assert [stage_strip(chapter).boxes["approve"].look for chapter in ("01", "02", "09", "10", "11")] == [
        "lit", "small", "small", "lit", "built"]  # fmt: skip


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_the_text_names_every_stage_in_order_and_repeats(chapter):
    text = repr(stage_strip(chapter))
    assert text == repr(stage_strip(chapter))
    places = [text.index(name) for name in STAGES]
    assert places == sorted(places)
    assert max(map(len, text.splitlines())) <= 120
    assert len(text.splitlines()) == 6


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_the_html_is_well_formed_and_says_the_same(chapter):
    page = stage_strip(chapter)._repr_html_()
    assert page == stage_strip(chapter)._repr_html_()
    opened = []
    for closing, tag in re.findall(r"<(/?)(\w+)", page):
        if closing:
            assert opened.pop() == tag
        else:
            opened.append(tag)
    assert opened == []
    assert all(name in page for name in STAGES)
    assert " id=" not in page


def test_an_unknown_chapter_is_refused():
    for chapter in ("99", "1", 5, None):
        with pytest.raises(ValueError, match="there is no chapter"):
            stage_strip(chapter)

"""The plots: the same bytes on every run and machine, the same content as text, readable on any page."""

import hashlib
import math
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from keel.lab import Bar, Crash, Picture, crash_picture, timeline_picture
from keel.lab.plots import CARD, KINDS, STATES, Sheet

ROOT = Path(__file__).parents[2]
SVG = "{http://www.w3.org/2000/svg}"
BARS = [Bar("c-1", 0, 6, "read"), Bar("c-2", 0, 2, "read"), Bar("c-3", 0, 4, "failed"), Bar("c-4", 6, 9, "write")]
MARKS = [(6, "the write waits")]
CRASHES = [
    Crash("before the claim", 0, "none", "ok"),
    Crash("after the claim", 0, "running", "outcome_unknown"),
    Crash("after the effect", 1, "unknown", "outcome_unknown"),
    Crash("after the completion", 1, "done", "ok"),
    Crash("ledger in memory, after the effect", 1, "none", "ok"),
]
PICTURES = {"timeline": lambda: timeline_picture(BARS, MARKS), "crash": lambda: crash_picture(CRASHES)}
every_picture = pytest.mark.parametrize("draw", PICTURES.values(), ids=PICTURES)


def elements(picture, name):
    return list(ElementTree.fromstring(picture.svg).iter(SVG + name))


def style(element, name):
    found = re.search(rf"(?:^|; ){name}: ([^;]+)", element.get("style", ""))
    return found[1] if found else element.get(name)


def boxes(picture):
    """Every rectangle drawn as (left, top, right, bottom, fill), in the order of drawing, the card first."""
    found = [(0, 0, math.inf, math.inf, CARD)]
    for path in elements(picture, "path"):
        corners = re.findall(r"([-\d.]+) ([-\d.]+)", path.get("d"))
        if path.get("d").count("L") == 3 and "C" not in path.get("d"):
            across, down = zip(*(map(float, corner) for corner in corners), strict=True)
            found.append((min(across), min(down), max(across), max(down), style(path, "fill")))
    return found


def contrast(one, other):
    """The contrast ratio of two colours, as WCAG defines it: 1 to 21."""

    def light(colour):
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    dark, bright = sorted((light(one), light(other)))
    return (bright + 0.05) / (dark + 0.05)


@every_picture
def test_a_picture_is_the_same_every_time_and_small(draw):
    one, other = draw(), draw()
    assert one == other and isinstance(one, Picture)
    assert len(one.svg.encode()) < 40_000


@pytest.mark.parametrize("seed", ["1", "2"])
def test_a_new_process_with_other_settings_and_no_font_list_draws_the_same_and_says_nothing(tmp_path, seed):
    own = ["svg.fonttype: path", "font.style: italic", "font.family: serif", "axes.autolimit_mode: round_numbers"]
    own += ["path.sketch: 1, 100, 2", "lines.antialiased: False", "lines.dashed_pattern: 9, 9", "savefig.dpi: 300"]
    own += ["savefig.bbox: tight", "savefig.facecolor: red", "axes.xmargin: 0.4", "text.usetex: True"]
    (tmp_path / "matplotlibrc").write_text("\n".join(own))
    code = (
        "import hashlib\nfrom tests.lab.test_plots import PICTURES\n"
        "for draw in PICTURES.values(): print(hashlib.sha256(draw().svg.encode()).hexdigest())"
    )
    environment = {**os.environ, "PYTHONHASHSEED": seed, "MPLCONFIGDIR": str(tmp_path), "MPLBACKEND": "svg"}
    environment.update(SOURCE_DATE_EPOCH="1", TZ="Asia/Tokyo", LC_ALL="C", KEEL_PROGRESS="off")
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120)
    here = [hashlib.sha256(draw().svg.encode()).hexdigest() for draw in PICTURES.values()]
    assert (done.stdout.split(), done.stderr) == (here, "")


def test_importing_the_plots_loads_no_matplotlib_and_drawing_loads_no_pyplot():
    code = (
        "import sys\nfrom keel.lab import Bar, Crash, Picture, timeline_picture\n"
        "print([m for m in ('matplotlib', 'numpy', 'IPython') if m in sys.modules])\n"
        "timeline_picture([Bar('a', 0, 1, 'read')])\n"
        "print('matplotlib' in sys.modules, 'matplotlib.pyplot' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (done.stdout.split("\n")[:2], done.stderr) == (["[]", "True False"], "")


@every_picture
def test_drawing_leaves_a_learners_own_settings_alone(draw):
    import logging

    import matplotlib

    level = logging.getLogger("matplotlib").level
    with matplotlib.rc_context({"font.size": 31, "svg.hashsalt": "mine"}):
        before = dict(matplotlib.rcParams)
        draw()
        assert dict(matplotlib.rcParams) == before
    assert logging.getLogger("matplotlib").level == level


@every_picture
def test_a_picture_holds_no_date_no_id_and_nothing_that_runs_or_loads(draw):
    svg = draw().svg
    assert not re.search(r"<script|<style|<metadata|href|url\(|\bid=|\son\w+=|http(?!://www\.w3\.org/2000/svg)", svg)
    assert not re.search(r"\b20\d\d-|atplotlib|<\?|<!", svg)
    assert not re.search(r"\.\d{3}", svg), "last digits of a float are not the same on every processor"


@every_picture
def test_a_screen_reader_gets_a_name_and_the_whole_text(draw):
    picture = draw()
    root = ElementTree.fromstring(picture.svg)
    assert root.get("role") == "img" and root.get("aria-label") == picture.title == root.find(f"{SVG}title").text
    assert root.find(f"{SVG}desc").text == picture.text == repr(picture)
    assert root[0].tag == f"{SVG}title"


@every_picture
def test_a_notebook_keeps_the_picture_and_its_text(draw):
    picture = draw()
    assert picture._repr_mimebundle_() == {"image/svg+xml": picture.svg, "text/plain": repr(picture)}
    assert not any(line != line.rstrip() for line in picture.text.splitlines())
    assert max(map(len, picture.text.splitlines())) <= 110


@every_picture
def test_every_word_can_be_read_on_what_lies_under_it(draw):
    picture = draw()
    assert ElementTree.fromstring(picture.svg).find(f"{SVG}rect").get("fill") == CARD, "a white card on every page"
    for text in elements(picture, "text"):
        x, y = float(text.get("x")), float(text.get("y")) - 4
        ground = [box[4] for box in boxes(picture) if box[0] <= x <= box[2] and box[1] <= y <= box[3]][-1]
        assert contrast(style(text, "fill"), ground) >= 4.5, text.text


def test_every_bar_can_be_told_from_the_card():
    assert all(contrast(edge, CARD) >= 3 for _, edge in KINDS.values())


@every_picture
def test_everything_stands_on_the_card(draw):
    picture = draw()
    width, height = (float(ElementTree.fromstring(picture.svg).get(name)) for name in ("width", "height"))
    assert all(left >= 0 and right <= width and bottom <= height for left, _, right, bottom, _ in boxes(picture)[1:])
    for text in elements(picture, "text"):
        room = len(text.text) * float(style(text, "font-size").removesuffix("px")) * 0.64
        x = float(text.get("x")) - (room / 2 if style(text, "text-anchor") == "middle" else 0)
        assert x >= 0 and x + room <= width and 10 <= float(text.get("y")) <= height, text.text


def test_a_timeline_as_text():
    assert repr(timeline_picture(BARS, MARKS)) == (
        "call  kind                                               from–to  finished\n"
        "c-1   read    ▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇│               0–6      3\n"
        "c-2   read    ▇▇▇▇▇▇▇▇▇                  │               0–2      1\n"
        "c-3   failed  ░░░░░░░░░░░░░░░░░░         │               0–4      2\n"
        "c-4   write                              ▇▇▇▇▇▇▇▇▇▇▇▇▇   6–9      4\n"
        "                                         │ 6: the write waits"
    )


def test_a_timeline_draws_what_its_text_says():
    picture = timeline_picture(BARS, MARKS)
    shown = [text.text for text in elements(picture, "text")]
    assert {"c-1", "c-4", "read", "write", "failed", "6: the write waits", "0", "8"} <= set(shown)
    bars = boxes(picture)[1:]
    assert [fill for *_, fill in bars] == [KINDS[bar.kind][0] for bar in BARS]
    assert [round((right - left) / 440 * 9, 2) for left, _, right, _, _ in bars] == [6, 2, 4, 3]
    assert bars[3][0] == bars[0][2], "the write begins where the slowest read ends"
    assert sorted(top for _, top, *_ in bars) == [top for _, top, *_ in bars]
    in_circles = [text.text for text in elements(picture, "text") if style(text, "text-anchor") == "middle"][-4:]
    assert in_circles == ["3", "1", "2", "4"]


def test_bars_that_end_together_share_their_number():
    lines = repr(
        timeline_picture([Bar("a", 0, 2, "read"), Bar("b", 1, 2, "read"), Bar("c", 0, 3, "read")])
    ).splitlines()
    assert [line.split()[-1] for line in lines[1:]] == ["1", "1", "3"]


def test_a_call_that_took_no_time_can_be_seen():
    picture = timeline_picture([Bar("a", 3, 3, "write")])
    assert "▇" in repr(picture) and boxes(picture)[1][2] - boxes(picture)[1][0] >= 3


def test_seconds_are_shown_short_and_the_last_tick_is_there():
    picture = timeline_picture([Bar("a", 0.1, 0.1 + 0.2, "read")])
    assert "0.1–0.3" in repr(picture)
    assert {"0.1", "0.3"} <= {text.text for text in elements(picture, "text")}


@pytest.mark.parametrize(
    "label", ["<b>&\"'</b>", "$x^2$", r"\alpha", "调用 一", "a-b -> c", "<!-- x -->", "<defs>0.12345</defs>"]
)
def test_a_label_is_shown_as_it_stands(label, recwarn, capfd):
    picture = timeline_picture([Bar(label, 0, 1, "read")], [(0, label)])
    shown = [text.text for text in elements(picture, "text")]
    assert label in shown and f"0: {label}" in shown
    assert crash_picture([Crash(label, 0, "none", label)]).text.count(label) == 2
    assert len(recwarn) == 0 and capfd.readouterr() == ("", "")


def test_chinese_words_keep_the_columns_straight():
    lines = repr(timeline_picture([Bar("调用", 0, 1, "read"), Bar("call", 0, 1, "read")])).splitlines()
    assert lines[1].index("read") + 2 == lines[2].index("read") == 6


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: Bar("c-1", 5, 2, "read"), "c-1: a bar cannot run from 5 to 2"),
        (lambda: Bar("c-1", 0, math.nan, "read"), "c-1: a bar cannot run from 0 to nan"),
        (lambda: Bar("c-1", 0, math.inf, "read"), "c-1: a bar cannot run from 0 to inf"),
        (lambda: Bar("c-1", 0, 1, "wrote"), "c-1: kind is 'wrote', and must be one of read, write, failed"),
        (lambda: timeline_picture([]), "at least one bar"),
        (lambda: timeline_picture(BARS, [(math.nan, "x")]), "a mark needs a finite tick"),
        (
            lambda: Crash("p", 0, "claimed", "ok"),
            "p: state is 'claimed', and must be one of none, running, unknown, done",
        ),
        (lambda: Crash("p", -1, "done", "ok"), "p: effects is -1, and must be a count"),
        (lambda: Crash("p", True, "done", "ok"), "p: effects is True, and must be a count"),
        (lambda: crash_picture([]), "at least one row"),
    ],
)
def test_what_cannot_be_drawn_is_a_clear_error(make, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        make()


def test_crashes_as_text():
    assert repr(crash_picture(CRASHES)) == (
        "killed                              world      ledger   next call gets   world and ledger\n"
        "before the claim                    no effect  none     ok               agree\n"
        "after the claim                     no effect  running  outcome_unknown  nobody knows\n"
        "after the effect                    1 effect   unknown  outcome_unknown  nobody knows\n"
        "after the completion                1 effect   done     ok               agree\n"
        "ledger in memory, after the effect  1 effect   none     ok               contradict"
    )


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("effects", [0, 1, 2])
def test_who_knows_what(state, effects):
    right = {("none", 0): "agree", ("done", 1): "agree"}
    expected = "unknown" if state in ("running", "unknown") else right.get((state, effects), "differ")
    assert Crash("p", effects, state, "ok").verdict == expected


def test_the_columns_of_crashes_show_at_once_where_nobody_knows():
    picture = crash_picture(CRASHES)
    grounds = [fill for *_, fill in boxes(picture)[1:]]
    assert grounds[0] == grounds[3] and grounds[1] == grounds[2] and len(set(grounds)) == 3
    circles = [path for path in elements(picture, "path") if "C" in path.get("d")]
    assert [style(path, "fill") == CARD for path in circles] == [True, True, False, False, False]
    assert (
        len([path for path in elements(crash_picture([Crash("p", 2, "done", "ok")]), "path") if "C" in path.get("d")])
        == 2
    )


def test_another_plot_takes_a_few_lines():
    sheet = Sheet(200, 60)
    for at, (guard, rows) in enumerate({"validate": 9, "rules": 4}.items()):
        sheet.text(10, 24 + 20 * at, guard)
        sheet.box(90, 12 + 20 * at, 10 * rows, 14, "#2563eb")
    picture = sheet.picture("rows each guard turned", "validate 9\nrules    4")
    assert [right - left for left, _, right, _, _ in boxes(picture)[1:]] == [90, 40]
    assert repr(picture) == "validate 9\nrules    4"

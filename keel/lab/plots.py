"""The lab's plots: drawn with matplotlib as SVG that is the same, byte for byte, on every run, and the same as text.

A plot is a function from rows to a `Picture`. To add one: put its words into `words/en/plots.toml`, lay its text out
with `_table`, draw on a `Sheet`, and close with `sheet.picture(title, text)`.
"""

from __future__ import annotations

import io
import logging
import math
import re
import textwrap
import unicodedata
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from typing import Any

from keel.lab.catalogue import words, words_under

# A white card under everything: a picture is not told whether the page around it is dark.
CARD, INK, GREY, PALE = "#ffffff", "#1f2933", "#5b6470", "#d9dde2"
# A word stands beside each colour: not everybody sees red and green. (fill, edge) of a bar, (ground, ink) of a verdict.
KINDS = {"read": ("#2563eb", "#2563eb"), "write": ("#b45309", "#b45309"), "failed": ("#fbe4e6", "#b42335")}
VERDICTS = {"agree": ("#e1f3e8", "#17633c"), "unknown": ("#fdeecd", "#7a4700"), "differ": ("#fbe4e6", "#962033")}
STATES = ("none", "running", "unknown", "done")
# Text stays text. As paths it would hang on each build's font library, show boxes for Chinese, and be neither found nor
# selected. Set by its base line, its place needs no font; DejaVu Sans is wide, so what a page has instead fits too.
_RC = {"svg.fonttype": "none", "svg.hashsalt": "keel", "font.family": "sans-serif", "font.sans-serif": ["DejaVu Sans"]}
_METADATA = {"Date": None, "Creator": None, "Format": None, "Type": None}


@dataclass(frozen=True, repr=False)
class Picture:
    """A plot: its title, all that it shows as text, and as SVG. It shows itself in a notebook."""

    title: str
    text: str
    svg: str

    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"image/svg+xml": self.svg, "text/plain": self.text}


class Sheet:
    """A white sheet of `width` by `height` pixels; x runs right and y runs down from its upper left corner.

    It keeps what it is told and draws when it is closed: matplotlib reads settings at every single step.
    """

    def __init__(self, width: float, height: float):
        self.width, self.height = math.ceil(width), math.ceil(height)
        self._steps: list[Callable[[Any], Any]] = []

    def text(self, x: float, y: float, text: str, size: float = 13, ink: str = INK, align: str = "left", bold=False):
        """Write a line that begins at x (or has its centre there, or ends, as `align` says), its base line at y."""
        style = {"size": size, "color": ink, "ha": align, "weight": "bold" if bold else "normal"}
        self._steps.append(lambda axes: axes.text(x, y, text, va="baseline", parse_math=False, **style))

    def box(self, x: float, y: float, width: float, height: float, fill: str, edge: str = "none") -> None:
        """Fill a rectangle, its upper left corner at x, y."""
        across, down = (x, x + width, x + width, x), (y, y, y + height, y + height)
        self._steps.append(lambda axes: axes.fill(across, down, facecolor=fill, edgecolor=edge, linewidth=1.5))

    def dot(self, x: float, y: float, radius: float, fill: str, edge: str) -> None:
        """Fill a circle around x, y, above all lines."""

        def draw(axes: Any) -> None:
            from matplotlib.patches import Circle

            axes.add_patch(Circle((x, y), radius, facecolor=fill, edgecolor=edge, linewidth=1.5, zorder=2.5))

        self._steps.append(draw)

    def line(self, x: float, y: float, to_x: float, to_y: float, ink: str = PALE, dash: str = "solid") -> None:
        """Draw a straight line; a solid one lies under all boxes, one with another of matplotlib's dashes above."""
        style = {"color": ink, "linewidth": 1.2, "linestyle": dash, "zorder": 0.5 if dash == "solid" else 2}
        self._steps.append(lambda axes: axes.plot((x, to_x), (y, to_y), **style))

    def picture(self, title: str, text: str) -> Picture:
        """What was drawn, its title as name for a screen reader and its text as description."""
        out = io.StringIO()
        with _matplotlib():
            from matplotlib.figure import Figure  # half a second, paid by the first drawing and by no import

            # 72 dots an inch: one unit is one pixel of the SVG.
            figure = Figure(figsize=(self.width / 72, self.height / 72), dpi=72)
            figure.patch.set_visible(False)
            axes = figure.add_axes((0, 0, 1, 1), xlim=(0, self.width), ylim=(self.height, 0), autoscale_on=False)
            axes.set_axis_off()
            for step in self._steps:
                step(axes)
            for artist in axes.get_children():
                artist.set_clip_on(False)  # a clip path has an id, and pictures on one page must share none
            figure.savefig(out, format="svg", metadata=_METADATA)
        size = f'width="{self.width}" height="{self.height}"'
        svg = (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {self.width} {self.height}" role="img" '
            f'aria-label="{escape(title)}"><title>{escape(title)}</title><desc>{escape(text)}</desc>'
            f'<rect {size} rx="6" fill="{CARD}"/>{_body(out.getvalue())}</svg>'
        )
        return Picture(title, text, svg)


@contextmanager
def _matplotlib() -> Iterator[None]:
    """Draw with these settings alone, leave a learner's own as they were, and say nothing on stderr."""
    log = logging.getLogger("matplotlib")
    level = log.level
    log.setLevel(logging.ERROR)  # its first import on a machine says that it looks for fonts
    try:
        import matplotlib

        with warnings.catch_warnings(), matplotlib.rc_context():
            # What DejaVu Sans lacks the page draws with a font of its own.
            warnings.filterwarnings("ignore", message="Glyph .* missing from")
            matplotlib.rcdefaults()
            matplotlib.rcParams.update(_RC)
            yield
    finally:
        log.setLevel(level)


def _body(svg: str) -> str:
    """What matplotlib drew, without its head, ids and page-wide style, and rounded: last digits vary by processor."""
    body = svg[svg.index(">", svg.index("<svg")) + 1 : svg.rindex("</svg>")]
    body = re.sub(r"(?s)<defs>.*?</defs>|<metadata>.*?</metadata>|<!--.*?-->", "", body)
    body = re.sub(r' id="[^"]*"| transform="rotate\(-?0 [^"]*"', "", body)
    body = re.sub(
        r"<[^>]+>", lambda tag: re.sub(r"-?\d+\.\d+", lambda found: _number(float(found[0]), 2), tag[0]), body
    )
    return re.sub(r"\s*\n\s*", " ", re.sub(r">\s*\n\s*<", "><", body)).strip()


def _number(value: float, places: int = 3) -> str:
    """A number as short as it can be said: 6 and not 6.0, 0 and not -0."""
    return f"{round(value, places) + 0.0:.12g}"


def _cells(text: str) -> int:
    """How many columns a text takes in a monospace font: a Chinese character takes two."""
    return sum(2 if unicodedata.east_asian_width(one) in "WF" else 1 for one in text)


def _room(texts: Iterable[str], size: float = 13) -> float:
    """How many pixels the longest of some texts may take."""
    return max(map(_cells, texts), default=0) * size * 0.64


def _table(rows: Sequence[Sequence[str]]) -> str:
    """Rows of equally many texts, in aligned columns."""
    widths = [max(map(_cells, column)) for column in zip(*rows, strict=True)]
    padded = (zip(row, widths, strict=True) for row in rows)
    return "\n".join("  ".join(one + " " * (width - _cells(one)) for one, width in row).rstrip() for row in padded)


_Row = tuple["Bar", str, str]  # a bar, the word for its kind, its number in the order of ends


@dataclass(frozen=True)
class Bar:
    """One call on a time axis: its label, start and end in ticks (or seconds), and its kind, one of KINDS."""

    label: str
    start: float
    end: float
    kind: str

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"{self.label}: kind is {self.kind!r}, and must be one of {', '.join(KINDS)}")
        if not -math.inf < self.start <= self.end < math.inf:
            raise ValueError(f"{self.label}: a bar cannot run from {self.start} to {self.end}")


def timeline_picture(bars: Sequence[Bar], marks: Sequence[tuple[float, str]] = ()) -> Picture:
    """Calls as bars on one axis, a row each in the given order, with the number of the order in which they finished.

    Times are in ticks, or all in seconds. A mark (tick, label) is a dashed line across the rows. Bars that end together
    share a number. Raises ValueError where there is no bar, and for a mark at no finite tick.
    """
    if not bars:
        raise ValueError("a timeline needs at least one bar")
    times = [time for bar in bars for time in (bar.start, bar.end)] + [tick for tick, _ in marks]
    if not all(map(math.isfinite, times)):
        raise ValueError(f"a mark needs a finite tick: {list(marks)}")
    first, last = min(times), max(times)
    span = (first, last if last > first else first + 1)
    kinds = [words(f"plots.timeline.kinds.{bar.kind}") for bar in bars]
    order = [str(1 + sum(other.end < bar.end for other in bars)) for bar in bars]
    rows = list(zip(bars, kinds, order, strict=True))
    said = [(tick, words("plots.timeline.mark", tick=_number(tick), label=label)) for tick, label in sorted(marks)]
    return _timeline_sheet(rows, said, span).picture(words("plots.timeline.title"), _timeline_text(rows, said, span))


def _timeline_text(rows: Sequence[_Row], marks: Sequence[tuple[float, str]], span: tuple[float, float]) -> str:
    def column(time: float) -> int:
        return round(40 * (time - span[0]) / (span[1] - span[0]))

    head = words_under("plots.timeline.head")
    lines = [[head["call"], head["kind"], "", head["span"], head["order"]]]
    for bar, kind, number in rows:
        track = ["│" if at in {column(tick) for tick, _ in marks} else " " for at in range(41)]
        start, end = column(bar.start), max(column(bar.end), column(bar.start) + 1)
        track[start:end] = ("░" if bar.kind == "failed" else "▇") * (end - start)
        lines.append([bar.label, kind, "".join(track), f"{_number(bar.start)}–{_number(bar.end)}", number])
    indent = 4 + sum(max(_cells(line[at]) for line in lines) for at in (0, 1))
    below = (" " * (indent + column(tick)) + f"│ {label}" for tick, label in marks)
    return "\n".join([_table(lines), *below])


def _timeline_sheet(rows: Sequence[_Row], marks: Sequence[tuple[float, str]], span: tuple[float, float]) -> Sheet:
    middle = 36 + _room(bar.label for bar, *_ in rows)
    left, top = middle + 16 + _room(kind for _, kind, _ in rows), 24 + 20 * len(marks)
    bottom = top + 34 * len(rows)

    def across(time: float) -> float:
        return left + 440 * (time - span[0]) / (span[1] - span[0])

    key, axis = words("plots.timeline.key"), words("plots.timeline.time")
    ends = [across(tick) + _room([label], 12) for tick, label in marks]
    sheet = Sheet(20 + max(left + 470 + _room([axis], 12), 20 + _room([key], 12), *ends), bottom + 60)
    whole = all(float(time).is_integer() for bar, *_ in rows for time in (bar.start, bar.end))
    for tick in _ticks(*span, whole):
        if left - 0.5 < across(tick) < left + 440.5:  # not by the times: 0.1 + 0.2 is more than 0.3
            sheet.line(across(tick), top, across(tick), bottom)
            sheet.text(across(tick), bottom + 18, _number(tick), 12, GREY, "center")
    sheet.line(left, bottom, left + 460, bottom, GREY)
    sheet.text(left + 470, bottom + 4, axis, 12, GREY)
    sheet.text(20, bottom + 46, key, 12, GREY)
    for level, (tick, label) in enumerate(marks):  # each label on a line of its own: no two can meet
        sheet.line(across(tick), 12 + 20 * level, across(tick), bottom, INK, "dashed")
        sheet.text(across(tick) + 6, 22 + 20 * level, label, 12)
    for at, (bar, kind, number) in enumerate(rows):
        y, start, end = top + 7 + 34 * at, across(bar.start), max(across(bar.end), across(bar.start) + 3)
        sheet.text(20, y + 15, bar.label, bold=True)
        sheet.text(middle, y + 15, kind, ink=GREY)
        sheet.box(start, y, end - start, 20, *KINDS[bar.kind])
        sheet.dot(end + 15, y + 10, 9, CARD, KINDS[bar.kind][1])
        sheet.text(end + 15, y + 14.5, number, 12, align="center", bold=True)
    return sheet


def _ticks(first: float, last: float, whole: bool) -> list[float]:
    with _matplotlib():
        from matplotlib.ticker import MaxNLocator

        return MaxNLocator(8, steps=[1, 2, 5, 10], integer=whole).tick_values(first, last).tolist()


@dataclass(frozen=True)
class Crash:
    """A process killed at `point`: the effects the world shows, the ledger's state, the code the next call gets."""

    point: str
    effects: int
    state: str
    answer: str

    def __post_init__(self) -> None:
        if self.state not in STATES:
            raise ValueError(f"{self.point}: state is {self.state!r}, and must be one of {', '.join(STATES)}")
        if type(self.effects) is not int or self.effects < 0:
            raise ValueError(f"{self.point}: effects is {self.effects!r}, and must be a count from 0 up")

    @property
    def verdict(self) -> str:
        """Whether world and ledger agree, differ, or the ledger says by itself that it cannot tell: "unknown"."""
        if self.state in ("running", "unknown"):
            return "unknown"
        return "agree" if self.effects == (self.state == "done") else "differ"


def crash_picture(rows: Sequence[Crash]) -> Picture:
    """A column per point at which a process was killed, in the given order: world, ledger, and whether they agree.

    Raises ValueError where there is no row.
    """
    if not rows:
        raise ValueError("a picture of crashes needs at least one row")
    lines = [[words_under("plots.crash.head")[key] for key in ("point", "world", "ledger", "answer", "verdict")]]
    for one in rows:
        amount = {0: "none", 1: "one"}.get(one.effects, "many")
        effects = words(f"plots.crash.effects.{amount}", count=one.effects)
        lines.append([one.point, effects, one.state, one.answer, words(f"plots.crash.verdicts.{one.verdict}")])
    return _crash_sheet(rows, lines).picture(words("plots.crash.title"), _table(lines))


def _crash_sheet(rows: Sequence[Crash], lines: Sequence[Sequence[str]]) -> Sheet:
    points = [textwrap.wrap(point, 16) for point, *_ in lines[1:]]
    top = 24 + 17 * max(map(len, points))
    base = [top - 10, top + 46, top + 78, top + 108, top + 142]  # the base line of each of the five lines
    shown = [part for point in points for part in point] + [text for row in lines[1:] for text in row[1:]]
    left, width = 36 + _room(lines[0]), 24 + _room(shown)
    sheet = Sheet(left + width * len(rows) + 12, top + 176)
    for y, head in zip(base, lines[0], strict=True):
        sheet.text(20, y, head, ink=GREY)
    for at, (one, point, texts) in enumerate(zip(rows, points, lines[1:], strict=True)):
        middle, (ground, ink) = left + width * at + width / 2, VERDICTS[one.verdict]
        sheet.box(middle - width / 2 + 4, top, width - 8, 158, ground)
        for above, part in enumerate(reversed(point)):
            sheet.text(middle, base[0] - 17 * above, part, align="center", bold=True)
        dots = max(one.effects, 1)
        for number in range(dots):
            sheet.dot(middle + 18 * (number - (dots - 1) / 2), top + 20, 7, ink if one.effects else CARD, ink)
        for y, text in zip(base[1:4], texts[1:4], strict=True):
            sheet.text(middle, y, text, align="center")
        sheet.text(middle, base[4], texts[4], ink=ink, align="center", bold=True)
    return sheet

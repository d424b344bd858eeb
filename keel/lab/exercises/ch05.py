"""Chapter 05's exercises: a team's limit at its edges, a reader for one version, a cap in bytes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from keel.lab.exercises.model import Case, Exercise, Mistake, outcome
from keel.lab.exercises.showing import show

# --- 05-a: a team limit ---------------------------------------------------------------------------------------------


def team_limit_stub(values, team, limits): ...


def team_limit_solution(values, team, limits):
    most = limits[team]
    if 1 <= values["limit"] <= most:
        return None
    return f"limit: {values['limit']} rows are not for {team}. Ask for 1 to {most}."


def team_limit_clamps(values, team, limits):
    values["limit"] = max(1, min(values["limit"], limits[team]))
    return None


def team_limit_too_strict(values, team, limits):
    if 0 < values["limit"] < limits[team]:
        return None
    return f"limit: ask for fewer than {limits[team]} rows."


def team_limit_too_loose(values, team, limits):
    if values["limit"] > limits[team] + 1:
        return f"limit: ask for at most {limits[team]} rows."
    return None


def team_limit_no_floor(values, team, limits):
    if values["limit"] > limits[team]:
        return f"limit: ask for at most {limits[team]} rows."
    return None


LIMITS = {"identity": 100, "payments": 20}


def _limit_case(name: str, limit: int, team: str, allowed: bool) -> Case:
    """One query of one team. Seen: with how many rows it would run, or that it is refused, and which limit is named."""
    most = LIMITS[team]

    def run(answer: Callable[..., Any]) -> Any:
        values = {"table": "latency", "limit": limit}
        returned = answer(values, team, dict(LIMITS))
        if returned is None:
            return {"runs_with": values["limit"]}
        if not isinstance(returned, str):
            return {"returned": returned}
        numbers = re.findall(r"\d+", re.sub(r"(?<=\d)[,_](?=\d)", "", returned))
        return {"refused": True, "names_the_limit": str(most) in numbers}

    shown = f"team_limit({{'table': 'latency', 'limit': {limit}}}, {team!r}, {show(LIMITS)})"
    return Case(name, shown, run, {"runs_with": limit} if allowed else {"refused": True, "names_the_limit": True})


TEAM_LIMIT = Exercise(
    id="05-a",
    name="team_limit",
    minutes=10,
    stub=team_limit_stub,
    solution=team_limit_solution,
    cases=(
        _limit_case("inside", 50, "identity", True),
        _limit_case("least", 1, "identity", True),
        _limit_case("most", 100, "identity", True),
        _limit_case("one_more", 101, "identity", False),
        _limit_case("far_above", 999_999_999, "identity", False),
        _limit_case("zero", 0, "identity", False),
        _limit_case("below", -1, "identity", False),
        _limit_case("own_most", 20, "payments", True),
        _limit_case("other_teams", 50, "payments", False),
    ),
    mistakes=(
        Mistake(
            "clamps",
            team_limit_clamps,
            lambda first, _: first.case.name == "one_more" and 100 in first.got.values(),
        ),
        Mistake(
            "too_strict",
            team_limit_too_strict,
            lambda first, _: first.case.name in ("least", "most") and first.got["refused"] is True,
        ),
        Mistake(
            "too_loose",
            team_limit_too_loose,
            lambda first, trials: (
                first.got == {"runs_with": 101} and trials["far_above"].got != {"runs_with": 999_999_999}
            ),
        ),
        Mistake(
            "no_floor",
            team_limit_no_floor,
            lambda first, _: first.case.name in ("zero", "below") and "runs_with" in first.got,
        ),
    ),
)

# --- 05-b: a reader for version 1 -----------------------------------------------------------------------------------


def read_v1_stub(result): ...


def read_v1_solution(result):
    version = result["tool_version"]
    if version is None or version.split(".")[0] != "1":
        raise ValueError(f"this reader knows version 1, not {version}")
    return result["data"]["level"]


def read_v1_shared_fields(result):
    if "level" not in result["data"]:
        raise ValueError("there is no level")
    return result["data"]["level"]


def read_v1_accepts_null(result):
    version = result["tool_version"] or "1.0"
    if version.split(".")[0] != "1":
        raise ValueError(f"this reader knows version 1, not {version}")
    return result["data"]["level"]


def read_v1_prefix(result):
    if not str(result["tool_version"]).startswith("1"):
        raise ValueError("this reader knows version 1")
    return result["data"]["level"]


def _read_case(name: str, version: str | None, data: dict[str, Any], level: int | None) -> Case:
    """One result. Seen: the level that was read, or that the result was refused."""
    result = {"tool_name": "lookup_incident", "tool_version": version, "ok": True, "data": data}
    expected = {"raised": "ValueError"} if level is None else {"returned": level}
    shown = f"read_v1({{'tool_version': {version!r}, 'data': {show(data)}, …}})"
    return Case(
        name, shown, lambda answer: outcome(lambda: answer({**result, "data": dict(data)}), ValueError), expected
    )


_DATA = {"incident_id": "INC-001", "level": 5}

READ_V1 = Exercise(
    id="05-b",
    name="read_v1",
    minutes=10,
    stub=read_v1_stub,
    solution=read_v1_solution,
    cases=(
        _read_case("first", "1.0", _DATA, 5),
        _read_case("later", "1.12", {**_DATA, "team": "identity"}, 5),
        _read_case("next", "2.0", {**_DATA, "level": 1}, None),
        _read_case("next_moved", "2.3", {"incident_id": "INC-001", "alarm": {"level": 1}}, None),
        _read_case("ten", "10.1", {**_DATA, "level": 1}, None),
        _read_case("null", None, _DATA, None),
    ),
    mistakes=(
        Mistake(
            "shared_fields",
            read_v1_shared_fields,
            lambda first, _: first.case.name == "next" and isinstance(first.got["returned"], int),
        ),
        Mistake(
            "prefix",
            read_v1_prefix,
            lambda first, _: first.case.name == "ten" and isinstance(first.got["returned"], int),
        ),
        Mistake(
            "accepts_null",
            read_v1_accepts_null,
            lambda first, _: first.case.name == "null" and isinstance(first.got["returned"], int),
        ),
    ),
)

# --- 05-c: cap in bytes ---------------------------------------------------------------------------------------------


def cap_stub(text, limit): ...


def cap_solution(text, limit):
    data = text.encode()
    if len(data) <= limit:
        return text
    label = " [cut]"
    return data[: limit - len(label)].decode(errors="ignore") + label


def cap_counts_characters(text, limit):
    if len(text) <= limit:
        return text
    return text[: limit - len(" [cut]")] + " [cut]"


def cap_unlabelled(text, limit):
    return text.encode()[:limit].decode(errors="ignore")


def cap_splits(text, limit):
    data = text.encode()
    if len(data) <= limit:
        return text
    return data[: limit - len(" [cut]")].decode() + " [cut]"


def cap_replaces(text, limit):
    data = text.encode()
    if len(data) <= limit:
        return text
    return data[: limit - len(" [cut]")].decode(errors="replace") + " [cut]"


def cap_label_on_top(text, limit):
    data = text.encode()
    if len(data) <= limit:
        return text
    return data[:limit].decode(errors="ignore") + " [cut]"


def _cap_case(name: str, text: str, limit: int) -> Case:
    """One text. Seen: the text itself where it fits; else the size of what came back, and what it is made of."""

    def run(answer: Callable[..., Any]) -> Any:
        returned = answer(text, limit)
        if len(text.encode()) <= limit or not isinstance(returned, str):
            return returned
        kept = returned.removesuffix("[cut]").rstrip()
        size = len(returned.encode(errors="replace"))
        return {
            "bytes": f"<= {limit}" if size <= limit else size,
            "labelled": returned.endswith("[cut]"),
            "begins_like_the_text": text.startswith(kept),
            "uses_the_room": len(kept.encode(errors="replace")) >= limit - 10,
        }

    cut = {"bytes": f"<= {limit}", "labelled": True, "begins_like_the_text": True, "uses_the_room": True}
    shown = show(text) if len(text) <= 24 else f"{text[:6]!r} * {len(text) // 6}"
    return Case(name, f"cap({shown}, {limit})", run, text if len(text.encode()) <= limit else cut)


CAP = Exercise(
    id="05-c",
    name="cap",
    minutes=15,
    stub=cap_stub,
    solution=cap_solution,
    cases=(
        _cap_case("short", "login returns 502", 40),
        _cap_case("exact", "abcdef" * 6, 36),
        _cap_case("long", "abcdef" * 50, 64),
        _cap_case("one_more", "abcdef" * 6, 35),
        _cap_case("exact_chinese", "连接池已耗尽", 18),
        _cap_case("chinese", "连接池已耗尽" * 50, 64),
        _cap_case("chinese_again", "连接池已耗尽" * 50, 65),
        _cap_case("chinese_fits_by_characters", "连接池已耗尽" * 5, 36),
        _cap_case("emoji", "🔥🚒🧯🔥🚒🧯" * 20, 61),
    ),
    mistakes=(
        Mistake(
            "unlabelled",
            cap_unlabelled,
            lambda first, _: first.case.name == "long" and first.got["labelled"] is False,
        ),
        Mistake(
            "label_on_top",
            cap_label_on_top,
            lambda first, _: first.case.name == "long" and first.got["labelled"] is True and first.got["bytes"] == 70,
        ),
        Mistake("splits", cap_splits, lambda first, _: first.crash.kind == "UnicodeDecodeError"),
        Mistake(
            "replaces",
            cap_replaces,
            lambda first, _: "chinese" in first.case.name and first.got["begins_like_the_text"] is False,
        ),
        Mistake(
            "counts_characters",
            cap_counts_characters,
            lambda first, _: "chinese" in first.case.name and isinstance(first.got["bytes"], int),
        ),
    ),
)

EXERCISES = (TEAM_LIMIT, READ_V1, CAP)

"""Other answers to chapter 05's exercises."""

import codecs

# --- 05-a ---


def limit_by_range(values, team, limits):
    if values["limit"] not in range(1, limits[team] + 1):
        return f"{team} may ask for {limits[team]:,} rows at most, and for one at least."


def limit_by_two_ifs(values, team, limits):
    limit, most = values["limit"], limits.get(team, 0)
    if limit < 1:
        return f"limit is {limit}: ask for at least 1 row and at most {most}"
    if limit > most:
        return f"limit is {limit}: ask for at most {most}"
    return None


def limit_by_match(values, team, limits):
    match values:
        case {"limit": int(limit)} if 0 < limit <= limits[team]:
            return None
    return "Ask for 1-" + str(limits[team]) + " rows."


def limit_returns_a_number(values, team, limits):
    return min(values["limit"], limits[team])


def limit_returns_true(values, team, limits):
    return 1 <= values["limit"] <= limits[team]


def limit_without_a_number(values, team, limits):
    return None if 1 <= values["limit"] <= limits[team] else "That is too much. Ask for less."


def limit_raises(values, team, limits):
    if not 1 <= values["limit"] <= limits[team]:
        raise ValueError(f"ask for 1 to {limits[team]}")


def limit_of_all(values, team, limits):
    most = max(limits.values())
    return None if 1 <= values["limit"] <= most else f"Ask for 1 to {most}."


def limit_zero_allowed(values, team, limits):
    return None if 0 <= values["limit"] <= limits[team] else f"Ask for 0 to {limits[team]}."


def limit_not_at_one(values, team, limits):
    return None if 1 < values["limit"] <= limits[team] else f"Ask for 1 to {limits[team]}."


# --- 05-b ---


def read_by_number(result):
    version = result.get("tool_version")
    if not version or int(version.partition(".")[0]) != 1:
        raise ValueError("not version 1")
    return result["data"]["level"]


def read_by_prefix_with_dot(result):
    if not (result["tool_version"] or "").startswith("1."):
        raise ValueError(result["tool_version"])
    data = result["data"]
    return data["level"]


def read_by_match(result):
    class WrongVersion(ValueError):
        pass

    match result:
        case {"tool_version": str(version), "data": {"level": level}} if version.split(".", 1)[0] == "1":
            return level
    raise WrongVersion


def read_exactly(result):
    if result["tool_version"] != "1.0":
        raise ValueError
    return result["data"]["level"]


def read_unless_two(result):
    if str(result["tool_version"]).startswith("2"):
        raise ValueError
    return result["data"]["level"]


def read_as_a_float(result):
    if float(result["tool_version"]) // 1 != 1:
        raise ValueError
    return result["data"]["level"]


def read_or_none(result):
    version = result["tool_version"] or ""
    return result["data"]["level"] if version.split(".")[0] == "1" else None


def read_and_convert(result):
    version = str(result["tool_version"]).split(".")[0]
    if version == "2":
        return 6 - result["data"]["level"]
    if version != "1":
        raise ValueError
    return result["data"]["level"]


# --- 05-c ---


def cap_by_characters_with_care(text, limit):
    if len(text.encode("utf-8")) <= limit:
        return text
    kept = text
    while len((kept + " [cut]").encode()) > limit:
        kept = kept[:-1]
    return kept + " [cut]"


def cap_by_steps_back(text, limit):
    raw = text.encode("utf-8")
    if len(raw) <= limit:
        return text
    end = limit - 6
    while raw[end] & 0b1100_0000 == 0b1000_0000:
        end -= 1
    return raw[:end].decode("utf-8") + " [cut]"


def cap_by_an_incremental_decoder(text, limit):
    label = "[cut]"
    raw = bytes(text, "utf8")
    if limit >= len(raw):
        return text
    return codecs.getincrementaldecoder("utf-8")().decode(raw[: limit - len(label)]) + label


def cap_labels_all(text, limit):
    return text.encode()[: limit - 6].decode(errors="ignore") + " [cut]"


def cap_to_a_third(text, limit):
    return text if len(text) * 3 <= limit else text[: limit // 3 - 6] + " [cut]"


def cap_surrogates(text, limit):
    raw = text.encode()
    return text if len(raw) <= limit else raw[: limit - 6].decode(errors="surrogateescape") + " [cut]"


def cap_at_the_edge(text, limit):
    raw = text.encode()
    return text if len(raw) < limit else raw[: limit - 6].decode(errors="ignore") + " [cut]"


def cap_as_bytes(text, limit):
    raw = text.encode()
    return raw if len(raw) <= limit else raw[: limit - 6] + b" [cut]"


def cap_decides_by_characters(text, limit):
    if len(text) <= limit:
        return text
    return text.encode()[: limit - 6].decode(errors="ignore") + " [cut]"


def cap_only_the_label(text, limit):
    return text if len(text.encode()) <= limit else "[cut]"


def cap_ascii(text, limit):
    text = text.encode("ascii", "ignore").decode()
    return text if len(text) <= limit else text[: limit - 6] + " [cut]"


RIGHT = {
    "05-a": [limit_by_range, limit_by_two_ifs, limit_by_match],
    "05-b": [read_by_number, read_by_prefix_with_dot, read_by_match],
    "05-c": [cap_by_characters_with_care, cap_by_steps_back, cap_by_an_incremental_decoder],
}

WRONG = {
    "05-a": [
        (limit_returns_a_number, "case.inside"),
        (limit_returns_true, "case.inside"),
        (limit_without_a_number, "case.one_more"),
        (limit_raises, "case.one_more"),
        (limit_of_all, "case.other_teams"),
        (limit_zero_allowed, "mistake.no_floor"),
        (limit_not_at_one, "mistake.too_strict"),
    ],
    "05-b": [
        (read_exactly, "case.later"),
        (read_unless_two, "mistake.prefix"),
        (read_as_a_float, "case.null"),
        (read_or_none, "case.next"),
        (read_and_convert, "mistake.shared_fields"),
    ],
    "05-c": [
        (cap_labels_all, "case.short"),
        (cap_to_a_third, "case.short"),
        (cap_surrogates, "mistake.replaces"),
        (cap_at_the_edge, "case.exact"),
        (cap_as_bytes, "case.short"),
        (cap_decides_by_characters, "mistake.counts_characters"),
        (cap_only_the_label, "case.long"),
        (cap_ascii, "case.exact_chinese"),
    ],
}

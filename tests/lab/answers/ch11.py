"""Other answers to chapter 11's exercises."""

import io
import os
from pathlib import Path

from keel.contracts import ToolFailure
from keel.lab.exercises.ch11 import layers_solution

# --- 11-a: values ---

escapes_one_for_all = dict.fromkeys(["joined", "no_dots", "resolved"], "/srv/desk-old/keys.txt")
escapes_up_and_up = {"joined": "a/../../b", "no_dots": "/", "resolved": "notes/../../desk2"}
escapes_dots_alone = {"joined": "..", "no_dots": "//etc/passwd", "resolved": "../desk.bak/x", "other": 3}

escapes_forgotten = {"joined": "../keys.txt", "resolved": "../desk-old/keys.txt"}
escapes_texts = ["../keys.txt", "/etc/passwd", "../desk-old/keys.txt"]
escapes_too_few = {"joined": "../keys.txt", "no_dots": "/etc/passwd"}
escapes_no_text = {"joined": "../keys.txt", "no_dots": None, "resolved": 7}
escapes_dots_everywhere = dict.fromkeys(["joined", "no_dots", "resolved"], "../keys.txt")
escapes_absolute = dict.fromkeys(["joined", "no_dots", "resolved"], "/etc/passwd")
escapes_the_root = {"joined": "../keys.txt", "no_dots": "/srv/desk", "resolved": "../desk-old"}
escapes_coded = {"joined": "%2e%2e/keys.txt", "no_dots": "/etc/passwd", "resolved": "../desk-old"}
escapes_there_and_back = {"joined": "../keys.txt", "no_dots": "/etc/passwd", "resolved": "../desk/keys.txt"}

# --- 11-b: values ---

layers_by_hand = {"C": "schema", "G": "schema", "D": "confinement", "F": "confinement", "E": "open", "H": "open"}
layers_by_hand |= {"A": "parse", "B": "registry"}
layers_and_more = {**layers_solution, "I": "open"}
layers_backwards = dict(reversed(layers_solution.items()))


def _but(**other):
    return {**layers_solution, **other}


# --- 11-c ---


def read_into_buffer(file, limit):
    buffer = io.BytesIO()
    while buffer.tell() <= limit and (more := file.read(limit + 1 - buffer.tell())):
        buffer.write(more)
    if buffer.tell() > limit:
        raise ToolFailure("file_too_large", "too much")
    return buffer.getvalue()


def read_byte_by_byte(file, limit):
    content = b"".join(iter(lambda: file.read(1), b"")) if limit < 0 else b""
    while byte := file.read(1):
        content += byte
        if len(content) > limit:
            raise ToolFailure("file_too_large", "too much")
    return content


def read_to_the_limit_and_look(file, limit):
    pieces, left = [], limit
    while left and (piece := file.read(left)):
        pieces.append(piece)
        left -= len(piece)
    if not left and file.read(1):
        raise ToolFailure("file_too_large", "too much")
    return b"".join(pieces)


def read_everything(file, limit):
    content = b"".join(iter(file.read, b""))
    if len(content) > limit:
        raise ToolFailure("file_too_large", "too much")
    return content


def read_by_name(file, limit):
    with open(file.name, "rb") as again:
        return read_into_buffer(again, limit)


def read_after_a_look(file, limit):
    if os.stat(file.name).st_size > limit:
        raise ToolFailure("file_too_large", "too much")
    return Path(file.name).read_bytes()


def read_a_beginning(file, limit):
    return file.read(limit)


def read_and_cut(file, limit):
    return read_everything(file, 10**9)[:limit]


def read_once(file, limit):
    content = file.read(limit + 1)
    if len(content) <= limit:
        return content
    raise ToolFailure("file_too_large", "too much")


def read_less_than(file, limit):
    content = read_to_the_limit_and_look(file, limit)
    if len(content) >= limit:
        raise ToolFailure("file_too_large", "too much")
    return content


def read_with_another_code(file, limit):
    try:
        return read_into_buffer(file, limit)
    except ToolFailure:
        raise ToolFailure("not_text", "too much") from None


def read_as_text(file, limit):
    return read_into_buffer(file, limit).decode()


def read_none(file, limit):
    try:
        return read_into_buffer(file, limit)
    except ToolFailure:
        return None


def read_in_blocks(file, limit):
    content = b""
    while more := file.read(4096):
        content += more
        if len(content) > limit:
            raise ToolFailure("file_too_large", "too much")
    return content


def read_a_limit_at_a_time(file, limit):
    content = b""
    while more := file.read(limit):
        content += more
        if len(content) > limit:
            raise ToolFailure("file_too_large", "too much")
    return content


def read_the_same_size_again(file, limit):
    pieces = []
    while piece := file.read(limit + 1):
        pieces.append(piece)
        if sum(map(len, pieces)) > limit:
            raise ToolFailure("file_too_large", "too much")
    return b"".join(pieces)


def read_blocks_after_a_look(file, limit):
    if os.stat(file.name).st_size > limit:
        raise ToolFailure("file_too_large", "too much")
    return read_in_blocks(file, limit)


def read_as_bytearray(file, limit):
    return bytearray(read_into_buffer(file, limit))


def read_for_ever(file, limit):
    content = b""
    while len(content) <= limit:
        content += file.read(limit + 1 - len(content))
    raise ToolFailure("file_too_large", "too much")


RIGHT = {
    "11-a": [escapes_one_for_all, escapes_up_and_up, escapes_dots_alone],
    "11-b": [layers_by_hand, layers_and_more, layers_backwards],
    "11-c": [read_into_buffer, read_byte_by_byte, read_to_the_limit_and_look],
}

WRONG = {
    "11-a": [
        (escapes_texts, "case.joined"),
        (escapes_too_few, "case.resolved"),
        (escapes_forgotten, "case.no_dots"),
        ({}, "case.joined"),
        (escapes_no_text, "case.no_dots"),
        (escapes_dots_everywhere, "mistake.already_refused"),
        (escapes_absolute, "mistake.already_refused"),
        (escapes_the_root, "mistake.stays_inside"),
        (escapes_coded, "mistake.stays_inside"),
        (escapes_there_and_back, "mistake.stays_inside"),
    ],
    "11-b": [
        (dict.fromkeys("ABCDEFGH", "confinement"), "mistake.all_confinement"),
        (dict.fromkeys("ABCDEFGH", "parse"), "case.near_name"),
        (list(layers_solution.values()), "case.cut"),
        ({}, "mistake.left_out"),
        ({letter.lower(): layer for letter, layer in layers_solution.items()}, "mistake.left_out"),
        (_but(H=None), "mistake.left_out"),
        ({letter: layer.title() for letter, layer in layers_solution.items()}, "mistake.no_such_layer"),
        (_but(E="file"), "mistake.no_such_layer"),
        (_but(F="confinement "), "mistake.no_such_layer"),
        (_but(C="open"), "mistake.number_is_a_path"),
        (_but(C="parse"), "case.number"),
        (_but(D="open"), "case.dots"),
        (_but(G="registry"), "case.other_field"),
        (_but(H="schema"), "mistake.size_by_text"),
    ],
    "11-c": [
        (read_everything, "mistake.reads_all"),
        (read_by_name, "mistake.reopens"),
        (read_after_a_look, "mistake.reopens"),
        (read_a_beginning, "mistake.cuts"),
        (read_and_cut, "mistake.cuts"),
        (read_once, "mistake.one_read"),
        (read_less_than, "mistake.off_by_one"),
        (read_with_another_code, "case.one_more"),
        (read_as_text, "case.small"),
        (read_none, "case.one_more"),
        (read_as_bytearray, "mistake.bytearray"),
        (read_in_blocks, "mistake.past_the_limit"),
        (read_a_limit_at_a_time, "mistake.past_the_limit"),
        (read_the_same_size_again, "mistake.past_the_limit"),
        (read_blocks_after_a_look, "mistake.past_the_limit"),
        (read_for_ever, "case.small"),
    ],
}

"""Files inside one folder and nowhere else: each step of a path is opened from a handle, and no link is followed.

A check of the path's *text* cannot do this: between the check and the opening somebody may put a link
in its place. Here nothing is checked and then opened again. The folder is opened once; every
component is opened relative to the handle before it, with the system refusing links (`openat` and
O_NOFOLLOW of POSIX); what was opened is what is judged and read.

Windows has no such handles for Python. There every component is looked at before, and compared with what
stands there after the opening; against somebody who swaps folders in between that is good, and not proof.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import unicodedata
import weakref
from collections.abc import Iterable
from contextlib import closing, contextmanager, suppress
from typing import Any

from .adapters import quoted
from .contracts import ToolFailure

MAX_BYTES = 1_000_000
MAX_ENTRIES = 10_000
PATH_CODES = frozenset(("path_invalid", "path_outside_workspace", "path_hidden", "file_not_found", "not_a_file"))
PATH_CODES |= {"file_too_large", "not_text", "file_unavailable"}
SECRET = frozenset(("secrets", "credentials", "private"))
_HANDLES = os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW")
_COMMON = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)
_FOLDER = os.O_RDONLY | _COMMON | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
# Not to wait for a pipe's other end; and a link is refused by the system itself.
_FILE = os.O_RDONLY | _COMMON | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0)
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _COMMON | getattr(os, "O_NOFOLLOW", 0)
_DEVICES = frozenset(["con", "prn", "aux", "nul", "conin$", "conout$"])
_DEVICES |= {f"{name}{n}" for name in ("com", "lpt") for n in "0123456789"}
_SHORT = re.compile(r"[^.]{0,6}~[0-9]{1,6}(\.[^.]{0,3})?")  # GIT~1 is how Windows also calls .git
# They count as printable and show nothing; a disk that does not mind case does not mind them either.
_UNSEEN = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef]")


class Workspace:
    """The files of one folder. Paths are relative, with `/`; they are the model's, and not trusted.

    `root` must be a folder, and may itself be reached by a link; "/" is refused with ValueError.
    Hidden names (a dot first), the names in `secret` in any case, links, and what is no regular file
    are refused. At most `max_bytes` are read or written. All methods raise ToolFailure with one of
    `PATH_CODES`, and nothing else. A hard link cannot be told from the file that it is.
    """

    def __init__(self, root: str | os.PathLike[str], *, max_bytes: int = MAX_BYTES, secret: Iterable[str] = SECRET):
        if isinstance(secret, str) or not os.fspath(root):
            raise ValueError("name a folder as the root, and the secret names as a list")
        self.max_bytes = max_bytes
        self.secret = frozenset(_plain(name) for name in secret)
        self._root = os.path.realpath(os.fsdecode(root))
        try:
            self._handle = os.open(self._root, _FOLDER) if _HANDLES else None
            self._found = os.stat(self._root if self._handle is None else self._handle)
        except OSError:
            raise ValueError("a workspace is a folder that is there and can be opened") from None
        if self._handle is not None:
            # Not when the interpreter ends: a thread may still be at work, and the number be given to another folder.
            weakref.finalize(self, os.close, self._handle).atexit = False
        if not stat.S_ISDIR(self._found.st_mode):
            raise ValueError("a workspace is a folder")
        if os.path.samestat(self._found, os.stat(os.path.join(self._root, os.sep))):
            raise ValueError("the root of the whole system is no workspace; name a folder of its own")

    def __reduce__(self) -> Any:
        raise TypeError("a workspace holds a handle, and a copy of that would be another's; make a new one")

    def read_text(self, path: str) -> str:
        """The text of one file. UTF-8, line ends as they stand."""
        *folders, name = self._parts(path)
        with self._in_folder(folders) as folder, _opened(folder, name) as file:
            if os.fstat(file).st_size > self.max_bytes:
                raise self._too_large()
            content = _read(file, self.max_bytes + 1)
        if len(content) > self.max_bytes:
            raise self._too_large()
        try:
            return content.decode("utf-8")
        except UnicodeDecodeError:
            raise ToolFailure("not_text", f"{quoted(path)} is no text in UTF-8.") from None

    def write_text(self, path: str, text: str) -> int:
        """Put a whole file in place of what was there, or anew; its folder must be. Gives the number of bytes.

        Written beside it and renamed: a reader sees the old file or the new one, and never half of one.
        """
        *folders, name = self._parts(path)
        try:
            content = str.encode(text, "utf-8")  # a type that calls itself text may encode as it likes
        except (UnicodeEncodeError, TypeError):
            raise ToolFailure("not_text", "Only text that UTF-8 can hold is written.") from None
        if len(content) > self.max_bytes:
            raise self._too_large()
        with self._in_folder(folders) as folder:
            _replace(folder, name, content)
        return len(content)

    def list(self, path: str = ".") -> list[str]:
        """The names in a folder, sorted: those that could be opened here, folders with a `/` behind them."""
        parts = self._parts(path, folder=True)
        names = []
        with self._in_folder(parts) as folder, folder.scan() as entries:
            folder.compare()
            for count, entry in enumerate(entries, 1):
                if count > MAX_ENTRIES:
                    raise ToolFailure("file_too_large", f"Only folders of at most {MAX_ENTRIES} entries are listed.")
                with suppress(FileNotFoundError):  # gone since
                    found = entry.stat(follow_symlinks=False)
                    if self._refused_name(entry.name) or _is_link(found):
                        continue
                    if stat.S_ISDIR(found.st_mode):
                        names.append(f"{entry.name}/")
                    elif stat.S_ISREG(found.st_mode):
                        names.append(entry.name)
        return sorted(names)

    def judge(self, path: str) -> None:
        """Judge a path by its text alone; nothing is opened, and what stands there is not known yet.

        For a rule of a tool that writes: so that a person is not asked about a path that will be refused.
        """
        self._parts(path)

    def _parts(self, path: Any, *, folder: bool = False) -> list[str]:
        """The components of a path, `.` left out. Judged as text first: what looks like a trick is told so."""
        # A type made from str may answer each question otherwise than the system will.
        if type(path) is not str or len(path) > 4096:
            raise ToolFailure("path_invalid", "A path is a text of at most 4096 characters.")
        if path.startswith("/"):
            raise ToolFailure("path_outside_workspace", "Paths are relative to the workspace: leave out the first '/'.")
        parts = [part for part in path.split("/") if part not in ("", ".")]
        if not folder and (not parts or path.endswith(("/", "/."))):
            raise ToolFailure("path_invalid", f"{quoted(path)} names no file: end with a file's name.")
        for part in parts:
            if part == "..":
                raise ToolFailure("path_outside_workspace", "Leave out '..': every path begins in the workspace.")
            if not _is_name(part):
                raise ToolFailure("path_invalid", f"{quoted(part)}: use plain names, as in 'notes/day 1.txt'.")
            if self._refused_name(part):
                raise ToolFailure("path_hidden", f"{quoted(part)} is hidden or secret, and stays closed: use another.")
        return parts

    def _refused_name(self, name: str) -> bool:
        return not _is_name(name) or (plain := _plain(name)).startswith(".") or plain in self.secret

    def _too_large(self) -> ToolFailure:
        return ToolFailure("file_too_large", f"A file here has at most {self.max_bytes} bytes.")

    @contextmanager
    def _in_folder(self, parts: list[str]) -> Any:
        """The folder at the end of these components; closed again afterwards. OSErrors become ToolFailures."""
        try:
            with closing(_Folder(self._root, self._handle, self._found)) as folder:
                for part in parts:
                    folder.enter(part)
                yield folder
        except OSError as error:
            raise ToolFailure(*_CODES.get(error.errno or 0, _CODES[0])) from error


class _Folder:
    """One opened folder: by handle where the system has those, else by a path whose parts are looked at."""

    def __init__(self, root: str, handle: int | None, found: os.stat_result):
        self.path = root
        self.way = [(root, found)]
        # No `dup`: two that list one folder would share the place where they are in it.
        self.handle = None if handle is None else os.open(".", _FOLDER, dir_fd=handle)
        self.compare()

    def enter(self, name: str) -> None:
        """Go one folder further down. No link is followed."""
        found = self.look(name)  # for a clear word; the opening refuses a link too, whatever was put there since
        _refuse_link(found, name)
        if self.handle is None:
            if not stat.S_ISDIR(found.st_mode):
                raise NotADirectoryError(errno.ENOTDIR, "not a folder")
            self.path = self.at(name)
            self.way.append((self.path, found))
            return
        inner = os.open(name, _FOLDER, dir_fd=self.handle)
        self.close()
        self.handle = inner

    def compare(self) -> None:
        """Without a handle: whether the folders on the way are still those that were looked at."""
        if self.handle is None and not all(os.path.samestat(os.lstat(path), found) for path, found in self.way):
            raise ToolFailure("path_outside_workspace", "A folder on the way was changed for something else.")

    def close(self) -> None:
        if self.handle is not None:
            os.close(self.handle)
            self.handle = None

    def at(self, name: str) -> str:
        """What names this file together with the handle, or without one."""
        return os.path.join(self.path, name) if self.handle is None else name

    def look(self, name: str) -> os.stat_result:
        """What stands there, a link as a link."""
        return os.stat(self.at(name), dir_fd=self.handle, follow_symlinks=False)

    def open(self, name: str, flags: int, mode: int = 0o666) -> int:
        return os.open(self.at(name), flags, mode, dir_fd=self.handle)

    def rename(self, old: str, new: str) -> None:
        os.replace(self.at(old), self.at(new), src_dir_fd=self.handle, dst_dir_fd=self.handle)

    def remove(self, name: str) -> None:
        os.unlink(self.at(name), dir_fd=self.handle)

    def scan(self) -> Any:
        return os.scandir(self.path if self.handle is None else self.handle)

    def sync(self) -> None:
        """Have the disk know of a new name, where a folder can be told to."""
        if self.handle is not None:
            with suppress(OSError):
                os.fsync(self.handle)


@contextmanager
def _opened(folder: _Folder, name: str) -> Any:
    """A regular file, opened for reading, and the very one that was judged."""
    _must_be_file(folder.look(name), name)  # some pipes and devices do something when they are opened
    file = folder.open(name, _FILE)
    try:
        found = os.fstat(file)
        _must_be_file(found, name)
        if folder.handle is None:
            folder.compare()
            _must_be_file(now := folder.look(name), name)
            if not os.path.samestat(found, now):
                raise ToolFailure("file_unavailable", f"{quoted(name)} was replaced just now: try again.", True)
        yield file
    finally:
        os.close(file)


def _read(file: int, limit: int) -> bytes:
    content = bytearray()
    while more := os.read(file, min(limit - len(content), 1 << 16)):
        content += more
    return bytes(content)


def _replace(folder: _Folder, name: str, content: bytes) -> None:
    mode = None
    with suppress(FileNotFoundError):
        found = folder.look(name)
        _must_be_file(found, name)
        mode = stat.S_IMODE(found.st_mode) & 0o777
        if not mode & 0o222:
            raise ToolFailure("file_unavailable", f"{quoted(name)} may only be read: write to another name.")
    beside = f".keel-{os.urandom(8).hex()}.tmp"
    # Nobody may open the new file who could not open the old one, not even for a moment.
    file = folder.open(beside, _NEW, 0o666 if mode is None else 0o600)
    try:
        try:
            folder.compare()
            if mode is not None and hasattr(os, "fchmod"):
                os.fchmod(file, mode)
            left = memoryview(content)
            while left:
                left = left[os.write(file, left) :]
            os.fsync(file)
        finally:
            os.close(file)
        folder.rename(beside, name)
    except BaseException:
        with suppress(OSError):
            folder.remove(beside)
        raise
    folder.sync()


def _is_link(found: os.stat_result) -> bool:
    reparse = getattr(found, "st_file_attributes", 0) & getattr(stat, "FILE_ATTRIBUTE_REPARSE_POINT", 0)
    return stat.S_ISLNK(found.st_mode) or bool(reparse)


def _refuse_link(found: os.stat_result, name: str) -> None:
    if _is_link(found):
        message = f"{quoted(name)} is a link, and links are not followed: name the file itself."
        raise ToolFailure("path_outside_workspace", message)


def _must_be_file(found: os.stat_result, name: str) -> None:
    _refuse_link(found, name)
    if not stat.S_ISREG(found.st_mode):
        raise ToolFailure("not_a_file", f"{quoted(name)} is no regular file: only those are read and written.")


def _plain(name: str) -> str:
    """The name as the most forgiving disk would take it: case, width and what shows nothing make no difference."""
    folded = unicodedata.normalize("NFKC", name).casefold()
    return unicodedata.normalize("NFKC", _UNSEEN.sub("", folded))


def _is_name(name: str) -> bool:
    """Whether this is a plain name on every system: nothing that prints nothing, no other system's separators.

    Full-width dots and slashes turn into real ones wherever text is normalised; Windows drops dots and
    spaces at the end, takes `con` for a device and a colon for a stream, and gives long names short ones.
    """
    try:
        if not name.isprintable() or len(os.fsencode(name)) > 255:
            return False
    except UnicodeEncodeError:  # where the system's own names are no UTF-8
        return False
    plain = _plain(name)
    if not plain or plain.endswith((".", " ")) or name.startswith(" ") or any(one in "/\\:" for one in plain):
        return False
    return not _SHORT.fullmatch(plain) and plain.split(".")[0].rstrip(" ") not in _DEVICES


_CODES = {
    0: ("file_unavailable", "The file cannot be used just now."),
    errno.ENOENT: ("file_not_found", "There is no such file or folder: look at the spelling."),
    errno.ENOTDIR: ("file_not_found", "There is no such file or folder: look at the spelling."),
    errno.ELOOP: ("path_outside_workspace", "A link stands there, and links are not followed."),
    errno.EISDIR: ("not_a_file", "That is a folder: only regular files are read and written."),
    errno.ENXIO: ("not_a_file", "That is no regular file: only those are read and written."),
    errno.ENAMETOOLONG: ("path_invalid", "That name is too long: use a shorter one."),
    errno.ENOSPC: ("file_unavailable", "The disk is full."),
}

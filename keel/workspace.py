"""Files inside one folder and nowhere else: each step of a path is opened from a handle, and no link is followed.

A check of the path's *text* cannot do this: between the check and the opening somebody may put a link
in its place. Here nothing is checked and then opened again. The folder is opened once; every
component is opened relative to the handle before it, with the system refusing links (`openat` and
O_NOFOLLOW of POSIX); what was opened is what is judged and read.

Windows has no such handles for Python. There every component is looked at before and what was opened
is compared after; against somebody who swaps folders in between that is good, and not proof.
"""

from __future__ import annotations

import errno
import os
import stat
import unicodedata
import weakref
from collections.abc import Iterable
from contextlib import contextmanager, suppress
from secrets import token_hex
from typing import Any

from .adapters import quoted
from .contracts import ToolFailure

MAX_BYTES = 1_000_000
MAX_ENTRIES = 10_000
PATH_CODES = frozenset(
    {
        *("path_invalid", "path_outside_workspace", "path_hidden", "file_not_found", "not_a_file"),
        *("file_too_large", "not_text", "file_unavailable"),
    }
)
SECRET = frozenset(("secrets", "credentials", "private"))
_HANDLES = os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW")
_COMMON = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)
_FOLDER = os.O_RDONLY | _COMMON | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
# Not to wait for a pipe's other end; and a link is refused by the system itself.
_FILE = os.O_RDONLY | _COMMON | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0)
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _COMMON | getattr(os, "O_NOFOLLOW", 0)
_DEVICES = frozenset(["con", "prn", "aux", "nul", *(f"{name}{n}" for name in ("com", "lpt") for n in "0123456789¹²³")])


class Workspace:
    """The files of one folder. Paths are relative, with `/`; they are the model's, and not trusted.

    `root` must be a folder, and may itself be reached by a link; "/" is refused with ValueError.
    Hidden names (a dot first), the names in `secret` in any case, links, and what is no regular file
    are refused. At most `max_bytes` are read or written. All methods raise ToolFailure with one of
    `PATH_CODES`, and nothing else. A hard link cannot be told from the file that it is.
    """

    def __init__(self, root: str | os.PathLike[str], *, max_bytes: int = MAX_BYTES, secret: Iterable[str] = SECRET):
        self.max_bytes = max_bytes
        self.secret = frozenset(name.casefold() for name in secret)
        self._root = os.path.realpath(root)
        if os.path.dirname(self._root) == self._root:
            raise ValueError("the root of the whole system is no workspace; name a folder of its own")
        if not os.path.isdir(self._root):
            raise ValueError("a workspace is a folder that is there")
        self._handle = os.open(self._root, _FOLDER) if _HANDLES else None
        if self._handle is not None:
            weakref.finalize(self, os.close, self._handle)

    def read_text(self, path: str) -> str:
        """The text of one file. UTF-8, line ends as they stand."""
        *folders, name = self._parts(path)
        with self._in_folder(folders) as folder, _opened(folder, name) as file:
            found = os.fstat(file)
            if found.st_size > self.max_bytes:
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
            content = text.encode("utf-8")
        except (UnicodeEncodeError, AttributeError):
            raise ToolFailure("not_text", "What is to be written is no text that UTF-8 can hold.") from None
        if len(content) > self.max_bytes:
            raise self._too_large()
        with self._in_folder(folders) as folder:
            _replace(folder, name, content)
        return len(content)

    def list(self, path: str = ".") -> list[str]:
        """The names in a folder, sorted: those that could be opened here, folders with a `/` behind them."""
        parts = self._parts(path, folder=True)
        with self._in_folder(parts) as folder, folder.scan() as entries:
            names = []
            for entry in entries:
                if self._refused_name(entry.name) or entry.is_symlink():
                    continue
                if entry.is_dir(follow_symlinks=False):
                    names.append(f"{entry.name}/")
                elif entry.is_file(follow_symlinks=False):
                    names.append(entry.name)
                if len(names) > MAX_ENTRIES:
                    raise ToolFailure("file_too_large", f"There are more than {MAX_ENTRIES} entries in this folder.")
        return sorted(names)

    def _parts(self, path: Any, *, folder: bool = False) -> list[str]:
        """The components of a path, `.` left out. Judged as text first: what looks like a trick is told so."""
        if not isinstance(path, str) or len(path) > 4096:
            raise ToolFailure("path_invalid", "A path is a text of at most 4096 characters.")
        if path.startswith("/"):
            raise ToolFailure("path_outside_workspace", "Paths are relative to the workspace: leave out the first '/'.")
        parts = [part for part in path.split("/") if part not in ("", ".")]
        if not folder and (not parts or path.endswith(("/", "/."))):
            raise ToolFailure("path_invalid", f"{quoted(path)} names no file.")
        for part in parts:
            if part == "..":
                raise ToolFailure("path_outside_workspace", "Leave out '..': every path begins in the workspace.")
            if not _is_name(part):
                raise ToolFailure("path_invalid", f"{quoted(part)} is no name that this workspace takes.")
            if self._refused_name(part):
                raise ToolFailure("path_hidden", f"{quoted(part)} is hidden or secret, and stays closed.")
        return parts

    def _refused_name(self, name: str) -> bool:
        return not _is_name(name) or name.startswith(".") or name.casefold() in self.secret

    def _too_large(self) -> ToolFailure:
        return ToolFailure("file_too_large", f"A file here has at most {self.max_bytes} bytes.")

    @contextmanager
    def _in_folder(self, parts: list[str]) -> Any:
        """The folder at the end of these components; closed again afterwards. OSErrors become ToolFailures."""
        try:
            folder = _Folder(self._root, self._handle)
            try:
                for part in parts:
                    folder.enter(part)
                yield folder
            finally:
                folder.close()
        except OSError as error:
            raise _failure(error) from error


class _Folder:
    """One opened folder: by handle where the system has those, else by a path whose parts are looked at."""

    def __init__(self, root: str, handle: int | None):
        self.path = root
        self.handle = None if handle is None else os.dup(handle)

    def enter(self, name: str) -> None:
        """Go one folder further down. No link is followed."""
        self.refuse_link(name)  # for a clear word; the opening refuses it too, whatever was put there since
        if self.handle is None:
            self.path = os.path.join(self.path, name)
            if not stat.S_ISDIR(os.lstat(self.path).st_mode):
                raise NotADirectoryError(errno.ENOTDIR, "not a folder")
            return
        inner = os.open(name, _FOLDER, dir_fd=self.handle)
        self.close()
        self.handle = inner

    def close(self) -> None:
        if self.handle is not None:
            os.close(self.handle)
            self.handle = None

    def look(self, name: str) -> os.stat_result:
        """What stands there, a link as a link."""
        if self.handle is None:
            return os.lstat(os.path.join(self.path, name))
        return os.stat(name, dir_fd=self.handle, follow_symlinks=False)

    def refuse_link(self, name: str) -> None:
        if _is_link(self.look(name)):
            raise ToolFailure("path_outside_workspace", f"{quoted(name)} is a link, and links are not followed.")

    def open(self, name: str, flags: int) -> int:
        if self.handle is None:
            return os.open(os.path.join(self.path, name), flags, 0o666)
        return os.open(name, flags, 0o666, dir_fd=self.handle)

    def rename(self, old: str, new: str) -> None:
        if self.handle is None:
            os.replace(os.path.join(self.path, old), os.path.join(self.path, new))
        else:
            os.replace(old, new, src_dir_fd=self.handle, dst_dir_fd=self.handle)

    def remove(self, name: str) -> None:
        if self.handle is None:
            os.unlink(os.path.join(self.path, name))
        else:
            os.unlink(name, dir_fd=self.handle)

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
    folder.refuse_link(name)
    file = folder.open(name, _FILE)
    try:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode):
            raise ToolFailure("not_a_file", f"{quoted(name)} is no regular file.")
        if folder.handle is None and not os.path.samestat(found, folder.look(name)):
            raise ToolFailure("path_outside_workspace", f"{quoted(name)} was changed for something else.")
        yield file
    finally:
        os.close(file)


def _read(file: int, limit: int) -> bytes:
    content = b""
    while len(content) < limit:
        more = os.read(file, min(limit - len(content), 1 << 16))
        if not more:
            break
        content += more
    return content


def _replace(folder: _Folder, name: str, content: bytes) -> None:
    mode = None
    with suppress(FileNotFoundError):
        folder.refuse_link(name)
        mode = folder.look(name).st_mode
        if not stat.S_ISREG(mode):
            raise ToolFailure("not_a_file", f"{quoted(name)} is no regular file.")
    beside = f".keel-{token_hex(8)}.tmp"
    file = folder.open(beside, _NEW)
    try:
        try:
            if mode is not None and hasattr(os, "fchmod"):
                os.fchmod(file, stat.S_IMODE(mode) & 0o777)
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


def _is_name(name: str) -> bool:
    """Whether this is a plain name on every system: nothing that prints nothing, no other system's separators.

    Full-width dots and slashes turn into real ones wherever text is normalised; Windows drops dots and
    spaces at the end, and takes `con` for a device and a colon for a stream.
    """
    plain = unicodedata.normalize("NFKC", name)
    if not name.isprintable() or any(character in "/\\:" for character in plain):
        return False
    if plain in (".", "..") or name.endswith((".", " ")) or name.startswith(" "):
        return False
    return len(os.fsencode(name)) <= 255 and name.split(".")[0].casefold() not in _DEVICES


_CODES = {
    errno.ENOENT: ("file_not_found", "There is no such file or folder."),
    errno.ENOTDIR: ("file_not_found", "There is no such file or folder."),
    errno.ELOOP: ("path_outside_workspace", "A link stands there, and links are not followed."),
    errno.EISDIR: ("not_a_file", "That is a folder."),
    errno.ENXIO: ("not_a_file", "That is no regular file."),
    errno.ENAMETOOLONG: ("path_invalid", "That name is too long."),
    errno.ENOSPC: ("file_unavailable", "The disk is full."),
}


def _failure(error: OSError) -> ToolFailure:
    return ToolFailure(*_CODES.get(error.errno or 0, ("file_unavailable", "The file cannot be used just now.")))

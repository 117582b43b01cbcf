"""A zip file from a stranger: read in memory, with its size counted while it is unpacked."""

from __future__ import annotations

import io
import posixpath
import re
import unicodedata
import zipfile
import zlib

from onceward_apps.documents.limits import MB, ReadingLimits
from onceward_apps.documents.reading import Reason, Unreadable

_BLOCK = 1 << 16
_ENTRY = b"PK\x01\x02"
_RATIO_FROM = 10 * MB
_DRIVE = re.compile(r"[A-Za-z]:")


class Archive:
    """The files in a zip, by name. Nothing that its headers say of sizes is believed."""

    def __init__(self, data: bytes, limits: ReadingLimits) -> None:
        self._data = data
        self._limits = limits
        self._unpacked: dict[str, int] = {}
        self._total = 0
        if data.count(_ENTRY) > limits.zip_entries:
            raise Unreadable(Reason.ZIP_BOMB, f"more than {limits.zip_entries:,} files")
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(data))
            entries = self._zip.infolist()
        except (zipfile.BadZipFile, ValueError, OverflowError, NotImplementedError, EOFError) as error:
            raise Unreadable(Reason.BROKEN, f"the zip can't be read: {error}") from error
        for entry in entries:
            if _escapes(entry.orig_filename):
                raise Unreadable(Reason.UNSAFE_PATH, f"the zip holds a file named {entry.orig_filename[:200]!r}")
        self._entries = {entry.filename: entry for entry in entries if not entry.is_dir()}
        self._alike = {_folded(name): name for name in self._entries}

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all files."""
        return tuple(self._entries)

    def find(self, name: str) -> str | None:
        """The file's name as the zip spells it, whatever the case and the form of its accents; None if it has none."""
        return name if name in self._entries else self._alike.get(_folded(name))

    def read(self, name: str) -> bytes:
        """A file, unpacked. Raises Unreadable where it is broken, encrypted or unpacks to too much."""
        entry = self._entries[name]
        if entry.flag_bits & 0x1:
            raise Unreadable(Reason.ENCRYPTED, f"{name} needs a password")
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise Unreadable(Reason.BROKEN, f"{name} is packed in a way that books don't use")
        blocks = []
        size = 0
        try:
            with self._zip.open(entry) as packed:
                while block := packed.read(_BLOCK):
                    size += len(block)
                    self._count(name, size)
                    blocks.append(block)
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, NotImplementedError) as error:
            raise Unreadable(Reason.BROKEN, f"{name}: {error}") from error
        return b"".join(blocks)

    def close(self) -> None:
        """Let go of the file."""
        self._zip.close()

    def _count(self, name: str, size: int) -> None:
        """Stop as soon as it is too much. A file that is read twice counts once."""
        self._total += max(0, size - self._unpacked.get(name, 0))
        self._unpacked[name] = max(size, self._unpacked.get(name, 0))
        if self._total > self._limits.unpacked_bytes:
            raise Unreadable(Reason.ZIP_BOMB, f"it unpacks to more than {self._limits.unpacked_bytes / MB:,.0f} MB")
        if self._total > _RATIO_FROM and self._total > len(self._data) * self._limits.unpacked_ratio:
            raise Unreadable(Reason.ZIP_BOMB, f"it unpacks to more than {self._limits.unpacked_ratio} times its size")
        if size > self._limits.page_bytes:
            raise Unreadable(Reason.TOO_LARGE, f"{name} is larger than {self._limits.page_bytes / MB:,.0f} MB")


def resolved(base: str, reference: str) -> str:
    """The name in the zip that a reference in the file `base` means. Raises Unreadable if it leads out of the zip."""
    path = posixpath.normpath(posixpath.join(posixpath.dirname(base), reference))
    if _escapes(path):
        raise Unreadable(Reason.UNSAFE_PATH, f"{base} refers to {reference[:200]!r}")
    return path


def _escapes(name: str) -> bool:
    """Whether a path leads out of the folder it is in, on any system."""
    plain = name.replace("\\", "/")
    return plain.startswith("/") or ".." in plain.split("/") or bool(_DRIVE.match(plain)) or "\x00" in plain


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()

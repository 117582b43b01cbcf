"""What the package file of an EPUB says: its metadata, and its pages in reading order."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from urllib.parse import unquote

import msgspec
from lxml import etree

from onceward_apps.documents.readers.archive import Archive, resolved
from onceward_apps.documents.readers.few_elements import name_of
from onceward_apps.documents.readers.safe_xml import parsed_xml
from onceward_apps.documents.reading import Reason, Unreadable

_CONTAINER = "META-INF/container.xml"
_ENCRYPTION = "META-INF/encryption.xml"
_READ = {"application/xhtml+xml", "text/html", "text/x-oeb1-document", "application/x-dtbook+xml", "image/svg+xml"}
_LONGEST_CHAIN = 20
"""How many times a book may name something else in the stead of what cannot be read."""
_ELSEWHERE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")


class Page(msgspec.Struct, frozen=True):
    """A file of the spine."""

    name: str
    """In the zip."""
    is_navigation: bool = False
    """Whether it is the book's list of contents."""
    is_cover: bool = False
    """Whether the book says that it is its cover."""


class Package(msgspec.Struct, frozen=True, kw_only=True):
    """A book as its package file describes it."""

    pages: tuple[Page, ...]
    title: str | None
    creators: tuple[str, ...]
    language: str | None
    published: str | None
    identifier: str | None
    warnings: tuple[str, ...]


def read_package(archive: Archive) -> Package:
    """The package of the book in an archive. Raises Unreadable."""
    warnings: list[str] = []
    name = _package_name(archive, warnings)
    root = parsed_xml(archive.read(name), name)
    pages = tuple(_spine(archive, name, root, warnings))
    _refuse_encrypted(archive, pages)
    return Package(
        pages=pages,
        title=next(_metadata(root, "title"), None),
        creators=tuple(dict.fromkeys(_metadata(root, "creator"))),
        language=next(_metadata(root, "language"), None),
        published=_published(root),
        identifier=_identifier(root),
        warnings=tuple(warnings),
    )


def _package_name(archive: Archive, warnings: list[str]) -> str:
    """The package file: the one that the container names, or the only one there is."""
    if (container := archive.find(_CONTAINER)) is not None:
        for element in parsed_xml(archive.read(container), container).iter():
            if name_of(element) == "rootfile" and element.get("full-path"):
                path = resolved("", unquote(element.get("full-path", "")))
                if (found := archive.find(path)) is not None:
                    return found
    candidates = sorted(name for name in archive.names if name.lower().endswith(".opf"))
    if not candidates:
        raise Unreadable(Reason.BROKEN, "it names no package file, and holds none")
    warnings.append(f"its container names no package file that exists; {candidates[0]} was taken")
    return candidates[0]


def _spine(archive: Archive, package: str, root: etree._Element, warnings: list[str]) -> Iterator[Page]:
    """The pages in reading order, each once. What is not part of the main line is read at its place all the same."""
    manifest = {one.get("id"): one for one in root.iter() if name_of(one) == "item"}
    covers = {
        resolved(package, _path_of(one)) for one in root.iter()
        if name_of(one) == "reference" and one.get("type", "").lower() == "cover"
    }  # fmt: skip
    seen: set[str] = set()
    for reference in (one for one in root.iter() if name_of(one) == "itemref"):
        item = _readable(manifest, reference.get("idref"))
        if item is None:
            warnings.append(f"its spine names {reference.get('idref')!r}, which is no page")
            continue
        if _ELSEWHERE.match(item.get("href", "")):
            warnings.append(f"a page is elsewhere: {item.get('href')}")
            continue
        path = resolved(package, _path_of(item))
        if (name := archive.find(path)) is None:
            warnings.append(f"a page is missing: {path}")
        elif name not in seen:
            seen.add(name)
            yield Page(name, "nav" in item.get("properties", "").split(), path in covers)


def _readable(manifest: dict[str | None, etree._Element], idref: str | None) -> etree._Element | None:
    """The item with this id if it is a page, or what the book offers in its stead."""
    seen: set[str | None] = set()
    while idref not in seen and len(seen) < _LONGEST_CHAIN and (item := manifest.get(idref)) is not None:
        looks_like_page = posixpath.splitext(_path_of(item))[1].lower() in (".xhtml", ".html", ".htm")
        if item.get("media-type", "").lower() in _READ or looks_like_page:
            return item
        seen.add(idref)
        idref = item.get("fallback")
    return None


def _path_of(element: etree._Element) -> str:
    return unquote(element.get("href", "").partition("#")[0]).strip()


def _refuse_encrypted(archive: Archive, pages: tuple[Page, ...]) -> None:
    """Encrypted pages can't be read. Fonts and pictures may be what they like."""
    if (name := archive.find(_ENCRYPTION)) is None:
        return
    read = {page.name for page in pages}
    for one in parsed_xml(archive.read(name), name).iter():
        if name_of(one) == "cipherreference":
            target = resolved("", unquote(one.get("URI", "")))
            if archive.find(target) in read:
                raise Unreadable(Reason.ENCRYPTED, f"{target} is encrypted")


def _metadata(root: etree._Element, name: str) -> Iterator[str]:
    """The values of an element of the Dublin Core, as it stands."""
    for element in root.iter(f"{{http://purl.org/dc/elements/1.1/}}{name}"):
        if text := " ".join("".join(element.itertext()).split()):
            yield text


def _published(root: etree._Element) -> str | None:
    """The date of publication, if it is marked as such, or the first one."""
    dates = list(root.iter("{http://purl.org/dc/elements/1.1/}date"))
    marked = [one for one in dates if "publication" in one.attrib.values()]
    return next((text for one in (*marked, *dates) if (text := (one.text or "").strip())), None)


def _identifier(root: etree._Element) -> str | None:
    """The identifier that the book calls its own, or the first one."""
    found = list(root.iter("{http://purl.org/dc/elements/1.1/}identifier"))
    own = [one for one in found if one.get("id") is not None and one.get("id") == root.get("unique-identifier")]
    return next((text for one in (*own, *found) if (text := (one.text or "").strip())), None)

"""Text documents of office programs: .docx (Word) and .odt (LibreOffice), read with zip and XML alone.

Both are made into a tree of HTML elements, from which the markdown is written as from a page: headings, paragraphs,
lists, tables, emphasis, and footnotes at the end. Deleted text of tracked changes and comments are left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from lxml import etree

from onceward_apps.documents.limits import ReadingLimits
from onceward_apps.documents.readers.archive import Archive
from onceward_apps.documents.readers.one_part import OnePart
from onceward_apps.documents.readers.prose import markdown_of
from onceward_apps.documents.readers.safe_xml import parsed_xml
from onceward_apps.documents.reading import About, Document, Reason, Unreadable
from onceward_apps.documents.snapshot import Snapshot

_HEADING = re.compile(r"(?:heading|überschrift|titre|título|titolo) ?([1-9])", re.IGNORECASE)
_DEEPEST_LIST = 9
_MOST_SPACES = 100


def open_docx(snapshot: Snapshot, warnings: tuple[str, ...], limits: ReadingLimits) -> Document:
    """Read a document of Word. Raises Unreadable."""
    archive = Archive(snapshot.data, limits)
    try:
        root = _file(archive, "word/document.xml")
        if root is None:
            raise Unreadable(Reason.BROKEN, "it has no word/document.xml")
        body = etree.Element("body")
        styles = _styles(archive)
        _Docx(styles, body).read(root)
        notes = _file(archive, "word/footnotes.xml")
        if notes is not None:
            _Docx(styles, body).read(notes)
        return OnePart(_about(archive, "docProps/core.xml", "docx", warnings), markdown_of(body))
    finally:
        archive.close()


def open_odt(snapshot: Snapshot, warnings: tuple[str, ...], limits: ReadingLimits) -> Document:
    """Read a document of LibreOffice. Raises Unreadable."""
    archive = Archive(snapshot.data, limits)
    try:
        manifest = _file(archive, "META-INF/manifest.xml")
        if manifest is not None and any(_name(one) == "encryption-data" for one in manifest.iter()):
            raise Unreadable(Reason.ENCRYPTED, "it needs a password")
        root = _file(archive, "content.xml")
        if root is None:
            raise Unreadable(Reason.BROKEN, "it has no content.xml")
        body, notes = etree.Element("body"), etree.Element("body")
        reader = _Odt(notes)
        for text in root.iter():
            if _name(text) == "text" and _name(text.getparent()) == "body":
                reader.blocks(text, body)
        body.extend(list(notes))
        return OnePart(_about(archive, "meta.xml", "odt", warnings), markdown_of(body))
    finally:
        archive.close()


def _file(archive: Archive, name: str) -> etree._Element | None:
    found = archive.find(name)
    return None if found is None else parsed_xml(archive.read(found), name)


def _about(archive: Archive, name: str, kind: str, warnings: tuple[str, ...]) -> About:
    """Return what the properties of a document say; nothing where they cannot be read."""
    said: dict[str, str] = {}
    try:
        root = _file(archive, name)
    except Unreadable:
        root = None
    for one in () if root is None else root.iter():
        text = " ".join((one.text or "").split())
        if text and isinstance(one.tag, str):
            said.setdefault(_name(one), text)
    author = said.get("initial-creator") or said.get("creator")
    return About(
        format=kind,
        title=said.get("title"),
        creators=(author,) if author else (),
        language=said.get("language"),
        published=said.get("creation-date") or said.get("created") or said.get("date"),
        warnings=warnings,
    )


def _name(element: etree._Element | None) -> str:
    """Return the name of an element without its namespace; nothing for a comment."""
    return "" if element is None or not isinstance(element.tag, str) else element.tag.rpartition("}")[2]


def _value(element: etree._Element | None, name: str = "val") -> str:
    """Return an attribute, whatever its namespace."""
    if element is None:
        return ""
    return next((value for key, value in element.attrib.items() if str(key).rpartition("}")[2] == name), "")


def _child(element: etree._Element | None, *names: str) -> etree._Element | None:
    """Return the element at the end of a path of names."""
    for name in names:
        element = None if element is None else next((one for one in element if _name(one) == name), None)
    return element


def _say(into: etree._Element, text: str) -> None:
    """Append text to an element, behind what it has."""
    if len(into):
        into[-1].tail = (into[-1].tail or "") + text
    else:
        into.text = (into.text or "") + text


def _list_at(body: etree._Element, level: int) -> etree._Element:
    """Return the list of a depth at the end of a body, begun where it is not there."""
    last = body[-1] if len(body) else None
    found = last if last is not None and last.tag == "ul" else etree.SubElement(body, "ul")
    for _ in range(min(level, _DEEPEST_LIST)):
        item = found[-1] if len(found) else etree.SubElement(found, "li")
        inner = next((one for one in item if one.tag == "ul"), None)
        found = etree.SubElement(item, "ul") if inner is None else inner
    return found


class _Styles(NamedTuple):
    """What the styles of a document mean, by their ids, which are translated; names and levels are not."""

    headings: dict[str, int]
    lists: dict[str, int]
    """How deep the list is whose items have this style."""


def _styles(archive: Archive) -> _Styles:
    """Return the styles of headings and of list items; none where they cannot be read."""
    found = _Styles({}, {})
    try:
        root = _file(archive, "word/styles.xml")
    except Unreadable:
        return found
    for style in () if root is None else (one for one in root if _name(one) == "style"):
        own, name = _value(style, "styleId"), _value(_child(style, "name"))
        outline = _value(_child(style, "pPr", "outlineLvl"))
        numbering = _child(style, "pPr", "numPr")
        if named := _HEADING.fullmatch(name):
            found.headings[own] = int(named[1])
        elif outline.isdecimal() and int(outline) < 9:
            found.headings[own] = int(outline) + 1
        elif name.lower() == "title":
            found.headings[own] = 1
        elif numbering is not None:
            depth, last = _value(_child(numbering, "ilvl")), name.rpartition(" ")[2]
            found.lists[own] = int(depth) if depth.isdecimal() else int(last) - 1 if last.isdecimal() else 0
    return found


class _Docx:
    """Writes the elements of WordprocessingML as HTML."""

    def __init__(self, styles: _Styles, body: etree._Element) -> None:
        self._styles = styles
        self._body = body

    def read(self, root: etree._Element) -> None:
        """Read all paragraphs and tables below an element, in their order."""
        for block in _blocks(root, {"p", "tbl"}):
            if _name(block) == "p":
                self._paragraph(block, self._body)
            else:
                self._table(block)

    def _paragraph(self, paragraph: etree._Element, into: etree._Element) -> None:
        properties = _child(paragraph, "pPr")
        style = _value(_child(properties, "pStyle"))
        level = self._styles.headings.get(style, int(match[1]) if (match := _HEADING.fullmatch(style)) else 0)
        depth = self._list_depth(_child(properties, "numPr"), style)
        if level:
            written = etree.SubElement(into, f"h{min(level, 6)}")
        elif depth is not None and into is self._body:
            written = etree.SubElement(_list_at(into, depth), "li")
        else:
            written = etree.SubElement(into, "p")
        self._runs(paragraph, written)

    def _list_depth(self, numbering: etree._Element | None, style: str) -> int | None:
        """Return how deep in lists a paragraph is; None if it is in none."""
        if numbering is None:
            return self._styles.lists.get(style)
        if _value(_child(numbering, "numId")) == "0":  # which takes a paragraph out of the list of its style
            return None
        depth = _value(_child(numbering, "ilvl"))
        return int(depth) if depth.isdecimal() else 0

    def _runs(self, within: etree._Element, into: etree._Element) -> None:
        for one in within:
            match _name(one):
                case "t":
                    _say(into, one.text or "")
                case "tab" | "ptab":
                    _say(into, " ")
                case "br" | "cr":
                    etree.SubElement(into, "br")
                case "noBreakHyphen":
                    _say(into, "-")
                case "r":
                    self._runs(one, _marked(into, _is_on(one, "b"), _is_on(one, "i")))
                case "pPr" | "rPr" | "sectPr" | "del" | "moveFrom" | "instrText" | "Fallback" | "":
                    pass
                case "txbxContent":  # the text of a frame, where it is anchored
                    for paragraph in _blocks(one, {"p"}):
                        _say(into, " ")
                        self._runs(paragraph, into)
                case _:
                    self._runs(one, into)

    def _table(self, table: etree._Element) -> None:
        written = etree.SubElement(self._body, "table")
        for row in (one for one in table.iter() if _name(one) == "tr"):
            line = etree.SubElement(written, "tr")
            for cell in (one for one in row if _name(one) == "tc"):
                into = etree.SubElement(line, "td")
                for paragraph in _blocks(cell, {"p"}):
                    _say(into, " ")
                    self._runs(paragraph, into)


def _is_on(run: etree._Element, mark: str) -> bool:
    found = _child(run, "rPr", mark)
    return found is not None and _value(found) not in ("0", "false", "none")


def _marked(into: etree._Element, bold: bool, italic: bool) -> etree._Element:
    for tag in [name for name, is_on in (("strong", bold), ("em", italic)) if is_on]:
        into = etree.SubElement(into, tag)
    return into


def _blocks(root: etree._Element, names: set[str]) -> Iterator[etree._Element]:
    """Yield the outermost elements of some names, in order; what stands in one belongs to it."""
    walk = etree.iterwalk(root, events=("start",))
    for _, element in walk:
        if element is root:
            continue
        if _name(element) in ("del", "moveFrom", "Fallback"):
            walk.skip_subtree()
        elif _name(element) in names:
            yield element
            walk.skip_subtree()


class _Odt:
    """Writes the elements of OpenDocument text as HTML."""

    def __init__(self, notes: etree._Element) -> None:
        self._notes = notes

    def blocks(self, within: etree._Element, into: etree._Element) -> None:
        """Write all blocks of an element."""
        for one in within:
            self._block(one, into)

    def _block(self, one: etree._Element, into: etree._Element) -> None:
        write: dict[str, Callable[[etree._Element, etree._Element], None]] = {"list": self._list, "table": self._table}
        match _name(one):
            case "h":
                level = _value(one, "outline-level")
                self._inline(one, etree.SubElement(into, f"h{min(int(level) if level.isdecimal() else 1, 6) or 1}"))
            case "p":
                self._inline(one, etree.SubElement(into, "p"))
            case "list" | "table" as name:
                write[name](one, into)
            case "tracked-changes" | "annotation" | "sequence-decls" | "forms" | "":
                pass
            case _:  # a section, an index, a frame: what stands in it
                self.blocks(one, into)

    def _list(self, one: etree._Element, into: etree._Element) -> None:
        written = etree.SubElement(into, "ul")
        for item in (each for each in one if _name(each) in ("list-item", "list-header")):
            line = etree.SubElement(written, "li")
            for block in item:
                if _name(block) in ("p", "h"):
                    self._inline(block, line)
                else:
                    self._block(block, line)

    def _table(self, one: etree._Element, into: etree._Element) -> None:
        written = etree.SubElement(into, "table")
        for row in (each for each in one.iter() if _name(each) == "table-row"):
            line = etree.SubElement(written, "tr")
            for cell in (each for each in row if _name(each) == "table-cell"):
                written_cell = etree.SubElement(line, "td")
                for block in _blocks(cell, {"p", "h"}):
                    _say(written_cell, " ")
                    self._inline(block, written_cell)

    def _inline(self, within: etree._Element, into: etree._Element) -> None:
        _say(into, within.text or "")
        for one in within:
            match _name(one):
                case "s":
                    count = _value(one, "c")
                    _say(into, " " * min(int(count) if count.isdecimal() else 1, _MOST_SPACES))
                case "tab":
                    _say(into, " ")
                case "line-break":
                    etree.SubElement(into, "br")
                case "note":
                    body = _child(one, "note-body")
                    if body is not None:
                        self.blocks(body, self._notes)
                case "annotation" | "annotation-end" | "bookmark" | "":
                    pass
                case "text-box":
                    for block in _blocks(one, {"p", "h"}):
                        _say(into, " ")
                        self._inline(block, into)
                case _:
                    self._inline(one, into)
            _say(into, one.tail or "")

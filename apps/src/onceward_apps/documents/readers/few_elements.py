"""A tree of HTML written anew in a few elements: headings, paragraphs, lists, quotations, tables, emphasis."""

from __future__ import annotations

import re
from html import escape

from lxml import etree

NUMBERED = "\ue000"
"""Stands where the item of a numbered list begins, so that the numbers that conversion adds are known as such."""

_DROPPED = {"head", "script", "style", "template", "annotation", "annotation-xml"}
_HEADINGS = {"h1", "h2", "h3", "h4", "h5", "h6"}
_INSIDE = {"li": ("ul", "ol"), "tr": ("table",), "td": ("tr",), "th": ("tr",)}
"""What makes sense only inside of something else."""
_BLOCKS = _HEADINGS | _INSIDE.keys() | {
    "address", "article", "aside", "blockquote", "body", "caption", "center", "dd", "details", "dialog", "div", "dl",
    "dt", "fieldset", "figcaption", "figure", "footer", "form", "header", "hgroup", "hr", "html", "legend", "main",
    "menu", "nav", "ol", "option", "p", "pre", "section", "summary", "table", "tbody", "text", "textarea", "tfoot",
    "thead", "title", "ul",
}  # fmt: skip
_MARKS = {
    "em": "em", "i": "em", "cite": "em", "dfn": "em", "var": "em",
    "strong": "strong", "b": "strong",
    "code": "code", "kbd": "code", "samp": "code", "tt": "code",
}  # fmt: skip
_TOO_MUCH_FOR_A_CELL = (*_HEADINGS, "blockquote", "ul", "ol", "dl", "pre", "table", "hr")
_LONGEST_CELL = 400
_DEEPEST = 12
"""Lists in lists and quotations in quotations beyond this are written side by side."""
_SPACE = re.compile(r"[ \t\r\n\f\xa0]+")


def written_in_few_elements(body: etree._Element) -> str:
    """HTML with all the text of an element, in its order, and nothing that a converter could lose."""
    writer = _Writer()
    walk = etree.iterwalk(body, events=("start", "end", "comment", "pi"))
    for event, element in walk:
        if event == "start":
            if _is_dropped(element):
                walk.skip_subtree()
            else:
                writer.begin(element)
                writer.say(element.text)
            continue
        if event == "end" and not _is_dropped(element):
            writer.end(element)
        if element is not body:
            writer.say(element.tail)
    writer.end_paragraph()
    return "".join(writer.pieces)


class _Writer:
    """What was written so far, and what is open."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self._open: list[str] = []
        """The elements that hold others, outermost first."""
        self._paragraph: str | None = None
        """The paragraph, heading or text with its own line ends that is open; "" in the cell of a table."""
        self._is_written = False
        """Whether it has text yet."""
        self._whole: etree._Element | None = None
        """The heading, or text with its own line ends, in which everything is part of the line."""
        self._marks: set[str] = set()
        self._endings: dict[etree._Element, str] = {}
        """What is to be written at the end of an element."""
        self._last = " "
        """The character before the next."""
        self._is_numbered = False
        """Whether the next paragraph is the first of an item in a numbered list."""

    def begin(self, element: etree._Element) -> None:
        """Write what an element begins with."""
        name = name_of(element)
        if self._whole is not None:
            if name in _BLOCKS or name == "br":
                self._separate(name)
            else:
                self._begin_inline(element, name)
        elif (whole := _whole(element, name)) is not None:
            self._begin_paragraph(whole)
            self._whole = element
        elif name in ("blockquote", "ul", "ol", "table") or name in _INSIDE:
            self._begin_container(element, name)
        elif name in _BLOCKS:
            self._begin_paragraph("p" if name == "p" else None)
            if name == "hr":
                self.pieces.append("<hr/>")
        elif name == "br":
            if self._is_written:
                self.pieces.append("<br/>")
                self._last = " "
        else:
            self._begin_inline(element, name)

    def end(self, element: etree._Element) -> None:
        """Write what an element ends with."""
        ending = self._endings.pop(element, None)
        if element is self._whole:
            self._whole = None
            self.end_paragraph()
        elif self._whole is None and name_of(element) in _BLOCKS:
            self.end_paragraph()
            if ending is not None:
                self._open.pop()
                self.pieces.append(ending)
        elif ending is not None:
            self._marks.discard(ending)
            self._write(ending if not ending.isalpha() else f"</{ending}>", escaped=False)

    def say(self, text: str | None) -> None:
        """Write text where it belongs: into the open paragraph, or into a new one."""
        if not text:
            return
        if self._paragraph != "pre":
            text = _SPACE.sub(" ", text)
            if self._last.isspace():
                text = text.lstrip(" ")
        if text and (self._is_written or not text.isspace()):
            self._write(text)

    def end_paragraph(self) -> None:
        """Whatever is said next is another paragraph."""
        if self._is_written:
            self.pieces.append(f"</{self._paragraph}>" if self._paragraph else " ")
        self._paragraph, self._is_written, self._last = None, False, " "

    def _begin_paragraph(self, name: str | None) -> None:
        self.end_paragraph()
        self._paragraph = name

    def _begin_container(self, element: etree._Element, name: str) -> None:
        """Begin what holds paragraphs, if it is where it makes sense and its form can be kept."""
        self.end_paragraph()
        within = self._open[-1] if self._open else ""
        if name in _INSIDE:
            if within not in _INSIDE[name]:
                return
        elif within == "tr" or len(self._open) >= _DEEPEST or (name == "table" and not _is_simple(element)):
            return
        self._open.append(name)
        self._endings[element] = f"</{name}>"
        start = element.get("start", "") if name == "ol" else ""
        self.pieces.append(f'<ol start="{int(start)}">' if start.isdecimal() and len(start) < 6 else f"<{name}>")
        if name == "li":
            self._is_numbered = within == "ol"

    def _begin_inline(self, element: etree._Element, name: str) -> None:
        """Begin emphasis, a reference to a note, a reading beside a character."""
        if is_note_reference(element):
            self._write("[^")
            self._endings[element] = "]"
        elif name == "sup" and short_text(element).isdecimal() and self._last.isalnum():
            self._write("^")  # ten to the third is not one hundred and three
        elif name == "rt" and not _is_bracket(element.getprevious()):
            self._write("(")
            self._endings[element] = ")"
        elif name == "q":
            self._write("“")
            self._endings[element] = "”"
        elif (mark := _MARKS.get(name)) is not None and self._may_mark(element, mark):
            self._write(f"<{mark}>", escaped=False)
            self._marks.add(mark)
            self._endings[element] = mark

    def _may_mark(self, element: etree._Element, mark: str) -> bool:
        """Emphasis is kept around whole words, in running text."""
        if self._whole is not None or self._last.isalnum() or mark in self._marks or "code" in self._marks:
            return False
        is_within_a_word = (element.tail or " ")[0].isalnum()
        has_blocks = any(name_of(one) in _BLOCKS for one in element.iterdescendants())
        is_blank = all(not text or text.isspace() for text in element.itertext())
        return not is_within_a_word and not has_blocks and not is_blank

    def _separate(self, name: str) -> None:
        """What parts lines elsewhere parts words in a heading."""
        if self._paragraph == "pre":
            self._write("\n")
        elif name in _HEADINGS or name == "p":
            self.say(": " if self._is_written and self._last.isalnum() else " ")
        else:
            self.say(" ")

    def _write(self, text: str, *, escaped: bool = True) -> None:
        if not self._is_written:
            if self._paragraph is None:
                self._paragraph = "" if "tr" in self._open[-2:] else "p"
            if self._paragraph:
                self.pieces.append(f"<{self._paragraph}>")
            if self._is_numbered:
                self.pieces.append(NUMBERED)
            self._is_written, self._is_numbered = True, False
        self.pieces.append(escape(text, quote=False) if escaped else text)
        if escaped:
            self._last = text[-1]


def name_of(element: etree._Element) -> str:
    """An element's name, whatever its namespace and case; "" for what is no element."""
    return element.tag.rpartition("}")[2].lower() if isinstance(element.tag, str) else ""


def short_text(element: etree._Element, longest: int = 6) -> str:
    """The text of an element if it has no more characters than this, without space around it; "" if it has more."""
    text = ""
    for piece in element.itertext():
        text += piece
        if len(text.strip()) > longest:
            return ""
    return text.strip()


def purposes_of(element: etree._Element) -> set[str]:
    """What a page of a book says that an element is for, such as "noteref"."""
    return {
        word
        for attribute in ("{http://www.idpf.org/2007/ops}type", "epub:type", "role")
        for word in element.get(attribute, "").split()
    }


def is_note_reference(element: etree._Element) -> bool:
    """Whether an element is the short mark that leads to a note."""
    name = name_of(element)
    text = short_text(element) if name in ("a", "sup") else ""
    if not text.isalnum() or (name == "sup" and _is_note_link(element.getparent())):
        return False
    return _is_note_link(element) or (name == "sup" and len(element) == 1 and _is_link(element[0]) and text.isdecimal())


def _is_note_link(element: etree._Element | None) -> bool:
    if element is None or name_of(element) != "a":
        return False
    if {"noteref", "doc-noteref"} & purposes_of(element):
        return True
    return _is_link(element) and len(element) == 1 and name_of(element[0]) == "sup" and not (element.text or "").strip()


def _is_link(element: etree._Element) -> bool:
    return name_of(element) == "a" and "#" in element.get("href", "")


def _is_dropped(element: etree._Element) -> bool:
    """What holds no words of the text: programs, styles, the arrow that leads back from a note."""
    if name_of(element) == "a":
        is_way_back = bool({"backlink", "doc-backlink"} & purposes_of(element))
        return is_way_back and not any(one.isalnum() for one in short_text(element) or "long")
    return name_of(element) in _DROPPED


def _whole(element: etree._Element, name: str) -> str | None:
    """What an element is written as in one piece: a heading, or text with its own line ends."""
    if name == "hgroup":
        return next((name_of(one) for one in element.iterdescendants() if name_of(one) in _HEADINGS), None)
    return name if name in _HEADINGS or name == "pre" else None


def _is_simple(table: etree._Element) -> bool:
    """Whether a table holds short cells. Others arrange a page, and are read cell by cell."""
    if any(name_of(one) in _TOO_MUCH_FOR_A_CELL for one in table.iterdescendants()):
        return False
    cells = [one for one in table.iterdescendants() if name_of(one) in ("td", "th")]
    return bool(cells) and all(len("".join(one.itertext())) <= _LONGEST_CELL for one in cells)


def _is_bracket(element: etree._Element | None) -> bool:
    """Whether the reading beside a character has brackets of its own."""
    return element is not None and name_of(element) == "rp"

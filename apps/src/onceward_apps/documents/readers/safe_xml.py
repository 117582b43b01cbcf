"""XML and XHTML from a stranger: no entity is expanded, nothing is fetched, and books that are a bit wrong are read."""

from __future__ import annotations

import re
from html.entities import html5

from lxml import etree

from onceward_apps.documents.encoding import decoded
from onceward_apps.documents.reading import Reason, Unreadable

_DECLARATION = re.compile(r"^\s*<\?xml[^>]*\?>")
_BEGUN = re.compile(r"<!DOCTYPE\s", re.IGNORECASE)
_DOCTYPE = re.compile(r"<!DOCTYPE\s[^\[>]*(\[(?P<subset>.*?)\]\s*)?>", re.IGNORECASE | re.DOTALL)
_ENTITY = re.compile(r"<!ENTITY\b(?P<rest>[^>]*)>?", re.IGNORECASE)
_CHARACTERS = re.compile(
    r"""\s+(?P<name>[\w.-]+)\s+(?P<quote>["'])(?P<value>[^&%<"']{0,20}|&#x?[\da-fA-F]{1,6};)(?P=quote)\s*"""
)
_REFERENCE = re.compile(r"&(?:(?P<name>[A-Za-z][\w.-]*);|(?P<number>#(?:\d{1,7}|[xX][\da-fA-F]{1,6});))?")
_OF_XML = {"amp", "lt", "gt", "quot", "apos"}


def parsed_xml(data: bytes, name: str) -> etree._Element:
    """A file that must be XML, such as a book's package file. Raises Unreadable."""
    text = _prepared(decoded(data), name)
    try:
        return _tree(text, recover=False)
    except etree.XMLSyntaxError as error:
        try:
            return _tree(text, recover=True)
        except etree.XMLSyntaxError:
            raise Unreadable(Reason.BROKEN, f"{name} is no XML: {error.msg}") from error


def parsed_page(data: bytes, name: str) -> etree._Element:
    """A page of a book: XHTML, or what was meant as such. Raises Unreadable."""
    text = _prepared(decoded(data), name)
    try:
        return _tree(text, recover=False)
    except etree.XMLSyntaxError:
        return parsed_html(text)


def parsed_html(text: str) -> etree._Element:
    """HTML as browsers take it: every text is some tree. Raises Unreadable where it is nested beyond all sense."""
    parser = etree.HTMLParser(no_network=True, huge_tree=True, remove_pis=True)
    try:
        root = etree.fromstring(_DECLARATION.sub("", text), parser)
    except etree.XMLSyntaxError:
        root = None  # nothing in it
    if any("Excessive depth" in problem.message for problem in parser.error_log):
        raise Unreadable(Reason.BROKEN, "its elements are nested thousands deep")
    return root if root is not None else etree.Element("html")


def _tree(text: str, *, recover: bool) -> etree._Element:
    # What makes huge trees dangerous are entities, and none are left; sizes are limited before.
    parser = etree.XMLParser(resolve_entities=False, load_dtd=False, no_network=True, huge_tree=True, recover=recover)
    root = etree.fromstring(text, parser)
    if root is None:
        raise etree.XMLSyntaxError("nothing in it", 0, 0, 0)
    return root


def _prepared(text: str, name: str) -> str:
    """The text without declarations, and with the characters that its named entities stand for."""
    own: dict[str, str] = {}
    # Looked for once, not wherever a first try fails: a file of nothing but beginnings would take for ever.
    if (begun := _BEGUN.search(text)) and (doctype := _DOCTYPE.match(text, begun.start())):
        own = _own_entities(doctype["subset"] or "", name)
        text = text[: doctype.start()] + text[doctype.end() :]
    if _ENTITY.search(text):
        raise Unreadable(Reason.UNSAFE_XML, f"{name} declares entities")
    return _REFERENCE.sub(lambda found: _written_out(found, own), _DECLARATION.sub("", text))


def _own_entities(subset: str, name: str) -> dict[str, str]:
    """Entities that a page declares for single characters or a few words. Others could grow or fetch: refused."""
    own = {}
    for declared in _ENTITY.finditer(subset):
        if (plain := _CHARACTERS.fullmatch(declared["rest"])) is None:
            raise Unreadable(Reason.UNSAFE_XML, f"{name} declares an entity that expands or fetches something")
        own[plain["name"]] = plain["value"]
    return own


def _written_out(found: re.Match[str], own: dict[str, str]) -> str:
    """A reference as characters that XML knows; a lone ampersand as text."""
    if found["number"] is not None or found["name"] in _OF_XML:
        return found[0]
    if found["name"] in own:
        return own[found["name"]]
    character = html5.get(f"{found['name']};")
    if character is None:
        return f"&amp;{found[0][1:]}"
    return character.replace("&", "&amp;").replace("<", "&lt;")

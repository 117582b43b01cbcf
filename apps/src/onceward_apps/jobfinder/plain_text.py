"""From HTML to plain text that keeps its lines: a paragraph is a line, an item of a list begins with a dash."""

from __future__ import annotations

import html
import re

from selectolax.lexbor import LexborNode

from onceward_apps.jobfinder.html_parsing import parsed_html

_BLOCKS = frozenset({
    "address", "article", "aside", "blockquote", "body", "dd", "details", "div", "dl", "dt", "fieldset", "figcaption",
    "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "html", "main", "nav", "ol", "p",
    "pre", "section", "summary", "table", "tr", "ul",
})  # fmt: skip
_UNSEEN = frozenset({"script", "style", "noscript", "template", "head", "svg", "iframe", "object"})
_SPACES = re.compile(r"[^\S\n]+")
_WRITTEN_BREAK = re.compile(r"(?<!\b[A-Za-z]:)(?:\\r)?\\n")
"""A line break that was escaped once more on its way. Behind the letter of a drive it is a path."""
_MARKUP = re.compile(r"<(?:/?[a-z][a-z0-9]*\b|!--)", re.IGNORECASE)
_ESCAPED_MARKUP = re.compile(r"&(?:lt|#60|#x3c);/?[a-z!]", re.IGNORECASE)


def plain_text(source: str) -> str:
    """The text of a piece of HTML, in lines."""
    body = parsed_html(source).body
    return "" if body is None else node_text(body)


def unescaped_text(source: str) -> str:
    """The text of HTML that may have been escaped once more on its way, as Greenhouse and many feeds do."""
    if _ESCAPED_MARKUP.search(source) and not _MARKUP.search(source):
        source = html.unescape(source)
    return plain_text(source)


def node_text(root: LexborNode) -> str:
    """The text below a node, in lines; without recursion, for pages that nest without end."""
    pieces: list[str] = []
    node: LexborNode | None = root
    while node is not None:
        tag = node.tag or ""
        if tag == "-text":
            pieces.append(_SPACES.sub(" ", (node.text_content or "").replace("\n", " ")))
        elif tag in _UNSEEN and node.mem_id != root.mem_id:
            node = _after(node, root, pieces)
            continue
        else:
            pieces.append(_opening(tag))
        below = node.first_child
        node = below if below is not None else _after(node, root, pieces)
    return _tidied("".join(pieces))


def one_line(text: str | None) -> str | None:
    """A text on one line; None if nothing is left."""
    return " ".join(text.split()) or None if text else None


def _after(node: LexborNode, root: LexborNode, pieces: list[str]) -> LexborNode | None:
    """The node that comes next once all below this one is done; what closes on the way is written."""
    current: LexborNode | None = node
    while current is not None and current.mem_id != root.mem_id:
        if current.tag in _BLOCKS or current.tag == "li":
            pieces.append("\n")
        following = current.next
        if following is not None:
            return following
        current = current.parent
    return None


def _opening(tag: str) -> str:
    if tag == "li":
        return "\n- "
    if tag in _BLOCKS or tag == "br":
        return "\n"
    return " " if tag in ("td", "th") else ""


def _tidied(text: str) -> str:
    lines = (_SPACES.sub(" ", line).strip() for line in _WRITTEN_BREAK.sub("\n", text).split("\n"))
    kept: list[str] = []
    for line in lines:
        if kept and kept[-1] == "-":  # the item's text is in a paragraph of its own
            kept[-1] = f"- {line}" if line else "-"
        elif line:
            kept.append(line)
    return "\n".join(line for line in kept if line != "-")

"""From a tree of HTML to markdown: every word of it, in order, once.

Books use HTML in ways that a converter drops or garbles: hidden and foreign elements, notes, ruby, tables that hold
pages. So the tree is first written anew in the few elements that survive conversion, and the result is compared with
the tree: where a single letter or digit differs, a plainer rendering is taken.
"""

from __future__ import annotations

import html
import re

from html_to_markdown import ConversionOptions, convert
from lxml import etree

from onceward_apps.documents.cleaning import clean
from onceward_apps.documents.readers.few_elements import NUMBERED, written_in_few_elements

_OPTIONS = ConversionOptions(extract_metadata=False, skip_images=True)
_NUMBER = re.compile(rf"\d{{1,9}}\.[^\w#]{{0,40}}?{NUMBERED}")
_NOT_COUNTED = re.compile(r"[\W_]+")
_HEADING = re.compile(r"<h([1-6])>")
_BLOCK = re.compile(r"</?(?:h[1-6]|p|pre|blockquote|ul|ol|li|table|tr|hr)\b[^>]*>|<br/>")
_TAG = re.compile(r"<[^>]*>")
_BLANK = re.compile(r"\n{3,}")


def markdown_of(body: etree._Element) -> str:
    """The words of an element as markdown, with headings at their level, lists, quotations, tables and emphasis."""
    few = written_in_few_elements(body)
    markdown = clean(convert(few, _OPTIONS).content or "").strip()
    if _letters(_NUMBER.sub("", markdown)) != _letters(html.unescape(_TAG.sub("", few))):
        markdown = _plain(few)
    return markdown.replace(NUMBERED, "")


def _letters(text: str) -> str:
    """What must not be lost: letters and digits."""
    return _NOT_COUNTED.sub("", clean(text))


def _plain(few: str) -> str:
    """Paragraphs and headings alone."""
    text = _HEADING.sub(lambda found: f"\n\n{'#' * int(found[1])} ", few)
    text = _TAG.sub("", _BLOCK.sub("\n\n", text))
    lines = "\n".join(line.rstrip() for line in clean(html.unescape(text)).split("\n"))
    return _BLANK.sub("\n\n", lines).strip()

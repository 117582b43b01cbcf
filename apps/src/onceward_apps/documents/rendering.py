"""Markdown of strangers as HTML that can do nothing: no tags of theirs, no scripts, no pictures from anywhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from functools import cache
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.renderer import RendererHTML
    from markdown_it.token import Token


def rendered(markdown: str, heading_id: Callable[[int], str | None]) -> str:
    """Some markdown as HTML. `heading_id` gives the id of a heading whose line begins at an offset, if it has one.

    Tags in the text are shown as they are written. Links lead to web addresses alone, pictures are named, not loaded.
    """
    starts = [0]
    for line in markdown.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    parser = _parser()
    tokens = parser.parse(markdown)
    for token in tokens:
        if token.type == "heading_open" and token.map and (name := heading_id(starts[token.map[0]])):
            token.attrSet("id", name)
    html: str = parser.renderer.render(tokens, parser.options, {})
    return html


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    parser.validateLink = _is_web_address  # type: ignore[method-assign, assignment]
    parser.add_render_rule("image", _picture)
    parser.add_render_rule("link_open", _link)
    return parser


def _is_web_address(address: str) -> bool:
    return address.strip().lower().startswith(("http://", "https://", "mailto:", "#", "."))


def _picture(
    renderer: RendererHTML,
    tokens: Sequence[Token],
    place: int,
    options: Mapping[str, Any],
    env: MutableMapping[str, Any],
) -> str:
    name = escape(tokens[place].content.strip() or "picture")
    return f'<span class="picture">[{name}]</span>'


def _link(
    renderer: RendererHTML,
    tokens: Sequence[Token],
    place: int,
    options: Mapping[str, Any],
    env: MutableMapping[str, Any],
) -> str:
    address = str(tokens[place].attrGet("href") or "")
    if address.startswith(("http://", "https://", "mailto:")):
        return f'<a href="{escape(address)}" rel="noreferrer noopener">'
    return "<a>"  # into a file that is not here

"""`onceward-docs search`: find passages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from cyclopts.validators import Number
from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from onceward import App
from onceward.terminal import print_json, show
from onceward_apps.documents.app import opened
from onceward_apps.documents.choosing import chosen
from onceward_apps.documents.cli.speaking import OWN_LIBRARY, Where, complain
from onceward_apps.documents.embedding import offline
from onceward_apps.documents.excerpts import printable
from onceward_apps.documents.provider import ask_for_vectors
from onceward_apps.documents.reads import models
from onceward_apps.documents.searching import Hit
from onceward_apps.documents.searching import search as found_by
from onceward_apps.documents.writes import PAID_CALLS, PAID_TOKENS, count
from onceward_apps.speaking import BAD_ANSWER, FINE, NOTHING_SAID, Output
from onceward_apps.transactions import transaction

if TYPE_CHECKING:
    from onceward_apps.documents.embedding import Matrix

_LONGEST = 600
_LEAD = 120
"""So many characters before the first hit are shown of sentences that are too long."""


def search(
    *query: Annotated[str, Parameter(name="QUERY", help="A question, or some words.", negative="")],
    document: Annotated[
        str | None, Parameter(name=("--document", "-d"), help="Only in this document: an id, file name or title.")
    ] = None,
    limit: Annotated[
        int, Parameter(name=("--limit", "-n"), validator=Number(gte=1, lte=100), help="How many passages.")
    ] = 5,
    where: Where = OWN_LIBRARY,
    output: Output = NOTHING_SAID,
) -> int:
    """Find the passages that answer a question, by their words and by what they are about."""
    with opened(where.library) as app:
        only = chosen(app, document) if document else None
        asked = " ".join(query)
        hits = app.read(found_by, asked, limit=limit, document=only, vectors=_paid_vectors(app, asked))
    if output.json:
        print_json({"query": " ".join(query), "hits": [_document(hit) for hit in hits]})
    elif hits:
        show(*(part for rank, hit in enumerate(hits, 1) for part in _screen(rank, hit)))
    else:
        show(Text("nothing was found", "dim"))
    return FINE if hits else BAD_ANSWER


def _paid_vectors(app: App, query: str) -> dict[str, Matrix]:
    """The vectors of a query by the models of a provider that have made some of the library; each is a paid call.

    Where the provider can't be asked, those passages are found by their words alone.
    """
    found: dict[str, Matrix] = {}
    for model in app.read(models):
        if model != offline().name:
            try:
                answer = ask_for_vectors(model, [query])
            except Exception as error:  # whatever the client raises: without its answer there are still the words
                complain(f"{model} can't be asked, what it has read is searched by words alone: {error}")
                continue
            found[model] = answer.matrix()[0]
            with transaction(app) as connection:
                count(connection, PAID_CALLS, 1)
                count(connection, PAID_TOKENS, answer.tokens)
    return found


def _document(hit: Hit) -> dict[str, Any]:
    return {
        "document": hit.document,
        "title": hit.title,
        "heading": hit.heading,
        "chunk": hit.chunk,
        "position": hit.position,
        "passages": hit.passages,
        "start": hit.start,
        "end": hit.end,
        "score": hit.score,
        "snippet": " ".join(hit.text[hit.best[0] : hit.best[1]].split()),
        "hits": [hit.text[start:end] for start, end in hit.hits],
        "text": hit.text,
    }


def _screen(rank: int, hit: Hit) -> Iterator[RenderableType]:
    place = f"passage {hit.position + 1:,} of {hit.passages:,}"
    yield Text.assemble(
        (f"{rank}. ", "bold"), (printable(hit.title), "bold cyan"), f"  {_below(hit)}" if _below(hit) else "",
        f"  {place}", (f"  {hit.score:.2f}", "dim"),
    )  # fmt: skip
    yield Padding(_snippet(hit), (0, 0, 0, 3), expand=False)
    yield Padding(
        Text(f"onceward-docs show {hit.document} --chunk {hit.position + 1}", "dim"), (0, 0, 1, 3), expand=False
    )


def _below(hit: Hit) -> str:
    """The headings, without the title of the book in front of them."""
    return printable(hit.heading.removeprefix(hit.title).removeprefix(" › "))


def _snippet(hit: Hit) -> Text:
    """The best sentences in one line, with the words that were asked for in bold."""
    start, end = hit.best
    if end - start > _LONGEST and hit.hits:
        start = max(start, hit.hits[0][0] - _LEAD)
    end = min(end, start + _LONGEST)
    shown = Text("… " if start > 0 else "")
    at = start
    for first, last in (*hit.hits, (end, end)):
        if first >= at and last <= end:
            shown.append(_between(hit.text[at:first]))
            shown.append(hit.text[first:last], "bold yellow")
            at = last
    if end < len(hit.text):
        shown.append(" …")
    return shown


def _between(text: str) -> str:
    """What stands between two hits, with the white space that parts it from them."""
    return (" " if text[:1].isspace() else "") + printable(text) + (" " if text[1:] and text[-1:].isspace() else "")

"""The command about the response cache."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Any

from cyclopts import Parameter
from rich.table import Table
from rich.text import Text

from onceward.cli.answers import answer
from onceward.cli.command_line import command_line, example
from onceward.cli.documents import Document
from onceward.cli.exits import FINE
from onceward.cli.options import ANY_PLACE, NOTHING_SAID, Flag, Output, Where
from onceward.cli.tables import table
from onceward.cli.target_app import database
from onceward.errors import ConfigError
from onceward.operations.cache import CacheStatus


@command_line.command(
    sort_key=8.5,
    help_epilogue=example(
        "onceward cache --app shop.tasks:app",
        "onceward cache --clear --source web --db sqlite:///shop.db",
        "onceward cache --clear --source web --key https://example.com/ --db sqlite:///shop.db",
    ),
)
def cache(
    *,
    clear: Annotated[bool, Flag, Parameter(help="Forget the answers, so that they are asked for anew.")] = False,
    source: Annotated[str | None, Parameter(help="Only those of this source.")] = None,
    key: Annotated[str | None, Parameter(help="With --clear: only the one for this key, if that is a text.")] = None,
    where: Where = ANY_PLACE,
    output: Output = NOTHING_SAID,
) -> int:
    """Show how many answers of sources are kept, and how often one was there. Or have them forgotten."""
    if key is not None and not (clear and source is not None):
        raise ConfigError("--key goes with --clear and --source")
    with database(where) as app:
        if clear:
            count = app.cache.clear(source, key)
            answer(output, lambda: {"cleared": count}, lambda: [_cleared(count)])
        else:
            found = app.cache.list(source)
            document = {"cache": [cache_document(one) for one in found]}
            answer(output, lambda: document, lambda: _screen(found))
    return FINE


def cache_document(one: CacheStatus) -> Document:
    """What the cache has of a source, as JSON."""
    return {
        "source": one.source,
        "entries": one.entries,
        "bytes": one.bytes,
        "hits": one.hits,
        "misses": one.misses,
        "hit_rate": one.hit_rate,
        "retry_hits": one.retry_hits,
        "retry_misses": one.retry_misses,
        "retry_hit_rate": one.retry_hit_rate,
    }


def _screen(found: Sequence[CacheStatus]) -> Iterable[Any]:
    if not found:
        yield Text("no answer was asked for yet", "dim")
        return
    yield _table(found)


def _table(found: Sequence[CacheStatus]) -> Table:
    columns = ("source", "entries", "bytes", "hits", "misses", "hit rate", "on retries")
    return table(
        columns,
        (
            (
                one.source, f"{one.entries:,}", f"{one.bytes:,}", f"{one.hits:,}", f"{one.misses:,}",
                _percent(one.hit_rate), _percent(one.retry_hit_rate),
            )
            for one in found
        ),
        right=columns[1:],
        cut=("source",),
    )  # fmt: skip


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.0%}"


def _cleared(count: int) -> Text:
    return Text.assemble(("cleared ", "green"), f"{count:,} answer{'' if count == 1 else 's'}")

"""The command about the numbers people ask for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Annotated, Any

from cyclopts import Parameter
from rich.table import Table
from rich.text import Text

from onceward.cli import target_app
from onceward.cli.answers import answer
from onceward.cli.cache_commands import cache_document
from onceward.cli.command_line import command_line, example
from onceward.cli.documents import Document, iso
from onceward.cli.exits import FINE
from onceward.cli.options import ANY_PLACE, NOTHING_SAID, Output, Where
from onceward.cli.screens import status_text
from onceward.cli.tables import heading, table
from onceward.cli.target_app import database
from onceward.cli.words import age
from onceward.harmless import one_line
from onceward.model.stats import AttemptCounts, LineWait, StageDuration
from onceward.operations.cache import CacheStatus
from onceward.operations.stats import Stats, StuckTask


@command_line.command(
    sort_key=5.5,
    help_epilogue=example(
        "onceward stats --app shop.tasks:app",
        "onceward stats --since 7d --stuck-after 6h --json --db sqlite:///shop.db",
    ),
)
def stats(
    *,
    since: Annotated[str, Parameter(help="How far back the figures go, like 90m or 7d.")] = "24h",
    stuck_after: Annotated[
        str, Parameter(help="For how long a task may stand still before it counts as stuck.")
    ] = "1h",
    where: Where = ANY_PLACE,
    output: Output = NOTHING_SAID,
) -> int:
    """Show what is stuck, how fast work is done, how long it waits and takes, how often it is tried again.

    Which stages belong to which source is known with --app only.
    """
    with database(where) as app:
        target_app.present(app)  # by the clock of the database, by which everything was written
        found = app.stats.get(since, stuck_after=stuck_after)
        answer(output, lambda: stats_document(found), lambda: _screen(found))
    return FINE


def stats_document(found: Stats) -> Document:
    """The figures in JSON; its keys are as stable as those of the others."""
    return {
        "at": iso(found.at),
        "since": iso(found.since),
        "whole": found.is_whole,
        "stuck": [_stuck_document(one) for one in found.stuck],
        "pace": {
            **asdict(found.pace),
            "ended_a_minute": found.pace.ended_a_minute,
            "failed_a_minute": found.pace.failed_a_minute,
        },
        "waited": [asdict(one) for one in found.waited],
        "usd_an_hour": found.usd_an_hour,
        "calls_an_hour": found.calls_an_hour,
        "durations": [asdict(one) for one in found.durations],
        "attempts": _counts_document(found.attempts),
        "pipelines": [_counts_document(one) for one in found.pipelines],
        "sources": [_counts_document(one) for one in found.sources],
        "cache": {**cache_document(found.cache_total), "sources": [cache_document(one) for one in found.cache]},
    }


def _stuck_document(one: StuckTask) -> Document:
    return {
        "task": one.id,
        "pipeline": one.pipeline,
        "stage": one.stage,
        "status": one.status.word,
        "since": iso(one.since),
        "why": one.sentence,
    }


def _counts_document(one: AttemptCounts) -> Document:
    return {**asdict(one), "retry_rate": one.retry_rate, "reclaim_rate": one.reclaim_rate}


def _screen(found: Stats) -> Iterable[Any]:
    span = age(found.at - found.since)
    yield Text.assemble(("Stuck", "bold"), ("" if found.stuck else "  no task is", "dim"))
    if found.stuck:
        yield _stuck_table(found.stuck, found.at)
        yield Text("onceward why ID says more of one", "dim")
    yield heading("Pace", _pace(found))
    if found.waited:
        yield heading("Time in line", "before the first attempt")
        yield _waits_table(found.waited)
    yield heading("Attempts", f"{found.attempts.attempts:,} in the last {span}")
    if found.attempts.attempts:
        yield _counts_table("pipeline", [*found.pipelines, found.attempts])
    if found.sources:
        yield heading("Attempts by source")
        yield _counts_table("source", found.sources)
    yield heading("Stages", "" if found.durations else f"none was done in the last {span}")
    if found.durations:
        yield _durations_table(found.durations)
    if not found.is_whole:
        yield Text(f"there was more: these are the newest, of the last {span}", "yellow")
    yield heading("Cache", "from the beginning on" if found.cache else "no answer was asked for yet")
    if found.cache:
        yield _cache_table([*found.cache, found.cache_total])


def _pace(found: Stats) -> str:
    """Throughput, failures and spending, in a line."""
    pace = found.pace
    parts = [f"{pace.ended_a_minute:,.1f} tasks end a minute", f"{pace.failed_a_minute:,.1f} of them failed"]
    if found.calls_an_hour is not None:
        parts.append(f"{found.calls_an_hour:,.0f} calls an hour")
    if found.usd_an_hour is not None:
        parts.append(f"{found.usd_an_hour:,.2f} USD an hour")
    return ", ".join(parts)


def _waits_table(waits: Sequence[LineWait]) -> Table:
    columns = ("pipeline", "tasks", "p50", "p95", "max")
    rows = ((one.pipeline, f"{one.count:,}", *map(_seconds, (one.p50_s, one.p95_s, one.max_s))) for one in waits)
    return table(columns, rows, right=columns[1:], cut=("pipeline",))


def _stuck_table(stuck: Sequence[StuckTask], now: datetime) -> Table:
    return table(
        ("id", "pipeline", "stage", "status", "for", "why"),
        (
            (
                str(one.id), one.pipeline, one.stage or "", status_text(one.status), age(now - one.since),
                one_line(one.sentence),
            )
            for one in stuck
        ),
        right=("id", "for"),
        folded=("why",),
    )  # fmt: skip


def _counts_table(what: str, counts: Sequence[AttemptCounts]) -> Table:
    columns = (what, "attempts", "retries", "retry rate", "reclaimed", "reclaim rate")
    return table(
        columns,
        (
            (
                one_line(one.name) or "all", f"{one.attempts:,}", f"{one.retries:,}", _percent(one.retry_rate),
                f"{one.reclaimed:,}", _percent(one.reclaim_rate),
            )
            for one in counts
        ),
        right=columns[1:],
        cut=(what,),
    )  # fmt: skip


def _durations_table(durations: Sequence[StageDuration]) -> Table:
    columns = ("pipeline", "stage", "size", "count", "p50", "p95", "max")
    return table(
        columns,
        (
            (one.pipeline, one.stage, one.size, f"{one.count:,}", *map(_seconds, (one.p50_s, one.p95_s, one.max_s)))
            for one in durations
        ),
        right=columns[3:],
        cut=("pipeline", "stage"),
    )


def _cache_table(cache: Sequence[CacheStatus]) -> Table:
    columns = ("source", "hits", "misses", "hit rate", "on retries")
    return table(
        columns,
        (
            (
                one.source or "all", f"{one.hits:,}", f"{one.misses:,}", _percent(one.hit_rate),
                _percent(one.retry_hit_rate),
            )
            for one in cache
        ),
        right=columns[1:],
        cut=("source",),
    )  # fmt: skip


def _seconds(length_s: float) -> str:
    return f"{length_s * 1_000:.0f}ms" if length_s < 1 else age(timedelta(seconds=length_s))


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.1%}"

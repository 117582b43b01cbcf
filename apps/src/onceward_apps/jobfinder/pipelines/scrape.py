"""SCRAPE: on a schedule, have every source read that is enabled and due."""

from __future__ import annotations

from onceward import Context, Cron, Pipeline
from onceward_apps.jobfinder import source_rows
from onceward_apps.jobfinder.analysing import priority_of
from onceward_apps.jobfinder.payloads import Reading, Scrape
from onceward_apps.jobfinder.pipelines.begun import now_of, numbers_of

scrapes = Pipeline(Scrape, unique="everywhere", cycle="key")
SCHEDULE = Cron("*/15 * * * *", Scrape(), missed="skip", name="scrape")
"""How often it is looked which sources are due; how often each is read is the setting `source.read_every`."""


@scrapes.stage
def spawn(ctx: Context[Scrape]) -> int:
    """Ask for the sources that are due, and return how many. What a lineage has no room for is due the next time."""
    read_before = now_of(ctx) - round(numbers_of(ctx).source_read_every.total_seconds() * 1_000)
    due = ctx.read(source_rows.due_sources, read_before)
    return sum(bool(ctx.spawn(Reading(source), priority=priority_of(tier))) for source, tier in due)

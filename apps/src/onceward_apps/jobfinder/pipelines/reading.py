"""SCRAPE_SOURCE: read all listings of a source, page by page, and spawn a job for each that is new.

A reading that fails for good makes the streak of its source longer, and at five in a row the source is disabled until a
person enables it. A reading that saw the whole board knows what is gone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NoReturn

import msgspec
from msgspec.structs import replace

from onceward import Context, Failed, Pipeline, Skipped
from onceward_apps.jobfinder import company_rows, listing_rows, opening_rows, readers, source_rows, surroundings
from onceward_apps.jobfinder.analysing import priority_of
from onceward_apps.jobfinder.boards.answer import BoardLimits
from onceward_apps.jobfinder.boards.board import SoFar, Step
from onceward_apps.jobfinder.errors import Drifted, FetchError, Gone, Refused, Unavailable
from onceward_apps.jobfinder.hosts import RETRY, WEB, calls_for, fetched, is_last_try
from onceward_apps.jobfinder.identities import listing_id, twin_of
from onceward_apps.jobfinder.listing_rows import Said, Seen
from onceward_apps.jobfinder.pages import Request
from onceward_apps.jobfinder.payloads import Job, Reading
from onceward_apps.jobfinder.pipelines.begun import child_origin, moment, now_of, numbers_of
from onceward_apps.jobfinder.pipelines.discovery import told
from onceward_apps.jobfinder.source_rows import SourceRow

readings = Pipeline(Reading, retry=RETRY, unique="everywhere", cycle="key")
LIMITS = BoardLimits()
UNDECIDED = "analyzing"


class Place(msgspec.Struct, frozen=True):
    """How far the reading of a source has come: what is asked next, and what the pages before gave."""

    request: Request | None
    so_far: SoFar = SoFar()
    listings: int = 0
    spawned: int = 0
    not_taken: int = 0
    """Listings that are new, and that the lineage had no room for: the next reading meets them again."""


@readings.stage(source=WEB, calls=calls_for(LIMITS.pages))
async def read(ctx: Context[Reading]) -> Place:
    """Read page after page; each is kept, with the tasks that it gives, before the next is asked for."""
    row = await ctx.aread(source_rows.source, ctx.payload.source)
    if row is None or row.status != "active":
        raise Skipped(f"the source is {row.status if row else 'not there'}")
    place = ctx.cursor_as(Place)
    try:
        if place is None:
            place = Place(readers.first(readers.address_of(row), row.config_json))
        while place.request is not None and place.so_far.pages < LIMITS.pages and place.listings < LIMITS.listings:
            page = await fetched(ctx, place.request)
            day = moment(now_of(ctx)).date()
            step = readers.read(readers.address_of(row), row.config_json, place.request, page, day, place.so_far)
            place = await _take(ctx, row, step, place)
            await ctx.acheckpoint(place)
    except (Refused, Gone, Drifted) as error:
        _fail(ctx, error)
    except Unavailable as error:
        if not is_last_try(ctx):
            raise
        _fail(ctx, error)
    return place


@readings.stage
def settle(ctx: Context[Reading]) -> str:
    """The reading has succeeded: the streak is over, and what a whole board no longer shows is gone.

    Whether there was room for all listings is known only now. Those that got no task lose their rows.
    """
    place, source, now = ctx.result(read), ctx.payload.source, now_of(ctx)
    ctx.write(listing_rows.forget, source, ctx.read(listing_rows.left_out, source, ctx.task.id))
    ctx.write(source_rows.note_success, source, place.listings, now)
    told = f"{place.listings} listings, {place.spawned} of them new"
    if place.so_far.is_short:
        return f"{told}; the board says it has {place.so_far.total_said}, so none is marked gone"
    if place.request is None:
        ctx.write(listing_rows.miss, source, ctx.task.id, now)
    return told


@readings.at_expiry
def run_out(ctx: Context[Reading]) -> None:
    """Its time is over: that is a failed reading like any other."""
    after = numbers_of(ctx).source_disable_after
    ctx.write(source_rows.note_failure, ctx.payload.source, "its time was over", False, after, now_of(ctx))


async def _take(ctx: Context[Reading], row: SourceRow, step: Step, place: Place) -> Place:
    """Note what a page shows, and spawn jobs for the listings that are not decided yet.

    What is new is claimed in a transaction of its own before anything is spawned: then it is known which of two sources
    that are read at the same moment was first with a position.
    """
    company = await ctx.aread(company_rows.company, row.company) if row.company else None
    seen = {one.listing: one for one in _seen(step, company.name if company else None)}
    known = await ctx.aread(opening_rows.standing, row.source, list(seen))
    stop = surroundings.profile().stop_list()
    for one in list(seen.values()):
        said = one.said.listing
        is_open = one.listing not in known or known[one.listing].status == UNDECIDED
        if is_open and (stop.match(one.url, said.title) or (said.company and stop.match(said.company))):
            del seen[one.listing]
    stands_for = {name: found.listing for name, found in known.items()}
    ctx.write(listing_rows.see, row.source, row.company, list(seen.values()), stands_for, child_origin(ctx))
    if seen.keys() - known.keys():
        await ctx.acheckpoint(place)
        known = await ctx.aread(opening_rows.standing, row.source, list(seen))
    priority = priority_of(company.tier if company else None)
    spawned = 0
    not_taken = []
    for name, found in known.items():
        if name not in seen or found.status != UNDECIDED:
            continue
        asked = ctx.spawn(Job(found.url, row.source, seen[name].said.listing.title), priority=priority)
        spawned += bool(asked)
        if not asked and found.listing == name and found.parent_task == ctx.task.id:
            not_taken.append(name)
    if not_taken:
        ctx.write(listing_rows.forget, row.source, not_taken)
    ctx.progress(place.listings + len(step.listings), step.so_far.total_said, "reading listings")
    return Place(
        step.next,
        step.so_far,
        place.listings + len(step.listings),
        place.spawned + spawned,
        place.not_taken + len(not_taken),
    )


def _seen(step: Step, company: str | None) -> Iterator[Seen]:
    """The listings of a page as they are kept; where one does not name its company, the board does, or the source."""
    details = {request.about: request for request in step.details if request.about is not None}
    for one in step.listings:
        told = one if one.company else replace(one, company=step.so_far.company_name or company)
        said = Said(told, details.get(one.external_id or one.url))
        twin = twin_of(told.company, told.title, told.location)
        yield Seen(listing=listing_id(one.url), url=one.url, twin=twin, said=said)


def _fail(ctx: Context[Reading], error: FetchError | Drifted) -> NoReturn:
    after = numbers_of(ctx).source_disable_after
    is_drifted = isinstance(error, Drifted)
    ctx.write(source_rows.note_failure, ctx.payload.source, told(error), is_drifted, after, now_of(ctx))
    raise Failed(told(error)) from error

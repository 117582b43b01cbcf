"""JOB: scrape, filter, analyse, save. One listing on its way to being a match, or to the reason why it is none."""

from __future__ import annotations

from typing import Any, NoReturn
from urllib.parse import urljoin

import msgspec

from onceward import Context, Failed, Filtered, Pipeline, Skipped
from onceward_apps.jobfinder import (
    company_rows,
    completeness,
    filtering,
    listing_rows,
    matching,
    models,
    opening_rows,
    postings,
    readers,
    source_rows,
    surroundings,
    verdict_rows,
)
from onceward_apps.jobfinder.boards.recognising import recognise
from onceward_apps.jobfinder.completeness import Known
from onceward_apps.jobfinder.errors import Drifted
from onceward_apps.jobfinder.hosts import RETRY, Kept, page_request
from onceward_apps.jobfinder.identities import PAGES, company_id, listing_id, listing_key, twin_of
from onceward_apps.jobfinder.listing import Listing
from onceward_apps.jobfinder.listing_rows import Said
from onceward_apps.jobfinder.matching import Employer, Match
from onceward_apps.jobfinder.pages import Page
from onceward_apps.jobfinder.payloads import Company, Fetch, Job, Question
from onceward_apps.jobfinder.pipelines.asking import answer_to
from onceward_apps.jobfinder.pipelines.begun import child_origin, moment, now_of, numbers_of, own_origin
from onceward_apps.jobfinder.pipelines.fetching_page import GONE
from onceward_apps.jobfinder.reasons import Reason, total

jobs = Pipeline(Job, retry=RETRY, unique="everywhere", cycle="key")


class Scraped(msgspec.Struct, frozen=True):
    """What the board said of a listing, and which page is fetched for the rest."""

    said: Said | None
    source: str | None
    fetch: Fetch | None


@jobs.stage
def scrape(ctx: Context[Job]) -> Scraped:
    """See what the board has said. Only where that is too little a page is fetched, and never for what is stopped."""
    name = listing_id(ctx.payload.url)
    ctx.write(listing_rows.begin_listing, name, ctx.payload.url, own_origin(ctx))
    row = ctx.read(listing_rows.listing, name)
    if row is not None and row.status == "active":
        raise Skipped("done: it is saved as a match already")
    if row is not None and row.status == "analyzing" and (before := listing_rows.told_before(row)) is not None:
        return Scraped(Said(before), row.source, None)
    found = ctx.read(listing_rows.said_of, name)
    source, said = found if found is not None else (ctx.payload.source, None)
    _reject_if_stopped(ctx, said.listing if said else None)
    numbers = numbers_of(ctx)
    if said is not None and len(said.listing.description or "") > numbers.listing_description_minimal:
        return Scraped(said, source, None)
    fetch = Fetch(said.detail if said is not None and said.detail is not None else page_request(ctx.payload.url))
    ctx.spawn(fetch)
    return Scraped(said, source, fetch)


class Passed(msgspec.Struct, frozen=True):
    """A listing that has passed the filter, and its company."""

    listing: Listing
    strikes: tuple[Reason, ...]
    company: str | None
    asked_for: Company | None
    """The company, if it is unknown or still under way: the next stage waits for its outcome."""


@jobs.stage(join=True)
def filter(ctx: Context[Job]) -> Passed:
    """Count the strikes. With too many the listing is out; else its company is looked at, if it is unknown."""
    listing, website = _listing(ctx)
    listing = postings.with_pay(listing)
    _reject_if_stopped(ctx, listing)
    numbers, now = numbers_of(ctx), now_of(ctx)
    strikes = tuple(filtering.strikes(listing, surroundings.profile(), numbers, moment(now).date()))
    count = total(strikes)
    if count >= numbers.filter_strike_threshold:
        reason = f"{count} strikes: {'; '.join(strike.sentence for strike in strikes)}"
        _decide(ctx, "filtered", reason, listing, strikes=strikes)
        raise Filtered(reason)
    company, asked_for = _company(ctx, listing, website)
    if asked_for is not None and company is not None:
        ctx.write(company_rows.begin_company, company, asked_for.name, asked_for.website, child_origin(ctx))
        ctx.spawn(asked_for)
    return Passed(listing, strikes, company, asked_for)


class Judged(msgspec.Struct, frozen=True):
    """How well a listing fits by rules, and what a model was asked besides."""

    match: Match
    employer: Employer
    question: Question | None = None


@jobs.stage(join=True)
def analyse(ctx: Context[Job]) -> Judged:
    """See how well it fits, with what is known of its company by now: also nothing, if that could not be looked at."""
    passed, numbers, profile = ctx.result(filter), numbers_of(ctx), surroundings.profile()
    known = ctx.read(company_rows.company, passed.company) if passed.company else None
    employer = Employer(name=passed.listing.company)
    if known is not None:
        employer = Employer(name=known.name, tier=known.tier, has_office=bool(known.has_office))
    before = ctx.read(verdict_rows.others, listing_id(ctx.payload.url))
    match = matching.match(passed.listing, employer, profile, numbers, before)
    if passed.asked_for is not None and (came := ctx.outcome(passed.asked_for)).status != "succeeded":
        unknown = Reason(0, "company", f"its company could not be looked at: {came.status}, {came.reason}")
        match = msgspec.structs.replace(match, why=(*match.why, unknown))
    _skip_if_too_low(ctx, match)
    if not profile.models.scoring:
        return Judged(match, employer)
    text = models.scoring_question(passed.listing, employer, profile)
    question = Question(models.SCORING, listing_id(ctx.payload.url), profile.models.scoring, text)
    ctx.spawn(question)
    return Judged(match, employer, question)


@jobs.stage(join=True)
def save(ctx: Context[Job]) -> str:
    """Save the match. Where an expensive model was asked its score counts; the reasons by rules are kept beside it."""
    judged, passed, now = ctx.result(analyse), ctx.result(filter), now_of(ctx)
    name, match, model = listing_id(ctx.payload.url), judged.match, None
    twin = twin_of(passed.listing.company, passed.listing.title, passed.listing.location)
    other = ctx.read(opening_rows.rival, name, twin)
    if other is not None and other.is_match:
        reason = f"it is the same position as {other.listing}, which is a match already"
        _decide(ctx, "skipped", reason, passed.listing, strikes=passed.strikes, company=passed.company)
        raise Skipped(reason)
    if judged.question is not None and (answer := answer_to(ctx, judged.question)) is not None:
        model = judged.question.model
        points = models.opinion(answer, model)
        if points is not None:
            profile, numbers = surroundings.profile(), numbers_of(ctx)
            match = matching.judged(points, passed.listing, judged.employer, profile, numbers)
            by_rules = tuple(Reason(0, reason.rule, reason.sentence) for reason in judged.match.why)
            match = msgspec.structs.replace(match, why=(*match.why, *by_rules))
            _skip_if_too_low(ctx, match)
    _decide(
        ctx, "active", None, passed.listing,
        strikes=passed.strikes, score=match.score, why=match.why, company=passed.company,
    )  # fmt: skip
    ctx.write(listing_rows.save_match, name, twin, match, model, now)
    return f"{match.score} points, {match.priority} priority"


@jobs.at_expiry
def run_out(ctx: Context[Job]) -> None:
    """Record the listing as unknown, with the reason: its task ran out of time."""
    _decide(ctx, "unknown", "its time was over", None)


def _listing(ctx: Context[Job]) -> tuple[Listing, str | None]:
    """The listing with all that the board and the page say, and the website of its company if the page names it."""
    scraped = ctx.result(scrape)
    said = scraped.said
    if scraped.fetch is None:
        assert said is not None
        return said.listing, None
    outcome = ctx.outcome(scraped.fetch)
    if outcome.status != "succeeded":
        if said is not None and outcome.rule is not None:
            return said.listing, None
        _give_up(ctx, outcome.reason or outcome.status, said)
    kept = outcome.result(Kept)
    ctx.alias(listing_key(kept.final_url))
    page = Page(
        url=scraped.fetch.request.url, final_url=kept.final_url, status=kept.status, content_type=kept.content_type,
        headers={}, body=kept.text.encode(), text=kept.text, redirects=kept.redirects,
    )  # fmt: skip
    day = moment(now_of(ctx)).date()
    try:
        if said is not None and said.detail is not None and scraped.source is not None:
            row = ctx.read(source_rows.source, scraped.source)
            if row is not None:
                return readers.complete(row, said.listing, scraped.fetch.request, page, day), None
        return postings.listing(ctx.payload.url, page, said.listing if said else None, day), postings.website(page)
    except Drifted as error:
        _give_up(ctx, f"drifted: {error.detail}", said)


def _company(ctx: Context[Job], listing: Listing, website: str | None) -> tuple[str | None, Company | None]:
    """The company of a listing, and the task that looks at it if it is unknown or still under way."""
    row = ctx.read(listing_rows.listing, listing_id(ctx.payload.url))
    name = row.company if row is not None else None
    if name is None and listing.company:
        name = ctx.read(company_rows.company_named, listing.company)
    if name is None:
        website = website or _own_site(listing)
        if website is None:
            return None, None
        name = company_id(website)
    known = ctx.read(company_rows.company, name)
    if known is None:
        return (name, Company(website, listing.company)) if website else (None, None)
    # Another task has asked for it: if that is still under way, this is the same work, and is waited for.
    return name, Company(known.website, known.name) if known.status == "analyzing" else None


def _own_site(listing: Listing) -> str | None:
    """The site of the company, if the listing stands on it: that is no board of many companies."""
    board = recognise(listing.url)
    return urljoin(listing.url, "/") if board is None or board.kind in PAGES else None


def _reject_if_stopped(ctx: Context[Job], listing: Listing | None) -> None:
    stop = surroundings.profile().stop_list()
    reason = stop.match(ctx.payload.url, listing.title if listing else ctx.payload.title)
    if reason is None and listing is not None and listing.company:
        reason = stop.match(listing.company)
    if reason is not None:
        _decide(ctx, "filtered", reason, None)
        raise Filtered(reason)


def _skip_if_too_low(ctx: Context[Job], match: Match) -> None:
    if not match.is_saved:
        passed = ctx.result(filter)
        reason = f"it scores {match.score}, and {match.needed} are needed"
        _decide(
            ctx, "skipped", reason, passed.listing,
            strikes=passed.strikes, score=match.score, why=match.why, company=passed.company,
        )  # fmt: skip
        raise Skipped(reason)


def _give_up(ctx: Context[Job], reason: str, said: Said | None) -> NoReturn:
    """Record the listing as unknown, with the reason, for a person to look at, and fail."""
    gone_at = now_of(ctx) if reason.startswith(GONE) else None
    _decide(ctx, "unknown", reason, said.listing if said else None, gone_at=gone_at)
    raise Failed(reason)


def _decide(ctx: Context[Job], status: str, reason: str | None, listing: Listing | None, **more: Any) -> None:
    more |= {"at": now_of(ctx), "judged_by": surroundings.profile().fingerprint}
    if listing is not None:
        known = completeness.listing(listing, numbers_of(ctx))
        more["completeness"] = {Known.GOOD: "good", Known.MINIMAL: "minimal"}.get(known, "too little")
    ctx.write(listing_rows.decide, listing_id(ctx.payload.url), status, reason, listing, more)

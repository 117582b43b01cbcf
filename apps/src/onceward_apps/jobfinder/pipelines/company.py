"""COMPANY: fetch, extract, analyse, save. One task with four checkpoints; job boards are tasks of their own."""

from __future__ import annotations

from functools import partial
from typing import NoReturn
from urllib.parse import urljoin

import msgspec

from onceward import Context, Failed, Filtered, Pipeline, Skipped
from onceward_apps.jobfinder import (
    analysing,
    company_rows,
    completeness,
    extracting,
    models,
    source_rows,
    surroundings,
)
from onceward_apps.jobfinder.analysing import Analysis, priority_of
from onceward_apps.jobfinder.boards.board import BoardAddress
from onceward_apps.jobfinder.company_rows import CompanyRow
from onceward_apps.jobfinder.completeness import Known
from onceward_apps.jobfinder.errors import Gone, Refused, Unavailable
from onceward_apps.jobfinder.extracting import Facts, Kept
from onceward_apps.jobfinder.hosts import RETRY, WEB, calls_for, fetched, is_last_try, page_request
from onceward_apps.jobfinder.identities import company_id, source_id
from onceward_apps.jobfinder.payloads import Company, Discovery, Question
from onceward_apps.jobfinder.pipelines.asking import answer_to
from onceward_apps.jobfinder.pipelines.begun import child_origin, moment, now_of, numbers_of, own_origin
from onceward_apps.jobfinder.source_rows import SourceName, SourceRow

HOME = "/"
PATHS = (HOME, "/about", "/about-us", "/company", "/careers")
OTHERWISE = "/jobs"
"""What is asked for where there are no careers."""

companies = Pipeline(Company, retry=RETRY, unique="everywhere", cycle="key")


class Fetched(msgspec.Struct, frozen=True):
    """The pages of a company that could be had, and why others could not."""

    pages: tuple[Kept, ...]
    refused: dict[str, str] = {}


@companies.stage(source=WEB, calls=calls_for(len((*PATHS, OTHERWISE))))
async def fetch(ctx: Context[Company]) -> Fetched:
    """Fetch the pages on which companies tell about themselves. One that is known well, and lately, is left alone."""
    name = company_id(ctx.payload.website)
    known = await ctx.aread(company_rows.company, name)
    if known is None:
        ctx.write(company_rows.begin_company, name, ctx.payload.name, ctx.payload.website, own_origin(ctx))
        await ctx.acheckpoint("begun")
    stop = surroundings.profile().stop_list()
    if reason := stop.match(ctx.payload.website, ctx.payload.name):
        ctx.write(company_rows.give_up_company, name, "skipped", reason)
        raise Filtered(reason)
    await _leave_alone_if_fresh(ctx, known)
    try:
        found = await _pages(ctx)
    except Unavailable as error:
        if not is_last_try(ctx):
            raise
        await _give_up(ctx, f"{error.reason}: {error.detail}")
    if not found.pages:
        await _give_up(ctx, _why_none(found.refused))
    return found


async def _leave_alone_if_fresh(ctx: Context[Company], known: CompanyRow | None) -> None:
    if known is None or known.analysed_at is None:
        return
    numbers = numbers_of(ctx)
    how_well = completeness.company(known.website, known, numbers)
    if completeness.is_fresh(how_well, moment(known.analysed_at), moment(now_of(ctx)), numbers):
        await _have_named_board_looked_at(ctx)
        raise Skipped(f"it is known well, and was looked at {moment(known.analysed_at):%Y-%m-%d}")


async def _pages(ctx: Context[Company]) -> Fetched:
    pages: list[Kept] = []
    refused: dict[str, str] = {}
    for path in (*PATHS, OTHERWISE):
        if path == OTHERWISE and any(page.path == "/careers" for page in pages):
            continue
        try:
            page = await ctx.aonce(path, partial(_page, ctx, path), type=Kept | None)
        except (Refused, Gone) as error:
            refused[path] = f"{path}: {error.detail}"
            continue
        if page is not None and page.url not in {one.url for one in pages}:
            pages.append(page)
    return Fetched(tuple(pages), refused)


async def _page(ctx: Context[Company], path: str) -> Kept | None:
    """One page; None if it is not there."""
    url = ctx.payload.website if path == HOME else urljoin(ctx.payload.website.rstrip("/") + "/", path.lstrip("/"))
    try:
        page = await fetched(ctx, page_request(url))
    except Gone:
        return None
    return extracting.slim(path, page.final_url, page.text)


def _why_none(refused: dict[str, str]) -> str:
    """Why there is no page at all: what was wrong with the first, and how many others there are."""
    first, *others = refused.values() or ("none of its pages is there",)
    return f"{first}; and so for {len(others)} other pages" if others else first


async def _give_up(ctx: Context[Company], reason: str) -> NoReturn:
    """End with a reason. A board that a person has named is read all the same."""
    await _have_named_board_looked_at(ctx)
    ctx.write(company_rows.give_up_company, company_id(ctx.payload.website), "unknown", reason)
    raise Failed(reason)


class Extracted(msgspec.Struct, frozen=True):
    """What the pages say, and what a model was asked for besides."""

    facts: Facts
    question: Question | None = None


@companies.stage
def extract(ctx: Context[Company]) -> Extracted:
    """Find out what the company says of itself. For what is still empty a cheap model is asked, if one is named."""
    pages = ctx.result(fetch).pages
    found = extracting.facts(pages, ctx.payload.name)
    model = surroundings.profile().models.extraction
    if not model or not found.empty:
        return Extracted(found)
    text = models.extraction_question(found.empty, extracting.all_text(pages))
    question = Question(models.EXTRACTION, company_id(ctx.payload.website), model, text)
    ctx.spawn(question)
    return Extracted(found, question)


class Analysed(msgspec.Struct, frozen=True):
    """All that is known of a company."""

    facts: Facts
    analysis: Analysis


@companies.stage(join=True)
def analyse(ctx: Context[Company]) -> Analysed:
    """See what the company is worth, by rules alone. One that is hardly known is not worth it."""
    found, numbers = ctx.result(extract), numbers_of(ctx)
    facts = found.facts
    if found.question is not None and (answer := answer_to(ctx, found.question)) is not None:
        facts = models.completed(facts, answer, found.question.model)
    if completeness.company(ctx.payload.website, facts, numbers) is Known.TOO_LITTLE:
        lengths = f"{len(facts.about or '')} characters about it, {len(facts.culture or '')} about its culture"
        reason = f"too little is known of it: {lengths}"
        ctx.write(company_rows.give_up_company, company_id(ctx.payload.website), "skipped", reason)
        if board := analysing.named_board(ctx.payload.board or ""):
            _have_looked_at(ctx, board, ctx.read(source_rows.source, source_id(board.kind, board.token)), "D")
        raise Skipped(reason)
    pages = ctx.result(fetch).pages
    return Analysed(facts, analysing.analyse(facts, pages, surroundings.profile(), numbers, ctx.payload.board))


@companies.stage
def save(ctx: Context[Company]) -> str:
    """Save everything, and have its boards looked at: at once where they are certain, else when a person approves."""
    name = company_id(ctx.payload.website)
    known, now = ctx.result(analyse), now_of(ctx)
    facts, analysis = known.facts, known.analysis
    best = analysis.boards[0] if analysis.boards else None
    ctx.write(company_rows.save_company, name, {
        "name": facts.name, "about": facts.about, "culture": facts.culture, "mission": facts.mission,
        "size": facts.size, "size_category": analysis.size_category, "headquarters": facts.headquarters,
        "industry": facts.industry, "founded": facts.founded, "tech_stack": analysis.tech_stack,
        "has_office": analysis.has_office, "tier": analysis.tier, "score": analysis.score, "why": analysis.why,
        "board_url": best.url if best else None, "board_confidence": best.confidence if best else None,
    }, now)  # fmt: skip
    for board in analysis.boards:
        _have_looked_at(ctx, board, ctx.read(source_rows.source, source_id(board.kind, board.token)), analysis.tier)
    return f"tier {analysis.tier} with {analysis.score} points"


@companies.at_expiry
def run_out(ctx: Context[Company]) -> None:
    """Record the company as unknown, with the reason: its task ran out of time."""
    ctx.write(company_rows.give_up_company, company_id(ctx.payload.website), "unknown", "its time was over")


async def _have_named_board_looked_at(ctx: Context[Company]) -> None:
    """Have the board tested that a person has named, where the company itself is not looked at."""
    if board := analysing.named_board(ctx.payload.board or ""):
        known = await ctx.aread(source_rows.source, source_id(board.kind, board.token))
        _have_looked_at(ctx, board, known, "D")


def _have_looked_at(ctx: Context[Company], board: BoardAddress, known: SourceRow | None, tier: str) -> None:
    """Have a board tested: at once where it is certain or a person has named it, else when a person approves."""
    named = analysing.named_board(ctx.payload.board or "")
    is_named = named is not None and (named.kind, named.token) == (board.kind, board.token)
    if known is not None and not (is_named and known.awaits_approval):
        return
    source, company = source_id(board.kind, board.token), company_id(ctx.payload.website)
    is_certain = is_named or board.confidence == "high"
    asked = SourceName(source, board.kind, board.token, board.url, board.confidence)
    ctx.write(source_rows.begin_source, asked, company, child_origin(ctx), not is_certain)
    if is_certain:
        ctx.write(source_rows.approve_source, source)
        discovery = Discovery(source, board.kind, board.token, board.url, company, board.confidence)
        ctx.spawn(discovery, priority=priority_of(tier))

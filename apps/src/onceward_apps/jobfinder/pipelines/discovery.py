"""SOURCE_DISCOVERY: test a board, learn how it is read, and have it read. One that fails says why."""

from __future__ import annotations

from typing import NoReturn

import msgspec

from onceward import Context, Failed, Pipeline
from onceward_apps.jobfinder import models, readers, source_rows, surroundings
from onceward_apps.jobfinder.analysing import priority_of
from onceward_apps.jobfinder.boards.board import BoardAddress, BoardKind
from onceward_apps.jobfinder.errors import Drifted, FetchError, Gone, NoListFound, Refused, Unavailable
from onceward_apps.jobfinder.extracting import slim
from onceward_apps.jobfinder.hosts import RETRY, WEB, Kept, calls_for, fetched, is_last_try
from onceward_apps.jobfinder.identities import listing_key
from onceward_apps.jobfinder.pages import Page, Request
from onceward_apps.jobfinder.payloads import Discovery, Question, Reading
from onceward_apps.jobfinder.pipelines.asking import answer_to
from onceward_apps.jobfinder.pipelines.begun import moment, now_of, own_origin
from onceward_apps.jobfinder.source_rows import SourceName

discoveries = Pipeline(Discovery, retry=RETRY, unique="everywhere", cycle="key")


class Proof(msgspec.Struct, frozen=True):
    """What the first page of a board showed, and how it is read from now on."""

    listings: int
    config: str | None = None
    question: Question | None = None
    """What a model was asked, where no list of jobs was recognised, and the page that it was asked about."""
    page: Kept | None = None


@discoveries.stage(source=WEB, calls=calls_for(1))
async def test(ctx: Context[Discovery]) -> Proof:
    """Read the first page. A page without an interface has to show listings, and how to read them is found out."""
    asked = ctx.payload
    if await ctx.aread(source_rows.source, asked.source) is None:
        name = SourceName(asked.source, asked.kind_of_board, asked.token, asked.url, asked.confidence)
        ctx.write(source_rows.begin_source, name, asked.company, own_origin(ctx), False)
        await ctx.acheckpoint("begun")
    address = address_of(asked)
    try:
        request = readers.first(address)
        page = await fetched(ctx, request)
        ctx.alias(listing_key(page.final_url))
        return _proof(ctx, address, request, page)
    except (Refused, Gone, Drifted) as error:
        _reject(ctx, error)
    except Unavailable as error:
        if not is_last_try(ctx):
            raise
        _reject(ctx, error)


def _proof(ctx: Context[Discovery], address: BoardAddress, request: Request, page: Page) -> Proof:
    """What a page shows. Where no list of jobs is recognised a cheap model is asked about it, if one is named."""
    try:
        config, listings = readers.tested(address, request, page, moment(now_of(ctx)).date())
    except NoListFound:
        model = surroundings.profile().models.extraction
        if not model:
            raise
        text = models.scraping_question(page.final_url, page.text)
        question = Question(models.SCRAPING, ctx.payload.source, model, text)
        ctx.spawn(question)
        html = slim("", page.final_url, page.text).html
        return Proof(0, None, question, Kept(page.final_url, page.status, page.content_type, html))
    return Proof(len(listings), config)


@discoveries.stage(join=True)
def save(ctx: Context[Discovery]) -> str:
    """The source has proved itself: it is read now, and from now on."""
    asked, config = ctx.payload, _config(ctx)
    # What is medium is so until it was tested; a page without an interface stays what it is.
    confidence = "low" if asked.kind_of_board == BoardKind.GENERIC else "high"
    ctx.write(source_rows.prove_source, asked.source, config, confidence, now_of(ctx))
    tier = ctx.read(source_rows.tier_of, asked.company)
    ctx.spawn(Reading(asked.source), priority=priority_of(tier))
    return asked.source


@discoveries.at_expiry
def run_out(ctx: Context[Discovery]) -> None:
    """Record the source as unknown, with the reason: its task ran out of time."""
    ctx.write(source_rows.reject_source, ctx.payload.source, "its time was over", now_of(ctx))


def _config(ctx: Context[Discovery]) -> str | None:
    """How the source is read. What a model says counts only if it holds on the page that it was asked about."""
    proof = ctx.result(test)
    if proof.question is None or proof.page is None:
        return proof.config
    kept, answer = proof.page, answer_to(ctx, proof.question)
    page = Page(
        url=ctx.payload.url, final_url=kept.final_url, status=kept.status, content_type=kept.content_type,
        headers={}, body=kept.text.encode(), text=kept.text, redirects=kept.redirects,
    )  # fmt: skip
    try:
        if answer is None:
            raise NoListFound(f"no list of jobs was found on {kept.final_url}, and the model did not answer")
        return readers.learned(models.object_in(answer), page, moment(now_of(ctx)).date())[0]
    except Drifted as error:
        _reject(ctx, error)


def address_of(asked: Discovery) -> BoardAddress:
    """The board that is asked about."""
    return msgspec.convert(
        {"kind": asked.kind_of_board, "token": asked.token, "url": asked.url, "confidence": asked.confidence},
        BoardAddress,
    )


def _reject(ctx: Context[Discovery], error: FetchError | Drifted) -> NoReturn:
    reason = told(error)
    ctx.write(source_rows.reject_source, ctx.payload.source, reason, now_of(ctx))
    raise Failed(reason) from error


def told(error: FetchError | Drifted) -> str:
    """An error of the web or of a board as a reason for people."""
    word = "drifted" if isinstance(error, Drifted) else str(getattr(error, "reason", "gone"))
    return f"{word}: {error.detail}"

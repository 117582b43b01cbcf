"""FETCH: one page, claimed only when its host can serve it. The listing that needs it waits, and holds no slot."""

from __future__ import annotations

from onceward import Context, Failed, Pipeline
from onceward_apps.jobfinder.errors import Gone, Refused, Unavailable
from onceward_apps.jobfinder.extracting import slim
from onceward_apps.jobfinder.hosts import RETRY, WEB, Kept, calls_for, fetched, is_last_try
from onceward_apps.jobfinder.payloads import Fetch

GONE = "gone"

fetches = Pipeline(Fetch, retry=RETRY)


@fetches.stage(source=WEB, calls=calls_for(1))
async def get(ctx: Context[Fetch]) -> Kept:
    """The page, or why there is none."""
    request = ctx.payload.request
    try:
        page = await fetched(ctx, request)
    except Gone as error:
        raise Failed(f"{GONE}: {error.detail}") from error
    except Refused as error:
        raise Failed(f"{error.reason}: {error.detail}") from error
    except Unavailable as error:
        if not is_last_try(ctx):
            raise
        raise Failed(f"{error.reason}: {error.detail}") from error
    is_html = "html" in request.kinds and "json" not in page.content_type
    text = slim("", page.final_url, page.text).html if is_html else page.text
    return Kept(page.final_url, page.status, page.content_type, text, page.redirects)

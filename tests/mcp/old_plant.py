"""The documents of the plant as they were before their pages were counted."""

from __future__ import annotations

from onceward import Context, Payload, Pipeline


class Doc(Payload, kind="doc"):
    url: str


doc = Pipeline(Doc)


@doc.stage
async def read(ctx: Context[Doc]) -> int:
    return 0

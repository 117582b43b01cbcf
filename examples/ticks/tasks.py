"""An app that is run by ticks alone."""

from __future__ import annotations

import os

from onceward import App, Context, Payload, Pipeline


class Mail(Payload, kind="mail"):
    """A mail to a customer."""

    to: str


mail = Pipeline(Mail)


@mail.stage(timeout="1m")
def send(ctx: Context[Mail]) -> str:
    """Send it; a minute fits into any tick."""
    return f"sent to {ctx.payload.to}"


app = App(os.environ.get("SHOP_DATABASE", "sqlite:///shop.db"), pipelines=[mail])

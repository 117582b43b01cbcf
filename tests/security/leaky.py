"""An application whose errors are full of secrets: `python -m tests.security.leaky FORM` works until idle."""

from __future__ import annotations

import logging
import os
import sys
import zlib

import structlog

from onceward import App, Config, Context, Failed, Payload, Pipeline, Retry, Retryable, Skipped, Source, Waiting
from onceward.support import logs

DATABASE = "ONCEWARD_LEAKY_DATABASE"
CANARY = {
    "environment": "canary-in-the-environment",
    "address": "canary-in-an-address",
    "header": "canary.in-a-header-1",
    "provider": "sk-canary-0123456789abcdef",
    "webhook": "canary-in-the-webhook",
    "query": "canaryinaquery",
    "cookie": "canary-in-a-cookie",
    "database": "canary-in-the-database-address",
}
WRITTEN = "404 for https://example.com/plain?page=2"
"""What is no secret, and must be there afterwards."""
WEBHOOK = f"http://127.0.0.1:9/{CANARY['webhook']}"


class Leak(Payload, kind="leak"):
    """Which secret is to get out, and how."""

    secret: str
    way: str


class Keeper(Payload, kind="keeper"):
    """Something that an application keeps."""

    text: str


leak = Pipeline(Leak, retry=Retry(retries=1, base="1ms"))
keeper = Pipeline(Keeper)
web = Source("web", per=lambda key: str(zlib.crc32(key.encode())), retries=0)  # so that no breaker opens


def said(secret: str) -> str:
    """A message as libraries make them."""
    return {
        "environment": f"the server did not like {os.environ.get('LEAKY_API_KEY')}",
        "address": f"cannot reach https://ada:{CANARY['address']}@example.com/x",
        "header": f"403 for {{'Authorization': 'Bearer {CANARY['header']}'}}",
        "provider": f"Incorrect API key provided: {CANARY['provider']}",
        "webhook": f"nobody answers at {WEBHOOK}",
        "query": f"404 Client Error for url: https://example.com/a?page=2&token={CANARY['query']}",
        "cookie": f"Set-Cookie: session={CANARY['cookie']}; Path=/",
        "database": f'connection to "postgresql://ada:{CANARY["database"]}@db.example/x" failed',
    }[secret]


@leak.stage(source=web)
def drip(ctx: Context[Leak]) -> None:
    message = said(ctx.payload.secret)
    ctx.progress(1, note=message)
    ctx.log.warning(
        message,
        written=WRITTEN,
        url=message,
        headers={"authorization": message},
        deep=[{"x": message}],
        error=OSError(message),
    )
    logging.getLogger("some.library").warning("%s", message)
    try:
        raise RuntimeError(message)
    except RuntimeError as error:
        ctx.log.exception("it happened", why=message)
        match ctx.payload.way:
            case "error":
                raise
            case "chained":
                raise ValueError(message) from error
            case "failed":
                raise Failed(message) from error
            case "skipped":
                raise Skipped(message) from error
            case "retryable":
                raise Retryable(message) from error
            case "waiting":
                raise Waiting(until="never", reason=message) from error
            case "call":
                ctx.call(web, lambda: (_ for _ in ()).throw(ValueError(message)))


@leak.stage(isolate="process")
def apart(ctx: Context[Leak]) -> None:
    raise RuntimeError(said(ctx.payload.secret))


@keeper.stage
def keep(ctx: Context[Keeper]) -> str:
    return ctx.payload.text


WAYS = ("chained", "failed", "skipped", "retryable", "waiting", "call", "apart")
LEAKS = [
    *(Leak(secret, "error") for secret in CANARY),
    *(Leak("header", way) for way in WAYS),
    Leak("environment", "apart"),
]


def app_on(url: str) -> App:
    """The app on a database."""
    return App(url, [leak, keeper], config=Config(max_lost_workers=1))


app = app_on(os.environ.get(DATABASE, "sqlite:///:memory:"))


def set_up(form: str) -> None:
    """Log as an application might."""
    match form:
        case "json" | "text":
            logs.configure("json" if form == "json" else "text")
        case "standard":
            logging.basicConfig(level=logging.INFO)
            logging.getLogger("some.library").setLevel(logging.CRITICAL)  # its own lines are its own affair there
        case "structlog":
            set_up("standard")
            structlog.configure(
                processors=[structlog.stdlib.add_log_level, structlog.processors.KeyValueRenderer()],
                wrapper_class=structlog.stdlib.BoundLogger,
                logger_factory=structlog.stdlib.LoggerFactory(),
            )


if __name__ == "__main__":
    set_up(sys.argv[1])
    app.run(until_idle=True)

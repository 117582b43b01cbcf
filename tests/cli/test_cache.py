"""The command about the cache, on both databases."""

from __future__ import annotations

from onceward import App, Context, Payload, Pipeline, Source
from onceward.testing import Harness
from tests.cli.conftest import Ask

web = Source("web")


class Page(Payload, kind="page"):
    url: str


pages = Pipeline(Page)


@pages.stage(calls=10)
def read(ctx: Context[Page]) -> str:
    return ctx.cached(web, ctx.payload.url[0], lambda: "x" * 98)


def read_pages(url: str) -> App:
    harness = Harness(App(url, [pages]), url=url)
    harness.app.enqueue_many([Page(url) for url in ("a", "a2", "a3", "b")])
    harness.drain()
    return harness.app


def test_what_the_cache_has_is_shown_and_forgotten(url: str, ask: Ask) -> None:
    with read_pages(url):
        shown = ask("cache", "--db", url)
        assert shown.code == 0
        head, line = shown.out.splitlines()
        assert head.split() == ["source", "entries", "bytes", "hits", "misses", "hit", "rate", "on", "retries"]
        assert line.split() == ["web", "2", "600", "2", "2", "50%"]
        assert ask("cache", "--json", "--db", url).document == {
            "cache": [
                {
                    "source": "web", "entries": 2, "bytes": 600, "hits": 2, "misses": 2, "hit_rate": 0.5,
                    "retry_hits": 0, "retry_misses": 0, "retry_hit_rate": None,
                }
            ]
        }  # fmt: skip
        assert ask("cache", "--source", "mail", "--json", "--db", url).document == {"cache": []}
        cleared = ask("cache", "--clear", "--source", "web", "--key", "a", "--json", "--db", url)
        assert cleared.document == {"cleared": 1}
        assert ask("cache", "--clear", "--db", url).out == "cleared 1 answer\n"
        assert ask("cache", "--clear", "--db", url).out == "cleared 0 answers\n"


def test_before_the_first_answer_there_is_nothing_to_show(app: App, ask: Ask) -> None:
    assert ask("cache", "--db", app.url).out == "no answer was asked for yet\n"


def test_a_key_goes_with_its_source(app: App, ask: Ask) -> None:
    refused = ask("cache", "--clear", "--key", "a", "--db", app.url)
    assert refused.code == 2
    assert "--key goes with --clear and --source" in refused.err

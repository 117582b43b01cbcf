"""The command about the numbers people ask for, on both databases."""

from __future__ import annotations

from onceward import App, Context, Payload, Pipeline, Retry, Source, Waiting
from onceward.testing import Harness
from tests.cli.conftest import Ask

CODE = "tests.cli.test_stats:app"
EVER = "36500d"
"""The harness lives in a time of its own; the command goes by the clock of the database."""

web = Source("web")
harnesses: list[Harness] = []


class Page(Payload, kind="page"):
    url: str


pages: Pipeline[Page] = Pipeline(Page, retry=Retry(retries=2, base="1s"))


@pages.stage(source=web)
def fetch(ctx: Context[Page]) -> str:
    """A page that is read at the second try, or waits for somebody's approval."""
    if ctx.payload.url == "held":
        raise Waiting(until="approved")
    answer = ctx.cached(web, ctx.payload.url, lambda: "text")
    harnesses[-1].advance("3s")
    if ctx.task.attempt == 1:
        raise ConnectionError("afterwards")
    return answer


app = App("sqlite:///pages.db", [pages])


def work(url: str) -> None:
    """Have one page read, and another one wait."""
    harness = Harness(app, url=url)
    harnesses.append(harness)
    with harness.app:
        harness.enqueue(Page("a"))
        harness.enqueue(Page("held"))
        harness.drain()


def test_figures_are_shown(url: str, ask: Ask) -> None:
    work(url)
    shown = ask("stats", "--since", EVER, "--db", url)
    assert (shown.code, shown.err) == (0, "")
    lines = [line.split() for line in shown.out.splitlines()]
    assert ["page", "3", "1", "33.3%", "0", "0.0%"] in lines
    assert ["all", "3", "1", "33.3%", "0", "0.0%"] in lines
    assert ["page", "fetch", "below", "1", "kB", "1", "3.0s", "3.0s", "3.0s"] in lines
    assert ["web", "1", "1", "50.0%", "100.0%"] in lines
    assert "onceward why ID says more of one" in shown.out
    assert "the signal 'approved'" in " ".join(shown.out.split())
    assert "Attempts by source" not in shown.out


def test_with_the_code_attempts_are_told_by_source(url: str, ask: Ask) -> None:
    work(url)
    shown = ask("stats", "--since", EVER, "--app", CODE, "--db", url)
    after = shown.out[shown.out.index("Attempts by source") :].splitlines()
    assert after[2].split() == ["web", "3", "1", "33.3%", "0", "0.0%"]


def test_figures_are_given_as_json(url: str, ask: Ask) -> None:
    work(url)
    document = ask("stats", "--since", EVER, "--json", "--db", url).document
    assert list(document) == [
        "at", "since", "whole", "stuck", "pace", "waited", "usd_an_hour", "calls_an_hour", "durations", "attempts",
        "pipelines", "sources", "cache",
    ]  # fmt: skip
    counts = {"attempts": 3, "retries": 1, "reclaimed": 0, "retry_rate": 1 / 3, "reclaim_rate": 0.0}
    assert (document["pipelines"], document["attempts"]) == ([{"name": "page", **counts}], {"name": "", **counts})
    assert document["durations"] == [
        {
            "pipeline": "page", "stage": "fetch", "size": "below 1 kB", "count": 1, "p50_s": 3.0, "p95_s": 3.0,
            "max_s": 3.0,
        }
    ]  # fmt: skip
    assert (document["cache"]["hit_rate"], document["cache"]["retry_hit_rate"]) == (0.5, 1.0)
    [held] = document["stuck"]
    assert (held["task"], held["pipeline"], held["stage"], held["status"]) == (2, "page", "fetch", "waiting")
    assert held["since"].startswith("20")


def test_an_empty_database_is_told_of_pleasantly(url: str, ask: Ask) -> None:
    ask("migrate", "--db", url)
    shown = ask("stats", "--db", url)
    assert (shown.code, shown.err) == (0, "")
    assert [line for line in shown.out.splitlines() if line] == [
        "Stuck  no task is",
        "Pace  0.0 tasks end a minute, 0.0 of them failed",
        "Attempts  0 in the last 1d",
        "Stages  none was done in the last 1d",
        "Cache  no answer was asked for yet",
    ]


def test_a_time_that_cannot_be_read_is_wrong_usage(url: str, ask: Ask) -> None:
    ask("migrate", "--db", url)
    refused = ask("stats", "--since", "yesterday", "--db", url)
    assert (refused.code, refused.out) == (2, "")
    assert "'yesterday' is not a duration" in refused.err

"""Sources and pauses on the command line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from onceward import App, Context, Payload, Pipeline, Retry, Source
from tests.cli.conftest import Ask


class Page(Payload, kind="page"):
    number: int

    def key(self) -> str:
        return f"{'good' if self.number < 10 else 'bad'}/{self.number}"


def host(key: str) -> str:
    return key.partition("/")[0]


def make(url: str) -> App:
    pages = Pipeline(Page, retry=Retry(retries=0))

    @pages.stage(source=Source("web", per=host, rate="60000/min", concurrency=5))
    async def fetch(ctx: Context[Page]) -> None:
        if ctx.payload.number >= 10:
            raise ConnectionError("no [bold]route[/bold]")

    return App(url, [pages])


@pytest.fixture
def site(url: str) -> Iterator[App]:
    """An app whose two hosts were asked: one is well, one is not."""
    with make(url) as app:
        app.enqueue_many([Page(1), Page(2), Page(11)])
        app.run(until_idle=True)
        yield app


def test_sources_are_listed(site: App, ask: Ask) -> None:
    answer = ask("sources", "--db", site.url)
    header, bad, good = answer.out.splitlines()
    assert answer.code == 0
    assert " ".join(header.split()) == "source state streak calls failures success tokens places hits waiting"
    assert bad.split()[:5] == ["web/bad", "open", "1", "1", "1"]
    assert good.split()[:5] == ["web/good", "open", "0", "2", "0"]


def test_the_unhealthy_ones_are_a_bad_answer(site: App, ask: Ask) -> None:
    answer = ask("sources", "--unhealthy", "--json", "--db", site.url)
    [bad] = answer.document["sources"]
    assert answer.code == 1
    assert (bad["name"], bad["source"], bad["instance"], bad["state"]) == ("web/bad", "web", "bad", "open")
    assert (bad["healthy"], bad["streak"], bad["last_error"]) == (False, 1, "ConnectionError: no [bold]route[/bold]")
    assert bad["tokens"] is None, "limits are in the code, which this command has not seen"
    assert set(bad) == {
        "name", "source", "instance", "state", "healthy", "enabled", "streak", "calls", "failures", "opened",
        "last_success_at", "last_failure_at", "last_error", "paused_until", "why", "tokens", "burst", "inside",
        "concurrency", "hits", "misses", "hit_rate", "waiting", "waiting_since", "known",
    }  # fmt: skip
    ask("source", "web", "--enable", "--db", site.url)
    assert ask("sources", "--unhealthy", "--db", site.url).out == "every source is healthy\n"


def test_limits_are_shown_with_the_code(ask: Ask, url: str, tmp_path: Path) -> None:
    file = tmp_path / "site.py"
    file.write_text(f"from tests.cli.test_source_commands import make\napp = make({url!r})\n")
    with make(url) as app:
        app.enqueue(Page(1))
        app.run(until_idle=True)
    [one] = ask("source", "web", "--json", "--app", f"{file}:app").document["sources"]
    assert (one["concurrency"], one["inside"], one["burst"], one["known"]) == (5, 0, 1_000, True)


def test_a_source_is_shown_with_its_last_error(site: App, ask: Ask) -> None:
    out = ask("source", "web/bad", "--db", site.url).out
    assert "ago: ConnectionError: no [bold]route[/bold]" in out
    missing = ask("source", "mail", "--db", site.url)
    assert (missing.code, missing.err) == (1, "onceward: there is no source 'mail'\n")


def test_a_source_is_switched(site: App, ask: Ask) -> None:
    assert ask("source", "web", "--disable", "--db", site.url).out == "disabled web/bad\ndisabled web/good\n"
    assert ask("source", "web/good", "--enable", "--json", "--db", site.url).document == {"enabled": ["web/good"]}
    assert ask("source", "web", "--pause", "--db", site.url).out == "paused web\n"
    states = {one["name"]: one["state"] for one in ask("sources", "--json", "--db", site.url).document["sources"]}
    assert states == {"web/bad": "disabled", "web/good": "paused by an operator"}
    assert ask("source", "web", "--resume", "--db", site.url).out == "resumed web\n"
    both = ask("source", "web", "--enable", "--disable", "--db", site.url)
    assert (both.code, both.err) == (2, "onceward: give one of --enable, --disable, not several\n")


def test_scopes_are_paused_and_resumed(site: App, ask: Ask) -> None:
    assert ask("pause", "--pipeline", "page", "--db", site.url).out == "paused the pipeline page\n"
    assert ask("pause", "--everything", "--json", "--db", site.url).document == {"paused": "everything"}
    assert {one.scope for one in site.workers.pauses()} == {"everything", "pipeline:page"}
    task = site.enqueue(Page(3)).id
    assert "everything is paused by an operator" in ask("why", task, "--db", site.url).out
    assert ask("resume", "--everything", "--db", site.url).out == "resumed everything\n"
    twice = ask("resume", "--everything", "--db", site.url)
    assert (twice.code, twice.err) == (1, "onceward: everything is not paused\n")
    assert ask("resume", "--pipeline", "page", "--db", site.url).out == "resumed the pipeline page\n"


def test_a_lineage_is_still_paused_by_its_id(site: App, ask: Ask) -> None:
    task = site.enqueue(Page(4)).id
    assert ask("pause", task, "--json", "--db", site.url).document == {"paused": str(task), "tasks": 1}
    assert ask("resume", task, "--db", site.url).out == "resumed 1 open task\n"


@pytest.mark.parametrize("command", ["pause", "resume"])
def test_what_is_to_be_paused_must_be_said(site: App, ask: Ask, command: str) -> None:
    one_of = "one of: the ID of a lineage, --pipeline, --source, --queue, --everything\n"
    nothing = ask(command, "--db", site.url)
    assert (nothing.code, nothing.err) == (2, f"onceward: give {one_of}")
    both = ask(command, "--queue", "default", "--everything", "--db", site.url)
    assert (both.code, both.err) == (2, f"onceward: give just {one_of}")

"""The commands about lineages, on both databases."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from onceward import App, Context, Failed, Limits, Payload, Pipeline, Status, Waiting
from onceward.testing import Harness
from tests.cli.conftest import Ask


class Page(Payload, kind="page"):
    url: str
    links: tuple[str, ...] = ()

    def key(self) -> str:
        return self.url


page = Pipeline(Page)


@page.stage
def scrape(ctx: Context[Page]) -> None:
    for url in ctx.payload.links:
        ctx.spawn(Page(url, ("deep",) if url == "jobs" else ()), after="1d" if url == "later" else None)


@page.stage
def judge(ctx: Context[Page]) -> None:
    if ctx.payload.url == "broken":
        raise Failed("gone [bold]for good[/bold]")
    if ctx.payload.url == "held" and ctx.signal("approved") is None:
        raise Waiting(until="approved")


@pytest.fixture
def crawl(url: str) -> Iterator[App]:
    """A lineage: home (1) has jobs, broken, held and later below it; it was refused itself, and jobs one more page."""
    app = App(url, [page])
    app.enqueue(Page("home", ("jobs", "broken", "held", "home", "home", "later")), limits=Limits(max_depth=1))
    app.enqueue(Page("alone"))
    _work(app)
    yield app
    app.close()


def _work(app: App) -> None:
    """Do what can be done now; `run` would wait for tomorrow."""
    harness = Harness(app, url=app.url)
    harness.clock.advance((app._store.clock.now() - harness.clock.now()) / 1_000)
    harness.drain(wait_for_due=False)
    harness.app.close()


def ids(app: App) -> dict[str, int]:
    return {task.key: task.id for task in app.tasks.list(limit=100)}


def test_a_lineage_is_shown_as_a_tree_with_its_refusals(crawl: App, ask: Ask) -> None:
    number = ids(crawl)
    answer = ask("lineage", number["jobs"], "--db", crawl.url)

    assert answer.code == 0
    assert "\x1b" not in answer.out
    head, *lines = [" ".join(line.split()) for line in answer.out.splitlines()]
    assert head == f"lineage {crawl.tasks.get(1).lineage}"
    assert lines[0] == "tasks 5 of 10,000: 1 pending, 1 waiting, 2 succeeded, 1 failed"
    assert "deepest 1 of 1" in lines
    assert "refused 3" in lines
    tree = "\n".join(lines)
    assert f"{number['home']} page home succeeded depth 0, 1 attempt" in tree
    assert "✗ page home refused 2 times: cycle the spawning task itself is the same work" in tree
    assert "✗ page deep refused: depth it would have depth 2, and the lineage's max_depth is 1" in tree
    assert f"{number['broken']} page broken failed depth 1, 1 attempt, gone [bold]for good[/bold]" in tree
    assert f"{number['held']} page held waiting depth 1, 1 attempt, waits for the signal 'approved'" in tree
    assert f"{number['later']} page later pending depth 1, due in" in tree


@pytest.mark.parametrize("columns", ["80", "100"])
def test_no_line_of_a_tree_is_wider_than_the_terminal(
    crawl: App, ask: Ask, columns: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    for command in (("lineage", "1"), ("lineages",), ("why", "1"), ("limits", "1")):
        out = ask(*command, "--db", crawl.url).out
        assert max(len(line) for line in out.splitlines()) <= int(columns)
    assert "refused" in ask("lineages", "--db", crawl.url).out


def test_a_lineage_as_json_is_a_tree_with_stable_keys(crawl: App, ask: Ask) -> None:
    document = ask("lineage", crawl.tasks.get(1).lineage, "--json", "--db", crawl.url).document

    assert set(document) == {
        "lineage", "whole", "tasks", "counts", "tasks_counted", "max_tasks", "deepest", "max_depth", "max_children",
        "deadline_at", "refusals", "paused", "paused_tasks", "left_out", "cost_usd", "tree",
    }  # fmt: skip
    assert (document["tasks"], document["tasks_counted"], document["refusals"]) == (5, 5, 3)
    [home] = document["tree"]
    assert set(home) == {
        "id", "parent", "depth", "kind", "key", "status", "stage", "attempts", "failures", "reason", "waiting_for",
        "paused", "cost_usd", "due_at", "created_at", "ended_at", "refusals", "refusals_only_counted", "links",
        "children",
    }  # fmt: skip
    assert [child["key"] for child in home["children"]] == ["jobs", "broken", "held", "later"]
    assert [(one["rule"], one["ancestor"]) for one in home["refusals"]] == [("cycle", 1), ("cycle", 1)]
    part = ask("lineage", ids(crawl)["jobs"], "--subtree", "--json", "--db", crawl.url).document
    assert (part["whole"], part["tasks"], part["tree"][0]["key"]) == (False, 1, "jobs")
    cut = ask("lineage", "1", "--limit", "2", "--db", crawl.url).out
    assert "the oldest 2 of 5; --limit shows more" in cut


def test_lineages_are_listed(crawl: App, ask: Ask) -> None:
    [one] = ask("lineages", "--json", "--db", crawl.url).document["lineages"]
    assert (one["root"], one["key"], one["tasks_counted"], one["refusals"], one["deepest"]) == (1, "home", 5, 3, 1)
    assert one["counts"] == {"pending": 1, "waiting": 1, "succeeded": 2, "failed": 1}
    header, line = ask("lineages", "--largest", "--db", crawl.url).out.splitlines()
    assert " ".join(header.split()) == "root kind key status tasks of open failed refused depth created"
    assert " ".join(line.split())[:-9] == "1 page home succeeded 5 10,000 2 1 3 1"


def test_why_says_what_holds_a_task_back(crawl: App, ask: Ask) -> None:
    number = ids(crawl)
    later = ask("why", number["later"], "--json", "--db", crawl.url).document
    assert set(later) == {
        "task", "status", "cause", "sentence", "until", "waiting_for", "paused_by", "open_children", "ahead", "workers",
        "gate", "paused_scope", "command", "below", "before",
    }  # fmt: skip
    assert (later["cause"], later["status"]) == ("due", "pending")
    assert later["until"] is not None
    answer = ask("why", number["held"], "--db", crawl.url)
    assert (answer.code, answer.out) == (
        0,
        f"task {number['held']}  waiting  it waits for the signal 'approved'\n"
        f"unblock  onceward approve {number['held']}\n",
    )
    assert "gone [bold]for good[/bold]" in ask("why", number["broken"], "--db", crawl.url).out
    missing = ask("why", "4711", "--db", crawl.url)
    assert (missing.code, missing.err) == (1, "onceward: there is no task 4711\n")


def test_tasks_are_listed_by_lineage_and_depth(crawl: App, ask: Ask) -> None:
    number = ids(crawl)

    def found(*options: Any) -> list[str]:
        return [task["key"] for task in ask("tasks", "--json", "--db", crawl.url, *options).document["tasks"]]

    assert found("--lineage", number["jobs"]) == ["later", "held", "broken", "jobs", "home"]
    assert found("--lineage", crawl.tasks.get(1).lineage, "--status", "failed") == ["broken"]
    assert found("--min-depth", "1", "--limit", "2") == ["later", "held"]
    assert found("--kind", "page", "--key", "alone") == ["alone"]
    assert found("--lineage", uuid.UUID(int=5)) == []
    assert ask("tasks", "--lineage", "apples", "--db", crawl.url).code == 2


def test_a_lineage_is_paused_and_resumed(crawl: App, ask: Ask) -> None:
    number = ids(crawl)
    answer = ask("pause", "1", "--db", crawl.url)
    assert (answer.code, answer.out) == (0, "paused 2 open tasks\n")
    assert "it is paused, with task 1" in ask("why", number["later"], "--db", crawl.url).out
    assert ask("lineage", "1", "--db", crawl.url).out.splitlines()[0].endswith("  paused")
    assert ask("lineages", "--json", "--db", crawl.url).document["lineages"][0]["paused"] is True
    listed = ask("tasks", "--json", "--db", crawl.url).document["tasks"]
    assert {task["key"] for task in listed if task["paused"]} == {"held", "later"}
    assert "paused, due in" in ask("tasks", "--db", crawl.url).out
    part = ask("resume", number["later"], "--db", crawl.url)
    assert (part.code, part.err) == (
        1,
        f"onceward: task {number['later']} is paused because task 1 is: resume that\n",
    )
    assert ask("resume", "1", "--json", "--db", crawl.url).document == {"resumed": "1", "tasks": 2}
    assert ask("resume", "1", "--db", crawl.url).code == 1


def test_a_lineage_is_retried_and_cancelled(crawl: App, ask: Ask) -> None:
    number = ids(crawl)
    document = ask("retry", "--lineage", "1", "--json", "--db", crawl.url).document
    assert document == {"retried": [number["broken"]], "refused": []}
    answer = ask("cancel", "--lineage", crawl.tasks.get(1).lineage, "--reason", "enough", "--db", crawl.url)
    assert (answer.code, answer.out) == (0, "cancelled 3 tasks\n")
    assert crawl.tasks.get(number["held"]).reason == "enough"
    assert ask("cancel", "--lineage", "1", "--db", crawl.url).out == "nothing of it is open\n"
    assert ask("retry", "--lineage", "1", "--db", crawl.url).out == "nothing of it has failed\n"


def test_tasks_or_a_lineage_are_given_not_both_and_not_neither(crawl: App, ask: Ask) -> None:
    for command in ("cancel", "retry"):
        both = ask(command, "1", "--lineage", "1", "--db", crawl.url)
        said = "onceward: give the numbers of tasks, --lineage or --filter"
        assert (both.code, both.err) == (2, f"{said}, one of them\n")
        neither = ask(command, "--db", crawl.url)
        assert (neither.code, neither.err) == (2, f"{said}\n")
    assert ask("retry", "--lineage", "1", "--fresh", "--db", crawl.url).code == 2
    missing = ask("cancel", "--lineage", uuid.UUID(int=5), "--db", crawl.url)
    assert (missing.code, missing.err) == (1, f"onceward: there is no lineage {uuid.UUID(int=5)}\n")


def test_limits_are_shown_and_raised(crawl: App, ask: Ask) -> None:
    before = {
        "max_depth": 1, "max_tasks": 10_000, "max_children": 1_000, "deadline_s": 172_800.0, "budget_usd": None,
    }  # fmt: skip
    assert ask("limits", "1", "--json", "--db", crawl.url).document == before
    answer = ask("limits", "1", "--max-depth", "3", "--deadline", "4d", "--db", crawl.url)
    assert answer.code == 0
    assert "max depth 3" in " ".join(answer.out.split())
    document = ask("lineage", "1", "--json", "--db", crawl.url).document
    assert document["max_depth"] == 3
    lower = ask("limits", "1", "--max-tasks", "5", "--db", crawl.url)
    assert (lower.code, lower.err) == (
        2,
        "onceward: limits are raised here, not lowered: max_tasks is 10000 already, more than 5\n",
    )
    assert ask("limits", "1", "--max-tasks", "-5", "--db", crawl.url).code == 2


def test_to_approve_is_to_send_the_signal_approved(crawl: App, ask: Ask) -> None:
    number = ids(crawl)
    answer = ask("approve", number["held"], "4711", "--json", "--db", crawl.url)
    assert answer.code == 1
    assert answer.document["approved"] == [number["held"]]
    assert crawl.tasks.get(number["held"]).status is Status.PENDING

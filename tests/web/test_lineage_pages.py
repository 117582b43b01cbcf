"""The pages of lineages on both databases: what they show, what they do, and how fast a large one is drawn."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator
from html import unescape

import pytest

from onceward import Limits, Status
from onceward.testing import Harness
from onceward.web.roles import Role
from tests.web import world
from tests.web.conftest import Client, client_of

WELL_BELOW_S = 2.0


@pytest.fixture
def harness(store_url: str) -> Iterator[Harness]:
    """The world of the tests on an empty database, with a clock of its own."""
    harness = Harness(world.app, url=store_url, seed=3)
    world.clock = harness.clock
    yield harness
    world.clock = None
    harness.app.close()


@pytest.fixture
def site(harness: Harness, runner: asyncio.Runner) -> Client:
    return client_of(harness.app, runner)


def scraped(harness: Harness) -> int:
    """Let a run over all boards come to its end; returns its root."""
    root = harness.enqueue(
        world.Scrape("2026-11-17 16:45"), limits=Limits(max_depth=4, max_tasks=2_000, max_children=150, budget="0.90")
    )
    harness.drain(wait_for_due=False)
    return root.id


def test_a_lineage_is_drawn_with_its_refusals_limits_and_budget(harness: Harness, site: Client) -> None:
    root = scraped(harness)
    page = site.get(f"/lineages/{root}")
    assert page.status == 200
    found = harness.app.lineages.get(root)
    for said in (
        "scrape 2026-11-17 16:45", "of 2,000", "beyond max_depth 4", "the spawning task has 150 children", "0.90 USD",
        f"{found.refusals}</span>", "node--refused", "node--parked", "node--failed", "edge--refused",
    ):  # fmt: skip
        assert said in page.text, said
    assert page.text.count('<svg class="tree__svg"') == 1
    assert len(page.body) < 300_000


def test_stored_text_is_shown_as_text(harness: Harness, site: Client) -> None:
    scraped(harness)
    harness.enqueue(world.Report(world.HOSTILE))
    [job] = [task for task in harness.app.tasks.list(status="failed", limit=200) if task.kind == "scrape_source"]
    page = site.get(f"/lineages/{job.id}?at={job.id}")
    assert "<script>alert" not in page.text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;\\u202e" in page.text
    assert "\u202e" not in page.text


def test_no_page_of_a_lineage_needs_a_style_or_a_script_of_its_own(harness: Harness, site: Client) -> None:
    root = scraped(harness)
    for path in ("/lineages", f"/lineages/{root}", f"/lineages/{root}?view=outline&by=time&at={root}"):
        text = site.get(path).text
        assert not re.search(r"\sstyle=|\son\w+=|<style|<script(?! src=)", text), path


def test_branches_unfold_by_plain_links(harness: Harness, site: Client) -> None:
    root = scraped(harness)
    text = site.get(f"/lineages/{root}").text
    more = re.search(r'node--more" href="([^"]+)"[^>]*><title>\+ (\d+) more', text)
    assert more is not None
    unfolded = site.get(unescape(more[1])).text
    assert unfolded.count("data-node=") > text.count("data-node=") + 5
    folds = re.search(r'href="([^"]+)" data-tree data-folds="(\d+)"', unfolded)
    assert folds is not None
    folded = site.get(unescape(folds[1])).text
    assert f'data-unfolds="{folds[2]}"' in folded
    assert site.get(f"/lineages/{root}?open=x_-3.q_99999999&at=9999999&by=cost").status == 200


def test_a_part_of_a_lineage_has_a_page_of_its_own(harness: Harness, site: Client) -> None:
    root = scraped(harness)
    board = next(child for child in harness.app.lineages.get(root).root.children if child.children)
    page = site.get(f"/lineages/{board.id}")
    assert "the whole lineage" in page.text
    assert f"task {board.id} and what descends from it" in page.text


def test_unknown_lineages_say_so(site: Client) -> None:
    assert site.get("/lineages/4711").status == 404
    assert site.get("/lineages/00000000-0000-0000-0000-000000000001").status == 404
    assert site.get("/lineages/none").status == 400
    assert site.get("/lineages?before=then").status == 400
    assert "No task has spawned another yet" in site.get("/lineages").text


def test_the_list_leads_to_lineages_newest_or_largest_first(harness: Harness, site: Client) -> None:
    root = scraped(harness)
    harness.enqueue(world.Scrape("later"), limits=Limits(max_tasks=7))
    lineage = harness.app.tasks.get(root).lineage
    newest, largest = site.get("/lineages").text, site.get("/lineages?by=size").text
    assert str(lineage) in newest
    assert newest.index("later") < newest.index(str(lineage))
    assert largest.index("later") > largest.index(str(lineage))
    assert site.get(f"/lineages?id={root}").header("location") == f"/lineages/{root}"


def test_a_child_that_waits_is_approved_in_place(harness: Harness, site: Client) -> None:
    root = scraped(harness)
    tree = harness.app.lineages.tree(root)
    [parked] = [task for task in tree.tasks.values() if task.is_parked][:1]
    assert f'id="refuse-{parked.id}"' in site.get(f"/lineages/{root}").text
    back = f"/lineages/{root}?by=time&at={parked.id}"
    answer = site.form(f"/lineages/{root}/approve", {"part": str(parked.id), "back": back})
    assert (answer.status, answer.header("location")) == (303, back)
    assert harness.app.tasks.get(parked.id).status is Status.PENDING
    assert harness.app.audit.list()[0].action == "POST /lineages/{id}/approve"


def test_a_child_that_waits_is_refused(harness: Harness, site: Client) -> None:
    root = scraped(harness)
    [parked] = [task for task in harness.app.lineages.tree(root).tasks.values() if task.is_parked][:1]
    site.form(f"/lineages/{root}/refuse", {"part": str(parked.id), "back": "https://evil.example"})
    assert harness.app.tasks.get(parked.id).status is Status.CANCELLED


def test_pausing_resuming_and_cancelling_reach_the_whole_lineage(harness: Harness, site: Client) -> None:
    root = harness.enqueue(world.Scrape("now"), limits=Limits(max_tasks=500)).id
    site.form(f"/lineages/{root}/pause", {})
    assert harness.app.lineages.get(root).is_paused
    site.form(f"/lineages/{root}/resume", {})
    assert not harness.app.lineages.get(root).is_paused
    for typed in ({}, {"typed": "0"}):
        answer = site.form(f"/lineages/{root}/cancel", typed)
        assert answer.status == 303
        assert harness.app.tasks.get(root).status is Status.PENDING
    site.form(f"/lineages/{root}/cancel", {"typed": "1", "reason": "wrong day"})
    assert harness.app.tasks.get(root).reason == "wrong day"


def test_failed_tasks_are_opened_again_once_their_number_was_typed(harness: Harness, site: Client) -> None:
    root = scraped(harness)
    failed = harness.app.lineages.get(root).counts[Status.FAILED]
    site.form(f"/lineages/{root}/retry", {"typed": str(failed - 1)})
    assert harness.app.lineages.get(root).counts[Status.FAILED] == failed
    site.form(f"/lineages/{root}/retry", {"typed": str(failed)})
    assert Status.FAILED not in harness.app.lineages.get(root).counts


def test_limits_are_raised_by_an_admin_alone(harness: Harness, runner: asyncio.Runner) -> None:
    root = scraped(harness)
    secret = harness.app.tokens.add("ben", "operator")
    site = client_of(harness.app, runner, Role.NONE)
    assert site.with_token(secret).form(f"/lineages/{root}/limits", {"max_tasks": "5000"}).status == 403
    assert harness.app.lineages.get(root).max_tasks == 2_000
    admin = site.with_token(harness.app.tokens.add("ada", "admin"))
    assert admin.form(f"/lineages/{root}/limits", {"max_tasks": "5,000", "budget": "2"}).status == 303
    assert harness.app.lineages.get(root).max_tasks == 5_000
    assert admin.form(f"/lineages/{root}/limits", {"max_tasks": "many"}).status == 400
    assert admin.form(f"/lineages/{root}/limits", {}).status == 400


def test_ten_thousand_tasks_with_refusals_are_drawn_at_once(harness: Harness, site: Client) -> None:
    root = harness.enqueue(
        world.Page("https://large.example", 100), limits=Limits(max_tasks=10_001, max_children=100)
    ).id
    harness.drain(wait_for_due=False)
    tree = harness.app.lineages.tree(root)
    assert (len(tree.tasks), tree.refusals) == (10_001, 1_010)
    began = time.perf_counter()
    page = site.get(f"/lineages/{root}")
    assert time.perf_counter() - began < WELL_BELOW_S
    assert page.status == 200
    assert "10,001" in page.text
    assert len(page.body) < 300_000
    unfolded = site.get(f"/lineages/{root}?open={root}.1255_{tree.root.children[3].id}.255")
    assert unfolded.text.count("data-node=") > 180


def test_sums_of_branches_are_those_of_the_whole_lineage(harness: Harness) -> None:
    root = scraped(harness)
    tree, found = harness.app.lineages.tree(root), harness.app.lineages.get(root)
    assert tree.counts == found.counts
    assert tree.root.tasks == found.tasks
    assert tree.root.refused == found.refusals
    assert tree.root.failed == found.counts.get(Status.FAILED, 0)
    assert tree.root.cost / 10**9 == pytest.approx(float(found.cost))
    assert (tree.deepest, tree.max_depth, tree.max_tasks) == (found.deepest, found.max_depth, found.max_tasks)
    by_rule = {one.rule: 0 for one in tree.refused}
    for one in tree.refused:
        by_rule[one.rule] += one.times
    assert sum(by_rule.values()) == found.refusals
    for branch in found.walk():
        assert tree.tasks[branch.id].tasks == sum(1 for _ in branch.walk())

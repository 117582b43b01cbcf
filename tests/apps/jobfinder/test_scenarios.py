"""The four ways in which work that spawns work runs away, in the words of the job finder: each ends by itself here."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from onceward import Limits, Rule
from onceward.testing import Harness
from onceward_apps.jobfinder import company_rows, listing_rows, matching
from onceward_apps.jobfinder.identities import listing_id
from onceward_apps.jobfinder.matching import Match
from onceward_apps.jobfinder.payloads import Company, Job
from tests.apps.jobfinder.loopback import World, job


def posting(company: str, website: str, title: str = "Senior Backend Engineer") -> str:
    """The page of one listing, with structured data that names its company."""
    data = {
        "@context": "https://schema.org", "@type": "JobPosting", "title": title, "datePosted": "2025-12-28",
        "description": "<p>Python, PostgreSQL, Docker, Go and Redis.</p>" + "<p>We write things that last.</p>" * 5,
        "hiringOrganization": {"@type": "Organization", "name": company, "sameAs": website},
        "jobLocation": {"@type": "Place", "address": {"addressLocality": "Portland", "addressRegion": "OR"}},
    }  # fmt: skip
    return f'<html><body><h1>{title}</h1><script type="application/ld+json">{json.dumps(data)}</script></body></html>'


def kinds(finder: Harness) -> Counter[str]:
    return Counter(task.kind for task in finder.app.tasks.list(limit=1_000))


def test_a_job_that_misses_its_company_waits_for_it_and_goes_on_if_it_fails(finder: Harness, world: World) -> None:
    """Direct loop: the job asks for its company, the company has no data. Neither asks for the other again."""
    website = world.url("acme.example")
    url = world.page("acme.example", "/jobs/1", posting("Acme", website))
    root = finder.enqueue(Job(url))
    finder.drain()
    assert kinds(finder) == {"job": 1, "company": 1, "fetch": 1}
    company = next(task for task in finder.app.tasks.list() if task.kind == "company")
    assert (company.status.word, company.parent) == ("failed", root.id)
    row = finder.app.read(company_rows.company, f"acme.example:{world.port}")
    assert row is not None
    assert (row.status, row.parent_task, row.depth) == ("unknown", root.id, 1)
    assert "none of its pages is there" in (row.reason or "")
    assert finder.task(root).status.word == "succeeded"
    [match] = finder.app.read(listing_rows.matches, False)
    assert "its company could not be looked at: failed, " in match.why_json
    assert match.score == sum(reason["points"] for reason in json.loads(match.why_json)) >= 80


def test_a_circle_of_job_company_board_and_the_same_job_is_not_closed(
    finder: Harness, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Circular dependency: job A → company X → its board → job A. The last step is refused as a cycle."""
    website = world.url("acme.example")
    url = world.page("acme.example", "/jobs/1", posting("Acme", website))
    board = world.greenhouse("acme", [job(1, absolute_url=url), job(2)])
    world.company("Acme", board=board)
    root = finder.enqueue(Job(url))
    judge, held_up = matching.match, [ConnectionError("come back later")]

    def match(*arguments: Any) -> Match:
        if held_up:
            raise held_up.pop()  # so that job A is still open when its board is read
        return judge(*arguments)

    monkeypatch.setattr(matching, "match", match)
    finder.drain()
    assert kinds(finder) == {"job": 2, "company": 1, "source_discovery": 1, "scrape_source": 1, "fetch": 1}
    assert finder.app.lineages.get(root.id).refusals == 1
    [refusal] = finder.app.tasks.find(Job(url)).refusals
    assert (refusal.kind, refusal.rule, refusal.key) == ("job", Rule.CYCLE, url)
    assert {task.status.word for task in finder.app.tasks.list()} == {"succeeded"}
    assert len(finder.app.read(listing_rows.matches, False)) == 2


def test_three_jobs_that_miss_the_same_company_have_it_looked_at_once(finder: Harness, world: World) -> None:
    """Duplicate spawning: three lineages, one company, and all three are told what became of it."""
    website = world.company("Acme", stack="Python, PostgreSQL, Docker, Go and Redis in our Portland office")
    for number in (1, 2, 3):
        url = world.page(f"board{number}.example", "/jobs/1", posting("Acme", website, f"Backend Engineer {number}"))
        finder.enqueue(Job(url))
    finder.drain()
    assert kinds(finder) == {"job": 3, "company": 1, "fetch": 3}
    assert world.asked["acme.example/about"] == 1
    matches = finder.app.read(listing_rows.matches, False)
    assert ["tier S" in match.why_json for match in matches] == [True, True, True]


def test_a_site_that_fails_is_asked_a_few_times_and_makes_no_more_tasks(finder: Harness, world: World) -> None:
    """Retry storm: whatever fails is tried again as the same task, and ends."""
    website = world.page("broken.example", "/", "oops", status=503)
    root = finder.enqueue(Company(website))
    finder.drain()
    assert kinds(finder) == {"company": 1}
    task = finder.task(root)
    assert (task.status.word, task.failures) == ("failed", 3)
    assert "server_error" in (task.reason or "")
    assert world.asked["broken.example/"] <= 8
    row = finder.app.read(company_rows.company, f"broken.example:{world.port}")
    assert row is not None
    assert row.status == "unknown"


def test_nothing_goes_deeper_than_its_lineage_may(finder: Harness, world: World) -> None:
    website = world.company("Acme", board=world.greenhouse("acme", [job(1)]))
    root = finder.enqueue(Company(website), limits=Limits(max_depth=2))
    finder.drain()
    assert kinds(finder) == {"company": 1, "source_discovery": 1, "scrape_source": 1}
    assert finder.app.lineages.get(root.id).refusals == 1
    [refusal] = finder.app.tasks.find(Job("https://boards.greenhouse.io/acme/jobs/1")).refusals
    assert refusal.rule is Rule.DEPTH


def test_a_listing_that_is_a_match_is_done(finder: Harness, world: World) -> None:
    website = world.company("Acme", stack="Python, PostgreSQL, Docker, Go and Redis in our Portland office")
    url = world.page("acme.example", "/jobs/1", posting("Acme", website))
    finder.enqueue(Job(url))
    finder.drain()
    assert finder.app.read(listing_rows.match_of, listing_id(url)) is not None
    again = finder.enqueue(Job(f"{url}?utm_source=mail#apply"))
    finder.drain()
    task = finder.task(again)
    assert (task.status.word, task.reason) == ("skipped", "done: it is saved as a match already")
    assert world.asked["acme.example/jobs/1"] == 1

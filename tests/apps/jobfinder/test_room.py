"""Boards that show more than a lineage has room for, and sites that redirect: what is asked, and what is kept."""

from __future__ import annotations

from onceward import Limits
from onceward.testing import Harness
from onceward_apps.jobfinder import approving, company_rows, listing_rows
from onceward_apps.jobfinder.payloads import Company
from tests.apps.jobfinder.loopback import World

TITLES = ("Backend Engineer", "Product Designer", "Data Engineer", "Account Executive")


def pages_of_jobs(world: World, pages: int) -> str:
    """A list of jobs on several pages; returns the first of them."""
    shown = []
    for page in range(pages):
        items = "".join(
            f'<li class="job"><a href="/jobs/view-{page}-{place}">{title} {page}</a>'
            '<span class="location">Portland, OR</span></li>'
            for place, title in enumerate(TITLES)
        )
        more = f'<a rel="next" href="/careers?page={page + 1}">More</a>' if page + 1 < pages else ""
        shown.append(f"<ul>{items}</ul>{more}")
        world.page("acme.example", f"/careers?page={page}", f"<html><body>{shown[page]}</body></html>")
    return shown[0]


def test_listings_for_which_there_is_no_room_have_no_rows_on_whichever_page_they_stand(
    finder: Harness, world: World
) -> None:
    finder.enqueue(Company(world.company("Acme", board=pages_of_jobs(world, 3))))
    finder.drain()
    approving.approve(finder.app, approving.waiting(finder.app), Limits(max_children=6))
    finder.drain()
    jobs = [task for task in finder.app.tasks.list(limit=100) if task.kind == "job"]
    assert len(jobs) == 6
    listings = finder.app.read(listing_rows.listings)
    assert {row.url for row in listings} == {task.key for task in jobs}
    assert "analyzing" not in {row.status for row in listings}
    [reading] = [task for task in finder.app.tasks.list(limit=100) if task.kind == "scrape_source"]
    assert finder.app.lineages.get(reading.id).refusals == 6


def test_every_hop_of_a_redirect_is_a_call_of_its_own(finder: Harness, world: World) -> None:
    world.page("old.example", "/", "", 302, Location=world.url("new.example", "/"))
    world.company("New")
    finder.enqueue(Company(world.url("old.example", "/")))
    finder.drain()
    calls = {status.name: status.calls for status in finder.app.sources.list()}
    assert calls[f"web/new.example:{world.port}"] >= 1
    assert finder.app.read(company_rows.company, f"old.example:{world.port}") is not None


def test_redirects_in_a_circle_are_told_in_one_sentence(finder: Harness, world: World) -> None:
    for path in ("/", "/about", "/about-us", "/company", "/careers", "/jobs"):
        world.page("round.example", path, "", 302, Location="/start")
    world.page("round.example", "/start", "", 302, Location="/")
    task = finder.enqueue(Company(world.url("round.example", "/")))
    finder.drain()
    reason = finder.task(task).reason or ""
    assert "redirects in a circle" in reason
    assert reason.endswith("and so for 5 other pages")

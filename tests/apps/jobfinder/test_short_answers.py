"""What is gone, and what need not be looked at again, is not concluded from too little."""

from __future__ import annotations

from onceward import Status
from onceward.testing import Harness
from onceward_apps.jobfinder import listing_rows
from onceward_apps.jobfinder.identities import listing_id
from onceward_apps.jobfinder.payloads import Company, Reading
from tests.apps.jobfinder.loopback import World, job


def gone_at(finder: Harness, number: int) -> int | None:
    row = finder.app.read(listing_rows.listing, listing_id(job(number)["absolute_url"]))
    assert row is not None
    return row.gone_at


def test_a_board_that_answers_less_than_it_says_marks_nothing_gone(finder: Harness, world: World) -> None:
    path = "/v1/boards/acme/jobs?content=true"
    finder.enqueue(Company(world.company("Acme", board=world.greenhouse("acme", [job(1), job(2), job(3)]))))
    finder.drain()
    for total, is_gone in ((3, False), (2, True)):
        world.json("greenhouse.example", path, {"jobs": [job(1), job(1)], "meta": {"total": total}})
        finder.advance("2h")
        task = finder.enqueue(Reading("greenhouse:acme"))
        finder.drain()
        assert finder.task(task).status is Status.SUCCEEDED
        said = "1 listings, 0 of them new" + ("" if is_gone else "; the board says it has 3, so none is marked gone")
        assert finder.task(task).results["settle"] == said
        assert [gone_at(finder, number) is not None for number in (1, 2, 3)] == [False, is_gone, is_gone]


def test_a_company_is_looked_at_again_after_the_time_that_the_setting_says(finder: Harness, world: World) -> None:
    website = world.company("Acme")
    finder.enqueue(Company(website))
    finder.drain()
    finder.app.settings.set("company.fresh_for", "2d")
    for after, status, asked in (("1d", Status.SKIPPED, 1), ("2d", Status.SUCCEEDED, 2)):
        finder.advance(after)
        task = finder.enqueue(Company(website))
        finder.drain()
        assert finder.task(task).status is status
        assert world.asked["acme.example/about"] == asked


def test_a_company_that_is_hardly_known_is_looked_at_again_at_once(finder: Harness, world: World) -> None:
    about = f"<title>Globex</title><h1>About Globex</h1><p>{'We make gauges for steam engines. ' * 3}</p>"
    website = world.page("globex.example", "/", "<title>Globex</title><h1>Globex</h1>")
    world.page("globex.example", "/about", about)
    for asked in (1, 2):
        task = finder.enqueue(Company(website))
        finder.drain()
        assert finder.task(task).status is Status.SUCCEEDED
        assert world.asked["globex.example/about"] == asked
        finder.advance("1d")

"""From a company to its matches, whole: on both databases, against a small web on loopback."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from onceward import Limits, Status, Task
from onceward.testing import Harness
from onceward_apps.jobfinder import (
    approving,
    company_rows,
    explaining,
    importing,
    listing_rows,
    source_rows,
    surroundings,
)
from onceward_apps.jobfinder.finder import jobfinder
from onceward_apps.jobfinder.identities import listing_id
from onceward_apps.jobfinder.listing_rows import ListingRow
from onceward_apps.jobfinder.payloads import Company, Job, Reading
from onceward_apps.jobfinder.source_rows import SourceRow
from onceward_apps.transactions import transaction
from tests.apps.jobfinder.conftest import PROFILE
from tests.apps.jobfinder.loopback import Answer, World, job


def test_a_company_leads_to_its_board_and_the_board_to_matches(finder: Harness, world: World) -> None:
    board = world.greenhouse("acme", [job(1), job(2, "Junior Accountant", location={"name": "Berlin"})])
    website = world.company(
        "Acme", board=board, stack="Python, PostgreSQL, Docker, Go and Redis in our Portland office"
    )
    root = finder.enqueue(Company(website))
    finder.drain()

    name = f"acme.example:{world.port}"
    company = finder.app.read(company_rows.company, name)
    assert company is not None
    assert (company.name, company.status, company.tier, company.priority_score) == ("Acme", "active", "S", 150)
    assert company.job_board_confidence == "high"
    source = finder.app.read(source_rows.source, "greenhouse:acme")
    assert source is not None
    assert (source.status, source.confidence, source.company, source.listings) == ("active", "high", name, 2)
    [match] = finder.app.read(listing_rows.matches, False)
    assert (match.title, match.score, match.priority) == ("Senior Backend Engineer", 100, "high")
    other = finder.app.read(listing_rows.listing, listing_id("https://boards.greenhouse.io/acme/jobs/2"))
    assert other is not None
    assert (other.status, other.title) == ("filtered", "Junior Accountant")
    assert "Berlin" in (other.reason or "")
    assert finder.task(root).status is Status.SUCCEEDED
    kinds = sorted((task.kind, task.status.word, task.depth) for task in finder.app.tasks.list())
    assert kinds == [
        ("company", "succeeded", 0),
        ("job", "filtered", 3),
        ("job", "succeeded", 3),
        ("scrape_source", "succeeded", 2),
        ("source_discovery", "succeeded", 1),
    ]


STACK = "Python, PostgreSQL, Docker, Go and Redis in our Portland office"


def listing_at(finder: Harness, url: str) -> ListingRow:
    row = finder.app.read(listing_rows.listing, listing_id(url))
    assert row is not None
    return row


def source_at(finder: Harness, name: str = "greenhouse:acme") -> SourceRow:
    row = finder.app.read(source_rows.source, name)
    assert row is not None
    return row


def read_again(finder: Harness, source: str = "greenhouse:acme") -> Task:
    """Have a source read once more, past what the cache keeps."""
    finder.advance("2h")
    task = finder.enqueue(Reading(source))
    finder.drain()
    return finder.task(task)


# Companies


def test_a_company_of_which_little_is_known_is_skipped(finder: Harness, world: World) -> None:
    website = world.page("bare.example", "/", "<title>Bare</title><h1>Bare</h1><p>Soon.</p>")
    task = finder.enqueue(Company(website))
    finder.drain()
    assert finder.task(task).status is Status.SKIPPED
    row = finder.app.read(company_rows.company, f"bare.example:{world.port}")
    assert row is not None
    assert (row.status, row.about, row.tier) == ("skipped", None, None)
    assert "too little is known of it: 0 characters about it" in (row.reason or "")


def test_a_company_that_is_known_well_is_left_alone_for_30_days(finder: Harness, world: World) -> None:
    website = world.company("Acme")
    finder.enqueue(Company(website))
    finder.drain()
    finder.advance("29d")
    again = finder.enqueue(Company(website))
    finder.drain()
    assert finder.task(again).status is Status.SKIPPED
    assert world.asked["acme.example/about"] == 1
    finder.advance("2d")
    later = finder.enqueue(Company(website))
    finder.drain()
    assert later.created
    assert world.asked["acme.example/about"] == 2


def test_a_company_whose_task_is_forgotten_is_still_left_alone(finder: Harness, world: World) -> None:
    website = world.company("Acme")
    finder.enqueue(Company(website))
    finder.drain()
    finder.advance("3d")
    finder.app.tasks.prune("1d")
    again = finder.enqueue(Company(website))
    finder.drain()
    assert finder.task(again).reason == "it is known well, and was looked at 2026-01-01"
    assert world.asked["acme.example/about"] == 1


def test_a_company_is_one_whatever_page_of_it_is_named(finder: Harness, world: World) -> None:
    website = world.company("Acme")
    first = finder.enqueue(Company(website))
    assert finder.enqueue(Company(f"{website}about?utm_source=mail")).existing == first.id


def test_the_record_of_a_company_is_there_before_its_details(finder: Harness, world: World) -> None:
    seen: list[company_rows.CompanyRow | None] = []
    website = world.company("Acme")
    page = world.pages["acme.example", "/careers"]

    def careers() -> Answer:
        seen.append(finder.app.read(company_rows.company, f"acme.example:{world.port}"))
        assert isinstance(page, Answer)
        return page

    world.page("acme.example", "/careers", careers)
    importing.add(finder.app, [importing.company_at(website, "Acme")])
    finder.drain()
    [row] = seen
    assert row is not None
    assert (row.name, row.status, row.about, row.tier, row.analysed_at) == ("Acme", "analyzing", None, None, None)


@pytest.mark.parametrize(("more", "priority"), [(STACK, 1), ("Python and PostgreSQL", 0), ("Java", -1)])
def test_the_tier_of_a_company_sets_the_priority_of_all_that_comes_of_it(
    finder: Harness, world: World, more: str, priority: int
) -> None:
    finder.enqueue(Company(world.company("Acme", board=world.greenhouse("acme", [job(1)]), stack=more)))
    finder.drain()
    found = {task.kind: task.priority for task in finder.app.tasks.list() if task.depth > 0}
    assert found == {"source_discovery": priority, "scrape_source": priority, "job": priority}


# Sources


def test_a_board_that_is_not_certain_waits_for_a_person(finder: Harness, world: World) -> None:
    posting = {
        "id": "a-1", "text": "Senior Backend Engineer", "hostedUrl": "https://jobs.lever.co/acme/a-1",
        "categories": {"location": "Portland, OR"}, "createdAt": 1_766_880_000_000,
        "descriptionPlain": "Python, PostgreSQL, Docker, Go and Redis. " * 5,
    }  # fmt: skip
    world.json("lever.example", "/v0/postings/acme?mode=json&skip=0&limit=100", [posting])
    link = '<a href="https://jobs.lever.co/acme">Jobs</a>'
    finder.enqueue(Company(world.company("Acme", board=link, stack=STACK)))
    finder.drain()
    row = source_at(finder, "lever:acme")
    assert (row.status, row.awaits_approval, row.confidence, row.tested_at) == ("pending_validation", True, None, None)
    assert not [asked for asked in world.asked if asked.startswith("lever.example")]
    assert {task.kind for task in finder.app.tasks.list()} == {"company"}

    assert approving.approve(finder.app, approving.waiting(finder.app)) == ["lever:acme"]
    finder.drain()
    row = source_at(finder, "lever:acme")
    assert (row.status, row.awaits_approval, row.confidence) == ("active", False, "high")
    assert [match.title for match in finder.app.read(listing_rows.matches, False)] == ["Senior Backend Engineer"]


def test_a_board_that_a_source_has_is_not_discovered_again(finder: Harness, world: World) -> None:
    board = world.greenhouse("acme", [job(1)])
    finder.enqueue(Company(world.company("Acme", board=board)))
    finder.enqueue(Company(world.company("Acme Labs", board=board)))
    finder.drain()
    kinds = [task.kind for task in finder.app.tasks.list()]
    assert (kinds.count("company"), kinds.count("source_discovery"), kinds.count("scrape_source")) == (2, 1, 1)


def test_a_page_of_jobs_is_read_by_instructions_once_a_person_agrees(finder: Harness, world: World) -> None:
    titles = ("Senior Backend Engineer", "Backend Engineer", "Product Designer")
    items = "".join(
        f'<li class="job"><a href="/jobs/view-{number}">{title}</a><span class="location">Portland, OR</span></li>'
        for number, title in enumerate(titles)
    )
    text = "Python, PostgreSQL, Docker, Go and Redis are what we work with every day, all of us together. " * 3
    for number, title in enumerate(titles):
        page = f"<title>{title} | Acme</title><body><h1>{title}</h1><article><p>{text}</p></article></body>"
        world.page("acme.example", f"/jobs/view-{number}", page)
    finder.enqueue(Company(world.company("Acme", board=f"<ul>{items}</ul>", stack=STACK)))
    finder.drain()
    [waiting] = approving.waiting(finder.app)
    assert (waiting.kind, waiting.expected_confidence) == ("generic", "low")
    approving.approve(finder.app, [waiting])
    finder.drain()
    row = source_at(finder, waiting.source)
    assert (row.status, row.confidence, row.listings) == ("active", "low", 3)
    assert "li.job" in (row.config_json or "")
    found = {match.title for match in finder.app.read(listing_rows.matches, False)}
    assert {"Senior Backend Engineer", "Backend Engineer"} <= found


def test_a_source_that_fails_five_readings_in_a_row_is_disabled_until_a_person_enables_it(
    finder: Harness, world: World
) -> None:
    finder.enqueue(Company(world.company("Acme", board=world.greenhouse("acme", [job(1)]))))
    finder.drain()
    path = "/v1/boards/acme/jobs?content=true"
    fine = world.pages["greenhouse.example", path]
    world.page("greenhouse.example", path, "gone", status=404)
    for streak in (1, 2, 3, 4):
        assert read_again(finder).status is Status.FAILED
        assert (source_at(finder).status, source_at(finder).streak) == ("active", streak)
    assert read_again(finder).status is Status.FAILED
    row = source_at(finder)
    assert (row.status, row.streak) == ("disabled", 5)
    assert (row.reason or "").startswith("failed 5 times in a row: gone: ")
    assert read_again(finder).status is Status.SKIPPED
    finder.advance("1d")
    finder.drain()
    assert world.asked[f"greenhouse.example{path}"] == 6
    assert [alert.rule for alert in finder.app.alerts.look()] == ["job source disabled"]

    world.page("greenhouse.example", path, fine)
    assert approving.enable(finder.app, [row]) == ["greenhouse:acme"]
    finder.drain()
    assert (source_at(finder).status, source_at(finder).streak) == ("active", 0)


def test_one_success_ends_a_streak(finder: Harness, world: World) -> None:
    finder.enqueue(Company(world.company("Acme", board=world.greenhouse("acme", [job(1)]))))
    finder.drain()
    path = "/v1/boards/acme/jobs?content=true"
    fine = world.pages["greenhouse.example", path]
    world.page("greenhouse.example", path, "gone", status=404)
    read_again(finder)
    world.page("greenhouse.example", path, fine)
    assert read_again(finder).status is Status.SUCCEEDED
    assert source_at(finder).streak == 0


def test_a_board_that_changes_its_shape_is_marked_and_crashes_nothing(finder: Harness, world: World) -> None:
    finder.enqueue(Company(world.company("Acme", board=world.greenhouse("acme", [job(1)]))))
    finder.drain()
    world.json("greenhouse.example", "/v1/boards/acme/jobs?content=true", {"positions": []})
    task = read_again(finder)
    assert (task.status, task.failures) == (Status.FAILED, 0)
    row = source_at(finder)
    assert (row.is_drifted, row.streak) == (True, 1)
    assert (row.last_error or "").startswith("drifted: ")


def test_a_board_that_is_none_is_unknown_with_its_reason(finder: Harness, world: World) -> None:
    link = '<a href="https://boards.greenhouse.io/nobody">Jobs</a>'
    finder.enqueue(Company(world.company("Acme", board=link)))
    finder.drain()
    row = source_at(finder, "greenhouse:nobody")
    assert row.status == "unknown"
    assert (row.reason or "").startswith("gone: ")
    world.greenhouse("nobody", [job(1)])
    approving.approve(finder.app, approving.chosen(approving.testable(finder.app), ["greenhouse:nobody"]))
    finder.drain()
    assert source_at(finder, "greenhouse:nobody").status == "active"


def test_a_task_whose_time_is_over_leaves_no_row_undecided(finder: Harness, world: World) -> None:
    website = world.page("slow.example", "/", "later", status=503, Retry_After="5000")
    finder.enqueue(Company(website))
    finder.enqueue(Job(world.page("slow2.example", "/jobs/1", "later", status=503, Retry_After="5000")))
    finder.drain()
    row = finder.app.read(company_rows.company, f"slow.example:{world.port}")
    assert row is not None
    assert (row.status, row.reason) == ("unknown", "its time was over")
    listing = listing_at(finder, world.url("slow2.example", "/jobs/1"))
    assert listing.status == "unknown"


def test_sources_are_read_on_a_schedule_when_they_are_due(finder: Harness, world: World) -> None:
    finder.enqueue(Company(world.company("Acme", board=world.greenhouse("acme", [job(1)]))))
    finder.drain()
    finder.advance("1h")
    finder.drain()
    readings = [task for task in finder.app.tasks.list() if task.kind == "scrape_source"]
    assert len(readings) == 1
    finder.advance("6h")
    finder.drain()
    newest, _ = [task for task in finder.app.tasks.list() if task.kind == "scrape_source"]
    scrape = finder.task(newest.parent or 0)
    assert (scrape.kind, newest.depth, newest.status.word) == ("scrape", 1, "succeeded")
    assert len([task for task in finder.app.tasks.list() if task.kind == "job"]) == 1


@pytest.mark.parametrize(
    "address",
    [
        "https://[acme.example/2",
        "https://acme.example:99999/2",
        "https://acme.example/\x00",
        f"https://a.example/{'x' * 50_000}",
    ],
)
def test_a_listing_with_an_impossible_address_costs_no_other(finder: Harness, world: World, address: str) -> None:
    board = world.greenhouse("acme", [job(1), job(2, absolute_url=address)])
    finder.enqueue(Company(world.company("Acme", board=board, stack=STACK)))
    finder.drain()
    assert source_at(finder).listings == 1
    assert [match.url for match in finder.app.read(listing_rows.matches, False)] == [job(1)["absolute_url"]]


# Listings


def test_characters_that_a_database_refuses_cost_no_listing(finder: Harness, world: World) -> None:
    board = world.greenhouse("acme", [job(1, "Senior Backend \x00 Engineer", location={"name": "Portland\x00"})])
    website = world.company("Acme", board=board, stack=STACK)
    named = '<script type="application/ld+json">{"@type": "Organization", "name": "A\\u0000\\ud800cme"}</script>'
    world.page("acme.example", "/", named)
    finder.enqueue(Company(website))
    finder.drain()
    company = finder.app.read(company_rows.company, f"acme.example:{world.port}")
    assert company is not None
    assert company.name == "A\ufffd\ufffdcme"
    [match] = finder.app.read(listing_rows.matches, False)
    assert (match.title, match.location) == ("Senior Backend \ufffd Engineer", "Portland\ufffd")


def test_the_same_position_on_two_sources_is_one_listing(finder: Harness, world: World) -> None:
    first, second = world.greenhouse("acme", [job(1)]), world.greenhouse("acme2", [job(7)])
    finder.enqueue(Company(world.company("Acme", board=first, stack=STACK)))
    finder.drain()
    finder.enqueue(Company(world.company("Acme Labs", board=second, stack=STACK)))
    finder.drain()
    assert len([task for task in finder.app.tasks.list() if task.kind == "job"]) == 1
    [match] = finder.app.read(listing_rows.matches, False)
    told = explaining.explained(finder.app, match.listing)
    assert [one["source"] for one in told["seen_at"]] == ["greenhouse:acme", "greenhouse:acme2"]


def test_two_positions_that_look_alike_on_one_source_are_two(finder: Harness, world: World) -> None:
    finder.enqueue(Company(world.company("Acme", board=world.greenhouse("acme", [job(1), job(2)]), stack=STACK)))
    finder.drain()
    assert len(finder.app.read(listing_rows.matches, False)) == 2


def test_a_listing_that_is_no_longer_shown_is_gone_and_may_come_back(finder: Harness, world: World) -> None:
    finder.enqueue(Company(world.company("Acme", board=world.greenhouse("acme", [job(1), job(2)]), stack=STACK)))
    finder.drain()
    world.greenhouse("acme", [job(2)])
    read_again(finder)
    [left] = finder.app.read(listing_rows.matches, False)
    assert left.url.endswith("/2")
    assert listing_at(finder, job(1)["absolute_url"]).gone_at is not None
    assert len(finder.app.read(listing_rows.matches, True)) == 2
    world.greenhouse("acme", [job(1), job(2)])
    read_again(finder)
    assert listing_at(finder, job(1)["absolute_url"]).gone_at is None
    assert len([task for task in finder.app.tasks.list() if task.kind == "job"]) == 2


def test_a_listing_that_two_sources_stop_showing_at_once_is_gone_after_the_next_reading(
    finder: Harness, world: World
) -> None:
    for name, number in (("acme", 1), ("acme2", 7)):
        board = world.greenhouse(name, [job(number)])
        finder.enqueue(Company(world.company(name.title(), board=board, stack=STACK)))
        finder.drain()
    world.greenhouse("acme", [])
    world.greenhouse("acme2", [])
    with transaction(finder.app) as connection:  # each has noted it for itself, and has seen the other show it still
        connection.execute("UPDATE jobs_sighting SET gone_at = 1")
    read_again(finder)
    assert listing_at(finder, job(1)["absolute_url"]).gone_at is not None


def test_a_listing_that_cannot_be_scraped_is_unknown_with_its_reason(finder: Harness, world: World) -> None:
    task = finder.enqueue(Job(world.url("acme.example", "/jobs/404")))
    finder.drain()
    assert finder.task(task).status is Status.FAILED
    row = listing_at(finder, world.url("acme.example", "/jobs/404"))
    assert (row.status, row.title, row.description) == ("unknown", None, None)
    assert (row.reason or "").startswith("gone: ")
    assert row.gone_at is not None


def test_what_stop_lists_name_is_rejected_before_anything_is_fetched(
    world: World, profile: Callable[[str], None], url: str
) -> None:
    profile(PROFILE + '[filters.stop_list]\ncompanies = ["Initech"]\ndomains = ["evil.example"]\nkeywords = ["unpaid"]')
    with jobfinder(url, surroundings.profile()) as app:
        finder = Harness(app, url=url)
        assert not finder.enqueue(Job(world.url("jobs.evil.example", "/1")))
        assert not finder.enqueue(Job(world.url("acme.example", "/jobs/unpaid-internship")))
        assert not finder.enqueue(Company(world.url("initech.example"), "Initech"))
        board = world.greenhouse("acme", [job(1, company_name="Initech"), job(2, "Unpaid Backend Engineer"), job(3)])
        finder.enqueue(Company(world.company("Acme", board=board, stack=STACK)))
        finder.drain()
        assert [task.key for task in finder.app.tasks.list() if task.kind == "job"] == [job(3)["absolute_url"]]
        assert not [asked for asked in world.asked if "evil" in asked or "unpaid" in asked or "initech" in asked]
        finder.app.close()


def test_a_listing_without_a_description_is_completed_by_a_page_of_its_own(finder: Harness, world: World) -> None:
    item = {
        "id": "7", "name": "Senior Backend Engineer", "releasedDate": "2025-12-28T00:00:00Z",
        "company": {"identifier": "acme", "name": "Acme"},
        "location": {"city": "Portland", "region": "OR", "country": "us", "remote": False},
    }  # fmt: skip
    text = "<p>Python, PostgreSQL, Docker, Go and Redis.</p>" * 5
    world.json("smartrecruiters.example", "/v1/companies/acme/postings?limit=100&offset=0", {
        "offset": 0, "limit": 100, "totalFound": 1, "content": [item],
    })  # fmt: skip
    world.json("smartrecruiters.example", "/v1/companies/acme/postings/7", {
        **item, "jobAd": {"sections": {"jobDescription": {"title": "Job", "text": text}}},
        "postingUrl": "https://jobs.smartrecruiters.com/acme/7", "active": True,
    })  # fmt: skip
    importing.add(finder.app, [importing.meant_by("https://careers.smartrecruiters.com/acme")])
    finder.drain()
    [match] = finder.app.read(listing_rows.matches, False)
    assert match.company_name == "Acme"
    assert sorted(task.kind for task in finder.app.tasks.list()) == [
        "fetch",
        "job",
        "scrape_source",
        "source_discovery",
    ]


def test_what_a_lineage_has_no_room_for_is_found_by_the_next_reading(finder: Harness, world: World) -> None:
    board = world.greenhouse("acme", [job(number) for number in range(1, 6)])
    root = finder.enqueue(Company(world.company("Acme", board=board, stack=STACK)), limits=Limits(max_children=3))
    finder.drain()
    assert len([task for task in finder.app.tasks.list() if task.kind == "job"]) == 3
    assert finder.app.lineages.get(root.id).refusals == 2
    read_again(finder)
    assert len([task for task in finder.app.tasks.list() if task.kind == "job"]) == 5
    assert len(finder.app.read(listing_rows.matches, False)) == 5


def test_a_setting_that_is_changed_while_workers_run_counts_at_once(finder: Harness, world: World) -> None:
    finder.enqueue(Company(world.company("Acme", board=world.greenhouse("acme", [job(1, "Junior Backend Engineer")]))))
    finder.drain()
    url = job(1)["absolute_url"]
    assert (listing_at(finder, url).status, finder.app.settings.get("filter.strike_threshold")) == ("active", 5)
    finder.app.settings.set("filter.strike_threshold", 3)
    world.greenhouse("acme", [job(1), job(2, "Junior Backend Engineer")])
    read_again(finder)
    row = listing_at(finder, job(2)["absolute_url"])
    assert row.status == "filtered"
    assert (row.reason or "").startswith("3 strikes: the level is junior")


def test_work_waits_while_settings_cannot_be_meant(finder: Harness, world: World) -> None:
    finder.app.settings.set("match.min_score", 300)
    task = finder.enqueue(Company(world.company("Acme", board=world.greenhouse("acme", [job(1)]), stack=STACK)))
    finder.drain(wait_for_due=False)
    assert finder.task(task).status is Status.PENDING
    assert "match.min_score=300 cannot be reached" in (finder.task(task).reason or "")
    finder.app.settings.unset("match.min_score")
    finder.drain()
    assert finder.task(task).status is Status.SUCCEEDED
    assert len(finder.app.read(listing_rows.matches, False)) == 1


def test_a_host_that_asks_for_time_gets_it(finder: Harness, world: World) -> None:
    answers = [Answer("slow down", 429, headers={"Retry-After": "600"})]
    website = world.company("Acme")
    home = world.pages["acme.example", "/"]
    assert isinstance(home, Answer)
    world.page("acme.example", "/", lambda: answers.pop() if answers else home)
    task = finder.enqueue(Company(website))
    began = finder.clock.now()
    finder.drain(wait_for_due=False)
    assert world.asked == {"acme.example/": 1}
    [gate] = [gate for gate in finder.app.sources.list() if gate.source == "web" and gate.instance]
    assert gate.name == f"web/acme.example:{world.port}"
    finder.drain()
    assert finder.clock.now() - began >= 600_000
    assert finder.task(task).status is Status.SUCCEEDED


def test_no_death_loses_or_repeats_a_row(world: World, profile: Callable[[str], None]) -> None:
    board = world.greenhouse("acme", [job(1), job(2)])
    website = world.company("Acme", board=board, stack=STACK)
    for point in (
        "after claim", "after fetch", "after extract", "before save", "after test", "after read", "before settle",
        "after scrape", "after filter", "before analyse", "inside commit", "after commit",
    ):  # fmt: skip
        finder = Harness(jobfinder("sqlite:///:memory:", surroundings.profile()))
        finder.enqueue(Company(website))
        finder.crash(point)
        finder.drain()
        assert finder.crashes == 1, point
        assert len(finder.app.read(listing_rows.matches, False)) == 2, point
        assert len(finder.app.tasks.list()) == 5, point
        assert finder.app.verify().ok, point
        finder.app.close()

"""A position that several sources show is looked at once, for certain; two openings of one source are two."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

import pytest

from onceward import App
from onceward.testing import Harness
from onceward_apps.jobfinder import importing, listing_rows, opening_rows, source_rows
from onceward_apps.jobfinder.company_rows import Origin
from onceward_apps.jobfinder.identities import listing_id, twin_of
from onceward_apps.jobfinder.listing import Listing
from onceward_apps.jobfinder.listing_rows import Said, Seen
from onceward_apps.jobfinder.matching import Match
from onceward_apps.jobfinder.opening_rows import PositionTaken
from onceward_apps.jobfinder.payloads import Company, Job, Reading
from onceward_apps.jobfinder.source_rows import SourceName
from onceward_apps.statements import rows
from onceward_apps.transactions import Direct, transaction
from tests.apps.jobfinder.loopback import World, job

STACK = "Python, PostgreSQL, Docker, Go and Redis in our Portland office"
ORIGIN = Origin(1, "lineage", 3, 1_000)
MATCH = Match(score=90, needed=80, priority="high", why=())


def shown(board: str, number: int, title: str) -> Seen:
    """A listing of a board on a page that was just read."""
    url = f"https://{board}.example/jobs/{number}"
    listing = Listing(url=url, title=title, company="Acme", location="Portland, OR")
    return Seen(listing=listing_id(url), url=url, twin=twin_of("Acme", title, "Portland, OR"), said=Said(listing))


def with_sources(app: App, *names: str) -> None:
    with transaction(app) as connection:
        for name in names:
            asked = SourceName(name, "lever", name, f"https://jobs.lever.co/{name}", "high")
            source_rows.begin_source(connection, asked, None, ORIGIN, False)


def at_once(app: App, *works: Callable[[Direct], None]) -> list[BaseException]:
    """Do all of this at the same moment, each in a transaction of its own; returns what was raised."""
    errors: list[BaseException] = []
    barrier = threading.Barrier(len(works))

    def in_transaction(work: Callable[[Direct], None]) -> None:
        barrier.wait(timeout=30)
        try:
            with transaction(app) as connection:
                work(connection)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=in_transaction, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    return errors


def test_of_two_sources_read_at_the_same_moment_one_has_the_listing_and_the_other_links_to_it(finder: Harness) -> None:
    titles = [f"Engineer {number}" for number in range(30)]
    with_sources(finder.app, "a", "b")
    pages = {board: [shown(board, number, title) for number, title in enumerate(titles)] for board in ("a", "b")}

    # Each has looked before, and has seen that nobody knows any of them.
    errors = at_once(
        finder.app,
        lambda connection: listing_rows.see(connection, "a", None, pages["a"], {}, ORIGIN),
        lambda connection: listing_rows.see(connection, "b", None, pages["b"][::-1], {}, ORIGIN),
    )

    assert errors == []
    assert len(finder.app.read(listing_rows.listings)) == len(titles)
    by_source = [
        {one.listing: found.listing for one in pages[board] for found in [seen[one.listing]]}
        for board in ("a", "b")
        for seen in [finder.app.read(opening_rows.standing, board, [one.listing for one in pages[board]])]
    ]
    assert [len(found) for found in by_source] == [len(titles)] * 2
    assert set(by_source[0].values()) == set(by_source[1].values())


def test_who_comes_second_waits_for_the_first_and_sees_it(finder: Harness) -> None:
    with_sources(finder.app, "a", "b")
    first, second = shown("a", 1, "Engineer"), shown("b", 7, "engineer")

    def follow() -> None:
        with transaction(finder.app) as connection:
            listing_rows.see(connection, "b", None, [second], {}, ORIGIN)

    thread = threading.Thread(target=follow)
    with transaction(finder.app) as connection:
        listing_rows.see(connection, "a", None, [first], {}, ORIGIN)
        thread.start()
        thread.join(timeout=0.5)
        assert thread.is_alive()
    thread.join(timeout=60)
    assert [row.listing for row in finder.app.read(listing_rows.listings)] == [first.listing]
    [found] = finder.app.read(opening_rows.standing, "b", [second.listing]).values()
    assert found.listing == first.listing


def test_two_boards_that_are_read_in_turn_make_one_job_and_stay_with_it(finder: Harness, world: World) -> None:
    for board, number in (("acme", 1), ("acme2", 7)):
        world.greenhouse(board, [job(number)])
        importing.add(finder.app, [importing.meant_by(f"https://boards.greenhouse.io/{board}")])
    finder.drain()
    for _ in range(2):
        finder.advance("2h")
        finder.enqueue(Reading("greenhouse:acme2"))
        finder.drain()
    assert len([task for task in finder.app.tasks.list() if task.kind == "job"]) == 1
    assert len(finder.app.read(listing_rows.listings)) == 1


@pytest.mark.parametrize(("first", "second", "openings"), [(1, 2, 2), (2, 2, 2), (2, 1, 2), (3, 1, 3)])
def test_as_many_openings_are_looked_at_as_one_board_shows_and_none_is_dropped(
    finder: Harness, world: World, first: int, second: int, openings: int
) -> None:
    boards = [
        world.greenhouse("acme", [job(number) for number in range(1, first + 1)]),
        world.greenhouse("acme2", [job(number) for number in range(11, second + 11)]),
    ]
    for name, board in zip(("Acme", "Acme Labs"), boards, strict=True):
        finder.enqueue(Company(world.company(name, board=board, stack=STACK)))
        finder.drain()
    assert len(finder.app.read(listing_rows.matches, False)) == openings
    assert len([task for task in finder.app.tasks.list() if task.kind == "job"]) == openings


def test_alike_listings_on_two_pages_of_one_board_are_two_openings(finder: Harness) -> None:
    with_sources(finder.app, "a", "b")
    for source, numbers in (("a", (1, 2)), ("b", (7, 8))):
        for number in numbers:
            with transaction(finder.app) as connection:
                listing_rows.see(connection, source, None, [shown(source, number, "Engineer")], {}, ORIGIN)
    assert len(finder.app.read(listing_rows.listings)) == 2
    found = finder.app.read(opening_rows.standing, "b", [shown("b", number, "Engineer").listing for number in (7, 8)])
    assert len({one.listing for one in found.values()}) == 2


def test_who_comes_between_a_look_and_an_opening_is_seen(finder: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    if finder.app.dialect == "sqlite":
        pytest.skip("nobody comes between there: one writes at a time")
    twin = twin_of("Acme", "Engineer", "Portland")
    names = [listing_id(f"https://acme.example/jobs/{number}") for number in (1, 2)]
    with transaction(finder.app) as connection:
        for number, name in enumerate(names, 1):
            listing_rows.begin_listing(connection, name, f"https://acme.example/jobs/{number}", ORIGIN)
    look = opening_rows.rival

    def slowly(connection: Direct, listing: str, twin: str | None) -> opening_rows.Rival | None:
        found = look(connection, listing, twin)
        if listing == names[1]:
            with transaction(finder.app) as other:
                listing_rows.save_match(other, names[0], twin, MATCH, None, 1)
        return found

    monkeypatch.setattr(opening_rows, "rival", slowly)
    with pytest.raises(PositionTaken), transaction(finder.app) as connection:
        listing_rows.save_match(connection, names[1], twin, MATCH, None, 1)
    assert [match.listing for match in finder.app.read(listing_rows.matches, False)] == [names[0]]


def test_who_claims_between_a_look_and_an_opening_is_seen(finder: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    if finder.app.dialect == "sqlite":
        pytest.skip("nobody comes between there: one writes at a time")
    with_sources(finder.app, "a", "b")
    first, second = shown("a", 1, "Engineer"), shown("b", 7, "engineer")
    opened = opening_rows._opened

    def slowly(connection: Direct, listing: str, twin: str, last: int) -> bool:
        if listing == second.listing:
            monkeypatch.setattr(opening_rows, "_opened", opened)
            with transaction(finder.app) as other:
                listing_rows.see(other, "a", None, [first], {}, ORIGIN)
        return opened(connection, listing, twin, last)

    monkeypatch.setattr(opening_rows, "_opened", slowly)
    with transaction(finder.app) as connection:
        listing_rows.see(connection, "b", None, [second], {}, ORIGIN)
    assert [row.listing for row in finder.app.read(listing_rows.listings)] == [first.listing]


def test_of_two_listings_that_are_saved_at_the_same_moment_one_is_a_match(finder: Harness) -> None:
    twin = twin_of("Acme", "Engineer", "Portland")
    names = [listing_id(f"https://acme.example/jobs/{number}") for number in (1, 2)]
    with transaction(finder.app) as connection:
        for number, name in enumerate(names, 1):
            listing_rows.begin_listing(connection, name, f"https://acme.example/jobs/{number}", ORIGIN)

    def save(name: str) -> Callable[[Direct], None]:
        return lambda connection: listing_rows.save_match(connection, name, twin, MATCH, None, 1)

    errors = at_once(finder.app, *(save(name) for name in names))
    assert [type(error) for error in errors] == [PositionTaken]
    [match] = finder.app.read(listing_rows.matches, False)
    [other] = set(names) - {match.listing}
    rival = finder.app.read(opening_rows.rival, other, twin)
    assert rival is not None
    assert (rival.listing, rival.is_match) == (match.listing, True)


def test_whoever_is_saved_first_has_the_position_also_if_another_saw_it_before(finder: Harness) -> None:
    with_sources(finder.app, "a")
    seen = shown("a", 1, "Engineer")
    by_hand = listing_id("https://acme.example/jobs/1")
    with transaction(finder.app) as connection:
        listing_rows.see(connection, "a", None, [seen], {}, ORIGIN)
        listing_rows.begin_listing(connection, by_hand, "https://acme.example/jobs/1", ORIGIN)
    with transaction(finder.app) as connection:
        listing_rows.save_match(connection, by_hand, seen.twin, MATCH, None, 1)
    with pytest.raises(PositionTaken), transaction(finder.app) as connection:
        listing_rows.save_match(connection, seen.listing, seen.twin, MATCH, None, 1)
    assert [match.listing for match in finder.app.read(listing_rows.matches, False)] == [by_hand]


def test_a_listing_that_a_person_adds_is_the_same_as_one_of_a_board(finder: Harness, world: World) -> None:
    finder.enqueue(Company(world.company("Acme", board=world.greenhouse("acme", [job(1)]), stack=STACK)))
    finder.drain()
    text = "Python, PostgreSQL, Docker, Go and Redis are what we work with every day, all of us together. " * 3
    data = {
        "@type": "JobPosting", "title": job(1)["title"], "description": text, "datePosted": "2025-12-28",
        "hiringOrganization": {"name": "Acme Inc."},
        "jobLocation": {"address": {"addressLocality": "Portland", "addressRegion": "OR"}},
    }  # fmt: skip
    url = world.page("acme.example", "/jobs/mine", _posting(data))
    task = finder.enqueue(Job(url))
    finder.drain()
    [match] = finder.app.read(listing_rows.matches, False)
    assert finder.task(task).reason == f"it is the same position as {match.listing}, which is a match already"


def _posting(data: dict[str, Any]) -> str:
    return f'<script type="application/ld+json">{json.dumps(data)}</script><h1>{data["title"]}</h1>'


def test_what_there_is_no_room_for_leaves_no_row(finder: Harness) -> None:
    with_sources(finder.app, "a", "b")
    first, second = shown("a", 1, "Engineer"), shown("a", 2, "Writer")
    with transaction(finder.app) as connection:
        listing_rows.see(connection, "a", None, [first, second], {}, ORIGIN)
        listing_rows.see(connection, "b", None, [shown("b", 7, "Writer")], {}, ORIGIN)
        listing_rows.forget(connection, "a", [first.listing, second.listing])
    assert [row.listing for row in finder.app.read(listing_rows.listings)] == [second.listing]
    assert finder.app.read(lambda connection: rows(connection, "SELECT listing FROM jobs_position")) == [
        (second.listing,)
    ]

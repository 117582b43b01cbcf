"""A profile that changes judges anew what another one has judged, from what was read, on both databases."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from onceward.testing import Harness
from onceward_apps.jobfinder import listing_rows, surroundings
from onceward_apps.jobfinder.finder import jobfinder
from onceward_apps.jobfinder.payloads import Company
from onceward_apps.jobfinder.rejudging import rejudge
from onceward_apps.transactions import transaction
from tests.apps.jobfinder.conftest import PROFILE
from tests.apps.jobfinder.loopback import World, job

STACK = "Python, PostgreSQL, Docker, Go and Redis in our Portland office"
OTHER = PROFILE.replace('["mid", "senior"]', '["junior"]')


def found(finder: Harness) -> dict[str, str]:
    return {str(row.title): row.status for row in finder.app.read(listing_rows.listings)}


def looked(finder: Harness, world: World) -> None:
    """Two listings were looked at: one fits, one does not, because of its level and its place."""
    board = world.greenhouse("acme", [job(1), job(2, "Junior Backend Engineer", location={"name": "Seattle"})])
    finder.app.settings.set("filter.strike_threshold", 3)
    finder.enqueue(Company(world.company("Acme", board=board, stack=STACK)))
    finder.drain()
    assert found(finder) == {"Senior Backend Engineer": "active", "Junior Backend Engineer": "filtered"}


def test_another_profile_judges_anew_and_fetches_nothing(
    finder: Harness, world: World, profile: Callable[[str], None]
) -> None:
    looked(finder, world)
    asked = world.asked.copy()
    assert rejudge(finder.app, surroundings.profile()) == 0

    profile(OTHER)
    assert rejudge(finder.app, surroundings.profile()) == 2
    # Until it is judged anew, a match is what it was.
    assert [row.title for row in finder.app.read(listing_rows.matches, False)] == ["Senior Backend Engineer"]
    finder.drain()
    assert found(finder) == {"Senior Backend Engineer": "filtered", "Junior Backend Engineer": "active"}
    [match] = finder.app.read(listing_rows.matches, False)
    assert (match.title, match.posted, match.location) == ("Junior Backend Engineer", "2025-12-28", "Seattle")
    assert world.asked == asked
    assert rejudge(finder.app, surroundings.profile()) == 0

    profile(PROFILE)
    assert rejudge(finder.app, surroundings.profile()) == 2
    finder.drain()
    assert [row.title for row in finder.app.read(listing_rows.matches, False)] == ["Senior Backend Engineer"]


def test_a_profile_that_changes_back_before_anybody_judged_leaves_nothing_undecided(
    finder: Harness, world: World, profile: Callable[[str], None]
) -> None:
    looked(finder, world)
    profile(OTHER)
    rejudge(finder.app, surroundings.profile())
    profile(PROFILE)
    finder.drain()
    assert found(finder) == {"Senior Backend Engineer": "active", "Junior Backend Engineer": "filtered"}
    assert len(finder.app.read(listing_rows.matches, False)) == 1


@pytest.mark.parametrize("is_known_to_the_app", [True, False])
def test_what_a_new_stop_list_names_is_no_match_any_more(
    finder: Harness, world: World, profile: Callable[[str], None], url: str, is_known_to_the_app: bool
) -> None:
    looked(finder, world)
    profile(PROFILE + '[filters.stop_list]\nkeywords = ["engineer"]')
    if is_known_to_the_app:
        with jobfinder(url, surroundings.profile()) as app:
            assert rejudge(app, surroundings.profile()) == 2
    else:
        rejudge(finder.app, surroundings.profile())
        finder.drain()
    assert finder.app.read(listing_rows.matches, False) == []
    reasons = {(row.status, row.reason) for row in finder.app.read(listing_rows.listings)}
    assert reasons == {("filtered", "the keyword 'engineer' in its title is on the stop list")}


def test_what_is_gone_is_left_alone(finder: Harness, world: World, profile: Callable[[str], None]) -> None:
    looked(finder, world)
    with transaction(finder.app) as connection:
        connection.execute("UPDATE jobs_listing SET gone_at = 1")
    profile(OTHER)
    assert rejudge(finder.app, surroundings.profile()) == 0

"""The match: how well a listing that has passed the filter fits a person, in points that explain themselves."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Literal

import msgspec

from onceward_apps.jobfinder.filtering import required
from onceward_apps.jobfinder.listing import Listing
from onceward_apps.jobfinder.places import names_place, way_of
from onceward_apps.jobfinder.positions import level_of
from onceward_apps.jobfinder.profile import Profile
from onceward_apps.jobfinder.reasons import Reason, share, total
from onceward_apps.jobfinder.settings import HIGHEST_SCORE, Numbers
from onceward_apps.jobfinder.technologies import technologies_in

Priority = Literal["high", "medium", "low"]
TIER_SHARE: Mapping[str, float] = MappingProxyType({"S": 1.0, "A": 0.8, "B": 0.5, "C": 0.2, "D": 0.0})
"""How much of the points for a company its tier is worth."""


class Employer(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the company of a listing."""

    name: str | None = None
    tier: str | None = None
    has_office: bool = False
    """Whether it has an office in the place of the profile."""


class Match(msgspec.Struct, frozen=True, kw_only=True):
    """How well a listing fits, what it needed, and why."""

    score: int
    needed: int
    priority: Priority
    why: tuple[Reason, ...]
    has_office: bool = False

    @property
    def is_saved(self) -> bool:
        """Whether it is good enough."""
        return self.score >= self.needed


def match(listing: Listing, employer: Employer, profile: Profile, numbers: Numbers) -> Match:
    """How well a listing fits a person, by rules alone."""
    return judged(tuple(points(listing, employer, profile, numbers)), listing, employer, profile, numbers)


def judged(why: tuple[Reason, ...], listing: Listing, employer: Employer, profile: Profile, numbers: Numbers) -> Match:
    """The match that points come to; with an office in the right place less is needed."""
    score = max(0, min(HIGHEST_SCORE, total(why)))
    office = employer.has_office or names_place(listing.location, profile.places.office)
    needed = numbers.match_portland_score if office else numbers.match_min_score
    return Match(score=score, needed=needed, priority=priority_of(score, numbers), why=why, has_office=office)


def priority_of(score: int, numbers: Numbers) -> Priority:
    """The priority of a match with this score."""
    if score >= numbers.match_high_priority:
        return "high"
    return "medium" if score >= numbers.match_medium_priority else "low"


def points(listing: Listing, employer: Employer, profile: Profile, numbers: Numbers) -> Iterator[Reason]:
    """All points, each with its sentence; what a profile does not state is no wish, and counts as met."""
    yield from _skills(listing, profile, numbers)
    yield from _title(listing, profile, numbers)
    level, levels = level_of(listing.title), profile.person.levels
    if not levels or level in levels:
        yield Reason(numbers.match_points_seniority, "seniority", f"the level is {level}")
    yield from _place(listing, profile, numbers)
    worth = round(numbers.match_points_company * TIER_SHARE.get(employer.tier or "D", 0.0))
    if worth:
        yield Reason(worth, "company", f"{employer.name or 'the company'} is of tier {employer.tier}")
    yield from _salary(listing, profile, numbers)


def _skills(listing: Listing, profile: Profile, numbers: Numbers) -> Iterator[Reason]:
    ranks = profile.ranks
    text = "\n".join((listing.title, listing.description or "", *listing.requirements))
    named = technologies_in(text, tuple(sorted(ranks)))
    found = {name: ranks[name] for name in named if name in ranks}
    if found:
        worth = round(numbers.match_points_skills * share(found, ranks, numbers.match_full_skills))
        said = ", ".join(f"{name} ({rank})" for name, rank in sorted(found.items(), key=lambda one: -one[1]))
        yield Reason(worth, "skills", f"it names {said}")
    missing = sorted(required(listing) - ranks.keys())
    if missing and numbers.match_minus_missing:
        yield Reason(-numbers.match_minus_missing * len(missing), "missing", f"it asks for {', '.join(missing)}")


def _title(listing: Listing, profile: Profile, numbers: Numbers) -> Iterator[Reason]:
    titles = profile.person.titles
    if not titles:
        yield Reason(numbers.match_points_title, "title", "every title is fine")
        return
    words = _words(listing.title)
    best = max(titles, key=lambda title: len(_words(title) & words) / max(1, len(_words(title))))
    fits = len(_words(best) & words) / max(1, len(_words(best)))
    if worth := round(numbers.match_points_title * fits):
        yield Reason(worth, "title", f"the title is close to {best!r}" if fits < 1 else f"the title says {best!r}")


def _place(listing: Listing, profile: Profile, numbers: Numbers) -> Iterator[Reason]:
    way = way_of(listing.remote, listing.location, listing.description)
    worth = numbers.match_points_place
    if way == "remote" and profile.places.remote != "no":
        yield Reason(worth, "place", "the work is remote")
    elif profile.places.remote == "required":
        return
    elif not profile.places.wanted:
        yield Reason(worth, "place", "every place is fine")
    elif place := next((one for one in profile.places.wanted if names_place(listing.location, one)), None):
        yield Reason(worth, "place", f"it is in {place}")


def _salary(listing: Listing, profile: Profile, numbers: Numbers) -> Iterator[Reason]:
    highest, lowest = listing.salary_max or listing.salary_min, profile.salary.minimum
    if not lowest:
        yield Reason(numbers.match_points_salary, "salary", "every salary is fine")
    elif highest is not None and highest >= lowest and (listing.currency or "") in ("", profile.salary.currency):
        yield Reason(numbers.match_points_salary, "salary", f"it pays up to {highest:,.0f}")


def _words(title: str) -> frozenset[str]:
    return frozenset(re.findall(r"[\w+#.]+", title.casefold()))

"""The match: how well a listing that has passed the filter fits a person, in points that explain themselves.

A posting is read as a person reads it: what the work is before all, then what it requires and what would be nice, the
level, the place, and what it pays. What a posting does not say is worth half; what contradicts the profile costs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Literal

import msgspec

from onceward_apps.jobfinder import languages, roles, verdicts
from onceward_apps.jobfinder.demands import Demands, demands_in
from onceward_apps.jobfinder.listing import Listing
from onceward_apps.jobfinder.places import bound_to, is_in, is_open_to, names_place, way_of
from onceward_apps.jobfinder.positions import levels_of, steps_between
from onceward_apps.jobfinder.profile import Profile
from onceward_apps.jobfinder.reasons import Reason, share, total
from onceward_apps.jobfinder.settings import HIGHEST_SCORE, Numbers
from onceward_apps.jobfinder.technologies import technologies_in
from onceward_apps.jobfinder.verdicts import Verdict

Priority = Literal["high", "medium", "low"]
TIER_SHARE: Mapping[str, float] = MappingProxyType({"S": 1.0, "A": 0.8, "B": 0.6, "C": 0.4, "D": 0.2})
"""How much of the points for a company its tier is worth."""
UNSAID = 0.5
"""How much is worth what a posting or the world does not say."""
ANOTHER_WORK = 0.6
"""Below so much of a fit the work is another one."""
NAMES_NONE = 0.6
"""How much of the points for skills a posting has that names none and requires no technology."""
REQUIRED_SHARE = 0.6
"""How much of the points for skills is for what is required; the rest is for how many of the best skills are named."""
MOST_NAMED = 6


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


def match(
    listing: Listing, employer: Employer, profile: Profile, numbers: Numbers, before: Sequence[Verdict] = ()
) -> Match:
    """How well a listing fits a person, by rules alone; `before` is what the person has decided about others."""
    why = tuple(points(listing, employer, profile, numbers, before))
    return judged(why, listing, employer, profile, numbers)


def judged(why: tuple[Reason, ...], listing: Listing, employer: Employer, profile: Profile, numbers: Numbers) -> Match:
    """The match that points come to; with an office in the right place less is needed."""
    score = max(0, min(HIGHEST_SCORE, total(why)))
    if score != total(why):
        beyond = "more than all points" if score else "less than none"
        why = (*why, Reason(score - total(why), "bounds", f"a score is from 0 to {HIGHEST_SCORE}; this is {beyond}"))
    office = employer.has_office or names_place(listing.location, profile.places.office)
    needed = needed_for(listing.location, employer.has_office, profile, numbers)
    return Match(score=score, needed=needed, priority=priority_of(score, numbers), why=why, has_office=office)


def needed_for(location: str | None, has_office: bool, profile: Profile, numbers: Numbers) -> int:
    """The score that a listing needs: less with an office of its company in the place of the profile."""
    office = has_office or names_place(location, profile.places.office)
    return numbers.match_portland_score if office else numbers.match_min_score


def priority_of(score: int, numbers: Numbers) -> Priority:
    """The priority of a match with this score."""
    if score >= numbers.match_high_priority:
        return "high"
    return "medium" if score >= numbers.match_medium_priority else "low"


def points(
    listing: Listing, employer: Employer, profile: Profile, numbers: Numbers, before: Sequence[Verdict] = ()
) -> Iterator[Reason]:
    """All points, each with its sentence; what a profile does not state is no wish, and counts as met."""
    asks = demands_of(listing, profile)
    yield from _title(listing, profile, numbers)
    yield from _skills(listing, asks, profile, numbers)
    yield from _seniority(listing, asks, profile, numbers)
    yield from _place(listing, profile, numbers)
    yield from _language(listing, asks, profile, numbers)
    yield from _company(employer, numbers)
    yield from _salary(listing, profile, numbers)
    yield from verdicts.points(listing, before, numbers.match_points_verdicts)


def demands_of(listing: Listing, profile: Profile) -> Demands:
    """What a listing demands, looking for the skills of a profile too."""
    return demands_in(listing.description or "", listing.requirements, tuple(sorted(profile.ranks)))


def languages_missing(listing: Listing, asks: Demands, profile: Profile) -> str | None:
    """The languages that a listing requires and a profile does not have, in words; None where there is none."""
    mine = profile.languages
    if not mine:
        return None
    asked = languages.asked([listing.title, *asks.required_lines])
    missing = [" or ".join(sorted(group)) for group in asked if not group & mine]
    if languages.ANOTHER in missing and len(mine) > 1:
        missing.remove(languages.ANOTHER)
    if missing:
        return ", ".join(missing)
    own = languages.written_in(listing.description or "")
    return f"{own}, in which it is written" if own is not None and own not in mine else None


def _title(listing: Listing, profile: Profile, numbers: Numbers) -> Iterator[Reason]:
    titles, most = profile.person.titles, numbers.match_points_title
    if not titles:
        yield Reason(most, "title", "every title is fine")
        return
    fit = roles.fit(listing.title, listing.description or "", listing.department, titles)
    yield Reason(round(most * fit.share), "title", fit.sentence)
    if fit.share < ANOTHER_WORK:
        yield Reason(
            -numbers.match_minus_mismatch, "other work", "it is another kind of work than those that are wanted"
        )


def _skills(listing: Listing, asks: Demands, profile: Profile, numbers: Numbers) -> Iterator[Reason]:
    ranks, most = profile.ranks, numbers.match_points_skills
    if not ranks:
        yield Reason(0, "skills", "the profile names no skills")
        return
    text = "\n".join((listing.title, listing.description or "", *listing.requirements))
    found = {name: ranks[name] for name in technologies_in(text, tuple(sorted(ranks))) if name in ranks}
    groups = [demand.names for demand in asks.technologies if demand.is_required]
    missing = [names for names in groups if not ranks.keys() & set(names)]
    named = share(found, ranks, numbers.match_full_skills)
    if groups:
        worth = REQUIRED_SHARE * (1 - len(missing) / len(groups)) + (1 - REQUIRED_SHARE) * named
    else:
        worth = max(NAMES_NONE, named) if found or not technologies_in(text) else 0.0
    said = ", ".join(
        f"{name} ({rank})" for name, rank in sorted(found.items(), key=lambda one: (-one[1], one[0]))[:MOST_NAMED]
    )
    sentence = f"it names {said}" if said else "it names none of the skills"
    if groups:
        sentence += (
            f"; of {len(groups)} technologies that it requires {len(groups) - len(missing)} are among the skills"
        )
    if missing:
        sentence += f", not {', '.join(' or '.join(names) for names in missing[:MOST_NAMED])}"
    yield Reason(round(most * worth), "skills", sentence)


def _seniority(listing: Listing, asks: Demands, profile: Profile, numbers: Numbers) -> Iterator[Reason]:
    wanted, most = profile.person.levels, numbers.match_points_seniority
    levels = levels_of(listing.title, asks.years)
    if not wanted:
        yield Reason(most, "seniority", "every level is fine")
    elif fits := [level for level in levels if level in wanted]:
        by = f", by the {asks.years} years that it asks for" if len(levels) > 1 and asks.years is not None else ""
        yield Reason(most, "seniority", f"the level is {fits[0]}{by}")
    else:
        steps = min((found for level in levels if (found := steps_between(level, wanted)) is not None), default=None)
        yield Reason(-numbers.match_minus_mismatch, "seniority",
        f"the level is {' or '.join(levels)}; wanted: {', '.join(wanted)}"
                     + (f", {steps} step{'s' * (steps > 1)} away" if steps else ""))  # fmt: skip


def _place(listing: Listing, profile: Profile, numbers: Numbers) -> Iterator[Reason]:
    way = way_of(listing.remote, listing.location, listing.description)
    most, places = numbers.match_points_place, profile.places
    if way == "remote" and places.remote != "no":
        bound = bound_to(listing.location, listing.description)
        if is_open_to(bound, places.wanted):
            yield Reason(most, "place", "the work is remote" + (f", within {bound}" if bound else ""))
        else:
            yield Reason(-numbers.match_minus_mismatch, "place", f"the work is remote, within {bound}")
    elif places.remote == "required":
        yield Reason(
            -numbers.match_minus_mismatch if way else 0, "place", f"the work is {way or 'not said to be remote'}"
        )
    elif not places.wanted:
        yield Reason(most, "place", "every place is fine")
    elif place := is_in(listing.location, places.wanted):
        yield Reason(most, "place", f"it is in {place}" + (f", {way}" if way == "hybrid" else ""))
    elif not listing.location:
        yield Reason(round(most * UNSAID), "place", "it does not say where")
    else:
        sentence = f"it is in {listing.location}; wanted: {', '.join(places.wanted)}"
        yield Reason(-numbers.match_minus_mismatch, "place", sentence)


def _language(listing: Listing, asks: Demands, profile: Profile, numbers: Numbers) -> Iterator[Reason]:
    if missing := languages_missing(listing, asks, profile):
        yield Reason(-numbers.match_minus_mismatch, "language", f"it requires {missing}")


def _company(employer: Employer, numbers: Numbers) -> Iterator[Reason]:
    if employer.tier is None:
        sentence = "nothing is known of its company, which counts as half"
    else:
        sentence = f"{employer.name or 'the company'} is of tier {employer.tier}"
    yield Reason(round(numbers.match_points_company * TIER_SHARE.get(employer.tier or "", UNSAID)), "company", sentence)


def _salary(listing: Listing, profile: Profile, numbers: Numbers) -> Iterator[Reason]:
    highest, lowest = listing.salary_max or listing.salary_min, profile.salary.minimum
    currency = listing.currency or profile.salary.currency
    most = numbers.match_points_salary
    if not lowest:
        yield Reason(most, "salary", "every salary is fine")
    elif highest is None:
        yield Reason(round(most * UNSAID), "salary", "it states no salary, which counts as half")
    elif currency != profile.salary.currency:
        yield Reason(
            round(most * UNSAID),
            "salary",
            f"it pays up to {highest:,.0f} {currency}; wanted is {profile.salary.currency}",
        )
    elif highest >= lowest:
        yield Reason(most, "salary", f"it pays up to {highest:,.0f} {currency}")
    else:
        yield Reason(0, "salary", f"it pays at most {highest:,.0f} {currency}; wanted: {lowest:,.0f}")

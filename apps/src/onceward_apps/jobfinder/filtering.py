"""The filter: strikes against a listing, each with its reason. With too many it is out.

The table of strikes stands in docs/apps/jobfinder.md; every number in it is a setting.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date
from functools import lru_cache

from onceward_apps.jobfinder import completeness
from onceward_apps.jobfinder.completeness import Known
from onceward_apps.jobfinder.listing import Listing
from onceward_apps.jobfinder.matching import demands_of, languages_missing
from onceward_apps.jobfinder.places import bound_to, is_in, is_open_to, way_of
from onceward_apps.jobfinder.positions import employment_of, levels_of
from onceward_apps.jobfinder.profile import Profile
from onceward_apps.jobfinder.reasons import Reason
from onceward_apps.jobfinder.settings import Numbers
from onceward_apps.jobfinder.technologies import AI_ML, technologies_in


def strikes(listing: Listing, profile: Profile, numbers: Numbers, today: date) -> list[Reason]:
    """All strikes against a listing. Those that count nothing by the settings are left out."""
    every = (
        *_position(listing, profile, numbers),
        *_place(listing, profile, numbers),
        *_salary(listing, profile, numbers),
        *_technologies(listing, profile, numbers),
        *_age(listing, profile, numbers, today),
        *_text(listing, profile, numbers),
    )
    return [strike for strike in every if strike.points]


def _position(listing: Listing, profile: Profile, numbers: Numbers) -> Iterator[Reason]:
    asks, wanted = demands_of(listing, profile), profile.person.levels
    levels = levels_of(listing.title, asks.years)
    if wanted and not set(levels) & set(wanted):
        sentence = f"the level is {' or '.join(levels)}; wanted: {', '.join(wanted)}"
        yield Reason(numbers.strikes_seniority, "seniority", sentence)
    if missing := languages_missing(listing, asks, profile):
        yield Reason(numbers.strikes_language, "language", f"it requires {missing}")
    kind, kinds = employment_of(listing.title, listing.description), profile.person.employment
    if kind is not None and kinds and kind not in kinds:
        yield Reason(numbers.strikes_employment, "employment", f"it is {kind}; wanted: {', '.join(kinds)}")


def _place(listing: Listing, profile: Profile, numbers: Numbers) -> Iterator[Reason]:
    way = way_of(listing.remote, listing.location, listing.description)
    remote, wanted = profile.places.remote, profile.places.wanted
    if remote == "required":
        if way is not None and way != "remote":
            yield Reason(numbers.strikes_remote, "remote", f"the work is {way}; remote work is required")
        elif way is None:
            yield Reason(numbers.strikes_place_unknown, "place unknown", "it does not say whether the work is remote")
        return
    if way == "remote" and remote == "fine":
        bound = bound_to(listing.location, listing.description)
        if not is_open_to(bound, wanted):
            yield Reason(
                numbers.strikes_place, "place", f"the work is remote, within {bound}; wanted: {', '.join(wanted)}"
            )
        return
    if way == "remote" and not listing.location:
        yield Reason(numbers.strikes_place, "place", "the work is remote; wanted is work on site")
    elif not listing.location:
        yield Reason(numbers.strikes_place_unknown, "place unknown", "it does not say where")
    elif wanted and is_in(listing.location, wanted) is None:
        yield Reason(numbers.strikes_place, "place", f"it is in {listing.location}; wanted: {', '.join(wanted)}")


def _salary(listing: Listing, profile: Profile, numbers: Numbers) -> Iterator[Reason]:
    lowest, highest = profile.salary.minimum, listing.salary_max or listing.salary_min
    if not lowest:
        return
    if highest is None:
        yield Reason(numbers.strikes_salary_unknown, "salary unknown", "it states no salary")
    elif (listing.currency or profile.salary.currency) == profile.salary.currency and highest < lowest:
        sentence = f"it pays at most {highest:,.0f} {profile.salary.currency}; wanted: {lowest:,.0f}"
        yield Reason(numbers.strikes_salary, "salary", sentence)


def _technologies(listing: Listing, profile: Profile, numbers: Numbers) -> Iterator[Reason]:
    ranks = profile.ranks
    named = set(technologies_in(_all_text(listing), tuple(sorted({*ranks, *profile.excluded_technologies}))))
    if bad := sorted(named & profile.excluded_technologies):
        yield Reason(numbers.strikes_technology_excluded, "technology excluded", f"it names {', '.join(bad)}")
    if ranks and named - AI_ML and not named & ranks.keys():
        sentence = f"it names {', '.join(sorted(named - AI_ML))}, and none of the skills"
        yield Reason(numbers.strikes_technology_none, "no known technology", sentence)
    missing = [names for names in required(listing, profile) if not set(names) & ranks.keys()] if ranks else []
    for names in missing[: numbers.strikes_technology_missing_most]:
        yield Reason(numbers.strikes_technology_missing, "technology missing", f"it asks for {' or '.join(names)}")


def required(listing: Listing, profile: Profile) -> list[tuple[str, ...]]:
    """The technologies that a listing requires, alternatives together; without words for whole fields and what is "
    "excluded."""
    besides = AI_ML | profile.excluded_technologies
    found = (
        tuple(name for name in demand.names if name not in besides)
        for demand in demands_of(listing, profile).technologies
        if demand.is_required
    )
    return sorted({names for names in found if names})


def _age(listing: Listing, profile: Profile, numbers: Numbers, today: date) -> Iterator[Reason]:
    if listing.valid_through is not None and listing.valid_through < today:
        yield Reason(numbers.strikes_expired, "expired", f"it was open until {listing.valid_through}")
        return
    if listing.posted is None:
        return
    age, most = (today - listing.posted).days, profile.person.max_age_days
    if age > most:
        twice = 2 if age > 2 * most else 1
        yield Reason(twice * numbers.strikes_age, "age", f"it is {age} days old; wanted: at most {most}")


def _text(listing: Listing, profile: Profile, numbers: Numbers) -> Iterator[Reason]:
    text = _all_text(listing)
    if words := [word for word in profile.exclusions.words if _word(word).search(text)]:
        yield Reason(numbers.strikes_word_excluded, "word excluded", f"it says {', '.join(map(repr, words))}")
    if completeness.listing(listing, numbers) is Known.TOO_LITTLE:
        yield Reason(numbers.strikes_incomplete, "incomplete", "title, company or description are missing or short")


def _all_text(listing: Listing) -> str:
    return "\n".join((listing.title, listing.description or "", *listing.requirements))


@lru_cache(maxsize=1_000)
def _word(text: str) -> re.Pattern[str]:
    spaced = r"\s+".join(map(re.escape, text.split()))
    return re.compile(rf"(?<!\w){spaced}(?!\w)", re.IGNORECASE)

"""Every number of the job finder, each a setting that can be changed while workers run.

`Numbers` is all of them at one moment. They are looked at together: numbers that contradict each other, or that nothing
could ever reach, are an error that says which.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from types import MappingProxyType
from typing import Any

import msgspec

from onceward import ConfigError, Setting

HIGHEST_SCORE = 100
"""What a listing can score at most, whatever its parts add up to."""


class Numbers(msgspec.Struct, frozen=True, kw_only=True):
    """All settings as they are in force at one moment; the name of a field has an underscore for the first dot."""

    filter_strike_threshold: int = 5
    match_min_score: int = 80
    match_portland_score: int = 65
    match_high_priority: int = 85
    match_medium_priority: int = 70
    match_points_title: int = 40
    match_points_skills: int = 25
    match_points_place: int = 15
    match_points_seniority: int = 10
    match_points_company: int = 5
    match_points_salary: int = 5
    match_minus_mismatch: int = 20
    match_points_verdicts: int = 5
    match_full_skills: int = 3
    company_portland_bonus: int = 50
    company_tech_max_points: int = 100
    company_remote_first_bonus: int = 15
    company_ai_ml_bonus: int = 10
    company_full_skills: int = 5
    company_tier_s: int = 150
    company_tier_a: int = 100
    company_tier_b: int = 70
    company_tier_c: int = 50
    company_about_minimal: int = 50
    company_about_good: int = 100
    company_culture_minimal: int = 25
    company_culture_good: int = 50
    company_fresh_for: timedelta = timedelta(days=30)
    company_large_from: int = 1_000
    company_medium_from: int = 100
    listing_description_minimal: int = 100
    source_disable_after: int = 5
    source_read_every: timedelta = timedelta(hours=6)
    strikes_seniority: int = 3
    strikes_place: int = 5
    strikes_place_unknown: int = 1
    strikes_remote: int = 4
    strikes_salary: int = 3
    strikes_salary_unknown: int = 0
    strikes_technology_missing: int = 1
    strikes_technology_missing_most: int = 3
    strikes_technology_none: int = 2
    strikes_technology_excluded: int = 5
    strikes_word_excluded: int = 5
    strikes_age: int = 1
    strikes_expired: int = 5
    strikes_employment: int = 5
    strikes_language: int = 5
    strikes_incomplete: int = 1

    @property
    def most_points(self) -> int:
        """What a listing can score at most."""
        parts = (
            self.match_points_skills, self.match_points_title, self.match_points_seniority, self.match_points_place,
            self.match_points_company, self.match_points_salary,
        )  # fmt: skip
        return min(HIGHEST_SCORE, sum(parts))

    @property
    def most_company_points(self) -> int:
        """What a company can score at most."""
        return (
            self.company_portland_bonus
            + self.company_tech_max_points
            + self.company_remote_first_bonus
            + self.company_ai_ml_bonus
        )

    @property
    def most_strikes(self) -> int:
        """How many strikes a listing can have at most."""
        return (
            self.strikes_seniority
            + max(self.strikes_place, self.strikes_place_unknown)
            + self.strikes_remote
            + max(self.strikes_salary, self.strikes_salary_unknown)
            + self.strikes_technology_missing * self.strikes_technology_missing_most
            + self.strikes_technology_none
            + self.strikes_technology_excluded
            + self.strikes_word_excluded
            + max(2 * self.strikes_age, self.strikes_expired)
            + self.strikes_employment
            + self.strikes_language
            + self.strikes_incomplete
        )


_ABOUT: Mapping[str, str] = MappingProxyType({
    "filter_strike_threshold": "With so many strikes, or more, a listing is filtered.",
    "match_min_score": "A listing with this score, or more, is saved as a match.",
    "match_portland_score": "The same where the company has an office in the place of the profile, Portland say.",
    "match_high_priority": "From this score on a match has high priority.",
    "match_medium_priority": "From this score on a match has medium priority; below it low.",
    "match_points_title": "Points for a title that is wanted, or another for the same work.",
    "match_points_skills": "Points for a listing that requires the skills of the profile.",
    "match_points_seniority": "Points for a level that is wanted.",
    "match_points_place": "Points for a place that is wanted, or work from anywhere.",
    "match_points_company": "Points for a company of tier S; fewer for A, B and C, none for D.",
    "match_points_salary": "Points for a salary that is stated and high enough.",
    "match_minus_mismatch": "Points taken away for another kind of work, another level, another place or another "
                            "language.",
    "match_points_verdicts": "Points, at most, for or against what is like listings that the person has decided about.",
    "match_full_skills": "How many of the best skills a listing has to name for all of the points for naming them.",
    "company_portland_bonus": "Points for a company with an office in the place of the profile, Portland say.",
    "company_tech_max_points": "Points for a company that works with the best skills of the profile.",
    "company_remote_first_bonus": "Points for a company that works remotely first.",
    "company_ai_ml_bonus": "Points for a company about AI or machine learning.",
    "company_full_skills": "How many of the best skills a company has to work with for all points.",
    "company_tier_s": "From so many points on a company is of tier S.",
    "company_tier_a": "From so many points on a company is of tier A.",
    "company_tier_b": "From so many points on a company is of tier B.",
    "company_tier_c": "From so many points on a company is of tier C; below it D.",
    "company_about_minimal": "A company is known minimally if the text about it is longer than this.",
    "company_about_good": "A company is known well if the text about it is longer than this, and culture too.",
    "company_culture_minimal": "A company is known minimally if the text about its culture is longer than this.",
    "company_culture_good": "A company is known well if the text about its culture is longer than this, and about too.",
    "company_fresh_for": "A company that is known well and was looked at within this time is left alone.",
    "company_large_from": "From so many people on a company is large.",
    "company_medium_from": "From so many people on a company is medium; below it small.",
    "listing_description_minimal": "A listing is known minimally if its description is longer than this.",
    "source_disable_after": "After so many failed readings in a row a source is disabled.",
    "source_read_every": "How often each source is read.",
    "strikes_seniority": "Strikes for a level that is not wanted.",
    "strikes_place": "Strikes for a place that is not wanted.",
    "strikes_place_unknown": "Strikes for a listing that does not say where.",
    "strikes_remote": "Strikes for work on site where remote work is required.",
    "strikes_salary": "Strikes for a salary below the lowest that is wanted.",
    "strikes_salary_unknown": "Strikes for a listing that states no salary.",
    "strikes_technology_missing": "Strikes for each technology that is asked for and not among the skills.",
    "strikes_technology_missing_most": "How many technologies that are missing count at most.",
    "strikes_technology_none": "Strikes for technologies of which none is among the skills.",
    "strikes_technology_excluded": "Strikes for a technology that is excluded.",
    "strikes_word_excluded": "Strikes for a word that is excluded.",
    "strikes_age": "Strikes for a listing older than the profile's max_age_days; twice for one twice as old.",
    "strikes_expired": "Strikes for a listing whose time is over.",
    "strikes_employment": "Strikes for a kind of employment that is not wanted.",
    "strikes_language": "Strikes for a language that is required, and that the profile does not have.",
    "strikes_incomplete": "Strikes for a listing that is not even minimally known.",
})  # fmt: skip


def named(field: str) -> str:
    """The name of the setting that is this field of `Numbers`: `match_min_score` is `match.min_score`."""
    return field.replace("_", ".", 1)


def settings(changed: Mapping[str, Any] | None = None) -> list[Setting]:
    """What the app declares; `changed` are other defaults, by the names of settings, as a profile may state them."""
    changed = changed or {}
    if unknown := sorted(changed.keys() - set(map(named, Numbers.__struct_fields__))):
        raise ConfigError(
            f"there is no setting {unknown[0]!r}; there are: {', '.join(map(named, Numbers.__struct_fields__))}"
        )
    made = []
    for field, default in zip(Numbers.__struct_fields__, Numbers.__struct_defaults__, strict=True):
        kind: Any = "duration" if isinstance(default, timedelta) else int
        made.append(Setting(named(field), changed.get(named(field), default), kind, _ABOUT[field]))
    return made


def numbers(setting: Callable[[str], Any]) -> Numbers:
    """The settings in force, by `ctx.setting` or `app.settings.get`; what they cannot mean together is an error."""
    found = Numbers(**{field: setting(named(field)) for field in Numbers.__struct_fields__})
    if wrong := problems(found):
        raise ConfigError("; ".join(wrong))
    return found


def problems(numbers: Numbers) -> list[str]:
    """Why these numbers are invalid, one sentence each: out of order, or out of reach."""
    found = [
        f"{named(field)}={value}: it cannot be negative"
        for field in Numbers.__struct_fields__
        if isinstance(value := getattr(numbers, field), int) and value < 0
    ]
    found += [
        f"{named(upper)}={getattr(numbers, upper)} is below {named(lower)}={getattr(numbers, lower)}"
        for upper, lower in _IN_ORDER
        if getattr(numbers, upper) < getattr(numbers, lower)
    ]
    for fields, most, what in (
        (_SCORES, numbers.most_points, "a listing scores"),
        (_TIERS, numbers.most_company_points, "a company scores"),
        (("filter_strike_threshold",), numbers.most_strikes, "the strikes of a listing come to"),
    ):
        found += [
            f"{named(field)}={value} cannot be reached: {what} at most {most}"
            for field in fields
            if (value := getattr(numbers, field)) > most
        ]
    if numbers.match_portland_score > numbers.match_high_priority > numbers.match_medium_priority:
        found.append(
            f"match.medium_priority={numbers.match_medium_priority} cannot be reached: every match scores at least "
            f"match.portland_score={numbers.match_portland_score}, and is of high priority"
        )
    found += [
        f"{named(field)}={getattr(numbers, field)}: it is at least 1"
        for field in ("filter_strike_threshold", "source_disable_after", "match_full_skills", "company_full_skills")
        if getattr(numbers, field) == 0
    ]
    return found


_SCORES = ("match_min_score", "match_portland_score", "match_high_priority", "match_medium_priority")
_TIERS = ("company_tier_s", "company_tier_a", "company_tier_b", "company_tier_c")
_IN_ORDER = (
    ("match_min_score", "match_portland_score"),
    ("match_high_priority", "match_medium_priority"),
    ("company_tier_s", "company_tier_a"),
    ("company_tier_a", "company_tier_b"),
    ("company_tier_b", "company_tier_c"),
    ("company_about_good", "company_about_minimal"),
    ("company_culture_good", "company_culture_minimal"),
    ("company_large_from", "company_medium_from"),
)  # fmt: skip

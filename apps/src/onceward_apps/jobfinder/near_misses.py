"""Near misses: the listings that came closest to being matches, what they lack, and which setting would admit them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from onceward_apps.jobfinder.listing_rows import NearRow
from onceward_apps.jobfinder.matching import needed_for
from onceward_apps.jobfinder.profile import Profile
from onceward_apps.jobfinder.reasons import Reason, total
from onceward_apps.jobfinder.settings import Numbers
from onceward_apps.statements import loaded

MOST_LACKS = 3


class NearMiss(msgspec.Struct, frozen=True, kw_only=True):
    """A listing that is no match, and what it lacks, the greatest lack first."""

    row: NearRow
    score: int | None
    """None where the filter threw it out before it was scored."""
    needed: int
    strikes: int
    lacks: tuple[Reason, ...]
    """What each costs, with its sentence."""


def near_misses(rows: Sequence[NearRow], profile: Profile, numbers: Numbers, most: int) -> list[NearMiss]:
    """The listings that came closest: those with the highest scores, then those with the fewest strikes."""
    found = [_near(row, profile, numbers) for row in rows]
    found.sort(key=lambda one: (one.score is None, -(one.score or 0) + one.needed, one.strikes))
    return found[:most]


def _near(row: NearRow, profile: Profile, numbers: Numbers) -> NearMiss:
    needed = needed_for(row.location, row.has_office, profile, numbers)
    if row.status == "filtered":
        strikes: list[Reason] = loaded(row.strikes_json, list[Reason]) or []
        lacks = [Reason(-one.points, one.rule, one.sentence) for one in strikes]
        return NearMiss(row=row, score=None, needed=needed, strikes=total(strikes), lacks=_greatest(lacks))
    full = full_points(numbers)
    why: list[Reason] = loaded(row.why_json, list[Reason]) or []
    lacks = [Reason(one.points - full.get(one.rule, 0), one.rule, one.sentence) for one in why]
    return NearMiss(row=row, score=row.score, needed=needed, strikes=0, lacks=_greatest(lacks))


def _greatest(lacks: Sequence[Reason]) -> tuple[Reason, ...]:
    return tuple(sorted((one for one in lacks if one.points < 0), key=lambda one: one.points)[:MOST_LACKS])


def full_points(numbers: Numbers) -> dict[str, int]:
    """The most that each rule gives."""
    return {
        "title": numbers.match_points_title, "skills": numbers.match_points_skills,
        "place": numbers.match_points_place, "seniority": numbers.match_points_seniority,
        "company": numbers.match_points_company, "salary": numbers.match_points_salary,
    }  # fmt: skip


def admitted_by(near: Sequence[NearMiss], numbers: Numbers) -> tuple[dict[str, int], int]:
    """Settings that would make a match of the nearest, and how many of these they would admit."""
    best = near[0]
    if best.score is None:
        threshold = best.strikes + 1
        return {"filter.strike_threshold": threshold}, sum(one.strikes < threshold for one in near)
    if best.needed == numbers.match_portland_score:
        wanted = {"match.portland_score": best.score}
    else:
        wanted = {"match.min_score": best.score}
        if best.score < numbers.match_portland_score:  # which may not lie above it
            wanted["match.portland_score"] = best.score
    needed = {
        numbers.match_portland_score: wanted.get("match.portland_score", numbers.match_portland_score),
        numbers.match_min_score: wanted.get("match.min_score", numbers.match_min_score),
    }
    return wanted, sum(one.score is not None and one.score >= needed[one.needed] for one in near)

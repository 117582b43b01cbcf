"""What a company is worth looking at: its technologies, its job boards, its points and its tier. By rules alone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal
from urllib.parse import urljoin

import msgspec

from onceward_apps.jobfinder.boards.board import CONFIDENCE, BoardAddress, BoardKind
from onceward_apps.jobfinder.boards.recognising import boards_in, recognise
from onceward_apps.jobfinder.extracting import Facts, Kept, all_text
from onceward_apps.jobfinder.links import host_of
from onceward_apps.jobfinder.places import has_office_in, is_remote_first, names_place
from onceward_apps.jobfinder.profile import Profile
from onceward_apps.jobfinder.reasons import Reason, share, total
from onceward_apps.jobfinder.settings import Numbers
from onceward_apps.jobfinder.technologies import AI_ML, technologies_in

Tier = Literal["S", "A", "B", "C", "D"]
SizeCategory = Literal["large", "medium", "small"]
MOST_BOARDS = 5
PAGES_OF_PLACES = frozenset({"careers", "jobs", "contact", "locations"})
"""Pages on which a place is one where people work."""
_PRIORITIES = {"S": 1, "A": 1, "B": 0, "C": 0, "D": -1}


class Analysis(msgspec.Struct, frozen=True, kw_only=True):
    """What the rules say of a company."""

    tech_stack: tuple[str, ...]
    has_office: bool
    score: int
    tier: Tier
    why: tuple[Reason, ...]
    size_category: SizeCategory | None
    boards: tuple[BoardAddress, ...]
    """The surest first."""


def analyse(
    facts: Facts, pages: Sequence[Kept], profile: Profile, numbers: Numbers, board: str | None = None
) -> Analysis:
    """Look at a company by rules; `board` is the address of a job board that is known from elsewhere."""
    text = "\n".join((all_text(pages), facts.about or "", facts.culture or "", facts.mission or ""))
    ranks = profile.ranks
    stack = technologies_in(text, tuple(sorted(ranks)))
    office = names_place(facts.headquarters, profile.places.office) or _has_office(pages, text, profile.places.office)
    why = points(stack, text, office, profile, numbers)
    score = total(why)
    return Analysis(
        tech_stack=tuple(stack),
        has_office=office,
        score=score,
        tier=tier_of(score, numbers),
        why=why,
        size_category=size_category(facts.size, numbers),
        boards=boards(pages, board),
    )


def _has_office(pages: Sequence[Kept], text: str, place: str) -> bool:
    """Whether the pages speak of an office in a place; on pages of jobs and contacts the place alone is enough."""
    told = [page for page in pages if page.path.strip("/") in PAGES_OF_PLACES]
    return has_office_in(text, place) or names_place(all_text(told), place)


def points(stack: Sequence[str], text: str, office: bool, profile: Profile, numbers: Numbers) -> tuple[Reason, ...]:
    """The points of a company, each with its sentence."""
    ranks = profile.ranks
    found = {name: ranks[name] for name in stack if name in ranks}
    worth = round(numbers.company_tech_max_points * share(found, ranks, numbers.company_full_skills))
    named = sorted(AI_ML & set(stack))
    reasons = (
        Reason(numbers.company_portland_bonus * office, "office", f"an office in {profile.places.office}"),
        Reason(worth, "technologies", f"it works with {', '.join(sorted(found, key=lambda name: -found[name]))}"),
        Reason(numbers.company_remote_first_bonus * is_remote_first(text), "remote first", "it works remotely first"),
        Reason(numbers.company_ai_ml_bonus * (len(named) >= 2), "AI and ML", f"it speaks of {', '.join(named)}"),
    )
    return tuple(reason for reason in reasons if reason.points)


def tier_of(score: int, numbers: Numbers) -> Tier:
    """The tier of a company with so many points."""
    least: tuple[tuple[Tier, int], ...] = (
        ("S", numbers.company_tier_s),
        ("A", numbers.company_tier_a),
        ("B", numbers.company_tier_b),
        ("C", numbers.company_tier_c),
    )
    return next((tier for tier, points in least if score >= points), "D")


def priority_of(tier: str | None) -> int:
    """The priority of what a company of this tier spawns: S and A high, B and C normal, D low."""
    return _PRIORITIES.get(tier or "", 0)


def size_category(size: str | None, numbers: Numbers) -> SizeCategory | None:
    """Large, medium or small, by the number that a size begins with; None if there is none."""
    number = re.search(r"\d[\d,.]*", size or "")
    if number is None:
        return None
    people = int(re.sub(r"\D", "", number[0]))
    if people >= numbers.company_large_from:
        return "large"
    return "medium" if people >= numbers.company_medium_from else "small"


def boards(pages: Sequence[Kept], known: str | None = None) -> tuple[BoardAddress, ...]:
    """The job boards that pages lead to, the surest first, with one page of jobs at most.

    A page of jobs that was read and leads to a surer board has the same jobs, and is left out.
    """
    found: dict[tuple[str, str], BoardAddress] = {}
    if known and (address := named_board(known)):
        found[address.kind, address.token] = address
    leading: set[str] = set()
    for page in pages:
        for address in boards_in(page.html, page.url):
            found.setdefault((address.kind, address.token), address)
            if address.confidence != "low":
                leading |= {_bare(page.url), _bare(urljoin(page.url, page.path))}
    surer = [one for one in found.values() if one.confidence != "low"]
    surer.sort(key=lambda one: one.confidence != "high")
    # Any page may be called one of jobs: the one on which companies have them counts, or else the shortest.
    pages_of_jobs = [generic(page.url) for page in pages if page.path.strip("/") in ("careers", "jobs")]
    others = sorted((one for one in found.values() if one.confidence == "low"), key=lambda one: len(one.url))
    low = [one for one in [*pages_of_jobs, *others] if _bare(one.url) not in leading]
    return (*surer[:MOST_BOARDS], *low[:1])


def named_board(text: str) -> BoardAddress | None:
    """The board that a person names, with or without `https://`; None if that is no address of a host."""
    url = text if "://" in text else f"https://{text}"
    return recognise(url) or (generic(url) if "." in host_of(url) else None)


def _bare(url: str) -> str:
    return url.partition("://")[2].partition("#")[0].rstrip("/").lower()


def generic(url: str) -> BoardAddress:
    """A page of jobs as a board: its token is its address without the scheme."""
    return BoardAddress(BoardKind.GENERIC, url.partition("://")[2], url, CONFIDENCE[BoardKind.GENERIC])

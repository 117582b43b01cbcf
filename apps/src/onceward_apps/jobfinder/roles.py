"""Kinds of work: which family a title belongs to, what it is about within it, and how close two titles are.

The table holds titles as employers of any trade write them, in English and Spanish first, with usual German, French and
Portuguese ones. A title that the table does not know is compared word by word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice

import msgspec

from onceward_apps.jobfinder.role_words import (
    ABOUT,
    FAMILIES,
    FAR,
    GENERAL,
    IN_TITLES,
    KIN,
    LABORATORY,
    NEAR,
    OTHERWISE,
    WEAK,
)

LONGEST_TEXT = 20_000
"""How much of a description is read for what the work is about."""


class Role(msgspec.Struct, frozen=True):
    """A kind of work: a family, and what it is about within that."""

    family: str
    subjects: frozenset[str] = frozenset()


class Fit(msgspec.Struct, frozen=True):
    """How close a title is to one that is wanted, from 0 to 1, and in words."""

    share: float
    sentence: str


_PARTS = re.compile(r"\s*(?:\b(?:for|at|with|para|pour|für)\b|,|\||:|\(|\)|\[|\]|;|\s[-–—]+|[-–—]+\s|/)\s*")
_AS_A = re.compile(
    r"\b(?:as (?:an?|the|our)|(?:looking|searching) for (?:an?|our)|hiring an?|seeking (?:an?|our)"
    r"|como)\s+([^\n.,;:]{4,80})",
    re.IGNORECASE,
)
_TEAM = re.compile(r"\b(?:for|on|in|at|within|to|who|you|we|with|your|of the|is|en el|para)\b.*", re.IGNORECASE)
_MOST_SAID = 12
_WORD = re.compile(r"[\w+#.]+")


@lru_cache(maxsize=4_000)
def role_of(title: str) -> Role | None:
    """The kind of work that a title names: by its first part, or by the first of the others that names one."""
    for table in (FAMILIES, WEAK):
        for part in _PARTS.split(title):
            if found := _last(table, part):
                if found[0] == "data science" and LABORATORY.search(title) and "data" not in title.casefold():
                    return Role("laboratory science")
                return Role(found[0], frozenset(_subjects(found, title)))
    return None


def fit(title: str, text: str, department: str | None, wanted: Sequence[str]) -> Fit:
    """How close the work of a listing is to the closest of the titles that are wanted."""
    return max((_fit(title, text[:LONGEST_TEXT], department, one) for one in wanted), key=lambda one: one.share)


def _fit(title: str, text: str, department: str | None, wanted: str) -> Fit:
    own = role_of(title)
    words, want_words = _words(title), _words(wanted)
    overlap = len(want_words & words) / max(1, len(want_words))
    want = role_of(wanted)
    if want is None:
        return Fit(overlap, f"the title says {wanted!r}" if overlap == 1 else f"the title is no {wanted!r}")
    said = [role for role in _said(text) if role.family == want.family]
    if own is None and (said or department):
        own = said[0] if said else role_of(department or "")
    if own is None:
        return Fit(
            overlap * GENERAL,
            f"the title is close to {wanted!r}" if overlap else f"the title names no work like {wanted!r}",
        )
    if own.family != want.family:
        share = KIN.get(frozenset((own.family, want.family)), 0.0)
        if said and share >= FAR:
            return Fit(GENERAL, f"the text calls it {_named(said[0])}, as {wanted!r} is")
        return Fit(share, f"the work is {_named(own)}; wanted: {wanted!r}")
    return _within(own, want, said, text, wanted)


def _within(own: Role, want: Role, said: Sequence[Role], text: str, wanted: str) -> Fit:
    if not want.subjects:
        special = own.subjects and own.family in ABOUT
        return Fit(GENERAL if special else 1.0, f"the title is {_named(own)}, as {wanted!r} is")
    if own.subjects:
        share = max(_closeness(one, other) for one in own.subjects for other in want.subjects)
        return Fit(
            share,
            f"the title is {_named(own)}" + (f", as {wanted!r} is" if share > OTHERWISE else f"; wanted: {wanted!r}"),
        )
    for role in said:
        if role.subjects & want.subjects:
            return Fit(1.0, f"the text calls it {_named(role)}, as {wanted!r} is")
    counts = _counts(own.family, text)
    if not sum(counts.values()):
        return Fit(GENERAL, f"the title is {own.family}, as {wanted!r} is")
    near = sum(
        number * max(_closeness(subject, other) for other in want.subjects) for subject, number in counts.items()
    )
    share = min(1.0, 0.35 + near / sum(counts.values()))
    most = max(counts, key=lambda subject: counts[subject])
    return Fit(round(share, 2), f"the title is {own.family}, and the text speaks most of {most}; wanted: {wanted!r}")


@lru_cache(maxsize=64)
def _counts(family: str, text: str) -> Mapping[str, int]:
    return {
        subject: number
        for subject, pattern in ABOUT.get(family, ())
        if (number := sum(1 for _ in pattern.finditer(text)))
    }


def _closeness(one: str, other: str) -> float:
    return 1.0 if one == other else NEAR.get(frozenset((one, other)), FAR)


def _subjects(found: tuple[str, str, int], title: str) -> Iterator[str]:
    family, subject, _ = found
    if subject:
        yield subject
    yield from (name for name, pattern in IN_TITLES.get(family, ()) if pattern.search(title))


def _last(table: Sequence[tuple[str, str, re.Pattern[str]]], part: str) -> tuple[str, str, int] | None:
    """Of what a part of a title names the last; of several that end there the longest."""
    best: tuple[int, int, tuple[str, str, int]] | None = None
    for family, subject, pattern in table:
        for match in pattern.finditer(part):
            told = (match.end(), len(match[0].strip()), (family, subject, match.start()))
            if best is None or told[:2] > best[:2]:
                best = told
    return best[2] if best else None


@lru_cache(maxsize=64)
def _said(text: str) -> tuple[Role, ...]:
    """What the text itself calls the one who does the work: "as a backend engineer you will …"."""
    found = islice(_AS_A.finditer(text), _MOST_SAID)
    return tuple(role for match in found if (role := role_of(_TEAM.sub("", match[1]))) is not None)


def _named(role: Role) -> str:
    return " and ".join(sorted(role.subjects)) + f" ({role.family})" if role.subjects else role.family


@lru_cache(maxsize=1_000)
def _words(title: str) -> frozenset[str]:
    return frozenset(_WORD.findall(title.casefold()))

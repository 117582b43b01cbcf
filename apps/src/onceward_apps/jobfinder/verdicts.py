"""What a person has decided about listings, and what that says of others: a little, and with its reason."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from onceward_apps.jobfinder.listing import Listing
from onceward_apps.jobfinder.reasons import Reason

Decision = Literal["applied", "hidden", "not for me"]
ALIKE = 0.5
"""Two titles are alike if they share so much of their words, beside those for levels."""
_WORTH = {"applied": 2, "not for me": -2, "hidden": 0}
_SAME_COMPANY = {"applied": 1, "not for me": -1, "hidden": 0}
_LEVELS = frozenset(("senior", "sr", "staff", "junior", "jr", "lead", "principal", "i", "ii", "iii", "iv", "mid"))
_SMALL = frozenset(("the", "and", "of", "for", "in", "de", "y"))


class Verdict(msgspec.Struct, frozen=True):
    """What a person has decided about one listing."""

    decision: Decision
    title: str
    company: str | None


def points(listing: Listing, before: Sequence[Verdict], most: int) -> Iterator[Reason]:
    """Points for being like what the person applied to, and against being like what was not for them."""
    for decision, words in (("applied", "one applied to"), ("not for me", "was not for one")):
        alike = [one for one in before if one.decision == decision and is_alike(listing.title, one.title)]
        own = [
            one for one in before
            if one.decision == decision and one.company and one.company == listing.company and one not in alike
        ]  # fmt: skip
        worth = len(alike) * _WORTH[decision] + len(own) * _SAME_COMPANY[decision]
        bounded = max(-most, min(most, worth))
        if bounded:
            example = (alike or own)[0]
            more = f" and {len(alike) + len(own) - 1} more" if len(alike) + len(own) > 1 else ""
            yield Reason(
                bounded,
                "verdicts",
                f"it is like {example.title!r} of {example.company or 'a company'}{more}, which {words}",
            )


def is_alike(title: str, other: str) -> bool:
    """Whether two titles share most of their words, beside those for levels."""
    mine, theirs = _words(title), _words(other)
    return bool(mine and theirs) and len(mine & theirs) / len(mine | theirs) >= ALIKE


def _words(title: str) -> frozenset[str]:
    return frozenset(re.findall(r"[\w+#]+", title.casefold())) - _LEVELS - _SMALL

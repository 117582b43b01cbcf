"""How well the scorer agrees with a person: `python -m tests.apps.jobfinder.scoring` prints it for each profile.

The labels say of real postings whether someone with a profile would open them; they were given by reading, before there
was a scorer. The postings are read in place. Half of them, by a hash of their ids, were kept aside while the scorer was
made: those are judged here, and with `--tuning` the other half.
"""

from __future__ import annotations

import csv
import hashlib
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from onceward_apps.jobfinder.filtering import strikes
from onceward_apps.jobfinder.listing import Listing
from onceward_apps.jobfinder.matching import Employer, Match, match
from onceward_apps.jobfinder.profile import Profile, read
from onceward_apps.jobfinder.reasons import Reason, total
from onceward_apps.jobfinder.requirements import requirements_in
from onceward_apps.jobfinder.salaries import stated_in
from onceward_apps.jobfinder.settings import Numbers
from tests.apps.jobfinder.shared_data import DATA

HERE = Path(__file__).parent / "labels"
POSTINGS = DATA / "jobs" / "postings_one_company.json"
BAR = 0.8
NUMBERS = Numbers()


@dataclass(frozen=True)
class Judged:
    """A posting with what a person said of it, and what the scorer says."""

    posting: str
    title: str
    would_open: bool
    strikes: list[Reason]
    match: Match

    @property
    def score(self) -> int:
        """What it scores; what the filter throws out scores nothing."""
        return -1 if total(self.strikes) >= NUMBERS.filter_strike_threshold else self.match.score

    @property
    def is_shown(self) -> bool:
        """Whether it reaches what is needed."""
        return self.score >= NUMBERS.match_min_score


@dataclass(frozen=True)
class Figures:
    """How well scores and labels agree for one profile."""

    r_precision: float
    recall: float
    precision: float
    would_open: int
    shown: int


def is_held_out(posting: str) -> bool:
    """Whether a posting was kept aside while the scorer was made."""
    return hashlib.sha256(posting.encode()).digest()[0] % 2 == 1


def profiles() -> dict[str, Profile]:
    """The profiles of those for whom postings are labelled."""
    return {path.stem: read(path) for path in sorted(HERE.glob("*.toml"))}


def judged(name: str, profile: Profile, held_out: bool = True, postings: Path = POSTINGS) -> Iterator[Judged]:
    """The labelled postings of one half, as the scorer judges them for a profile."""
    jobs = {str(job["id"]): job for job in json.loads(postings.read_text(encoding="utf-8"))["jobs"]}
    with (HERE / "postings.csv").open(encoding="utf-8", newline="") as file:
        for label in csv.DictReader(file):
            job = jobs.get(label["posting"])
            if (
                job is None
                or is_held_out(label["posting"]) != held_out
                or text_hash(job["description"]) != label["text"]
            ):
                continue
            listing = listing_of(job)
            found = strikes(listing, profile, NUMBERS, listing.posted or date.min)
            yield Judged(
                label["posting"],
                listing.title,
                label[name] == "yes",
                found,
                match(listing, Employer(), profile, NUMBERS),
            )


def figures(found: list[Judged]) -> Figures:
    """R-precision: of as many postings with the highest scores as a person would open, how many those are."""
    wanted = sum(one.would_open for one in found)
    best = sorted(found, key=lambda one: -one.score)[:wanted]
    shown = [one for one in found if one.is_shown]
    right = sum(one.would_open for one in shown)
    return Figures(
        r_precision=sum(one.would_open for one in best) / max(1, wanted),
        recall=right / max(1, wanted),
        precision=right / max(1, len(shown)),
        would_open=wanted,
        shown=len(shown),
    )


def listing_of(job: dict[str, Any]) -> Listing:
    """A posting as a listing, as boards tell them."""
    text = job["description"]
    pay = stated_in(text)
    return Listing(
        url=job["url"],
        title=job["title"],
        company="the employer",
        location="; ".join(job["locations"]),
        posted=date.fromisoformat(job["creation_date"][:10]),
        description=text,
        requirements=requirements_in(text),
        salary_min=pay.lowest if pay else None,
        salary_max=pay.highest if pay else None,
        currency=pay.currency if pay else None,
        department=job["department"],
    )


def text_hash(text: str) -> str:
    """By what a label knows the text that was read."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def main(arguments: list[str]) -> int:
    """Print the figures; with `--errors` and `--tuning` the postings about which scorer and person disagree."""
    if not POSTINGS.is_file():
        print(f"the shared data is not here: {POSTINGS}")
        return 0
    held_out = "--tuning" not in arguments
    print("half that was kept aside" if held_out else "half for tuning")
    print(f"{'profile':12} {'would open':>10} {'shown':>6} {'R-precision':>12} {'recall':>7} {'precision':>10}")
    all_good = True
    for name, profile in profiles().items():
        found = list(judged(name, profile, held_out))
        told = figures(found)
        all_good &= min(told.r_precision, told.recall, told.precision) >= BAR
        print(
            f"{name:12} {told.would_open:>10} {told.shown:>6} {told.r_precision:>12.2f}"
            f" {told.recall:>7.2f} {told.precision:>10.2f}"
        )
        for one in found if "--errors" in arguments and not held_out else ():
            if one.would_open != one.is_shown:
                why = "; ".join(
                    f"{reason.points:+d} {reason.rule}: {reason.sentence}" for reason in (*one.strikes, *one.match.why)
                )
                print(f"    {one.score:>4} {'open' if one.would_open else 'no':4} {one.posting} {one.title} | {why}")
    return 0 if all_good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

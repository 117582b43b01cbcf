"""The companies of the invented web: who they are, what they work with, and on which kind of board their jobs are."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from onceward_apps.jobfinder.boards.board import BoardKind
from onceward_apps.jobfinder.world import words

KINDS = tuple(BoardKind)


@dataclass(frozen=True, slots=True)
class Company:
    """One company; everything else about it follows from this and the seed."""

    number: int
    name: str
    kind: BoardKind
    listings: int
    industry: str = "developer tools"
    city: str = words.HOME
    stack: tuple[str, ...] = words.STACKS[0]
    people: int = 120
    founded: int = 2014
    is_remote_first: bool = False

    @property
    def slug(self) -> str:
        """Its name in addresses, and its token on boards."""
        return self.name.lower().replace(" ", "-")

    @property
    def host(self) -> str:
        """Where its site is."""
        return f"{self.slug}.example"

    @property
    def website(self) -> str:
        """Its site."""
        return f"https://{self.host}/"


def companies(seed: int, number: int, listings: int) -> Iterator[Company]:
    """So many companies with so many listings in all, every kind of board in turn."""
    dice = random.Random(f"{seed}/companies")
    names = [a + b for a in words.FIRST for b in words.SECOND if a[-1] != b[0]]
    dice.shuffle(names)
    if number > len(names):
        raise ValueError(f"there are names for {len(names)} companies, and {number} are wanted")
    industries = sorted(words.INDUSTRIES)
    for index in range(number):
        yield Company(
            number=index + 1,
            name=names[index],
            kind=KINDS[index % len(KINDS)],
            listings=listings // number + (index < listings % number),
            industry=dice.choice(industries),
            city=dice.choice(words.CITIES),
            stack=dice.choice(words.STACKS),
            people=dice.choice((12, 40, 130, 450, 1_800)),
            founded=dice.randrange(1994, 2024),
            is_remote_first=dice.random() < 0.3,
        )

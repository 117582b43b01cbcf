"""The open positions of a company: the same ones whenever they are asked for, whatever board shows them."""

from __future__ import annotations

import hashlib
import random
from dataclasses import dataclass
from datetime import date, timedelta

from onceward_apps.jobfinder.world import words
from onceward_apps.jobfinder.world.companies import Company

FITTING = 0.25
"""How many of the positions are for what the company works with most."""
ENGINEERING = 0.75


@dataclass(frozen=True, slots=True)
class Position:
    """One open position."""

    number: int
    """Unique among all companies."""
    title: str
    city: str
    is_remote: bool
    department: str
    stack: tuple[str, ...]
    tasks: tuple[str, ...]
    salary: tuple[int, int]
    posted: date

    @property
    def uuid(self) -> str:
        """Its id on boards that have long ones."""
        digits = hashlib.sha256(str(self.number).encode()).hexdigest()
        return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:32]}"

    @property
    def code(self) -> str:
        """Its id on boards that have short ones."""
        return self.uuid.replace("-", "")[:10].upper()

    @property
    def slug(self) -> str:
        """Its title in addresses."""
        return self.title.lower().replace(",", "").replace(" ", "-")

    @property
    def place(self) -> str:
        """Where one works, as listings write it."""
        return f"Remote ({self.city})" if self.is_remote else self.city

    @property
    def requirements(self) -> tuple[str, ...]:
        """What is asked for, line by line."""
        return (
            f"Several years with {self.stack[0]} in production",
            f"You have run {' and '.join(self.stack[1:3])} yourself",
            *(f"Experience with {name}" for name in self.stack[3:]),
            "Clear English in writing",
        )


def positions(company: Company, seed: int, today: date) -> list[Position]:
    """All positions of a company."""
    return [_position(company, index, seed, today) for index in range(company.listings)]


def _position(company: Company, index: int, seed: int, today: date) -> Position:
    dice = random.Random(f"{seed}/{company.number}/{index}")
    is_engineering = dice.random() < ENGINEERING
    role = dice.choice(words.ROLES) if is_engineering else dice.choice(words.OTHER_ROLES)
    lowest = dice.randrange(70, 190) * 1_000
    return Position(
        number=company.number * 100_000 + index,
        title=f"{dice.choice(words.LEVELS)}{role}, {dice.choice(words.TEAMS)}",
        city=company.city if dice.random() < 0.6 else dice.choice(words.CITIES),
        is_remote=company.is_remote_first or dice.random() < 0.2,
        department="Engineering" if is_engineering else "Operations",
        stack=company.stack if dice.random() < FITTING else dice.choice(words.STACKS),
        tasks=tuple(dice.sample(words.TASKS, 3)),
        salary=(lowest, lowest + 30_000),
        posted=today - timedelta(days=dice.randrange(60)),
    )


def text_html(company: Company, position: Position) -> str:
    """What a board shows of a position, as HTML."""
    tasks = "".join(f"<li>You will {task}.</li>" for task in position.tasks)
    wanted = "".join(f"<li>{line}</li>" for line in position.requirements)
    way = "The work is remote." if position.is_remote else f"The work is on site in {position.city}."
    return (
        f"<p>{company.name} {words.INDUSTRIES[company.industry]}. For the team in {company.city} we look for a"
        f" {position.title}.</p><h3>What you will do</h3><ul>{tasks}</ul><h3>Requirements</h3><ul>{wanted}</ul>"
        f"<p>Employment type: full-time. {way} It pays ${position.salary[0]:,} to ${position.salary[1]:,} a year.</p>"
    )


def text_plain(company: Company, position: Position) -> str:
    """The same as plain text."""
    tasks = "\n".join(f"- You will {task}." for task in position.tasks)
    wanted = "\n".join(f"- {line}" for line in position.requirements)
    way = "The work is remote." if position.is_remote else f"The work is on site in {position.city}."
    return (
        f"{company.name} {words.INDUSTRIES[company.industry]}. For the team in {company.city} we look for a"
        f" {position.title}.\n\nWhat you will do\n{tasks}\n\nRequirements\n{wanted}\n\nEmployment type: full-time."
        f" {way} It pays ${position.salary[0]:,} to ${position.salary[1]:,} a year."
    )

"""The profile of the person who looks for a job: a file in TOML that `onceward-jobs init` writes with comments.

It is read and checked as a whole: what is misspelt, of the wrong type, or can never be reached is an error.
"""

from __future__ import annotations

import hashlib
import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import msgspec

from onceward import ConfigError, StopList
from onceward_apps.jobfinder import settings
from onceward_apps.jobfinder.languages import NAMES
from onceward_apps.jobfinder.profile_errors import explained
from onceward_apps.jobfinder.regions import folded
from onceward_apps.jobfinder.technologies import plain_name

Level = Literal["intern", "junior", "mid", "senior", "staff", "principal", "lead", "manager", "director"]
Employment = Literal["full-time", "part-time", "contract", "temporary", "internship"]
HIGHEST_RANK = 10


class Person(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is wanted of the work itself."""

    titles: tuple[str, ...] = ()
    levels: tuple[Level, ...] = ()
    employment: tuple[Employment, ...] = ("full-time",)
    languages: tuple[str, ...] = ()
    """Those that one works in. Without any, none that a listing asks for counts."""
    max_age_days: int = 45


class Places(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where one would work."""

    office: str = "Portland"
    """The place whose offices are worth most."""
    wanted: tuple[str, ...] = ("Portland",)
    remote: Literal["required", "fine", "no"] = "fine"


class Salary(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The lowest salary of a year, and in what."""

    minimum: float = 0
    currency: str = "USD"


class Exclusions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What counts as strikes against a listing."""

    technologies: tuple[str, ...] = ()
    words: tuple[str, ...] = ()


class StopLists(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is not even looked at."""

    companies: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()


class Filters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table `[filters]`."""

    stop_list: StopLists = StopLists()


class Models(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Models of a provider, by the interface that OpenAI's has made common; none unless named."""

    extraction: str = ""
    """The cheap one, for what heuristics leave empty, and for pages on which they find no list of jobs."""
    scoring: str = ""
    """The expensive one, for listings that have passed the filter."""


class Profile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A person's profile."""

    person: Person = Person()
    skills: dict[str, int] = {}
    """Each with a rank from 1 (useful) to 10 (what one does best)."""
    places: Places = Places()
    salary: Salary = Salary()
    exclusions: Exclusions = Exclusions()
    filters: Filters = Filters()
    models: Models = Models()
    settings: dict[str, Any] = {}
    """Other defaults for settings, by their names."""

    @property
    def ranks(self) -> dict[str, int]:
        """The skills under the names that technologies have here."""
        return {plain_name(name): rank for name, rank in self.skills.items()}

    @property
    def excluded_technologies(self) -> frozenset[str]:
        """What must not be asked for, under the names that technologies have here."""
        return frozenset(map(plain_name, self.exclusions.technologies))

    @property
    def fingerprint(self) -> str:
        """What is written beside a listing that this profile has judged: 16 hex digits that follow from all of it."""
        return hashlib.sha256(msgspec.json.encode(self, order="deterministic")).hexdigest()[:16]

    @property
    def languages(self) -> frozenset[str]:
        """The languages one works in, under the names that they have here."""
        return frozenset(NAMES.get(folded(name), folded(name)) for name in self.person.languages)

    def stop_list(self) -> StopList:
        """What is not even looked at, as the engine knows it."""
        stop = self.filters.stop_list
        return StopList(names=stop.companies, domains=stop.domains, keywords=stop.keywords)


def read(path: Path) -> Profile:
    """The profile in a file. Whatever is wrong with it is a ConfigError that says so."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(f"there is no profile {path}; `onceward-jobs init` writes one") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the profile {path} cannot be read: {error}") from error
    return parsed(text, str(path))


def parsed(text: str, name: str = "the profile") -> Profile:
    """The profile that a text in TOML says."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{name}: {error}") from error
    try:
        profile = msgspec.convert(data, Profile)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{name}: {explained(error, Profile, data)}") from error
    if wrong := problems(profile):
        raise ConfigError(f"{name}: {'; '.join(wrong)}")
    return profile


def problems(profile: Profile) -> list[str]:
    """Why a profile is invalid, one sentence each."""
    found = [
        f"the rank of {name!r} is {rank}; it is from 1 to {HIGHEST_RANK}"
        for name, rank in profile.skills.items()
        if not 1 <= rank <= HIGHEST_RANK
    ]
    if both := sorted(profile.ranks.keys() & profile.excluded_technologies):
        found.append(f"{', '.join(both)}: among the skills, and excluded")
    if profile.places.remote == "no" and not profile.places.wanted:
        found.append("no place is wanted, and no remote work: every listing would be filtered")
    if profile.salary.minimum < 0 or profile.person.max_age_days < 1:
        found.append("salary.minimum is not negative, and person.max_age_days at least 1")
    try:
        profile.stop_list()
        wanted = {one.name: one.default for one in settings.settings(flat(profile.settings))}
    except ConfigError as error:
        return [*found, str(error)]
    numbers = msgspec.convert({field: wanted[settings.named(field)] for field in settings.Numbers.__struct_fields__},
                              settings.Numbers, strict=False)  # fmt: skip
    return found + settings.problems(numbers) + unreachable(profile, numbers)


def unreachable(profile: Profile, numbers: settings.Numbers) -> list[str]:
    """Which numbers this person's profile can never reach, one sentence each."""
    if profile.skills:
        return []
    points = numbers.most_points - numbers.match_points_skills
    found = []
    if points < numbers.match_min_score:
        found.append(
            f"without skills a listing scores at most {points}, and match.min_score={numbers.match_min_score} cannot "
            "be reached: name skills with their ranks in [skills]"
        )
    return found


def flat(table: dict[str, Any], before: str = "") -> dict[str, Any]:
    """Settings by their names, which may stand in tables: `[settings.match] min_score = 70`."""
    found: dict[str, Any] = {}
    for word, value in table.items():
        found |= flat(value, f"{before}{word}.") if isinstance(value, dict) else {before + word: value}
    return found


def template() -> str:
    """A profile with a comment for everything, as `init` writes it."""
    return files(__package__).joinpath("profile_template.toml").read_text(encoding="utf-8")

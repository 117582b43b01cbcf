"""What a title and a description say of a position: its level, and how one is employed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from onceward_apps.jobfinder.profile import Employment, Level


def _words(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w)(?:{pattern})(?!\w)", re.IGNORECASE)


_LEVELS: Mapping[Level, re.Pattern[str]] = MappingProxyType({
    "director": _words(
        r"director(?:a|e|in)?|head of|global head|head|vice president|(?:s|e)?vp|chief|c[te]o|(?:general"
        r"|country) manager|gm|gerente general|geschäftsführer(?:in)?"
    ),
    "manager": _words(
        r"(?:engineering|software|(?<!business )development|sales|(?:data )?science|analytics|design|support|qa"
        r"|security|infrastructure|accounting|bdr|sdr|team|people"
        r"|platform|data engineering|account management|customer support) managers?|manager of|tlm"
        r"|tech(?:nical)? lead manager|team ?leiter(?:in)?"
        r"|abteilungsleiter(?:in)?|jefe de equipo|jefa de equipo|gerente de ventas"
    ),
    "intern": _words(
        r"intern(?:ship)?|working student|apprentice(?:ship)?|co-?op|becari[oa]|practicante|pasante|pr[áa]cticas"
        r"|praktik(?:um|ant(?:in)?)|werkstudent(?:in)?"
        r"|stagiaire|alternance|estagi[áa]ri[oa]"
    ),
    "principal": _words(r"principal|distinguished|fellow"),
    "staff": _words(r"staff"),
    "lead": _words(r"(?:tech(?:nical)? |team )?lead(?:er)?|l[íi]der"),
    "senior": _words(r"senior|sr\.?|s[ée]nior|iii|iv|v|3"),
    "junior": _words(r"junior|jr\.?|j[úu]nior|entry[\s-]level|(?:new )?grad(?:uate)?|associate|trainee|auxiliar"),
    "mid": _words(r"mid(?:[\s-]level)?(?![\s-]?(?:market|size\w*|atlantic|west))|intermediate|ii|2|semi[\s-]?senior"
                  r"|ssr\.?"),
})  # fmt: skip
"""By the words of a title, the first that fits."""

_FIRST_GRADE = re.compile(r"(?<=\w )I(?=\s*(?:$|[,(–—:\-]))")
"""A Roman one, as in `Engineer I`; in small letters it is a word."""

_NO_LEVEL = _words(
    r"lead gen(?:eration)?|(?:account|project|program|client) director|chief of staff"
    r"|member of (?:the )?technical staff|staff (?:nurse|accountant)"
)
"""What looks like a level and is a kind of work."""

_MANAGES = re.compile(
    r"^\W*(?:(?:sr|senior|assistant|associate)\b\.?\s*)*manager\b(?!\s*,?\s*(?:product|account|project|program)\b)",
    re.IGNORECASE,
)
"""A title that begins with it is of one who leads people; behind what it manages it is a kind of work: product, "
  "account, operations."""

_STEPS: tuple[Level, ...] = ("intern", "junior", "mid", "senior", "staff", "principal")
"""The grades of those who do the work themselves, in order; a lead stands beside senior and staff."""

_EMPLOYMENT: Mapping[Employment, re.Pattern[str]] = MappingProxyType({
    "internship": _words(r"intern(?:ship)?"),
    "part-time": _words(r"part[\s-]time"),
    "contract": _words(r"contract(?:or)?(?!\s+(?:lifecycle|management|manager|negotiat\w+|administrat\w+|law"
                       r"|compliance|specialist|analyst)\b)|freelance|corp[\s-]to[\s-]corp|c2c|1099"
                       r"|contract[\s-]to[\s-]hire"),
    "temporary": _words(r"temporary|fixed[\s-]term|seasonal"),
    "full-time": _words(r"full[\s-]time|permanent"),
})  # fmt: skip
_STATED = re.compile(r"(?:employment|job|position|contract)\s+type\s*(?::\s*)?([^\n.;]{3,40})", re.IGNORECASE)


def level_of(title: str) -> Level:
    """The level that a title names; without any word for one it is the middle."""
    return stated_level(title) or "mid"


def stated_level(title: str) -> Level | None:
    """The level that a title names; None without any word for one."""
    if _MANAGES.search(title):
        return "manager"
    plain = _NO_LEVEL.sub(" ", title)
    found = next((level for level, pattern in _LEVELS.items() if pattern.search(plain)), None)
    return found or ("junior" if _FIRST_GRADE.search(plain) else None)


def levels_of(title: str, years: int | None) -> tuple[Level, ...]:
    """The levels that a listing may be of: what its title names, else what so many years of experience make."""
    if stated := stated_level(title):
        return (stated,)
    if years is None:
        return ("mid", "senior")
    if years < _SOME_YEARS:
        return ("junior", "mid")
    if years < _MANY_YEARS:
        return ("mid",) if years < _RATHER_MANY else ("mid", "senior")
    return ("senior", "staff")


_SOME_YEARS, _RATHER_MANY, _MANY_YEARS = 2, 4, 8


def steps_between(level: Level, wanted: tuple[Level, ...]) -> int | None:
    """How many grades lie between a level and the closest wanted one; None where one leads people and the other "
    "doesn't."""
    places = [_STEPS.index(one) for one in wanted if one in _STEPS]
    if level not in _STEPS or not places:
        return None
    return min(abs(_STEPS.index(level) - place) for place in places)


def employment_of(title: str, description: str | None) -> Employment | None:
    """How one is employed, by the title or by what the description states under that name; None if neither says."""
    stated = _STATED.search(description or "")
    for text in (title, stated[1] if stated else ""):
        for kind, pattern in _EMPLOYMENT.items():
            if pattern.search(text):
                return kind
    return None

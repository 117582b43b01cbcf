"""What a title and a description say of a position: its level, and how one is employed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from onceward_apps.jobfinder.profile import Employment, Level


def _words(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w)(?:{pattern})(?!\w)", re.IGNORECASE)


_LEVELS: Mapping[Level, re.Pattern[str]] = MappingProxyType({
    "director": _words(r"director|head of|vice president|vp|chief|c[te]o"),
    "manager": _words(r"manager"),
    "intern": _words(r"intern(?:ship)?|working student|apprentice"),
    "staff": _words(r"staff|principal|distinguished|fellow"),
    "lead": _words(r"(?:tech(?:nical)? |team )?lead"),
    "senior": _words(r"senior|sr\.?|iii|iv"),
    "junior": _words(r"junior|jr\.?|entry[\s-]level|graduate|associate|trainee"),
    "mid": _words(r"mid(?:[\s-]level)?|intermediate|ii"),
})  # fmt: skip
"""By the words of a title, the first that fits."""

_NO_LEVEL = _words(r"(?:product|account|project|program) manager|chief of staff")
"""What looks like a level and is a kind of work."""

_EMPLOYMENT: Mapping[Employment, re.Pattern[str]] = MappingProxyType({
    "internship": _words(r"intern(?:ship)?"),
    "part-time": _words(r"part[\s-]time"),
    "contract": _words(r"contract(?:or)?|freelance|corp[\s-]to[\s-]corp|c2c|1099|contract[\s-]to[\s-]hire"),
    "temporary": _words(r"temporary|fixed[\s-]term|seasonal"),
    "full-time": _words(r"full[\s-]time|permanent"),
})  # fmt: skip
_STATED = re.compile(r"(?:employment|job|position|contract)\s+type\s*(?::\s*)?([^\n.;]{3,40})", re.IGNORECASE)


def level_of(title: str) -> Level:
    """The level that a title names; without any word for one it is the middle."""
    plain = _NO_LEVEL.sub(" ", title)
    return next((level for level, pattern in _LEVELS.items() if pattern.search(plain)), "mid")


def employment_of(title: str, description: str | None) -> Employment | None:
    """How one is employed, by the title or by what the description states under that name; None if neither says."""
    stated = _STATED.search(description or "")
    for text in (title, stated[1] if stated else ""):
        for kind, pattern in _EMPLOYMENT.items():
            if pattern.search(text):
                return kind
    return None

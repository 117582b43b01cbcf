"""What a posting demands, read as a person reads it: what is required, what would be nice, and what is one of "
"several."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Literal

import msgspec

from onceward_apps.jobfinder.technologies import technologies_in

Section = Literal["required", "nice", "other"]
LONGEST_TEXT = 30_000
_LONGEST_HEADING = 90

_NICE = re.compile(
    r"nice[\s-]to[\s-]have|prefer(?:red|rably)|bonus|(?:big |huge |is a |would be a )?plus\b|desirable|desired"
    r"|ideally|advantage\w*|good to have"
    r"|even better|not required|optional|extra credit|deseable|se valora|valorar\w*|plus(?:es)?$|von vorteil"
    r"|w[üu]nschenswert|atouts?|un plus|diferencia\w*"
    r"|icing on the cake|stand out",
    re.IGNORECASE,
)
_REQUIRED = re.compile(
    r"\brequire(?:d|ments?|s)?\b|qualification|your (?:background|profile|skills|experience)|what (?:you"
    r"|the candidate).{0,16}\b(?:need|bring|have|require)"
    r"|what we.{0,16}(?:require|look|expect|need|seek)|\byou (?:have|bring|are|need|must|should have)\b|you(?:'|’"
    r"|)(?:ll|ve) (?:need|have|got|bring)|must[\s-]haves?"
    r"|\bskills\b|experience\b|who you are|about you|we.{0,6}re looking for|looking for|you might be|you may be"
    r"|the ideal candidate|we expect"
    r"|requisitos|requerimientos|requerido|perfil|(?:qu[ée]|lo que) (?:necesitas|buscamos|ofreces)|buscamos"
    r"|conocimientos|experiencia|calificaciones"
    r"|anforderungen|dein profil|ihr profil|das bringst du mit|qualifikation|was du mitbringst|voraussetzungen"
    r"|votre profil|profil recherch|comp[ée]tences"
    r"|pr[ée]requis|requisitos|o que (?:buscamos|esperamos)|qualifica[çc][õo]es|requisiti|cosa cerchiamo|vereisten"
    r"|wat (?:wij )?vragen|functie-?eisen",
    re.IGNORECASE,
)
_OTHER = re.compile(
    r"what you.{0,6}(?:ll)?\s*(?:do|be doing|work|own)|what (?:the candidate )?will do|responsibilit|about (?:us"
    r"|the (?:role|team|job|company))|the role|the team"
    r"|benefits|perks|we offer|what we offer|compensation|salary|why (?:us|join)|your (?:role|mission|impact|tasks)"
    r"|day[\s-]to[\s-]day|responsabilidades|funciones"
    r"|ofrecemos|beneficios|qu[ée] har[áa]s|sobre (?:la|el|nosotros)|aufgaben|wir bieten|missions?|nous offrons"
    r"|equal opportunity|how to apply|process",
    re.IGNORECASE,
)
_ITEM = re.compile(r"\\?(?:[-*•·‣▪–●○◦]|\d{1,2}\\?[.)])\s+(.+)")
_DECORATION = re.compile(r"[\\*_#~=]+|^[\s\-–—:•]+|[\s\-–—:]+$")
_ANY_OF = re.compile(
    r"\bor\b|/|\bone (?:or more )?of\b|\bany of\b|\bat least one\b|\bsuch as\b|\be\.?g\.?\b|\bi\.e\.|\blike\b"
    r"|\bsimilar\b|\bequivalents?\b|\bincluding\b"
    r"|\bcomparable\b|\brelated\b|\bo\b|\bu\b|\boder\b|\bou\b|\bcomo\b|\bz\.\s?b\.|\bpor ejemplo\b|\bof your choice\b",
    re.IGNORECASE,
)
_WHOLE = re.compile(
    r"\bone (?:or more )?of\b|\bany of\b|\bat least one\b|\bsuch as\b|\be\.?g\.?\b|\blike\b|\bsimilar\b"
    r"|\bequivalents?\b|\bincluding\b|\bcomparable\b"
    r"|\bcomo\b|\bz\.\s?b\.|\bpor ejemplo\b|\bof your choice\b",
    re.IGNORECASE,
)
_AND = re.compile(r",?\s+(?:and|as well as|plus|y|und|et|e)\s+|;|\s\+\s", re.IGNORECASE)
_SENTENCE = re.compile(r"(?<=[a-z)\d][.!?])\s+(?=[A-ZÁÉÍÓÚÑ])")
_YEARS = re.compile(
    r"\b(\d{1,2})\s*(?:\+|plus)?\s*(?:(?:-|–|to|a|or)\s*\d{1,2}\s*\+?\s*)?(?:years?|yrs?|a[ñn]os?|jahre|ans"
    r"|anos)\b(?!\s*old)",
    re.IGNORECASE,
)
_MONTHS = re.compile(r"\b(\d{1,2})\s*\+?\s*months?\b", re.IGNORECASE)
_MOST_YEARS = 25


class Demand(msgspec.Struct, frozen=True):
    """Technologies of which one is enough, and whether they are required or would be nice."""

    names: tuple[str, ...]
    is_required: bool


class Demands(msgspec.Struct, frozen=True):
    """What a posting demands."""

    technologies: tuple[Demand, ...]
    required_lines: tuple[str, ...]
    years: int | None
    """How many years of experience are asked for at least: the fewest of several ways in."""


def heading_of(line: str) -> Section | None:
    """What a line opens, if it is a heading: what is required, what would be nice, or anything else."""
    bare = _DECORATION.sub(" ", line).strip()
    if (
        not bare
        or len(bare) > _LONGEST_HEADING
        or bare[-1:] in ".;,"
        or (_ITEM.match(line.strip()) is not None and "*" not in line)
    ):
        return None
    if _NICE.search(bare):
        return "nice"
    if _OTHER.search(bare) and not _STRONG.search(bare):
        return "other"
    if _REQUIRED.search(bare):
        return "required"
    decorated = line.strip().startswith(("#", "**", "__")) or line.strip().endswith((":", "**")) or "----" in line
    return "other" if decorated or (len(bare) <= _SHORT and bare[:1].isupper()) else None


_SHORT = 40
_STRONG = re.compile(r"require|qualif|requisit|need|must|skills|anforderung", re.IGNORECASE)


def sections(text: str) -> Iterator[tuple[Section, str, bool]]:
    """The lines of a text, each with the section in which it stands, and whether it is an item of a list."""
    section: Section = "other"
    for line in text[:LONGEST_TEXT].splitlines():
        bare = line.strip()
        if not bare:
            continue
        if (opened := heading_of(bare)) is not None:
            section = opened
            continue
        item = _ITEM.match(bare)
        said = _DECORATION.sub(" ", item[1] if item else bare).strip()
        if said:
            nice = section == "required" and _NICE.search(said) is not None
            yield ("nice" if nice else section), said, item is not None


@lru_cache(maxsize=256)
def demands_in(text: str, listed: tuple[str, ...] = (), besides: tuple[str, ...] = ()) -> Demands:
    """What a text demands; `listed` are requirements that a board states apart, `besides` other technologies to look "
    "for."""
    lines = [(section, line) for section, line, _ in sections(text) if section != "other"]
    known = {line for _, line in lines}
    lines += [("nice" if _NICE.search(line) else "required", line) for line in listed if line not in known]
    found: dict[tuple[str, ...], bool] = {}
    for section, line in lines:
        for names in alternatives_in(line, besides):
            found[names] = found.get(names, False) or section == "required"
    required = tuple(line for section, line in lines if section == "required")
    return Demands(
        tuple(Demand(names, is_required) for names, is_required in found.items()), required, _years(required)
    )


def alternatives_in(line: str, besides: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The technologies that a line asks for: those of which one is enough together, each of the others alone."""
    for sentence in _SENTENCE.split(line.replace("and/or", "or")):
        if not _ANY_OF.search(sentence):
            yield from ((name,) for name in technologies_in(sentence, besides))
            continue
        for piece in [sentence] if _WHOLE.search(sentence) else _AND.split(sentence):
            names = technologies_in(piece, besides)
            if _ANY_OF.search(piece) and names:
                yield names
            else:
                yield from ((name,) for name in names)


def _years(lines: tuple[str, ...]) -> int | None:
    said = [int(match[1]) for line in lines for match in list(_YEARS.finditer(line))[:1]]
    said = [years for years in said if years <= _MOST_YEARS]
    if said:
        return max(said) if len(said) < 2 else sorted(said)[len(said) // 2]
    months = [int(match[1]) for line in lines for match in list(_MONTHS.finditer(line))[:1]]
    return min(months) // 12 if months else None

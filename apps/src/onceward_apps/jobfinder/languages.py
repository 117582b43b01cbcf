"""Which languages a posting asks for, and which it is written in."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType

from onceward_apps.jobfinder.regions import folded

ANOTHER = "a second language"
"""What is asked for where a posting says "bilingual" and not of what."""

NAMES: Mapping[str, str] = MappingProxyType({
    "english": "english", "ingles": "english", "englisch": "english", "anglais": "english", "spanish": "spanish",
    "espanol": "spanish",
    "castellano": "spanish", "spanisch": "spanish", "espagnol": "spanish", "castilian": "spanish",
    "portuguese": "portuguese", "portugues": "portuguese",
    "portuegese": "portuguese", "portugiesisch": "portuguese", "german": "german", "deutsch": "german",
    "aleman": "german", "allemand": "german",
    "french": "french", "francais": "french", "frances": "french", "franzosisch": "french", "italian": "italian",
    "italiano": "italian", "dutch": "dutch",
    "nederlands": "dutch", "danish": "danish", "swedish": "swedish", "norwegian": "norwegian", "finnish": "finnish",
    "polish": "polish", "czech": "czech",
    "romanian": "romanian", "croatian": "croatian", "hungarian": "hungarian", "greek": "greek", "turkish": "turkish",
    "arabic": "arabic", "hebrew": "hebrew",
    "russian": "russian", "ukrainian": "ukrainian", "japanese": "japanese", "korean": "korean", "mandarin": "chinese",
    "chinese": "chinese",
    "cantonese": "chinese", "hindi": "hindi", "thai": "thai", "vietnamese": "vietnamese", "indonesian": "indonesian",
    "tagalog": "tagalog",
})  # fmt: skip

_LANGUAGE = rf"(?:{'|'.join(sorted(NAMES, key=len, reverse=True))})"
_LIST = rf"{_LANGUAGE}(?:\s*(?:,|/|&|\(|\)|and|or|y|o|u|e|und|oder|et|ou)\s*(?:and\s+|or\s+)?{_LANGUAGE}){{0,4}}"
_ASKED = re.compile(
    rf"\b(?:fluen(?:t|cy)|proficien(?:t|cy)|native|bilingual|business[\s-]level|conversational|professional|advanced"
    rf"|excellent|dominio|nivel|fluid[oa]"
    rf"|avanzado|working knowledge|command|mastery|verhandlungssicher\w*|flie(?:ss|ß)end\w*|sehr gute\w*|speaks?"
    rf"|speak|b[12]\+?|c[12]\+?)"
    rf"(?:\s+(?:in|of|de|del|en|level|both|the|spoken|written|verbal|and|professional|command|knowledge|skills"
    rf"|proficiency|fluency|idioma|fluent|or|native"
    rf"|idiomas?|communication|%)){{0,6}}\s+({_LIST})\b"
    rf"|\b({_LIST})(?:\s+(?:language|is|are|a))*\s*[-:(]?\s*(?:speak(?:er|ing)s?|required|proficiency|fluency|fluent"
    rf"|must|mandatory|native|avanzado|fluido"
    rf"|skills (?:are |is )?(?:required|a must)|b[12]\b|c[12]\b|level|kenntnisse)"
    rf"|\bwith\s+({_LANGUAGE})\s*(?=$|[,(|/-])",
    re.IGNORECASE,
)
_BILINGUAL = re.compile(
    r"\bbilingual\b|\b(?:fluency|fluent|proficiency|proficient) in a(?:nother| second| foreign) language", re.IGNORECASE
)
_ANY_OF = re.compile(r"\b(?:or|o|u|oder|ou)\b|/", re.IGNORECASE)
_SPLIT = re.compile(r"\s*(?:,|/|&|\(|\)|\b(?:and|or|y|o|u|e|und|oder|et|ou)\b)\s*", re.IGNORECASE)
_SCRIPTS = (("japanese", re.compile(r"[\u3040-\u30ff]")), ("korean", re.compile(r"[\uac00-\ud7af]")), ("chinese",
re.compile(r"[\u4e00-\u9fff]")),
            ("russian", re.compile(r"[\u0400-\u04ff]")), ("arabic", re.compile(r"[\u0600-\u06ff]")), ("hebrew",
            re.compile(r"[\u0590-\u05ff]")),
            ("greek", re.compile(r"[\u0370-\u03ff]")), ("thai", re.compile(r"[\u0e00-\u0e7f]")))  # fmt: skip


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_COMMON: Mapping[str, frozenset[str]] = MappingProxyType({
    "english": _set("the and of to in for with you we our is are will on this that your be as"),
    "spanish": _set("el la los las de y en para con que una un del por tu se como nuestro nuestra es al"),
    "portuguese": _set("o os as de e em para com que uma um do da não por você se como nossa nosso é ao"),
    "german": _set("der die das und in für mit du wir ein eine den von zu auf ist bei sich als unsere"),
    "french": _set("le la les des et en pour avec vous nous une un du dans que est votre notre sur au"),
    "italian": _set("il lo la gli di e in per con che una un del della nel tuo si come nostra è al"),
    "dutch": _set("de het een en van voor met je we in op is zijn onze dat jij als te bij aan"),
})  # fmt: skip
"""Words by which one sees in what a text is written."""
_ENOUGH, _CLEAR = 20, 1.5


def asked(lines: Iterable[str]) -> list[frozenset[str]]:
    """The languages that lines ask for: each a set of which one is enough."""
    found: dict[frozenset[str], None] = {}
    for line in lines:
        plain = folded(line)
        named = False
        for match in _ASKED.finditer(plain):
            said = next(group for group in match.groups() if group)
            names = frozenset(NAMES[word] for word in _SPLIT.split(said) if word in NAMES)
            named = True
            for group in [names] if _ANY_OF.search(said) else [frozenset({name}) for name in sorted(names)]:
                found[group] = None
        if not named and _BILINGUAL.search(plain):
            found[frozenset({ANOTHER})] = None
    return list(found)


@lru_cache(maxsize=64)
def written_in(text: str) -> str | None:
    """The language of a text, as far as its script or its most common words tell."""
    part = text[:4_000]
    for name, script in _SCRIPTS:
        if len(script.findall(part)) > len(part) / 10:
            return name
    words = re.findall(r"[^\W\d_]+", part.casefold())
    counts = sorted(((sum(word in common for word in words), name) for name, common in _COMMON.items()), reverse=True)
    (most, name), (second, _) = counts[:2]
    return name if most >= _ENOUGH and most >= _CLEAR * second else None

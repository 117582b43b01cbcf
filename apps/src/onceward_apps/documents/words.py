"""The words of a passage: what it shares with another one, and what a question asks for."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache

_HEADING = re.compile(r"^#{1,6} .*$", re.M)
_TARGET = re.compile(r"\]\([^)\s]*\)|https?://\S+")
_WORD = re.compile(r"[^\W\d_]{3,}")
_RUN = 6
_FEW = 4
"""A word in so many passages is rare, however few passages there are."""
_TERM = re.compile(r"[^\W_]+")
_ACCENT = re.compile("[\u0300-\u036f]")
_SENTENCE = re.compile(r"[^.!?;:。！？\n]+[.!?;:。！？\n]*[”’\"')\]]*\s*")

_FUNCTION_WORDS = (
    "a about after all also am an and any are as at be because been before being but by can could did do does doing "
    "for from had has have having he her here hers him his how i if in into is it its just me more most my no nor not "
    "of off on once only or other our out over own s same she should so some such t than that the their them then "
    "there these they this those through to too under until up very was we were what when where which while who whom "
    "whose why will with would you your"
)
FUNCTION_WORDS = frozenset(_FUNCTION_WORDS.split())
"""English words that say nothing about what is asked for."""


def told_words(text: str) -> frozenset[str]:
    """The words that a passage tells something with: without headings, the targets of links, figures and short ones."""
    return frozenset(_WORD.findall(_TARGET.sub("]", _HEADING.sub("", text)).lower())) - FUNCTION_WORDS


@lru_cache(maxsize=8_192)
def told_words_kept(text: str) -> frozenset[str]:
    """Return the same, and keep it for the next document that is compared with this passage."""
    return told_words(text)


def word_runs(text: str) -> frozenset[tuple[str, ...]]:
    """All runs of six words of a passage: what two texts have in common if one repeats the other."""
    words = _WORD.findall(text.lower())
    return frozenset(zip(*(words[start:] for start in range(_RUN)), strict=False))


def rare_words(passages: Iterable[frozenset[str]], share: float) -> dict[str, int]:
    """The words that stand in at least two of some passages and in no more than a share of them, and in how many."""
    counts: Counter[str] = Counter()
    total = 0
    for words in passages:
        total += 1
        counts.update(words)
    most = max(_FEW, int(total * share))
    return {word: count for word, count in counts.items() if 2 <= count <= most}


def unaccented(text: str) -> str:
    """A text in small letters without accents, as the full-text indexes have it."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFC", _ACCENT.sub("", unicodedata.normalize("NFKD", text))).lower()


def terms_of(text: str) -> list[str]:
    """All words and figures of a text, in order, without accents. Of a query language nothing is left in them."""
    return _TERM.findall(unaccented(text))


def asked_terms(query: str, most: int) -> list[str]:
    """The terms of a question, each once, at most so many; its function words only if there is nothing else."""
    found = dict.fromkeys(terms_of(query))
    telling = [term for term in found if term not in FUNCTION_WORDS]
    return (telling or list(found))[:most]


def sentences(text: str) -> list[tuple[int, int]]:
    """Where the sentences of a text, or parts of long ones, begin and end."""
    return [match.span() for match in _SENTENCE.finditer(text)]


def word_places(text: str) -> list[tuple[int, int]]:
    """Where the words of a text begin and end."""
    return [match.span() for match in _TERM.finditer(text)]

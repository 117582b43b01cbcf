"""What is not wanted: tasks whose key or title is on the stop list are not made.

Every question is answered by looking words up in tables, so it costs the same with ten entries and with ten thousand,
and no key or title can make it slow. That is why there are no patterns.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from urllib.parse import unquote

from onceward.errors import ConfigError
from onceward.model.hosts import host_in, parsed, plain_host

MOST_WORDS = 10
"""How many words a keyword may have."""
LONGEST_HOST = 253
"""How many characters the name of a host may have."""

# Letters and digits of any script; with a `++` or `#` at the end, or a dot in front, where it belongs to the word:
# C++, C#, .NET. Nothing after the letters can fail, so there is nothing to go back for: this takes linear time.
_WORD = re.compile(r"(?:(?<![^\s(/,])\.)?[^\W_]+(?:\+\+|#(?![^\W_]))?")
_OF_PATTERNS = frozenset("*?[](){}|\\^$+")


@dataclass(frozen=True, slots=True)
class StopList:
    """Names, domains and keywords that stop a task."""

    names: Collection[str] = ()
    """The whole key or the whole title; case and the width of white space are not compared."""
    domains: Collection[str] = ()
    """The host of a key that is a URL, with all of its subdomains."""
    keywords: Collection[str] = ()
    """Whole words of the key or the title, one or several in a row; case is not compared."""

    _names: dict[str, str] = field(init=False, repr=False, compare=False)
    _domains: dict[str, str] = field(init=False, repr=False, compare=False)
    _keywords: dict[str, str] = field(init=False, repr=False, compare=False)
    _labels: int = field(init=False, repr=False, compare=False)
    """Of how many labels the longest domain is made: `jobs.example.com` of three."""
    _lengths: tuple[int, ...] = field(init=False, repr=False, compare=False)
    """How many words keywords have."""

    def __post_init__(self) -> None:
        names, domains, keywords = (_checked(self, which) for which in ("names", "domains", "keywords"))
        by_host = {_as_host(one): one for one in domains}
        by_words = {_as_words(one): one for one in keywords}
        derived = {
            "names": names,
            "domains": domains,
            "keywords": keywords,
            "_names": {_folded(one): one for one in names},
            "_domains": by_host,
            "_keywords": by_words,
            "_labels": max((host.count(".") + 1 for host in by_host), default=0),
            "_lengths": tuple(sorted({words.count(" ") + 1 for words in by_words})),
        }
        for name, value in derived.items():
            object.__setattr__(self, name, value)

    def match(self, key: str, title: str | None = None) -> str | None:
        """Why a task with this key and title is stopped, as a sentence; none where it is not."""
        host = host_in(key) if self._domains or self._keywords else None
        if host is not None and (domain := self._domain_of(host)) is not None:
            return f"its domain {domain} is on the stop list"
        # A keyword is looked for in what a person would read: in the words of a URL, not in their percent-encoding.
        readable = unquote(key) if host is not None else key
        for part, whole, text in (("key", key, readable), ("title", title, title)):
            if whole is None or text is None:
                continue
            if self._names and (name := self._names.get(_folded(whole))) is not None:
                return f"its {part} {name!r} is on the stop list"
            if self._keywords and (keyword := self._keyword_in(text)) is not None:
                return f"the keyword {keyword!r} in its {part} is on the stop list"
        return None

    def _domain_of(self, host: str) -> str | None:
        labels = host.rsplit(".", self._labels)
        for count in range(1, min(self._labels, len(labels)) + 1):
            domain = self._domains.get(".".join(labels[-count:]))
            if domain is not None:
                return domain
        return None

    def _keyword_in(self, text: str) -> str | None:
        words = list(_words(text))
        for length in self._lengths:
            for start in range(len(words) - length + 1):
                keyword = self._keywords.get(" ".join(words[start : start + length]))
                if keyword is not None:
                    return keyword
        return None


def title_of(payload: object) -> str | None:
    """The title of a payload, which a stop list looks at beside its key; none where it has no text of that name."""
    title = getattr(payload, "title", None)
    return title if isinstance(title, str) else None


def _words(text: str) -> Iterator[str]:
    return (match[0] for match in _WORD.finditer(text.casefold()))


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())


def _checked(stop_list: StopList, which: str) -> tuple[str, ...]:
    """The entries of one kind, each a text with something in it."""
    entries: object = getattr(stop_list, which)
    if isinstance(entries, str) or not isinstance(entries, Collection):
        raise ConfigError(f"the {which} of a stop list are a list of texts, not {entries!r}")
    for entry in entries:
        if not isinstance(entry, str):
            raise ConfigError(f"{entry!r} among the {which} of a stop list is {type(entry).__name__}; it must be text")
        if not entry.strip():
            raise ConfigError(f"one of the {which} of a stop list is empty; take it out")
    return tuple(entries)


def _as_host(entry: str) -> str:
    """A domain as it stands in an address: lower case, IDNA."""
    text = entry.strip()
    if _OF_PATTERNS.intersection(text):
        raise ConfigError(_no_patterns("domain", entry, "a domain stops all of its subdomains by itself: example.com"))
    address = parsed(f"https://{text}/")
    host = plain_host(address) if address is not None else ""
    alone = not re.search(r"[/:@#%\s]", text) and not text.startswith(".")
    if not alone or not host or len(host) > LONGEST_HOST:
        raise ConfigError(
            f"{entry!r} on a stop list is no domain; write it alone, without scheme, port, path or a dot in front: "
            "example.com"
        )
    return host


def _as_words(entry: str) -> str:
    """A keyword as its words, the way they are looked for in a text."""
    text = entry.strip().casefold()
    words = list(_WORD.finditer(text))
    between = _WORD.sub("", text)
    if _OF_PATTERNS.intersection(between):
        raise ConfigError(_no_patterns("keyword", entry, "write out each word that is meant; C++ and C# are words"))
    if not words or words[0].start() > 0 or words[-1].end() < len(text):
        raise ConfigError(f"the keyword {entry!r} on a stop list must begin and end with a letter or a digit")
    if len(words) > MOST_WORDS:
        raise ConfigError(f"the keyword {entry!r} on a stop list has more than {MOST_WORDS} words; make it a name")
    return " ".join(match[0] for match in words)


def _no_patterns(what: str, entry: str, instead: str) -> str:
    return (
        f"the {what} {entry!r} on a stop list looks like a pattern; patterns are not taken, because one can backtrack "
        f"forever on a text from outside. {instead[0].upper()}{instead[1:]}"
    )

"""Which technologies a text names: whole words only, in the spelling that its makers use where it is a common word."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType

_ANY_CASE = {
    "python": ("python", "python"),
    "javascript": ("javascript", "javascript"),
    "typescript": ("typescript", "typescript"),
    "java": ("java", "java"),
    "ruby": ("ruby", "ruby"),
    "php": ("php", "php"),
    "c#": (r"c#|c\s?sharp", "c#", "sharp"),
    "c++": (r"c\+\+", "c++"),
    "kotlin": ("kotlin", "kotlin"),
    "scala": ("scala", "scala"),
    "elixir": ("elixir", "elixir"),
    "vue": (r"vue(?:\.js|js)?", "vue"),
    "angular": (r"angular(?:js)?", "angular"),
    "svelte": (r"svelte(?:kit)?", "svelte"),
    "node.js": (r"node\.?js", "node"),
    "django": ("django", "django"),
    "rails": (r"rails|ruby\s+on\s+rails", "rails"),
    "fastapi": ("fastapi", "fastapi"),
    "docker": ("docker", "docker"),
    "kubernetes": ("kubernetes|k8s", "kubernetes", "k8s"),
    "aws": (r"aws|amazon\s+web\s+services", "aws", "amazon"),
    "gcp": (r"gcp|google\s+cloud(?:\s+platform)?", "gcp", "google"),
    "azure": ("azure", "azure"),
    "terraform": ("terraform", "terraform"),
    "kafka": ("kafka", "kafka"),
    "postgresql": (r"postgres(?:ql)?", "postgres"),
    "mysql": ("mysql", "mysql"),
    "mongodb": (r"mongo(?:db)?", "mongo"),
    "redis": ("redis", "redis"),
    "sqlite": ("sqlite", "sqlite"),
    "sql": ("sql", "sql"),
    "cassandra": ("cassandra", "cassandra"),
    "elasticsearch": (r"elastic\s?search", "elastic"),
    "snowflake": ("snowflake", "snowflake"),
    "bigquery": (r"big\s?query", "query"),
    "airflow": (r"(?:apache\s+)?airflow", "airflow"),
    "hadoop": ("hadoop", "hadoop"),
    "tableau": ("tableau", "tableau"),
    "salesforce": (r"salesforce(?:\.com)?", "salesforce"),
    ".net": (r"(?:asp)?\.net(?:\s+core)?", ".net"),
    "laravel": ("laravel", "laravel"),
    "flutter": ("flutter", "flutter"),
    "graphql": ("graphql", "graphql"),
    "tensorflow": ("tensorflow", "tensorflow"),
    "pytorch": ("pytorch", "pytorch"),
    "machine learning": (r"machine[\s-]+learning", "machine"),
    "deep learning": (r"deep[\s-]+learning", "deep"),
}
"""How each is written, and what of it must be there for it to be worth looking."""
_AS_WRITTEN = {
    "go": (
        r"[Gg][Oo][Ll][Aa][Nn][Gg]|Go(?![\s-]+(?:to|for|ahead|beyond|further|through|with|live|above|on|back|big"
        r"|behind)\b)",
        "Go",
        "olang",
        "OLANG",
        "oLang",
    ),
    "rust": ("Rust", "Rust"),
    "react": (r"React(?:\.js|JS)?", "React"),
    "swift": ("Swift", "Swift"),
    "spark": ("Spark|PySpark", "Spark"),
    "llm": (r"LLMs?|[Ll]arge [Ll]anguage [Mm]odels?", "LLM", "anguage"),
    "ai": (r"AI|[Aa]rtificial\s+[Ii]ntelligence", "AI", "rtificial"),
    "ml": (r"ML|MLOps", "ML"),
    "nlp": ("NLP", "NLP"),
}
"""Words that mean something else in small letters: only this spelling counts, and Go not where one goes somewhere."""


def _whole(pattern: str, flags: int = 0) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w#+@])(?<!\w\.)(?:{pattern})(?![\w#+]|\.\w)", flags)


_PATTERNS = {name: _whole(one[0], re.IGNORECASE) for name, one in _ANY_CASE.items()} | {
    name: _whole(one[0]) for name, one in _AS_WRITTEN.items()
}
_BESIDE = (
    "|".join(
        one[0]
        for name, one in _ANY_CASE.items()
        if name not in ("machine learning", "deep learning", "salesforce", "tableau")
    )
    + r"|c|r|go|rust|react|swift|spark"
)
_BETWEEN = r"\s*(?:,\s*(?:and|or)?|/|\||&|\+|\band\b|\bor\b|\by\b|\bo\b|\bund\b|\boder\b)\s*"
_IN_A_LIST = {
    name: re.compile(
        rf"(?<![\w.#+@-])(?:(?:{_BESIDE}){_BETWEEN}{name}(?![\w#+-]|\s+(?:to|for|through|with|live|on|back|beyond|the"
        rf"|a|in|of)\b)"
        rf"|{name}(?:\s*[,/|]\s*(?:and\s+|or\s+)?|\s+(?:and"
        rf"|or)\s+)(?:{_BESIDE.removesuffix('|c|r|go|rust|react|swift|spark')})(?![\w#+])"
        rf"|{name}(?:\.js|\s+(?:developer|programming|programmer|engineer|native|language|codebase|hooks"
        rf"|services?)\b))",
        re.IGNORECASE,
    )
    for name in ("go", "rust", "react", "swift", "spark")
}
"""The same words in any case, where they stand beside another technology or before what is done with one."""

AI_ML = frozenset({"tensorflow", "pytorch", "machine learning", "deep learning", "llm", "ai", "ml", "nlp"})
"""What makes a company one about AI or machine learning: two of these."""

ALIASES: Mapping[str, str] = MappingProxyType({
    "golang": "go", "js": "javascript", "ts": "typescript", "postgres": "postgresql", "k8s": "kubernetes",
    "mongo": "mongodb", "csharp": "c#", "node": "node.js", "nodejs": "node.js", "reactjs": "react",
    "vue.js": "vue", "google cloud": "gcp", "amazon web services": "aws", "ruby on rails": "rails",
})  # fmt: skip


def plain_name(name: str) -> str:
    """The name under which a technology is known here: `Golang` is `go`."""
    folded = " ".join(name.casefold().split())
    return ALIASES.get(folded, folded)


@lru_cache(maxsize=256)
def technologies_in(text: str, besides: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The technologies that a text names, by name; those of a profile besides, which may be any words."""
    folded = text.casefold()
    likely = [name for name, one in _ANY_CASE.items() if any(word in folded for word in one[1:])]
    likely += [name for name, one in _AS_WRITTEN.items() if any(word in text for word in one[1:])]
    found = [name for name in likely if _PATTERNS[name].search(text)]
    found += [name for name, one in _IN_A_LIST.items() if name not in found and name in folded and one.search(text)]
    found += [
        name for name in besides
        if name not in _PATTERNS and _beginning(name) in folded and _own(name).search(text)
    ]  # fmt: skip
    return tuple(sorted(found))


@lru_cache(maxsize=1_000)
def _beginning(name: str) -> str:
    return re.split(r"[\s-]+", name.strip())[0].removesuffix("s").casefold()


@lru_cache(maxsize=1_000)
def _own(name: str) -> re.Pattern[str]:
    """Any words, with a space or a hyphen between them, in the singular or the plural."""
    words = [re.escape(word) for word in re.split(r"[\s-]+", name) if word]
    last = words[-1].removesuffix("s") if len(words[-1]) > _SHORT else words[-1]
    return _whole(r"[\s-]+".join([*words[:-1], last]) + (r"s?" if len(last) > _SHORT - 1 else ""), re.IGNORECASE)


_SHORT = 4
"""A word of so many letters may be a name as it stands: `aws` is no plural."""

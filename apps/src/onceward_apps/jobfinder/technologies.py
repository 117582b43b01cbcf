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
    "graphql": ("graphql", "graphql"),
    "tensorflow": ("tensorflow", "tensorflow"),
    "pytorch": ("pytorch", "pytorch"),
    "machine learning": (r"machine[\s-]+learning", "machine"),
    "deep learning": (r"deep[\s-]+learning", "deep"),
}
"""How each is written, and what of it must be there for it to be worth looking."""
_AS_WRITTEN = {
    "go": (
        r"Golang|golang|Go(?![\s-]+(?:to|for|ahead|beyond|further|through|with|live|above|on|back|big|behind)\b)",
        "Go",
        "golang",
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
    return re.compile(rf"(?<![\w.#+@])(?:{pattern})(?![\w#+]|\.\w)", flags)


_PATTERNS = {name: _whole(one[0], re.IGNORECASE) for name, one in _ANY_CASE.items()} | {
    name: _whole(one[0]) for name, one in _AS_WRITTEN.items()
}

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
    found += [name for name in besides if name not in _PATTERNS and _own(name).search(text)]
    return tuple(sorted(found))


@lru_cache(maxsize=1_000)
def _own(name: str) -> re.Pattern[str]:
    return _whole(r"\s+".join(map(re.escape, name.split())), re.IGNORECASE)

"""`python -m tests.prose`: things are not persons. Finds sentences whose subject is *nobody*, *whoever* and their like.

A task, a worker or a row is named by its noun of the glossary. An operator, a user, a person is called that.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PLACES = ("src", "apps/src", "docs", "examples", "README.md", "CONTRIBUTING.md", "apps/README.md")
EVIDENCE = ("docs/reference/bugs-found.md",)
"""Records of what was found, in the words of their time."""
QUOTED = ("nobody brings in the harvest",)
"""Words of a letter that an example searches."""
PERSONS = re.compile(r"\b(nobody|somebody|anybody|whoever|whomever)('s)?\b", re.IGNORECASE)


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """What people read in a file, with its lines: comments and docstrings of Python, comments of SQL, whole pages."""
    source = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        yield from enumerate(source.splitlines(), 1)
    elif path.suffix == ".sql":
        yield from ((number, line) for number, line in enumerate(source.splitlines(), 1) if "--" in line)
    elif path.suffix == ".py":
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.string
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield from enumerate(node.value.splitlines(), node.lineno)


def persons() -> Iterator[str]:
    """Every place where a thing is spoken of as a person."""
    for place in PLACES:
        found = ROOT / place
        for path in sorted(found.rglob("*")) if found.is_dir() else [found]:
            name = path.relative_to(ROOT).as_posix()
            if path.suffix in (".py", ".sql", ".md") and name not in EVIDENCE:
                for line, text in texts(path):
                    if (match := PERSONS.search(text)) and not any(quoted in text for quoted in QUOTED):
                        yield f"{name}:{line}: {match[0]}: {text.strip()[:100]}"


if __name__ == "__main__":
    problems = list(persons())
    for problem in problems:
        sys.stdout.write(f"{problem}\n")
    sys.exit(bool(problems))

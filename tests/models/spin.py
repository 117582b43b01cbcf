"""Models of the engine's protocols, checked by Spin: what they say must hold, and every broken twin must break.

A model is a `.pml` file. Its opening comment says what stands for what in the source, and beside that:

    larger: NAME=3 …            bounds for a longer run; the file itself has those for a short one
    breaks: NAME property  why  with this one `#define` the property no longer holds

A property is a bit that must never be set, `assert(!property)`. For a twin only the property that it must break is
looked at. A model that holds must also have reached every one of its statements: one that does nothing breaks nothing.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

FOLDER = Path(__file__).parent
_LARGER = re.compile(r"^ \* larger: (.+)$", re.M)
_BREAKS = re.compile(r"^ \* breaks: (\w+) (\w+) +(.+)$", re.M)
_ASSERTION = re.compile(r"assert\(!(\w+)\)")
_VIOLATED = re.compile(r"pan:\d+: (?:assertion violated +!\((\w+)\)|(invalid end state))")
_UNREACHED = re.compile(r'^\t\S+:(\d+), state \d+, "(?!-end-)(.*)"$', re.M)
DEEPEST = 1_000_000


@dataclass(frozen=True, slots=True)
class Twin:
    """A model with one mistake in it, and what that must break."""

    define: str
    breaks: str
    why: str


@dataclass(frozen=True, slots=True)
class Model:
    """A protocol, small enough to look at everything that can happen in it."""

    name: str
    about: str
    text: str
    larger: tuple[dict[str, int], ...]
    twins: tuple[Twin, ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a complete search has found."""

    states: int
    depth: int
    seconds: float
    violated: str | None
    unreached: list[str] = field(default_factory=list)


class SpinFailed(Exception):
    """The search did not come to its end."""


def missing() -> str | None:
    """What this machine lacks to check a model, in words; None if nothing."""
    if shutil.which("spin") is None:
        return "spin is not installed (Debian: apt-get install spin)"
    if shutil.which("cc") is None:
        return "no C compiler is installed, which spin needs"
    return None


def models() -> list[Model]:
    """All models there are."""
    return [_read(path) for path in sorted(FOLDER.glob("*.pml"))]


def _read(path: Path) -> Model:
    text = path.read_text(encoding="utf-8")
    return Model(
        path.stem,
        text.splitlines()[0].removeprefix("/* "),
        text,
        tuple(_bounds(line) for line in _LARGER.findall(text)),
        tuple(Twin(*found) for found in _BREAKS.findall(text)),
    )


def _bounds(line: str) -> dict[str, int]:
    return {name: int(value) for name, value in (word.split("=") for word in line.split())}


def check(model: Model, bounds: Mapping[str, int] | None = None) -> Outcome:
    """Look at every state of a model."""
    defines = [f"-D{name}={value}" for name, value in (bounds or {}).items()]
    # A short search is over before a compiler has made it fast; the states of a long one have to be pressed together.
    return _search(model.name, model.text, defines, ["-O2", "-DCOLLAPSE"] if bounds else ["-O0"])


def check_twin(model: Model, twin: Twin) -> Outcome:
    """Look for a state in which a twin breaks what it must."""
    text = _ASSERTION.sub(lambda found: found[0] if found[1] == twin.breaks else "skip", model.text)
    return _search(model.name, text, [f"-D{twin.define}"], ["-O0"])


def _search(name: str, text: str, defines: list[str], compiled: list[str]) -> Outcome:
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="onceward-model-") as folder:
        Path(folder, f"{name}.pml").write_text(text, encoding="utf-8")
        _run(["spin", "-a", *defines, f"{name}.pml"], folder)
        _run(["cc", "-w", "-DSAFETY", *compiled, "-o", "pan", "pan.c"], folder)
        said = _run(["./pan", f"-m{DEEPEST}"], folder)
    states = re.search(r"^ *([\d.e+]+) states, stored", said, re.M)
    depth = re.search(r"depth reached (\d+)", said)
    violated = _VIOLATED.search(said)
    if states is None or depth is None or "max search depth too small" in said or "out of memory" in said:
        raise SpinFailed(f"{name}: the search did not come to its end\n{said}")
    return Outcome(
        int(float(states[1])),
        int(depth[1]),
        time.monotonic() - began,
        None if violated is None else violated[1] or violated[2],
        [f"{name}.pml:{line} {statement}" for line, statement in _UNREACHED.findall(said)],
    )


def _run(command: list[str], folder: str) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode and command[0] != "./pan":
        raise SpinFailed(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout

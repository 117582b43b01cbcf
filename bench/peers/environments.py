"""A virtual environment for each peer, with exactly the versions that its requirements file names."""

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from bench.peers.catalogue import System

HERE = Path(__file__).resolve().parent
REQUIREMENTS = HERE / "requirements"
ENVIRONMENTS = HERE.parent / ".peers"
# Newest first; asked for by name, because only a path tells which ones a machine has.
NEWER_PYTHONS = ("python3.14", "python3.13", "python3.12")


class Missing(Exception):
    """Something that a system needs is not on this machine; the message says what, and how to get it."""


def interpreter(system: System) -> Path:
    """The Python of the system's environment: the one that runs this for those which need no packages."""
    if system.requirements is None:
        return Path(sys.executable)
    return ENVIRONMENTS / system.requirements / "bin" / "python"


def prepare(system: System, say: Callable[[str], None]) -> None:
    """Make the system's environment, or leave it as it is when it fits its requirements file."""
    if system.requirements is None:
        return
    wanted = REQUIREMENTS / f"{system.requirements}.txt"
    base = find_python(system.python)
    stamp = fingerprint(wanted.read_text(encoding="utf-8"), version_of(base))
    directory = ENVIRONMENTS / system.requirements
    mark = directory / ".installed"
    if mark.exists() and mark.read_text(encoding="utf-8") == stamp:
        return
    say(f"installing {system.requirements}")
    shutil.rmtree(directory, ignore_errors=True)
    run([base, "-m", "venv", str(directory)])
    python = str(directory / "bin" / "python")
    pip = [python, "-m", "pip", "--disable-pip-version-check", "-q"]
    run([*pip, "install", "--require-hashes", "-r", str(wanted)])
    run([python, "-m", "compileall", "-qq", str(directory / "lib")], may_fail=True)
    mark.write_text(stamp, encoding="utf-8")


def fingerprint(requirements: str, python: str) -> str:
    """Changes when another version would be installed, or for another Python; comments do not count."""
    pins = [line for line in requirements.splitlines() if not line.lstrip().startswith("#")]
    return hashlib.sha256("\n".join([*pins, python]).encode()).hexdigest()


def find_python(lowest: tuple[int, int]) -> str:
    """A Python of at least that version: this one, or another that answers to its name."""
    if sys.version_info[:2] >= lowest:
        return sys.executable
    for name in NEWER_PYTHONS:
        path = shutil.which(name)
        if path is not None and tuple(int(part) for part in name[6:].split(".")) >= lowest and version_of(path):
            return path
    raise Missing(f"needs Python {lowest[0]}.{lowest[1]} or newer; none of {', '.join(NEWER_PYTHONS)} is on the PATH")


def version_of(python: str) -> str:
    """What a Python says of itself; nothing if it is a name without a program behind it."""
    answer = subprocess.run(
        [python, "-c", "import sys; print(sys.executable, sys.version)"], capture_output=True, text=True, check=False
    )
    return answer.stdout if answer.returncode == 0 else ""


def run(command: list[str], *, may_fail: bool = False) -> None:
    """Run a command to its end; what it printed becomes the reason if it fails."""
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode != 0 and not may_fail:
        lines = (answer.stdout + answer.stderr).strip().splitlines()[-5:]
        raise Missing("could not be installed: " + " / ".join(line.strip() for line in lines))


def pinned(requirements: str) -> dict[str, str]:
    """The versions that a requirements file names, by package."""
    lines = (REQUIREMENTS / f"{requirements}.txt").read_text(encoding="utf-8").splitlines()
    pins = (line.split(" ")[0].split("==") for line in lines if "==" in line and not line.startswith((" ", "#")))
    return dict(pins)

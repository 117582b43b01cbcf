"""`python -m tests.lowest`: run all tests once with the lowest versions that pyproject.toml allows.

They are pinned in requirements-lowest.txt, which `make lock` writes from pyproject.toml and the tools of
requirements-dev.txt; `python tests/lowest.py tools` prints the latter. The environment is made in a temporary folder.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PINNED = re.compile(r"([\w.-]+)==[^\\]+")


def tools() -> Iterator[str]:
    """The tools that the tests need and the project does not ask for itself, as requirements-dev.txt pins them."""
    lines = (ROOT / "requirements-dev.in").read_text(encoding="utf-8").splitlines()
    project = "".join((ROOT / of / "pyproject.toml").read_text(encoding="utf-8") for of in (".", "apps"))
    wanted = {name for line in lines if f'"{(name := line.partition("#")[0].strip())}>=' not in project}
    for line in (ROOT / "requirements-dev.txt").read_text(encoding="utf-8").splitlines():
        if (found := PINNED.match(line)) and found[1] in wanted:
            yield found[0].strip()


def run() -> int:
    """Make the environment, run the tests in it, and return how they ended."""
    with tempfile.TemporaryDirectory(prefix="onceward-lowest-") as folder:
        venv.create(folder, with_pip=True)
        python = f"{folder}/bin/python"
        install = (python, "-m", "pip", "--disable-pip-version-check", "-qq", "install")
        subprocess.run([*install, "--require-hashes", "-r", "requirements-lowest.txt"], cwd=ROOT, check=True)
        subprocess.run([*install, "--no-deps", "--no-build-isolation", "-e", ".", "-e", "apps"], cwd=ROOT, check=True)
        tests = (python, "-m", "pytest", "-q", "-n", "2", "--dist", "loadgroup", "-m", "not torture and not alone")
        return subprocess.run(tests, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    if sys.argv[1:] == ["tools"]:
        sys.stdout.write("".join(f"{line}\n" for line in tools()))
    else:
        sys.exit(run())

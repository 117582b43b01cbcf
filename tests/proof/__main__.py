"""`python -m tests.proof`: run the long fault tests for a given time, and write docs/reference/proof.md.

What a run has counted is added to that of the runs before it, in docs/reference/proof.jsonl. A run begins with what no
run has come to yet.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from tests.nursery import ROOT
from tests.proof.courses import AGAIN, ONCE, Course
from tests.proof.page import page
from tests.proof.runs import Ran, earlier_runs, keep_runs, never_run
from tests.proof.tally import KEPT_IN, kept

PAGE = ROOT / "docs" / "reference" / "proof.md"
COURSES = (*AGAIN, *ONCE)
DEBIAN = Path(__file__).with_name("debian.txt")


@dataclass
class Run:
    """One run: since and until when it goes, where its counts are, what it has come to, and what has failed in it."""

    began: float
    until: float
    counts: Path
    page: Path
    earlier: list[Ran]
    failed: list[str] = field(default_factory=list)
    done: list[str] = field(default_factory=list)

    def left_s(self) -> float:
        """How much time is left."""
        return self.until - time.monotonic()

    def do(self, course: Course, seed: int = 1) -> None:
        """Run a course to its end, which may be after our time; unless that is over already."""
        if self.left_s() <= 0:
            return
        print(f"\n--- {course.name}   (seed {seed}, {self.left_s() / 60:.0f} min left)", flush=True)
        command = [sys.executable, *course.command]
        if subprocess.run(command, cwd=ROOT, env=self._environment(seed), check=False).returncode:
            self.failed.append(f"ONCEWARD_SEED={seed} python {' '.join(course.command)}")
        if course.name not in self.done:
            self.done.append(course.name)
        self.write()

    def write(self) -> None:
        """Write the page as things stand: whoever ends a run early has what it has come to."""
        runs = [*self.earlier, self._so_far()]
        keep_runs(self.page.with_suffix(".jsonl"), runs)
        self.page.write_text(page(runs, [course.name for course in COURSES]), encoding="utf-8")

    def _so_far(self) -> Ran:
        return Ran(
            date=f"{datetime.now(UTC):%Y-%m-%d}",
            commit=_commit(),
            minutes=round((time.monotonic() - self.began) / 60),
            machine=f"{os.cpu_count()} cores, Python {platform.python_version()}",
            courses=tuple(self.done),
            failed=tuple(self.failed),
            tallies=tuple(kept(self.counts)),
        )

    def beside(self, *command: str) -> subprocess.Popen[bytes]:
        """Run a command of this project's Python while courses run."""
        return subprocess.Popen([sys.executable, *command], cwd=ROOT, env=self._environment(1))

    def _environment(self, seed: int) -> dict[str, str]:
        return {**os.environ, KEPT_IN: str(self.counts), "ONCEWARD_SEED": str(seed)}


def main() -> int:
    """Run; 0 if all passed."""
    parser = argparse.ArgumentParser(prog="python -m tests.proof", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0, help="begin nothing after so long; 60, if not said")
    parser.add_argument("--page", type=Path, default=PAGE, help="the page to write, and the .jsonl beside it")
    parser.add_argument("--only", action="append", default=[], help="only courses with this in their names, once each")
    parser.add_argument("--fresh", action="store_true", help="forget the runs before this one")
    given = parser.parse_args()
    began = time.monotonic()
    install_what_is_missing()
    with tempfile.TemporaryDirectory(prefix="onceward-proof-") as folder:
        earlier = [] if given.fresh else earlier_runs(given.page.with_suffix(".jsonl"))
        run = Run(began, began + given.minutes * 60, Path(folder) / "counts.jsonl", given.page, earlier)
        some(run, given.only) if given.only else everything(run)
    print(f"\nwritten to {given.page}", *(f"FAILED: {command}" for command in run.failed), sep="\n")
    return 1 if run.failed else 0


def some(run: Run, named: Sequence[str]) -> None:
    """The courses with one of these words in their names, once each."""
    chosen = [course for course in COURSES if any(word in course.name for word in named)]
    if not chosen:
        sys.exit(f"no course is called that; there are: {'; '.join(course.name for course in COURSES)}")
    for course in chosen:
        run.do(course, 1 + len(run.earlier))


def everything(run: Run) -> None:
    """All courses, first those that no run has come to, then those with dice again and again. Simulated histories run
    beside them."""
    first = int(time.time()) * 1_000  # every run meets other histories
    seeds = ["--seeds", f"{first}-{first + 10**9}", "--minutes", f"{run.left_s() / 60:.1f}", "--processes", "1"]
    simulating = run.beside("-m", "tests.simulation", *seeds)
    new = never_run([course.name for course in COURSES], run.earlier)
    seed = 1 + len(run.earlier)
    for course in sorted(COURSES, key=lambda course: course.name not in new):
        run.do(course, seed)
    while run.left_s() > 0:
        seed += 1
        for course in AGAIN:
            run.do(course, seed)
    if simulating.wait():
        run.failed.append("python -m tests.simulation")
    run.write()


def install_what_is_missing() -> None:
    """The Debian programs that some faults need. Where they cannot be had, the tests that need them skip and say so."""
    wanted = [line for line in DEBIAN.read_text(encoding="utf-8").split() if line]
    lacking = [package for package in wanted if not _is_installed(package)]
    if not lacking:
        return
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        print(f"not installed, and only root can on Debian: {' '.join(lacking)}; what needs them is skipped")
        return
    quiet: Sequence[str] = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *lacking]
    if subprocess.run(quiet, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"}, check=False).returncode:
        print(f"could not be installed: {' '.join(lacking)}; what needs them is skipped")


def _is_installed(package: str) -> bool:
    if shutil.which("dpkg-query") is None:
        return False
    asked = ["dpkg-query", "-W", "-f", "${db:Status-Status}", package]
    return subprocess.run(asked, capture_output=True, text=True, check=False).stdout == "installed"


def _commit() -> str:
    asked = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return asked.stdout.strip() or "unknown"


if __name__ == "__main__":
    sys.exit(main())

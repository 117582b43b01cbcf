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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from tests.nursery import ROOT
from tests.proof.courses import AGAIN, COURSES, NAMES, SIMULATION, Course
from tests.proof.page import page
from tests.proof.runs import Ran, earlier_runs, keep_runs, never_run
from tests.proof.tally import KEPT_IN, kept

PAGE = ROOT / "docs" / "reference" / "proof.md"
DEBIAN = Path(__file__).with_name("debian.txt")


@dataclass
class Run:
    """One run: since and until when it goes, where its counts are, what it has come to, and what has failed in it."""

    began: float
    until: float
    counts: Path
    page: Path
    earlier: list[Ran]
    seed: int
    failed: list[str] = field(default_factory=list)
    done: list[str] = field(default_factory=list)

    def left_s(self) -> float:
        """How much time is left."""
        return self.until - time.monotonic()

    def do(self, course: Course) -> None:
        """Run a course to its end, which may be after our time; unless that is over already."""
        if self.left_s() <= 0:
            return
        print(f"\n--- {course.name}   (seed {self.seed}, {self.left_s() / 60:.0f} min left)", flush=True)
        command = [sys.executable, *course.command]
        if subprocess.run(command, cwd=ROOT, env=self._environment(), check=False).returncode:
            self.failed.append(f"ONCEWARD_SEED={self.seed} python {' '.join(course.command)}")
        self._has_done(course.name)

    @contextmanager
    def simulating(self) -> Iterator[None]:
        """Run simulated histories meanwhile, and until our time is over, in the time that the machine has left."""
        first = int(time.time()) * 1_000  # every run meets other histories
        seeds = ["--seeds", f"{first}-{first + 10**9}", "--minutes", f"{self.left_s() / 60:.1f}"]
        command = [sys.executable, "-m", "tests.simulation", *seeds]
        politely = partial(os.nice, 19)
        running = subprocess.Popen(command, cwd=ROOT, env=self._environment(), preexec_fn=politely)
        yield
        if running.wait():
            self.failed.append("python -m tests.simulation")
        self._has_done(SIMULATION)

    def _has_done(self, course: str) -> None:
        if course not in self.done:
            self.done.append(course)
        self.write()

    def write(self) -> None:
        """Write the page as things stand: whoever ends a run early has what it has come to."""
        runs = [*self.earlier, self._so_far()]
        keep_runs(self.page.with_suffix(".jsonl"), runs)
        self.page.write_text(page(runs, NAMES), encoding="utf-8")

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

    def _environment(self) -> dict[str, str]:
        return {**os.environ, KEPT_IN: str(self.counts), "ONCEWARD_SEED": str(self.seed)}


def main() -> int:
    """Run; 0 if all passed."""
    parser = argparse.ArgumentParser(prog="python -m tests.proof", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0, help="begin nothing after so long; 60, if not said")
    parser.add_argument("--page", type=Path, default=PAGE, help="the page to write, and the .jsonl beside it")
    parser.add_argument("--only", action="append", default=[], help="only courses with this in their names, once each")
    parser.add_argument("--fresh", action="store_true", help="forget the runs before this one")
    parser.add_argument("--seed", type=int, help="where the dice start; if not said, elsewhere than in earlier runs")
    parser.add_argument("--add", type=Path, action="append", default=[], help="only add the runs of such a .jsonl")
    given = parser.parse_args()
    if given.add:
        add(given.page, given.add)
        return 0
    began = time.monotonic()
    install_what_is_missing()
    with tempfile.TemporaryDirectory(prefix="onceward-proof-") as folder:
        earlier = [] if given.fresh else earlier_runs(given.page.with_suffix(".jsonl"))
        seed = given.seed if given.seed is not None else 1 + len(earlier)
        run = Run(began, began + given.minutes * 60, Path(folder) / "counts.jsonl", given.page, earlier, seed)
        some(run, given.only) if given.only else everything(run)
    print(f"\nwritten to {given.page}", *(f"FAILED: {command}" for command in run.failed), sep="\n")
    return 1 if run.failed else 0


def add(page_file: Path, others: Sequence[Path]) -> None:
    """Add what was run elsewhere, on another machine or beside this."""
    runs = [run for file in (page_file.with_suffix(".jsonl"), *others) for run in earlier_runs(file)]
    keep_runs(page_file.with_suffix(".jsonl"), runs)
    page_file.write_text(page(runs, NAMES), encoding="utf-8")


def some(run: Run, named: Sequence[str]) -> None:
    """The courses with one of these words in their names, once each."""
    chosen = [course for course in COURSES if any(word in course.name for word in named)]
    is_simulated = any(word in SIMULATION for word in named)
    if not chosen and not is_simulated:
        sys.exit(f"no course is called that; there are: {'; '.join(NAMES)}")
    with run.simulating() if is_simulated else nullcontext():
        for course in chosen:
            run.do(course)


def everything(run: Run) -> None:
    """All courses, first those that no run has come to, then those with dice again and again. Simulated histories run
    beside them."""
    with run.simulating():
        new = never_run(NAMES, run.earlier)
        for course in sorted(COURSES, key=lambda course: course.name not in new):
            run.do(course)
        while run.left_s() > 0:
            run.seed += 1
            for course in AGAIN:
                run.do(course)


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

"""A type checker, run once over programs that use the API rightly and wrongly, finds exactly what it should."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from mypy import api

pytestmark = pytest.mark.xdist_group("mypy")  # run once, not once in every process of the tests
HERE = Path(__file__).parent
EXPECTED = re.compile(r"# E: (.+)$")
FOUND = re.compile(r"^(?P<file>[^:]+):(?P<line>\d+): error: (?P<says>.+)$")


@pytest.fixture(scope="module")
def found() -> dict[tuple[str, int], str]:
    """What mypy says of the programs here, by file and line."""
    programs = [str(HERE / "api.py"), str(HERE / "misuse.py")]
    output, trouble, _ = api.run([*programs, "--strict", "--no-error-summary", "--no-pretty", "--hide-error-context"])
    assert not trouble
    lines = (FOUND.match(line) for line in output.splitlines())
    by_line: dict[tuple[str, int], str] = {}
    for match in lines:
        if match and Path(match["file"]).name in ("api.py", "misuse.py") and "typing" in match["file"]:
            place = Path(match["file"]).name, int(match["line"])
            by_line[place] = f"{by_line.get(place, '')} {match['says']}".strip()
    return by_line


def test_a_program_that_uses_the_api_rightly_passes(found: dict[tuple[str, int], str]) -> None:
    assert {place: says for place, says in found.items() if place[0] == "api.py"} == {}


def test_every_misuse_is_found_and_nothing_else(found: dict[tuple[str, int], str]) -> None:
    lines = (HERE / "misuse.py").read_text().splitlines()
    expected = {number: match[1] for number, line in enumerate(lines, 1) if (match := EXPECTED.search(line))}
    told = {number: says for (file, number), says in found.items() if file == "misuse.py"}
    assert len(expected) > 30
    wrong = {
        number: {"expected": expected.get(number), "found": told.get(number)}
        for number in sorted(expected.keys() | told.keys())
        if expected.get(number, "nothing") not in told.get(number, "")
    }
    assert wrong == {}

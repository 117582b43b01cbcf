"""The demo, as whoever clones the project runs it, and a smaller form of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from onceward import App
from onceward_apps.jobfinder.demo.counting import at_most, exactly

SMALLER = """
import sys
from onceward_apps.jobfinder.demo.performing import perform
from onceward_apps.jobfinder.world.web import Size

sys.exit(perform(as_json=AS_JSON, size=Size(companies=14, listings=60)))
"""


def performed(tmp_path: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run it in an empty folder."""
    return subprocess.run(
        [sys.executable, *command],
        env={**os.environ, "TMPDIR": str(tmp_path), "COLUMNS": "100"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def judge(answer: subprocess.CompletedProcess[str], tmp_path: Path) -> dict[str, Any]:
    """Every promise holds, by its own account and by another look at what it leaves behind."""
    assert answer.returncode == 0, answer.stdout + answer.stderr
    document: dict[str, Any] = json.loads(answer.stdout)
    assert [line for line in document["balance"] if not line["ok"]] == []
    assert document["ok"]
    assert document["verify"]["ok"]
    assert {one["rule"]: one["count"] for one in document["refused"]} == {"limit": 9_850, "cycle": 2}
    assert document["limits"]["max_children"] == 150
    assert document["disabled"] == ["workday:crumbling-arch/wd5/careers"]
    assert document["killed"]["taken_back"] > 0
    assert f"(pid {document['killed']['pid']}) with SIGKILL" in answer.stderr
    scores = [match["score"] for match in document["matches"]]
    assert scores == sorted(scores, reverse=True)
    assert all(match["why"] for match in document["matches"])
    database = Path(document["database"])
    assert database.is_relative_to(tmp_path)
    with App(f"sqlite:///{database}") as app:
        assert app.verify().ok
    return document


def test_a_smaller_demo_keeps_every_promise(tmp_path: Path) -> None:
    document = judge(performed(tmp_path, "-c", SMALLER.replace("AS_JSON", "True")), tmp_path)
    assert len(document["matches"]) > 0


@pytest.mark.torture
def test_the_demo_keeps_every_promise_and_shows_matches_refusals_and_what_the_kill_cost(tmp_path: Path) -> None:
    answer = performed(tmp_path, "-m", "onceward_apps.jobfinder", "demo")
    assert answer.returncode == 0, answer.stdout + answer.stderr
    for words in (
        "The best matches, and why", "+60 it names python", "max_children is 150", "a way back", "The kill",
        "failed 5 times in a row", "nothing was lost, nothing is there twice", "onceward-jobs matches --db",
    ):  # fmt: skip
        assert words in answer.stdout
    assert "OFF" not in answer.stdout


@pytest.mark.torture
def test_the_demo_as_a_document_keeps_every_promise(tmp_path: Path) -> None:
    document = judge(performed(tmp_path, "-m", "onceward_apps.jobfinder", "demo", "--json"), tmp_path)
    assert len(document["matches"]) > 20


def test_a_promise_that_does_not_hold_is_off() -> None:
    assert exactly("rows", 3, 3).ok
    assert not exactly("rows", 3, 4).ok
    assert at_most("pages", 3, 2).ok
    assert not at_most("pages", 3, 4).ok

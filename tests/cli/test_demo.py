"""The demo, as whoever clones the project runs it."""

from __future__ import annotations

from pathlib import Path

from onceward import App
from tests.cli.conftest import Ask


def test_the_demo_loses_a_worker_and_nothing_else(tmp_path: Path, command: Ask) -> None:
    answer = command("demo", "--json", TMPDIR=str(tmp_path))

    document = answer.document
    assert answer.code == 0, answer.err
    assert document["ok"]
    assert [line["what"] for line in document["balance"] if not line["ok"]] == []
    assert document["verify"]["ok"]
    assert f"(pid {document['killed']['pid']}) with SIGKILL, it was running" in answer.err
    assert Path(document["database"].removeprefix("sqlite:///")).is_relative_to(tmp_path)
    again = App(document["database"]).verify()
    assert (again.ok, again.tasks) == (True, 300)

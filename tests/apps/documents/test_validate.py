"""`onceward-docs validate`: the five scenarios, for real."""

from __future__ import annotations

import json

import pytest

from onceward_apps.documents.cli import main


@pytest.mark.torture
def test_all_scenarios_hold(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["validate", "--json"])

    results = json.loads(capsys.readouterr().out)
    assert [one["scenario"] for one in results if not one["ok"]] == []
    assert len(results) == 6
    assert code == 0

"""The benchmark itself runs, and loses nothing: every job of it ran exactly once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.measures import MEASURES
from bench.plan import STORES

ROOT = Path(__file__).resolve().parents[2]


def test_a_few_workloads_run_and_every_job_once(tmp_path: Path) -> None:
    found = _run(tmp_path, "--store", "sqlite", "--work", "workflows,kinds")
    measured = {sample["measure"] for sample in found["samples"]}
    assert {"workflows", "kind-plain", "blocking-share", "governed-share", "spawned-share"} <= measured
    assert {sample["side"] for sample in found["samples"]} == {"floor", "engine"}


@pytest.mark.torture
@pytest.mark.timeout(600)
def test_every_workload_runs_on_both_stores_and_every_job_once(tmp_path: Path) -> None:
    found = _run(tmp_path)
    measured = {(sample["store"], sample["measure"]) for sample in found["samples"]}
    only = {"snapshot": "postgres", "reader": "sqlite", "slow": "postgres"}
    for name in MEASURES:
        for store in STORES:
            if only.get(name.split("-")[0], store) == store:
                assert (store, name) in measured


def _run(scratch: Path, *options: str) -> dict[str, Any]:
    """A quick run; it says itself whether a job was lost or ran twice."""
    file = scratch / "results.json"
    command = [sys.executable, "-m", "bench", "--quick", "--json", str(file), *options]
    done = subprocess.run(command, cwd=ROOT, env=dict(os.environ), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4_000:] + done.stderr[-4_000:]
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    assert found["sound"]
    assert not found["is_full"]
    return found

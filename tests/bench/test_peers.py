"""What the comparison with other queues counts, cuts off and says; none of it needs a peer installed."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bench.peers import chart, environments, measuring, redis, report, runner
from bench.peers.__main__ import parser, stem_of, systems_of
from bench.peers.catalogue import BACKENDS, BY_NAME, OURS, SYSTEMS, System, ours
from bench.peers.findings import MEASURES, Count, Failure, Findings, Outcome, Sample, Value, rate
from bench.peers.measuring import PARTS, Subject
from bench.peers.plan import FULL, QUICK, WORKS
from bench.processes import BenchError
from bench.runlog import RECORD, Run, Tally
from bench.servers import Scratch
from bench.target import Target

SECOND = 1_000_000_000
ADAPTERS = Path(measuring.__file__).parent / "adapters"
NOTHING_LEFT = Tally(expected=10, once=10, twice=0, never=0, unknown=0)
SOME_LEFT = Tally(expected=10, once=7, twice=0, never=3, unknown=0)


def test_a_whole_backlog_is_timed_from_the_first_start_to_the_last() -> None:
    runs = [Run(number, number * SECOND // 10) for number in range(11)]
    assert rate(runs, 5.0, capped=False) == Value(10.0)


def test_a_capped_backlog_counts_what_started_by_the_cap() -> None:
    runs = [Run(number, number * SECOND // 10) for number in range(100)]
    assert rate(runs, 2.0, capped=True) == Value(10.5, capped=True)


def test_a_backlog_of_which_nothing_ran_has_no_rate() -> None:
    assert rate([], 5.0, capped=False) == Value(0.0)


def test_what_stands_still_before_the_cap_is_lost_and_what_moves_is_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measuring, "MOVING_SECONDS", 0.0)
    monkeypatch.setattr(measuring, "STALL_SECONDS", 0.05)
    subject = Subject(BY_NAME["huey"], Target("engine", "sqlite", "", tmp_path / "some.runs"))
    subject.target.log.write_bytes(RECORD.pack(0, 1))
    with subprocess.Popen(["sleep", "60"]) as idle:
        assert not measuring.await_rest(subject, 2, [idle], cap_seconds=0.01)
        monkeypatch.setattr(measuring, "MOVING_SECONDS", 60.0)
        assert measuring.await_rest(subject, 2, [idle], cap_seconds=0.01)
        assert not measuring.await_rest(subject, 1, [idle], cap_seconds=0.01)
        idle.kill()


def test_only_a_cap_excuses_jobs_that_did_not_run() -> None:
    assert Outcome({}, SOME_LEFT, capped=True).sound
    assert not Outcome({}, SOME_LEFT, capped=False).sound
    assert not Outcome({}, Tally(expected=2, once=1, twice=1, never=0, unknown=0), capped=True).sound


def test_jobs_left_at_the_cap_are_counted_apart_from_those_never_run() -> None:
    counted = _findings(
        counts=[_count("huey", SOME_LEFT, capped=True), _count("huey", SOME_LEFT, capped=False)]
    ).counted(BY_NAME["huey"])
    assert (counted.expected, counted.once, counted.left_at_cap, counted.never) == (20, 14, 3, 3)


def test_a_loss_of_ours_is_an_error_and_a_loss_of_a_peer_a_finding() -> None:
    peer = _findings(counts=[_count("huey", SOME_LEFT, capped=False)])
    assert peer.sound
    assert any("Huey on SQLite: 0 jobs ran more than once, 3 never" in line for line in report.remarks(peer, FULL))
    assert not _findings(counts=[_count("onceward-sqlite", SOME_LEFT, capped=False)]).sound
    assert not _findings(failures=[Failure("huey", "latency", 1, "it did not start")]).sound


def test_figures_are_medians_with_their_range() -> None:
    found = _findings(_rounds("huey", "drain-1", 4_000.0, 1_000.0, 3_000.0)).spread("huey", "drain-1")
    assert found is not None
    assert (found.median, found.low, found.high) == (3_000.0, 1_000.0, 4_000.0)


def test_ours_is_compared_with_a_peer_in_the_same_round() -> None:
    samples = [*_rounds("onceward-sqlite", "drain-1", 100.0, 10.0), *_rounds("huey", "drain-1", 10.0, 1.0, 50.0)]
    found = _findings(samples).times_as_fast("huey", "drain-1")
    assert found is not None
    assert (found.median, found.low, found.high) == (10.0, 10.0, 10.0)


def test_less_latency_is_faster_and_redis_is_compared_with_postgres() -> None:
    samples = [*_rounds("onceward-postgres", "latency-p50", 2.0), *_rounds("celery", "latency-p50", 6.0)]
    found = _findings(samples).times_as_fast("celery", "latency-p50")
    assert found is not None
    assert found.median == 3.0


def test_the_report_says_what_was_capped_skipped_missing_and_not_durable() -> None:
    findings = _findings(
        [
            *_rounds("onceward-sqlite", "drain-1", 30_000.0),
            *_rounds("huey", "drain-1", 3_000.0),
            Sample("dbos-sqlite", "drain-1", 1, Value(500.0, capped=True), 5_000.0),
            *_rounds("onceward-postgres", "drain-1", 20_000.0),
            *_rounds("celery", "drain-1", 1_000.0),
        ],
        counts=[_count("huey", NOTHING_LEFT, capped=False)],
        failures=[Failure("celery", "latency", 1, "no job ran\n/somewhere/here")],
        skipped={"oban": "needs Python 3.12"},
    )
    page = report.markdown(findings, FULL, {"cores": "2"}, "2026-01-02", "2026-01-02-peers.svg")
    assert "| DBOS | 500 c |" in page
    assert "| Huey | 10.0 |" in page
    assert "| Celery | 20.0 |" in page
    assert "- c: cut off 5 s after the first start" in page
    assert "- skipped: oban needs Python 3.12" in page
    assert "not durable in the sense of the others" in page
    assert "- not measured: celery, latency, round 1: no job ran\n" in page
    assert "/somewhere/here" not in page
    assert "/somewhere/here" not in json.dumps(report.document(findings, FULL, {}, "2026-01-02"))
    assert all(system.configuration in page for system in findings.systems)


def test_what_a_system_does_not_offer_is_not_called_unmeasured() -> None:
    findings = _findings(_rounds("onceward-sqlite", "workflows", 9_000.0))
    cells = {row[0].text: row[1].text for row in next(report.grids(findings)).rows}
    assert cells["Huey"] == report.NOT_OFFERED
    assert cells["DBOS"] == report.NOT_TAKEN


def test_the_chart_draws_one_bar_for_each_figure() -> None:
    samples = [*_rounds("onceward-sqlite", "drain-1", 30_000.0), *_rounds("huey", "drain-1", 3_000.0)]
    drawn = chart.svg(_findings(samples))
    root = ElementTree.fromstring(drawn)
    widths = [float(bar.attrib["width"]) for bar in root.iter("{http://www.w3.org/2000/svg}rect")]
    assert len(widths) == 2
    assert widths[0] > widths[1] > 0
    assert "prefers-color-scheme: dark" in drawn


@pytest.mark.torture
def test_floor_and_engine_pass_every_measurement_through_their_adapter() -> None:
    systems = ours("sqlite")
    with Scratch(None) as scratch:
        findings = runner.run(scratch, QUICK, systems=systems, works=WORKS, skipped={}, say=lambda news: None)
    assert findings.failures == ()
    assert findings.sound
    for system in systems:
        assert all(findings.spread(system.name, measure) for measure in report.SPEEDS), system.name
        counted = findings.counted(system)
        assert counted.once + counted.left_at_cap == counted.expected > QUICK.jobs


def test_every_work_has_a_measurement_and_every_measure_a_table() -> None:
    assert {work for part in PARTS for work in part.works} == set(WORKS)
    assert {*report.SPEEDS, *report.COSTS} == set(MEASURES)
    assert set(chart.PANELS) <= set(MEASURES)


def test_asking_for_a_peer_brings_what_it_is_compared_with() -> None:
    names = [system.name for system in systems_of(parser().parse_args(["--peers", "celery"]))]
    assert names == ["floor-postgres", "onceward-postgres", "celery"]
    assert systems_of(parser().parse_args([])) == SYSTEMS


def test_a_saved_part_does_not_take_the_place_of_a_whole_run() -> None:
    def stem(*options: str) -> str:
        return stem_of(parser().parse_args(options), "2026-01-02")

    assert stem() == "2026-01-02-peers"
    assert stem("--rounds", "1") == stem("--peers", "huey") == stem("--work", "drain") == "2026-01-02-peers-part"
    assert stem("--quick") == "2026-01-02-peers-quick"


def test_every_backend_has_ours_and_every_system_says_how_it_is_set() -> None:
    assert set(OURS) == set(BACKENDS)
    for system in SYSTEMS:
        assert len(system.configuration) > 10, system.name
        assert "\n" not in system.configuration
        assert system.requirements is None or system.package in environments.pinned(system.requirements)


@pytest.mark.parametrize("name", sorted({system.adapter for system in SYSTEMS}))
def test_every_adapter_says_what_it_sets_up(name: str) -> None:
    tree = ast.parse((ADAPTERS / f"{name}.py").read_text(encoding="utf-8"))
    documented = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == "Peer"]
    assert ast.get_docstring(tree)
    assert documented
    assert ast.get_docstring(documented[0])


def test_no_adapter_is_left_over() -> None:
    assert {path.stem for path in ADAPTERS.glob("*.py")} == {"__init__", *(system.adapter for system in SYSTEMS)}


@pytest.mark.parametrize("name", sorted({system.requirements for system in SYSTEMS if system.requirements}))
def test_requirements_are_pinned_and_hashed_and_name_no_address(name: str) -> None:
    text = (environments.REQUIREMENTS / f"{name}.txt").read_text(encoding="utf-8")
    assert "://" not in text
    packages = re.split(r"\n(?=[a-zA-Z])", re.sub(r"(?m)^#.*\n", "", text).strip())
    for package in packages:
        assert re.match(r"[a-zA-Z0-9._-]+==[^ ]+ ", package), package
        assert "--hash=sha256:" in package, package
    assert (environments.REQUIREMENTS / f"{name}.in").exists()


def test_an_environment_is_made_anew_only_when_its_pins_or_its_python_change() -> None:
    first = environments.fingerprint("a==1 \\\n    # via b\n", "3.11")
    assert environments.fingerprint("# other words\na==1 \\\n", "3.11") == first
    assert environments.fingerprint("a==2 \\\n", "3.11") != first
    assert environments.fingerprint("a==1 \\\n", "3.12") != first


def test_a_python_that_does_not_answer_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shim = tmp_path / environments.NEWER_PYTHONS[0]
    shim.write_text("#!/bin/sh\nexit 127\n")
    shim.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "version_info", (3, 11, 0))
    with pytest.raises(environments.Missing, match=r"needs Python 3\.12"):
        environments.find_python((3, 12))
    shim.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    assert environments.find_python((3, 12)) == str(shim)


def test_without_a_redis_server_its_systems_are_skipped_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    able, skipped = runner.ready((BY_NAME["onceward-postgres"], BY_NAME["celery"]), print)
    assert able == (BY_NAME["onceward-postgres"],)
    assert "needs redis-server" in skipped["celery"]


def test_a_redis_server_that_never_answers_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis, "START_SECONDS", 0.05)
    silent = tmp_path / "redis-server"
    silent.write_text("#!/bin/sh\nexec sleep 60\n")
    silent.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises(BenchError, match="did not answer"), redis.serve(tmp_path / "data"):
        pass
    assert not (tmp_path / "data").exists()


def _rounds(system: str, measure: str, *values: float) -> list[Sample]:
    return [Sample(system, measure, number, Value(value), 5_000.0) for number, value in enumerate(values, 1)]


def _count(system: str, tally: Tally, *, capped: bool) -> Count:
    return Count(system, "backlog", 1, tally, capped)


def _findings(
    samples: list[Sample] | None = None,
    counts: list[Count] | None = None,
    failures: list[Failure] | None = None,
    skipped: dict[str, str] | None = None,
) -> Findings:
    systems: tuple[System, ...] = tuple(system for system in SYSTEMS if system.name not in (skipped or {}))
    return Findings(systems, tuple(samples or ()), tuple(counts or ()), tuple(failures or ()), skipped or {})

"""The examples of `examples/loops`: each multiplies on the naive queue beside it, and ends by itself on Onceward."""

from __future__ import annotations

import importlib
import subprocess
from pathlib import Path
from typing import Any

import pytest

from onceward import App, Status
from tests.nursery import nursery

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "loops"
NAMES = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem not in ("naive", "account"))


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    """An empty database, once of each kind."""
    given: str = request.getfixturevalue(f"{request.param}_url")
    return given


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Imports an example as a script finds its neighbours: by their names alone."""
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module


def assert_verified(url: str) -> None:
    app = App(url)
    breaches = [breach.sentence for check in app.verify().checks for breach in check.breaches]
    app.close()
    assert breaches == []


def statuses(account: Any) -> list[tuple[str, str]]:
    return [(task.kind, task.status.word) for task in account.tasks]


def test_a_failed_child_does_not_send_its_parent_round_again(url: str, example: Any) -> None:
    direct_loop = example("direct_loop")
    naive = direct_loop.on_naive_queue(stop_after=400)
    assert (naive.stopped, naive.ran, naive.made) == (True, 400, 401)

    account = direct_loop.on_onceward(url)
    assert statuses(account) == [("job", "succeeded"), ("company", "failed")]
    job, company = account.tasks
    assert account.rules == ["cycle"]
    assert (account.refusals[0].task, f"task {job.id}" in account.refusals[0].reason) == (company.id, True)
    assert job.result("look_again") == "went on without its company: failed, the site has no data"
    assert_verified(url)


def test_a_circle_of_needs_is_refused_where_it_would_close(url: str, example: Any) -> None:
    circular = example("circular_dependency")
    naive = circular.on_naive_queue(stop_after=400)
    assert (naive.stopped, naive.by_kind) == (True, {"job": 1, "company": 200, "board": 200})

    account = circular.on_onceward(url)
    assert statuses(account) == [("job", "succeeded"), ("company", "succeeded"), ("board", "succeeded")]
    _, company, board = account.tasks
    assert account.rules == ["cycle"]
    assert (account.refusals[0].task, f"task {company.id}" in account.refusals[0].reason) == (board.id, True)
    assert board.result("find_postings") == "refused"
    assert_verified(url)


def test_three_lineages_share_one_child(url: str, example: Any) -> None:
    duplicate = example("duplicate_spawning")
    assert duplicate.on_naive_queue().by_kind == {"job": 3, "company": 3}

    account = duplicate.on_onceward(url)
    assert account.by_kind == {"job": 3, "company": 1}
    assert {task.status for task in account.tasks} == {Status.SUCCEEDED}
    [company] = account.of_kind("company")
    assert [task.result("save") for task in account.of_kind("job")] == [company.id] * 3
    assert account.rules == [], "who comes late from another lineage is linked, not refused"
    assert_verified(url)


def test_a_failure_makes_no_copy_of_itself(url: str, example: Any) -> None:
    storm = example("retry_storm")
    naive = storm.on_naive_queue(stop_after=400)
    assert (naive.stopped, naive.made, naive.waiting) == (True, 401, 401), "two of every one"

    account = storm.on_onceward(url)
    assert statuses(account) == [("upload", "failed"), ("quiet upload", "succeeded")]
    failed, quiet = account.tasks
    assert failed.reason.startswith("failed after 3 retries: ConnectionError")
    assert failed.failures == 3
    assert account.rules == ["cycle"]
    assert (account.refusals[0].task, "itself" in account.refusals[0].reason) == (quiet.id, True)
    assert_verified(url)


def test_an_ancestor_is_not_spawned_again(url: str, example: Any) -> None:
    ancestor = example("spawning_an_ancestor")
    assert ancestor.on_naive_queue(stop_after=400).stopped

    account = ancestor.on_onceward(url)
    assert account.by_kind == {"job": 1, "company": 1}
    job, company = account.tasks
    assert (job.result("read"), company.result("scrape")) == (True, "cycle")
    assert account.rules == ["cycle"]
    assert_verified(url)


def test_a_chain_ends_at_the_largest_depth(url: str, example: Any) -> None:
    deep = example("too_deep")
    assert deep.on_naive_queue(stop_after=400).made == 401

    account = deep.on_onceward(url)
    assert [task.depth for task in account.tasks] == list(range(deep.DEEPEST + 1))
    assert account.rules == ["depth"]
    assert str(deep.DEEPEST) in account.refusals[0].reason
    assert_verified(url)


def test_a_lineage_does_the_same_work_once(url: str, example: Any) -> None:
    same = example("same_work_twice")
    assert same.on_naive_queue().by_kind == {"search": 1, "job": 3, "company": 3}

    account = same.on_onceward(url)
    assert account.by_kind == {"search": 1, "job": 3, "company": 1}
    [company] = account.of_kind("company")
    # Of two that ask at once, the second may come when the company is still there, or when it has just ended.
    assert len(account.rules) == 2
    assert account.rules[0] in ("duplicate", "done")
    assert account.rules[1] == "done"
    assert all(f"task {company.id}" in refusal.reason for refusal in account.refusals)
    assert [task.result("save") for task in account.of_kind("job")].count("succeeded") >= 1
    assert_verified(url)


def test_every_example_tells_its_story(tmp_path: Path) -> None:
    started = {
        name: nursery().start(
            ["python", str(FOLDER / f"{name}.py")], folder=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        for name in NAMES
    }
    said = {name: process.communicate(timeout=60)[0] for name, process in started.items()}
    assert {name: process.returncode for name, process in started.items()} == dict.fromkeys(NAMES, 0), said
    assert len(said) == 7
    for text in said.values():
        assert "A naive queue: " in text
        assert "Onceward: ended by itself" in text
        assert "Traceback" not in text
        assert "refused by the rule" in text or "was handed the outcome of" in text
    assert list(tmp_path.iterdir()) == [], "an example leaves nothing behind"


def test_the_readme_names_every_example() -> None:
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert [name for name in NAMES if f"`{name}.py`" not in text] == []

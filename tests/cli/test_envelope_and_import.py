"""`onceward envelope` and `onceward import`: what they say, what they do, and how they end."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from onceward import App
from tests.cli.conftest import Ask

SHOP = "tests.cli.shop:app"


def test_the_envelope_is_a_table_with_a_row_for_every_pipeline(ask: Ask) -> None:
    answer = ask("envelope", SHOP)

    assert (answer.code, answer.err) == (0, "")
    header, order, whole, *_ = answer.out.splitlines()
    assert " ".join(header.split()) == "a root of stages retries attempts a task tasks attempts polls"
    assert order.split() == ["order", "2", "1", "8", "10,000", "80,000", "unbounded"]
    assert whole.split() == ["any", "kind", "10,000", "80,000", "unbounded"]
    assert "one root makes at most 10,000 tasks, because of max_tasks" in answer.out


def test_a_bound_that_it_passes_is_code_1_with_the_reason(ask: Ask) -> None:
    kept = ask("envelope", SHOP, "--max-tasks-per-root", 10_000)
    broken = ask("envelope", SHOP, "--max-tasks-per-root", 9_999)

    assert (kept.code, kept.err) == (0, "")
    assert broken.code == 1
    assert broken.out == kept.out
    assert "one root makes at most 10,000 tasks" in broken.err
    assert "allowed are 9,999" in broken.err
    assert broken.err.count("\n") == 1


def test_the_envelope_as_json_has_stable_keys(ask: Ask) -> None:
    document = ask("envelope", SHOP, "--json", "--max-tasks-per-root", 5).document

    assert {key: document[key] for key in ("tasks", "attempts", "polls", "max_tasks_per_root", "ok", "bounded_by")} == {
        "tasks": 10_000, "attempts": 80_000, "polls": "unbounded", "max_tasks_per_root": 5, "ok": False,
        "bounded_by": "max_tasks",
    }  # fmt: skip
    assert document["pipelines"] == [
        {
            "kind": "order", "stages": 2, "retries": 1, "lost_workers": 3, "attempts_per_task": 8, "tasks": 10_000,
            "attempts": 80_000,
        }
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("declared", "bound", "code", "says"),
    [
        ("source=Source('web')", ("--max-calls-per-hour", "252000", "--ticks-only"), 0, ""),
        (
            "source=Source('web')",
            ("--max-calls-per-hour", "251999", "--ticks-only"),
            1,
            "252,000 calls, because of",
        ),
        ("source=Source('web')", ("--max-calls-per-hour", "252000"), 1, "unbounded: rate= of source 'web'"),
        ("source=Source('web')", ("--max-tasks-per-root", "10000"), 0, ""),
        ("source=Source('web', rate='1/min')", ("--max-calls-per-hour", "252000"), 0, ""),
        ("source=Source('web')", ("--max-usd-per-hour", "9"), 1, "unbounded: the cost of a call is not declared"),
        ("source=Source('web'), budget=Budget('b', 9), estimate=1", ("--max-usd-per-hour", "9"), 0, ""),
        ("calls=lambda note: 3", ("--max-calls-per-hour", "9", "--ticks-only"), 1, "a number instead of a function as"),
    ],
)
def test_a_bound_fails_where_its_own_quantity_is_unbounded(
    ask: Ask, tmp_path: Path, declared: str, bound: tuple[str, ...], code: int, says: str
) -> None:
    app = tmp_path / "bounded.py"
    app.write_text(
        "from onceward import App, Budget, Pipeline, Payload, Source\n"
        "class Note(Payload, kind='note'):\n    text: str\n"
        "note = Pipeline(Note)\n"
        f"@note.stage({declared})\ndef read(ctx) -> None: ...\n"
        "app = App('sqlite:///:memory:', [note])\n"
    )
    answer = ask("envelope", f"{app}:app", *bound)
    assert (answer.code, says in answer.err) == (code, True), answer.err
    assert "an hour of workers can make" in answer.out


def test_the_envelope_follows_the_configuration_and_needs_no_database(
    ask: Ask, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ONCEWARD_MAX_TASKS", "30")
    app = tmp_path / "tiny.py"
    app.write_text(
        "from onceward import App, Pipeline, Payload\n"
        "class Note(Payload, kind='note'):\n    text: str\n"
        "note = Pipeline(Note)\n"
        "@note.stage\ndef read(ctx) -> None: ...\n"
        "app = App('postgresql://nobody@127.0.0.1:1/nothing', [note])\n"
    )

    assert ask("envelope", f"{app}:app", "--json").document["tasks"] == 30


def items(folder: Path, *lines: Any) -> Path:
    file = folder / "items.jsonl"
    file.write_text("".join(f"{one if isinstance(one, str) else json.dumps(one)}\n" for one in lines), encoding="utf-8")
    return file


def test_items_are_imported_once(app: App, ask: Ask, tmp_path: Path) -> None:
    file = items(tmp_path, {"id": 1, "item": "a"}, {"id": 2, "item": "b", "status": "SUCCESS"}, {"id": 3, "item": "c"})
    command = ("import", file, "--kind", "order", "--app", SHOP, "--db", app.url)

    first, second = ask(*command), ask(*command)

    assert (first.code, first.err) == (0, "")
    assert first.out == "imported 3 of 3 lines: 2 pending, 1 succeeded\n"
    assert (second.code, second.out) == (0, "imported 0 of 3 lines\n3 were there already\n")
    assert {task.key: task.status.word for task in app.tasks.list()} == {
        "item/a": "pending", "item/b": "succeeded", "item/c": "pending",
    }  # fmt: skip
    assert ask("verify", "--db", app.url).code == 0


def test_a_line_that_does_not_parse_is_named_and_the_rest_is_imported(app: App, ask: Ask, tmp_path: Path) -> None:
    file = items(tmp_path, {"item": "a"}, "{not json", {"item": 7}, {"item": "b"})

    answer = ask("import", file, "--kind", "order", "--app", SHOP, "--db", app.url)

    assert answer.code == 1
    told = answer.err.splitlines()
    assert [line.split(": ")[:2] for line in told] == [["onceward", f"{file}:2"], ["onceward", f"{file}:3"]]
    assert "it is not JSON" in told[0]
    assert "it is no Order: Expected `str`, got `int`" in told[1]
    assert answer.out == "imported 2 of 4 lines: 2 pending\n2 could not be read\n"
    document = ask("import", file, "--kind", "order", "--app", SHOP, "--db", app.url, "--json").document
    assert [one["line"] for one in document.pop("problems")] == [2, 3]
    assert document == {"lines": 4, "imported": 0, "created": {}, "existing": 2, "bad": 2}


def test_fields_and_words_are_mapped(app: App, ask: Ask, tmp_path: Path) -> None:
    file = items(tmp_path, {"type": "order", "what": {"name": "a"}, "state": "shelved"}, {"type": "order", "fate": "x"})

    answer = ask(
        "import", file, "--map", "kind=type,item=what.name", "--map", "status=state", "--status", "shelved=skipped",
        "--app", SHOP, "--db", app.url, "--json",
    )  # fmt: skip

    assert answer.code == 1
    assert (answer.document["created"], answer.document["bad"]) == ({"skipped": 1}, 1)
    assert [task.key for task in app.tasks.list()] == ["item/a"]


def test_the_standard_input_is_a_file_too(app: App, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"item": "a"}\n{"item": "b"}')))

    answer = ask("import", "-", "--kind", "order", "--name", "old shop", "--app", SHOP, "--db", app.url)

    assert answer.out == "imported 2 of 2 lines: 2 pending\n"


WRONG = {
    "no such file": (["import", "nowhere.jsonl", "--kind", "order", "--app", SHOP], "nowhere.jsonl cannot be read"),
    "no code": (["import", "-", "--kind", "order"], "give --app module:app"),
    "unknown kind": (["import", "-", "--kind", "poem", "--app", SHOP], "no pipeline handles kind 'poem'"),
    "no pair": (["import", "-", "--kind", "order", "--map", "item", "--app", SHOP], "--map item: say it as left=right"),
    "no such field": (["import", "-", "--kind", "order", "--map", "a=b", "--app", SHOP], "nothing is called a here"),
    "no such status": (["import", "-", "--status", "a=b", "--app", SHOP], "'b' is no status"),
}


@pytest.mark.parametrize(("arguments", "said"), WRONG.values(), ids=WRONG)
def test_what_cannot_be_meant_is_code_2(
    arguments: list[str], said: str, sqlite_url: str, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    ask("migrate", "--db", sqlite_url)

    answer = ask(*arguments, "--db", sqlite_url)

    assert (answer.code, answer.out) == (2, "")
    assert said in answer.err


@pytest.mark.parametrize("name", ["envelope", "import"])
def test_they_have_help_with_an_example(name: str, ask: Ask) -> None:
    answer = ask(name, "--help")
    assert answer.code == 0
    assert f"\nExample\n  onceward {name}" in answer.out
    assert "--json" in answer.out

"""What `onceward batches` shows, on both databases."""

from __future__ import annotations

from onceward import App
from tests.cli import shop
from tests.cli.conftest import Ask


def test_batches_lists_the_newest_first_with_their_counts(app: App, ask: Ask) -> None:
    with app.batch("night", then=shop.Order("after")) as batch:
        batch.add(shop.Order("one"))
        batch.add(shop.Order("two"))
    with app.batch("nothing", deadline="2d"):
        pass
    app.tasks.cancel(batch.tasks[0])

    found = ask("batches", "--json", "--db", app.url).document["batches"]

    assert [(one["name"], one["status"]) for one in found] == [("nothing", "succeeded"), ("night", "open")]
    night = found[1]
    assert (night["total"], night["open"], night["done"], night["progress"], night["cancelled"]) == (2, 1, 1, 0.5, 1)
    assert (night["then"], night["ended_at"]) == (None, None)
    assert night["deadline"] is not None, "what the settings say"
    assert found[0]["deadline"] > found[0]["created_at"]
    header, *lines = ask("batches", "--db", app.url).out.splitlines()
    assert header.split() == [
        "name", "status", "done", "of", "%", "ok", "failed", "cancelled", "created", "left", "deadline", "ended",
        "then", "why",
    ]  # fmt: skip
    assert lines[1].split()[:8] == ["night", "open", "1", "2", "50", "0", "0", "1"]
    app.tasks.cancel(batch.tasks[1])
    assert [
        one["name"] for one in ask("batches", "--status", "failed", "--json", "--db", app.url).document["batches"]
    ] == ["night"]


def test_batches_says_when_there_is_none(app: App, ask: Ask) -> None:
    answer = ask("batches", "--db", app.url)
    assert (answer.code, answer.out) == (0, "no batch\n")
    assert "no such batch" in ask("batches", "--status", "open", "--db", app.url).out
    assert ask("batches", "--status", "done", "--db", app.url).code == 2

"""`onceward alerts`, on both databases."""

from __future__ import annotations

import pytest

from onceward import App, Watch
from tests.cli.conftest import Ask

WATCH = Watch("parcels [bold]lost[/bold]", "SELECT 3, 'post', '[4, 5]'", above=2, advice="Ask the post office.")


@pytest.fixture
def troubled(app: App) -> App:
    """A database in which a watch of the application has found something."""
    watching = App(app.url, watches=[WATCH])
    watching.alerts.look()
    watching.close()
    return app


def test_no_alerts(app: App, ask: Ask) -> None:
    answer = ask("alerts", "--exit-code", "--db", app.url)

    assert (answer.code, answer.out) == (0, "no alerts\n")


def test_an_alert_says_what_is_wrong_and_what_to_do(troubled: App, ask: Ask) -> None:
    answer = ask("alerts", "--db", troubled.url)

    assert answer.code == 0
    first, *rest = [line.rstrip() for line in answer.out.splitlines()]
    assert first.startswith("parcels [bold]lost[/bold]  post  for ")
    assert rest == [
        "  parcels [bold]lost[/bold] for post is 3, above 2",
        "  Ask the post office.",
        "  tasks 4, 5",
    ]


def test_scripts_can_ask_for_an_exit_code(troubled: App, ask: Ask) -> None:
    assert ask("alerts", "--exit-code", "--db", troubled.url).code == 1


def test_a_look_resolves_what_is_over(troubled: App, ask: Ask) -> None:
    with troubled._lock:
        troubled._session().opened().execute("UPDATE onceward_alert SET seen_at = seen_at - 100000000")

    assert ask("alerts", "--look", "--db", troubled.url).out == "no alerts\n"
    resolved = ask("alerts", "--all", "--exit-code", "--db", troubled.url)
    assert resolved.code == 0
    assert "resolved " in resolved.out.splitlines()[0]


def test_alerts_as_json(troubled: App, ask: Ask) -> None:
    [alert] = ask("alerts", "--json", "--db", troubled.url).document["alerts"]

    assert (alert["rule"], alert["status"], alert["tasks"], alert["count"]) == (WATCH.name, "open", [4, 5], 3.0)
    assert alert["resolved_at"] is None
    assert ask("alerts", "--json", "--limit", "1", "--all", "--db", troubled.url).document["alerts"] == [alert]

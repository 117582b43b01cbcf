"""The command about settings, on both databases."""

from __future__ import annotations

from typing import Any

import pytest

from onceward import App
from tests.cli.conftest import Ask


def value_of(document: Any, name: str) -> dict[str, Any]:
    [found] = [one for one in document["settings"] if one["name"] == name]
    assert isinstance(found, dict)
    return found


def test_all_settings_are_listed_with_where_they_were_said(app: App, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONCEWARD_GRACE", "7s")
    app.settings.set("concurrency", 50, author="ann")
    shown = ask("settings", "--db", app.url)
    lines = {line.split()[0]: line for line in shown.out.splitlines()}
    assert shown.code == 0
    assert lines["name"].split()[:6] == ["name", "value", "default", "source", "changed", "by"]
    assert lines["lease"].split()[:4] == ["lease", "5m", "5m", "code"]
    assert lines["grace"].split()[:4] == ["grace", "7s", "30s", "environment"]
    assert lines["concurrency"].split()[:4] == ["concurrency", "50", "100", "live"]
    assert " ann " in lines["concurrency"]


def test_a_setting_is_changed_and_taken_back(app: App, ask: Ask) -> None:
    done = ask("settings", "poll", "3s", "--author", "ann", "--db", app.url)
    assert (done.code, done.out) == (0, "poll is 3s for all workers from now on\n")
    poll = value_of(ask("settings", "poll", "--json", "--db", app.url).document, "poll")
    assert poll.pop("changed_at").endswith("+00:00")
    assert poll == {
        "name": "poll", "value": "3s", "default": "1s", "type": "duration", "source": "live", "changed_by": "ann",
        "about": "How often an idle worker looks for work without a notification.", "live": True, "why_fixed": None,
    }  # fmt: skip
    assert ask("settings", "poll", "--unset", "--db", app.url).out == "poll is 1s\n"
    assert ask("settings", "poll", "--unset", "--db", app.url).out == "poll is 1s; it was not set\n"
    assert ask("settings", "poll", "--unset", "--json", "--db", app.url).document == {"unset": "poll", "was_set": False}


def test_the_author_is_the_user_who_runs_the_command(app: App, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "carol")
    assert ask("settings", "cache", "no", "--json", "--db", app.url).document["changed_by"] == "carol"


def test_the_settings_of_the_app_are_known_with_the_app(app: App, ask: Ask) -> None:
    done = ask("settings", "gift_wrap", '{"colour": "red"}', "--app", "tests.cli.shop:app", "--db", app.url)
    assert done.code == 0
    known = ask("settings", "--json", "--app", "tests.cli.shop:app", "--db", app.url).document
    assert value_of(known, "gift_wrap")["value"] == {"colour": "red"}
    assert value_of(ask("settings", "--json", "--db", app.url).document, "gift_wrap")["type"] == "unknown"
    assert ask("settings", "gift_wrap", "--unset", "--app", "tests.cli.shop:app", "--db", app.url).code == 0


def test_the_address_of_a_webhook_is_not_shown(app: App, ask: Ask) -> None:
    said = ask("settings", "alert_webhook", "https://hooks.example/secret", "--db", app.url)
    assert (said.code, "secret" in said.out) == (0, False)
    for shown in (ask("settings", "--db", app.url), ask("settings", "--json", "--db", app.url)):
        assert "(set, not shown)" in shown.out
        assert "hooks.example" not in shown.out


def test_that_there_is_no_webhook_is_shown(app: App, ask: Ask) -> None:
    said = ask("settings", "alert_webhook", "", "--db", app.url)
    assert (said.code, said.out) == (0, "alert_webhook is empty for all workers from now on\n")
    assert "(set, not shown)" not in ask("settings", "--db", app.url).out
    assert value_of(ask("settings", "--json", "--db", app.url).document, "alert_webhook")["value"] == ""


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["concurrency", "many"], "concurrency='many': it is a whole number"),
        (["concurrency", "-3"], "concurrency=-3: it is a whole number from 1"),
        (["concurency", "3"], "there is no setting 'concurency'; did you mean concurrency?"),
        (["concurency"], "there is no setting 'concurency'"),
        (["lease", "60s"], "lease cannot be changed live"),
        (["gift_wrap", "{}"], "there is no setting 'gift_wrap'"),
        (["--unset"], "--unset takes the name of a setting"),
        (["poll", "3s", "--unset"], "--unset takes the name of a setting, and no value"),
    ],
)
def test_what_cannot_be_meant_is_refused(app: App, ask: Ask, arguments: list[str], says: str) -> None:
    refused = ask("settings", *arguments, "--db", app.url)
    assert (refused.code, refused.out) == (2, "")
    assert says in refused.err

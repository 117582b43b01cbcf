"""The numbers of the engine: what follows from what, what is refused, and who has the last word."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from onceward import App, Config, ConfigError, Setting
from onceward.settings.config import ENGINE, Level, declared, effective, levels, merged


def test_the_defaults_are_those_of_the_specification() -> None:
    config = Config()
    assert (config.lease_ms, config.heartbeat_ms, config.check_ms) == (300_000, 20_000, 60_000)
    assert (config.grace_ms, config.keep_ms) == (30_000, 30 * 86_400_000)
    assert (config.concurrency, config.threads, config.max_lost_workers) == (100, 16, 3)


@pytest.mark.parametrize("lease", ["2s", "90s", "300s", "1h", 30, timedelta(minutes=1)])
def test_heartbeat_and_check_follow_from_the_lease(lease: Any) -> None:
    config = Config(lease=lease)
    assert config.heartbeat_ms == config.lease_ms // 15
    assert config.check_ms == config.lease_ms // 5


def test_heartbeat_and_check_may_be_given() -> None:
    config = Config(lease="300s", heartbeat="100s", check="10s")
    assert (config.heartbeat_ms, config.check_ms) == (100_000, 10_000)


def test_a_heartbeat_above_a_third_of_the_lease_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"every 1m41s is too seldom for a lease of 5m: at most every 1m40s"):
        Config(lease="300s", heartbeat="101s")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"lease": "0s"}, "cannot be kept"),
        ({"tick_lease": "10ms"}, "cannot be kept"),
        ({"lease": "forever"}, "'forever' is not a duration"),
        ({"concurrency": 0}, "concurrency=0"),
        ({"concurrency": "many"}, "concurrency='many'"),
        ({"threads": True}, "threads=True"),
        ({"max_lost_workers": 0}, "max_lost_workers=0"),
        ({"max_lost_workers": "3"}, "max_lost_workers='3'"),
        ({"prepare": "perhaps"}, "prepare='perhaps'"),
        ({"grace": None}, "None is not a duration"),
    ],
)
def test_a_number_that_cannot_be_meant_is_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        Config(**options)


def test_without_file_and_environment_the_code_has_the_last_word(tmp_path: Path) -> None:
    code = Config(lease="30s")
    assert effective(code, {}, tmp_path) == code


def test_the_file_overrides_the_code_and_the_environment_the_file(tmp_path: Path) -> None:
    (tmp_path / "onceward.toml").write_text('lease = "60s"\nconcurrency = 7\nthreads = 2\n')
    environment = {"ONCEWARD_CONCURRENCY": "9", "ONCEWARD_PREPARE": "no", "ONCEWARD_GRACE": "1m", "HOME": "x"}
    config = effective(Config(lease="30s", poll="3s"), environment, tmp_path)
    assert (config.lease_ms, config.heartbeat_ms, config.poll_ms) == (60_000, 4_000, 3_000)
    assert (config.concurrency, config.threads, config.prepare, config.grace_ms) == (9, 2, False, 60_000)


def test_an_unknown_name_in_the_file_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    (tmp_path / "onceward.toml").write_text('rent = "60s"\n')
    with pytest.raises(ConfigError, match=r"onceward\.toml sets rent; known are lease, heartbeat"):
        effective(Config(), {}, tmp_path)


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("concurency = 3", r"sets concurency; did you mean concurrency\?"),
        ("[settings]\npage_sise = 60", r"sets in \[settings\] page_sise; did you mean page_size\?"),
        ("[onceward]\nconcurrency = 3", r"has a table \[onceward\], which nothing reads: .* at the top of the file"),
        (
            "[settings]\nlease = '60s'",
            r"sets lease in \[settings\]; it is a setting of the engine, and stands at the top",
        ),
        (
            "page_size = 60",
            r"sets page_size at its top; it is a setting of the application, and stands in \[settings\]",
        ),
    ],
)
def test_a_name_that_stands_wrong_in_the_file_is_refused_with_where_it_belongs(
    written: str, says: str, tmp_path: Path
) -> None:
    (tmp_path / "onceward.toml").write_text(written)
    with pytest.raises(ConfigError, match=rf"^onceward\.toml {says}"):
        levels(Config(), declared([PAGE]), {}, tmp_path)


def test_a_variable_that_is_nearly_a_setting_is_told_of_in_the_log(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    variables = {"ONCEWARD_CONCURENCY": "3", "ONCEWARD_JOBS_PROFILE": "x", "ONCEWARD_DB": "y", "ONCEWARD_SEED": "1"}
    for _ in range(2):
        effective(Config(), variables, tmp_path)
    assert [one.getMessage() for one in caplog.records] == [
        "no setting reads ONCEWARD_CONCURENCY; did you mean ONCEWARD_CONCURRENCY?"
    ]


@pytest.mark.parametrize("written", [b"lease = ", 'lease = "60s"'.encode("utf-16")])
def test_a_file_that_cannot_be_read_is_refused(written: bytes, tmp_path: Path) -> None:
    (tmp_path / "onceward.toml").write_bytes(written)
    with pytest.raises(ConfigError, match=r"onceward\.toml cannot be read"):
        effective(Config(), {}, tmp_path)


def test_other_variables_of_the_environment_are_not_ours(tmp_path: Path) -> None:
    assert effective(Config(), {"ONCEWARD_CRASH_POINT": "after commit", "ONCEWARD": "x"}, tmp_path) == Config()


@pytest.mark.parametrize(
    ("variable", "text", "says"),
    [
        ("ONCEWARD_CONCURRENCY", "many", "ONCEWARD_CONCURRENCY='many': it is a whole number"),
        ("ONCEWARD_PREPARE", "perhaps", "it is true or false"),
        ("ONCEWARD_LEASE", "5 parsecs", "it is a duration like"),
        ("ONCEWARD_HEARTBEAT", "299s", "too seldom"),
        ("ONCEWARD_POLL", "0s", "is too often; take at least 0.01s"),
    ],
)
def test_a_variable_that_cannot_be_meant_is_refused(tmp_path: Path, variable: str, text: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        effective(Config(), {variable: text}, tmp_path)


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("poll", 0, "poll=0 is too often; take at least 0.01s"),
        ("poll", "9ms", "poll='9ms' is too often; take at least 0.01s"),
        ("heartbeat", "0s", "heartbeat='0s' is too often; take at least 0.001s"),
        ("check", "0s", "check='0s' is too often; take at least 0.001s"),
        ("watch_every", "999ms", "watch_every='999ms' is too often; take at least 1s"),
    ],
)
def test_nothing_is_looked_at_without_a_pause(name: str, value: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        Config(**{name: value})


@pytest.mark.parametrize(
    "name",
    [
        "concurrency", "threads", "max_lost_workers", "retries", "same_errors", "breaker_failures", "call_retries",
        "tick_tasks", "chain", "cache_size",
        "watch_samples", "watch_repeats", "watch_key_repeats", "watch_depth", "watch_timeouts", "watch_expired",
        "watch_reclaims", "watch_log",
    ],
)  # fmt: skip
@pytest.mark.parametrize("power", [63, 1_000, 20_000])
def test_a_number_that_no_worker_could_go_by_is_refused_with_the_most_there_may_be(name: str, power: int) -> None:
    with pytest.raises(ConfigError, match=f"{name}=.*: it is a whole number from . to [1-9]"):
        Config(**{name: 2**power})


# Profiles


@pytest.mark.parametrize(
    ("profile", "values"),
    [
        ("conservative", (3_600_000, 86_400_000, 1, 3)),
        ("balanced", (7_200_000, 172_800_000, 2, 6)),
        ("aggressive", (14_400_000, 345_600_000, 5, 10)),
    ],
)
def test_a_profile_sets_its_four_values(profile: Any, values: tuple[int, ...]) -> None:
    config = Config(profile=profile)
    assert (config.task_limit_ms, config.bounds.deadline_ms, config.chain, config.call_retries) == values


def test_without_a_profile_all_is_balanced() -> None:
    assert Config() == Config(profile="balanced")


def test_an_unknown_profile_is_refused_with_the_three_names() -> None:
    with pytest.raises(ConfigError, match="no profile 'bold'; the profiles are conservative, balanced, aggressive"):
        Config(profile="bold")  # type: ignore[arg-type]


def test_what_is_said_beside_a_profile_is_more_precise_even_if_it_is_the_usual_value() -> None:
    config = Config(profile="conservative", task_limit="2h")
    assert (config.task_limit_ms, config.chain) == (7_200_000, 1)
    app = App("sqlite:///:memory:", profile="conservative", config=Config(task_limit="2h"))
    assert (app.config.task_limit_ms, app.config.chain) == (7_200_000, 1)


def test_an_app_takes_one_profile(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="App says profile='conservative', its config says 'aggressive'"):
        App("sqlite:///:memory:", profile="conservative", config=Config(profile="aggressive"))
    with pytest.raises(ConfigError, match="no profile 'bold'"):
        App("sqlite:///:memory:", profile="bold")  # type: ignore[arg-type]


def test_a_profile_is_a_set_of_values_where_it_is_named(tmp_path: Path) -> None:
    (tmp_path / "onceward.toml").write_text('profile = "aggressive"\nchain = 3\n')
    code = Config(task_limit="90m", call_retries=1)
    by_file, where = merged(levels(code, None, {}, tmp_path))
    assert (by_file.profile, by_file.task_limit_ms, by_file.chain, by_file.call_retries) == (
        "aggressive", 14_400_000, 3, 10
    )  # fmt: skip
    assert {where[name] for name in ("profile", "task_limit", "deadline", "chain", "call_retries")} == {"file"}
    by_variable, where = merged(levels(code, None, {"ONCEWARD_PROFILE": "conservative"}, tmp_path))
    assert (by_variable.chain, where["chain"], where["lease"]) == (1, "environment", "code")
    one_more, where = merged(levels(code, None, {"ONCEWARD_CHAIN": "9"}, tmp_path))
    assert (one_more.chain, one_more.call_retries) == (9, 10)
    assert (where["chain"], where["call_retries"]) == ("environment", "file")


def test_an_app_on_another_database_keeps_what_its_code_says() -> None:
    app = App("sqlite:///:memory:", profile="conservative", config=Config(chain=2))
    assert app.on("sqlite:///:memory:").config == app.config


# Settings of the application


PAGE = Setting("page_size", 50, int, "Rows read at once.")
WAIT = Setting("wait", "90s", "duration", "How long to wait.")


def own(*said: Level) -> dict[str, str]:
    return {name: text for level in said for name, text in level.own.items()}


def test_the_applications_settings_are_said_in_the_same_places(tmp_path: Path) -> None:
    declared_ones = declared([PAGE, WAIT])
    (tmp_path / "onceward.toml").write_text("[settings]\npage_size = 60\nwait = 120\n")
    assert own(*levels(Config(), declared_ones, {}, tmp_path)) == {"page_size": "60", "wait": "2m"}
    said = levels(Config(), declared_ones, {"ONCEWARD_PAGE_SIZE": " 70 "}, tmp_path)
    assert own(*said) == {"page_size": "70", "wait": "2m"}


def test_settings_in_the_file_that_the_app_does_not_declare_are_refused(tmp_path: Path) -> None:
    (tmp_path / "onceward.toml").write_text("[settings]\npage_sise = 60\n")
    with pytest.raises(ConfigError, match=r"onceward\.toml sets in \[settings\] page_sise; did you mean page_size\?"):
        levels(Config(), declared([PAGE]), {}, tmp_path)
    assert own(*levels(Config(), {}, {}, tmp_path)) == {}  # a command line without the app knows none


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ('[settings]\npage_size = "many"', r"onceward\.toml: page_size='many': it is a whole number"),
        ('[settings]\nwait = "5 parsecs"', r"onceward\.toml: wait='5 parsecs': it is a duration"),
        ("concurrency = 2.5", r"onceward\.toml: concurrency=2.5: it is a whole number"),
        ('prepare = "no"', r"onceward\.toml: prepare='no': it is true or false"),
    ],
)
def test_a_value_of_the_wrong_type_in_the_file_is_refused(tmp_path: Path, written: str, says: str) -> None:
    (tmp_path / "onceward.toml").write_text(written)
    with pytest.raises(ConfigError, match=says):
        levels(Config(), declared([PAGE, WAIT]), {}, tmp_path)


def test_a_variable_of_the_wrong_type_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="ONCEWARD_PAGE_SIZE='x': it is a whole number"):
        levels(Config(), declared([PAGE]), {"ONCEWARD_PAGE_SIZE": "x"}, tmp_path)


def test_names_are_unique_and_not_those_of_the_engine() -> None:
    with pytest.raises(ConfigError, match="two settings are called 'page_size'"):
        declared([PAGE, PAGE])
    with pytest.raises(ConfigError, match="the engine has a setting 'lease' already"):
        declared([Setting("lease", 1, int, "Mine.")])
    with pytest.raises(ConfigError, match=r"settings=\['page_size'\]: it is a list of"):
        declared(["page_size"])  # type: ignore[list-item]


def test_of_every_number_is_said_what_it_is() -> None:
    assert [name for name, (_, told) in ENGINE.items() if not told.get("about")] == []


DOTTED = declared([Setting("match.min_score", 80, int, "What is saved."), Setting("table", {}, "json", "Anything.")])


@pytest.mark.parametrize("text", ["[settings]\nmatch.min_score = 70", "[settings.match]\nmin_score = 70"])
def test_a_name_with_dots_may_be_a_table_of_the_file(tmp_path: Path, text: str) -> None:
    (tmp_path / "onceward.toml").write_text(f"{text}\n[settings.table]\na = 1\n")
    _, file, _ = levels(Config(), DOTTED, {}, tmp_path)
    assert file.own == {"match.min_score": "70", "table": '{"a":1}'}


def test_a_name_with_dots_has_underscores_in_the_environment(tmp_path: Path) -> None:
    _, _, environment = levels(Config(), DOTTED, {"ONCEWARD_MATCH_MIN_SCORE": "75"}, tmp_path)
    assert environment.own == {"match.min_score": "75"}


def test_two_names_that_are_one_variable_are_refused() -> None:
    both = [Setting(name, 1, int, "A number.") for name in ("match.min", "match_min")]
    with pytest.raises(ConfigError, match=r"'match\.min' and 'match_min' are both ONCEWARD_MATCH_MIN"):
        declared(both)

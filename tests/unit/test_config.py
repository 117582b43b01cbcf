"""The numbers of the engine: what follows from what, what is refused, and who has the last word."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from onceward import Config, ConfigError
from onceward.config import effective


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
    assert effective(code, {}, tmp_path) is code


def test_the_file_overrides_the_code_and_the_environment_the_file(tmp_path: Path) -> None:
    (tmp_path / "onceward.toml").write_text('lease = "60s"\nconcurrency = 7\nthreads = 2\n[app]\nanything = 1\n')
    environment = {"ONCEWARD_CONCURRENCY": "9", "ONCEWARD_PREPARE": "no", "ONCEWARD_GRACE": "1m", "HOME": "x"}
    config = effective(Config(lease="30s", poll="3s"), environment, tmp_path)
    assert (config.lease_ms, config.heartbeat_ms, config.poll_ms) == (60_000, 4_000, 3_000)
    assert (config.concurrency, config.threads, config.prepare, config.grace_ms) == (9, 2, False, 60_000)


def test_an_unknown_name_in_the_file_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    (tmp_path / "onceward.toml").write_text('leese = "60s"\n')
    with pytest.raises(ConfigError, match=r"onceward\.toml sets leese; known are lease, heartbeat"):
        effective(Config(), {}, tmp_path)


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "onceward.toml").write_text("lease = ")
    with pytest.raises(ConfigError, match=r"onceward\.toml cannot be read"):
        effective(Config(), {}, tmp_path)


def test_other_variables_of_the_environment_are_not_ours(tmp_path: Path) -> None:
    assert effective(Config(), {"ONCEWARD_CRASH_POINT": "after commit", "ONCEWARD": "x"}, tmp_path) == Config()


@pytest.mark.parametrize(
    ("variable", "text", "says"),
    [
        ("ONCEWARD_CONCURRENCY", "many", "is not a number"),
        ("ONCEWARD_PREPARE", "perhaps", "is not yes or no"),
        ("ONCEWARD_LEASE", "5 parsecs", "is not a duration"),
        ("ONCEWARD_HEARTBEAT", "299s", "too seldom"),
    ],
)
def test_a_variable_that_cannot_be_meant_is_refused(tmp_path: Path, variable: str, text: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        effective(Config(), {variable: text}, tmp_path)

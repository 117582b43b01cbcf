"""Numbers that are fine one by one and cannot be kept together."""

from __future__ import annotations

from typing import Any

import pytest

from onceward import App, Breaker, Budget, Config, ConfigError, Context, Payload, Pipeline, Retry
from onceward.model.source import Source
from onceward.settings.consistency import check


class Job(Payload, kind="job"):
    pass


def app_of(source: Source, *, config: Config | None = None, **options: Any) -> App:
    job = Pipeline(Job)

    @job.stage(source=source, **options)
    def ask(ctx: Context[Job]) -> None:
        """Nothing."""

    return App("sqlite:///:memory:", [job], config=config)


@pytest.mark.parametrize("profile", ["conservative", "balanced", "aggressive"])
def test_no_profile_contradicts_itself(profile: Any) -> None:
    check(Config(profile=profile))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (
            {"call_retries": 30},
            r"one outside call may take \(30 retries \+ 1\) x 1m = 31m, its stage has 30m: change call_retries, ",
        ),
        ({"stage_timeout": "3h"}, "stage_timeout=3h is longer than task_limit=2h"),
        ({"tick_lease": "6m"}, "tick_lease=6m is longer than tick_every=5m"),
        ({"watch_every": "2h"}, "watch_every=2h is longer than watch_window=1h"),
        ({"cache_size": 0}, "cache=true with cache_size=0 keeps nothing"),
        ({"retry_base": "2m", "retry_cap": "1m"}, "retry_cap='1m' is shorter than retry_base='2m'"),
    ],
)
def test_a_contradiction_is_refused_with_both_numbers(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        App("sqlite:///:memory:", config=Config(**options))


def test_a_retry_and_a_breaker_that_do_not_go_with_the_settings_are_refused() -> None:
    job = Pipeline(Job, retry=Retry(base="2h"))
    App("sqlite:///:memory:", [job]).close()
    with pytest.raises(ConfigError, match="pipeline 'job': cap '1h' is shorter than base '2h': change its Retry, "):
        App("sqlite:///:memory:", [job], config=Config(retry_cap="1h"))
    app_of(Source("web", breaker=Breaker(disable_after=5))).close()
    app_of(Source("web", breaker=Breaker(failures=5, disable_after=5)), config=Config(breaker_failures=6)).close()
    with pytest.raises(ConfigError, match="source 'web': disable_after=5 comes before breaker_failures=6: it would"):
        app_of(Source("web", breaker=Breaker(disable_after=5)), config=Config(breaker_failures=6))


def test_a_cache_that_is_off_may_have_no_room() -> None:
    check(Config(cache=False, cache_size=0))


def test_calls_that_do_not_fit_into_their_stage_are_refused_with_the_sum() -> None:
    app_of(Source("web", timeout="60s", retries=4), calls=6)
    with pytest.raises(
        ConfigError, match=r"stage job\.ask may take 7 calls x \(4 retries \+ 1\) x 1m = 35m, its stage has 30m"
    ):
        app_of(Source("web", timeout="60s", retries=4), calls=7)
    with pytest.raises(
        ConfigError, match=r"\(6 retries \+ 1\) x 1m = 7m, its stage has 5m: change retries or timeout of source 'web'"
    ):
        app_of(Source("web", timeout="60s"), timeout="5m")


def test_a_source_that_says_nothing_of_its_calls_has_the_time_that_the_stage_says() -> None:
    app_of(Source("web"), timeout="30s")


def test_a_stage_without_a_time_limit_has_time_for_all_its_calls() -> None:
    app_of(Source("web"), calls=1_000, timeout=None)


def test_stages_that_come_after_the_app_are_looked_at_before_it_runs() -> None:
    job = Pipeline(Job)
    app = App("sqlite:///:memory:", [job])

    @job.stage(source=Source("web", timeout="60s"), timeout="1s")
    def ask(ctx: Context[Job]) -> None:
        """Nothing."""

    with pytest.raises(ConfigError, match="its stage has 1s"):
        app.run(until_idle=True)


@pytest.mark.parametrize("late", ["stage", "at_expiry"])
def test_an_app_knows_the_sources_and_budgets_of_stages_that_come_after_it(late: str) -> None:
    job = Pipeline(Job)
    app = App("sqlite:///:memory:", [job])
    web, money = Source("web", rate="1/s"), Budget("money", 5)

    def ask(ctx: Context[Job]) -> None:
        """Nothing."""

    def tell(ctx: Context[Job]) -> None:
        """Nothing."""

    getattr(job, late)(source=web, budget=money, estimate=1)(ask)
    assert (app._registry.sources, app._registry.budgets) == ({"web": web}, {"money": money.rule})
    assert app._registry.limits_of("web") == web.gate
    with pytest.raises(ConfigError, match="two sources are named 'web' and have different limits"):
        job.stage(source=Source("web", rate="2/s"))(tell)

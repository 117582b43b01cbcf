"""Rates, buckets and breakers, as arithmetic."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceward.errors import ConfigError
from onceward.model.source import (
    Breaker,
    GateLimits,
    GateState,
    Source,
    after_outcomes,
    after_taking,
    allowance,
    rate_of,
)
from onceward.model.times import NEVER

NOW = 1_800_000_000_000


@pytest.mark.parametrize(
    ("text", "interval_us", "burst"),
    [("600/min", 100_000, 10), ("30/min", 2_000_000, 1), ("5/s", 200_000, 5), ("7/Minute", 8_571_429, 1),
     ("1000 / day", 86_400_000, 1)],
)  # fmt: skip
def test_a_rate_is_what_one_token_takes(text: str, interval_us: int, burst: int) -> None:
    rate = rate_of(text)
    assert (rate.interval_us, rate.usual_burst) == (interval_us, burst)


@pytest.mark.parametrize(
    ("text", "why"),
    [("0/min", "lets nothing through"), ("5/fortnight", "there is no 'fortnight'"), ("-3/min", "reads like"),
     ("fast", "reads like"), ("", "reads like"), (30, "reads like"), ("1.5/min", "reads like"),
     ("1000000/s", "more than 100,000 a second")],
)  # fmt: skip
def test_a_rate_that_is_none_is_refused(text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        rate_of(text)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"burst": 3}, "without a rate"),
        ({"rate": "1/s", "burst": 0}, "burst=0"),
        ({"concurrency": -1}, "concurrency=-1"),
        ({"retries": -1}, "retries=-1"),
        ({"timeout": "0s"}, "leaves no time"),
        ({"per": "host"}, "is a function"),
    ],
)
def test_a_source_that_makes_no_sense_is_refused(options: dict[str, object], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        Source("web", **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["", "a b", "a/b", "@x", "=x"])
def test_a_source_has_a_plain_name(name: str) -> None:
    with pytest.raises(ConfigError, match="no name for a source"):
        Source(name)


def test_a_breaker_that_never_pauses_is_refused() -> None:
    with pytest.raises(ConfigError, match="never pause"):
        Breaker(failures=5, disable_after=4)
    with pytest.raises(ConfigError, match="breaker=None"):
        Breaker(pause="0s")


def test_each_instance_of_a_source_has_a_gate_of_its_own() -> None:
    web = Source("web", per=lambda key: key.split("/")[2])
    assert web.instance("https://example.com/a") == "web/example.com"
    assert web.instance("https://exa mple.com@x/a") == "web/exa%20mple.com%40x"
    assert len(web.instance("https://" + "x" * 5_000 + "/")) < 50
    assert Source("model").instance("anything") == "model"
    with pytest.raises(ConfigError, match="returned ''"):
        Source("web", per=lambda _: "").instance("x")


@given(
    st.integers(1, 2_000), st.integers(1, 50), st.integers(1, 5),
    st.lists(st.tuples(st.integers(0, 5_000), st.integers(1, 60)), min_size=1, max_size=60),
)  # fmt: skip
def test_no_window_ever_has_more_than_the_bucket_allows(
    per_minute: int, burst: int, tokens: int, steps: list[tuple[int, int]]
) -> None:
    limits = GateLimits(rate_of(f"{per_minute}/min").interval_us, burst)
    need = min(tokens, burst)
    tat, now = 0, NOW
    issued: list[tuple[int, int]] = []
    for wait_ms, wanted in steps:
        now += wait_ms
        allowed = allowance(limits, GateState(tat), 0, 0, need, now)
        count = min(wanted, allowed.count)
        tat = after_taking(limits, tat, count * need, now) if count else tat
        issued.append((now, count * need))
        if wanted >= allowed.count:
            again = allowance(limits, GateState(tat), 0, 0, need, now)
            assert again.count == 0
            assert allowance(limits, GateState(tat), 0, 0, need, again.again_at).count >= 1, "it said when"
            assert allowance(limits, GateState(tat), 0, 0, need, again.again_at - 2).count == 0, "and not too late"
    for start, (began, _) in enumerate(issued):
        for end in range(start, len(issued)):
            within = sum(count for _, count in issued[start : end + 1])
            assert within <= burst + (issued[end][0] - began) * per_minute / 60_000 + 1e-6


def test_a_clock_that_was_set_back_by_an_hour_does_not_close_a_bucket_for_an_hour() -> None:
    limits = GateLimits(rate_of("60/min").interval_us, 2)
    tat = after_taking(limits, 0, 2, NOW)
    back = NOW - 3_600_000
    state = GateState(tat, paused_until=NOW + 5_000, taken_at=NOW).as_of(back)
    assert (state.tat, state.paused_until, state.taken_at) == (tat - 3_600_000_000, back + 5_000, back)
    assert allowance(limits, state, 0, 0, 1, back + 4_999).count == 0
    assert allowance(limits, state, 0, 0, 1, back + 5_000).count == 2
    assert state.as_of(back) is state, "once"


def test_a_clock_that_differs_by_a_little_was_not_set_back() -> None:
    state = GateState(NOW * 1_000, taken_at=NOW)
    assert state.as_of(NOW - 999) is state


def test_a_stage_that_wants_more_than_the_bucket_holds_waits_for_a_full_one() -> None:
    limits = GateLimits(rate_of("60/min").interval_us, 2)
    full = allowance(limits, GateState(0), 0, 0, 5, NOW)
    assert full.count == 1
    tat = after_taking(limits, 0, 5, NOW)
    assert allowance(limits, GateState(tat), 0, 0, 5, NOW + 4_900).count == 0
    assert allowance(limits, GateState(tat), 0, 0, 5, NOW + 5_000).count == 1


def test_who_is_inside_counts() -> None:
    limits = GateLimits(concurrency=3)
    assert allowance(limits, GateState(), 1, 0, 1, NOW).count == 2
    full = allowance(limits, GateState(), 3, 0, 1, NOW)
    assert (full.count, full.again_at) == (0, NOW + 1_000)


def test_five_failures_in_a_row_open_the_breaker_and_one_probe_decides() -> None:
    breaker = Breaker().rule
    state = after_outcomes(breaker, GateState(), [False] * 4, NOW)
    assert allowance(GateLimits(breaker=breaker), state, 0, 0, 1, NOW).count > 1
    state = after_outcomes(breaker, state, [False], NOW)
    closed = allowance(GateLimits(breaker=breaker), state, 0, 0, 1, NOW)
    assert (closed.count, closed.again_at) == (0, NOW + 300_000)
    later = NOW + 300_000
    assert allowance(GateLimits(breaker=breaker), state, 0, 0, 1, later).count == 1
    assert allowance(GateLimits(breaker=breaker), state, 1, 1, 1, later).count == 0, "the probe is under way"
    failed = after_outcomes(breaker, state, [False], later)
    assert failed.paused_until == later + 300_000
    assert failed.opened == 2
    healed = after_outcomes(breaker, state, [True], later)
    assert (healed.streak, healed.is_half_open) == (0, False)
    assert allowance(GateLimits(breaker=breaker), healed, 0, 0, 1, later).count > 1


def test_one_success_resets_the_streak() -> None:
    state = after_outcomes(Breaker().rule, GateState(), [False, False, False, False, True, False], NOW)
    assert (state.streak, state.paused_until) == (1, 0)


def test_stragglers_neither_lengthen_the_pause_nor_end_it() -> None:
    breaker = Breaker().rule
    opened = after_outcomes(breaker, GateState(), [False] * 5, NOW)
    late = after_outcomes(breaker, opened, [False, True], NOW + 1_000)
    assert (late.paused_until, late.is_half_open, late.opened) == (NOW + 300_000, True, 1)


def test_a_source_is_disabled_after_so_many_in_a_row() -> None:
    breaker = Breaker(failures=2, disable_after=3).rule
    state = after_outcomes(breaker, GateState(), [False] * 3, NOW)
    assert not state.enabled
    assert allowance(GateLimits(breaker=breaker), state, 0, 0, 1, NOW + 10**9).again_at == NEVER


def test_without_a_breaker_failures_only_count() -> None:
    state = after_outcomes(None, GateState(), [False] * 50, NOW)
    assert (state.streak, state.paused_until, state.enabled) == (50, 0, True)

"""Schedules as pure arithmetic: which times they have, through both changes of the clock, and which of them are due."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from onceward import App, ConfigError, Context, Cron, Payload, Pipeline, UnknownKind
from onceward.model.schedule import GRACE_MS, MOST_AT_ONCE
from onceward.model.times import instant, moment

BERLIN, NEW_YORK = "Europe/Berlin", "America/New_York"
MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000


class Cleanup(Payload, kind="cleanup"):
    what: str = "files"


class Odd(Payload, kind="odd"):
    number: int


def cron(expression: str, tz: str = "UTC", **options: Any) -> Cron:
    return Cron(expression, Cleanup(), tz=tz, **options)


def at(text: str) -> int:
    return instant(datetime.fromisoformat(text))


def times_of(schedule: Cron, start: int, end: int) -> list[int]:
    """All its times after a start, up to an end."""
    every = Cron(schedule.expression, schedule.payload, tz=schedule.tz, missed="all")
    times: list[int] = []
    next_at = every.next_after(start)
    while next_at <= end:
        some, next_at = every.due(next_at, end)
        times += some
    return times


def shown(schedule: Cron, start: str, days: int) -> list[str]:
    zone = ZoneInfo(schedule.tz)
    begin = at(start)
    return [f"{moment(one).astimezone(zone):%d %H:%M%z}" for one in times_of(schedule, begin, begin + days * DAY)]


# Both changes of the clock


@pytest.mark.parametrize(
    ("tz", "expression", "start", "expected"),
    [
        (BERLIN, "0 2 * * *", "2026-03-28T00:00Z", ["28 02:00+0100", "29 03:00+0200", "30 02:00+0200"]),
        (BERLIN, "30 2 * * *", "2026-03-28T00:00Z", ["28 02:30+0100", "29 03:00+0200", "30 02:30+0200"]),
        (NEW_YORK, "0 2 * * *", "2026-03-07T05:00Z", ["07 02:00-0500", "08 03:00-0400", "09 02:00-0400"]),
        (NEW_YORK, "30 2 * * *", "2026-03-07T05:00Z", ["07 02:30-0500", "08 03:00-0400", "09 02:30-0400"]),
        (BERLIN, "0 2 * * *", "2026-10-24T00:00Z", ["25 02:00+0200", "26 02:00+0100"]),
        (BERLIN, "30 2 * * *", "2026-10-24T00:00Z", ["24 02:30+0200", "25 02:30+0200", "26 02:30+0100"]),
        (NEW_YORK, "0 2 * * *", "2026-10-31T04:00Z", ["31 02:00-0400", "01 02:00-0500", "02 02:00-0500"]),
        (NEW_YORK, "30 1 * * *", "2026-10-31T04:00Z", ["31 01:30-0400", "01 01:30-0400", "02 01:30-0500"]),
    ],
)  # fmt: skip
def test_a_fixed_time_fires_once_a_day_whatever_the_clocks_do(
    tz: str, expression: str, start: str, expected: list[str]
) -> None:
    assert shown(cron(expression, tz), start, 3)[: len(expected)] == expected


@pytest.mark.parametrize("tz", [BERLIN, NEW_YORK])
def test_every_quarter_of_an_hour_is_real_time(tz: str) -> None:
    for month in ("2026-03", "2026-10"):
        start = at(f"{month}-01T00:00Z")
        end = start + 35 * DAY
        assert times_of(cron("*/15 * * * *", tz), start - 1, end) == list(range(start, end + 1, 15 * MINUTE))


@pytest.mark.parametrize("tz", [BERLIN, NEW_YORK])
@pytest.mark.parametrize("expression", ["0 2 * * *", "30 2 * * *", "30 1 * * *", "0 0 * * *"])
def test_a_fixed_time_has_one_firing_on_every_date_of_a_year(tz: str, expression: str) -> None:
    zone = ZoneInfo(tz)
    start = instant(datetime(2026, 1, 1, tzinfo=zone)) - 1
    times = times_of(cron(expression, tz), start, instant(datetime(2026, 12, 31, 23, 59, tzinfo=zone)))
    dates = [moment(one).astimezone(zone).date() for one in times]
    assert dates == [datetime(2026, 1, 1, tzinfo=UTC).date() + timedelta(days=number) for number in range(365)]


@pytest.mark.parametrize("tz", [BERLIN, NEW_YORK, "Asia/Beirut"])
@pytest.mark.parametrize("expression", ["30 2 * * *", "0,30 1-3 * * *", "*/20 1,2 * * *", "10 */2 * * *", "5 0 * * *"])
def test_the_times_are_the_same_from_wherever_one_asks(tz: str, expression: str) -> None:
    schedule = cron(expression, tz)
    for change in ("2026-03-08", "2026-03-29", "2026-10-25", "2026-11-01"):
        start = at(f"{change}T00:00Z") - 4 * HOUR
        end = start + DAY
        times = times_of(schedule, start, end + 2 * DAY)
        for now in range(start, end, 19 * MINUTE):
            assert schedule.next_after(now) == next(one for one in times if one > now)


def test_in_the_hour_that_comes_twice_what_was_fired_in_the_first_is_not_due_again() -> None:
    schedule = cron("30 2 * * *", BERLIN)
    second_ten_past_two = at("2026-10-25T01:10Z")
    assert schedule.next_after(second_ten_past_two) == at("2026-10-26T01:30Z")
    fired = at("2026-10-25T00:30Z")
    assert schedule.due(schedule.next_after(fired), second_ten_past_two).times == ()


# Rare times


def test_a_leap_day_fires_in_leap_years_only() -> None:
    times = times_of(cron("0 12 29 2 *"), at("2026-01-01T00:00Z"), at("2037-01-01T00:00Z"))
    assert [moment(one).year for one in times] == [2028, 2032, 2036]


def test_the_last_day_of_a_month_is_known() -> None:
    times = times_of(cron("0 0 L * *"), at("2028-01-15T00:00Z"), at("2028-05-01T00:00Z"))
    assert [moment(one).day for one in times] == [31, 29, 31, 30]


@pytest.mark.parametrize("expression", ["0 0 30 2 *", "0 0 31 4 *", "0 0 31 2,4,6,9,11 *"])
def test_a_schedule_that_never_fires_is_refused(expression: str) -> None:
    with pytest.raises(ConfigError, match="never fires"):
        cron(expression)


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("60 * * * *", "bad minute"),
        ("* 24 * * *", "bad hour"),
        ("* * 0 * *", "bad day-of-month"),
        ("* * * 13 *", "bad month"),
        ("* * * * MOON", "bad day-of-week"),
        ("*/0 * * * *", "bad minute"),
        ("* * * *", "five fields"),
        ("* * * * * *", "five fields"),
        ("@daily", "five fields"),
        ("", "five fields"),
        (None, "five fields"),
    ],
)
def test_what_is_no_expression_is_refused_with_the_reason(expression: Any, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        cron(expression)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"tz": "Europe/Atlantis"}, "no time zone that this machine knows"),
        ({"tz": "../../etc/passwd"}, "no time zone that this machine knows"),
        ({"tz": None}, "no time zone that this machine knows"),
        ({"missed": "sometimes"}, "it is 'once', 'all' or 'skip'"),
        ({"name": ""}, "no name of a schedule"),
    ],
)
def test_what_cannot_be_meant_is_refused(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        Cron("0 0 * * *", Cleanup(), **options)


@pytest.mark.parametrize("payload", [Cleanup, "cleanup", None, Odd("three")])  # type: ignore[arg-type]
def test_what_is_no_payload_is_refused(payload: Any) -> None:
    with pytest.raises(ConfigError, match="payload"):
        Cron("0 0 * * *", payload)


# Names


def test_a_schedule_without_a_name_has_one_by_what_it_is() -> None:
    first = cron("0 0 * * *")
    assert first.name.startswith("cleanup-")
    assert cron("0  0 * * * ").name == first.name
    others = [cron("0 1 * * *"), cron("0 0 * * *", BERLIN), Cron("0 0 * * *", Cleanup("logs"))]
    assert len({first.name, *(one.name for one in others)}) == 4


def test_an_app_refuses_two_schedules_of_one_name_and_kinds_that_it_does_not_know() -> None:
    pipeline = Pipeline(Cleanup)

    @pipeline.stage
    def clean(ctx: Context[Cleanup]) -> None: ...

    with pytest.raises(ConfigError, match="two schedules have the name 'night'"):
        App(
            "sqlite:///:memory:",
            [pipeline],
            schedules=[cron("0 0 * * *", name="night"), cron("1 0 * * *", name="night")],
        )
    with pytest.raises(UnknownKind):
        App("sqlite:///:memory:", [pipeline], schedules=[Cron("0 0 * * *", Odd(3))])
    with pytest.raises(ConfigError, match=r"schedules=\[.*: it is a list of"):
        App("sqlite:///:memory:", [pipeline], schedules=["0 0 * * *"])  # type: ignore[list-item]


# What was missed

START = at("2026-06-01T00:00Z")


def test_nothing_is_due_before_its_time() -> None:
    for missed in ("once", "all", "skip"):
        assert cron("0 * * * *", missed=missed).due(START + HOUR, START + HOUR - 1) == ((), START + HOUR)
        assert cron("0 * * * *", missed=missed).due(START + HOUR, START + HOUR) == ((START + HOUR,), START + 2 * HOUR)


def test_once_fires_the_last_of_any_number_of_missed_times() -> None:
    schedule = cron("0 * * * *", missed="once")
    assert schedule.due(START, START + 5 * HOUR + MINUTE) == ((START + 5 * HOUR,), START + 6 * HOUR)


@pytest.mark.parametrize("expression", ["* * * * *", "0 0 1 1 *", "0 12 29 2 *"])
def test_once_finds_the_last_missed_time_after_years(expression: str) -> None:
    schedule = cron(expression)
    first = schedule.next_after(at("2020-01-01T00:00Z"))
    now = at("2026-06-01T00:00:30Z")
    [last] = schedule.due(first, now).times
    assert last <= now < schedule.next_after(last)


def test_all_fires_every_missed_time_oldest_first_so_many_at_once() -> None:
    schedule = cron("* * * * *", missed="all")
    now = START + 700 * MINUTE
    first = schedule.due(START, now)
    assert first.times == tuple(range(START, START + MOST_AT_ONCE * MINUTE, MINUTE))
    second = schedule.due(first.next_at, now)
    assert first.times + second.times == tuple(range(START, now + 1, MINUTE))
    assert second.next_at == now + MINUTE


def test_skip_fires_what_is_late_by_no_more_than_the_grace_and_only_the_last() -> None:
    schedule = cron("0 * * * *", missed="skip")
    assert schedule.due(START, START + 3 * HOUR + GRACE_MS) == ((START + 3 * HOUR,), START + 4 * HOUR)
    assert schedule.due(START, START + 3 * HOUR + GRACE_MS + 1) == ((), START + 4 * HOUR)
    every_minute = cron("* * * * *", missed="skip")
    assert every_minute.due(START, START + 4 * MINUTE) == ((START + 4 * MINUTE,), START + 5 * MINUTE)


def test_a_stored_time_that_is_none_any_more_is_left_behind() -> None:
    """The rules of a time zone may change between two looks."""
    for missed in ("once", "all", "skip"):
        schedule = cron("0 * * * *", missed=missed)
        assert schedule.due(START + MINUTE, START + 2 * MINUTE) == ((), START + HOUR)

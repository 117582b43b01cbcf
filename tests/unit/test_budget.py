"""Budgets, as arithmetic."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceward import App, Budget, ConfigError, Context, Limits, Payload, Pipeline, Source
from onceward.model.budget import (
    MOST,
    WHOLE,
    Account,
    Bill,
    Charge,
    account_waited_for,
    amount_of,
    amount_text,
    may_fit,
    read_amount,
    settled,
    wait_of,
)
from onceward.model.lineage import Bounds

HOUR, DAY = 3_600_000, 86_400_000
NOW = 20_000 * DAY + 5 * HOUR + 123


class Ask(Payload, kind="ask"):
    number: int = 0


@pytest.mark.parametrize(
    ("value", "amount"),
    [(5, 5 * WHOLE), (0.02, 20_000_000), (0.1, 100_000_000), ("0.02", 20_000_000), (Decimal("1.5"), 1_500_000_000),
     (0, 0), ("1e-9", 1), ("0.0000000011", 2), ("1e-400", 1), (Decimal(1) / 3, 333_333_334), (MOST, MOST * WHOLE)],
)  # fmt: skip
def test_an_amount_is_a_whole_number_rounded_up(value: Any, amount: int) -> None:
    assert amount_of(value, "it") == amount


@pytest.mark.parametrize(
    "value",
    [-1, -0.01, "-3", Decimal("-0.1"), float("nan"), float("inf"), "NaN", "Infinity", "sNaN", "lots", "", None, True,
     1e30, "1e999999", MOST + 1, [1], b"1"],
)  # fmt: skip
def test_an_amount_that_is_none_is_refused(value: Any) -> None:
    with pytest.raises(ConfigError):
        amount_of(value, "it")
    with pytest.raises(ConfigError):
        Budget("usd", value)


@given(st.decimals(min_value=0, max_value=10**9, allow_nan=False, places=15))
def test_never_less_is_counted_than_was_given(value: Decimal) -> None:
    counted = read_amount(amount_of(value, "it"))
    assert 0 <= counted - value < Decimal("1e-9")


def test_amounts_are_told_as_people_say_them() -> None:
    assert amount_text(5 * WHOLE, "usd") == "5.00 USD"
    assert amount_text(1_234_500_000, "usd") == "1.2345 USD"
    assert amount_text(12_000 * WHOLE, "tokens") == "12,000 tokens"


@pytest.mark.parametrize(
    ("per", "window"),
    [("total", (0, None)), ("hour", (NOW - 123, NOW - 123 + HOUR)), ("day", (20_000 * DAY, 20_001 * DAY))],
)  # fmt: skip
def test_windows_are_hours_and_days_of_utc(per: Any, window: tuple[int, int | None]) -> None:
    assert Budget("usd", 5, per=per).rule.window(NOW) == window


@pytest.mark.parametrize(
    ("scope", "whose"), [("app", ""), ("pipeline", "ask"), ("source", "web/a"), ("lineage", "L"), ("batch", "7")]
)
def test_whom_a_budget_is_for(scope: Any, whose: str) -> None:
    rule = Budget("usd", 5, scope=scope).rule
    assert rule.whose("ask", "web/a", "L", 7) == whose
    assert Budget("usd", 5, scope="batch").rule.whose("ask", None, "L", None) is None


@pytest.mark.parametrize(
    "options",
    [{"unit": "eur"}, {"per": "week"}, {"scope": "planet"}, {"when_spent": "panic"},
     {"unit": "tasks", "when_spent": "fail"}],
)  # fmt: skip
def test_a_budget_that_cannot_be_meant_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="usd"):
        Budget("usd", 5, **options)


@pytest.mark.parametrize("name", ["", "a b", "a/b", "lineage", "x" * 101, 5])
def test_a_name_that_is_none_is_refused(name: Any) -> None:
    with pytest.raises(ConfigError, match="no name for a budget"):
        Budget(name, 5)


def test_what_is_left_is_never_below_nothing_and_a_closed_budget_has_nothing_left() -> None:
    account = Account("usd", "", 0, "usd", 10, spent=3, reserved=4)
    assert account.left == 3
    assert Account("usd", "", 0, "usd", 10, spent=13).left == 0
    assert Account("usd", "", 0, "usd", 10, is_closed=1).left == 0
    assert Account("usd", "", 0, "usd", 10, spent=10, ends_at=NOW).left_at(NOW) == 10
    assert Account("usd", "", 0, "usd", 10, spent=10, ends_at=NOW).left_at(NOW - 1) == 0


@pytest.mark.parametrize(
    ("charged", "frees", "spent", "above"),
    [(None, True, 0, 0), (None, False, 10, 0), (0, False, 0, 0), (4, True, 4, 0), (4, False, 4, 0), (12, True, 12, 2)],
)
def test_what_becomes_of_what_was_set_aside(charged: int | None, frees: bool, spent: int, above: int) -> None:
    outcome = settled(10, charged, frees=frees)
    assert (outcome.spent, outcome.above) == (spent, above)


def test_the_budget_of_a_lineage_is_charged_all_money_and_nothing_else() -> None:
    bill = Bill((Charge("a", 3), Charge("b", 4), Charge("c", 5, "calls")))
    assert (bill.charged("a"), bill.charged("x"), bill.charged("lineage"), bill.usd) == (3, None, 7, 7)


@given(st.lists(st.integers(0, 100)), st.integers(0, 500))
def test_those_that_may_fit_fit_together(amounts: list[int], left: int) -> None:
    places = may_fit(amounts, left)
    assert sum(amounts[place] for place in places) <= left
    assert places == sorted(places)
    skipped = [amounts[place] for place in range(len(amounts)) if place not in places]
    assert all(sum(amounts[place] for place in places) + one > left for one in skipped)


def test_what_a_task_waits_for_names_the_budget_and_for_whom() -> None:
    for name, scope in (("usd", ""), ("usd", "web/a:80")):
        assert account_waited_for(wait_of(name, scope)) == (name, scope)
    assert wait_of("usd", "") == "budget:usd"


def declared(**options: Any) -> Pipeline[Ask]:
    pipeline = Pipeline(Ask)

    @pipeline.stage(**options)
    def work(ctx: Context[Ask]) -> None: ...

    return pipeline


USD, TOKENS = Budget("usd", 5), Budget("tokens", 1_000, unit="tokens")
CALLS = Budget("calls", 10, unit="calls")


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"budget": USD}, "needs an estimate"),
        ({"budget": USD, "estimate": 5.01}, "is above the limit of budget 'usd', 5.00 USD"),
        ({"budget": USD, "estimate": -1}, "not below zero"),
        ({"budget": "usd", "estimate": 1}, "it is a Budget"),
        ({"budget": (USD, USD), "estimate": 1}, "named twice"),
        ({"budget": (USD, TOKENS), "estimate": 1}, "in USD and in tokens"),
        ({"budget": Budget("s", 5, scope="source"), "estimate": 1}, "the stage has none"),
        ({"budget": CALLS, "estimate": 11}, "is above the limit"),
        ({"budget": CALLS, "estimate": 1.5}, "a whole number"),
        ({"budget": CALLS, "source": Source("web"), "calls": 3, "estimate": 2}, "at least the 3"),
        ({"budget": CALLS, "source": Source("web"), "calls": 11}, "is above the limit"),
    ],
)
def test_a_stage_whose_costs_cannot_be_meant_is_refused(options: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        declared(**options)


def test_what_a_stage_has_to_pass_names_its_budgets() -> None:
    def gates(**options: Any) -> str | None:
        pipeline = declared(**options)
        return pipeline._gates_of(pipeline.stages[0], Ask())

    assert gates(budget=USD, estimate=1) == "$usd"
    assert gates(budget=(USD, CALLS), estimate=1, source=Source("web"), calls=3) == "web*3 $usd $calls*3"
    assert gates(budget=CALLS, estimate=4) == "$calls*4"
    assert gates(estimate=1) == "$lineage"
    assert gates(budget=Budget("tasks", 5, unit="tasks")) is None


def test_an_estimate_may_be_a_function_of_the_payload() -> None:
    pipeline = declared(budget=USD, estimate=lambda payload: payload.number / 100)
    assert pipeline.stages[0].costs.estimate(Ask(7)) == 70_000_000
    with pytest.raises(ConfigError, match="not below zero"):
        pipeline.stages[0].costs.estimate(Ask(-7))


def test_two_budgets_of_one_name_that_differ_are_refused() -> None:
    class Other(Payload, kind="other"): ...

    other = Pipeline(Other)

    @other.stage(budget=Budget("usd", 6), estimate=1)
    def work(ctx: Context[Other]) -> None: ...

    with pytest.raises(ConfigError, match="two budgets are named 'usd'"):
        App("sqlite:///:memory:", [declared(budget=USD, estimate=1), other])


def test_no_operator_is_asked_about_a_spent_budget() -> None:
    with pytest.raises(ConfigError, match="is raised"):
        Pipeline(Ask, refused={"budget": "park"})
    Pipeline(Ask, refused={"budget": "raise"})


def test_a_child_narrows_the_budget_of_its_lineage_and_does_not_widen_it() -> None:
    without = Bounds(10, 10, 10, 10)
    given_five = without.replaced(Limits(budget=5))
    assert given_five.budget == 5 * WHOLE
    assert given_five.narrowed(Limits(budget=2)).budget == 2 * WHOLE
    assert without.narrowed(Limits(budget=2)).budget == 2 * WHOLE
    with pytest.raises(ConfigError, match="budget=6 is more than 5"):
        given_five.narrowed(Limits(budget=6))
    with pytest.raises(ConfigError, match="not below zero"):
        Limits(budget=-1)

"""What verify says of budgets that a hand has changed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from onceward import App, Budget, Context, Payload, Pipeline
from onceward.store.governance.budget_waits import sweep_budgets
from onceward.store.op import Query


class Ask(Payload, kind="ask"):
    number: int


usd = Budget("usd", 1)
asking = Pipeline(Ask)


@asking.stage(budget=usd, estimate="0.1")
def ask(ctx: Context[Ask]) -> None:
    ctx.charge(usd, "0.05")


@pytest.fixture(params=["sqlite", "postgres"])
def app(request: pytest.FixtureRequest) -> Iterator[App]:
    with App(request.getfixturevalue(f"migrated_{request.param}_url"), [asking]) as made:
        made.enqueue_many([Ask(1), Ask(2)])
        made.run(until_idle=True)
        assert made.verify().ok
        yield made


RESERVE = "INSERT INTO onceward_reservation (task, token, budget, scope, window_at, amount) VALUES"


def change(app: App, sql: str) -> list[str]:
    """What verify says of budgets after a statement that nobody should have written."""
    session = app._store.session()
    session.opened().execute(sql)
    if app.dialect == "postgres":
        session.opened().commit()
    session.close()
    return [breach.sentence for breach in app.verify().check("budgets").breaches]


def test_a_ceiling_that_was_passed_is_found(app: App) -> None:
    assert change(app, "UPDATE onceward_budget SET spent = 1500000000") == [
        "1.5 of budget usd is spent or set aside, and it allowed 1 at most"
    ]


def test_a_charge_above_its_estimate_is_no_breach(app: App) -> None:
    assert change(app, "UPDATE onceward_budget SET spent = 1500000000, overcharged = 500000000, is_closed = 1") == []


def test_a_ceiling_that_was_lowered_is_no_breach(app: App) -> None:
    app.budgets.set_limit("usd", "0.01")
    assert app.verify().ok


def test_a_reservation_that_is_not_counted_is_found(app: App) -> None:
    assert change(app, "UPDATE onceward_budget SET reserved = 100000000") == [
        "budget usd counts 0.1 as set aside, and attempts and holds have set aside 0"
    ]


def test_a_reservation_of_no_budget_is_found(app: App) -> None:
    token = "x'00'" if app.dialect == "sqlite" else "'\\x00'"
    found = change(
        app,
        f"{RESERVE} (1, {token}, 'eur', '', 0, 5)",
    )
    assert found == ["something is set aside for task 1 of budget eur, which is not there"]


def test_what_is_set_aside_for_a_lost_attempt_is_spent_by_the_sweep(app: App) -> None:
    token = "x'00'" if app.dialect == "sqlite" else "'\\x00'"
    change(app, "UPDATE onceward_budget SET reserved = 100000000")
    assert (
        change(
            app,
            f"{RESERVE} (1, {token}, 'usd', '', 0, 100000000)",
        )
        == []
    )
    with app._lock:
        sweep_budgets(app._session(), app._store.clock.now())
        assert app._session().run(Query("orphaned_reservations")) == []
    [status] = app.budgets.list()
    assert (str(status.spent), status.reserved) == ("0.2", 0)
    assert app.verify().ok

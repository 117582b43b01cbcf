"""What operators do with budgets: see what was spent and what is left, and change a limit while workers run."""

from __future__ import annotations

import builtins
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Literal

from onceward.client.awaited import awaited
from onceward.client.namespace import Namespace
from onceward.errors import BudgetNotFound, ConfigError
from onceward.model import arguments
from onceward.model.budget import APP, EVERY_SCOPE, LINEAGE, Account, Amount, BudgetRule, amount_of, read_amount
from onceward.model.times import moment
from onceward.operations.settings import checked_author
from onceward.store.op import Op
from onceward.support.lazily import modules

if TYPE_CHECKING:
    from onceward.store.governance import budget_waits
    from onceward.store.operations import history_samples
else:
    budget_waits, history_samples = modules(
        "onceward.store.governance.budget_waits", "onceward.store.operations.history_samples"
    )

MOST_SHOWN = 1_000


@dataclass(frozen=True, slots=True)
class BudgetStatus:
    """A budget in its present window, for one of those whom it is for."""

    name: str
    scope: str
    """The pipeline, source, lineage or batch; empty for the whole app."""
    unit: str
    per: str
    limit: Decimal
    spent: Decimal
    reserved: Decimal
    """What is set aside for stages that run, and held by tasks beyond them."""
    held: Decimal
    """The part of it that tasks hold beyond their stages, with `ctx.hold`."""
    left: Decimal
    window_at: datetime | None
    """When its window began; None where it is about the total."""
    resets_at: datetime | None
    waiting: int
    """How many tasks wait for it."""
    is_closed: bool
    """Whether a charge above its estimate has closed it, until it is raised or its window is over."""


HOLD_STATES: tuple[Literal["held", "waiting", "lost"], ...] = ("held", "waiting", "lost")


@dataclass(frozen=True, slots=True)
class HoldStatus:
    """An amount of a budget that a task holds beyond its stages, under a name."""

    task: int
    kind: str | None
    """None if the task is gone; what it held is counted as spent within a second."""
    name: str
    budget: str
    scope: str
    amount: Decimal
    state: Literal["held", "waiting", "lost"]
    """`waiting`: the budget has not enough left, and the task waits. `lost`: the task has ended without settling the
    hold, which counts as spent."""
    since: datetime


@dataclass(frozen=True, slots=True)
class BudgetPoint:
    """A budget of the whole app at one moment of the last day, as a look has found it."""

    at: datetime
    spent: Decimal
    reserved: Decimal
    limit: Decimal


@dataclass(frozen=True, slots=True)
class LimitChange:
    """A limit that an operator has given a budget; it holds until the next change."""

    scope: str
    """Whom it is for: empty for the whole app, `*` for every scope."""
    limit: Decimal
    at: datetime
    author: str


@dataclass(frozen=True, slots=True)
class SetAside:
    """An amount of a budget that is set aside for a stage that runs."""

    task: int
    kind: str
    key: str
    stage: str | None
    amount: Decimal
    since: datetime | None


class Budgets(Namespace):
    """`app.budgets`: what was spent, what is set aside, what is left."""

    def list(self, name: str | None = None, *, limit: int = MOST_SHOWN) -> builtins.list[BudgetStatus]:
        """How budgets stand in their present windows, by name and scope; all of them, or one."""
        now = self._client._store.clock.now()
        sought, most = arguments.some_text_of(name, "name of a budget"), arguments.most_of(limit)
        found = self._client._ask(lambda: budget_waits.read_budgets(sought, now, most))
        statuses = [_status(*one) for one in found]
        drawn = {one.name for one in statuses}
        statuses += [
            _status(self._undrawn(rule, now), 0, 0)
            for rule in self._client._registry.budgets.values()
            if rule.scope == "app" and rule.name not in drawn and name in (None, rule.name)
        ]
        return sorted(statuses, key=lambda one: (one.name, one.scope))

    alist = awaited(list)

    def holds(self, name: str | None = None, *, limit: int = MOST_SHOWN) -> builtins.list[HoldStatus]:
        """What tasks hold of budgets beyond their stages, the oldest first; of all budgets, or of one."""
        sought, most = arguments.some_text_of(name, "name of a budget"), arguments.most_of(limit)
        return [
            HoldStatus(task, kind, held_as, budget, scope, read_amount(amount), HOLD_STATES[state], moment(at))
            for task, held_as, budget, scope, amount, state, at, kind in self._client._ask(
                lambda: budget_waits.read_holds(sought, most)
            )
        ]

    aholds = awaited(holds)

    def set_aside(self, name: str, *, scope: str = "", limit: int = 100) -> builtins.list[SetAside]:
        """What is set aside of a budget for stages that run, the largest amounts first."""
        sought, most = arguments.text_of(name, "name of a budget"), arguments.most_of(limit)
        return [
            SetAside(task, kind, key, stage, read_amount(amount), None if since is None else moment(since))
            for task, kind, key, stage, amount, since in self._client._ask(
                lambda: budget_waits.read_reservations(sought, scope, most)
            )
        ]

    aset_aside = awaited(set_aside)

    def history(self, name: str) -> builtins.list[BudgetPoint]:
        """How a budget of the whole app has stood in the last day, oldest first: one point for every look."""
        sought = arguments.text_of(name, "name of a budget")
        since = self._client._store.clock.now() - history_samples.DAY_MS
        return [
            BudgetPoint(moment(one.at), read_amount(one.spent), read_amount(one.reserved), read_amount(one.ceiling))
            for one in self._client._ask(lambda: history_samples.budget_samples(sought, since))
        ]

    ahistory = awaited(history)

    def changes(self, name: str) -> builtins.list[LimitChange]:
        """The limits that operators have given a budget and that are in force, newest first."""
        sought = arguments.text_of(name, "name of a budget")
        return [
            LimitChange(scope, read_amount(ceiling), moment(at), author)
            for scope, ceiling, at, author in self._client._ask(lambda: budget_waits.read_limit_changes(sought))
        ]

    achanges = awaited(changes)

    def set_limit(
        self, name: str, limit: Amount, *, scope: str | None = None, author: str | None = None
    ) -> builtins.list[BudgetStatus]:
        """Give a budget another limit, from its present window on, until it is given another; a lower one, too.

        Without `scope` for everybody whom it is for, except those for whom something else was said. Tasks that wait for
        it and now fit are woken at once. What `Limits(budget=…)` has set is called `"lineage"`, and its scope is the id
        of the lineage. `author` is who does this, by default the user of this process.
        """
        by, now = checked_author(author), self._client._store.clock.now()
        arguments.text_of(name, "name of a budget")
        ceiling = amount_of(limit, f"the limit of budget {name!r}")
        whose = EVERY_SCOPE if scope is None else scope
        if name == LINEAGE and scope is None:
            raise ConfigError("the budget of which lineage? Give its id as the scope")
        if not isinstance(whose, str) or not arguments.is_held(whose) or (whose == EVERY_SCOPE and scope is not None):
            raise ConfigError(
                f"scope={arguments.shown(scope)}: it is a pipeline, a source, a lineage's id or the number of a batch"
            )

        def act() -> Op[None]:
            rule = self._client._registry.budgets.get(name)
            if rule is None and (yield from budget_waits.unit_of(name)) is None:
                raise BudgetNotFound(name, [*self._client._registry.budgets])
            said = APP if rule is not None and rule.scope == "app" else whose
            yield from budget_waits.set_limit(name, said, ceiling, by, now)

        self._client._transact(act)
        return [one for one in self.list(name) if scope is None or one.scope == scope]

    aset_limit = awaited(set_limit)

    def _undrawn(self, rule: BudgetRule, now: int) -> Account:
        limits = self._client._ask(lambda: budget_waits.limits_of(rule.name))
        window_at, ends_at = rule.window(now)
        ceiling = limits.get(APP, limits.get(EVERY_SCOPE, rule.ceiling))
        return Account(rule.name, APP, window_at, rule.unit, ceiling, ends_at=ends_at)


def _status(account: Account, held: int, waiting: int) -> BudgetStatus:
    length = None if account.ends_at is None else account.ends_at - account.window_at
    return BudgetStatus(
        name=account.name,
        scope=account.scope,
        unit=account.unit,
        per="total" if length is None else "hour" if length == 3_600_000 else "day",
        limit=read_amount(account.ceiling),
        spent=read_amount(account.spent),
        reserved=read_amount(account.reserved),
        held=read_amount(held),
        left=read_amount(account.left),
        window_at=None if length is None else moment(account.window_at),
        resets_at=None if account.ends_at is None else moment(account.ends_at),
        waiting=waiting,
        is_closed=bool(account.is_closed),
    )

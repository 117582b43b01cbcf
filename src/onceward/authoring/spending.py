"""What a stage says of money and tokens: what it has spent, and what its task holds beyond it."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from decimal import Decimal
from types import MappingProxyType
from typing import Any, Literal

from onceward.authoring.calls import Calls
from onceward.authoring.stage import MOST_WEIGHT, Stage
from onceward.authoring.worker_port import Desk
from onceward.errors import ConfigError, LeaseLost, StageEnded
from onceward.model import codec
from onceward.model.arguments import checked_whole
from onceward.model.budget import CALLS, WHOLE, Amount, Bill, Budget, Charge, amount_of, read_amount
from onceward.model.gates import WEIGHT, SourceReport, read_gates, weighed
from onceward.model.holds import NotEnough, Settlement, hold_part, holds_in
from onceward.model.outcome import Failed, WaitingForBudget
from onceward.model.task import NO_EFFECTS, Hold, Lease

pen = threading.RLock()
"""Held while an effect is handed in or effects are taken: a stage may have threads of its own. One for all contexts,
for a moment each: most never need it."""


class Spending:
    """The part of a context that is about budgets."""

    _lease: Lease
    _stage: Stage[Any, Any]
    _parts: dict[tuple[str, str], bytes]
    _desk: Desk
    _calls: Calls | None = None
    _charges: Mapping[str, int] = MappingProxyType({})
    _settlements: tuple[Settlement, ...] = ()
    _used: Mapping[str, int] = MappingProxyType({})
    _calls_charged = 0
    _has_ended = False

    def charge(self, budget: Budget | Literal["lineage"], amount: Amount) -> None:
        """Say what this stage has spent of a budget: kept with whatever else it commits, and also if it fails.

        All charges add up. What its estimate has set aside and it does not charge is free again when it ends; where it
        ends in an error and has charged nothing, all of that is spent: `ctx.charge(budget, 0)` says that nothing was.
        A stage that has an estimate and no budget charges `"lineage"`, whatever lineage it runs in.
        """
        self._refuse_if_ended()
        name = budget.name if isinstance(budget, Budget) else budget
        known = self._stage.costs.chargeable
        if name not in known:
            has = f"it has: {', '.join(known)}" if known else "it has none"
            raise ConfigError(f"stage {self._stage.name!r} does not draw from a budget {name!r}; {has}")
        what = f"what stage {self._stage.name!r} charges"
        spent = amount_of(amount, what)
        with pen:
            self._refuse_if_ended()
            amount_of(read_amount(self._charges.get(name, 0) + spent), f"{what} in all")
            self._charge(name, spent)

    def budget_left(self, budget: Budget | Literal["lineage"]) -> Decimal | None:
        """What was left of a budget when this attempt was claimed, besides what was set aside for it.

        Of one that the stage draws from, or the budget of its lineage; None if it draws from none of that name. Others
        may have spent of it since: with it a stage can end with a partial result before its children run dry.
        """
        name = budget.name if isinstance(budget, Budget) else budget
        found = [amount for known, amount in self._lease.left if known == name]
        return read_amount(min(found)) if found else None

    def used(self, **weights: int) -> None:
        """Say how many of each weight of its source this stage has used: `ctx.used(tokens=812)`. All of it adds up.

        Told to the source when the stage ends, also if it fails: what was taken and not used is there for others, and
        what was used beyond it is missing for a while. A stage that says nothing has used what it declares.
        """
        stage = self._stage
        if unknown := weights.keys() - stage.weights.keys():
            has = ", ".join(stage.weights) or "none"
            raise ConfigError(f"stage {stage.name!r} has no weight {', '.join(sorted(unknown))}; it has: {has}")
        for name, count in weights.items():
            checked_whole(f"what stage {stage.name!r} has used of {name!r}", count, 0, MOST_WEIGHT)
        with pen:
            self._refuse_if_ended()
            self._used = {**self._used, **{name: self._used.get(name, 0) + count for name, count in weights.items()}}

    def _weighed(self) -> tuple[SourceReport, ...]:
        """What the gates of the weights are told: what goes back to their buckets, or is missing from them."""
        source, lease = self._stage.source, self._lease
        if source is None or not self._used or lease.gates is None:
            return ()
        reports = []
        for gate in read_gates(lease.gates):
            name = weighed(gate.name)[0] if gate.name[0] == WEIGHT else ""
            if name in self._used and (limits := source.weight_gates.get(name)) is not None:
                unused_us = (gate.tokens - self._used[name]) * (limits.interval_us or 0)
                reports.append(SourceReport(gate.name, (), unused_us=unused_us))
        return tuple(reports)

    # What a task holds beyond its stages

    def hold(self, budget: Budget, amount: Amount, *, name: str) -> None:
        """Set aside an amount of a budget under a name, for this run of the task, until a stage settles it.

        Durable when this returns. Where the name holds something already, it is raised to `amount`, never lowered.
        Where the budget has not enough left, the stage ends here: its task waits until there is enough, as
        `Waiting` does, or fails if the budget says so. Keep what is done before with `ctx.once`.
        """
        move = self._hold(budget, amount, name)
        try:
            self._held(self._desk.keep(self._lease, move, NO_EFFECTS), move)
        except NotEnough as short:
            raise _verdict(short) from None

    async def ahold(self, budget: Budget, amount: Amount, *, name: str) -> None:
        """`hold`, awaited."""
        move = self._hold(budget, amount, name)
        try:
            self._held(await self._desk.akeep(self._lease, move, NO_EFFECTS), move)
        except NotEnough as short:
            raise _verdict(short) from None

    def held(self, budget: Budget, *, name: str) -> Decimal | None:
        """What this run of the task holds of a budget under a name; None if nothing, or if it was settled."""
        amount = self._amount_held(budget.name, name)
        return None if amount is None else read_amount(amount)

    def settle(self, budget: Budget, amount: Amount, *, name: str, keep_rest: bool = False) -> None:
        """Say what has been spent of a hold. The rest is free again, or stays held with `keep_rest=True`.

        Committed with the effects of this stage, at its end or its next checkpoint; dropped with them if it fails.
        More than was held is recorded as it is, and closes the budget.
        """
        spent = amount_of(amount, f"what stage {self._stage.name!r} settles as {name!r}")
        with pen:
            self._refuse_if_ended()
            if self._amount_held(budget.name, name) is None:
                raise ConfigError(
                    f"task {self._lease.task} holds nothing of budget {budget.name!r} as {name!r}; ctx.hold comes first"
                )
            self._settle(Settlement(budget.name, name, spent, budget.unit, keep_rest))

    def release(self, name: str) -> None:
        """Give up what is held under a name, of every budget: nothing of it was spent. Committed as `settle` is."""
        with pen:
            self._refuse_if_ended()
            for budget in holds_in(list(self._parts), name):
                self._settle(Settlement(budget, name, 0, ""))

    def _hold(self, budget: Budget, amount: Amount, name: str) -> Hold:
        """The move that sets aside a hold."""
        self._refuse_if_ended()
        stage = self._stage
        known = stage.costs.holdable
        rule = known.get(budget.name) if isinstance(budget, Budget) else None
        if rule is None:
            has = f"it may hold: {', '.join(known)}" if known else "declare it with holds=…"
            raise ConfigError(f"stage {stage.name!r} holds nothing of {budget!r}; {has}")
        wanted = amount_of(amount, f"what stage {stage.name!r} holds as {name!r}")
        codec.checked_name(name, "a hold")
        if wanted == 0 or not name:
            raise ConfigError(f"stage {stage.name!r}: a hold has a name and an amount above zero")
        passed = read_gates(self._lease.gates) if self._lease.gates else ()
        source = next((gate.name for gate in passed if gate.is_source), None)
        return Hold(stage.name, rule, name, wanted, source)

    def _held(self, accepted: bool, move: Hold) -> None:
        if not accepted:
            raise LeaseLost(f"task {self._lease.task} belongs to another attempt now; nothing was kept")
        now_held = max(move.amount, self._amount_held(move.rule.name, move.name) or 0)
        self._parts[hold_part(move.rule.name, move.name)] = str(now_held).encode()

    def _amount_held(self, budget: str, name: str) -> int | None:
        data = self._parts.get(hold_part(budget, name))
        return None if data is None else int(data)

    def _settle(self, settlement: Settlement) -> None:
        self._settlements += (settlement,)
        self._view(settlement)

    def _view_settled(self, bill: Bill) -> None:
        """Know what a stage in a process of its own has settled."""
        for settlement in bill.settlements:
            self._view(settlement)

    def _view(self, settlement: Settlement) -> None:
        part = hold_part(settlement.budget, settlement.name)
        rest = (self._amount_held(settlement.budget, settlement.name) or 0) - settlement.amount
        if settlement.keeps_rest and rest > 0:
            self._parts[part] = str(rest).encode()
        else:
            self._parts.pop(part, None)

    # What is committed

    def _charge(self, name: str, amount: int) -> None:
        self._charges = {**self._charges, name: self._charges.get(name, 0) + amount}

    def _bill(self) -> Bill | None:
        """What was charged since the last checkpoint; with nothing, where something was charged before it."""
        if not self._charges and self._calls is None:
            return Bill(settlements=self._settlements) if self._settlements else None
        units = self._stage.costs.chargeable
        made = 0 if self._calls is None else self._calls.made - self._calls_charged
        for name, unit in units.items() if made else ():
            if unit == CALLS:
                self._charge(name, made * WHOLE)
        self._calls_charged += made
        if not self._charges and not self._settlements:
            return None
        charges = tuple(Charge(name, amount, units[name]) for name, amount in self._charges.items())
        return Bill(charges, settlements=self._settlements)

    def _take_back_bill(self, bill: Bill | None) -> None:
        """Nothing of this was committed: it is charged and settled again."""
        if bill is None:
            return
        for charge in bill.charges:
            self._charge(charge.budget, charge.amount)
        for settlement in bill.settlements:
            self._settle(settlement)

    def _refuse_if_ended(self) -> None:
        if self._has_ended:
            raise StageEnded(
                f"stage {self._stage.name!r} of task {self._lease.task} has ended; it takes no more effects"
            )


def _verdict(short: NotEnough) -> Failed | WaitingForBudget:
    return Failed(short.reason) if short.waiting_for is None else WaitingForBudget(short.reason, short.waiting_for)

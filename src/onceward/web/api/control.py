"""The API of what governs work: sources, budgets, schedules, settings, pauses."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from onceward.model.payload import Payload
from onceward.model.schedule import Cron
from onceward.model.setting import SettingValue
from onceward.operations.budgets import BudgetStatus
from onceward.operations.sources import SourceStatus
from onceward.web.api import governing, schemas
from onceward.web.api.operation import Call, NoBody, NoQuery, Operation
from onceward.web.roles import Role
from onceward.web.shown import MASK


class Anything(Payload, kind="anything"):
    """A payload for expressions of cron that are only tried out."""


class CronAsked(msgspec.Struct, forbid_unknown_fields=True):
    """An expression of cron that is tried out."""

    expression: Annotated[str, Meta(max_length=200, examples=["30 2 * * *"])]
    tz: Annotated[str, Meta(max_length=100, examples=["Europe/Berlin"])] = "UTC"
    count: Annotated[int, Meta(ge=1, le=100)] = 5


async def list_sources(call: Call[NoQuery, None]) -> list[governing.SourceShown]:
    """Answer with all sources."""
    return [_source(one) for one in await call.app.sources.alist()]


async def get_source(call: Call[NoQuery, None]) -> list[governing.SourceShown]:
    """Answer with a source: one for each of its instances, or the instance that is named."""
    return [_source(one) for one in await call.app.sources.aget(call.name)]


async def enable(call: Call[NoQuery, NoBody]) -> governing.NamesChanged:
    """Open a source."""
    names = await call.app.sources.aenable(call.name)
    call.note("enabled", len(names))
    return governing.NamesChanged(names)


async def disable(call: Call[NoQuery, NoBody]) -> governing.NamesChanged:
    """Close a source."""
    names = await call.app.sources.adisable(call.name)
    call.note("disabled", len(names))
    return governing.NamesChanged(names)


async def list_budgets(call: Call[NoQuery, None]) -> list[governing.BudgetShown]:
    """Answer with all budgets."""
    return [_budget(one) for one in await call.app.budgets.alist()]


async def get_budget(call: Call[NoQuery, None]) -> list[governing.BudgetShown]:
    """Answer with a budget: one for each of those whom it is for."""
    return [_budget(one) for one in await call.app.budgets.alist(call.name)]


async def list_holds(call: Call[NoQuery, None]) -> list[governing.HoldShown]:
    """Answer with what tasks hold of budgets beyond their stages."""
    return [schemas.of(governing.HoldShown, one) for one in await call.app.budgets.aholds()]


async def set_limit(call: Call[NoQuery, governing.LimitAsked]) -> list[governing.BudgetShown]:
    """Give a budget another limit."""
    asked = call.body
    found = await call.app.budgets.aset_limit(call.name, asked.limit, scope=asked.scope, author=call.caller.name)
    call.note(f"limit {asked.limit}" + (f" for {asked.scope}" if asked.scope else ""))
    return [_budget(one) for one in found]


async def list_schedules(call: Call[NoQuery, None]) -> list[governing.ScheduleShown]:
    """Answer with all schedules."""
    return [schemas.of(governing.ScheduleShown, one) for one in await call.app.schedules.alist()]


async def pause_schedule(call: Call[NoQuery, NoBody]) -> governing.NamesChanged:
    """Let a schedule fire no more."""
    await call.app.schedules.apause(call.name)
    call.note("paused")
    return governing.NamesChanged([call.name])


async def resume_schedule(call: Call[NoQuery, NoBody]) -> governing.NamesChanged:
    """Let a schedule go on."""
    await call.app.schedules.aresume(call.name)
    call.note("resumed")
    return governing.NamesChanged([call.name])


async def run_schedule(call: Call[NoQuery, NoBody]) -> schemas.EnqueuedShown:
    """Enqueue the work of a schedule now."""
    found = await call.app.schedules.arun_now(call.name)
    call.note(f"run now: task {found.task}" if found.created else f"not run: {found.reason}", int(found.created))
    return schemas.of(schemas.EnqueuedShown, found)


async def try_cron(call: Call[CronAsked, None]) -> governing.CronTimes:
    """Answer when an expression fires next; one that cannot be meant is an error that says why."""
    asked = call.query
    cron = Cron(asked.expression, Anything(), tz=asked.tz)
    at, times = call.view.now, []
    for _ in range(asked.count):
        at = cron.next_after(at)
        times.append(datetime.fromtimestamp(at / 1_000, UTC))
    return governing.CronTimes(cron.expression, cron.tz, times)


async def list_settings(call: Call[NoQuery, None]) -> list[governing.SettingShown]:
    """Answer with all settings."""
    return [_setting(one) for one in await call.app.settings.alist()]


async def set_setting(call: Call[NoQuery, governing.SettingAsked]) -> governing.SettingShown:
    """Change a setting for all workers while they run."""
    value: Any = call.body.value
    settings = call.app.settings
    given = settings.parse(call.name, value) if isinstance(value, str) else value
    await settings.aset(call.name, given, author=call.caller.name)
    now_is = await _setting_named(call)
    call.note(f"set to {MASK if now_is.is_secret else msgspec.json.encode(now_is.value).decode()}")
    return now_is


async def unset_setting(call: Call[NoQuery, None]) -> governing.SettingShown:
    """Take back a live change of a setting."""
    if await call.app.settings.aunset(call.name):
        call.note("unset")
    return await _setting_named(call)


async def list_pauses(call: Call[NoQuery, None]) -> list[governing.PauseShown]:
    """Answer with what operators have paused."""
    return [schemas.of(governing.PauseShown, one) for one in await call.app.workers.apauses()]


async def pause(call: Call[NoQuery, governing.PauseAsked]) -> governing.ScopeShown:
    """Let nothing of a pipeline, a source or a queue begin; if none is named, nothing at all."""
    asked = call.body
    scope = await call.app.workers.apause(
        pipeline=asked.pipeline, source=asked.source, queue=asked.queue, author=call.caller.name
    )
    call.note(f"paused {scope}")
    return governing.ScopeShown(scope)


async def resume(call: Call[NoQuery, governing.PauseAsked]) -> governing.ScopeShown:
    """Let what was paused under the same name go on."""
    asked = call.body
    scope = await call.app.workers.aresume(pipeline=asked.pipeline, source=asked.source, queue=asked.queue)
    call.note(f"resumed {scope}")
    return governing.ScopeShown(scope)


def _source(one: SourceStatus) -> governing.SourceShown:
    return schemas.of(governing.SourceShown, one, state=str(one.state))


def _budget(one: BudgetStatus) -> governing.BudgetShown:
    return schemas.of(governing.BudgetShown, one)


def _setting(one: SettingValue) -> governing.SettingShown:
    hidden = {"value": MASK, "default": MASK} if one.is_secret else {}
    return schemas.of(governing.SettingShown, one, where=str(one.where), **hidden)


async def _setting_named(call: Call[NoQuery, Any]) -> governing.SettingShown:
    return next(_setting(one) for one in await call.app.settings.alist() if one.name == call.name)


SOURCE, BUDGET, SCHEDULE, SETTING = (
    f"/{what}/{{name:path}}" for what in ("sources", "budgets", "schedules", "settings")
)
ACTS: dict[str, Any] = {"role": Role.OPERATOR, "body": NoBody, "errors": (404,)}
OPERATIONS: list[Operation] = [
    Operation("GET", "/sources", list_sources, "List sources and their instances.", list[governing.SourceShown]),
    Operation("POST", f"{SOURCE}/enable", enable, "Open a source, whatever it has suffered.",
              governing.NamesChanged, **ACTS),
    Operation("POST", f"{SOURCE}/disable", disable, "Let nothing pass a source until it is enabled.",
              governing.NamesChanged, **ACTS),
    Operation("GET", SOURCE, get_source, "Look at a source.", list[governing.SourceShown], errors=(404,)),
    Operation("GET", "/budgets", list_budgets, "List budgets in their present windows.", list[governing.BudgetShown]),
    Operation("GET", "/holds", list_holds, "List what tasks hold of budgets beyond their stages.",
              list[governing.HoldShown]),
    Operation("PUT", f"{BUDGET}/limit", set_limit, "Give a budget another limit, from its present window on.",
              list[governing.BudgetShown], body=governing.LimitAsked, role=Role.ADMIN, errors=(404,),
              example={"limit": "25.00"}),
    Operation("GET", BUDGET, get_budget, "Look at a budget.", list[governing.BudgetShown]),
    Operation("GET", "/schedules", list_schedules, "List schedules.", list[governing.ScheduleShown]),
    Operation("POST", f"{SCHEDULE}/pause", pause_schedule, "Let a schedule fire no more before it is resumed.",
              governing.NamesChanged, **ACTS),
    Operation("POST", f"{SCHEDULE}/resume", resume_schedule, "Let a paused schedule go on.", governing.NamesChanged,
              **ACTS),
    Operation("POST", f"{SCHEDULE}/run", run_schedule, "Enqueue the work of a schedule now, besides its times.",
              schemas.EnqueuedShown, **ACTS),
    Operation("GET", "/cron", try_cron, "Try out an expression of cron: when does it fire next?", governing.CronTimes,
              CronAsked),
    Operation("GET", "/settings", list_settings, "List the settings in force.", list[governing.SettingShown]),
    Operation("PUT", SETTING, set_setting, "Change a setting while workers run.", governing.SettingShown,
              body=governing.SettingAsked, role=Role.ADMIN, example={"value": "90s"}),
    Operation("DELETE", SETTING, unset_setting, "Take back a live change of a setting.", governing.SettingShown,
              role=Role.ADMIN),
    Operation("GET", "/pauses", list_pauses, "List what operators have paused.", list[governing.PauseShown]),
    Operation("POST", "/pauses", pause, "Pause a pipeline, a source, a queue, or everything.", governing.ScopeShown,
              body=governing.PauseAsked, role=Role.OPERATOR, example={"pipeline": "page"}),
    Operation("POST", "/pauses/resume", resume, "Resume what was paused under the same name.", governing.ScopeShown,
              body=governing.PauseAsked, role=Role.OPERATOR, example={"pipeline": "page"}),
]  # fmt: skip

"""Every argument of every declaration, given values of every type: it is taken, or refused in a sentence that says what
is allowed. Nothing else may come of it, least of all when a task runs."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import pytest

from onceward import (
    App,
    Breaker,
    Budget,
    Config,
    ConfigError,
    Context,
    Cron,
    Isolation,
    Limits,
    Migration,
    Payload,
    Pipeline,
    Retry,
    Setting,
    Source,
    Watch,
)


class Order(Payload, kind="order"):
    number: int


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError("has no text")


def step(ctx: Context[Order]) -> int:
    return ctx.payload.number


GIVEN: dict[str, Any] = {
    "None": None,
    "True": True,
    "3": 3,
    "-1": -1,
    "0": 0,
    "0.5": 0.5,
    "nan": float("nan"),
    "huge": 10**5_000,
    "word": "soon",
    "empty": "",
    "NUL": "\x00",
    "surrogate": "\ud800",
    "bytes": b"x",
    "list": [],
    "tuple": (),
    "dict": {},
    "texts": ["soon"],
    "lists": [[]],
    "function": lambda *_: "x",
    "class": int,
    "object": object(),
    "unprintable": Unprintable(),
}


class Row(NamedTuple):
    """One argument: what it takes of the values above, and a word of the sentence that refuses the others."""

    says: str
    takes: str


def one_stage(**options: Any) -> Any:
    function = options.pop("function", step)
    return Pipeline(Order).stage(function, **options)


def last_stage(**options: Any) -> Any:
    function = options.pop("function", step)
    return Pipeline(Order).at_expiry(function, **options)


def app(**options: Any) -> App:
    return App(**{"url": "sqlite:///:memory:"} | options)


DURATION = Row("duration|no time|never pauses|keeps nothing|between 1 ms|shorter|too often|cannot be kept", "3 0.5")
TEXT = "word"
NUMBER = Row("it is a whole number from", "3")
EMPTY = "list tuple dict"

MAKERS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "Pipeline": (Pipeline.__init__, lambda **options: Pipeline(**{"payload": Order} | options)),
    "stage": (Pipeline.stage, one_stage),
    "at_expiry": (Pipeline.at_expiry, last_stage),
    "Source": (Source, lambda **options: Source(**{"name": "shop"} | options)),
    "Breaker": (Breaker, Breaker),
    "Budget": (Budget, lambda **options: Budget(**{"name": "money", "limit": 5} | options)),
    "Retry": (Retry, Retry),
    "Limits": (Limits, Limits),
    "Cron": (Cron, lambda **options: Cron(**{"expression": "* * * * *", "payload": Order(1)} | options)),
    "Setting": (
        Setting,
        lambda **options: Setting(**{"name": "a", "default": "b", "type": str, "about": "c"} | options),
    ),
    "Watch": (Watch, lambda **options: Watch(**{"name": "a", "query": "b", "above": 1, "advice": "c"} | options)),
    "Isolation": (Isolation, Isolation),
    "Migration": (Migration.__init__, lambda **options: Migration(**{"name": "a", "both": "SELECT 1"} | options)),
    "App": (App.__init__, app),
}

ROWS: dict[str, Row] = {
    "Pipeline.payload": Row("takes a class of payloads", ""),
    "Pipeline.retry": Row(r"retry=.*Retry\(retries=3\)", "None"),
    "Pipeline.priority": Row("whole number from -2 to 2", "-1 0"),
    "Pipeline.queue": Row("no name for a queue", TEXT),
    "Pipeline.version": Row("version=.*whole number from 1", "3"),
    "Pipeline.deadline": DURATION._replace(takes="None 3 0.5"),
    "Pipeline.unique": Row("'lineage', 'everywhere' or 'no'", ""),
    "Pipeline.fresh_for": Row("duration|unique='everywhere'", "None"),
    "Pipeline.cycle": Row("'identity' or 'key'", ""),
    "Pipeline.concurrency": NUMBER._replace(takes="None 3"),
    "Pipeline.key_concurrency": NUMBER._replace(takes="None 3"),
    "Pipeline.refused": Row("refused=", "None dict"),
    "stage.function": Row("a function with one argument|plain name", "None"),
    "stage.timeout": DURATION._replace(takes="None 3 0.5"),
    "stage.queue": Row("no name for a queue", f"None {TEXT}"),
    "stage.isolate": Row("'process', an Isolation or nothing", "None"),
    "stage.source": Row("it is a Source", "None"),
    "stage.calls": Row("whole number from", "None 3 0 function class"),
    "stage.budget": Row("it is a Budget", "None list tuple"),
    "stage.weights": Row("weights=", "None dict"),
    "stage.holds": Row("it is a Budget", "None list tuple"),
    "stage.estimate": Row("the estimate of stage", "None 3 0 0.5 function class"),
    "stage.join": Row("join=.*true or false", "True"),
    "at_expiry.function": Row("a function with one argument|plain name", "None"),
    "at_expiry.timeout": DURATION._replace(takes="None 3 0.5"),
    "at_expiry.source": Row("it is a Source", "None"),
    "at_expiry.calls": Row("whole number from", "None 3 0 function class"),
    "at_expiry.budget": Row("it is a Budget", "None list tuple"),
    "at_expiry.weights": Row("weights=", "None dict"),
    "at_expiry.holds": Row("it is a Budget", "None list tuple"),
    "at_expiry.estimate": Row("the estimate of stage", "None 3 0 0.5 function class"),
    "Source.name": Row("no name for a source", TEXT),
    "Source.per": Row("per=.*a function", "None function class"),
    "Source.rate": Row("a rate of", "None"),
    "Source.weights": Row("weights=", "None dict"),
    "Source.burst": Row("whole number from|without a rate", "None"),
    "Source.concurrency": NUMBER._replace(takes="None 3"),
    "Source.timeout": DURATION._replace(takes="None 3 0.5"),
    "Source.retries": Row("whole number from 0", "None 3 0"),
    "Source.breaker": Row(r"breaker=.*Breaker\(", "None"),
    "Source.cache": DURATION._replace(takes="None 3 0.5"),
    "Breaker.failures": NUMBER,
    "Breaker.pause": DURATION,
    "Breaker.disable_after": Row("whole number from", "None 3"),
    "Budget.name": Row("no name for a budget", TEXT),
    "Budget.limit": Row("the limit of budget 'money'", "3 0 0.5"),
    "Budget.unit": Row("it is one of usd", ""),
    "Budget.per": Row("it is one of total", ""),
    "Budget.scope": Row("it is one of app", ""),
    "Budget.when_spent": Row("it is one of wait", ""),
    "Retry.retries": Row("retries=.*whole number from 0", "None 3 0"),
    "Retry.base": DURATION._replace(takes="3 0 0.5"),
    "Retry.factor": Row("factor=.*between 1", "3"),
    "Retry.cap": DURATION._replace(takes="3 0 0.5"),
    "Retry.jitter": Row("jitter=.*true or false", "True"),
    "Retry.permanent": Row("a tuple of classes of errors", "tuple"),
    "Retry.transient": Row("a tuple of classes of errors", "tuple"),
    "Retry.same_errors": NUMBER._replace(takes="None 3"),
    "Retry.storm_brake": NUMBER._replace(takes="None 3"),
    "Limits.max_depth": NUMBER._replace(takes="None 3 0"),
    "Limits.max_tasks": NUMBER._replace(takes="None 3"),
    "Limits.max_children": NUMBER._replace(takes="None 3 0"),
    "Limits.deadline": DURATION._replace(takes="None 3 0.5"),
    "Limits.budget": Row("the budget of a lineage", "None 3 0 0.5"),
    "Limits.when_spent": Row("when_spent=", "None"),
    "Cron.expression": Row("is no schedule", ""),
    "Cron.payload": Row("takes a payload", ""),
    "Cron.tz": Row("no time zone", ""),
    "Cron.missed": Row("'once', 'all' or 'skip'", ""),
    "Cron.name": Row("name", f"None {TEXT}"),
    "Setting.name": Row("no name for a setting", TEXT),
    "Setting.default": Row("it is a text", f"{TEXT} empty"),
    "Setting.type": Row("it is int, float, str, bool, 'duration' or 'json'|it is a whole number", ""),
    "Setting.about": Row("say in a sentence", TEXT),
    "Watch.name": Row("no name of a watch", TEXT),
    "Watch.query": Row("its query is SQL", f"{TEXT} NUL surrogate function class"),
    "Watch.above": Row("is not a number", "3 -1 0 0.5"),
    "Watch.advice": Row("say in a sentence", TEXT),
    "Isolation.memory_mb": NUMBER._replace(takes="None 3"),
    "Isolation.cpu": DURATION._replace(takes="None 3 0.5"),
    "Isolation.file_mb": NUMBER._replace(takes="None 3"),
    "Isolation.open_files": NUMBER._replace(takes="None 3"),
    "Isolation.runs": NUMBER._replace(takes="3"),
    "Migration.name": Row("no name of a migration", TEXT),
    "Migration.both": Row("SQL or a function", f"{TEXT} function class"),
    "Migration.sqlite": Row("SQL or a function", f"None {TEXT} function class"),
    "Migration.postgres": Row("SQL or a function", f"None {TEXT} function class"),
    "App.url": Row("no database address", ""),
    "App.pipelines": Row("pipelines=.*a list of", EMPTY),
    "App.migrations": Row("migrations=.*a list of", EMPTY),
    "App.on_connect": Row("on_connect=.*a function", "None function class"),
    "App.config": Row(r"config=.*Config\(", "None"),
    "App.clock": Row("clock=", "None"),
    "App.schedules": Row("schedules=.*a list of", EMPTY),
    "App.profile": Row("the profiles are", "None"),
    "App.settings": Row("settings=.*a list of", EMPTY),
    "App.stop_list": Row(r"stop_list=.*StopList\(", "None"),
    "App.on_failure": Row("on_failure=.*a function", "None function class"),
    "App.watches": Row("watches=.*a list of", EMPTY),
}


def test_the_table_has_every_argument_of_every_declaration() -> None:
    arguments = {
        f"{owner}.{name}"
        for owner, (declaration, _) in MAKERS.items()
        for name in inspect.signature(declaration).parameters
        if name != "self"
    }
    assert arguments == ROWS.keys()


@pytest.mark.parametrize("argument", ROWS)
def test_a_wrong_value_is_refused_where_it_is_declared_and_the_sentence_says_what_is_allowed(argument: str) -> None:
    owner, name = argument.split(".")
    make, row = MAKERS[owner][1], ROWS[argument]
    for given, value in GIVEN.items():
        if given in row.takes.split():
            make(**{name: value})
            continue
        with pytest.raises(ConfigError, match=row.says):
            pytest.fail(f"{argument} takes {given}: {make(**{name: value})}")


@pytest.mark.parametrize(
    ("argument", "values"),
    [
        ("pipelines", ["soon", 3, Order, Order(1)]),
        ("schedules", ["* * * * *", Order(1)]),
        ("watches", ["SELECT 1", Retry()]),
        ("migrations", ["CREATE TABLE a (b)", Retry()]),
        ("settings", ["a", Retry()]),
    ],
)
def test_an_app_refuses_lists_of_other_things(argument: str, values: list[Any]) -> None:
    for value in values:
        with pytest.raises(ConfigError, match=f"{argument}=.*a list of"):
            app(**{argument: [value]})


async def many(ctx: Context[Order]) -> AsyncIterator[int]:
    yield 1


def some(ctx: Context[Order]) -> Iterator[int]:
    yield 1


def nothing() -> None: ...


def two(ctx: Context[Order], other: int) -> None: ...


def named(ctx: Context[Order], *, other: int) -> None: ...


def by_name(*, ctx: Context[Order]) -> None: ...


def usual(ctx: Context[Order], other: int = 3) -> None: ...


class Service:
    def step(self, ctx: Context[Order]) -> None: ...

    def __call__(self, ctx: Context[Order]) -> None: ...


@pytest.mark.parametrize("declare", ["stage", "at_expiry"])
@pytest.mark.parametrize("function", [many, some, nothing, two, named, by_name, Service, Service(), Service.step, len])
def test_a_stage_is_a_function_that_takes_its_context_alone(function: Any, declare: str) -> None:
    with pytest.raises(ConfigError, match=r"a function with one argument|it yields"):
        getattr(Pipeline(Order), declare)(function)


@pytest.mark.parametrize("function", [usual, Service().step, step])
def test_a_function_that_can_be_called_with_a_context_alone_is_a_stage(function: Any) -> None:
    assert Pipeline(Order).stage(function).name == function.__name__


def test_a_function_that_is_no_stage_is_named_with_its_arguments() -> None:
    with pytest.raises(ConfigError, match=r"^nothing\(\) .*is no stage: it is a function with one argument"):
        Pipeline(Order).stage(nothing)  # type: ignore[arg-type]


def test_a_partial_function_has_no_name_to_store() -> None:
    with pytest.raises(ConfigError, match="a function with one argument"):
        Pipeline(Order).stage(partial(usual, other=1))


def test_a_pipeline_without_stages_takes_no_work_and_does_none() -> None:
    empty = app(pipelines=[Pipeline(Order)])
    for ask in (lambda: empty.enqueue(Order(1)), lambda: empty.run(until_idle=True)):
        with pytest.raises(ConfigError, match=r"pipeline 'order' has no stages; add one with @pipeline\.stage"):
            ask()


def test_every_setting_of_the_engine_refuses_what_it_is_not() -> None:
    for name, parameter in inspect.signature(Config).parameters.items():
        for value in (object(), [], b"x", Unprintable(), float("nan")):
            with pytest.raises(ConfigError):
                pytest.fail(f"{name} takes {type(value)}: {Config(**{name: value})} ({parameter})")

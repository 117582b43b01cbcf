"""Pipelines and stages: what is refused when a program is read, and what of them its stored data depends on."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from onceward import App, ConfigError, Context, Isolation, Payload, Pipeline, UnknownKind
from onceward.errors import BadDuration
from onceward.model.outcome import SchemaMismatch


class Listing(Payload, kind="listing"):
    url: str


class Other(Payload, kind="other"):
    url: str


def pipeline(**options: Any) -> Pipeline[Listing]:
    made = Pipeline(Listing, **options)

    @made.stage
    def scrape(ctx: Context[Listing]) -> str:
        return ctx.payload.url

    @made.stage
    async def save(ctx: Context[Listing]) -> int:
        return len(ctx.result(scrape))

    return made


def test_stages_run_in_the_order_in_which_they_are_declared() -> None:
    made = pipeline()
    scrape, save = made.stages
    assert [stage.name for stage in made.stages] == ["scrape", "save"]
    assert made._stage_named(None) is scrape
    assert made._stage_named("save") is save
    assert made._stage_after(scrape) is save
    assert made._stage_after(save) is None
    assert (scrape.is_async, save.is_async) == (False, True)


def test_a_stage_has_thirty_minutes_unless_it_is_given_other_or_no_limits() -> None:
    made = Pipeline(Listing)

    @made.stage
    def usual(ctx: Context[Listing]) -> None: ...

    @made.stage(timeout="30s")
    def short(ctx: Context[Listing]) -> None: ...

    @made.stage(timeout=None)
    def endless(ctx: Context[Listing]) -> None: ...

    assert [stage._limit_ms(1_800_000) for stage in made.stages] == [1_800_000, 30_000, None]


def test_two_stages_of_one_name_are_refused() -> None:
    made = pipeline()
    with pytest.raises(ConfigError, match="pipeline 'listing' already has a stage 'scrape'"):

        @made.stage
        def scrape(ctx: Context[Listing]) -> None: ...

    assert len(made.stages) == 2


def test_two_pipelines_of_one_kind_are_refused() -> None:
    with pytest.raises(ConfigError, match="two pipelines handle kind 'listing'"):
        App("sqlite:///:memory:", [pipeline(), pipeline()])


def test_an_unknown_kind_is_refused_with_the_known_ones() -> None:
    app = App("sqlite:///:memory:", [pipeline()])
    with pytest.raises(UnknownKind, match="no pipeline handles kind 'other'; this app knows: listing"):
        app.enqueue(Other("u"))


@pytest.mark.parametrize("payload", [Payload, str, "listing", Listing("u"), None])
def test_a_pipeline_is_for_a_class_of_payloads(payload: Any) -> None:
    with pytest.raises(ConfigError, match="Pipeline takes a class of payloads"):
        Pipeline(payload)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"priority": 3}, "from -2 to 2"),
        ({"priority": -3}, "from -2 to 2"),
        ({"priority": 0.5}, "whole number"),
        ({"queue": ""}, "no name for a queue"),
        ({"queue": "a:b"}, "no name for a queue"),
        ({"queue": "!x"}, "no name for a queue"),
        ({"queue": "a\nb"}, "no name for a queue"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        Pipeline(Listing, **options)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"unique": "sometimes"}, "it is 'lineage', 'everywhere' or 'no'"),
        ({"cycle": "title"}, "it is 'identity' or 'key'"),
        ({"fresh_for": "30d"}, "fresh_for needs unique='everywhere'"),
        ({"refused": {"limits": "raise"}}, "a rule"),
        ({"refused": {"limit": "explode"}}, "'refuse', 'raise' or 'park'"),
    ],
)
def test_rules_of_spawning_that_cannot_be_meant_are_refused(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        Pipeline(Listing, **options)


def test_a_stage_needs_a_plain_name_and_time() -> None:
    made = Pipeline(Listing)
    with pytest.raises(ConfigError, match="no name for a stage"):
        made.stage(lambda ctx: None)
    for timeout, error in (("0s", ConfigError), ("soon", BadDuration)):
        with pytest.raises(error):

            @made.stage(timeout=timeout)
            def slow(ctx: Context[Listing]) -> None: ...


def test_a_stage_is_isolated_in_a_process_or_not_at_all() -> None:
    made = Pipeline(Listing)

    @made.stage(isolate="process")
    def alone(ctx: Context[Listing]) -> None: ...

    @made.stage(isolate=Isolation(memory_mb=100))
    def small(ctx: Context[Listing]) -> None: ...

    assert [stage.isolation for stage in made.stages] == [Isolation(), Isolation(memory_mb=100)]
    with pytest.raises(ConfigError, match="isolate='thread'"):

        @made.stage(isolate="thread")  # type: ignore[call-overload]
        def odd(ctx: Context[Listing]) -> None: ...


def test_a_result_type_that_cannot_be_stored_is_refused_before_work_begins() -> None:
    made = Pipeline(Listing)

    @made.stage
    def odd(ctx: Context[Listing]) -> int | set[int] | list[int]:
        return 1

    with pytest.raises(ConfigError, match=r"stage 'odd' returns .* cannot be stored"):
        App("sqlite:///:memory:", [made]).run(until_idle=True)


def test_an_annotation_that_cannot_be_read_is_refused_before_work_begins() -> None:
    made = Pipeline(Listing)

    @made.stage
    def odd(ctx: Context[Listing]) -> Missing:  # type: ignore[name-defined] # noqa: F821
        return 1

    with pytest.raises(ConfigError, match="what it returns cannot be read"):
        App("sqlite:///:memory:", [made]).run(until_idle=True)


def test_an_unknown_queue_is_refused_with_the_known_ones() -> None:
    app = App("sqlite:///:memory:", [pipeline(queue="light")])
    with pytest.raises(ConfigError, match="no stage uses the queue heavy; this app has: light"):
        app.run(queues=["heavy"], until_idle=True)


def test_the_fingerprint_is_the_same_for_the_same_code() -> None:
    assert pipeline()._fingerprint == pipeline()._fingerprint


def test_the_fingerprint_knows_version_payload_stages_and_results() -> None:
    class Result(msgspec.Struct):
        n: int

    class WiderResult(msgspec.Struct):
        n: int
        m: int = 0

    class Wider(Payload, kind="listing"):
        url: str
        pages: int = 1

    def made(payload: Any = Listing, returns: Any = Result, name: str = "scrape", version: int = 1) -> str:
        one = Pipeline(payload, version=version)

        def stage(ctx: Context[Any]) -> Any: ...

        stage.__name__ = name
        stage.__annotations__["return"] = returns
        one.stage(stage)
        return one._fingerprint

    different = {made(), made(payload=Wider), made(returns=WiderResult), made(name="fetch"), made(version=2)}
    assert len(different) == 5


def test_a_field_that_may_be_anything_has_no_schema_and_a_fingerprint_all_the_same() -> None:
    class Loose(Payload, kind="loose"):
        value: object

    class Wider(Payload, kind="loose"):
        value: object
        other: object = None

    assert Pipeline(Loose)._fingerprint == Pipeline(Loose)._fingerprint
    assert Pipeline(Loose)._fingerprint != Pipeline(Wider)._fingerprint


def test_a_task_at_a_stage_that_is_gone_does_not_fit() -> None:
    with pytest.raises(SchemaMismatch, match="stands at stage 'fetch', which pipeline 'listing' does not have: scrape"):
        pipeline()._stage_named("fetch")


def test_stored_results_must_fit_the_stages_before_the_present_one() -> None:
    made = pipeline()
    save = made.stages[1]
    made._check_stored({("scrape", ""): b'"text"'}, save)
    for parts, says in (
        ({}, "stage 'scrape' stands before 'save' now, but has no stored result"),
        ({("scrape", ""): b"7"}, "the stored result of stage 'scrape' no longer fits"),
        ({("scrape", ""): b'"a"', ("fetch", ""): b"1"}, "stage 'fetch' has finished, but pipeline 'listing' does not"),
    ):
        with pytest.raises(SchemaMismatch, match=says):
            made._check_stored(parts, save)


def test_a_payload_that_no_longer_fits_is_told_with_the_field() -> None:
    with pytest.raises(SchemaMismatch, match=r"no longer fits Listing: .*url"):
        pipeline()._read(b'{"link":"u"}', 1)
    with pytest.raises(SchemaMismatch, match="made for version 3 of 'listing', this code is version 1"):
        pipeline()._read(b'{"url":"u"}', 3)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("greetings.db", "is no database address"),
        ("mysql://host/db", "SQLite or PostgreSQL, not in 'mysql'"),
        ("sqlite://greetings.db", "three slashes"),
    ],
)
def test_a_wrong_address_is_refused_with_a_right_one(url: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        App(url)

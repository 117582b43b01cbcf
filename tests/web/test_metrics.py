"""Figures for Prometheus: in its text format, with bounded labels; dashboard and rules use those that are there."""

from __future__ import annotations

import asyncio
import json
import re

from onceward import App
from onceward.web.metrics import MEDIA, MOST_NAMES, Metric, Names, gathered
from tests.docs.pages import ROOT
from tests.web.conftest import client_of
from tests.web.shop import fill, shop

LINE = re.compile(r'[a-z_]+(\{[a-z]+="(?:[^"\\\n]|\\.)*"(,[a-z]+="(?:[^"\\\n]|\\.)*")*\})? -?[0-9.e+-]+')
NAME = re.compile(r"\bonceward_[a-z_]+")


def names_of(app: App) -> set[str]:
    return {metric.name for metric in gathered(app)}


def test_the_metrics_are_in_the_text_format_and_true(store_url: str, runner: asyncio.Runner) -> None:
    with shop(store_url) as app:
        fill(app)
        answer = client_of(app, runner).get("/metrics")
        assert answer.header("content-type") == MEDIA
        lines = answer.text.splitlines()
        assert all(LINE.fullmatch(line) for line in lines if not line.startswith("#"))
        assert len([line for line in lines if line.startswith("# TYPE")]) == len(names_of(app))
        for line in ('onceward_tasks{status="failed"} 1', 'onceward_failed_last_hour{pipeline="order"} 1',
                     'onceward_source_calls_total{source="bank"} 5',
                     'onceward_budget_limit{budget="usd",unit="usd"} 100',
                     "onceward_later_tasks 1", 'onceward_workers{state="alive"} 0'):  # fmt: skip
            assert line in lines, answer.text


def test_a_label_has_so_many_names_and_then_others() -> None:
    names = Names(f"host-{n:04}" for n in range(10_000))
    metric = Metric("onceward_x", "gauge", "x")
    for n in range(10_000):
        metric.add(1, source=names[f"host-{n:04}"])
    assert len(metric.samples) == MOST_NAMES + 1
    assert metric.samples[(("source", "other"),)] == 10_000 - MOST_NAMES


def test_a_hostile_name_breaks_no_line() -> None:
    metric = Metric("onceward_x", "gauge", "x")
    metric.add(1, source='a"} 1\nevil{x="\\\x1b[31m')
    [line] = [line for line in metric.lines() if not line.startswith("#")]
    assert LINE.fullmatch(line)


def test_the_figures_are_read_once_for_all_who_ask(store_url: str, runner: asyncio.Runner) -> None:
    with shop(store_url) as app:
        app.migrate()
        client = client_of(app, runner)
        first = client.get("/metrics").text
        app.sources.disable("bank")
        assert client.get("/metrics").text == first


def test_the_dashboard_the_rules_and_the_scaler_use_metrics_that_are_there() -> None:
    with shop("sqlite:///:memory:") as app:
        known = names_of(app)
    for file in ("grafana-dashboard.json", "prometheus-rules.yml", "keda-scaledobject.yml"):
        text = (ROOT / "deploy" / file).read_text(encoding="utf-8")
        used = {*NAME.findall(text)}
        assert used
        assert used <= known, file
    panels = json.loads((ROOT / "deploy" / "grafana-dashboard.json").read_text(encoding="utf-8"))["panels"]
    shown = {name for panel in panels for target in panel["targets"] for name in NAME.findall(target["expr"])}
    assert len(shown) > 12
    page = (ROOT / "docs" / "how-to" / "metrics.md").read_text(encoding="utf-8")
    assert not [name for name in known if f"`{name}`" not in page]

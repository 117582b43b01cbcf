"""A worker whose network is cut: it hears nothing any more, not even that its connections are gone."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import time
from collections.abc import Iterator

import pytest

from tests.faults.fleet import Fleet, wait_until
from tests.faults.judging import judge
from tests.faults.proxy import Proxy
from tests.faults.work import Steps
from tests.proof.tally import SEED

CUTS = 3
PATIENCE = "&connect_timeout=2&tcp_user_timeout=2000&keepalives_idle=1&keepalives_interval=1"


class Island:
    """A network namespace of its own, with one cable to ours."""

    def __init__(self) -> None:
        number = os.getpid() % 250
        self.name = f"onceward{os.getpid()}"
        self._cable, self._end = f"owa{os.getpid()}", f"owb{os.getpid()}"
        self.ours, self.theirs = f"10.213.{number}.1", f"10.213.{number}.2"

    def __enter__(self) -> Island:
        _ip("netns", "add", self.name)
        _ip("link", "add", self._cable, "type", "veth", "peer", "name", self._end, "netns", self.name)
        _ip("addr", "add", f"{self.ours}/30", "dev", self._cable)
        _ip("-n", self.name, "addr", "add", f"{self.theirs}/30", "dev", self._end)
        _ip("-n", self.name, "link", "set", self._end, "up")
        self.connect()
        return self

    def __exit__(self, *_: object) -> None:
        _ip("link", "del", self._cable)
        _ip("netns", "del", self.name)

    def cut(self) -> None:
        """Nothing passes any more, and nobody is told."""
        _ip("link", "set", self._cable, "down")

    def connect(self) -> None:
        """Everything passes."""
        _ip("link", "set", self._cable, "up")


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@pytest.fixture
def island() -> Iterator[Island]:
    """A place for a worker that can be cut off."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("needs root, and the program ip")
    with Island() as island:
        yield island


@pytest.mark.torture
def test_a_worker_that_is_cut_off_loses_its_tasks_and_comes_back(postgres_fleet: Fleet, island: Island) -> None:
    fleet, dice = postgres_fleet, random.Random(SEED)
    with Proxy(fleet.url, host=island.ours) as proxy:
        direct, fleet.url = fleet.url, proxy.url + PATIENCE
        inside = ("ip", "netns", "exec", island.name)
        settings = {"concurrency": 20, "poll": "200ms"}
        far = fleet.start(lease="3s", settings=settings, under=inside)
        fleet.url = direct
        near = fleet.start(lease="3s", settings=settings)
        wait_until(lambda: len(fleet.living_pids()) == 2, "the workers are there", fleet.state)
        ids: list[int] = []
        recovery_s = []
        for _ in range(CUTS):
            ids += fleet.enqueue(Steps(number, longest_ms=400) for number in range(200))
            wait_until(lambda: far.pid in fleet.busy_pids(), "the far one has work", fleet.state)
            island.cut()
            cut_at = time.monotonic()
            wait_until(lambda: fleet.ended() == len(ids), "the near one does it all", fleet.state)  # noqa: B023
            recovery_s.append(time.monotonic() - cut_at)
            time.sleep(dice.uniform(0, 1))
            island.connect()
            wait_until(lambda: set(fleet.living_pids()) == {near.pid, far.pid}, "the far one is back", fleet.state)
        fault = "network of a worker cut"
        judge(fleet, [near, far], ids, matrix="F33", fault=fault, faults=CUTS, recovery_s=recovery_s)
    assert "the database" in far.output.read_text(), "it has not noticed"

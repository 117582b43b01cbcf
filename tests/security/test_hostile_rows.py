"""Whoever can write to the database can have wrong work done, but no other code run than the workers have; and the work
of others goes on beside it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from onceward import App, Config, Context, Payload, Pipeline, Status
from onceward.store.attempts.workers import NewWorker, living_workers, register
from onceward.worker import presence
from onceward.worker.housekeeping import Housekeeping

ROOT = Path(__file__).parents[2]


class Job(Payload, kind="job", forbid_unknown_fields=True):
    name: str
    tags: tuple[str, ...] = ()


class Honest(Payload, kind="honest"):
    pass


def deep(opening: str, closing: str, levels: int = 200_000) -> bytes:
    return (opening * levels + closing * levels).encode()


CANARY = "tests.security.canary"
"""A module that must not be imported by this process: whoever does leaves a trace."""
TRACE = "ONCEWARD_CANARY"
PICKLES = (f"c{CANARY}\nsing\n(tR.".encode(), b"\x80\x04\x8c\x15" + CANARY.encode() + b"\x8c\x04sing\x93)R.")
HOSTILE_BYTES = {
    "an old pickle": PICKLES[0],
    "a pickle": PICKLES[1],
    "jsonpickle": b'{"py/reduce": [{"py/function": "tests.security.canary.sing"}, {"py/tuple": []}], "name": "x"}',
    "a class by name": b'{"__class__": "tests.security.canary.sing", "__reduce__": ["tests.security.canary.sing", []]}',
    "yaml": b"!!python/object/apply:tests.security.canary.sing []",
    "an expression": b"__import__('tests.security.canary').security.canary.sing()",
    "a template": b'{"name": "{0.__class__.__mro__}"}',
    "another type": b'{"name": {"a": 1}}',
    "no object": b"[1, 2, 3]",
    "nothing": b"",
    "half of it": b'{"name": "jo',
    "NUL": b'{"name": "\\u0000"}',
    "raw NUL": b'\x00{"name": "a"}',
    "a lone surrogate": b'{"name": "\\ud800"}',
    "no UTF-8": b'{"name": "\xff\xfe"}',
    "not a number": b'{"name": NaN}',
    "a huge number": b'{"name": 1' + b"0" * 100_000 + b"}",
    "a name twice": b'{"name": "a", "name": "b"}',
    "unknown names": b'{"name": "a", "__dict__": {}, "__kind__": "other"}',
    "deep lists": deep("[", "]"),
    "deep objects": deep('{"name":', "}"),
    "deep in a field": b'{"tags": ' + deep("[", "]") + b"}",
    "20 MB": b'{"name": "' + b"x" * 20_000_000 + b'"}',
}
"""Payloads and results as no worker of ours would write them."""
FITTING = {"a template", "NUL", "a name twice", "20 MB"}
"""Those that are, after all, what they should be."""

NAMES = (
    "tests.security.canary:sing", "tests.security.canary.sing", "os:system", "builtins.eval", "__import__('os')",
    "../../etc/passwd", "job; DROP TABLE onceward_task", "job' OR '1'='1", "__class__", "stage", "\u202egnp.exe",
    "x" * 5_000,
)  # fmt: skip


class Attack:
    """An app with honest work in it, and somebody who writes to its tables."""

    def __init__(self, url: str) -> None:
        self.ran: list[str] = []
        job, honest = Pipeline(Job), Pipeline(Honest)

        @job.stage
        def first(ctx: Context[Job]) -> Job:
            self.ran.append(f"first {ctx.payload.name[:10]}")
            return Job(ctx.payload.name[:100])

        @job.stage
        def second(ctx: Context[Job]) -> None:
            self.ran.append(f"second {ctx.result(first).name[:10]}")

        @honest.stage
        def work(ctx: Context[Honest]) -> str:
            return "done"

        self.app = App(url, [job, honest])
        self.app.prepare()
        self.honest = self.app.enqueue(Honest()).id

    def jobs(self, names: Iterable[str]) -> dict[str, int]:
        """A task for each of these names."""
        return {name: self.app.enqueue(Job(name)).id for name in names}

    def write(self, text: str, *params: Any) -> None:
        """A statement past the engine: `?` stands for a parameter on both databases."""
        session = self.app._store.session()
        text = text if session.dialect == "sqlite" else text.replace("?", "%s")
        session.opened().execute(text, params)
        session.close()

    def survives(self) -> None:
        """Have a worker do what it finds; whoever looks at it finds answers."""
        self.app.run(until_idle=True)
        assert self.app.tasks.get(self.honest).status is Status.SUCCEEDED, "the work of others goes on"
        self.app.verify()

    def statuses(self, tasks: dict[str, int]) -> dict[str, Status]:
        return {name: self.app.tasks.get(task).status for name, task in tasks.items()}


@pytest.fixture
def attack(store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Attack]:
    """Afterwards: nothing of the attacker's was run."""
    trace = tmp_path / "trace"
    monkeypatch.setenv(TRACE, str(trace))
    made = Attack(store_url)
    yield made
    made.app.close()
    assert not trace.exists(), "code was run that the database had named"
    assert CANARY not in sys.modules, "a module was imported that the database had named"


def test_the_canary_would_sing(tmp_path: Path) -> None:
    """What is written to the rows below would do harm, were it read as anything but data."""
    for number, data in enumerate(PICKLES):
        trace = tmp_path / str(number)
        code = f"import pickle; pickle.loads({data!r})"
        environment = {**os.environ, TRACE: str(trace)}
        subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, check=True, timeout=60)
        assert trace.read_text() == "sung"


def test_a_payload_is_data(attack: Attack) -> None:
    tasks = attack.jobs(HOSTILE_BYTES)
    for what, task in tasks.items():
        attack.write("UPDATE onceward_task SET payload = ? WHERE id = ?", HOSTILE_BYTES[what], task)
    attack.survives()
    assert attack.statuses(tasks) == {
        what: Status.SUCCEEDED if what in FITTING else Status.WAITING for what in HOSTILE_BYTES
    }
    assert len(attack.ran) == 2 * len(FITTING)


def test_a_stored_result_is_data(attack: Attack) -> None:
    tasks = attack.jobs(HOSTILE_BYTES)
    for what, task in tasks.items():
        attack.write(
            "INSERT INTO onceward_checkpoint (task, run, stage, part, value, at) VALUES (?, 1, 'first', '', ?, 0)",
            task,
            HOSTILE_BYTES[what],
        )
        attack.write("UPDATE onceward_task SET stage = 'second', touched = 1 WHERE id = ?", task)
    attack.survives()
    assert attack.statuses(tasks) == {
        what: Status.SUCCEEDED if what in FITTING else Status.WAITING for what in HOSTILE_BYTES
    }
    assert len(attack.ran) == len(FITTING)
    assert all(one.startswith("second") for one in attack.ran)


def test_a_kind_names_no_code(attack: Attack) -> None:
    tasks = attack.jobs(NAMES)
    for name, task in tasks.items():
        attack.write("UPDATE onceward_task SET kind = ? WHERE id = ?", name, task)
    attack.survives()
    assert set(attack.statuses(tasks).values()) == {Status.PENDING}, "they wait for a worker that knows such a kind"
    assert attack.ran == []


def test_a_stage_names_no_code(attack: Attack) -> None:
    tasks = attack.jobs(NAMES)
    for name, task in tasks.items():
        attack.write("UPDATE onceward_task SET stage = ?, touched = 1 WHERE id = ?", name, task)
    attack.survives()
    assert set(attack.statuses(tasks).values()) == {Status.WAITING}
    assert attack.ran == []


def test_an_error_that_is_stored_names_no_class(attack: Attack) -> None:
    """Reasons and notes are texts, whatever they say."""
    tasks = attack.jobs(NAMES)
    for name, task in tasks.items():
        attack.write("UPDATE onceward_task SET reason = ? WHERE id = ?", name, task)
    attack.app.tasks.cancel(next(iter(tasks.values())), reason="to have a note")
    attack.write("UPDATE onceward_attempt SET note = ?", NAMES[0])
    shown = {task.id: task.reason for task in attack.app.tasks.list(kind="job", limit=100)}
    assert {name: shown[task] for name, task in list(tasks.items())[1:]} == {name: name for name in NAMES[1:]}
    attack.survives()
    assert Status.SUCCEEDED in attack.statuses(tasks).values()


def test_what_follows_a_batch_names_no_code(attack: Attack) -> None:
    with attack.app.batch("some", then=Honest()) as batch:
        batch.add(Honest())
    attack.write(
        "UPDATE onceward_batch SET then_data = replace(CAST(then_data AS text), 'honest', 'tests.security.canary:sing')"
        if attack.app.dialect == "sqlite"
        else "UPDATE onceward_batch SET then_data = "
        "convert_to(replace(convert_from(then_data, 'UTF8'), 'honest', 'tests.security.canary:sing'), 'UTF8')"
    )
    attack.survives()
    assert [one.status for one in attack.app.tasks.list(kind="tests.security.canary:sing")] == [Status.PENDING]


def test_a_live_setting_opens_no_file(attack: Attack) -> None:
    attack.write(
        "INSERT INTO onceward_setting (name, value, at, author) VALUES (?, ?, 0, 'mallory')",
        "alert_webhook",
        "file:///etc/passwd",
    )
    attack.survives()
    assert attack.app.config.alert_webhook is None


class _Files:
    """Somebody's files, and a worker of this machine in the database who says that one of them is its presence."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "app.db-workers"
        self.folder.mkdir(mode=0o700)
        self.victim = folder / "diary.txt"
        self.victim.write_text("dear diary")
        self.inside = self.folder / "diary.txt"
        self.inside.write_text("dear diary")
        self.link = self.folder / "7-0123456789ab"
        self.link.symlink_to(self.victim)
        self.pipe = self.folder / "8-0123456789ab"
        os.mkfifo(self.pipe)


@pytest.fixture
def files(tmp_path: Path) -> _Files:
    return _Files(tmp_path)


@pytest.mark.parametrize("named", ["victim", "inside", "link", "pipe"])
def test_a_worker_of_the_database_has_no_file_opened_or_deleted(attack: Attack, files: _Files, named: str) -> None:
    path: Path = getattr(files, named)
    session = attack.app._store.session()
    new = NewWorker("mallory", socket.gethostname(), 4_000_000, str(path), "job", "default", 100)
    worker = session.transact(lambda: register(new, attack.app._store.clock.now() - 10_000))
    nobody: Any = lambda *_: None  # noqa: E731
    housekeeping = Housekeeping(
        session, Config(lease="100ms", check="1ms"), mine=list, declared_dead=nobody, suspects_found=nobody,
        presence_folder=files.folder,
    )  # fmt: skip
    while not housekeeping.reclaimed:
        housekeeping.step()
    assert [one.worker for one in housekeeping.reclaimed] == ["mallory"]
    assert worker not in {one.id for one in session.transact(living_workers)}
    session.close()
    assert (files.victim.read_text(), files.inside.read_text()) == ("dear diary", "dear diary")
    assert files.pipe.is_fifo()
    assert presence.running(path) is None or named in ("victim", "inside")
    attack.survives()


def test_the_file_of_a_real_worker_is_still_known(files: _Files) -> None:
    path = presence.new_path(files.folder)
    here = presence.Presence(path, 2)
    here.enter(7, 0, 1)
    assert presence.recorded(str(path), files.folder) == path
    assert [one.task for one in presence.running(path) or ()] == [7]
    assert not presence.is_dead(path)
    for wrong in (
        None,
        "",
        str(files.victim),
        str(files.inside),
        f"{files.folder}/../{path.name}",
        f"/tmp/{path.name}",
    ):
        assert presence.recorded(wrong, files.folder) is None
    here.remove()

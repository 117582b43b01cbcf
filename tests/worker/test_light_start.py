"""A process starts light: what most of them never need is imported by those who do, when they do."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import onceward

MOST_MODULES = 140
"""How many modules of ours, rooms included, a program imports that makes an app; most cost about a millisecond."""

HEAVY = {
    "structlog", "rich", "pygments", "attr",    # to write a line of the log
    "cyclopts",                                 # the command line
    "psycopg", "asyncpg", "sqlalchemy",         # the other database, or somebody's connection
    "sqlite3",                                  # the SQLite library of those who use it themselves
    "urllib.request", "http.client", "email",   # to tell a webhook, or to start a tick elsewhere
    "tomllib", "getpass", "ctypes", "uvloop", "importlib.resources", "importlib.metadata", "tempfile",
    "zoneinfo",                                 # for a schedule outside of UTC
    "ada_url",                                  # where an address is looked at
}  # fmt: skip

PSYCOPG_NEEDS = {"psycopg", "email", "importlib.metadata", "importlib.resources", "tempfile", "zoneinfo", "ctypes"}

SHOW = "\nimport sys\nprint(*sys.modules)"

APP = """
from onceward import App, Context, Payload, Pipeline

class Note(Payload, kind="note"):
    number: int

note = Pipeline(Note)

@note.stage
async def read(ctx: Context[Note]) -> int:
    return ctx.payload.number

@note.stage
def check(ctx: Context[Note]) -> None:
    assert ctx.result(read) == 7

app = App({url!r}, [note])
"""


def heavy_modules(code: str) -> set[str]:
    """What a fresh interpreter has imported of all that when it has run some code."""
    done = subprocess.run([sys.executable, "-c", code + SHOW], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return HEAVY & set(done.stdout.split())


def test_to_import_onceward_is_to_import_little_else() -> None:
    assert heavy_modules("import onceward") == set()


def modules_after(code: str) -> set[str]:
    """The modules of ours that a fresh interpreter has imported when it has run some code."""
    done = subprocess.run([sys.executable, "-c", code + SHOW], capture_output=True, text=True, check=True, timeout=60)
    return {name for name in done.stdout.split() if name.split(".")[0] == "onceward"}


def test_to_import_onceward_is_to_import_nothing_of_it_before_it_is_used() -> None:
    assert modules_after("import onceward") == {"onceward"}
    assert modules_after("import onceward\nassert onceward.__version__") == {"onceward"}


def test_a_program_that_asks_for_work_imports_nothing_that_works() -> None:
    found = modules_after("from onceward import App, Context, Payload, Pipeline")
    working = {f"onceward.worker.{name}" for name in ("process", "runner", "committer", "supervisor", "watcher")}
    seldom = {
        f"onceward.{name}" for name in ("store.verify", "store.sqlite", "view", "envelope", "importing", "alerts")
    }
    assert found & (working | seldom) == set()
    assert len(found) <= MOST_MODULES, (
        "more has to be imported by those who need it, when they do (onceward/support/lazily.py)"
    )


def test_a_supervisor_imports_nothing_that_runs_stages() -> None:
    found = modules_after("import onceward.worker.supervisor")
    assert found & {f"onceward.worker.{name}" for name in ("process", "runner", "committer", "isolated")} == set()


def test_every_public_name_is_found_where_type_checkers_find_it() -> None:
    tree = ast.parse(Path(onceward.__file__).read_text())
    shown = {
        (node.module, name.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("onceward.")
        for name in node.names
    }
    assert shown == {(home, name) for home, names in onceward._HOMES.items() for name in names}
    assert {name for _, name in shown} == set(onceward.__all__) <= set(dir(onceward))
    assert all(getattr(onceward, name) is not None for name in onceward.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        getattr(onceward, "nothing")  # noqa: B009 - type checkers know that it is not there


def test_a_worker_imports_what_it_works_with(store_url: str) -> None:
    app = APP.format(url=store_url)
    heavy_modules(f"{app}app.enqueue(Note(7))")  # elsewhere: who asks for work may need more
    its_own = {"ctypes", "sqlite3"} if store_url.startswith("sqlite") else PSYCOPG_NEEDS
    found = heavy_modules(f"{app}assert app.run(until_idle=True).counts.commits == 2")
    assert found - its_own - {"uvloop"} == set()


def test_the_command_line_knows_no_database_before_it_is_asked() -> None:
    code = "from onceward.cli import main\nassert main(['--help']) == 0"
    assert heavy_modules(code) & {"structlog", "psycopg", "sqlite3", "uvloop", "urllib.request"} == set()


@pytest.mark.parametrize(
    ("arguments", "unneeded"),
    [
        (["--help"], {"onceward.testing.harness", "onceward.worker.process"}),
        (["status", "--db", "sqlite:///:memory:"], {"onceward.store.verify.verify", "onceward.worker.process"}),
    ],
)
def test_a_command_imports_what_it_needs_itself(arguments: list[str], unneeded: set[str]) -> None:
    found = modules_after(f"from onceward.cli import main\nmain({arguments})")
    assert found & unneeded == set()

"""Extras: every one is used, and a module that is missing says which one brings it."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from onceward import extras
from onceward_apps import extras as apps_extras

ROOT = Path(__file__).parents[2]
TABLES = {
    ".": {module: (extra,) for module, extra in extras.EXTRA_OF.items()},
    "apps": apps_extras.EXTRAS_WITH,
}
"""For each distribution: its folder, and what it says of modules that come with extras."""
ONE_MODULE = {"opentelemetry-sdk": "opentelemetry", "opentelemetry-exporter-otlp-proto-http": "opentelemetry"}
"""Distributions that share a module with others."""
NEEDED_BY_OTHERS = {"lxml-html-clean": "trafilatura"}


def distribution(requirement: str) -> str:
    return re.split(r"[\[<>=!;~ ]", requirement)[0].lower().replace("_", "-")


def declared(folder: str) -> dict[str, set[str]]:
    """The distributions that each extra of a `pyproject.toml` brings."""
    text = (ROOT / folder / "pyproject.toml").read_text()
    declared_extras = tomllib.loads(text)["project"]["optional-dependencies"]
    return {extra: {distribution(wish) for wish in wishes} for extra, wishes in declared_extras.items()}


@pytest.mark.parametrize("folder", TABLES)
def test_every_requirement_of_an_extra_is_imported_somewhere(folder: str) -> None:
    source = "\n".join(path.read_text() for path in (ROOT / folder / "src").rglob("*.py"))
    modules = {
        name: {module for module, of in packages_distributions().items() if name in map(distribution, of)}
        for names in declared(folder).values()
        for name in names
    }
    unused = {
        name
        for name, of in modules.items()
        if not any(re.search(rf"(import|from|find_spec\(.) ?{module}\b", source) for module in of)
    }
    assert unused - set(NEEDED_BY_OTHERS) == set()


@pytest.mark.parametrize("folder", TABLES)
def test_the_table_names_every_module_of_an_extra_and_the_extras_that_bring_it(folder: str) -> None:
    brought_by = defaultdict(set)
    for extra, names in declared(folder).items():
        for name in names:
            brought_by[ONE_MODULE.get(name, name)].add(extra)
    assert {module.replace("_", "-"): set(by) for module, by in TABLES[folder].items()} == brought_by


def test_a_missing_module_says_what_to_install() -> None:
    assert extras.missing("psycopg.pq") == "psycopg.pq is not installed; it comes with pip install 'onceward[postgres]'"
    assert apps_extras.missing("psycopg.pq") == extras.missing("psycopg.pq")
    both = "it comes with pip install 'onceward-apps[documents]' or 'onceward-apps[jobfinder]'"
    assert apps_extras.missing("trafilatura") == f"trafilatura is not installed; {both}"
    assert extras.missing("nothing_of_ours") is apps_extras.missing("nothing_of_ours") is None


@pytest.mark.parametrize(
    ("module", "code", "extra"),
    [
        (
            "psycopg",
            "from onceward.cli import main; sys.exit(main(['status', '--db', 'postgresql:///x']))",
            "onceward[postgres]",
        ),
        (
            "selectolax",
            "from onceward_apps.jobfinder.cli import main; sys.exit(main(['list']))",
            "onceward-apps[jobfinder]",
        ),
    ],
)
def test_a_command_without_its_extra_ends_with_that_sentence(module: str, code: str, extra: str) -> None:
    hide = f"import sys; sys.modules[{module!r}] = None; "
    done = subprocess.run([sys.executable, "-c", hide + code], capture_output=True, text=True, check=False)
    assert done.returncode in (1, 2)
    assert f"pip install '{extra}'" in done.stderr
    assert "Traceback" not in done.stderr

"""Extras: every one is used, and a module that is missing says which one brings it."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from onceward.extras import EXTRA_OF, missing

ROOT = Path(__file__).parents[2]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
NEEDED_BY_OTHERS = {"lxml-html-clean": "trafilatura"}


def distribution(requirement: str) -> str:
    return re.split(r"[\[<>=!;~ ]", requirement)[0].lower().replace("_", "-")


def test_every_requirement_of_an_extra_is_imported_somewhere() -> None:
    source = "\n".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    modules = {
        name: {module for module, found in packages_distributions().items() if name in map(distribution, found)}
        for requirements in EXTRAS.values()
        for name in map(distribution, requirements)
    }
    unused = {
        name
        for name, of in modules.items()
        if not any(re.search(rf"(import|from|find_spec\(.) ?{module}\b", source) for module in of)
    }
    assert unused - set(NEEDED_BY_OTHERS) == set()


def test_the_table_names_every_module_of_an_extra_and_the_extra_that_brings_it() -> None:
    brings = {extra: {distribution(one) for one in requirements} for extra, requirements in EXTRAS.items()}
    assert set(EXTRA_OF.values()) == set(brings)
    assert {name for names in brings.values() for name in names} == {one.replace("_", "-") for one in EXTRA_OF}
    for module, extra in EXTRA_OF.items():
        assert module.replace("_", "-") in brings[extra], module


def test_a_missing_module_says_what_to_install() -> None:
    assert missing("psycopg.pq") == "psycopg.pq is not installed; it comes with pip install 'onceward[postgres]'"
    assert missing("nothing_of_ours") is None


@pytest.mark.parametrize(
    ("module", "code", "extra"),
    [
        ("psycopg", "from onceward.cli import main; sys.exit(main(['status', '--db', 'postgresql:///x']))", "postgres"),
        ("selectolax", "from onceward_apps.jobfinder.cli import main; sys.exit(main(['list']))", "http"),
    ],
)
def test_a_command_without_its_extra_ends_with_that_sentence(module: str, code: str, extra: str) -> None:
    hide = f"import sys; sys.modules[{module!r}] = None; "
    done = subprocess.run([sys.executable, "-c", hide + code], capture_output=True, text=True, check=False)
    assert done.returncode in (1, 2)
    assert f"pip install 'onceward[{extra}]'" in done.stderr
    assert "Traceback" not in done.stderr

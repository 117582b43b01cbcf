"""What pyproject.toml asks for is what the source imports, and its lowest versions are those that are tried."""

from __future__ import annotations

import ast
import re
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

ROOT = Path(__file__).parents[2]
DISTRIBUTIONS = (ROOT, ROOT / "apps")
PROJECTS = [tomllib.loads((of / "pyproject.toml").read_text(encoding="utf-8"))["project"] for of in DISTRIBUTIONS]
NOT_IMPORTED = {"lxml-html-clean": "trafilatura does not import without it under older pips"}


def asked_for() -> dict[str, str]:
    """Every package of the core and of all extras, with its lowest version."""
    extras = [extra for project in PROJECTS for extra in project["optional-dependencies"].values()]
    engine, applications = (project["dependencies"] for project in PROJECTS)
    assert applications == [f"onceward=={PROJECTS[0]['version']}"], "equal versions"
    wishes = [*engine, *(wish for extra in extras for wish in extra)]
    found = [re.match(r"([\w-]+)(?:\[\w+\])?>=([\d.]+)", wish) for wish in wishes]
    assert all(found), "each says from which version on"
    return {one[1].lower().replace("_", "-"): one[2] for one in found if one}


def imported() -> set[str]:
    """Every package that some module of the source imports."""
    modules = set()
    for path in (path for of in DISTRIBUTIONS for path in (of / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                modules |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                modules.add(node.module.partition(".")[0])
            elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("find_spec", "import_module"):
                modules |= {one.value for one in node.args if isinstance(one, ast.Constant)}
    packages = packages_distributions()
    return {name.lower().replace("_", "-") for module in modules for name in packages.get(module, ())}


def test_no_package_is_asked_for_that_nothing_imports() -> None:
    assert set(asked_for()) - imported() == set(NOT_IMPORTED)


def test_the_lowest_versions_that_are_allowed_are_tried() -> None:
    text = (ROOT / "requirements-lowest.txt").read_text(encoding="utf-8")
    pinned = dict(re.findall(r"^([\w.-]+)==([\w.]+)", text, re.M))
    low = asked_for()
    higher = {name: version for name, version in low.items() if not f"{pinned[name]}.".startswith(f"{version}.")}
    assert higher == {}, "no such version can be installed; or delete requirements-lowest.txt and run: make lock"
    assert text.count("--hash=sha256:") > len(pinned)
    assert "://" not in text

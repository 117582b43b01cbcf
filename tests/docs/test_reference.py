"""What can be looked up is all there: public names, settings, errors, tables, commands; and links lead somewhere."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

import onceward
from onceward import Config, Event, Status, errors
from onceward.cli.commands import command_line, with_commands_for
from onceward.model.status import TRANSITIONS
from onceward.store import queries
from tests.docs import api_page
from tests.docs.pages import PAGES, ROOT, blocks_of, name_of

LAYERS = ("model", "store", "worker")
REFERENCE = ROOT / "docs" / "reference"
TEXTS = {page: page.read_text(encoding="utf-8") for page in PAGES}

_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
_CREATE = re.compile(r"CREATE TABLE (?:IF NOT EXISTS )?(onceward_\w+) \((.*?)\n\)", re.S)
_FENCED = re.compile(r"^ *```.*?^ *```", re.S | re.M)


def test_the_page_of_public_names_is_what_signatures_and_docstrings_say() -> None:
    said = api_page.PAGE.read_text(encoding="utf-8")
    assert said == api_page.page(), "run: python -m tests.docs.api_page"


def test_every_method_that_waits_for_the_database_has_an_awaited_form() -> None:
    without = {
        f"app.{name}.{method}"
        for name, space in api_page.namespaces().items()
        for method, value in vars(space).items()
        if inspect.isfunction(value) and method[0] not in "_a" and not hasattr(space, f"a{method}")
    }
    assert without == {"app.settings.parse"}, "it reads a text and asks no database"


def test_every_setting_is_in_the_reference_with_its_default() -> None:
    rows = _table_rows((REFERENCE / "configuration.md").read_text(encoding="utf-8"))
    for one in fields(Config):
        if one.init:
            usual = getattr(Config(), one.name)
            default = f'"{usual}"' if isinstance(usual, str) else str(usual)
            assert [f"`{one.name}`", f"`{default}`", f"`ONCEWARD_{one.name.upper()}`"] in [row[:3] for row in rows]


@pytest.mark.parametrize(
    "function",
    [onceward.Pipeline, onceward.Pipeline.stage, onceward.Retry],
    ids=lambda one: one.__name__,
)
def test_every_argument_of_this_version_is_in_the_reference(function: object) -> None:
    rows = _table_rows((REFERENCE / "configuration.md").read_text(encoding="utf-8"))
    documented = {row[0].strip("`") for row in rows}
    later = {
        "self", "payload", "function", "deadline", "unique", "fresh_for", "cycle", "concurrency", "source", "calls",
        "join",
    }  # fmt: skip
    assert set(inspect.signature(function).parameters) - later <= documented  # type: ignore[arg-type]


def test_every_error_is_in_the_tree_below_its_parent_and_has_advice() -> None:
    page = (REFERENCE / "errors.md").read_text(encoding="utf-8")
    tree = next(block.text for block in blocks_of(REFERENCE / "errors.md") if "├──" in block.text)
    found = {(match[2], len(match[1]) // 4) for match in re.finditer(r"^([│├└─ ]*)(\w+)", tree, re.M)}
    advised = {name for row in _table_rows(page) for name in re.findall(r"`(\w+)`", row[0])}
    for name, error in vars(errors).items():
        if inspect.isclass(error) and issubclass(error, errors.OncewardError):
            assert (name, len(error.__mro__) - len(errors.OncewardError.__mro__)) in found
            assert name in advised or error is errors.OncewardError


@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
def test_every_table_and_column_is_in_the_reference(dialect: queries.Dialect) -> None:
    page = (REFERENCE / "tables.md").read_text(encoding="utf-8")
    sections = dict(re.findall(r"^### `(\w+)`\n(.*?)(?=^##|\Z)", page, re.S | re.M))
    tables = dict(_tables(dialect))
    assert len(tables) > 20
    for table, columns in tables.items():
        assert table in sections, f"{table} is nowhere"
        missing = [column for column in columns if f"`{column}`" not in sections[table]]
        assert not missing, f"{table}: {missing}"


def test_the_numbers_of_statuses_and_events_are_in_the_reference() -> None:
    page = (REFERENCE / "tables.md").read_text(encoding="utf-8")
    rows = [row for row in _table_rows(page) if len(row) == 6]
    assert {(row[0], row[1]) for row in rows if row[0].isdigit()} == {(str(int(one)), one.word) for one in Status}
    events = {int(row[3]): (row[4], row[5]) for row in rows if row[3].isdigit()}
    assert set(events) == {int(one) for one in Event}
    for event in Event:
        name, moves = events[int(event)]
        assert name.startswith(event.word)
        assert (moves == "nothing") == (event not in TRANSITIONS)


def test_every_command_is_in_the_documentation() -> None:
    with_commands_for([])
    names = [name for name in command_line if not name.startswith("-")]
    assert len(names) > 10
    assert not [name for name in names if f"onceward {name}" not in "".join(TEXTS.values())]


def test_every_decision_is_in_the_list() -> None:
    folder = ROOT / "docs" / "decisions"
    listed = re.findall(r"\]\((\d{4}-[\w-]+\.md)\)", (folder / "README.md").read_text(encoding="utf-8"))
    assert listed == sorted(path.name for path in folder.glob("0*.md"))


def test_the_events_of_the_log_that_are_explained_are_logged() -> None:
    page = TEXTS[ROOT / "docs" / "how-to" / "operate.md"]
    section = page[page.index("## Logs") : page.index("## For scripts")]
    source = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "src" / "onceward").rglob("*.py"))
    events = [row[0].strip("`") for row in _table_rows(section)[2:]]
    assert events
    assert not [event for event in events if f'"{event}"' not in source]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    for link in _LINK.findall(_FENCED.sub("", TEXTS[page])):
        if link.startswith(("https://", "http://", "mailto:")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{name_of(page)}: {link} leads nowhere"
        if anchor:
            assert anchor in set(_anchors(target.read_text(encoding="utf-8"))), f"{name_of(page)}: no {link}"


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached, left = set[Path](), [ROOT / "README.md"]
    while left:
        page = left.pop()
        if page not in reached:
            reached.add(page)
            links = [link.partition("#")[0] for link in _LINK.findall(page.read_text(encoding="utf-8"))]
            left += [(page.parent / link).resolve() for link in links if link.endswith(".md") and "://" not in link]
    assert not [name_of(page) for page in PAGES if page not in reached and page.name != "README.md"]


def test_the_architecture_names_every_file_and_no_other() -> None:
    package = ROOT / "src" / "onceward"
    text = TEXTS[ROOT / "docs" / "explanation" / "architecture.md"]
    named = set(re.findall(r"`((?:model|store|worker)/[\w/]+\.py)`", text))
    there = {path.relative_to(package).as_posix() for layer in LAYERS for path in (package / layer).rglob("*.py")}
    assert named == {path for path in there if not path.endswith("__init__.py")}


def _table_rows(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]


def _tables(dialect: queries.Dialect) -> Iterator[tuple[str, list[str]]]:
    statements = [statement for _, _, step in queries.migrations(dialect) for statement in step]
    statements.append(queries.queries(dialect)["create_schema_table"])
    for statement in statements:
        for table, body in _CREATE.findall(statement):
            yield table, re.findall(r"^ {4}([a-z_]+) ", body, re.M)


def _anchors(text: str) -> Iterator[str]:
    """The anchors of headings, as they are made on GitHub."""
    for heading in re.findall(r"^#+ (.+)$", _FENCED.sub("", text), re.M):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        yield re.sub(r"[^\w\- ]", "", plain.strip().lower()).replace(" ", "-")


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "decisions").glob("0*.md")), ids=lambda page: page.stem[:4])
def test_a_decision_names_the_code_that_carries_it_out(page: Path) -> None:
    """That the files exist is what `test_links_lead_somewhere` checks."""
    assert re.search(r"^\*\*Code\.\*\* \[`", TEXTS[page], re.M)


def test_every_store_rule_that_comments_cite_is_explained() -> None:
    page = TEXTS[ROOT / "docs" / "explanation" / "store-rules.md"]
    explained = set(re.findall(r"^## (R\d+): ", page, re.M))
    sources = [path for ext in ("py", "sql") for path in (ROOT / "src" / "onceward").rglob(f"*.{ext}")]
    cited = {rule for path in sources for rule in re.findall(r"\bR\d{1,2}\b", path.read_text(encoding="utf-8"))}
    assert cited <= explained == {f"R{number}" for number in range(1, 15)}


def test_contributing_names_files_that_exist() -> None:
    text = TEXTS[ROOT / "CONTRIBUTING.md"].split("## Where would you add")[1].split("\n## ")[0]
    named = set(re.findall(r"`([\w/]+/[\w]+\.py)`", text))
    roots = (ROOT, ROOT / "src", ROOT / "src" / "onceward")
    assert not [path for path in named if not any((root / path).is_file() for root in roots)]


def test_every_station_of_the_tour_is_a_function_that_exists() -> None:
    ways = TEXTS[ROOT / "docs" / "explanation" / "tour.md"].split("\n## ")[1:]
    for way in ways:
        stations = re.findall(
            r"^\d\. \[`([\w/]+\.py)` · `([\w.]+)`\]\(\.\./\.\./src/onceward/([\w/]+\.py)\)", way, re.M
        )
        assert len(stations) == len(re.findall(r"^\d\. ", way, re.M)) <= 8, "every station is a link to a function"
        for file, function, linked in stations:
            assert file == linked
            assert function in _functions_of(file), f"{file} has no {function}"


def _functions_of(file: str) -> set[str]:
    """The functions and methods of a file of the engine, as `Class.method`."""
    found: set[str] = set()
    for node in ast.parse((ROOT / "src" / "onceward" / file).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.ClassDef):
            methods = (one for one in node.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef))
            found |= {f"{node.name}.{one.name}" for one in methods}
    return found

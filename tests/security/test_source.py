"""What the source itself shows: no SQL is made of strings, and nothing that was stored names code."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from functools import cache
from itertools import chain
from pathlib import Path

import pytest

pytestmark = pytest.mark.xdist_group("source")  # one process reads it, once

SOURCE = Path(__file__).parents[2] / "src" / "onceward"
RUNS_SQL = {
    "execute", "executemany", "executescript", "exec_", "aexecute", "_run_text", "run_text", "fetch", "copy",
    "send_query", "send_query_params",
}  # fmt: skip
"""What hands a text to a database, by the name of the method."""

NAMED = "the text of a named query"
PORTIONS = "the text of a named query, with its rows in portions"
FRAMES = {"_FRAMES[self.dialect, self.state()]", "_FRAMES[self.dialect, await self.astate()]"}
ALLOWED: dict[tuple[str, str], tuple[set[str], str]] = {
    ("store/drivers/sqlite.py", "text"): ({"_STATEMENTS[request.name].text"}, NAMED),
    ("store/drivers/sqlite.py", "*part"): ({"each of in_portions(request)"}, PORTIONS),
    ("store/drivers/sqlite.py", "f'PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}'"): (
        set(),
        "a constant of this module",
    ),
    ("store/drivers/sqlite.py", "f'PRAGMA journal_size_limit = {LARGEST_LOG}'"): (set(), "a constant of this module"),
    ("store/drivers/sqlite3_client.py", "text"): ({"_STATEMENTS[request.name].text"}, NAMED),
    ("store/drivers/sqlite3_client.py", "*part"): ({"each of in_portions(request)"}, PORTIONS),
    ("store/drivers/wire.py", "text.encode()"): ({"given"}, "what it is given is looked at where that is done"),
    ("store/drivers/wire.py", "b'DEALLOCATE ' + oldest"): (
        {"self._names.pop(next(iter(self._names)))"},
        "a number of ours",
    ),
    ("store/drivers/postgres.py", "text"): ({"given"}, "what _run_text is given is looked at where that is done"),
    ("store/drivers/postgres.py", "_IN_WORDS['commit'].text"): (set(), NAMED),
    ("store/drivers/postgres.py", "_BY_NAME['hold_lock'].text"): (set(), NAMED),
    ("store/drivers/postgres.py", "_BEGIN_WITH_RECEIPT.format(token=_as_text(token), now=now)"): (
        set(),
        "digits alone",
    ),
    (
        "store/drivers/postgres.py",
        "_BEGIN_AFTER_ANOTHER.format(token=_as_text(token), now=now, before=_as_text(before))",
    ): (set(), "digits alone"),
    ("store/verify/verify.py", "text"): (
        {"queries.spell_out(queries.queries(session.dialect)[name], session.dialect)"},
        NAMED,
    ),
    ("store/drivers/migrate.py", "statement"): (
        {"given"},
        "a step of the schema: ours, or the application's own migration",
    ),
    ("store/drivers/lent_connection.py", "sql"): (
        {"given"},
        "what a function of the application says, to which the connection is lent",
    ),
    ("store/drivers/caller_connection.py", "text"): ({"given"}, "a named query, in the words of the caller's driver"),
    ("store/drivers/caller_driver.py", "text"): (
        {"each of frame.undo", "each of self._statements_for(request)"},
        "a named query, in the words of the caller's driver",
    ),
    ("store/drivers/caller_driver.py", "frame.begin"): (FRAMES, "a constant of this module"),
    ("store/drivers/caller_driver.py", "frame.keep"): (FRAMES, "a constant of this module"),
    ("model/sql_text.py", "self.on(connection.dialect)"): ({"given"}, "the text of `sql(…)`: code of the application"),
    ("views/alerts.py", "text"): (
        {"self.query.replace('%', '%%') if connection.dialect == 'postgres' else self.query"},
        "the query of a watch: code of the application",
    ),
}
"""What is no constant: all that it is made of where it is used, and why no data could have brought that."""

SQL = re.compile(
    r"\b(SELECT\s.+\sFROM|INSERT\s+INTO|UPDATE\s+\w+\s+SET|DELETE\s+FROM|CREATE\s+(TABLE|INDEX)|ALTER\s+TABLE|"
    r"DROP\s+TABLE|TRUNCATE|PRAGMA|SAVEPOINT|LISTEN|NOTIFY|SET\s+\w+\s*=)",
    re.S,
)
PUT_TOGETHER = {"f'PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}'", "f'PRAGMA journal_size_limit = {LARGEST_LOG}'"}
"""What is made of constants of its own module."""
WRITES_TEXTS = {"store/queries.py": "it writes out the short forms of named queries, from the .sql files alone"}

NAMES_CODE = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "jsonpickle", "yaml", "code", "codeop", "runpy"}
RUNS_CODE = {
    "eval", "exec", "compile", "__import__", "globals", "os.system", "os.popen", "builtins.eval", "builtins.exec",
}  # fmt: skip
IMPORTS_BY_NAME = {
    "__init__.py": "the modules of its own table",
    "support/lazily.py": "modules that are named by constants where it is used",
    "cli/commands.py": "the modules of its own table",
    "worker/find_app.py": "the app, by the word of whoever starts a worker",
    "worker/isolated.py": "functions given to ctx.write, by the word of a process of this very worker",
}


@cache
def trees() -> dict[str, ast.Module]:
    return {str(path.relative_to(SOURCE)): ast.parse(path.read_text(encoding="utf-8")) for path in SOURCE.rglob("*.py")}


def calls(tree: ast.AST) -> Iterator[tuple[ast.Call, str]]:
    """Every call, and the name of what is called."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield node, node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def is_fixed(node: ast.AST) -> bool:
    """Whether an expression is a text that stands there."""
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def statements(tree: ast.Module) -> dict[str, set[str]]:
    """What is handed to a database and is no constant; and all that it is made of in the functions that do so."""
    found: dict[str, set[str]] = {}
    constants = named_texts(tree)
    for place in (tree, *ast.walk(tree)):
        if isinstance(place, ast.FunctionDef | ast.AsyncFunctionDef | ast.Module):
            for call, name in calls(place):
                if name not in RUNS_SQL or not isinstance(call.func, ast.Attribute) or not call.args:
                    continue
                if ast.unparse(call.func) == "copy.copy":  # of the standard library: it copies an object
                    continue
                text = call.args[0]
                if not is_fixed(text) and not (isinstance(text, ast.Name) and text.id in constants):
                    found.setdefault(ast.unparse(text), set()).update(made_of(text, place))
    return found


def named_texts(tree: ast.Module) -> set[str]:
    """The constants of a module that are texts which stand there."""
    return {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign) and is_fixed(node.value)
        for target in node.targets
        if isinstance(target, ast.Name) and target.id.isupper()
    }


def made_of(text: ast.expr, place: ast.FunctionDef | ast.AsyncFunctionDef | ast.Module) -> set[str]:
    """Every expression that the name in a text stands for in a function; “given” where it is a parameter."""
    names = {part.id for part in ast.walk(text) if isinstance(part, ast.Name)}
    names = {name for name in names if not name.startswith("_") and not name.isupper()} - {"now", "token", "before"}
    if isinstance(place, ast.Module):
        return set()
    arguments = {one.arg for one in (*place.args.args, *place.args.kwonlyargs)}
    found = {"given" for name in names if name in arguments and name != "self"}
    for node in ast.walk(place):
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr | ast.AugAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(one, ast.Name) and one.id in names for one in targets):
                found.add(ast.unparse(node.value))
        elif isinstance(node, ast.For | ast.AsyncFor | ast.comprehension) and names & {
            one.id for one in ast.walk(node.target) if isinstance(one, ast.Name)
        }:
            found.add(f"each of {ast.unparse(node.iter)}")
    return found


def problems_of_statements(file: str, tree: ast.Module) -> Iterator[str]:
    """Where something is handed to a database that is neither a constant nor the text of a named query."""
    for text, origins in statements(tree).items():
        if ALLOWED.get((file, text), (None,))[0] != origins:
            yield f"{file}: a database is handed {text}, made of {sorted(origins)}; name it in a .sql file"


def problems_of_texts(file: str, tree: ast.Module) -> Iterator[str]:
    """Where a text of SQL is put together, whoever it is for."""
    for node in ast.walk(tree):
        pieces: list[ast.expr] = []
        if isinstance(node, ast.JoinedStr):
            pieces = node.values
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Mod):
            pieces = [node.left, node.right]
        elif (
            isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("format", "join")
        ):
            listed = [one.elts if isinstance(one, ast.List | ast.Tuple) else [one] for one in node.args]
            pieces = [node.func.value, *chain.from_iterable(listed)]
        is_whole = all(is_fixed(one) for one in pieces) and not isinstance(node, ast.Call)
        texts = [one.value for one in pieces if isinstance(one, ast.Constant) and isinstance(one.value, str)]
        written = ast.unparse(node) if not is_whole and any(SQL.search(text) for text in texts) else None
        if written is not None and file not in WRITES_TEXTS and written not in PUT_TOGETHER:
            yield f"{file}: SQL is put together: {written}"


def problems_of_names(file: str, tree: ast.Module) -> Iterator[str]:
    """Where a query is asked for by a name that does not stand in the source."""
    for call, name in calls(tree):
        if name in ("Query", "Many") and isinstance(call.func, ast.Name):
            given = call.args[0]
            is_chosen = isinstance(given, ast.Name) or any(map(is_fixed, ast.walk(given)))  # a line above, or by an if
            if not is_chosen or isinstance(given, ast.JoinedStr | ast.BinOp | ast.Subscript | ast.Attribute):
                yield f"{file}: a query is asked for by a made name: {ast.unparse(call)}"


def problems_of_code(file: str, tree: ast.Module) -> Iterator[str]:
    """Where something that was stored could name code."""
    for node in ast.walk(tree):
        imported: list[str] = []
        if isinstance(node, ast.Import):
            imported = [one.name for one in node.names]
        elif isinstance(node, ast.ImportFrom):
            imported = [node.module or ""]
        for name in imported:
            if name.partition(".")[0] in NAMES_CODE:
                yield f"{file}: imports {name}"
    for call, name in calls(tree):
        called = ast.unparse(call.func)
        if called in RUNS_CODE:
            yield f"{file}: runs code: {ast.unparse(call)}"
        if (
            name in ("import_module", "spec_from_file_location", "resolve_name", "exec_module")
            and file not in IMPORTS_BY_NAME
        ):
            yield f"{file}: imports by name: {ast.unparse(call)}"
        for keyword in call.keywords:
            if keyword.arg == "shell" and not (
                isinstance(keyword.value, ast.Constant) and keyword.value.value is False
            ):
                yield f"{file}: starts a shell: {ast.unparse(call)}"
            if keyword.arg in ("dec_hook", "ext_hook"):
                yield f"{file}: values are read by a hook: {ast.unparse(call)}"


LINTS = (problems_of_statements, problems_of_texts, problems_of_names, problems_of_code)


@pytest.mark.parametrize("lint", LINTS, ids=lambda one: one.__name__)
def test_the_source_has_none_of(lint: Callable[[str, ast.Module], Iterator[str]]) -> None:
    assert [problem for file, tree in trees().items() for problem in lint(file, tree)] == []


def test_every_exception_is_still_needed() -> None:
    found = {(file, text) for file, tree in trees().items() for text in statements(tree)}
    assert found == ALLOWED.keys(), "what is gone is taken from the list"
    assert IMPORTS_BY_NAME.keys() == {
        file for file, tree in trees().items() for _, name in calls(tree) if name == "import_module"
    }
    portions = next(
        node
        for node in ast.walk(trees()["store/drivers/sqlite.py"])
        if isinstance(node, ast.FunctionDef) and node.name == "in_portions"
    )
    assert "yield (queries.text_for_rows(request.name, size), " in ast.unparse(portions), PORTIONS


SEEDED = {
    "an f-string": (problems_of_statements, "def f(c, kind): c.execute(f'SELECT 1 FROM t WHERE kind = {kind}')"),
    "a name that was an f-string": (problems_of_statements, "def f(c, k):\n  text = f'SELECT {k}'\n  c.execute(text)"),
    "a sum": (problems_of_statements, "def f(c, kind): c.execute('SELECT 1 FROM t WHERE kind = ' + kind)"),
    "a percent sign": (problems_of_statements, "async def f(c, kind): await c.execute('DELETE FROM %s' % kind)"),
    "a format": (problems_of_statements, "def f(c, kind): c.executemany('DELETE FROM {}'.format(kind), [])"),
    "a parameter": (problems_of_statements, "def f(c, text): c.execute(text)"),
    "a row": (problems_of_statements, "def f(c):\n  for row in c.execute('SELECT x FROM t'): c.execute(row[0])"),
    "at the top of a module": (problems_of_statements, "connection.execute(text)"),
    "a script": (problems_of_statements, "def f(c, text): c.executescript(text)"),
    "SQL for later": (problems_of_texts, "def f(table): return f'DELETE FROM {table}'"),
    "SQL of a sum": (problems_of_texts, "QUERY = 'SELECT a FROM t WHERE b = ' + name"),
    "SQL that is joined": (problems_of_texts, "QUERY = ' AND '.join(['SELECT a FROM t', *more])"),
    "SQL with a gap": (problems_of_texts, "QUERY = 'INSERT INTO {} VALUES (1)'.format(table)"),
    "a made name of a query": (problems_of_names, "def f(kind): yield Query(f'claim_{kind}', {})"),
    "a name of a query from a row": (problems_of_names, "def f(row): yield Many(row.name, [])"),
    "pickle": (problems_of_code, "import pickle"),
    "from pickle": (problems_of_code, "def f(data):\n  from pickle import loads\n  return loads(data)"),
    "marshal": (problems_of_code, "import marshal as m"),
    "yaml": (problems_of_code, "import yaml.loader"),
    "eval": (problems_of_code, "def f(text): return eval(text)"),
    "exec": (problems_of_code, "exec(compile(text, 'x', 'exec'))"),
    "builtins": (problems_of_code, "def f(text): return builtins.eval(text)"),
    "an import by name": (problems_of_code, "def f(row): return importlib.import_module(row.kind)"),
    "another": (problems_of_code, "def f(row): return __import__(row.kind)"),
    "a third": (problems_of_code, "def f(row): return pkgutil.resolve_name(row.kind)"),
    "a shell": (problems_of_code, "subprocess.run(line, shell=True)"),
    "a system call": (problems_of_code, "os.system(line)"),
    "a hook": (problems_of_code, "msgspec.json.Decoder(Any, dec_hook=make)"),
}
"""What the lints must find, in a file of its own."""


@pytest.mark.parametrize("what", SEEDED)
def test_what_must_not_be_is_found(what: str) -> None:
    lint, text = SEEDED[what]
    assert list(lint("store/seeded.py", ast.parse(text)))


def test_what_may_be_is_not_found() -> None:
    text = (
        "def f(c, kind):\n  c.execute('SELECT 1 FROM t WHERE kind = ?', (kind,))\n  yield Query('claim', {'x': kind})"
    )
    assert [problem for lint in LINTS for problem in lint("store/seeded.py", ast.parse(text))] == []

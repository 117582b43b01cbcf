"""Finding an app again in another process: `module:name`, or `path/to/file.py:name` for one made in a script."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from typing import Any

from onceward.authoring.current_stage import importing
from onceward.errors import ConfigError

MAIN_ALIAS = "__onceward_main__"
"""A script is loaded under this name in other processes, so that its `if __name__ == "__main__"` rests."""


def load(location: str, needed_by: str = "a command") -> Any:
    """The app at a location. Its module may begin no work while it is imported."""
    where, _, name = location.rpartition(":")
    if not where or not name:
        raise ConfigError(f"{location!r} names no app; write module:name, for example {_likely(location)}")
    with importing(Path(where).name, needed_by):
        module = _module_of_file(Path(where)) if where.endswith(".py") else _module(where)
    try:
        found = getattr(module, name)
    except AttributeError:
        raise ConfigError(f"{where} has no {name!r}; {_names_of_apps(module, where)}") from None
    if _is_app(found):
        return found
    raise ConfigError(f"{location} is a {type(found).__name__}, not an App; {_names_of_apps(module, where)}")


def _is_app(value: Any) -> bool:
    return not isinstance(value, type) and callable(getattr(value, "run", None)) and hasattr(value, "_registry")


def _names_of_apps(module: Any, where: str) -> str:
    """Say under which names a module holds an App."""
    names = [f"{where}:{name}" for name, value in vars(module).items() if _is_app(value)]
    if names:
        return f"did you mean {' or '.join(names)}?"
    file = getattr(module, "__file__", None)
    return "it has no App" if file is None else f"{file} has no App"


def _likely(location: str) -> str:
    """What a location without a name may have meant."""
    where = location.strip(":")
    if not where:
        return "myproject.tasks:app"
    if where.endswith(".py") or "." not in where:
        return f"{where}:app"
    return ":".join(where.rpartition(".")[::2])


def _module(name: str) -> Any:
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and name.startswith(error.name):
            raise ConfigError(f"there is no module {name!r} here; start in the folder that holds it") from error
        raise


def _module_of_file(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(MAIN_ALIAS, path)
    if spec is None or spec.loader is None or not path.exists():
        raise ConfigError(f"there is no script {path}")
    sys.path.insert(0, str(path.parent))
    module = importlib.util.module_from_spec(spec)
    sys.modules[MAIN_ALIAS] = module
    spec.loader.exec_module(module)
    return module


def location_of(app: Any) -> str | None:
    """Where an app can be found by another process; None if it cannot (made in a function, or typed in)."""
    for name, module in list(sys.modules.items()):
        for attribute, value in list(getattr(module, "__dict__", {}).items()):
            if value is app and (where := _importable(name, module)) is not None:
                return f"{where}:{attribute}"
    return None


def _importable(name: str, module: Any) -> str | None:
    if name not in ("__main__", MAIN_ALIAS):
        return name
    spec = getattr(module, "__spec__", None)
    if name == "__main__" and spec is not None:  # python -m package.module
        return str(spec.name)
    file = getattr(module, "__file__", None)
    return None if file is None else str(Path(file).absolute())

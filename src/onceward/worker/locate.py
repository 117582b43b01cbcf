"""Finding an app again in another process: `module:name`, or `path/to/file.py:name` for one made in a script."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from typing import Any

from onceward.errors import ConfigError

MAIN_ALIAS = "__onceward_main__"
"""A script is loaded under this name in other processes, so that its `if __name__ == "__main__"` rests."""


def load(location: str) -> Any:
    """The app at a location."""
    where, _, name = location.rpartition(":")
    if not where or not name:
        raise ConfigError(f"{location!r} names no app; write module:name, for example myproject.tasks:app")
    module = _module_of_file(Path(where)) if where.endswith(".py") else _module(where)
    try:
        found = getattr(module, name)
    except AttributeError:
        raise ConfigError(f"{where} has no {name!r}; which name does its App have?") from None
    if callable(getattr(found, "run", None)) and hasattr(found, "registry"):
        return found
    raise ConfigError(f"{location} is a {type(found).__name__}, not an App")


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
        if module is None or name == MAIN_ALIAS:
            continue
        for attribute, value in list(vars(module).items()) if hasattr(module, "__dict__") else ():
            if value is app:
                if name != "__main__":
                    return f"{name}:{attribute}"
                spec = getattr(module, "__spec__", None)
                if spec is not None and spec.name:
                    return (
                        f"{spec.name.removesuffix('.__main__')}:{attribute}"
                        if not spec.name.endswith("__main__")
                        else f"{spec.name}:{attribute}"
                    )
                file = getattr(module, "__file__", None)
                return f"{Path(file).absolute()}:{attribute}" if file else None
    return None

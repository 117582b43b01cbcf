"""What a caller may filter by: no viewer learns a secret field by asking which tasks have a value in it.

Every list, count and export that takes a filter from a caller passes it through `allowed_filter`.
"""

from __future__ import annotations

from collections.abc import Mapping

from onceward.errors import FilterError
from onceward.model.task_filter import IS, PAYLOAD, TaskFilter, Term, parse_filter
from onceward.web.roles import Caller
from onceward.web.shown import sees_secrets


def allowed_filter(text: str, caller: Caller, secret: Mapping[str, frozenset[str]]) -> TaskFilter:
    """Return the filter that a text means for a caller; `secret` is what `app.tasks.secret_fields()` returns.

    For a viewer, a term that looks into payloads finds only tasks of kinds in which that field is known not to be
    secret; a part of a key, which may be all fields, only tasks of kinds without any.
    """
    wanted = parse_filter(text)
    if sees_secrets(caller):
        return wanted
    more: list[Term] = []
    for term in wanted.terms:
        kinds = _kinds_to_look_into(term, secret)
        if kinds is None:
            continue
        if not kinds:
            what = f"{term.field} may be secret; a viewer cannot filter by it"
            raise FilterError(what, text, max(text.find(term.field), 0), len(term.field))
        more.append(Term("kind", IS, tuple(kinds)))
    return TaskFilter((*wanted.terms, *dict.fromkeys(more)))


def _kinds_to_look_into(term: Term, secret: Mapping[str, frozenset[str]]) -> list[str] | None:
    """Return the kinds of which a term may read the fields; None if it reads none."""
    if term.field.startswith(f"{PAYLOAD}."):
        field = term.field.split(".")[1]
        return sorted(kind for kind, fields in secret.items() if field not in fields)
    if term.field == "key" and not (term.operator == IS and all(map(_is_own, term.values))):
        return sorted(kind for kind, fields in secret.items() if not fields)
    return None


def _is_own(key: str) -> bool:
    """Return whether a value is a whole key, and cannot be the fields of a payload."""
    return key[:1] not in ("{", "[") and not key.endswith("*")

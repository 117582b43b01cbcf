"""The language in which lists of tasks are filtered: `status:failed kind:page error:"timeout" cost>0.1`.

Terms stand side by side and all hold; several values of one term (`status:failed,cancelled`) are alternatives, a hyphen
in front negates. The command line and the URL of a page share the text: what was parsed prints back in one form.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import NamedTuple

from onceward.errors import BadDuration, FilterError
from onceward.model.arguments import LARGEST_ID, closest, shown
from onceward.model.status import ACTIVE, TERMINAL, Status
from onceward.model.times import milliseconds

LONGEST_FILTER = 4_000
"""How many characters a filter may have."""
MOST_VALUES = 1_000
"""How many alternatives a term may name."""
PAYLOAD = "payload"
STATUS_GROUPS = {"open": ACTIVE, "ended": TERMINAL}
STATUS_WORDS = (*(status.word for status in Status), *STATUS_GROUPS)
IS, LIKE, LESS, AT_MOST, MORE, AT_LEAST = ":", "~", "<", "<=", ">", ">="
COMPARISONS = (LESS, AT_MOST, MORE, AT_LEAST)
OPPOSITE = {LESS: AT_LEAST, AT_LEAST: LESS, MORE: AT_MOST, AT_MOST: MORE}

_OPERATOR = re.compile(r"<=|>=|[:~<>]")
_FIELD = re.compile(r"[A-Za-z_][\w.\-]*")
_PLAIN_VALUE = re.compile(r'[^\s,"]+')
_NOT_TEXT = re.compile("[\0\ud800-\udfff]")
_NEEDS_QUOTES = re.compile(r'[\s,"\\]|^$')
_FINGERPRINT = re.compile(r"#[0-9a-f]{32}")


class Term(NamedTuple):
    """One condition: a field, an operator, and values of which one must hold."""

    field: str
    """Its name; of a field of the payload with the path, as in `payload.url`."""
    operator: str
    values: tuple[str, ...]
    """As they are printed, without quotes."""
    negated: bool = False

    def __str__(self) -> str:
        sign = "-" if self.negated else ""
        return f"{sign}{self.field}{self.operator}{','.join(map(quoted, self.values))}"


@dataclass(frozen=True, slots=True)
class TaskFilter:
    """Conditions that a task must meet, all of them; without one every task does."""

    terms: tuple[Term, ...] = ()

    def __str__(self) -> str:
        return " ".join(map(str, self.terms))

    def __bool__(self) -> bool:
        return bool(self.terms)


class Field(NamedTuple):
    """What a filter may say about one thing."""

    operators: tuple[str, ...]
    read: Callable[[str], str]
    """Checks a value and returns it in its one form; raises ValueError with what is allowed."""
    about: str
    example: str


def _text(value: str) -> str:
    return value


def _status(value: str) -> str:
    word = value.lower()
    if word in STATUS_WORDS:
        return word
    near = closest(word, STATUS_WORDS)
    meant = f"did you mean {near}?" if near else f"there are: {', '.join(STATUS_WORDS)}"
    raise ValueError(f"there is no status {shown(value)}; {meant}")


def _whole(value: str) -> str:
    if not (value.isascii() and value.isdigit()) or len(value) > 19 or int(value) > LARGEST_ID:
        raise ValueError(f"{shown(value)} is not a whole number from 0, like 3")
    return str(int(value))


def _usd(value: str) -> str:
    try:
        amount = Decimal(value)
    except InvalidOperation:
        amount = Decimal("nan")
    if not amount.is_finite() or not 0 <= amount < 10**9:
        raise ValueError(f"{shown(value)} is not an amount in USD, like 0.10")
    return f"{amount.normalize():f}"


def _number(value: str) -> str:
    try:
        amount = Decimal(value)
    except InvalidOperation:
        amount = Decimal("nan")
    if not amount.is_finite() or abs(amount) >= 10**30 or abs(amount.adjusted()) > 30:
        raise ValueError(f"{shown(value)} is not a number, like 3 or -0.5")
    return f"{amount.normalize():f}"


def _age(value: str) -> str:
    try:
        rest = milliseconds(value)
    except BadDuration as error:
        raise ValueError(str(error)) from None
    parts = []
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)):
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def _lineage(value: str) -> str:
    if value.isascii() and value.isdigit():
        return _whole(value)
    try:
        return str(uuid.UUID(value))
    except ValueError:
        raise ValueError(f"{shown(value)} is neither the id of a lineage nor the number of a task in it") from None


def _yes_or_no(value: str) -> str:
    if value.lower() in ("yes", "no"):
        return value.lower()
    raise ValueError(f"{shown(value)} is neither yes nor no")


def _error(value: str) -> str:
    if value.startswith("#") and not _FINGERPRINT.fullmatch(value.lower()):
        raise ValueError(f"{shown(value)} is no fingerprint, which is # and 32 hexadecimal digits")
    return value.lower() if value.startswith("#") else value


_NUMBERS = (IS, *COMPARISONS)
_AGES = (LESS, MORE)
FIELDS: dict[str, Field] = {
    "status": Field((IS,), _status, "where it stands; open and ended are groups", "status:failed,cancelled"),
    "kind": Field((IS,), _text, "its pipeline", "kind:page"),
    "error": Field((IS,), _error, "what its last error says, or the fingerprint of it", 'error:"timeout"'),
    "key": Field((IS, LIKE), _text, "its key; a * at the end stands for anything", "key:https://example.com/*"),
    "id": Field((IS,), _whole, "its number", "id:17"),
    "lineage": Field((IS,), _lineage, "the id of its lineage, or the number of any task in it", "lineage:17"),
    "batch": Field((IS,), _text, "the name of its batch", "batch:nightly"),
    "parent": Field((IS,), _whole, "the number of its parent", "parent:17"),
    "cost": Field(_NUMBERS, _usd, "what it has cost, in USD", "cost>0.1"),
    "created": Field(_AGES, _age, "how long ago it was enqueued", "created<2h"),
    "ended": Field(_AGES, _age, "how long ago it ended", "ended<24h"),
    "attempts": Field(_NUMBERS, _whole, "how often it was begun", "attempts>2"),
    "depth": Field(_NUMBERS, _whole, "how many spawns away from its root it is", "depth>3"),
    "queue": Field((IS,), _text, "its queue", "queue:default"),
    "stage": Field((IS,), _text, "the stage at which it stands", "stage:fetch"),
    "reason": Field((IS, LIKE), _text, "why it stands there", "reason~robots"),
    "waiting": Field((IS, LIKE), _text, "what it waits for", "waiting:signal"),
    "paused": Field((IS,), _yes_or_no, "whether an operator has paused it", "paused:yes"),
    PAYLOAD: Field((IS, LIKE, *COMPARISONS), _text, "a field of its payload", "payload.url~example.com"),
}


def parse_filter(text: str) -> TaskFilter:
    """Parse a filter; a `FilterError` has the position of what cannot be meant, and says what is allowed there."""
    if len(text) > LONGEST_FILTER:
        raise FilterError(f"a filter has at most {LONGEST_FILTER:,} characters", text[:100], LONGEST_FILTER, 1)
    if (odd := _NOT_TEXT.search(text)) is not None:
        raise FilterError("a filter has no NUL character, and no half of one", text, odd.start(), 1)
    return TaskFilter(tuple(dict.fromkeys(_Reader(text).terms())))


def quoted(value: str) -> str:
    """A value as it is written in a filter."""
    if not _NEEDS_QUOTES.search(value):
        return value
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def field_of(name: str) -> Field | None:
    """What is known of a field; of any path into the payload the same."""
    if name.startswith(f"{PAYLOAD}."):
        return FIELDS[PAYLOAD] if all(name.split(".")) else None
    return None if name == PAYLOAD else FIELDS.get(name)


class _Reader:
    """Reads a text from its beginning to its end."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def terms(self) -> Iterator[Term]:
        while self._skip_space():
            yield self._term()

    def _skip_space(self) -> bool:
        while self._at < len(self._text) and self._text[self._at].isspace():
            self._at += 1
        return self._at < len(self._text)

    def _term(self) -> Term:
        negated = self._text[self._at] == "-"
        self._at += negated
        name, field = self._field()
        operator = self._operator(name, field)
        if operator in COMPARISONS and name.startswith(f"{PAYLOAD}."):
            field = field._replace(read=_number)
        several = operator in (IS, LIKE)
        values = [self._value(name, field)]
        while self._at < len(self._text) and not self._text[self._at].isspace():
            if self._text[self._at] != "," or not several:
                what = "between values stands a comma" if several else f"{name}{operator} takes one value"
                raise self._wrong(f"{what}; between terms stands a space", self._at)
            if len(values) == MOST_VALUES:
                raise self._wrong(f"a term has at most {MOST_VALUES:,} values", self._at)
            self._at += 1
            values.append(self._value(name, field))
        return Term(name, operator, tuple(dict.fromkeys(values)), negated)

    def _field(self) -> tuple[str, Field]:
        start = self._at
        found = _FIELD.match(self._text, start)
        if found is None:
            raise self._wrong(f"here stands a field, like {', '.join(FIELDS)}", start)
        name = found[0] if found[0].lower().startswith(f"{PAYLOAD}.") else found[0].lower()
        name = f"{PAYLOAD}{name[len(PAYLOAD) :]}" if name.lower().startswith(PAYLOAD) else name
        field = field_of(name)
        if field is None:
            raise self._wrong(_no_field(name), start, len(found[0]))
        self._at = found.end()
        return name, field

    def _operator(self, name: str, field: Field) -> str:
        found = _OPERATOR.match(self._text, self._at)
        if found is None or found[0] not in field.operators:
            allowed = " or ".join(f"{name}{operator}" for operator in field.operators)
            raise self._wrong(f"after {name} stands {_spoken(field.operators)}: {allowed}", self._at)
        self._at = found.end()
        return found[0]

    def _value(self, name: str, field: Field) -> str:
        start = self._at
        raw = self._quoted() if self._text[start : start + 1] == '"' else self._plain(name, field)
        try:
            return field.read(raw)
        except ValueError as error:
            raise self._wrong(str(error), start, self._at - start) from None

    def _plain(self, name: str, field: Field) -> str:
        found = _PLAIN_VALUE.match(self._text, self._at)
        if found is None:
            raise self._wrong(f"{name} needs a value, as in {field.example}", self._at)
        self._at = found.end()
        return found[0]

    def _quoted(self) -> str:
        start = self._at
        pieces: list[str] = []
        self._at += 1
        while self._at < len(self._text):
            character = self._text[self._at]
            self._at += 1
            if character == '"':
                return "".join(pieces)
            if character == "\\" and self._text[self._at : self._at + 1] in ('"', "\\"):
                character = self._text[self._at]
                self._at += 1
            pieces.append(character)
        raise self._wrong('a quotation has no end; close it with "', start, len(self._text) - start)

    def _wrong(self, what: str, position: int, length: int = 1) -> FilterError:
        return FilterError(what, self._text, position, length)


def _spoken(operators: tuple[str, ...]) -> str:
    return operators[0] if len(operators) == 1 else f"{', '.join(operators[:-1])} or {operators[-1]}"


def _no_field(name: str) -> str:
    if name.split(".")[0] == PAYLOAD:
        return "a field of the payload is named with its path, as in payload.url"
    near = closest(name, FIELDS)
    return f"there is no field {name}; " + (f"did you mean {near}?" if near else f"there are: {', '.join(FIELDS)}")

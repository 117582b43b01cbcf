"""Every error that Onceward raises on purpose, in one tree.

OncewardError
├── ConfigError            the program says something that cannot be meant
│   ├── UnknownKind        no pipeline of this app handles that kind
│   ├── BadDuration        "5 parsecs" is not a duration
│   ├── FilterError        a filter of tasks that cannot be read, with the position
│   ├── StartedByImport    a module begins work when it is imported for its app
│   └── WrongTwin          the blocking form of a call was used on the event loop, or the reverse
├── PayloadError           a value that cannot be stored, or not equally on both databases
├── TaskNotFound           no task has that id
├── TaskChanged            a task has moved on since it was looked at
├── LineageNotFound        no task belongs to that lineage
├── BatchNotFound          no batch has that name
├── BulkNotFound           no action on many tasks has that number
├── ScheduleNotFound       no schedule has that name
├── SourceNotFound         no source has that name
├── BudgetNotFound         no budget has that name
├── IllegalTransition      the transition table has no such move
├── StageEnded             an effect was handed over after its stage had ended
├── LeaseLost              this attempt no longer owns its task; nothing of it was kept
├── WriteRefused           a function given to `ctx.write` tried to control the transaction
├── SpawnRefused           a child was refused, and its pipeline asks for an error then
├── CallsExceeded          a stage wanted to make more outside calls than it declares
├── NoLineage              enqueue in a worker process, outside of a stage: its parent would be unknown
└── StoreError             the database
    ├── StoreUnavailable   it cannot be reached, or not be written
    ├── StoreFull          its disk is full
    ├── OutcomeUnknown     a commit was sent, and the database could not be asked whether it happened
    ├── SchemaTooNew       a newer Onceward has migrated this database
    ├── SchemaTooOld       run `onceward migrate`
    ├── TwoSqliteLibraries one process, one file, two SQLite libraries: refused, because rows would vanish
    └── ForkedConnection   a connection was carried into a forked process
"""

from __future__ import annotations


class OncewardError(Exception):
    """The root of everything that Onceward raises."""


class ConfigError(OncewardError):
    """The program says something that cannot be meant."""


class UnknownKind(ConfigError):
    """No pipeline of this app handles that kind."""

    def __init__(self, kind: str, known: list[str]) -> None:
        knows = f"this app knows: {', '.join(sorted(known))}" if known else "this app has none: App(…, pipelines=[…])"
        super().__init__(f"no pipeline handles kind {kind!r}; {knows}")


class BadDuration(ConfigError):
    """A text that is not a duration."""


class FilterError(ConfigError):
    """A filter of tasks that cannot be read. It says what is allowed at its position."""

    def __init__(self, what: str, text: str, position: int, length: int = 1) -> None:
        super().__init__(f"at character {position + 1} of the filter: {what}")
        self.what = what
        self.text = text
        self.position = position
        """Where in the text it stands, from 0."""
        self.length = length
        """How many characters of the text it concerns."""


class WrongTwin(ConfigError):
    """The blocking form of a call was used on the event loop, or the async form without one."""


class StartedByImport(ConfigError):
    """A module begins work, with `app.run()` or `app.enqueue()`, when a worker or a command imports it for its app."""


class PayloadError(OncewardError):
    """A value that cannot be stored, or not equally on both databases."""


class TaskNotFound(OncewardError):
    """No task has that id."""

    def __init__(self, task_id: int) -> None:
        super().__init__(f"there is no task {task_id}")


class TaskChanged(OncewardError):
    """A task has moved on since it was looked at; nothing was done."""

    def __init__(self, task_id: int, now_is: str) -> None:
        super().__init__(f"task {task_id} has changed since you looked at it: it is {now_is} now; look at it again")


class BulkNotFound(OncewardError):
    """No action on many tasks has that number."""

    def __init__(self, number: int) -> None:
        super().__init__(f"there is no action {number} on many tasks")


class BatchNotFound(OncewardError):
    """No batch has that name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no batch {name!r}")


class ScheduleNotFound(OncewardError):
    """No schedule has that name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no schedule {name!r}")


class SourceNotFound(OncewardError):
    """No source has that name, or none of its instances was ever used."""

    def __init__(self, name: str, *, is_unused: bool, known: list[str]) -> None:
        if is_unused:
            why = f"no instance of source {name!r} was used yet"
        else:
            has = f"; this app has: {', '.join(sorted(known))}" if known else ""
            why = f"there is no source {name!r}{has}"
        super().__init__(why)


class BudgetNotFound(OncewardError):
    """No budget has that name, or was ever drawn from."""

    def __init__(self, name: str, known: list[str]) -> None:
        has = f"; this app has: {', '.join(sorted(known))}" if known else ""
        super().__init__(f"there is no budget {name!r}{has}")


class LineageNotFound(OncewardError):
    """No task belongs to that lineage."""

    def __init__(self, lineage: object) -> None:
        super().__init__(f"there is no lineage {lineage}")


class IllegalTransition(OncewardError):
    """The transition table has no such move."""


class StageEnded(OncewardError):
    """An effect was handed over after its stage had ended."""


class LeaseLost(OncewardError):
    """This attempt no longer owns its task; nothing of it was kept."""


class WriteRefused(OncewardError):
    """A function given to `ctx.write` tried to control the transaction or the engine's own tables."""


class SpawnRefused(OncewardError):
    """A child was refused, and the policy of its pipeline is to fail the stage then. It is not retried."""


class CallsExceeded(OncewardError):
    """A stage wanted to make more outside calls than `calls=` declares. It is not retried."""


class NoLineage(OncewardError):
    """Work was enqueued in a worker process outside of a stage, so that its parent is unknown."""


class StoreError(OncewardError):
    """Something went wrong in or on the way to the database."""


class StoreUnavailable(StoreError):
    """The database cannot be reached, or not be written."""


class StoreFull(StoreError):
    """The disk of the database is full. Nothing was lost; free some space and go on."""


class OutcomeUnknown(StoreError):
    """A commit was sent, and the database could not be asked whether it happened."""

    token: bytes = b""
    """The receipt by which it can still be found out."""
    result: object = None
    """What the transaction returns if it has committed, where that was known before."""


class SchemaTooNew(StoreError):
    """A newer Onceward has migrated this database."""


class SchemaTooOld(StoreError):
    """The database needs `onceward migrate` first."""


class TwoSqliteLibraries(StoreError):
    """One process would open one database file through two SQLite libraries, and committed rows would vanish."""


class ForkedConnection(StoreError):
    """A connection was carried into a forked process."""

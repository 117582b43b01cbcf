"""What a person adds: files of companies, and addresses of companies, boards or listings."""

from __future__ import annotations

import csv
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from onceward import App, ConfigError, Limits, Payload, PayloadError
from onceward_apps.jobfinder import company_rows, listing_rows, source_rows
from onceward_apps.jobfinder.analysing import named_board
from onceward_apps.jobfinder.boards.board import BoardAddress, BoardKind
from onceward_apps.jobfinder.boards.recognising import recognise
from onceward_apps.jobfinder.company_rows import Origin
from onceward_apps.jobfinder.identities import company_id, listing_id, source_id
from onceward_apps.jobfinder.payloads import Company, Discovery, Job
from onceward_apps.jobfinder.source_rows import SourceName
from onceward_apps.transactions import Direct, transaction

NAMES = ("name", "company", "company_name")
WEBSITES = ("website", "url", "homepage", "site", "domain")
BOARDS = ("board", "job_board", "job_board_url", "board_url", "careers", "careers_url")
AT_ONCE = 200
"""How many are added in one transaction."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a file that is a company, or a board in the place of its website."""

    line: int
    wish: Company | BoardAddress


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row of a file that is none, and why."""

    line: int
    reason: str


@dataclass(frozen=True, slots=True)
class Added:
    """What came of one wish: the task, and whether it is new."""

    what: str
    task: int | None
    is_new: bool
    reason: str | None = None


def companies_in(path: Path) -> Iterator[Row | BadRow]:
    """The companies of a file in CSV, row by row. It has a header with a column for the website; ConfigError if not."""
    try:
        file = path.open(encoding="utf-8-sig", newline="")
    except OSError as error:
        raise ConfigError(f"{path} cannot be opened: {error.strerror}") from error
    with file:
        rows = csv.reader(file)
        try:
            columns = [name.strip().casefold() for name in next(rows, [])]
            website, name, board = (_column(columns, among) for among in (WEBSITES, NAMES, BOARDS))
            if website is None:
                raise ConfigError(
                    f"{path} has no column for the website; its first row names the columns, one of them "
                    f"{' or '.join(WEBSITES)}"
                )
            for cells in rows:
                if any(cell.strip() for cell in cells):
                    yield _row(rows.line_num, cells, len(columns), website, name, board)
        except (csv.Error, UnicodeDecodeError) as error:
            yield BadRow(rows.line_num + 1, f"it cannot be read: {error}; what comes after it is not taken")


def _row(
    line: int, cells: Sequence[str], width: int, website: int, name: int | None, board: int | None
) -> Row | BadRow:
    if len(cells) != width:
        return BadRow(line, f"it has {len(cells)} columns, the first row has {width}")
    address = cells[website].strip()
    if not address:
        return BadRow(line, "it has no website")
    board_there = recognise(_whole(address))
    if board_there is not None and board_there.kind is not BoardKind.GENERIC:
        return Row(line, board_there)
    try:
        return Row(line, company_at(address, _cell(cells, name), _cell(cells, board)))
    except PayloadError as error:
        return BadRow(line, str(error))


def company_at(address: str, name: str | None = None, board: str | None = None) -> Company:
    """A company by its website, with or without `https://`. PayloadError if that is no address of a host."""
    company = Company(_whole(address), name, board)
    host = company.key().partition("://")[2].partition("/")[0]
    if "." not in host and ":" not in host and host != "localhost":
        raise PayloadError(f"{address!r} is no website")
    return company


def meant_by(address: str, *, is_listing: bool = False) -> Company | BoardAddress | Job:
    """What an address of a person is: a listing if they say so, a board if it looks like one, else a company."""
    if is_listing:
        job = Job(address)
        job.key()
        return job
    return recognise(_whole(address)) or company_at(address)


def _whole(address: str) -> str:
    return address if "://" in address else f"https://{address}"


def add(app: App, wishes: Sequence[Company | BoardAddress | Job], limits: Limits | None = None) -> list[Added]:
    """Have all of this looked at; rows and tasks come to be together. What is under way, or fresh, stays as it is."""
    added: list[Added] = []
    for start in range(0, len(wishes), AT_ONCE):
        with transaction(app) as connection:
            added += [_add(app, connection, wish, limits) for wish in wishes[start : start + AT_ONCE]]
    return added


def _add_board_of(app: App, connection: Direct, company: Company, limits: Limits | None) -> None:
    """Have the board of a company looked at that is known already, if the board is not."""
    board = named_board(company.board or "")
    if board is not None and source_rows.source(connection, source_id(board.kind, board.token)) is None:
        _add(app, connection, board, limits)


def _add(app: App, connection: Direct, wish: Company | BoardAddress | Job, limits: Limits | None) -> Added:
    now = round(time.time() * 1_000)
    payload: Payload
    if isinstance(wish, BoardAddress):
        source = source_id(wish.kind, wish.token)
        payload = Discovery(source, wish.kind, wish.token, wish.url, None, wish.confidence)
        what = source
    else:
        payload, what = wish, wish.key()
    enqueued = app.enqueue(payload, conn=connection.raw, limits=limits)
    if enqueued:
        origin = Origin(None, None, 0, now)
        if isinstance(wish, Company):
            company_rows.begin_company(connection, company_id(wish.website), wish.name, wish.website, origin)
            if not enqueued.created and wish.board:
                _add_board_of(app, connection, wish, limits)
        elif isinstance(wish, Job):
            listing_rows.begin_listing(connection, listing_id(wish.url), wish.url, origin)
        else:
            name = SourceName(what, wish.kind, wish.token, wish.url, wish.confidence)
            source_rows.begin_source(connection, name, None, origin, False)
            source_rows.approve_source(connection, what)
    return Added(what, enqueued.id if enqueued else None, enqueued.created, enqueued.reason)


def _column(columns: Sequence[str], among: Sequence[str]) -> int | None:
    return next((columns.index(name) for name in among if name in columns), None)


def _cell(cells: Sequence[str], column: int | None) -> str | None:
    return (cells[column].strip() or None) if column is not None else None

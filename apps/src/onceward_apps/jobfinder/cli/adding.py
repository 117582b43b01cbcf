"""`onceward-jobs add`: add companies, boards and listings for the job finder to process."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from onceward import Limits, PayloadError
from onceward.terminal import print_json, show
from onceward_apps.jobfinder.boards.board import BoardAddress
from onceward_apps.jobfinder.cli.speaking import OWN_DATABASE, Where, complain
from onceward_apps.jobfinder.finder import opened
from onceward_apps.jobfinder.importing import BadRow, Row, companies_in, meant_by
from onceward_apps.jobfinder.importing import add as add_all
from onceward_apps.jobfinder.payloads import Company, Job
from onceward_apps.speaking import BAD_ANSWER, FINE, NOTHING_SAID, WRONG_USAGE, Flag, Output


def add(
    *what: Annotated[
        str, Parameter(name="FILE.csv|URL", help="Files of companies with a column website, and addresses.")
    ],
    listing: Annotated[bool, Flag, Parameter(help="The addresses are those of listings.")] = False,
    max_tasks: Annotated[int | None, Parameter(help="How many tasks may come of each; 10,000 by default.")] = None,
    where: Where = OWN_DATABASE,
    output: Output = NOTHING_SAID,
) -> int:
    """Add companies, job boards or listings for the job finder to process.

    A file is CSV, its first row names the columns: website, and if you like name and board.

    An invalid row is reported with its line, and the rest is taken.

    An address is a board if it looks like one, else a company.
    """
    if not what:
        complain("name files of companies or addresses to add, as in: onceward-jobs add companies.csv https://acme.com")
        return WRONG_USAGE
    wishes: list[Company | BoardAddress | Job] = []
    bad: list[tuple[str, BadRow]] = []
    for word in what:
        if Path(word).suffix.lower() == ".csv" and "://" not in word:
            for row in companies_in(Path(word)):
                if isinstance(row, Row):
                    wishes.append(row.wish)
                else:
                    bad.append((word, row))
        else:
            try:
                wishes.append(meant_by(word, is_listing=listing))
            except PayloadError as error:
                bad.append((word, BadRow(0, str(error))))
    with opened(where.db, new=True) as app:
        added = add_all(app, wishes, None if max_tasks is None else Limits(max_tasks=max_tasks))
    new, refused = sum(one.is_new for one in added), [one for one in added if one.task is None]
    if output.json:
        print_json({
            "added": new,
            "known": len(added) - new - len(refused),
            "refused": [{"what": one.what, "reason": one.reason} for one in refused],
            "bad": [{"file": file, "line": row.line or None, "reason": row.reason} for file, row in bad],
        })  # fmt: skip
    else:
        for file, row in bad:
            complain(f"{file}, line {row.line}: {row.reason}" if row.line else f"{file}: {row.reason}")
        for one in refused:
            complain(f"{one.what}: {one.reason}")
        known = len(added) - new - len(refused)
        show(f"added {new}" + (f", {known} known already" if known else ""))
    return BAD_ANSWER if bad or refused else FINE

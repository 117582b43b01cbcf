"""How commands answer: as one JSON document or for people, and what is said of work on many tasks."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from rich.text import Text

from onceward.cli import documents
from onceward.cli.exits import BAD_ANSWER, FINE, complain
from onceward.cli.options import Output
from onceward.errors import IllegalTransition, TaskNotFound
from onceward.terminal import show, stop_writing


def answer(output: Output, document: Callable[[], documents.Document], screen: Callable[[], Iterable[Any]]) -> None:
    """Answer as it was asked for: with a JSON document, or for a person on a screen.

    Where the output is not read to the end, as before `head`, the command still ends with the code of its answer.
    """
    try:
        if output.json:
            documents.print_document(document())
        else:
            show(*screen())
        sys.stdout.flush()
    except BrokenPipeError:
        stop_writing()


def one_by_one(output: Output, done_word: str, ids: Iterable[int], act: Callable[[int], None]) -> int:
    """Do something to each of some tasks. One that refuses does not keep the others from it."""
    done: list[int] = []
    refused: list[documents.Document] = []
    for one in dict.fromkeys(ids):
        try:
            act(one)
        except (TaskNotFound, IllegalTransition) as error:
            refused.append({"task": one, "error": str(error)})
        else:
            done.append(one)
    answer(
        output,
        lambda: {done_word: done, "refused": refused},
        lambda: [Text.assemble((f"{done_word} ", "green"), f"task {one}") for one in done],
    )
    for one_refused in refused:
        complain(f"task {one_refused['task']} was not {done_word}: {one_refused['error']}")
    return BAD_ANSWER if refused else FINE


def together(
    output: Output, done_word: str, done: list[int], nothing: str, refused: Mapping[int, str] | None = None
) -> int:
    """Tell what was done to the tasks of a lineage, and to which of them it could not be done."""
    count = f"{len(done):,} task{'' if len(done) == 1 else 's'}"
    not_done = refused or {}
    answer(
        output,
        lambda: {
            done_word: done,
            "refused": [{"task": task, "error": error} for task, error in not_done.items()],
        },
        lambda: [Text.assemble((f"{done_word} ", "green"), count) if done or not_done else Text(nothing, "dim")],
    )
    for task, error in not_done.items():
        complain(f"task {task} was not {done_word}: {error}")
    return BAD_ANSWER if not_done else FINE


class Aside:
    """Keeps stdout for one document: whatever stages print, here and in child processes, goes to stderr."""

    def __init__(self) -> None:
        sys.stdout.flush()
        self._stdout = os.dup(1)
        os.dup2(2, 1)

    def give(self, document: documents.Document) -> None:
        """Put stdout back and write the document to it."""
        sys.stdout.flush()
        os.dup2(self._stdout, 1)
        os.close(self._stdout)
        documents.print_document(document)

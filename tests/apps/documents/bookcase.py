"""A library whose documents are put there at once, without tasks: for tests about finding and showing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import msgspec
import numpy as np
from numpy.typing import NDArray

from onceward import App
from onceward_apps.documents import reads, writes
from onceward_apps.documents.admitting import document_id
from onceward_apps.documents.app import library
from onceward_apps.documents.chunking import Chunk, chunks_of, outline_of, word_count
from onceward_apps.documents.connecting import links
from onceward_apps.documents.embedding import offline
from onceward_apps.documents.reading import About
from onceward_apps.statements import change
from onceward_apps.transactions import transaction


@cache
def _cut(document: str, markdown: str) -> tuple[list[Chunk], NDArray[np.float32]]:
    """The passages of a text and their vectors, found once for both databases."""
    every = chunks_of(document, markdown)
    return every, offline().embed([one.text for one in every])


@dataclass(frozen=True)
class Bookcase:
    """A library that is filled by hand."""

    app: App

    def put(self, name: str, markdown: str, *, title: str | None = None, generation: int = 1, now: bool = True) -> str:
        """A document of this text; `now` says whether this generation is the one in force."""
        document = document_id(f"/books/{name}")
        every, rows = _cut(document, markdown)
        about = msgspec.json.encode(About(format="markdown", title=title, creators=("An author",))).decode()
        outline = msgspec.json.encode(outline_of(markdown)).decode()
        with transaction(self.app) as connection:
            if generation == 1:
                change(
                    connection, "INSERT INTO docs_document (document, path, added_at) VALUES (?, ?, 0)",
                    document, f"/books/{name}",
                )  # fmt: skip
            change(
                connection,
                "INSERT INTO docs_generation (document, generation, content_hash, state, started_at)"
                " VALUES (?, ?, 'x', 'reading', 0)",
                document, generation,
            )  # fmt: skip
            writes.put_about(connection, document, generation, about, 1)
            writes.put_markdown(connection, document, generation, markdown, word_count(markdown), outline)
            chunks = [(one.chunk, one.position, one.start, one.end, one.heading, one.text) for one in every]
            writes.put_chunks(connection, document, generation, chunks)
            writes.put_chunk_count(connection, document, generation, len(every))
            vectors = [(one.chunk, row) for one, row in zip(every, rows, strict=True)]
            writes.put_vectors(connection, document, generation, offline().name, vectors)
            if now:
                writes.swap(connection, document, generation, 1)
        return document

    def connect(self, documents: Sequence[str]) -> None:
        """Find the connections of all pairs of first generations."""
        for place, left in enumerate(sorted(documents)):
            for right in sorted(documents)[place:]:
                [mine] = self.app.read(reads.passages, [(left, 1)])
                [other] = self.app.read(reads.passages, [(right, 1)])
                found = [(link.left, link.right, link.score, link.why) for link in links(mine, other)]
                with transaction(self.app) as connection:
                    writes.put_links(connection, (left, 1), (right, 1), found)


def bookcase(url: str) -> Bookcase:
    """An empty library."""
    app = library(url)
    app.prepare()
    return Bookcase(app)

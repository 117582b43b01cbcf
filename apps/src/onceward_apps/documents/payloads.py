"""The work of a library: what a task is asked to do."""

from __future__ import annotations

import msgspec

from onceward import Payload


class Options(msgspec.Struct, frozen=True):
    """How a document is worked on: by which models of a provider, if by any."""

    embedding: str = ""
    cleaning: str = ""

    @property
    def are_paid(self) -> bool:
        """Whether a provider is asked for anything."""
        return bool(self.embedding or self.cleaning)


class Ingestion(Payload, kind="document"):
    """Bring one content of one file into the library."""

    document: str
    path: str
    content_hash: str
    generation: int
    options: Options = Options()

    def key(self) -> str:
        """One task for each generation of a document."""
        return f"{self.document}/{self.generation}"


class PaidIngestion(Ingestion, kind="paid_document"):
    """The same with the help of a provider, within its budget."""


class Connecting(Payload, kind="detect_connections"):
    """Find the connections of a generation that has just become searchable."""

    document: str
    generation: int
    chunks: int
    trigger: str

    def key(self) -> str:
        """One task for each generation of a document."""
        return f"{self.document}/{self.generation}"

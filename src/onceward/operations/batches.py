"""What operators ask about batches: which there are, and how one stands."""

from __future__ import annotations

import builtins

from onceward.client.awaited import awaited
from onceward.client.batch import BatchStatus, as_batch_status
from onceward.client.namespace import Namespace
from onceward.errors import BatchNotFound, ConfigError
from onceward.model import arguments
from onceward.model.batch import BatchOutcome
from onceward.store.lineage import batches


class Batches(Namespace):
    """`app.batches`: sets of tasks with one progress, deadline, budget and follow-up."""

    def list(self, *, status: str | None = None, limit: int = 20) -> builtins.list[BatchStatus]:
        """The newest batches; `status` is open, succeeded, partial or failed."""
        if status is not None and (not isinstance(status, str) or status.upper() not in BatchOutcome.__members__):
            words = ", ".join(one.word for one in BatchOutcome)
            raise ConfigError(f"{arguments.shown(status)} is no status of a batch; there are: {words}")
        wanted = None if status is None else int(BatchOutcome[status.upper()])
        most = arguments.most_of(limit)
        return [
            as_batch_status(row) for row in self._client._ask(lambda: batches.read_batches(status=wanted, limit=most))
        ]

    alist = awaited(list)

    def get(self, name: str) -> BatchStatus:
        """A batch as it stands now."""
        sought = arguments.text_of(name, "name of a batch")
        rows = self._client._ask(lambda: batches.read_batches(name=sought))
        if not rows:
            raise BatchNotFound(name)
        return as_batch_status(rows[0])

    aget = awaited(get)

"""A provider of models, by the interface that OpenAI's has made common. Called only if a user turns it on.

The address and the key come from the environment, `OPENAI_BASE_URL` and `OPENAI_API_KEY`; neither is stored.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec

from onceward import Breaker, Budget, ConfigError, Source
from onceward_apps import extras

if TYPE_CHECKING:
    from onceward_apps.documents.embedding import Matrix

PROVIDER = Source("documents-provider", timeout="120s", breaker=Breaker(failures=5, pause="1m"), cache="3650d")
"""What is asked of it is kept: the same question is paid for once."""
CALLS = Budget("documents-calls", limit=10_000, unit="calls", per="day")
"""How often it may be asked in a day. `onceward budgets documents-calls --limit N` changes that."""
TIMEOUT_S = 100


class Vectors(msgspec.Struct, frozen=True):
    """The answer to a number of texts: so many numbers for each, as little-endian floats one after the other."""

    dimensions: int
    numbers: bytes
    tokens: int

    def matrix(self) -> Matrix:
        """One row of length 1 for each text."""
        import numpy as np

        made = np.frombuffer(self.numbers, "<f4").reshape(-1, self.dimensions)
        lengths = np.linalg.norm(made, axis=1, keepdims=True)
        return (made / np.where(lengths == 0, 1, lengths)).astype(np.float32)


class Answer(msgspec.Struct, frozen=True):
    """What a model has written."""

    text: str
    is_whole: bool
    tokens: int


def ask_for_vectors(model: str, texts: Sequence[str]) -> Vectors:
    """One paid call: the vectors of some texts."""
    import numpy as np

    answer = _client().embeddings.create(model=model, input=list(texts))
    made = np.array([one.embedding for one in sorted(answer.data, key=lambda one: one.index)], "<f4")
    if made.shape[0] != len(texts):
        raise ConnectionError(f"{len(texts)} texts were sent, and {made.shape[0]} vectors came back")
    return Vectors(made.shape[1], made.tobytes(), answer.usage.total_tokens if answer.usage else 0)


def ask(model: str, instruction: str, text: str) -> Answer:
    """One paid call: what a model makes of a text."""
    answer = _client().chat.completions.create(
        model=model,
        temperature=0,
        messages=[{"role": "system", "content": instruction}, {"role": "user", "content": text}],
    )
    choice = answer.choices[0]
    tokens = answer.usage.total_tokens if answer.usage else 0
    return Answer(choice.message.content or "", choice.finish_reason == "stop", tokens)


def key_of(model: str, purpose: str, texts: Sequence[str]) -> tuple[str, str, str]:
    """What makes an answer what it is: the key under which it is kept."""
    digest = hashlib.sha256()
    for text in texts:
        data = text.encode()
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return (purpose, model, digest.hexdigest())


@cache
def _client() -> Any:
    try:
        from openai import OpenAI, OpenAIError
    except ImportError:
        raise ConfigError(f"a model cannot be asked: {extras.missing('openai')}") from None
    try:
        return OpenAI(max_retries=0, timeout=TIMEOUT_S)  # the source tries again, and counts it
    except OpenAIError as error:
        raise ConfigError(f"the provider can't be asked: {error}") from error

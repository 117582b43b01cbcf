"""How a file becomes part of the library, and how its connections are found.

A document goes through extract, save_markdown, chunk, embed, complete; where a provider helps, through clean as well.
Each stage keeps what it has done in small steps and goes on there after a death. Until `complete` a generation is
invisible; then one transaction puts it in force and takes the older one away. Connections are a task of their own, so
that a document can be searched before they are found.
"""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path
from typing import TypeVar

import msgspec

from onceward import Context, Failed, Isolation, Pipeline, Retry, Skipped
from onceward_apps.documents import provider, reads, tidying, writes
from onceward_apps.documents.connecting import Passages
from onceward_apps.documents.embedding import offline
from onceward_apps.documents.payloads import Connecting, Ingestion, PaidIngestion
from onceward_apps.documents.reading import Reason, Unreadable

READER_MB = 900
PORTION = 2_000
"""How many chunks of other documents are compared at once, but for a document that has more."""
"""How much memory the process may take that reads a file."""
MOST_DEATHS = 10
"""How often the process of a reader may die at one place of a file before the file is to blame."""
GROUP_CHARACTERS, GROUP_S = 400_000, 1.0
"""After so much text, or so long, what was read is kept."""
CHUNKS_AT_ONCE = 1_000
VECTORS_AT_ONCE, PAID_VECTORS_AT_ONCE = 256, 64
MOST_PAID_CALLS = 20_000
"""How many pieces of one document a provider may be asked about in a run; those that it has answered do not count."""

P = TypeVar("P", bound=Ingestion)


class Place(msgspec.Struct, frozen=True):
    """How far the reading of a file has come: the next part, the time it took, and deaths since the last step."""

    part: int = 0
    ms: int = 0
    deaths: int = 0


def extract(ctx: Context[P]) -> int:
    """Read the file part by part, and return how many parts it has. A file that can't be read says why."""
    task = ctx.payload
    _skip_if_unwanted(ctx)
    place = ctx.cursor_as(Place) or Place()
    try:
        if place.deaths >= MOST_DEATHS:
            raise Unreadable(Reason.BROKEN, f"its reader died {place.deaths} times at part {place.part + 1}")
        ctx.checkpoint(Place(place.part, place.ms, place.deaths + 1))
        return _extract(ctx, place)
    except Unreadable as error:
        reason, detail = error.reason, error.detail
    except MemoryError:
        reason, detail = Reason.TOO_LARGE, f"reading it takes more than {READER_MB} MB of memory"
    ctx.write(writes.fail, task.document, task.generation, reason.value, detail)
    raise Failed(f"{reason}: {detail}")


def _extract(ctx: Context[P], place: Place) -> int:
    from onceward_apps.documents.opening import open_document  # the readers, which no other stage needs

    task = ctx.payload
    began = time.monotonic()
    with closing(open_document(Path(task.path), content_hash=task.content_hash)) as document:
        total, held, size, kept_at = document.part_count, [], 0, time.monotonic()
        for index in range(place.part, total):
            part = document.part(index)
            held.append((part.index, part.title, part.markdown))
            size += len(part.markdown)
            if size >= GROUP_CHARACTERS or time.monotonic() - kept_at >= GROUP_S:
                ctx.write(writes.put_parts, task.document, task.generation, held)
                ctx.checkpoint(Place(index + 1, place.ms + _ms_since(began)))
                ctx.progress(index + 1, total, "reading")
                held, size, kept_at = [], 0, time.monotonic()
        ctx.write(writes.put_parts, task.document, task.generation, held)
        about = msgspec.json.encode(document.about).decode()
        ctx.write(writes.put_about, task.document, task.generation, about, place.ms + _ms_since(began))
    return total


def clean(ctx: Context[PaidIngestion]) -> int:
    """Have a model repair every part, and return how many. What it was asked once it is not asked again."""
    task = ctx.payload
    _skip_if_unwanted(ctx)
    if not task.options.cleaning:
        return 0
    every = ctx.read(reads.parts, task.document, task.generation)
    for done in range(ctx.cursor_as(int) or 0, len(every)):
        part, title, markdown = every[done]
        repaired = [_cleaned(ctx, piece) for piece in tidying.pieces(markdown)]
        ctx.write(writes.put_parts, task.document, task.generation, [(part, title, "\n\n".join(repaired))])
        ctx.checkpoint(done + 1)
        ctx.progress(done + 1, len(every), "cleaning")
    return len(every)


def _cleaned(ctx: Context[PaidIngestion], piece: str) -> str:
    model = ctx.payload.options.cleaning
    asked: list[int] = []

    def ask() -> provider.Answer:
        answer = provider.ask(model, tidying.INSTRUCTION, piece)
        asked.append(answer.tokens)
        return answer

    key = provider.key_of(model, "clean", [tidying.INSTRUCTION, piece])
    answer: provider.Answer = ctx.cached(provider.PROVIDER, key, ask, type=provider.Answer)
    _meter(ctx, asked)
    return tidying.trusted(piece, answer)


def save_markdown(ctx: Context[P]) -> int:
    """Join the parts, and return the number of words."""
    from onceward_apps.documents.chunking import outline_of, word_count

    task = ctx.payload
    _skip_if_unwanted(ctx)
    every = ctx.read(reads.parts, task.document, task.generation)
    markdown = "\n\n".join(markdown for _, _, markdown in every if markdown)
    words = word_count(markdown)
    outline = msgspec.json.encode(outline_of(markdown)).decode()
    ctx.write(writes.put_markdown, task.document, task.generation, markdown, words, outline)
    return words


def chunk(ctx: Context[P]) -> int:
    """Cut the text, and return the number of chunks. Their ids follow from the text: cut again they are the same."""
    from onceward_apps.documents.chunking import chunks_of

    task = ctx.payload
    _skip_if_unwanted(ctx)
    every = chunks_of(task.document, ctx.read(reads.markdown, task.document, task.generation))
    if not every:
        ctx.write(writes.fail, task.document, task.generation, Reason.NO_TEXT.value, "there is no text in it")
        raise Failed(f"{Reason.NO_TEXT}: there is no text in it")
    for done in range(ctx.cursor_as(int) or 0, len(every), CHUNKS_AT_ONCE):
        group = every[done : done + CHUNKS_AT_ONCE]
        found = [(one.chunk, one.position, one.start, one.end, one.heading, one.text) for one in group]
        ctx.write(writes.put_chunks, task.document, task.generation, found)
        ctx.checkpoint(done + len(group))
        ctx.progress(done + len(group), len(every), "cutting")
    ctx.write(writes.put_chunk_count, task.document, task.generation, len(every))
    return len(every)


def embed(ctx: Context[P]) -> str:
    """Give every chunk a vector, and return the name of the model that made them."""
    task = ctx.payload
    _skip_if_unwanted(ctx)
    own = not task.options.embedding
    model = offline().name if own else task.options.embedding
    total = ctx.read(reads.chunk_total, task.document, task.generation)
    first = ctx.cursor_as(int)
    if first is None:
        ctx.write(writes.keep_vectors, task.document, task.generation, model)
        ctx.checkpoint(first := 0)
    limit = VECTORS_AT_ONCE if own else PAID_VECTORS_AT_ONCE
    while group := ctx.read(reads.without_vectors, task.document, task.generation, first, limit):
        texts = [text for _, _, text in group]  # without headings: all of a chapter would seem to be alike
        rows = offline().embed(texts) if own else _paid_vectors(ctx, texts).matrix()
        vectors = [(one[0], row) for one, row in zip(group, rows, strict=True)]
        ctx.write(writes.put_vectors, task.document, task.generation, model, vectors)
        first = group[-1][1] + 1
        ctx.checkpoint(first)
        ctx.progress(first, total, "embedding")
    return model


def _most_calls(_task: Ingestion) -> int:
    """How often a provider is asked; a function, so that calls are set aside one by one as they are made."""
    return MOST_PAID_CALLS


def _paid_vectors(ctx: Context[P], texts: list[str]) -> provider.Vectors:
    model = ctx.payload.options.embedding
    asked: list[int] = []

    def ask() -> provider.Vectors:
        answer = provider.ask_for_vectors(model, texts)
        asked.append(answer.tokens)
        return answer

    key = provider.key_of(model, "embed", texts)
    answer: provider.Vectors = ctx.cached(provider.PROVIDER, key, ask, type=provider.Vectors)
    _meter(ctx, asked)
    return answer


def complete(ctx: Context[P]) -> None:
    """Put the generation in force, take the older one away, and have its connections found: all of it, or nothing."""
    task = ctx.payload
    _skip_if_unwanted(ctx)
    chunks = ctx.read(reads.chunk_total, task.document, task.generation)
    ctx.write(writes.swap, task.document, task.generation, _now())
    ctx.spawn(Connecting(task.document, task.generation, chunks, "document complete"))


def detect_connections(ctx: Context[Connecting]) -> int:
    """Find the connections with every searchable document, itself included, and return with how many documents.

    Documents are read and committed in portions: a book is one, and of notes some thousand are.
    """
    from onceward_apps.documents.connecting import links, worth_comparing

    task = ctx.payload
    mine = _current(ctx)
    found = 0
    while portion := ctx.read(reads.ready_documents, ctx.cursor_as(str) or "", PORTION):
        generations = dict(portion)
        others = ctx.read(reads.passages, portion)
        for other in worth_comparing(mine, [mine if one.document == task.document else one for one in others]):
            here, there = (task.document, task.generation), (other.document, generations[other.document])
            if other is mine:
                there = here
            left, right = (here, there) if task.document <= other.document else (there, here)
            pairs = [(link.left, link.right, link.score, link.why) for link in links(mine, other)]
            if pairs:
                ctx.write(writes.put_links, left, right, pairs)
        ctx.checkpoint(portion[-1][0])
        found += len(portion)
        ctx.progress(found, None, "connecting")
        if ctx.read(reads.generation_in_force, task.document) != task.generation:
            raise Skipped("the document was removed, or a newer file has taken its place")
    ctx.write(writes.put_connected, task.document, task.generation, _now())
    return found


def _current(ctx: Context[Connecting]) -> Passages:
    """The chunks of the generation in question, if it is in force."""
    task = ctx.payload
    if ctx.read(reads.generation_in_force, task.document) == task.generation:
        mine = ctx.read(reads.passages, [(task.document, task.generation)])
        if mine:
            return mine[0]
    raise Skipped("the document was removed, or a newer file has taken its place")


def _skip_if_unwanted(ctx: Context[P]) -> None:
    if not ctx.read(reads.is_wanted, ctx.payload.document, ctx.payload.generation):
        raise Skipped("the document was removed, or a newer file has come")


def _meter(ctx: Context[P], asked: list[int]) -> None:
    """Keep what a call has cost, if one was made."""
    if asked:
        ctx.write(writes.count, writes.PAID_CALLS, len(asked))
        ctx.write(writes.count, writes.PAID_TOKENS, sum(asked))


def _now() -> int:
    return round(time.time() * 1_000)


def _ms_since(began: float) -> int:
    return round((time.monotonic() - began) * 1_000)


PATIENCE = "365d"
"""How long a document may take: it may have to wait for a budget, and for a computer that is switched on."""
RETRY = Retry(retries=5, base="1s", cap="1m")

READER = Isolation(memory_mb=READER_MB, cpu="5m", runs=200)
"""The processes that read files, kept for many: most are read in less time than an interpreter takes to start."""

documents = Pipeline(Ingestion, unique="everywhere", retry=RETRY, deadline=PATIENCE)
documents.stage(isolate=READER)(extract)
documents.stage(save_markdown)
documents.stage(chunk)
documents.stage(embed)
documents.stage(complete)

paid_documents = Pipeline(PaidIngestion, unique="everywhere", retry=RETRY, deadline=PATIENCE)
paid_documents.stage(isolate=READER)(extract)
paid_documents.stage(budget=provider.CALLS, calls=_most_calls)(clean)
paid_documents.stage(save_markdown)
paid_documents.stage(chunk)
paid_documents.stage(budget=provider.CALLS, calls=_most_calls)(embed)
paid_documents.stage(complete)

connections = Pipeline(Connecting, unique="everywhere", retry=RETRY, deadline=PATIENCE)
connections.stage(detect_connections)

PIPELINES = (documents, paid_documents, connections)

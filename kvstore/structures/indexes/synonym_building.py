"""The index file of kind ``synonyms``: made, and brought up to the last commit.

In: an open environment and its embedder. On disk: the index file, see :mod:`.synonyms`. A name is embedded in the form
that the store shows, once: what is there already is kept. Pairs are found by the graph, so their number and the time
grow with the names and not with their square.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path

import numpy as np

from ...errors import IndexUnavailableError
from ...storage.environment import Environment
from ..counters import Counters
from ..names.entities import Entities
from ..vectors.hnsw import Graph
from ..vectors.vectors import Matrix
from . import index_file
from .index_building import MOST_DEAD, IndexProgress, Progress, publish, trusts
from .indexes import SYNONYMS, Indexes, IndexRecord, graph_options
from .synonyms import COLUMNS, SEARCHED, Rows, SynonymIndex

#: Names that are embedded, and names that are added to the graph, between two words of progress.
_EMBEDDED, _ADDED = 256, 512

#: Hears how many steps of how many are done.
_Tell = Callable[[int, int], None]
#: Rows, rows near to them, and their cosines.
_Pairs = tuple[Rows, Rows, Matrix]
_NO_PAIRS: _Pairs = (np.empty(0, np.uint32), np.empty(0, np.uint32), np.empty(0, np.float32))


class SynonymBuilder:
    """Builds the index file of names; ``embed`` gives unit vectors of texts."""

    def __init__(
        self, environment: Environment, path: Path, dimension: int, embed: Callable[[Sequence[str]], Matrix]
    ) -> None:
        self._environment = environment
        self._path = path
        self._dimension = dimension
        self._embed = embed

    def refresh(self, progress: Progress | None = None) -> bool:
        """Bring the file up to the last commit; True when there is a new one.

        False where the store has no such index. ``progress`` hears of steps: a new name
        takes two, one to embed it and one to find its neighbours. Raises IndexUnavailableError, LockTimeoutError,
        EmbedderError.
        """
        with index_file.drafting(self._path) as draft:
            with self._environment.snapshot() as snapshot:
                record = Indexes(snapshot).get(SYNONYMS)
                if record is None:
                    return False
                change = Counters.load(snapshot).change
                names = {entity: stored.name for entity, stored in Entities(snapshot).scan()}

            def tell(done: int, total: int) -> None:
                if progress is not None:
                    progress(IndexProgress(SYNONYMS, done, total))

            index = self._built(record, names, change, tell)
            token = os.urandom(16)
            numbers, arrays = index.graph.parts()
            head = {"kind": SYNONYMS, "token": token, "epoch": index.epoch, "options": index.options}
            columns = {name: getattr(index, name) for name in COLUMNS}
            draft.write({**head, "change": change, "numbers": numbers}, {**arrays, **columns})
            return publish(self._environment, draft, record, token)

    def _built(self, record: IndexRecord, names: Mapping[int, str], change: int, tell: _Tell) -> SynonymIndex:
        """The index of some names, by entity."""
        digests = {entity: _digest(name) for entity, name in names.items()}
        options = {name: record.option(name) for name in ("similarity", "neighbours", *graph_options(record))}
        old = self._old(record)
        rows = [] if old is None else zip(old.entities.tolist(), old.digests.tolist(), strict=True)
        kept = np.array([digests.get(entity) == digest for entity, digest in rows], np.bool_)
        entities = np.empty(0, np.uint32) if old is None else np.where(kept, old.entities, 0).astype(np.uint32)
        new = sorted(names.keys() - set(entities.tolist()))
        pairs = _NO_PAIRS
        if old is None or old.options != options or len(kept) - kept.sum() > MOST_DEAD * len(kept):
            graph = Graph.new(self._dimension, **graph_options(record))
            vectors = np.empty((0, self._dimension), np.float32) if old is None else old.vectors[kept]
            start, entities = 0, entities[kept]
        else:
            graph, vectors, start = old.graph, old.vectors[:0], len(kept)
            lasting = kept[old.first] & kept[old.second]
            pairs = old.first[lasting], old.second[lasting], old.cosines[lasting]
        steps = 2 * len(new) + len(vectors)
        vectors = np.concatenate([vectors, self._embedded([names[entity] for entity in new], steps, tell)])
        entities = np.concatenate([entities, np.array(new, np.uint32)])
        for added in range(0, len(vectors), _ADDED):
            part = vectors[added : added + _ADDED]
            graph.add(np.arange(start + added, start + added + len(part), dtype=np.uint64), part)
        done = steps - len(vectors)
        found = [pairs]
        for row, vector in enumerate(vectors, start):
            found.append(_near(graph, row, vector, entities, options))
            if (row - start + 1) % _ADDED == 0:
                tell(done + row - start + 1, steps)
        tell(steps, steps)
        first, second, cosines = _both_ways(found)
        return SynonymIndex(
            graph=graph,
            vectors=vectors,
            entities=entities,
            digests=np.array([digests.get(entity, 0) for entity in entities.tolist()], np.uint64),
            first=first,
            second=second,
            cosines=cosines,
            change=change,
            epoch=record.epoch,
            options=options,
        )

    def _old(self, record: IndexRecord) -> SynonymIndex | None:
        """What the last file holds, where it can be gone on with."""
        try:
            index = SynonymIndex.read(
                self._path, self._dimension, lambda token: trusts(self._environment, SYNONYMS, token)
            )
        except (FileNotFoundError, IndexUnavailableError):
            return None
        return index if index.epoch == record.epoch else None

    def _embedded(self, names: Sequence[str], steps: int, tell: _Tell) -> Matrix:
        parts = [np.empty((0, self._dimension), np.float32)]
        for first in range(0, len(names), _EMBEDDED):
            parts.append(self._embed(names[first : first + _EMBEDDED]))
            tell(min(first + _EMBEDDED, len(names)), steps)
        return np.concatenate(parts)


def _digest(name: str) -> int:
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest())


def _near(graph: Graph, row: int, vector: Matrix, entities: Rows, options: Mapping[str, float]) -> _Pairs:
    """The rows near to one, with their cosines: names that still are, the nearest first, at most ``neighbours``."""
    most = int(options["neighbours"])
    others, cosines = graph.search(vector, max(SEARCHED, 2 * most))
    others = others.astype(np.uint32)
    kept = (cosines >= options["similarity"]) & (others != row) & (entities[others] != 0)
    others, cosines = others[kept][:most], cosines[kept][:most]
    return np.full(len(others), row, np.uint32), others, cosines


def _both_ways(found: Sequence[_Pairs]) -> _Pairs:
    """All pairs in both directions, each once, in order of the first row and then the second."""
    first, second, cosines = (np.concatenate(column) for column in zip(*found, strict=True))
    codes = np.concatenate([first, second]).astype(np.uint64) << np.uint64(32) | np.concatenate([second, first])
    unique, places = np.unique(codes, return_index=True)
    return (
        (unique >> np.uint64(32)).astype(np.uint32),
        (unique & np.uint64(0xFFFFFFFF)).astype(np.uint32),
        np.concatenate([cosines, cosines])[places],
    )

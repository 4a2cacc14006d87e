"""A two-dimensional map of chunks: clusters of their vectors, with labels made of their texts. A *coloring* is the
property that chunks are colored by: cluster, document, topic, community or a metadata field. A *group* is the chunks of
one color. The *index* of a chunk is its number on the map.

In: a session on a store. Out: for every chunk, in order of document key and ordinal, its position on the map (see
:mod:`.map_layout`) and its group for a coloring. The last maps are cached, so that a page finds its own map even if
the store has changed since the page was loaded.
"""

from __future__ import annotations

import hashlib
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

import kvstore

from ...errors import InputError
from ..store_queries import list_built_indexes
from .followed_store import identify_file
from .map_labels import label_clusters
from .map_layout import MapLayout

#: The number of chunks that the layout is computed from, and the number per cluster that its label is made of.
_MAX_SAMPLED = 20_000
_MAX_LABELED = 300
#: The number of vectors read at a time.
_BATCH_SIZE = 8192
#: The number of groups with their own color; all other chunks form the last group.
MAX_GROUPS = 11
#: The resolution of an axis.
AXIS_STEPS = 65535
#: The index that each coloring by groups of an index needs.
INDEX_KINDS = {"topic": "topics", "community": "communities"}


@dataclass(frozen=True, slots=True)
class ChunkGroups:
    """The groups of chunks with the same color: (name, number of chunks) of each, and the group of every chunk."""

    names: list[tuple[str, int]]
    indexes: npt.NDArray[np.uint8]


def _fetch_rows(store: kvstore.Store, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """Return all rows of a query, without limits on time and rows, because the map contains every chunk."""
    return store.query(query, values, timeout=None, max_rows=None).fetchall()


class ChunkMap:
    """The map of one state of a store. Four arrays have an element per chunk: ``document_indexes``, its document's
    index in ``documents`` (the keys); ``ordinals``, its number in the document; ``clusters``, the index of its cluster;
    and ``points``, its x and y. ``labels`` are the labels of the clusters.

    It reads every vector when it is created. Chunks are in order of document key and ordinal. Coordinates are from 0 to
    :data:`AXIS_STEPS`. ``id`` is a text that differs between two states of a store.
    """

    def __init__(self, store: kvstore.Store, snapshot: kvstore.Snapshot, map_id: str = "") -> None:
        """Compute the layout from a sample of the chunks, and the position, cluster and label of every chunk.

        Chunks and vectors are read from ``snapshot``, and the texts for labels from ``store``, which may have changed.
        """
        self.id = map_id
        with snapshot.state() as state:
            rows = [
                (chunk_id, record.key, ordinal)
                for record in state.documents.scan()
                for ordinal, chunk_id in enumerate(record.chunk_ids())
            ]
        rows.sort(key=lambda row: row[1:])  # by document key and ordinal
        self.documents = sorted({document for _, document, _ in rows})
        indexes_by_key = {key: index for index, key in enumerate(self.documents)}
        self.document_indexes = np.array([indexes_by_key[document] for _, document, _ in rows], np.uint32)
        self.ordinals = np.array([ordinal for _, _, ordinal in rows], np.uint32)
        self._indexes_by_ordinal = {(document, ordinal): index for index, (_, document, ordinal) in enumerate(rows)}
        ids = [chunk_id for chunk_id, _, _ in rows]
        self.indexes_by_id = {chunk_id: index for index, chunk_id in enumerate(ids)}
        cosines = self._place_chunks(snapshot, ids)
        self.labels = self._make_labels(store, ids, cosines)
        self._groups: dict[tuple[str, kvstore.IndexStatus | None], ChunkGroups] = {}

    def _place_chunks(self, snapshot: kvstore.Snapshot, ids: Sequence[int]) -> npt.NDArray[np.float32]:
        """Compute the layout, and set ``clusters`` and ``points``; return each chunk's cosine with its cluster center.

        ``ids`` are the ids of all chunks, in the order of the map.
        """
        step = max(1, -(-len(ids) // _MAX_SAMPLED))  # rounded up, so that at most _MAX_SAMPLED chunks are sampled
        self._layout = MapLayout(snapshot.vectors(ids[::step]))
        positions = np.zeros((len(ids), 2), np.float32)
        self.clusters = np.zeros(len(ids), np.uint8)
        cosines = np.zeros(len(ids), np.float32)
        for start in range(0, len(ids), _BATCH_SIZE):
            batch = slice(start, start + _BATCH_SIZE)
            vectors = snapshot.vectors(ids[batch])
            positions[batch] = self._layout.project(vectors)
            self.clusters[batch] = self._layout.assign_clusters(vectors)
            cosines[batch] = self._layout.compute_cosines(vectors)
        self._lowest = positions.min(0) if len(ids) else np.zeros(2, np.float32)
        # One scale for both axes keeps distances in the plane comparable.
        self._scale = float(max((positions - self._lowest).max(initial=0.0), 1e-9))  # not 0, because it is a divisor
        self.points = np.rint((positions - self._lowest) / self._scale * AXIS_STEPS).astype(np.uint16)
        return cosines

    def __len__(self) -> int:
        """Return the number of chunks."""
        return len(self.document_indexes)

    @property
    def method(self) -> str:
        """The method of the layout: ``clusters`` or ``UMAP``."""
        return self._layout.method

    def _make_labels(self, store: kvstore.Store, ids: Sequence[int], cosines: npt.NDArray[np.float32]) -> list[str]:
        """Return a label for each cluster, from the titles, headings and texts of the chunks nearest to its center.

        ``cosines`` has, for each of ``ids``, the cosine of the chunk with the center of its cluster.
        """
        texts_by_cluster: list[list[tuple[str, str]]] = []
        for cluster in range(self._layout.num_clusters):
            members = np.flatnonzero(self.clusters == cluster)
            nearest_members = members[np.argsort(-cosines[members], kind="stable")][:_MAX_LABELED]
            nearest_ids = [ids[index] for index in nearest_members.tolist()]
            rows = _fetch_rows(
                store,
                "SELECT coalesce(title, '') || ' > ' || coalesce(heading, ''), text FROM "
                f"(SELECT document, heading, text FROM chunks WHERE id IN ({','.join('?' * len(nearest_ids))})) "
                "JOIN documents ON key = document",
                nearest_ids,
            )
            texts_by_cluster.append([(str(heading), str(text)) for heading, text in rows])
        return label_clusters(texts_by_cluster)

    def list_label_points(self) -> list[dict[str, Any]]:
        """Return each label with its number of chunks and the median x and y of its cluster, from 0 to 1.

        Labels of clusters without chunks are omitted.
        """
        labels = []
        for cluster, label in enumerate(self.labels):
            members = self.points[self.clusters == cluster]
            if len(members):
                x, y = (np.median(members, 0) / AXIS_STEPS).round(4).tolist()
                labels.append({"name": label, "chunks": len(members), "x": x, "y": y})
        return labels

    def locate_vector(self, vector: npt.NDArray[np.float32]) -> tuple[float, float]:
        """Return the coordinates (x, y) of a vector: from 0 to 1 for the map's chunks, possibly outside for others."""
        x, y = ((self._layout.project(vector[None]) - self._lowest) / self._scale)[0].tolist()
        return x, y

    def find_index(self, document: str, ordinal: int) -> int | None:
        """Return the index in this map of the chunk ``ordinal`` of a document, or None if it does not exist."""
        return self._indexes_by_ordinal.get((document, ordinal))

    def get_groups(self, store: kvstore.Store, coloring: str) -> ChunkGroups:
        """Return the groups of a coloring: ``cluster``, ``document``, ``topic``, ``community`` or a metadata field.

        The groups are cached.
        """
        kind = INDEX_KINDS.get(coloring)
        # An index can be rebuilt without a change of the documents.
        status = None if kind is None else next((status for status in store.indexes() if status.kind == kind), None)
        groups = self._groups.get((coloring, status))
        if groups is None:
            groups = self._groups[coloring, status] = _group_labels(self._label_chunks(store, coloring))
        return groups

    def _label_chunks(self, store: kvstore.Store, coloring: str) -> list[str | None]:
        """Return the label of each chunk in a coloring; None for a chunk without a label.

        If the index of ``topic`` or ``community`` is not built, this is the name of a metadata field.
        """
        kind = INDEX_KINDS.get(coloring)
        is_built = kind is None or kind in list_built_indexes(store)
        label_chunks = _LABELERS.get(coloring) if is_built else None
        return _label_by_field(store, self, coloring) if label_chunks is None else label_chunks(store, self)


def _group_labels(labels: Sequence[str | None]) -> ChunkGroups:
    """Return the groups of chunks with the same label (None: no label).

    The :data:`MAX_GROUPS` largest groups come first; all other chunks, including those without a label, form the last
    group.
    """
    counts = Counter(labels)
    num_unlabeled = counts.pop(None, 0)
    largest = sorted(counts, key=lambda label: (-counts[label], str(label)))[:MAX_GROUPS]
    group_indexes = {label: group_index for group_index, label in enumerate(largest)}
    names = [(str(label), counts[label]) for label in largest]
    num_others = len(labels) - sum(counts[label] for label in largest)
    if num_others:
        num_other_labels = len(counts) - len(largest)
        other_labels = "1 other" if num_other_labels == 1 else f"{num_other_labels:,} others"
        last_name = "none" if num_others == num_unlabeled else other_labels
        names.append((last_name, num_others))
    return ChunkGroups(names, np.array([group_indexes.get(label, len(largest)) for label in labels], np.uint8))


def _label_by_cluster(store: kvstore.Store, chunks: ChunkMap) -> list[str | None]:
    """Return the label of each chunk's cluster, which consists of typical words; never None. ``store`` is not used."""
    return [chunks.labels[cluster] for cluster in chunks.clusters.tolist()]


def _label_by_document(store: kvstore.Store, chunks: ChunkMap) -> list[str | None]:
    """Return the title of each chunk's document, followed by the key if several documents have it; never None."""
    stored_titles: dict[Any, str] = dict(_fetch_rows(store, "SELECT key, coalesce(title, key) FROM documents"))
    titles = [stored_titles.get(key, key) for key in chunks.documents]  # a document may have been deleted meanwhile
    # Two documents with the same title are two groups.
    counts = Counter(titles)
    names = [
        f"{title} ({key})" if counts[title] > 1 else title for title, key in zip(titles, chunks.documents, strict=True)
    ]
    return [names[document_index] for document_index in chunks.document_indexes.tolist()]


def _label_by_field(store: kvstore.Store, chunks: ChunkMap, field: str) -> list[str | None]:
    """Return the value of a metadata field of each chunk's document as a string, or None without a value."""
    rows = _fetch_rows(store, "SELECT key, meta ->> ? FROM documents", (f'$."{field}"',))
    values_by_key = {key: None if value is None else str(value) for key, value in rows}
    document_values = [values_by_key.get(key) for key in chunks.documents]
    return [document_values[document_index] for document_index in chunks.document_indexes.tolist()]


def _label_by_topic(store: kvstore.Store, chunks: ChunkMap) -> list[str | None]:
    """Return the title of the coarsest topic that contains each chunk, or None if no topic does.

    If that title is empty, the title of the finest topic takes its place.
    """
    # A chunk is a member of a topic of level 0, the finest.
    titles: dict[Any, str] = dict(_fetch_rows(store, "SELECT topic, title FROM topics WHERE level = 0"))
    coarse_titles = _load_coarse_titles(store)
    labels: list[str | None] = [None] * len(chunks)
    for topic, document, ordinal in _fetch_rows(
        store, "SELECT topic, document, chunk FROM topic_members WHERE tree = 'similarity'"
    ):
        index = chunks.find_index(document, ordinal)
        if index is not None:
            labels[index] = coarse_titles.get(topic) or titles.get(topic)
    return labels


def _load_coarse_titles(store: kvstore.Store) -> dict[int, str]:
    """Return the title of the coarsest ancestor, or of the topic itself, for each topic of the ``similarity`` tree.

    If the tree has only one root, the topics directly below the root are the coarsest.
    """
    rows = _fetch_rows(store, "SELECT topic, parent, title FROM topics WHERE tree = 'similarity'")
    parents = {topic: parent for topic, parent, _ in rows}
    titles = {topic: title for topic, _, title in rows}
    coarse_titles: dict[int, str] = {}
    roots = [topic for topic, parent in parents.items() if parent is None]
    # The coarsest topics are those with one of these parents.
    top_parents = (None, roots[0]) if len(roots) == 1 else (None,)
    for topic in parents:
        ancestor = topic
        while parents.get(ancestor) not in top_parents:
            ancestor = parents[ancestor]
        coarse_titles[topic] = titles[ancestor]
    return coarse_titles


def _label_by_community(store: kvstore.Store, chunks: ChunkMap) -> list[str | None]:
    """Return, for each chunk, the title of the level-0 community with the most entities in the chunk.

    If several communities have the most entities, the first by key is used. A chunk without such entities gets None.
    """
    titles: dict[Any, str] = dict(_fetch_rows(store, "SELECT community, title FROM communities WHERE level = 0"))
    query = "SELECT entity, community FROM community_members WHERE level = 0 ORDER BY community DESC"
    # The first by key, since rows in descending order overwrite each other.
    communities_by_name: dict[Any, str] = dict(_fetch_rows(store, query))
    counts_by_chunk: dict[int, Counter[str]] = {}  # the number of entities of each community in a chunk
    for name, community in communities_by_name.items():
        for (chunk_id,) in _fetch_rows(store, "SELECT DISTINCT chunk FROM mentions WHERE entity = ?", (name,)):
            index = chunks.indexes_by_id.get(chunk_id)
            if index is not None:
                counts_by_chunk.setdefault(index, Counter())[community] += 1
    labels: list[str | None] = [None] * len(chunks)
    for index, counts in counts_by_chunk.items():
        labels[index] = titles.get(min(counts, key=lambda community: (-counts[community], community)))
    return labels


#: The function that returns the label of each chunk in a coloring; other colorings are metadata fields.
_LABELERS: dict[str, Callable[[kvstore.Store, ChunkMap], list[str | None]]] = {
    "cluster": _label_by_cluster,
    "document": _label_by_document,
    "topic": _label_by_topic,
    "community": _label_by_community,
}
#: The last maps by their ids, and their maximum number.
_CACHE: dict[str, ChunkMap] = {}
_MAX_CACHED = 2
_LOCK = threading.Lock()


def get_chunk_map(store: kvstore.Store, map_id: str = "") -> ChunkMap:
    """Return the map of the store's current state, or the map with an id, which an earlier state may have had.

    Only the last maps are cached. Raises InputError if the map with the id is not one of them.
    """
    # Concurrent requests wait for the same map.
    with _LOCK, store.snapshot() as snapshot, snapshot.state() as state:
        # The file changes if another store replaces the store, and ``change`` (the number of commits) with a commit.
        key = str(store.path), identify_file(store.path), state.counters.change
        current_id = hashlib.sha256(repr(key).encode()).hexdigest()[:16]
        chunk_map = _CACHE.get(map_id or current_id)
        if chunk_map is None:
            if map_id not in ("", current_id):
                raise InputError("the store has changed since this page was loaded; reload the page")
            while len(_CACHE) >= _MAX_CACHED:
                del _CACHE[next(iter(_CACHE))]  # the oldest
            chunk_map = _CACHE[current_id] = ChunkMap(store, snapshot, current_id)
        return chunk_map

"""Systems to compare the strategies with, over the same chunks and vectors. An *abstract* summarizes a few chunks. The
filter has the *addresses* of a name: *nodes* of its entity in the trees, and the abstracts that mention it.

``bm25s`` (the package, its defaults, English stop words and the store's stemmer), ``dense`` (a matrix of all vectors
and one product: the naive RAG of Bridge-RAG, section 5.1), ``tree-rag`` (approximate neighbors among the names of the
entity trees, their relatives one edge up and down, the chunks that mention them) and ``graph-rag`` (approximate
neighbors among the abstracts, one hop over the entities they share). The last two are Bridge-RAG's baselines, section
5.1; approximate neighbors are hnswlib's. In: a filled store. Out: retrievers; what they build is not timed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import bm25s
import hnswlib
import numpy as np
import numpy.typing as npt
import snowballstemmer

import kvstore
from kvstore.structures.documents.chunks import FIRST_UPPER_ABSTRACT
from kvstore.structures.filter.addresses import NODE_RANK, split_address
from kvstore.structures.state import State
from kvstore.structures.vectors.vectors import Matrix

from .passages import Passage
from .retrievers import NUM_CHUNKS, RetrievedChunks, Retriever, VectorRetriever

#: Nearest names and abstracts that the tree and the graph baseline start from.
_NUM_NEAREST = 10
#: The number of texts embedded at a time.
_BATCH = 256


class _Chunks:
    """All chunks of a store in memory: their ids, document keys, texts and vectors, all in the same order."""

    def __init__(self, state: State) -> None:
        """Read all chunks of a state."""
        rows = list(state.chunks.scan())
        self.ids = [chunk for chunk, _ in rows]
        self.indexes = {chunk: index for index, chunk in enumerate(self.ids)}
        keys = {record.document: state.documents.get(record.document).key for _, record in rows}
        self.documents = [keys[record.document] for _, record in rows]
        self.spans = [(record.start, record.end) for _, record in rows]
        titles = {document: state.documents.get(document).title or "" for document in keys}
        self.titles = [titles[record.document] for _, record in rows]
        self.texts = [state.read_chunk_text(chunk) for chunk in self.ids]
        self.vectors = state.vectors.gather([(record.block, record.row) for _, record in rows])

    def get_passage(self, index: int) -> Passage:
        """Return the chunk at an index of :attr:`ids`."""
        return Passage(self.documents[index], *self.spans[index], self.texts[index])

    def select_best(self, indexes: npt.NDArray[np.int64], scores: npt.NDArray[np.float32]) -> RetrievedChunks:
        """Return the NUM_CHUNKS chunks with the highest scores, best first; the chunks are indexes in :attr:`ids`."""
        count = min(NUM_CHUNKS, len(indexes))
        top = np.argpartition(-scores, count - 1)[:count] if count else np.empty(0, np.int64)
        order = indexes[top[np.argsort(-scores[top], kind="stable")]].tolist()
        return RetrievedChunks([self.get_passage(index) for index in order], len(indexes))

    def find_nearest(self, chunks: Iterable[int], vector: Matrix) -> RetrievedChunks:
        """Return the chunks nearest to a unit vector among the chunks with these ids; unknown ids are ignored."""
        indexes = np.array(sorted({self.indexes[chunk] for chunk in chunks if chunk in self.indexes}), np.int64)
        return self.select_best(indexes, self.vectors[indexes] @ vector)


def build_baselines(store: kvstore.Store, log: Callable[[str], None]) -> list[Retriever]:
    """Build all baselines from the content of a store."""
    with store.state() as state:
        chunks = _Chunks(state)
        tree, graph = _TreeRag(state, chunks, store.embed, log), _GraphRag(state, chunks, store.embed, log)
    all_indexes = np.arange(len(chunks.ids))

    def search_dense(_: str, vector: Matrix) -> RetrievedChunks:
        """Return the chunks nearest to a vector, by comparing all of them."""
        return chunks.select_best(all_indexes, chunks.vectors @ vector)

    embed = store.embedder.embed_query
    return [
        _Bm25s(chunks),
        VectorRetriever("dense", embed, search_dense),
        VectorRetriever("tree-rag", embed, tree),
        VectorRetriever("graph-rag", embed, graph),
    ]


class _Bm25s:
    """BM25 of the package bm25s."""

    name = "bm25s"

    def __init__(self, chunks: _Chunks) -> None:
        """Index the titles and texts of the chunks."""
        self._chunks = chunks
        self._stemmer = snowballstemmer.stemmer("english").stemWords
        texts = [f"{title}\n{text}" for title, text in zip(chunks.titles, chunks.texts, strict=True)]
        self._index = bm25s.BM25()
        self._index.index(self._tokenize(texts), show_progress=False)

    def __call__(self, question: str) -> RetrievedChunks:
        """Return the chunks with the best BM25 scores."""
        count = min(NUM_CHUNKS, len(self._chunks.ids))
        indexes, _ = self._index.retrieve(self._tokenize([question]), k=count, show_progress=False)
        passages = [self._chunks.get_passage(index) for index in indexes[0].tolist()]
        return RetrievedChunks(passages, len(self._chunks.ids))

    def _tokenize(self, texts: Sequence[str]) -> object:
        """Return the stems of texts without stop words, as bm25s expects them."""
        return bm25s.tokenize(list(texts), stopwords="en", stemmer=self._stemmer, show_progress=False)


class _TreeRag:
    """Search over the names of the entity trees: the nearest names and their relatives lead to the chunks.

    If the store has no trees, all its names are used, without relatives.
    """

    def __init__(
        self, state: State, chunks: _Chunks, embed: Callable[[list[str]], Matrix], log: Callable[[str], None]
    ) -> None:
        """Index the names of the entities in trees, or of all without trees; collect relatives and mentions."""
        self._chunks = chunks
        names = [(entity, record.name) for entity, record in state.entities.scan()]
        entities_by_node = {node: state.forest.get_node(node).entity for node in _iter_nodes(state, names)}
        tree_entities = set(entities_by_node.values())
        names = [(entity, name) for entity, name in names if not tree_entities or entity in tree_entities]
        self._entities = [entity for entity, _ in names]
        self._index = _build_hnsw_index(_embed_texts(embed, [name for _, name in names], "names", log))
        #: The parents and children of each entity in the trees.
        self._relatives: dict[int, set[int]] = {}
        for node, entity in entities_by_node.items():
            for parent in state.forest.iter_parents(node):
                self._relatives.setdefault(entity, set()).add(entities_by_node[parent])
                self._relatives.setdefault(entities_by_node[parent], set()).add(entity)
        #: The chunks that mention each entity.
        self._mentions: dict[int, set[int]] = {}
        for chunk, mentions in state.mentions.scan():
            for entity in {mention.entity for mention in mentions}:
                self._mentions.setdefault(entity, set()).add(chunk)

    def __call__(self, _: str, vector: Matrix) -> RetrievedChunks:
        """Return the chunks nearest to a vector among those that mention the nearest names or their relatives."""
        labels, _distances = self._index.knn_query(vector, k=min(_NUM_NEAREST, len(self._entities)))
        nearest = [self._entities[label] for label in labels[0].tolist()]
        entities = {relative for entity in nearest for relative in self._relatives.get(entity, ())}.union(nearest)
        chunks = (chunk for entity in entities for chunk in self._mentions.get(entity, ()))
        return self._chunks.find_nearest(chunks, vector)


class _GraphRag:
    """Search over the abstracts of the lowest level, the *leaves*.

    The nearest leaves, and those that share most entities with them, lead to the chunks.
    """

    def __init__(
        self, state: State, chunks: _Chunks, embed: Callable[[list[str]], Matrix], log: Callable[[str], None]
    ) -> None:
        """Index the leaves, and collect their chunks and entities."""
        self._chunks = chunks
        leaves = [(abstract, record) for abstract, record in state.abstracts.scan() if abstract < FIRST_UPPER_ABSTRACT]
        self._leaves = [abstract for abstract, _ in leaves]
        texts = [state.abstracts.read_text(record) for _, record in leaves]
        self._index = _build_hnsw_index(_embed_texts(embed, texts, "abstracts", log))
        self._chunk_ids = {abstract: list(state.abstracts.get_chunk_ids(abstract)) for abstract in self._leaves}
        #: The leaves that mention each entity, and the entities of each leaf.
        self._abstracts: dict[int, list[int]] = {}
        self._entities: dict[int, list[int]] = {}
        for key, entry in state.filter.iter_entries():
            for rank, address in map(split_address, state.filter.get_addresses(key).tolist()):
                if rank != NODE_RANK and address < FIRST_UPPER_ABSTRACT:
                    self._abstracts.setdefault(entry.entity, []).append(address)
                    self._entities.setdefault(address, []).append(entry.entity)

    def __call__(self, _: str, vector: Matrix) -> RetrievedChunks:
        """Return the chunks nearest to a vector among the chunks of the nearest leaves and of those linked to them.

        Leaves are linked if they mention the same entities.
        """
        labels, _distances = self._index.knn_query(vector, k=min(_NUM_NEAREST, len(self._leaves)))
        nearest = [self._leaves[label] for label in labels[0].tolist()]
        shared = Counter(
            other for leaf in nearest for entity in self._entities.get(leaf, ()) for other in self._abstracts[entity]
        )
        linked = [leaf for leaf, _ in shared.most_common(_NUM_NEAREST * _NUM_NEAREST)]
        return self._chunks.find_nearest(
            (chunk for leaf in {*nearest, *linked} for chunk in self._chunk_ids[leaf]), vector
        )


def _iter_nodes(state: State, names: list[tuple[int, str]]) -> Iterable[int]:
    """Yield the ids of the tree nodes of entities; ``names`` are pairs (id of the entity, name)."""
    for entity, _ in names:
        for rank, address in map(split_address, state.filter.get_addresses(state.entities.get(entity).key).tolist()):
            if rank == NODE_RANK:
                yield address


def _embed_texts(
    embed: Callable[[list[str]], Matrix], texts: list[str], kind: str, log: Callable[[str], None]
) -> Matrix:
    """Return the vectors of texts, embedded in batches; ``kind`` names the texts in the log."""
    batches = []
    for start in range(0, len(texts), _BATCH):
        batches.append(embed(texts[start : start + _BATCH]))
        log(f"{min(start + _BATCH, len(texts))} of {len(texts)} {kind} embedded for the baselines")
    return np.concatenate(batches)


def _build_hnsw_index(vectors: Matrix) -> hnswlib.Index:
    """Build an HNSW index of unit vectors by cosine; a label is the index of a row."""
    index = hnswlib.Index(space="ip", dim=vectors.shape[1])
    index.init_index(max_elements=len(vectors), M=16, ef_construction=100, random_seed=0)
    index.add_items(vectors)
    index.set_ef(64)
    return index

"""Graphs of near neighbours over codes: hierarchical navigable small worlds (Malkov and Yashunin 2018).

In: unit vectors under ascending labels of 64 bits, quantised to a byte a number. Out: named arrays that an index file
keeps, and the labels of largest cosine, approximately: found by walking the links, or, where there are none, by
comparing every code. The arrays are used where they lie, read or mapped. The kernel ``kvstore_cext.hnsw`` says how
graphs are built and walked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from kvstore_cext.hnsw import CODE_SIDE, NONE, CodeGraph, CodeGraphBuilder, checksums, packed, unpack

from ...arguments import Option
from ...errors import IndexUnavailableError
from ..documents.allowed import AllowedDocuments, ChunkSet
from ..documents.chunks import GROUP_SIZE
from .vectors import Ids, Matrix

#: Decides the layers that nodes are drawn into, so that a graph is the same whenever it is built of the same.
SEED = 0x6B76
#: What a graph is built with, after which it cannot have others.
GRAPH_OPTIONS: Mapping[str, Option] = {
    "m": Option(16, 4, 100, "links that a vector has in a layer of the graph; twice as many in the lowest"),
    "ef_construction": Option(200, 8, 2000, "candidates looked at for the links of a new vector"),
}
#: A graph is built anew when more than this share of it is what is no more.
MAX_DEAD_SHARE = 0.2
#: Arrays of which the kernel verifies what it meets, node by node: nobody need read them before.
CHECKED_IN_PLACE = ("labels", "codes", "scales", "starts", "links")
#: Comparing so many codes takes about as long as finding one candidate by walking.
CODES_A_CANDIDATE = 50
#: How far the cosine of a code may be from the vector's, in units of its scale: the errors of its numbers lie evenly
#: within half a scale, so that of the cosine has a standard deviation of a scale / √12, and this is four of them.
MAX_COSINE_ERROR = 1.2
#: Runs of ids are looked up one by one where the labels are at least this many times as many.
_SPARSE_FACTOR = 4

_MAX_LAYERS = 15


class CodedRows(NamedTuple):
    """Labels (n), ascending, codes (n, a multiple of :data:`CODE_SIDE`) and scales (n) of vectors."""

    labels: Ids
    codes: npt.NDArray[np.int8]
    scales: Matrix

    @classmethod
    def from_vectors(cls, labels: Ids, vectors: Matrix) -> CodedRows:
        """Unit vectors, shape (n, dimension), quantised: whole numbers to 127, and what makes them of unit length."""
        count, dimension = vectors.shape
        codes = np.zeros((count, -(-dimension // CODE_SIDE) * CODE_SIDE), np.int8)
        peaks = np.maximum(np.abs(vectors).max(axis=1, initial=0, keepdims=True), np.float32(1e-30))
        codes[:, :dimension] = np.rint(vectors * (np.float32(127) / peaks))
        squares = np.einsum("ij,ij->i", codes, codes, dtype=np.int64)
        return cls(labels, codes, (1 / np.sqrt(np.maximum(squares, 1))).astype(np.float32))

    @classmethod
    def concatenate(cls, parts: Sequence[CodedRows]) -> CodedRows:
        """Rows one after the other."""
        return cls(*map(np.concatenate, zip(*parts, strict=True)))

    def select(self, rows: Any) -> CodedRows:
        """Some of them."""
        return CodedRows(*(column[rows] for column in self))


class NearCodes(NamedTuple):
    """Labels with the cosines of their codes, best first; ``is_exhaustive`` where no other may answer."""

    labels: Ids
    cosines: Matrix
    scales: Matrix
    is_exhaustive: bool


class HnswGraph:
    """Codes and the links between near ones; any number of threads may search it.

    Raises IndexUnavailableError where the arrays do not fit each other, and where a node met fails its checksum.
    """

    def __init__(self, arrays: Mapping[str, npt.NDArray[Any]], entry: int) -> None:
        try:
            self._graph = CodeGraph(**{name: arrays[name] for name in (*CHECKED_IN_PLACE, "checks")}, entry=entry)
        except KeyError as error:
            raise IndexUnavailableError(f"of another version, without {error}; REFRESH builds it anew") from error
        except (TypeError, ValueError, OverflowError) as error:
            raise IndexUnavailableError(f"the arrays of the graph contradict each other: {error}") from error
        self.arrays = arrays
        self.entry = entry
        self.rows = CodedRows(arrays["labels"], arrays["codes"], arrays["scales"])
        #: Whether a search may walk links; else all codes are compared.
        self.is_linked = len(arrays["starts"]) > 1
        #: Where the chunks of documents stand that were asked for: who restricts a search restricts many.
        self._ranges: WeakKeyDictionary[AllowedDocuments, tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]
        self._ranges = WeakKeyDictionary()

    def __len__(self) -> int:
        return len(self.rows.labels)

    def find_nearest(self, query: Matrix, ef: int, allowed: ChunkSet | None = None) -> NearCodes:
        """About the ``ef`` labels of largest cosine with a unit vector, of those ``allowed``.

        They are found by walking where that is quicker than comparing all that may answer.
        """
        labels = self.rows.labels
        groups = allowed.groups if isinstance(allowed, AllowedDocuments) else None
        count = len(labels) if allowed is None else min(allowed.count, len(labels))
        try:
            can_walk = self.is_linked and (allowed is None or groups is not None)
            # A walk meets len / count times as many as may answer.
            if can_walk and count * count > CODES_A_CANDIDATE * ef * len(labels):
                near_codes = self._graph.search(query, ef, groups, GROUP_SIZE)
                if len(near_codes[0]) == ef:  # else a part of the graph cannot be reached from the rest
                    return NearCodes(*near_codes, False)
            if allowed is None or (
                isinstance(allowed, AllowedDocuments) and _SPARSE_FACTOR * len(allowed) > len(labels)
            ):
                starts, stops = np.zeros(1, np.int64), np.full(1, len(labels), np.int64)
            elif isinstance(allowed, AllowedDocuments):
                (starts, stops), groups = self._get_ranges(allowed), None
            else:
                starts = allowed.find_positions(labels)
                stops = starts + 1
            compared_codes = self._graph.compare(query, ef, starts, stops, groups, GROUP_SIZE)
        except ValueError as error:
            raise IndexUnavailableError(f"{error}; REFRESH builds it anew") from error
        return NearCodes(*compared_codes, len(compared_codes[0]) < ef)

    def _get_ranges(self, allowed: AllowedDocuments) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Of each document that may answer the first row of its chunks, and the one behind the last."""
        ranges = self._ranges.get(allowed)
        if ranges is None:
            labels = self.rows.labels
            ranges = self._ranges[allowed] = labels.searchsorted(allowed.starts), labels.searchsorted(allowed.stops)
        return ranges

    def verify(self) -> None:
        """Verify every node."""
        try:
            self._graph.verify()
        except ValueError as error:
            raise IndexUnavailableError(f"{error}; REFRESH builds it anew") from error


def make_unlinked_graph(rows: CodedRows) -> HnswGraph:
    """A graph without links, of which every code is compared."""
    return _make_graph(rows, np.zeros(1, np.uint32), np.empty(0, np.uint8), 0)


class HnswBuilder:
    """Links rows to a graph; the first of them are those of ``base``, where that is given, and linked already.

    ``m`` links a row and layer (twice as many in the lowest), ``ef_construction`` candidates looked at for them.
    """

    def __init__(self, rows: CodedRows, base: HnswGraph | None = None, *, m: int, ef_construction: int) -> None:
        count = len(rows.labels)
        self._rows = rows
        self._bounds = np.concatenate(
            (np.zeros(1, np.uint32), np.cumsum(_draw_heights(rows.labels, m), dtype=np.uint32))
        )
        self._links = np.full((count, 2 * m), NONE, np.uint32)
        self._upper = np.full((int(self._bounds[-1]), m), NONE, np.uint32)
        self.num_linked = 0
        entry = 0
        if base is not None:
            self.num_linked, entry = len(base), base.entry
            unpack(base.arrays["starts"], base.arrays["links"], self._links, self._bounds, self._upper)
        self._builder = CodeGraphBuilder(
            *rows,
            self._links,
            self._bounds,
            self._upper,
            linked=self.num_linked,
            entry=entry,
            ef_construction=ef_construction,
        )

    def advance(self, count: int) -> int:
        """Link up to so many rows, without the interpreter's lock; how many are left."""
        remaining = self._builder.advance(count)
        self.num_linked = len(self._rows.labels) - remaining
        return remaining

    def build_graph(self) -> HnswGraph:
        """The graph of those rows that are linked; to be asked for once."""
        stop, rows = self.num_linked, self._rows.select(slice(0, self.num_linked))
        starts, links = packed(self._links[:stop], self._bounds[: stop + 1], self._upper)
        return _make_graph(rows, starts, links, self._builder.entry)


def _make_graph(rows: CodedRows, starts: npt.NDArray[Any], links: npt.NDArray[np.uint8], entry: int) -> HnswGraph:
    """The graph of some rows with their packed links."""
    checks = checksums(*rows, starts, links)
    return HnswGraph({**rows._asdict(), "starts": starts, "links": links, "checks": checks}, entry)


def _draw_heights(labels: Ids, m: int) -> npt.NDArray[np.uint32]:
    """How many layers above the lowest each label stands in: a function of the label (SplitMix64, Steele et al. 2014),
    by the distribution that the paper has, in which the share of every layer in the one below is 1 / m."""
    with np.errstate(over="ignore"):
        hashes = labels + np.uint64(SEED) * np.uint64(0x9E3779B97F4A7C15)
        hashes = (hashes ^ hashes >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
        hashes = (hashes ^ hashes >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
        hashes = hashes ^ hashes >> np.uint64(31)
    uniforms = ((hashes >> np.uint64(11)) + np.uint64(1)).astype(np.float64) * 2.0**-53
    heights: npt.NDArray[np.uint32] = np.minimum(-np.log(uniforms) / np.log(m), _MAX_LAYERS).astype(np.uint32)
    return heights

"""Graphs of near neighbors: hierarchical navigable small worlds (Malkov and Yashunin 2018). A *row* is a unit vector,
quantized: a *code* (one byte per component), a *scale* that restores length 1, and a *label* (chunk id, ascending). A
*group* is a run of GROUP_SIZE chunk ids, all of one document.

In: unit vectors with labels. Out: named arrays for an index file, and approximately the labels of largest cosine. A
search follows the links between near rows, or compares every code if there are none. It uses the arrays in place, read
or memory-mapped. The kernel ``kvstore_cext.hnsw`` documents how graphs are built and searched.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from kvstore_cext.hnsw import (
    CODE_MULTIPLE,
    NONE,
    CodeGraph,
    CodeGraphBuilder,
    compute_checksums,
    pack_links,
    unpack_links,
)

from ...arguments import Option
from ...errors import IndexUnavailableError
from ..documents.allowed import AllowedDocuments, ChunkSet
from ..documents.chunks import GROUP_SIZE
from .vectors import Ids, Matrix

#: The seed for drawing the layers of nodes, fixed so that the same input gives the same graph.
SEED = 0x6B76
#: The build options, which cannot change afterwards.
GRAPH_OPTIONS: Mapping[str, Option] = {
    "m": Option(16, 4, 100, "maximum number of links of a vector in a layer; twice as many in the lowest layer"),
    "ef_construction": Option(200, 8, 2000, "number of candidates examined for the links of a new vector"),
}
#: A graph is rebuilt if more than this fraction of its nodes is deleted.
MAX_DELETED_SHARE = 0.2
#: Arrays that the kernel verifies node by node during a search, so that they need not be read in advance.
CHECKED_IN_PLACE = ("labels", "codes", "scales", "starts", "links")
#: The number of codes compared in about the time of finding one candidate through links.
CODES_PER_CANDIDATE = 50
#: The maximum difference between the cosines of a code and of its vector, in units of its scale. The component errors
#: are uniform within half a scale, so the error of the cosine has a standard deviation of scale / √12; this is four of
#: them.
MAX_COSINE_ERROR = 1.2
#: Ranges of ids are looked up one by one if there are at least this many times as many labels.
_SPARSE_FACTOR = 4

#: Avoids a division by zero for a vector of zeros.
_MIN_DIVISOR = np.float32(1e-30)

_MAX_LAYERS = 15


class CodedRows(NamedTuple):
    """Quantized vectors: chunk ids (``labels``, ascending), int8 codes, one row each, and the scale of each row.

    The length of a code is a multiple of :data:`CODE_MULTIPLE`. A vector is about its code times its scale.
    """

    labels: Ids
    codes: npt.NDArray[np.int8]
    scales: Matrix

    @classmethod
    def from_vectors(cls, labels: Ids, vectors: Matrix) -> CodedRows:
        """Quantize unit vectors, shape (n, dimension): integers from -127 to 127, and scales that restore length 1."""
        num_vectors, dimension = vectors.shape
        code_length = -(-dimension // CODE_MULTIPLE) * CODE_MULTIPLE  # rounded up; the last components are 0
        codes = np.zeros((num_vectors, code_length), np.int8)
        maxima = np.maximum(np.abs(vectors).max(axis=1, initial=0, keepdims=True), _MIN_DIVISOR)
        codes[:, :dimension] = np.rint(vectors * (np.float32(127) / maxima))
        squares = np.einsum("ij,ij->i", codes, codes, dtype=np.int64)
        return cls(labels, codes, (1 / np.sqrt(np.maximum(squares, 1))).astype(np.float32))

    @classmethod
    def concatenate(cls, batches: Sequence[CodedRows]) -> CodedRows:
        """Concatenate several batches of rows (labels, codes, scales), in order."""
        return cls(*map(np.concatenate, zip(*batches, strict=True)))

    def select(self, rows: Any) -> CodedRows:
        """Return the rows that a slice, a mask or an array of positions selects."""
        return CodedRows(*(column[rows] for column in self))


class NearCodes(NamedTuple):
    """Chunk ids (``labels``), with the cosines and scales of their quantized vectors (codes), best first.

    ``is_exhaustive`` is true if these are all allowed labels of the graph.
    """

    labels: Ids
    cosines: Matrix
    scales: Matrix
    is_exhaustive: bool


class _RowSelection(NamedTuple):
    """Ranges of rows: ``starts`` (included) and ``stops`` (excluded). With ``groups``, only rows of flagged groups."""

    starts: npt.NDArray[np.int64]
    stops: npt.NDArray[np.int64]
    #: A flag for each group of chunks; None: all rows in the ranges are selected.
    groups: npt.NDArray[np.uint8] | None = None


class HnswGraph:
    """Quantized vectors (codes) with links between near ones; any number of threads may search the graph.

    ``entry_row`` is the row at which a search begins.
    """

    def __init__(self, arrays: Mapping[str, npt.NDArray[Any]], entry_row: int) -> None:
        """Open the graph of ``arrays`` from an index file; a search begins at the row ``entry_row``.

        Raises IndexUnavailableError if arrays are missing or inconsistent.
        """
        try:
            self._graph = CodeGraph(**{name: arrays[name] for name in (*CHECKED_IN_PLACE, "checks")}, entry=entry_row)
        except KeyError as error:
            raise IndexUnavailableError(
                f"written by another version of kvstore, without {error}; REFRESH rebuilds it"
            ) from error
        except (TypeError, ValueError, OverflowError) as error:
            raise IndexUnavailableError(f"the arrays of the graph contradict each other: {error}") from error
        self.arrays = arrays
        self.entry_row = entry_row
        self.rows = CodedRows(arrays["labels"], arrays["codes"], arrays["scales"])
        #: True if a search may follow links; otherwise it compares all codes.
        self.is_linked = len(arrays["starts"]) > 1
        #: The row ranges of recent sets of allowed documents, because a set is usually used for many searches.
        self._ranges: WeakKeyDictionary[AllowedDocuments, tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]
        self._ranges = WeakKeyDictionary()

    def __len__(self) -> int:
        """Return the number of vectors in the graph."""
        return len(self.rows.labels)

    def find_nearest(self, query: Matrix, ef: int, allowed: ChunkSet | None = None) -> NearCodes:
        """Return the ``ef`` labels (chunk ids) with the largest cosines with a unit vector, approximately.

        Only ``allowed`` chunks are returned (None: all). The search follows links between near nodes (Malkov and
        Yashunin 2018) if this is faster than comparing the codes (quantized vectors) of all allowed chunks. Raises
        IndexUnavailableError if a visited node fails its checksum.
        """
        labels = self.rows.labels
        # A flag for each group of GROUP_SIZE chunk ids, all of one document: 1 if the document is allowed.
        groups = allowed.group_flags if isinstance(allowed, AllowedDocuments) else None
        num_allowed = len(labels) if allowed is None else min(allowed.num_chunks, len(labels))
        can_follow_links = self.is_linked and (allowed is None or groups is not None)
        # To find ef allowed nodes, a search visits len(labels) / num_allowed times as many. It is faster than
        # comparing all allowed codes if num_allowed > CODES_PER_CANDIDATE * ef * len(labels) / num_allowed.
        is_search_faster = num_allowed * num_allowed > CODES_PER_CANDIDATE * ef * len(labels)
        try:
            if can_follow_links and is_search_faster:
                near_labels, cosines, scales = self._graph.search(query, ef, groups, GROUP_SIZE)
                if len(near_labels) == ef:  # otherwise a part of the graph is unreachable from the rest
                    return NearCodes(near_labels, cosines, scales, is_exhaustive=False)
            starts, stops, row_groups = self._select_rows(allowed)
            near_labels, cosines, scales = self._graph.compare(query, ef, starts, stops, row_groups, GROUP_SIZE)
        except ValueError as error:
            raise IndexUnavailableError(f"{error}; REFRESH rebuilds it") from error
        return NearCodes(near_labels, cosines, scales, is_exhaustive=len(near_labels) < ef)

    def _select_rows(self, allowed: ChunkSet | None) -> _RowSelection:
        """Return the rows of the ``allowed`` chunks (None: all) as ranges of rows, to compare with a query.

        Few allowed documents give one range each. Many give a single range of all rows, with a flag for each group of
        chunk ids. A set of chunks gives a range of one row for each.
        """
        if isinstance(allowed, AllowedDocuments) and _SPARSE_FACTOR * len(allowed) <= len(self):
            return _RowSelection(*self._get_ranges(allowed))
        if allowed is None or isinstance(allowed, AllowedDocuments):
            # For many documents, testing the flag of every row is cheaper than finding the range of each document.
            groups = None if allowed is None else allowed.group_flags
            return _RowSelection(np.zeros(1, np.int64), np.full(1, len(self), np.int64), groups)
        rows = allowed.find_positions(self.rows.labels)
        return _RowSelection(rows, rows + 1)

    def _get_ranges(self, allowed: AllowedDocuments) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return the first and end rows of the chunks of each document that the query allows, as two arrays.

        The arrays are cached, because a set of documents is usually used for many searches.
        """
        ranges = self._ranges.get(allowed)
        if ranges is None:
            labels = self.rows.labels
            ranges = self._ranges[allowed] = labels.searchsorted(allowed.starts), labels.searchsorted(allowed.stops)
        return ranges

    def verify(self) -> None:
        """Verify the checksum of every node of the graph (a quantized vector and its links).

        Raises IndexUnavailableError if one is damaged.
        """
        try:
            self._graph.verify()
        except ValueError as error:
            raise IndexUnavailableError(f"{error}; REFRESH rebuilds it") from error


def make_unlinked_graph(rows: CodedRows) -> HnswGraph:
    """Return a graph of quantized vectors without links, which is searched by comparing every vector."""
    return make_linked_graph(rows, starts=np.zeros(1, np.uint32), links=np.empty(0, np.uint8), entry_row=0)


class HnswBuilder:
    """Links rows to a graph, one after the other. Each row is in the lowest layer, and in a number of upper layers that
    depends on its label. Lists of links have a fixed length and are padded with NONE.
    """

    def __init__(self, rows: CodedRows, base: HnswGraph | None = None, *, m: int, ef_construction: int) -> None:
        """Create a builder that links ``rows``. The first rows are the rows of ``base``, the graph to extend, if any.

        Each row gets ``m`` links per layer (twice as many in the lowest), for which ``ef_construction`` candidates are
        examined.
        """
        num_rows = len(rows.labels)
        self._rows = rows
        #: The offsets of the rows in ``_upper_links``, which has their links in the layers above the lowest.
        self._upper_offsets = np.concatenate(
            (np.zeros(1, np.uint32), np.cumsum(_draw_heights(rows.labels, m), dtype=np.uint32))
        )
        #: The links of each row in the lowest layer, padded with NONE.
        self._links = np.full((num_rows, 2 * m), NONE, np.uint32)
        self._upper_links = np.full((int(self._upper_offsets[-1]), m), NONE, np.uint32)
        self.num_linked = 0
        entry_row = 0  # the row at which a search begins
        if base is not None:  # copy its links
            self.num_linked, entry_row = len(base), base.entry_row
            unpack_links(
                base.arrays["starts"], base.arrays["links"], self._links, self._upper_offsets, self._upper_links
            )
        self._builder = CodeGraphBuilder(
            *rows,
            self._links,
            self._upper_offsets,
            self._upper_links,
            linked=self.num_linked,
            entry=entry_row,
            ef_construction=ef_construction,
        )

    def link_nodes(self, count: int) -> int:
        """Link up to ``count`` rows to their near rows, without holding the GIL; return the number of unlinked rows."""
        num_unlinked = self._builder.link_nodes(count)
        self.num_linked = len(self._rows.labels) - num_unlinked
        return num_unlinked

    def build_graph(self) -> HnswGraph:
        """Return the graph of the linked rows; may be called once."""
        stop, rows = self.num_linked, self._rows.select(slice(0, self.num_linked))
        starts, links = pack_links(self._links[:stop], self._upper_offsets[: stop + 1], self._upper_links)
        return make_linked_graph(rows, starts, links, self._builder.entry)


def make_linked_graph(
    rows: CodedRows, starts: npt.NDArray[Any], links: npt.NDArray[np.uint8], entry_row: int
) -> HnswGraph:
    """Return the graph of quantized vectors (``rows``) with packed links; a search begins at ``entry_row``.

    The links of row i are ``links[starts[i]:starts[i + 1]]``; without any links, ``starts`` has only one zero.
    """
    checks = compute_checksums(*rows, starts, links)
    return HnswGraph({**rows._asdict(), "starts": starts, "links": links, "checks": checks}, entry_row)


def _draw_heights(labels: Ids, m: int) -> npt.NDArray[np.uint32]:
    """Draw for each label (chunk id) the number of layers above the lowest that contain it.

    The result is a function of the label (SplitMix64, Steele et al. 2014). It is distributed as in the paper: each
    layer has 1 / m of the nodes of the layer below.
    """
    with np.errstate(over="ignore"):  # the constants and shifts are those of SplitMix64, modulo 2^64
        hashes = labels + np.uint64(SEED) * np.uint64(0x9E3779B97F4A7C15)
        hashes = (hashes ^ hashes >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
        hashes = (hashes ^ hashes >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
        hashes = hashes ^ hashes >> np.uint64(31)
    # Uniformly distributed in (0, 1], with 53 random bits.
    uniforms = ((hashes >> np.uint64(11)) + np.uint64(1)).astype(np.float64) * 2.0**-53
    heights: npt.NDArray[np.uint32] = np.minimum(-np.log(uniforms) / np.log(m), _MAX_LAYERS).astype(np.uint32)
    return heights

"""Graphs built by hnswlib, in the arrays that kvstore searches. A *row* is a quantized vector; hnswlib numbers the rows
as *nodes* in another order. All rows are in the lowest layer, and few of them also in upper layers. hnswlib stores the
links of a node in a layer as a count and node numbers.

In: rows of codes. hnswlib links the vectors that the codes represent, with a thread per core. Out: an
:class:`~.hnsw.HnswGraph`, as from :class:`~.hnsw.HnswBuilder`, which is searched without hnswlib. Threads link the rows
in an order that varies, so two builds can differ in a few links.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kvstore_cext.hnsw import NONE, pack_links

from ...extensions.extras import import_extra
from .hnsw import SEED, CodedRows, HnswGraph, make_linked_graph


def import_hnswlib() -> Any:
    """Import and return hnswlib. Raises MissingExtraError if it is not installed."""
    return import_extra("hnswlib", "hnswlib", "engine = hnswlib")


class HnswlibBuilder:
    """Links rows (quantized vectors) to their near rows with hnswlib, which uses several threads."""

    def __init__(self, rows: CodedRows, *, m: int, ef_construction: int) -> None:
        """Create a builder that links ``rows``, quantized vectors, with hnswlib; nothing is linked yet.

        ``m`` is the number of links per row, and ``ef_construction`` the number of candidates examined for them.
        """
        self._rows = rows
        self._index = import_hnswlib().Index("ip", rows.codes.shape[1])  # by inner product
        self._index.init_index(max(1, len(rows.labels)), M=m, ef_construction=ef_construction, random_seed=SEED)
        self.num_linked = 0

    def link_nodes(self, count: int) -> int:
        """Link up to ``count`` rows to their near rows, without holding the GIL; return the number of unlinked rows."""
        stop = min(self.num_linked + count, len(self._rows.labels))
        span = slice(self.num_linked, stop)
        self._index.add_items(self._rows.codes[span] * self._rows.scales[span, None], np.arange(self.num_linked, stop))
        self.num_linked = stop
        return len(self._rows.labels) - stop

    def build_graph(self) -> HnswGraph:
        """Convert hnswlib's links to kvstore's graph format; return the graph of the rows linked so far."""
        count = self.num_linked
        (state,) = self._index.__getstate__()  # the only access to the links that hnswlib offers
        rows_by_node = np.empty(count, np.uint32)  # threads number the nodes in the order in which they finish
        rows_by_node[state["label_lookup_internal"]] = state["label_lookup_external"]
        level_0 = state["data_level0"].view(np.uint8).reshape(-1, state["size_data_per_element"])[:count]
        links = np.empty((count, state["max_M0"]), np.uint32)
        # A list of links is a count of 4 bytes, and 4 bytes for each of at most max_M0 nodes.
        links[rows_by_node] = _read_links(level_0[:, : 4 + 4 * state["max_M0"]], rows_by_node)
        heights = np.empty(count, np.uint32)  # by row, the number of layers above the lowest that have it
        heights[rows_by_node] = state["element_levels"][:count]
        # The offset of the upper layers of each row among those of all rows, and their total number.
        upper_offsets = np.concatenate((np.zeros(1, np.uint32), heights.cumsum(dtype=np.uint32)))
        # hnswlib stores the lists of the upper layers in the order of the nodes; reorder them by row.
        upper_lists = state["link_lists"].view(np.uint8).reshape(-1, state["size_links_per_element"])
        first_lists = np.concatenate((np.zeros(1, np.int64), state["element_levels"][:count].cumsum(dtype=np.int64)))
        layer_indexes = np.arange(upper_offsets[-1]) - np.repeat(upper_offsets[:-1].astype(np.int64), heights)
        nodes_by_row = rows_by_node.argsort()
        list_order = np.repeat(first_lists[nodes_by_row], heights) + layer_indexes
        starts, packed_links = pack_links(links, upper_offsets, _read_links(upper_lists[list_order], rows_by_node))
        entry_row = int(rows_by_node[state["enterpoint_node"]]) if count else 0
        return make_linked_graph(self._rows.select(slice(0, count)), starts, packed_links, entry_row)


def _read_links(lists: npt.NDArray[np.uint8], rows_by_node: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """Decode link lists of hnswlib (a count, then nodes) into the linked rows, one padded array row per list."""
    words = np.ascontiguousarray(lists).view(np.uint32)
    counts = (words[:, 0] & 0xFFFF)[:, None]  # a count has 16 bits
    is_link = np.arange(words.shape[1] - 1) < counts
    links = np.full(is_link.shape, NONE, np.uint32)
    links[is_link] = rows_by_node[words[:, 1:][is_link]]
    return links

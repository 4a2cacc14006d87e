"""Graphs of near neighbours over codes: what they find, what they keep, and what a damaged one does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kvstore.errors import IndexUnavailableError
from kvstore.structures.documents.allowed import AllowedDocuments, ChunkList
from kvstore.structures.vectors import hnsw
from kvstore.structures.vectors.hnsw import CodedRows, HnswBuilder, HnswGraph, make_unlinked_graph
from kvstore.structures.vectors.hnswlib_builder import HnswlibBuilder
from kvstore_cext.hnsw import NONE, CodeGraph, CodeGraphBuilder, pack_links, unpack_links

DIMENSION, COUNT = 72, 1500


def make_unit_vectors(count: int, seed: int) -> np.ndarray:
    """Return unit vectors around a hundred centers."""
    random = np.random.default_rng(seed)
    centers = np.random.default_rng(0).standard_normal((100, DIMENSION))
    vectors = centers[random.integers(0, 100, count)] + random.standard_normal((count, DIMENSION))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


VECTORS, QUERIES = make_unit_vectors(COUNT, 1), make_unit_vectors(40, 2)
LABELS = np.arange(COUNT, dtype=np.uint64) * 3 + 7


def encode_rows(stop: int = COUNT) -> CodedRows:
    return CodedRows.from_vectors(LABELS[:stop], VECTORS[:stop])


def build_graph(rows: CodedRows, base: HnswGraph | None = None) -> HnswGraph:
    builder = HnswBuilder(rows, base, m=8, ef_construction=60)
    while builder.link_nodes(100):
        pass
    return builder.build_graph()


@pytest.fixture(scope="module")
def graph() -> HnswGraph:
    return build_graph(encode_rows())


def test_codes_are_of_unit_length_and_near_to_the_vectors() -> None:
    labels, codes, scales = encode_rows()
    assert codes.shape == (COUNT, 128)
    again = codes[:, :DIMENSION] * scales[:, None]
    assert np.linalg.norm(again, axis=1) == pytest.approx(np.ones(COUNT), abs=1e-5)
    wrong = np.abs(again @ QUERIES.T - VECTORS @ QUERIES.T)
    assert (wrong < hnsw.MAX_COSINE_ERROR * scales[:, None]).mean() > 0.999
    assert CodedRows.from_vectors(labels[:1], np.zeros((1, DIMENSION), np.float32)).codes.any() == False  # noqa: E712


def test_a_walk_finds_the_results_of_a_full_comparison(graph: HnswGraph, monkeypatch: pytest.MonkeyPatch) -> None:
    num_matches = 0
    for query in QUERIES:
        compared = make_unlinked_graph(encode_rows()).find_nearest(query, 10)
        exact = np.argsort(-(VECTORS @ query))[:10]
        assert len(set(LABELS[exact].tolist()) & set(compared.labels.tolist())) >= 9
        assert compared.cosines == pytest.approx(VECTORS[(compared.labels - 7) // 3] @ query, abs=2e-2)
        monkeypatch.setattr(hnsw, "CODES_PER_CANDIDATE", 0)
        walked = graph.find_nearest(query, 40)
        monkeypatch.undo()
        assert not walked.is_exhaustive
        assert (np.diff(walked.cosines) <= 0).all()
        num_matches += len(set(walked.labels[:10].tolist()) & set(compared.labels.tolist()))
    assert num_matches >= 0.98 * 10 * len(QUERIES)


def test_a_graph_built_by_hnswlib_is_walked_like_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    builder = HnswlibBuilder(encode_rows(), m=8, ef_construction=60)
    while builder.link_nodes(100):
        pass
    graph = builder.build_graph()
    graph.verify()
    monkeypatch.setattr(hnsw, "CODES_PER_CANDIDATE", 0)
    shared = 0
    for query in QUERIES:
        walked = graph.find_nearest(query, 40)
        assert not walked.is_exhaustive
        assert walked.cosines == pytest.approx(VECTORS[(walked.labels - 7) // 3] @ query, abs=2e-2)
        shared += len(set(walked.labels[:10].tolist()) & set(LABELS[np.argsort(-(VECTORS @ query))[:10]].tolist()))
    assert shared >= 0.97 * 10 * len(QUERIES)


@pytest.mark.parametrize("threads", [1, 4])
def test_the_links_of_hnswlib_are_taken_over(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    builder = HnswlibBuilder(encode_rows(), m=8, ef_construction=60)
    builder._index.set_num_threads(threads)
    assert builder.link_nodes(COUNT) == 0
    graph = builder.build_graph()
    (state,) = builder._index.__getstate__()
    rows_by_node = dict(
        zip(state["label_lookup_internal"].tolist(), state["label_lookup_external"].tolist(), strict=True)
    )
    heights = np.zeros(COUNT, np.uint32)
    for node, height in enumerate(state["element_levels"].tolist()):
        heights[rows_by_node[node]] = height
    bounds = np.concatenate((np.zeros(1, np.uint32), heights.cumsum(dtype=np.uint32)))
    links, upper = np.full((COUNT, 16), NONE, np.uint32), np.full((int(bounds[-1]), 8), NONE, np.uint32)
    unpack_links(graph.arrays["starts"], graph.arrays["links"], links, bounds, upper)
    position = 0
    for node, height in enumerate(state["element_levels"].tolist()):
        row = rows_by_node[node]
        place = node * state["size_data_per_element"]
        blocks = [(state["data_level0"][place : place + 4 + 4 * 16], links[row])]
        for layer in range(height):
            size = state["size_links_per_element"]
            blocks.append((state["link_lists"][position : position + size], upper[bounds[row] + layer]))
            position += size
        for block, ours in blocks:
            words = block.view(np.uint32)
            theirs = {rows_by_node[other] for other in words[1 : 1 + (words[0] & 0xFFFF)].tolist()}
            assert theirs == set(ours[ours != NONE].tolist())


def test_a_graph_is_the_same_however_many_rows_are_linked_at_once(graph: HnswGraph) -> None:
    half = build_graph(encode_rows(700))
    extended = build_graph(encode_rows(), half)
    for name, array in graph.arrays.items():
        assert (extended.arrays[name] == array).all(), name
    assert extended.entry_row == graph.entry_row
    builder = HnswBuilder(encode_rows(), m=8, ef_construction=60)
    builder.link_nodes(700)
    part = builder.build_graph()
    assert all((part.arrays[name] == array).all() for name, array in half.arrays.items())


@pytest.mark.parametrize("walked", [True, False])
@pytest.mark.parametrize("share", [1, 7, 60])
def test_only_allowed_documents_are_found(
    graph: HnswGraph, share: int, walked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hnsw, "CODES_PER_CANDIDATE", 0 if walked else 10**9)
    groups = np.arange(1000, dtype=np.uint64)  # a document each, of which every ``share``th may answer
    documents = groups[groups % np.uint64(share) == 0]
    allowed = AllowedDocuments(documents, documents, np.ones(len(documents), np.uint64), 5 * len(documents))
    rows = np.flatnonzero(allowed.get_chunk_mask(LABELS))
    for query in QUERIES[:10]:
        exact = LABELS[rows[np.argsort(-(VECTORS[rows] @ query))[:5]]]
        for allowed_chunks in (allowed, ChunkList(LABELS[rows])):
            nearest = graph.find_nearest(query, 30, allowed_chunks)
            assert allowed.get_chunk_mask(nearest.labels).all()
            assert len(set(exact.tolist()) & set(nearest.labels.tolist())) >= 4
    nothing = AllowedDocuments(np.empty(0, np.uint64), np.empty(0, np.uint64), np.empty(0, np.uint64), 0)
    assert graph.find_nearest(QUERIES[0], 30, nothing) == (
        pytest.approx([]),
        pytest.approx([]),
        pytest.approx([]),
        True,
    )


def test_listed_chunks_are_looked_up_and_the_others_not_looked_at(
    graph: HnswGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = ChunkList(np.concatenate((LABELS[[3, 400, 999]], [LABELS[-1] + 1])).astype(np.uint64))
    assert (
        listed.find_positions(LABELS).tolist()
        == np.flatnonzero(listed.get_chunk_mask(LABELS)).tolist()
        == [3, 400, 999]
    )
    assert listed.find_positions(LABELS[:0]).tolist() == []
    monkeypatch.delattr(ChunkList, "get_chunk_mask")
    assert sorted(graph.find_nearest(QUERIES[0], 30, listed).labels.tolist()) == LABELS[[3, 400, 999]].tolist()


def test_a_graph_of_nothing_finds_nothing() -> None:
    for graph in (build_graph(encode_rows(0)), make_unlinked_graph(encode_rows(0))):
        assert len(graph.find_nearest(QUERIES[0], 10).labels) == 0
        graph.verify()


def test_a_damaged_node_is_reported_at_its_first_visit(graph: HnswGraph) -> None:
    random = np.random.default_rng(5)
    for name in ("labels", "codes", "scales", "starts", "links"):
        for _ in range(5):
            arrays: dict[str, Any] = {**graph.arrays, name: graph.arrays[name].copy()}
            damaged = arrays[name].view(np.uint8).reshape(-1)
            damaged[random.integers(0, len(damaged))] ^= 64
            broken = HnswGraph(arrays, graph.entry_row)
            with pytest.raises(IndexUnavailableError, match="fails its checksum; REFRESH"):
                broken.verify()
            for query in QUERIES[:3]:
                try:
                    nearest = broken.find_nearest(query, 20)
                except IndexUnavailableError:
                    continue
                assert nearest.labels.tolist() == graph.find_nearest(query, 20).labels.tolist()


def test_arrays_that_do_not_fit_are_refused(graph: HnswGraph) -> None:
    for name in ("labels", "codes", "scales", "starts", "links", "checks"):
        with pytest.raises(IndexUnavailableError, match="contradict each other"):
            HnswGraph({**graph.arrays, name: graph.arrays[name][:-1].copy()}, graph.entry_row)
    with pytest.raises(IndexUnavailableError, match="contradict each other"):
        HnswGraph(graph.arrays, COUNT)
    arrays = [graph.arrays[name] for name in ("labels", "codes", "scales", "starts", "links", "checks")]
    code_graph = CodeGraph(*arrays, graph.entry_row)  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="does not match a graph"):
        code_graph.search(np.zeros(200, np.float32), 5)
    with pytest.raises(ValueError, match="does not match a graph"):
        code_graph.compare(QUERIES[0], 0, np.zeros(1, np.int64), np.ones(1, np.int64))
    without = {name: array for name, array in graph.arrays.items() if name != "starts"}
    with pytest.raises(
        IndexUnavailableError, match="another version of kvstore, without 'starts'; REFRESH rebuilds it"
    ):
        HnswGraph(without, graph.entry_row)


def test_rows_that_do_not_fit_are_refused() -> None:
    links, bounds = np.zeros((COUNT, 16), np.uint32), np.arange(COUNT + 1, dtype=np.uint32)
    upper = np.zeros((COUNT, 8), np.uint32)
    for place, wrong in ((4, bounds[::-1].copy()), (5, np.zeros((3, 8), np.uint32)), (3, links[:, :4].copy())):
        arguments: list[Any] = [*encode_rows(), links, bounds, upper]
        arguments[place] = wrong
        with pytest.raises(ValueError, match=r"match|descend|the bounds need"):
            CodeGraphBuilder(*arguments)


def test_packed_links_are_those_that_were_built() -> None:
    random = np.random.default_rng(3)
    heights = random.choice(3, 200, p=[0.7, 0.2, 0.1])
    bounds = np.concatenate(([0], np.cumsum(heights))).astype(np.uint32)

    def make_link_rows(count: int, width: int) -> np.ndarray:
        link_rows = np.full((count, width), NONE, np.uint32)
        for row in link_rows:
            links = random.choice(2**32 - 2, random.integers(0, width + 1), replace=False)
            row[: len(links)] = np.sort(links)
        return link_rows

    links, upper = make_link_rows(200, 12), make_link_rows(int(bounds[-1]), 6)
    links[7] = links[7][::-1]  # in whatever order they were found
    starts, data = pack_links(links, bounds, upper)
    assert starts.dtype == np.uint32
    links[7] = np.sort(links[7])
    for some_starts in (starts, starts.astype(np.uint64)):
        again, above = np.full_like(links, NONE), np.full_like(upper, NONE)
        unpack_links(some_starts, data, again, bounds, above)
        assert (again == links).all()
        assert (above == upper).all()
    narrow = np.full((200, 3), NONE, np.uint32)
    with pytest.raises(ValueError, match="has .* links in layer 0"):
        unpack_links(starts, data, narrow, bounds, upper)
    with pytest.raises(ValueError, match="no room"):
        unpack_links(starts, data, links[:100], bounds, upper)
    with pytest.raises(ValueError, match="do not match"):
        pack_links(links, bounds[:-1], upper)


def test_links_take_few_bytes(graph: HnswGraph) -> None:
    links = sum(graph.arrays[name].nbytes for name in ("starts", "links"))
    assert links < 0.6 * COUNT * 4 * 2 * 8  # what they would take as numbers of 32 bits in the lowest layer alone


def test_starts_of_64_bits_are_walked_as_others(graph: HnswGraph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hnsw, "CODES_PER_CANDIDATE", 0)
    arrays = {**graph.arrays, "starts": graph.arrays["starts"].astype(np.uint64)}
    far = HnswGraph(arrays, graph.entry_row)
    far.verify()
    for query in QUERIES[:5]:
        assert far.find_nearest(query, 20).labels.tolist() == graph.find_nearest(query, 20).labels.tolist()

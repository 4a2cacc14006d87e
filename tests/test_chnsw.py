"""C-HNSW: near neighbours of every layer in one descent, over arrays where they lie in a mapped file."""

from __future__ import annotations

import random
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis_profile import num_examples

from kvstore.errors import IndexUnavailableError
from kvstore.storage import index_file
from kvstore.structures.vectors.chnsw import CHECKED_IN_PLACE, LayeredVectors, build_layered_arrays
from kvstore_cext.chnsw import NONE, LayeredGraph, LayeredGraphBuilder
from kvstore_cext.row_products import compute_row_dots

Matrix = npt.NDArray[np.float32]
Arrays = Mapping[str, npt.NDArray[Any]]


def make_layers(sizes: list[int], dimension: int, seed: int = 0, noise: float = 0.8) -> list[Matrix]:
    """Return layers of unit vectors; each vector is near its parent in the layer above (see :func:`list_parents`)."""
    draw = np.random.default_rng(seed)
    layers = [draw.standard_normal((sizes[-1], dimension))]
    for size, parent_rows in zip(reversed(sizes[:-1]), reversed(list_parents(sizes)), strict=True):
        layers.insert(0, layers[0][parent_rows] + noise * draw.standard_normal((size, dimension)))
    return [(layer / np.linalg.norm(layer, axis=1, keepdims=True)).astype(np.float32) for layer in layers]


def list_parents(sizes: list[int]) -> list[npt.NDArray[np.int64]]:
    """Return the parent of each node in the next layer."""
    return [np.arange(size) % max(1, above) for size, above in pairwise(sizes)]


def make_digests(layers: list[Matrix], seed: int = 1) -> list[npt.NDArray[np.uint64]]:
    draw = np.random.default_rng(seed)
    return [draw.integers(0, 2**63, len(layer)).astype(np.uint64) for layer in layers]


def build_arrays(layers: list[Matrix], *, m: int = 16, exact_below: int = 0) -> dict[str, npt.NDArray[Any]]:
    parent_rows = [
        np.where(len(above), parent_rows, -1)
        for parent_rows, above in zip(list_parents([*map(len, layers)]), layers[1:], strict=True)
    ]
    arrays = build_layered_arrays(layers, parent_rows, make_digests(layers), m=m, exact_below=exact_below)
    assert arrays is not None
    return arrays


def find_nearest_exactly(layer: Matrix, query: Matrix, count: int) -> list[tuple[int, float]]:
    """Return the nearest rows of an exact search, by falling cosine; ties are decided by row number."""
    cosines = np.empty(len(layer), np.float32)
    compute_row_dots(layer, query, cosines)
    order = sorted(range(len(layer)), key=lambda row: (-cosines[row], row))[:count]
    return [(row, float(cosines[row])) for row in order]


def make_queries(layers: list[Matrix], count: int, seed: int = 2) -> Matrix:
    draw = np.random.default_rng(seed)
    points = layers[0][draw.integers(0, len(layers[0]), count)] + 0.05 * draw.standard_normal(
        (count, layers[0].shape[1])
    )
    queries: Matrix = (points / np.linalg.norm(points, axis=1, keepdims=True)).astype(np.float32)
    return queries


@pytest.fixture(scope="module")
def layers() -> list[Matrix]:
    return make_layers([3000, 400, 40, 6], 48)


@pytest.fixture(scope="module")
def arrays(layers: list[Matrix]) -> dict[str, npt.NDArray[Any]]:
    return build_arrays(layers)


def open_graph(arrays: Arrays) -> LayeredGraph:
    names = ("layers", "vectors", "links0", "links", "down", "entry", "checks", "bounds", "members")
    return LayeredGraph(*(arrays[name] for name in names))


def measure_recall(
    graph: LayeredVectors, layers: list[Matrix], queries: Matrix, ef: int, count: int = 5
) -> list[float]:
    """Return the share of the ``count`` nearest nodes in the result, by layer."""
    recalls = np.zeros(len(layers))
    for query in queries:
        for layer, neighbors in enumerate(graph.find_nearest(query, [count] * len(layers), ef)):
            expected = find_nearest_exactly(layers[layer], query, count)
            recalls[layer] += len({row for row, _ in neighbors} & {row for row, _ in expected}) / len(expected)
    return list(recalls / len(queries))


def test_the_nearest_of_every_layer_are_found(layers: list[Matrix], arrays: Arrays) -> None:
    assert min(measure_recall(LayeredVectors(arrays), layers, make_queries(layers, 100), 30)) >= 0.99


def test_cosines_are_those_of_an_exact_search_to_the_last_bit(layers: list[Matrix], arrays: Arrays) -> None:
    query = make_queries(layers, 1)[0]
    for layer, neighbors in enumerate(LayeredVectors(arrays).find_nearest(query, [5] * 4, 200)):
        assert neighbors == find_nearest_exactly(layers[layer], query, 5)


def test_ways_down_spare_comparisons(layers: list[Matrix], arrays: Arrays) -> None:
    """As many of the nearest are found by fewer comparisons where a layer is entered from the one above it."""
    graph, counts, queries = open_graph(arrays), np.full(4, 5, np.int64), make_queries(layers, 50)
    nearest = [[find_nearest_exactly(layer, query, 5) for layer in layers] for query in queries]

    def count_compared(linked: bool) -> int:
        for ef in range(5, 200, 5):
            num_correct, total = 0, 0
            for query, expected in zip(queries, nearest, strict=True):
                nodes, _, bounds, count = graph.search(
                    query, counts, ef, follow_links_down=linked, max_compared_nodes=0
                )
                total += count
                for layer, (low, high) in enumerate(pairwise(bounds.tolist())):
                    rows = set((nodes[low:high] - arrays["layers"][layer]).tolist())
                    num_correct += len(rows & {row for row, _ in expected[layer]})
            if num_correct >= 0.99 * 5 * len(layers) * len(queries):
                return total
        raise AssertionError("not found")

    assert count_compared(True) < 0.85 * count_compared(False)


def test_a_graph_is_a_function_of_its_vectors_and_digests(layers: list[Matrix], arrays: Arrays) -> None:
    rebuilt = build_arrays([layer.copy() for layer in layers])
    assert {name: array.tobytes() for name, array in rebuilt.items()} == {
        name: array.tobytes() for name, array in arrays.items()
    }


def test_a_link_down_leads_to_the_nearest_node_of_the_layer_below(layers: list[Matrix], arrays: Arrays) -> None:
    starts, num_correct = arrays["layers"].tolist(), 0
    for layer in range(1, len(layers)):
        for number, vector in enumerate(layers[layer]):
            node = arrays["down"][starts[layer] + number - starts[1]]
            assert starts[layer - 1] <= node < starts[layer]
            num_correct += bool(node - starts[layer - 1] == find_nearest_exactly(layers[layer - 1], vector, 1)[0][0])
    assert num_correct >= 0.99 * (starts[-1] - starts[1])


def find_reachable(arrays: Arrays, layer: int) -> set[int]:
    """Return the nodes that can be reached from the entry of a layer."""
    starts, base = arrays["layers"].tolist(), arrays["layers"][1]
    ahead = [int(arrays["entry"][layer])]
    reachable = set(ahead)
    while ahead:
        node = ahead.pop()
        row = arrays["links0"][node] if node < base else arrays["links"][node - base]
        for neighbor in row[row != NONE].tolist():
            assert starts[layer] <= neighbor < starts[layer + 1]
            if neighbor not in reachable:
                reachable.add(neighbor)
                ahead.append(neighbor)
    return reachable


def test_members_are_those_of_the_layer_below_by_their_parents(arrays: Arrays) -> None:
    assert arrays["bounds"][[0, 1, 400, 440, 446]].tolist() == [0, 8, 3000, 3400, 3440]
    assert arrays["members"][:8].tolist() == list(range(0, 3000, 400))
    some = build_layered_arrays(
        [np.eye(3, dtype=np.float32)] * 2,
        [np.array([2, -1, 0])],
        make_digests(make_layers([3, 3], 2)),
        m=4,
        exact_below=0,
    )
    assert some is not None
    assert some["bounds"].tolist() == [1, 2, 2, 3] and some["members"].tolist() == [1, 2, 0]


@settings(max_examples=num_examples(30))
@given(st.lists(st.integers(1, 60), min_size=1, max_size=4), st.integers(1, 40), st.integers(1, 6), st.integers(0, 99))
def test_every_node_can_be_reached_however_many_are_the_same(
    sizes: list[int], dimension: int, kinds: int, seed: int
) -> None:
    some = make_layers([kinds], dimension, seed)[0]
    draw = np.random.default_rng(seed)
    layers = [some[draw.integers(0, kinds, size)] for size in sizes]
    arrays = build_arrays(layers, m=4)
    starts = arrays["layers"].tolist()
    for layer, (low, high) in enumerate(pairwise(starts)):
        assert find_reachable(arrays, layer) == set(range(low, high))
    # Layers as small as these are compared whole, ties by number.
    query = some[0]
    assert LayeredVectors(arrays).find_nearest(query, [7] * len(sizes), 10) == [
        find_nearest_exactly(layer, query, 7) for layer in layers
    ]


def test_names_of_the_same_passages_do_not_hide_others() -> None:
    """Entities that the same passages name have the same vector: whole groups of nodes are equal."""
    layers = make_layers([2000, 200, 20], 32)
    layers[0] = np.repeat(layers[0][:500], 4, axis=0)
    graph = LayeredVectors(build_arrays(layers))
    for query in make_queries(layers, 100):
        min_cosine = find_nearest_exactly(layers[0], query, 5)[-1][1]
        assert [cosine >= min_cosine - 1e-6 for _, cosine in graph.find_nearest(query, [5] * 3, 40)[0]] == [True] * 5


def test_below_a_number_of_nodes_there_are_no_links_and_all_are_compared(layers: list[Matrix]) -> None:
    arrays = build_arrays(layers, exact_below=10_000)
    assert arrays["links0"].shape == (3000, 0)
    for query in make_queries(layers, 10):
        for layer, neighbors in enumerate(LayeredVectors(arrays).find_nearest(query, [5] * 4, 5)):
            assert neighbors == find_nearest_exactly(layers[layer], query, 5)


def test_layers_that_are_not_wanted_are_passed_through(layers: list[Matrix], arrays: Arrays) -> None:
    query = make_queries(layers, 1)[0]
    graph = LayeredVectors(arrays)
    assert graph.sizes == [3000, 400, 40, 6]
    assert [len(neighbors) for neighbors in graph.find_nearest(query, [5, 0, 3, 0], 20)] == [5, 0, 3, 0]
    assert [len(neighbors) for neighbors in graph.find_nearest(query, [0, 2, 0, 10], 20)] == [0, 2, 0, 6]
    assert graph.find_nearest(query, [0] * 4, 20) == [[]] * 4


def test_a_layer_may_be_empty(layers: list[Matrix]) -> None:
    none = np.empty((0, 48), np.float32)
    for given_layers in ([layers[0], none, layers[2]], [none, layers[1]], [layers[1], none], [none]):
        neighbors = LayeredVectors(build_arrays(given_layers)).find_nearest(layers[0][0], [3] * len(given_layers), 20)
        assert [len(rows) for rows in neighbors] == [min(3, len(layer)) for layer in given_layers]


def test_threads_search_side_by_side(layers: list[Matrix], arrays: Arrays) -> None:
    graph, queries = LayeredVectors(arrays), make_queries(layers, 60)
    expected = [graph.find_nearest(query, [5] * 4, 30) for query in queries]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda query: graph.find_nearest(query, [5] * 4, 30), [*queries] * 5)) == expected * 5


def test_a_build_can_be_cancelled_and_reports_its_progress(layers: list[Matrix]) -> None:
    reports: list[tuple[int, int]] = []
    cancelled = iter([False, False, True])
    given_up = build_layered_arrays(
        layers,
        list_parents([*map(len, layers)]),
        make_digests(layers),
        m=8,
        exact_below=0,
        progress=lambda num_done, total: reports.append((num_done, total)),
        is_cancelled=lambda: next(cancelled),
    )
    assert given_up is None
    assert reports == [(500, 3446), (1000, 3446)]


@pytest.mark.parametrize(
    ("name", "invalid"),
    [
        ("layers", np.array([0, 3000], np.uint32)),
        ("layers", np.array([0, 4000, 3400, 3440, 3446], np.uint32)),
        ("layers", np.array([], np.uint32)),
        ("vectors", np.zeros((10, 48), np.float32)),
        ("links0", np.zeros((10, 32), np.uint32)),
        ("links", np.zeros((10, 16), np.uint32)),
        ("links", np.zeros(10, np.uint32)),
        ("down", np.zeros(3, np.uint32)),
        ("entry", np.zeros(4, np.uint32)),
        ("entry", np.zeros(5, np.uint32)),
        ("checks", np.zeros(9, np.uint32)),
        ("bounds", np.zeros(9, np.uint32)),
    ],
)
def test_arrays_that_do_not_fit_each_other_are_refused(arrays: Arrays, name: str, invalid: npt.NDArray[Any]) -> None:
    with pytest.raises(IndexUnavailableError, match="contradict"):
        LayeredVectors({**arrays, name: invalid})


def test_an_invalid_order_is_refused(layers: list[Matrix], arrays: Arrays) -> None:
    order = np.arange(3446, dtype=np.uint32)
    for invalid in (order[::-1].copy(), order[:-1].copy(), np.zeros(3446, np.uint32)):
        with pytest.raises(ValueError, match="order"):
            LayeredGraphBuilder(arrays["layers"], arrays["vectors"], invalid)
    with pytest.raises(ValueError, match="m 1"):
        LayeredGraphBuilder(arrays["layers"], arrays["vectors"], order, 1)
    with pytest.raises(ValueError, match="left"):
        LayeredGraphBuilder(arrays["layers"], arrays["vectors"], order).build_arrays()


def test_links_that_lead_anywhere_do_no_harm(arrays: Arrays) -> None:
    """The file is not damaged but was built wrongly: every checksum is correct."""
    draw = np.random.default_rng(3)
    changed = {**arrays, "checks": np.zeros_like(arrays["checks"])}
    for name in ("links0", "links", "down", "bounds", "members"):
        changed[name] = draw.integers(0, 2**32, arrays[name].shape, np.uint32)
    changed["vectors"] = draw.standard_normal(arrays["vectors"].shape).astype(np.float32)
    changed["vectors"][::3] = np.nan
    starts = arrays["layers"]
    # Whoever builds a graph gives it its checksums: here the one of a graph without any order.
    for checks in (arrays["checks"], compute_checksums(changed)):
        graph = open_graph({**changed, "checks": checks})
        for ef in (1, 20, 5000):
            try:
                nodes, _, bounds, _ = graph.search(
                    changed["vectors"][1], np.full(4, 5, np.int64), ef, max_compared_nodes=0
                )
            except ValueError as error:
                assert "fails its checksum" in str(error)
                continue
            for layer, (low, high) in enumerate(pairwise(bounds.tolist())):
                assert all(starts[layer] <= node < starts[layer + 1] for node in nodes[low:high].tolist())


def compute_checksums(arrays: Arrays) -> npt.NDArray[np.uint32]:
    """Return the checksums of arrays as in FORMAT.md: vector, links, link down."""
    import zlib

    starts, sums = arrays["layers"], []
    for node, vector in enumerate(arrays["vectors"]):
        upper_row = node - int(starts[1])
        links = arrays["links0"][node] if upper_row < 0 else arrays["links"][upper_row]
        down = b"" if upper_row < 0 else arrays["down"][upper_row].tobytes()
        sums.append(zlib.crc32(vector.tobytes() + links.tobytes() + down))
    return np.array(sums, np.uint32)


@pytest.mark.parametrize("exact_below", [0, 10_000])
def test_checksums_are_those_of_the_format(layers: list[Matrix], exact_below: int) -> None:
    arrays = build_arrays(layers, exact_below=exact_below)
    assert arrays["checks"].tolist() == compute_checksums(arrays).tolist()


# -- The file


def write_file(arrays: Arrays, path: Path) -> Path:
    with index_file.open_draft(path) as draft:
        draft.write({"kind": "layers", "token": b"t", "epoch": 0}, arrays)
        draft.publish()
    return path


def open_file(path: Path) -> LayeredVectors:
    return LayeredVectors(index_file.read(path, "layers", lambda token: True, CHECKED_IN_PLACE)[1])


def test_a_file_is_searched_in_place(layers: list[Matrix], arrays: Arrays, tmp_path: Path) -> None:
    path = write_file(arrays, tmp_path / "layers.index")
    for query in make_queries(layers, 20):
        assert open_file(path).find_nearest(query, [5] * 4, 20) == LayeredVectors(arrays).find_nearest(
            query, [5] * 4, 20
        )


def test_opening_a_file_reads_none_of_its_large_arrays(arrays: Arrays, tmp_path: Path) -> None:
    path = write_file(arrays, tmp_path / "layers.index")
    _, views = index_file.read(path, "layers", lambda token: True)
    head = path.read_bytes()
    # With every byte of the large arrays another, opening it is as before.
    for name in CHECKED_IN_PLACE:
        place = head.index(views[name].tobytes())
        head = head[:place] + bytes(views[name].nbytes) + head[place + views[name].nbytes :]
    damaged = tmp_path / "damaged.index"
    damaged.write_bytes(head)
    graph = open_file(damaged)
    with pytest.raises(IndexUnavailableError, match="fails its checksum"):
        graph.find_nearest(np.ones(48, np.float32), [5] * 4, 20)
    with pytest.raises(IndexUnavailableError, match="fails its checksum"):
        index_file.read(damaged, "layers", lambda token: True)


def damage_data(data: bytearray, draw: random.Random) -> None:
    """Damage a file: change bits, overwrite, cut or swap parts of it."""
    match draw.randrange(5):
        case 0:
            for _ in range(draw.choice([1, 1, 3, 200])):
                data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        case 1:
            start = draw.randrange(len(data))
            length = min(draw.choice([1, 64, 4096]), len(data) - start)
            data[start : start + length] = draw.choice([bytes(length), b"\xff" * length, draw.randbytes(length)])
        case 2:
            del data[draw.randrange(len(data)) :]
        case 3:
            source, target = (draw.randrange(len(data) - 4096) for _ in range(2))
            data[source : source + 4096], data[target : target + 4096] = (
                data[target : target + 4096],
                data[source : source + 4096],
            )
        case 4:
            start = draw.randrange(len(data))
            del data[start : start + draw.choice([1, 64, 512])]


@pytest.mark.parametrize("links", [True, False])
def test_300_damages_of_a_file_are_reported_or_harmless(links: bool, tmp_path: Path) -> None:
    layers = make_layers([700, 300, 20], 24)
    content = write_file(
        build_arrays(layers, m=8, exact_below=0 if links else 10_000), tmp_path / "layers.index"
    ).read_bytes()
    queries = make_queries(layers, 15)
    exact_answers = [open_file(tmp_path / "layers.index").find_nearest(query, [5] * 3, 20) for query in queries]
    path, num_reported = tmp_path / "damaged.index", 0
    for seed in range(300):
        data = bytearray(content)
        damage_data(data, random.Random(seed))
        path.unlink(missing_ok=True)
        path.write_bytes(data)
        try:
            graph = open_file(path)
        except IndexUnavailableError:
            num_reported += 1
            continue
        for query, expected in zip(queries, exact_answers, strict=True):
            try:
                assert graph.find_nearest(query, [5] * 3, 20) == expected, seed
            except IndexUnavailableError:
                num_reported += 1
                break
    assert num_reported > 150

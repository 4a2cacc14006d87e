"""Communities as they are built: a function of documents, edges and aliases, whatever way those came."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import pytest
from theme_texts import THEMES, write_theme_documents

from kvstore import Store
from kvstore.errors import InputError
from kvstore.structures.clustering.affinity import Edges
from kvstore.systems.graphrag import entity_graph as graph_module
from kvstore.systems.graphrag.community_building import NO_COMMUNITY, CommunityTree, assign_homes, build_communities
from kvstore.systems.graphrag.community_levels import CommunityOptions
from kvstore.systems.graphrag.community_reports import CommunityReport, iter_reports
from kvstore.systems.graphrag.entity_graph import build_entity_graph
from kvstore.systems.graphrag.leiden import partition_by_leiden

MakeStore = Callable[..., Store]
ALL_OPTIONS = [
    CommunityOptions(least=2),
    CommunityOptions(neighbours="knn", least=2),
    CommunityOptions(method="leiden", least=2),
    CommunityOptions(method="leiden", neighbours="knn", least=2),
]


def make_filled_store(make_store: MakeStore, name: str, documents: Iterable[tuple[str, str]]) -> Store:
    store = make_store(name)
    with store.transaction() as transaction:
        for key, text in documents:
            transaction.put(key, text)
    return store


def describe_communities(store: Store, options: CommunityOptions | None = None) -> Any:
    """Return the communities of a store and their sentences as keys, ordinals and names."""
    with store.state() as state:
        tree = build_communities(state, options)
        graph = tree.graph
        places = [
            (state.documents.get_key(record.document), record.ordinal)
            for record in (state.chunks.get(chunk) for chunk in graph.chunks.tolist())
        ]
        members = [
            (community, graph.keys[node], weight)
            for community, node, weight in zip(*(column.tolist() for column in tree.group_members()), strict=True)
        ]
        edges = sorted(
            (graph.keys[first], graph.keys[second], weight)
            for first, second, weight in zip(*(column.tolist() for column in graph.edges), strict=True)
        )
        reports = [
            (
                community,
                [(state.documents.get_key(span.document), span.start, span.end) for span in report.summary],
                [
                    ([state.entities.get(entity).key for entity in finding.entities], finding.weight)
                    for finding in report.findings
                ],
                report.content_digest,
            )
            for community, report in sorted(iter_reports(state, tree))
        ]
        return (
            edges,
            members,
            tree.levels.tolist(),
            tree.parents.tolist(),
            sorted(zip(places, tree.homes.tolist(), tree.shares.tolist(), strict=True)),
            reports,
        )


def list_groups(tree: CommunityTree) -> dict[int, set[str]]:
    members: dict[int, set[str]] = {}
    for community, node in zip(*(column.tolist() for column in tree.group_members()[:2]), strict=True):
        members.setdefault(community, set()).add(tree.graph.keys[node])
    return members


@pytest.mark.parametrize("options", ALL_OPTIONS, ids=lambda options: f"{options.method}-{options.neighbours}")
def test_names_that_occur_together_are_one_community(make_store: MakeStore, options: CommunityOptions) -> None:
    store = make_filled_store(make_store, "store", write_theme_documents(12).items())
    with store.state() as state:
        tree = build_communities(state, options)
        coarsest = {community: names for community, names in list_groups(tree).items() if tree.levels[community] == 0}
        for names in THEMES.values():
            keys = {name.lower() for name in names}
            assert any(keys <= members for members in coarsest.values())
            assert sum(bool(keys & members) for members in coarsest.values()) == 1
        # Every passage is at home where its names are, and each level is inside the one above.
        assert (tree.homes != NO_COMMUNITY).all() and (tree.shares > 0.5).all()
        for community, parent in enumerate(tree.parents.tolist()):
            assert parent < community
            if parent != NO_COMMUNITY:
                assert list_groups(tree)[community] < list_groups(tree)[parent]
                assert tree.levels[parent] < tree.levels[community]
        assert tree.vectors.shape == (len(tree), state.settings.dimension)
        assert np.allclose(np.linalg.norm(tree.vectors, axis=1), 1, atol=1e-5)


@pytest.mark.parametrize("options", ALL_OPTIONS, ids=lambda options: f"{options.method}-{options.neighbours}")
def test_history_does_not_show(make_store: MakeStore, options: CommunityOptions) -> None:
    documents = list(write_theme_documents(8).items())
    straight = make_filled_store(make_store, "straight", documents)
    random.Random(7).shuffle(documents)
    other_store = make_filled_store(
        make_store, "other", [("gone", "Dock Marston and Theatre Lyra and Engine Halcyon."), *documents[:20]]
    )
    other_store.put("harbour-1", "Something else of Village Oxley and Captain Orlov, who is gone.")
    for key, text in documents:
        other_store.put(key, text)
    other_store.delete("gone")
    for store in (straight, other_store):
        store.execute("ALIAS 'Old Port' FOR 'Port Ellery'")
    assert describe_communities(straight, options) == describe_communities(other_store, options)


def test_an_alias_makes_two_names_one_node(make_store: MakeStore) -> None:
    store = make_filled_store(make_store, "store", write_theme_documents(8).items())
    store.execute("MERGE ENTITY 'Captain Orlov' INTO 'Port Ellery'")
    with store.state() as state:
        graph = build_entity_graph(state)
    assert "captain orlov" not in graph.keys and "port ellery" in graph.keys
    assert len(set(zip(graph.mention_chunks.tolist(), graph.mention_nodes.tolist(), strict=True))) == len(
        graph.mention_nodes
    )


def test_nodes_and_edges_are_cut_by_weight_and_name(make_store: MakeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    lone = {"lone": "Hermit Asper lives alone.", "other": "Nobody met Village Oxley here."}
    store = make_filled_store(make_store, "store", (write_theme_documents(8) | lone).items())
    with store.state() as state:
        graph = build_entity_graph(state)
        assert graph.keys == sorted(graph.keys) and "hermit asper" not in graph.keys
        assert (graph.degrees >= 2).all() and (graph.edges.first < graph.edges.second).all()
        first, second = int(graph.edges.first[0]), int(graph.edges.second[0])
        naming = [
            set(graph.mention_nodes[graph.mention_chunks == passage].tolist()) for passage in range(len(graph.chunks))
        ]
        num_shared = sum({first, second} <= nodes for nodes in naming)
        weight = round(num_shared * 65536 / np.sqrt(graph.degrees[first] * graph.degrees[second]))
        assert num_shared > 0 and graph.edges.weights[0] == weight
        # A long list of names joins only the rarest of them.
        monkeypatch.setattr(graph_module, "_MAX_CHUNK_NODES", 2)
        assert len(build_entity_graph(state).edges.first) < len(graph.edges.first)


def test_sentences_are_those_of_documents_and_findings_name_both(make_store: MakeStore) -> None:
    store = make_filled_store(make_store, "store", write_theme_documents(10).items())
    with store.state() as state:
        tree = build_communities(state, CommunityOptions(least=2))
        reports: Mapping[int, CommunityReport] = dict(iter_reports(state, tree))
        assert sorted(reports) == list(range(len(tree)))
        assert all(report.summary and report.findings for report in reports.values())
        assert len({report.content_digest for report in reports.values()}) == len(tree)
        for report in reports.values():
            assert len(report.summary) <= 6 and len(report.findings) <= 8
            for span in (*report.summary, *(finding.span for finding in report.findings)):
                text = state.documents.read_text_slice(span.document, span.start, span.end)
                assert text[0].isupper() and text.endswith(".")
                assert state.chunks.get(span.chunk).document == span.document
            for finding in report.findings:
                span = finding.span
                text = state.documents.read_text_slice(span.document, span.start, span.end).lower()
                first_key, second_key = (state.entities.get(entity).key for entity in finding.entities)
                assert first_key in text and second_key in text
            weights = [finding.weight for finding in report.findings]
            assert weights == sorted(weights, reverse=True)


def test_offsets_are_bytes_if_letters_have_several(make_store: MakeStore) -> None:
    documents = {key: text.replace("People", "Ältere Gäste – 東京 –") for key, text in write_theme_documents(6).items()}
    store = make_filled_store(make_store, "store", documents.items())
    with store.state() as state:
        tree = build_communities(state, CommunityOptions(least=2))
        for _, report in iter_reports(state, tree):
            for span in report.summary:
                text = state.documents.read_text_slice(span.document, span.start, span.end)
                assert text.endswith(".") and text[0].isupper()


def test_texts_change_only_with_their_documents(make_store: MakeStore) -> None:
    store = make_filled_store(make_store, "store", write_theme_documents(10).items())

    def collect_contents() -> dict[frozenset[str], bytes]:
        with store.state() as state:
            tree = build_communities(state, CommunityOptions(least=2))
            members = list_groups(tree)
            reports = iter_reports(state, tree)
            return {frozenset(members[community]): report.content_digest for community, report in reports}

    old_contents = collect_contents()
    store.put("orchard-3", write_theme_documents(4)["orchard-3"].replace("filled", "took"))
    new_contents = collect_contents()
    orchard = {name.lower() for name in THEMES["orchard"]}
    changed_groups = {group for group in old_contents if new_contents.get(group) != old_contents[group]}
    assert changed_groups and all(group & orchard for group in changed_groups)
    assert all(new_contents[group] == old_contents[group] for group in old_contents if "theatre lyra" in group)


@pytest.mark.parametrize("neighbours", ["none", "knn"])
def test_no_more_than_the_largest_are_in_one(make_store: MakeStore, neighbours: str) -> None:
    store = make_filled_store(make_store, "store", write_theme_documents(12).items())
    with store.state() as state:
        tree = build_communities(state, CommunityOptions(neighbours=neighbours, largest=3, least=2))
    assert len(tree.partitions) > 1
    members = list_groups(tree)
    for community, names in members.items():
        child_members = [members[child] for child in np.flatnonzero(tree.parents == community).tolist()]
        num_unassigned = len(names) - sum(map(len, child_members))
        assert num_unassigned + len(child_members) <= 3


def test_nothing_is_no_community(make_store: MakeStore) -> None:
    store = make_store()
    for _ in range(2):
        for options in ALL_OPTIONS:
            with store.state() as state:
                tree = build_communities(state, options)
                assert len(tree) == 0 and not list(iter_reports(state, tree))
        store.put("one", "Nothing is named here but Hermit Asper.")


def test_a_passage_belongs_to_the_community_of_most_of_its_names() -> None:
    levels = np.array([[0, 0, 1, -1, 0], [2, 3, 1, -1, 0]])
    naming, entities = np.array([0, 0, 0, 1, 2, 2]), np.array([0, 1, 2, 3, 4, 2])
    homes, shares = assign_homes(4, naming, levels[:, entities], np.array([5, 3, 6, 9, 7, 7]))
    # At the top 8 against 6, below 5 against 3; a name that belongs nowhere; a tie falls to the first.
    assert homes.tolist() == [2, NO_COMMUNITY, 0, NO_COMMUNITY]
    assert shares.tolist() == [round(5 / 14, 4), 0, 0.5, 0]


def test_leiden_needs_its_library(monkeypatch: pytest.MonkeyPatch) -> None:
    edges = Edges(np.array([0]), np.array([1]), np.array([3]))
    assert [labels.tolist() for labels in partition_by_leiden(3, edges, largest=10, levels=4)] == [[0, 0, 1]]
    nothing = np.empty(0, np.int64)
    assert partition_by_leiden(3, Edges(nothing, nothing, nothing), largest=10, levels=4) == []
    monkeypatch.setitem(sys.modules, "graspologic_native", None)
    with pytest.raises(InputError, match=r"kvstore-db\[communities\].*affinity"):
        partition_by_leiden(3, edges, largest=10, levels=4)


def test_a_finding_is_the_sentence_that_asserts_a_relation(make_store: MakeStore) -> None:
    store = make_store(settings={"language": "en"})
    store.put("seat", "Ada Lane saw Dodge City and Ford County. Dodge City is the county seat of Ford County, Kansas.")
    store.put("again", "Ada Lane left Dodge City. Ford County was sold.")
    with store.state() as state:
        assert list(state.forest.iter_edges())
        tree = build_communities(state)
        relations = {
            frozenset(state.entities.get(entity).key for entity in finding.entities): finding.span
            for _, report in iter_reports(state, tree)
            for finding in report.findings
        }
        span = relations[frozenset({"dodge city", "ford county"})]
        text = state.documents.read_text_slice(span.document, span.start, span.end)
    assert text.startswith("Dodge City is the county seat")

"""Strategies over the graph of passages and entities: chains of facts, comparisons, and why a chunk is there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

import kvstore
from kvstore.derived.passage_graph.graph import ENTITIES_PER_PAGE, GraphWriter, PassageGraph
from kvstore.retrieval.recognition import QuestionEntity, decompose
from kvstore.storage.environment import Environment
from kvstore.structures.filter.entity_filter import FilterEntry
from kvstore.structures.names.aliases import Identity
from kvstore.systems.graph import strategy as graph_strategy

FILMS = {
    "harbour": ("Blue Harbour (film)", "Blue Harbour is a 1934 drama directed by Nora Quill and shot in six weeks."),
    "quill": ("Nora Quill", "Nora Quill (1899 to 1961) came from Tolland, where her family sold rope."),
    "meadow": ("Red Meadow", "Red Meadow is a comedy. It was directed by Otto Brandt for a small studio."),
    "brandt": ("Otto Brandt", "Otto Brandt grew up in Corrin and made nine comedies before he retired."),
    "director": ("Film director", "A film director is born of patience: the director of a film says where all stand."),
    "born": ("Birth", "Where a director was born is often asked, and where the film was made, and who directed it."),
    "evening": ("Evening", "Evening is a song that was played at the end of every evening."),
}


@pytest.fixture
def film_store(store: kvstore.Store) -> kvstore.Store:
    with store.transaction() as transaction:
        for key, (title, text) in FILMS.items():
            transaction.put(key, text, title=title)
    return store


def list_documents(evidence: kvstore.Evidence, count: int) -> set[str]:
    return {hit.document for hit in evidence.hits[:count]}


@pytest.mark.parametrize("strategy", ["graph", "hipporag", "adaptive"])
def test_a_chain_leads_to_a_passage_that_shares_no_word_with_the_question(
    film_store: kvstore.Store, strategy: str
) -> None:
    evidence = film_store.retrieve("Where was the director of Blue Harbour born?", using=strategy, top=3)
    assert list_documents(evidence, 2) == {"harbour", "quill"}
    path = next(hit.path for hit in evidence.hits if hit.document == "quill")
    assert path.startswith("blue harbour → chunk ")
    assert path.endswith("→ chunk 0 of harbour → nora quill")


def test_a_walk_starts_at_relations_that_match_the_question(film_store: kvstore.Store) -> None:
    film_store.put_triples(
        "brandt", [("Otto Brandt", "was taught by", "Ines Falk"), ("Otto Brandt", "retired to", "Corrin")]
    )
    film_store.put("falk", "She kept bees until she was ninety.", title="Ines Falk")
    question = "Who taught the director of Red Meadow, Otto Brandt?"

    def compute_teacher_mass(weight: float) -> float:
        with mock.patch.object(graph_strategy, "_RELATION_WEIGHT", weight):
            hits = film_store.retrieve(question, using="graph", top=9).hits
        return next((hit.score for hit in hits if hit.document == "falk"), 0.0)

    steps = {step.name: step for step in film_store.retrieve(question, using="graph").steps}
    assert steps["relations that match"].detail == "otto brandt, ines falk"
    assert compute_teacher_mass(1) > compute_teacher_mass(1e-9)


def test_triples_of_the_best_chunks_lead_to_the_chunks_of_their_names(film_store: kvstore.Store) -> None:
    question = "Who taught the director of Red Meadow?"
    film_store.put("falk", "Ines Falk taught singing until she was ninety.")

    def get_teacher_score() -> float:
        hits = film_store.retrieve(question, top=9).hits
        return next((hit.score for hit in hits if hit.document == "falk"), 0.0)

    score = get_teacher_score()
    assert "names that triples join" not in {step.name for step in film_store.retrieve(question).steps}
    film_store.put_triples("brandt", [("Otto Brandt", "was taught by", "Ines Falk"), ("Otto Brandt", "left", "Corrin")])
    steps = {step.name: step for step in film_store.retrieve(question).steps}
    assert steps["names that triples join"].detail == "otto brandt → ines falk"
    assert get_teacher_score() > score
    film_store.delete("falk")
    assert film_store.retrieve(question, where="key <> 'brandt'").hits


@pytest.mark.parametrize("keys", [("falk", "marsh"), ("marsh", "falk")])
def test_the_best_triple_comes_first_whatever_the_order_of_the_documents(
    film_store: kvstore.Store, keys: tuple[str, str]
) -> None:
    titles = {"falk": "Ines Falk", "marsh": "Lena Marsh"}
    for key in keys:
        film_store.put(key, f"{titles[key]} taught singing until she was ninety, as Ines Falk did.", title=titles[key])
    triples = [
        ("Otto Brandt", "was taught by", "Ines Falk"),
        ("Otto Brandt", "was taught, a director, by", "Lena Marsh"),
    ]
    film_store.put_triples("brandt", triples)
    steps = {step.name: step for step in film_store.retrieve("Who taught Otto Brandt, a director?").steps}
    assert steps["names that triples join"].detail == "otto brandt → lena marsh; otto brandt → ines falk"


def test_a_walk_can_start_at_names_alone(film_store: kvstore.Store) -> None:
    """Each of the names is in several chunks, so all costs of the walk are integers."""
    assert film_store.retrieve("Who was Nora Quill?", using="graph", options={"passages": 0}).hits


def test_every_number_that_an_option_of_a_walk_allows_gives_hits(film_store: kvstore.Store) -> None:
    options = film_store.describe_strategy("graph").options
    for name, option in options.items():
        for value in (option.low, option.high):
            hits = film_store.retrieve(
                "Where did the family of Nora Quill sell rope?", using="graph", options={name: value}
            ).hits
            assert hits and all(np.isfinite(hit.score) for hit in hits), name


@pytest.mark.parametrize("strategy", ["graph", "hipporag", "adaptive"])
def test_both_sides_of_a_comparison_are_followed(film_store: kvstore.Store, strategy: str) -> None:
    question = "Are the directors of Blue Harbour and Red Meadow from the same town?"
    assert list_documents(film_store.retrieve(question, using=strategy), 4) == {"harbour", "quill", "meadow", "brandt"}


def test_explain_shows_the_parts_of_a_question(film_store: kvstore.Store) -> None:
    steps = {
        step.name: step for step in film_store.retrieve("Is Nora Quill or Otto Brandt older?", using="graph").steps
    }
    assert steps["decompose question"].detail == "compares nora quill, otto brandt; asks 'Is or older?'"
    assert "pushes" in steps["personalized PageRank"].detail
    assert "'Is or older?'" in steps["relevance of candidates"].detail


def test_passages_of_a_name_that_match_the_question_lead_on(store: kvstore.Store) -> None:
    with store.transaction() as transaction:
        transaction.put("loom", "Ida Marsh taught Nora Quill the craft of weaving linen.", title="The loom")
        transaction.put("boat", "Otto Brandt sold Nora Quill a boat with a red sail.", title="The boat")
        transaction.put("marsh", "She grew up in Tolland.", title="Ida Marsh")
        transaction.put("brandt", "He grew up in Corrin.", title="Otto Brandt")

    def compute_lead(question: str, **clauses: Any) -> float:
        """Return how much higher the walk ranks the teacher than the seller of the boat."""
        scores = {hit.document: hit.score for hit in store.retrieve(question, using="graph", top=9, **clauses).hits}
        return scores["marsh"] / scores["brandt"]

    question = "Where did the one grow up who taught Nora Quill the craft of weaving linen?"
    assert compute_lead(question) > 1.5 * compute_lead(question, options={"bias": 0})
    steps = {step.name: step.detail for step in store.retrieve(question, using="graph").steps}
    assert "chunks weighted by 'Where did the one grow up who taught the craft" in steps["personalized PageRank"]
    # Questions that do not distinguish passages: few other words, no name, or a vector that includes the names.
    for other in ("Who is Nora Quill's teacher?", "Where is the craft of weaving linen taught to everybody?"):
        assert compute_lead(other) == compute_lead(other, options={"bias": 0})
    vector = store.embed([question])[0]
    assert compute_lead(question, vector=vector) == compute_lead(question, vector=vector, options={"bias": 0})


def test_paths_of_units_count_in_graph(film_store: kvstore.Store) -> None:
    question = "In which town was the director of Blue Harbour born?"

    def compute_scores(**options: float) -> dict[str, float]:
        return {
            hit.document: hit.score for hit in film_store.retrieve(question, using="graph", top=9, options=options).hits
        }

    def has_paths(text: str) -> bool:
        return any(step.name == "paths after hop 1" for step in film_store.retrieve(text, using="graph").steps)

    before = compute_scores()
    assert not has_paths(question)
    film_store.create_index("units")
    assert compute_scores(units=0) == before
    gains = {key: compute_scores()[key] / before[key] for key in before}
    assert max(gains.values()) == pytest.approx(np.e)  # what the best path leads through
    assert gains["quill"] > gains["evening"] == 1
    assert has_paths(question)
    assert not has_paths("Who is Blue Harbour's director?"), "too little is asked beside the name"


@pytest.mark.parametrize("strategy", ["graph", "hipporag", "adaptive"])
def test_without_a_known_name_the_nearest_passages_are_the_start(film_store: kvstore.Store, strategy: str) -> None:
    hits = film_store.retrieve("who sold rope", using=strategy, top=2).hits
    assert hits[0].document == "quill"
    assert hits[0].path


def test_a_word_is_no_name_if_the_question_writes_it_in_lower_case(film_store: kvstore.Store) -> None:
    def describe_entities(question: str) -> str:
        return next(
            step.detail for step in film_store.retrieve(question, using="graph").steps if "entities" in step.name
        )

    assert "evening" not in describe_entities("Who met Nora Quill in the evening?")
    assert "evening" in describe_entities("Who sang Evening with Nora Quill?")
    assert "evening" in describe_entities("who sang evening with nora quill?")


def test_a_query_vector_replaces_the_rest_of_the_question_too(make_store: Callable[..., kvstore.Store]) -> None:
    store = make_store("given", embedder="none:4")
    for place, (key, (title, text)) in enumerate(FILMS.items()):
        store.put(key, text, title=title, vectors=np.eye(4)[place % 4])
    evidence = store.retrieve("Who directed Blue Harbour?", using="graph", vector=np.ones(4))
    assert list_documents(evidence, 2) == {"harbour", "quill"}


def test_names_of_one_entity_start_together(film_store: kvstore.Store) -> None:
    film_store.alias("The Quill", "Nora Quill")
    assert list_documents(film_store.retrieve("Which town is The Quill from?", using="hipporag"), 2) == {
        "harbour",
        "quill",
    }


def test_an_empty_store_answers_with_nothing(store: kvstore.Store) -> None:
    assert store.retrieve("Who directed Blue Harbour?", using="graph").hits == []
    assert store.retrieve("Who directed Blue Harbour?", using="hipporag").hits == []


def make_seeds(question: str, *names: str) -> list[QuestionEntity]:
    data = question.encode()
    starts = [data.index(name.encode()) for name in names]
    return [
        QuestionEntity(
            name.lower(), Identity(((name.lower(), FilterEntry(1, 1, 0)),)), 1, ((start, start + len(name.encode())),)
        )
        for name, start in zip(names, starts, strict=True)
    ]


@pytest.mark.parametrize(
    ("question", "names", "compared", "rest"),
    [
        (
            "Who is older, Ana Ruiz or Łucja Żak?",
            ["Łucja Żak", "Ana Ruiz"],
            ["Ana Ruiz", "Łucja Żak"],
            "Who is older, or ?",
        ),
        (
            "Do both films Up and Down have one director?",
            ["Up", "Down"],
            ["Up", "Down"],
            "Do both films and have one director?",
        ),
        ("Which town lies between Ash and Elm?", ["Ash", "Elm"], [], "Which town lies between and ?"),
        ("Who directed Up and where is Elm?", ["Up", "Elm"], [], "Who directed and where is ?"),
        ("Nora Quill?", ["Nora Quill"], [], "Nora Quill?"),
        ("Who sold rope?", [], [], "Who sold rope?"),
    ],
)
def test_decomposition(question: str, names: list[str], compared: list[str], rest: str) -> None:
    parts = decompose(question, make_seeds(question, *names))
    assert parts.compared_keys == tuple(name.lower() for name in compared)
    assert parts.remainder == rest


def test_entities_of_many_pages_of_heads_are_stored(tmp_path: Path) -> None:
    """More pages than are made room for at first, in one change."""
    entities = np.arange(1, 40, dtype=np.uint32) * np.uint32(ENTITIES_PER_PAGE)
    row = dict.fromkeys(entities.tolist(), 1)
    with Environment.open(tmp_path / "store") as environment:
        with environment.write() as transaction:
            writer = GraphWriter(transaction)
            writer.put_chunks({5: row})
            writer.flush()
        with environment.snapshot() as snapshot:
            assert PassageGraph(snapshot).read_degrees(entities).total.tolist() == [1] * len(entities)

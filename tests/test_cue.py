"""Strategy cue: paths over units and entities, their starting points and descriptions, and the required index."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import kvstore
from kvstore import errors
from kvstore.changes import index_maintenance
from kvstore.models.reranker import CrossEncoderReranker

NOTES = {
    "harbour": ("Blue Harbour (film)", "Blue Harbour is a drama of 1934. It was directed by Nora Quill in six weeks."),
    "quill": ("Nora Quill", "Nora Quill sold rope as a child. She was born in Tolland, the daughter of Ida Marsh."),
    "meadow": ("Red Meadow", "Red Meadow is a comedy. It was directed by Otto Brandt for a small studio."),
    "brandt": ("Otto Brandt", "Otto Brandt was born in Corrin. He made nine comedies before he retired."),
    "director": ("Directing", "A director is born of patience: the director of a film says where all stand."),
    "rope": ("Rope", "Rope is made of hemp. It was sold by the yard."),
}
QUESTION = "Where was the director of Blue Harbour born?"


@pytest.fixture
def films(store: kvstore.Store) -> kvstore.Store:
    store.create_index("units")
    with store.transaction() as transaction:
        for key, (title, text) in NOTES.items():
            transaction.put(key, text, title=title)
    return store


def list_documents(evidence: kvstore.Evidence, count: int) -> set[str]:
    return {hit.document for hit in evidence.hits[:count]}


def test_a_path_leads_over_units_and_names_and_is_the_reason_given(films: kvstore.Store) -> None:
    evidence = films.retrieve(QUESTION, using="cue", top=4)
    assert list_documents(evidence, 3) > {"harbour", "quill"}
    path = next(hit.path for hit in evidence.hits if hit.document == "quill")
    assert path.startswith('blue harbour → "')
    assert path.endswith(
        '"It was directed by Nora Quill in six weeks." → nora quill → '
        '"She was born in Tolland, the daughter of Ida Marsh."'
    )
    assert films.retrieve(QUESTION, using="cue", top=4).hits == evidence.hits


def test_explain_shows_anchors_the_paths_of_each_hop_and_the_passages(films: kvstore.Store) -> None:
    steps = {step.name: step for step in films.retrieve(QUESTION, using="cue", top=4).steps}
    assert steps["anchors from names"].detail == "blue harbour (blue harbour (film))"
    assert steps["anchors from units"].count == 3
    assert '"It was directed by Nora Quill in six weeks."' in steps["paths after hop 1"].detail
    paths = steps["paths after hop 2"].detail.split("; ")
    assert len(paths) == steps["paths after hop 2"].count
    scores = [float(path.split(" ")[0]) for path in paths]
    assert scores == sorted(scores, reverse=True)
    assert "quill 0" in steps["chunks of the paths"].detail


@pytest.mark.parametrize("names", [("Blue Harbour", "Red Meadow"), ("Red Meadow", "Blue Harbour")])
def test_each_name_that_is_compared_has_a_beam_of_its_own(films: kvstore.Store, names: Sequence[str]) -> None:
    question = f"Are the directors of {names[0]} and {names[1]} born in the same town?"
    assert list_documents(films.retrieve(question, using="cue", options={"beam": 2}), 4) == {
        "harbour",
        "quill",
        "meadow",
        "brandt",
    }


def test_content_of_a_found_unit_is_not_searched_again(films: kvstore.Store) -> None:
    twice = ['"Nora Quill sold rope as a child."', '"Nora Quill sold rope as a small child."']
    films.put("more", twice[1].strip('"'))

    def appears_twice(update: float) -> bool:
        options = {"update": update, "nearest": 1, "beam": 1, "hops": 2, "words": 0}
        steps = films.retrieve("Nora Quill sold rope, then directed", using="cue", options=options).steps
        detail = next(step.detail for step in steps if step.name == "paths after hop 2")
        return all(unit in detail for unit in twice)

    assert appears_twice(0)
    assert not appears_twice(1)


def test_without_a_known_name_the_units_nearest_to_the_question_start(films: kvstore.Store) -> None:
    evidence = films.retrieve("who sold something as a child", using="cue", top=2)
    assert evidence.hits[0].document == "quill"
    assert next(step for step in evidence.steps if step.name == "anchors from names").detail == "none"


def test_a_title_and_the_same_without_its_bracket_are_one_anchor(films: kvstore.Store) -> None:
    evidence = films.retrieve("Who directed Blue Harbour (film)?", using="cue", top=2)
    assert "harbour" in list_documents(evidence, 1)


def test_an_unknown_name_is_replaced_by_the_nearest_known_one(films: kvstore.Store) -> None:
    films.create_index("synonyms")
    films.execute("REFRESH INDEX synonyms")
    steps = films.retrieve("Who was Nora Quille?", using="cue").steps
    detail = next(step.detail for step in steps if step.name == "anchors from names")
    assert "Nora Quille (nora quill" in detail


def test_only_documents_that_may_answer_are_quoted(films: kvstore.Store) -> None:
    evidence = films.retrieve(QUESTION, using="cue", where="key <> 'harbour'")
    assert "harbour" not in list_documents(evidence, 9)
    assert all("six weeks" not in hit.path for hit in evidence.hits)
    assert all("six weeks" not in step.detail for step in evidence.steps)
    assert films.retrieve(QUESTION, using="cue", where="key = 'none'").hits == []


def test_a_cross_encoder_scores_the_paths_in_the_order_of_the_documents(
    films: kvstore.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []

    def scores(self: CrossEncoderReranker, question: str, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        assert question == QUESTION
        read.extend(texts)
        return np.array(["hemp" in text for text in texts], np.float32)

    monkeypatch.setattr(CrossEncoderReranker, "scores", scores)
    hits = films.retrieve(QUESTION, using="cue", reranker="some/model", options={"nearest": 5}).hits
    assert hits[0].document == "rope"
    assert "It was directed by Nora Quill in six weeks. She was born in Tolland, the daughter of Ida Marsh." in read


def test_it_names_its_requirements(store: kvstore.Store, make_store: Callable[..., kvstore.Store]) -> None:
    store.put("a", "Alice met Bob.")
    with pytest.raises(errors.InputError, match="CREATE INDEX units"):
        store.retrieve("Who met Bob?", using="cue")
    vector_store = make_store("given", embedder="none:4")
    vector_store.create_index("units")
    with pytest.raises(errors.InputError, match="a store with an embedder"):
        vector_store.retrieve("Who met Bob?", using="cue", vector=np.ones(4))


def test_an_empty_store_has_no_evidence(store: kvstore.Store) -> None:
    store.create_index("units")
    assert store.retrieve(QUESTION, using="cue").hits == []


def test_answers_do_not_depend_on_the_order_of_documents(make_store: Callable[..., kvstore.Store]) -> None:
    """Equal texts in documents of different keys give paths of equal scores."""
    answers = []
    for name, keys in (("one", ["a", "b", "c", "d"]), ("other", ["d", "b", "a", "c"])):
        store = make_store(name)
        store.create_index("units")
        for key in keys:
            store.put(key, "Nora Quill met Ida Marsh. Ida Marsh sold Nora Quill a boat.")
        hits = store.retrieve("Who sold Nora Quill a boat?", using="cue", options={"nearest": 1, "beam": 2}).hits
        answers.append([(hit.document, hit.score, hit.path) for hit in hits])
    assert answers[0] == answers[1]


def test_a_document_without_units_is_found_by_its_vector(store: kvstore.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    for key, (title, text) in NOTES.items():
        store.put(key, text, title=title)
    store_batch = index_maintenance.MaintainedIndexBuilder._store_batch

    def store_one_batch(self: Any, *values: Any) -> Any:
        monkeypatch.setattr(index_maintenance.MaintainedIndexBuilder, "_store_batch", raise_interrupt)
        return store_batch(self, *values)

    def raise_interrupt(self: Any, *values: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(index_maintenance, "_MAX_BATCH_DOCUMENTS", 3)
    monkeypatch.setattr(index_maintenance.MaintainedIndexBuilder, "_store_batch", store_one_batch)
    with pytest.raises(KeyboardInterrupt):
        store.create_index("units")
    monkeypatch.undo()
    evidence = store.retrieve(QUESTION, using="cue")
    assert list_documents(evidence, 9) == NOTES.keys()
    detail = next(step.detail for step in evidence.steps if step.name == "search paths")
    assert "some documents have no units yet; run REFRESH INDEX units" in detail
    assert not any("hop" in step.name for step in store.retrieve(QUESTION, using="graph").steps), "counts whole ones"
    store.execute("REFRESH INDEX units")
    later_evidence = store.retrieve(QUESTION, using="cue")
    assert list_documents(later_evidence, 9) == NOTES.keys()
    assert "no units yet" not in str(later_evidence.steps)

"""Strategy adaptive, which combines direct search with a walk: each part of a score, and the reported reasons."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Sequence
from functools import partial
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

import kvstore
from kvstore.systems.adaptive import strategy as adaptive_strategy
from kvstore.systems.hybrid.direct_search import (
    Weights,
    combine_searches,
    compute_dense_reliability,
    compute_normal_quantile,
    fit_noise,
)


def find_documents(store: kvstore.Store, question: str, using: str = "hybrid", **options: float) -> list[str]:
    return [hit.document for hit in store.retrieve(question, using=using, top=50, options=options).hits]


def list_steps(store: kvstore.Store, question: str) -> dict[str, str]:
    return {step.name: step.detail for step in store.retrieve(question, using="adaptive").steps}


def test_consecutive_words_of_the_question_count_if_they_are_adjacent(store: kvstore.Store) -> None:
    store.put("apart", "The lock of the harbour is old; nobody who came from the sea ever saw a spare key.")
    store.put("together", "The spare lock key is old; nobody who came from the sea ever saw the harbour of.")
    for number in range(30):
        store.put(f"other{number}", f"Nothing of the kind is here, only day {number} on the quay.")
    # One finds them with the words in order, the other only near each other.
    assert find_documents(store, "lock key", words=1)[:2] == ["together", "apart"]
    scores = {hit.document: hit.score for hit in store.retrieve("spare lock key", using="hybrid").hits}
    without_bonuses = store.retrieve(
        "spare lock key", using="hybrid", options={"nearness": 0, "headings": 0, "entries": 0}
    )
    even = {hit.document: hit.score for hit in without_bonuses.hits}
    assert scores["together"] / scores["apart"] > even["together"] / even["apart"]


def test_the_search_that_separates_its_best_hits_counts_more(store: kvstore.Store) -> None:
    for number in range(40):
        store.put(f"tide{number}", f"The tide of the sea comes to the quay on day {number}.")
    store.put("keel", "The keel of a sloop was laid on the quay.")

    def compute_share(question: str, similar_question: str, **options: float) -> int:
        vector = store.embedder.embed_query(similar_question)
        evidence = store.retrieve(question, using="hybrid", options=options, vector=vector)
        detail = next(step.detail for step in evidence.steps if step.name == "combine scores")
        return int(detail.partition("% BM25")[0].rpartition(" ")[2])

    keel, tide = "Was the keel of a sloop laid here?", "When does the tide of the sea come to the quay?"
    assert compute_share(keel, tide) > 50 > compute_share(tide, keel)
    assert (compute_share(keel, keel, words=0), compute_share(keel, keel, words=1)) == (0, 100)


class UnknowingEmbedder:
    """An embedder that knows few words: its vectors are nearly alike and differ by a digest of the text.

    ``known_share`` is the part of a vector that comes from the hashing embedder, which knows words.
    """

    name, dimension, poor = "unknowing", 256, False
    description = "an embedder that does not know the language"

    def __init__(self, known_share: float) -> None:
        from kvstore.models.embedder import open_embedder

        self._known_share = known_share
        self._words = open_embedder("hashing")

    def embed(self, texts: Sequence[str]) -> Any:
        return np.stack([self.embed_query(text) for text in texts])

    def embed_query(self, text: str) -> Any:
        seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")
        vector = np.ones(256) + np.random.default_rng(seed).exponential(0.3, 256)
        unknown = (1 - self._known_share) * vector / np.linalg.norm(vector)
        vector = unknown + self._known_share * self._words.embed_query(text)
        return (vector / np.linalg.norm(vector)).astype(np.float32)


@pytest.mark.slow
@pytest.mark.parametrize("known_share", [0.0, 0.8])
def test_dense_search_has_no_weight_if_the_embedder_does_not_know_the_language(
    make_store: Callable[..., kvstore.Store], monkeypatch: pytest.MonkeyPatch, known_share: float
) -> None:
    chooser = random.Random(1)
    syllables = [consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in "aeiou"]
    words = sorted({"".join(chooser.choices(syllables, k=3)) for _ in range(400)})
    texts = {f"text{number}": chooser.sample(words, 40) for number in range(150)}
    store = make_store(embedder=UnknowingEmbedder(known_share))
    with store.transaction() as transaction:
        for key, text in texts.items():
            transaction.put(key, " ".join(text) + ".")
    weights = Weights(nearness=0)  # the words are in no order
    monkeypatch.setattr(adaptive_strategy, "combine_searches", partial(combine_searches, weights=weights))
    num_correct = {"adaptive": 0, "hybrid": 0, "lexical": 0}
    weightless = 0
    for key, text in texts.items():
        question = " ".join([*chooser.sample(text, 3), *chooser.sample(words, 3)])
        for strategy in num_correct:
            options = {"nearness": 0} if strategy == "hybrid" else {}
            evidence = store.retrieve(question, using=strategy, top=1, options=options)
            num_correct[strategy] += evidence.hits[0].document == key
            if strategy == "adaptive":
                detail = next(step.detail for step in evidence.steps if step.name == "combine scores")
                weightless += (
                    "chunks with the question's words are hardly nearer to the question than other chunks" in detail
                )
    if known_share:
        assert weightless <= 0.05 * len(texts)
    else:
        assert num_correct["adaptive"] == num_correct["hybrid"] == num_correct["lexical"] > 0.4 * len(texts)
        assert weightless >= 0.9 * len(texts)


def test_how_well_cosines_separate_chunks_depends_on_no_order_and_on_no_offset_of_the_embedder() -> None:
    numbers = np.random.default_rng(1)
    cosines, lexical = numbers.normal(0.3, 0.05, 200), numbers.random(200) ** 8
    noise = fit_noise(sorted(cosines.tolist(), reverse=True)[:100], 200)
    unrelated = compute_dense_reliability(cosines, lexical, noise)
    related = compute_dense_reliability(cosines + 0.015 * lexical, lexical, noise)
    assert unrelated < 0.1 < related < 1
    for _ in range(20):
        order = numbers.permutation(200)
        assert compute_dense_reliability(cosines[order], lexical[order], noise) == unrelated
        assert compute_dense_reliability((cosines + 0.015 * lexical)[order], lexical[order], noise) == related
    moved = noise._replace(mean=noise.mean / 2, deviation=noise.deviation / 2)
    assert compute_dense_reliability(cosines / 2, lexical, moved) == pytest.approx(unrelated)
    # A ranking by words that is flat, or has nothing, judges no other.
    assert compute_dense_reliability(cosines, np.ones(200), noise) > 0.75
    assert compute_dense_reliability(cosines, np.zeros(200), noise) == 1
    assert compute_dense_reliability(cosines, lexical, fit_noise([0.3, 0.2], 2)) == 1


def test_headings_of_a_chunk_count_in_addition_to_its_words(store: kvstore.Store) -> None:
    parts = ["# Guide", "## Moving tables", "One statement does all of it, at once.", "## Other"]
    parts += ["Tables may be moving, or not."]
    store.put("guide", "\n\n".join(parts), format="markdown")
    hits = store.retrieve("moving tables", using="hybrid", options={"nearness": 0, "headings": 2, "entries": 0}).hits
    assert hits[0].heading == "Guide > Moving tables"


def test_the_entry_of_a_thing_ranks_above_those_that_mention_it(store: kvstore.Store) -> None:
    options = ["# Options of serve", "- `--quiet`: Say nothing.", "- `--reload`: Begin again when a file changes."]
    store.put("options", "\n\n".join(options), format="markdown")
    store.put("changes", "# Changes\n\n## Version 2\n\n- New things begin again with --reload.", format="markdown")
    store.put("manual", "OPTIONS\n       -p, --port\n              The port of the server, see --host.")
    store.put("news", "There may be another --port now.")
    for number in range(30):
        store.put(f"other{number}", f"Nothing of the kind is here, only day {number} on the quay.")
    for question, entry, mention in (("--reload", "options", "changes"), ("--port", "manual", "news")):
        assert find_documents(store, question, entries=0)[:2] == [mention, entry]
        assert find_documents(store, question)[:2] == [entry, mention]
    assert find_documents(store, "Is there anything on version 2?")[0] == "changes"


@pytest.mark.parametrize("middle", [-0.1, 0.0, 0.7])
def test_the_cosine_of_a_chunk_that_has_nothing_to_do_with_a_question_is_reckoned_from_the_best(middle: float) -> None:
    normal, among = NormalDist(middle, 0.05), 10_000
    best = [normal.inv_cdf(1 - place / (among + 1)) for place in range(1, 101)]
    assert fit_noise(best, among) == pytest.approx((middle, 0.05, 20), abs=1e-9)
    assert fit_noise(best[:3], 3) == fit_noise([], 0) == (0, 0, 0)


def test_normal_quantiles_are_those_of_the_standard_library() -> None:
    normal = NormalDist()
    for count in (2, 13, 100, 6119, 1_000_000_000):
        for rank in {1, 2, count // 40 or 1, count // 13 or 1, count // 2}:
            probability = 1 - rank / (count + 1)
            assert compute_normal_quantile(probability) == normal.inv_cdf(probability)
            assert compute_normal_quantile(1 - probability) == normal.inv_cdf(1 - probability)


@pytest.fixture
def films(store: kvstore.Store) -> kvstore.Store:
    """Fill a store with a chain over two films, and with many chunks more similar to the question than its end."""
    with store.transaction() as transaction:
        transaction.put("harbour", "Blue Harbour is a film directed by Nora Quill.", title="Blue Harbour")
        transaction.put("quill", "Nora Quill was born in Tolland.", title="Nora Quill")
        for number in range(40):
            transaction.put(f"film{number}", f"Movie {number} is a film; its director was born in a town.")
            transaction.put(f"guide{number}", f"The User Guide, part {number}, tells of the town.", title="User Guide")
    return store


def test_a_specific_name_leads_if_nothing_resembles_the_question(films: kvstore.Store) -> None:
    question = "Where was the director of Blue Harbour born?"
    assert find_documents(films, question, "hybrid").index("quill") > 5
    assert set(find_documents(films, question, "adaptive")[:2]) == {"harbour", "quill"}
    hit = next(hit for hit in films.retrieve(question, using="adaptive").hits if hit.document == "quill")
    assert "nora quill" in hit.path
    reason = list_steps(films, question)["weigh walk"]
    assert "blue harbour is in about 1 of 82 chunks" in reason
    assert "of the question is not names" in reason
    assert "the best chunk covers" in reason


@pytest.mark.parametrize(
    ("question", "reason"),
    [
        ("Which director was born in a town?", "no name to start at"),
        ("What does the User Guide tell of the town?", "user guide is in about 40 of 82 chunks"),
        ("Can you explain Blue Harbour?", "0% of the question is not names (0 words)"),
        ("What town is meant by Blue Harbour?", "of the question is not names (1 word);"),
        ("Is Blue Harbour a film directed by Nora Quill?", "the best chunk covers 100% of the question"),
    ],
)
def test_a_walk_without_information_is_ignored(films: kvstore.Store, question: str, reason: str) -> None:
    steps = list_steps(films, question)
    assert reason in steps["weigh walk"]
    assert "personalized PageRank" not in steps
    assert find_documents(films, question, "adaptive") == find_documents(films, question, "hybrid")


def test_names_in_very_many_passages_stay_in_the_question(films: kvstore.Store) -> None:
    steps = list_steps(films, "What does the User Guide say of the director of Blue Harbour?")
    assert steps["decompose question"] == "asks 'What does the User Guide say of the director of ?'"
    compared = list_steps(films, "Is the User Guide or Blue Harbour older?")
    assert compared["decompose question"].startswith("compares user guide, blue harbour")


def test_lower_case_names_of_a_question_count_if_they_have_several_words(films: kvstore.Store) -> None:
    assert "blue harbour" in list_steps(films, "where was the director of blue harbour born?")["weigh walk"]
    assert "no name" in list_steps(films, "where is tolland?")["weigh walk"]


def test_the_weight_of_a_walk_is_an_option(films: kvstore.Store) -> None:
    question = "Where was the director of Blue Harbour born?"
    assert find_documents(films, question, "adaptive", walk=0) == find_documents(films, question, "hybrid")
    assert films.retrieve(question).strategy == "adaptive"


def test_two_names_that_are_compared_are_two_ends_of_a_chain(films: kvstore.Store) -> None:
    films.put("pier", "Green Pier is a film directed by Ada Stone.", title="Green Pier")
    steps = list_steps(films, "Whose town is it, Blue Harbour or Green Pier?")
    assert "(1 word); it compares names" in steps["weigh walk"]
    assert "personalized PageRank" in steps


def test_a_name_is_as_common_as_its_words_together(films: kvstore.Store) -> None:
    for number in range(80):
        films.put(f"design{number}", f"In session {number} they spoke of design that is industrial, and of the town.")
    films.put("team", "The team of Industrial Design met the mayor of the town.")
    question = "Why did the director disagree with Industrial Design when they spoke of the town?"
    steps = list_steps(films, question)
    assert "industrial design is in about 9 of 163 chunks" in steps["weigh walk"]  # the root of 1 and 81
    assert find_documents(films, question, "adaptive") == find_documents(films, question, "hybrid")


def test_the_chunk_most_similar_to_a_question_keeps_its_rank_next_to_a_walk(films: kvstore.Store) -> None:
    for number in range(12):
        films.put(f"quill{number}", f"Nora Quill directs a play; a director was born, part {number}.")
    films.put("canyon", "Somewhere in the lower desert is the deep canyon, in which the third of them was.")
    question = "In which deep canyon of the lower desert was the director of Blue Harbour born?"
    assert find_documents(films, question, "hybrid")[0] == "canyon"
    assert find_documents(films, question, "adaptive", walk=1000)[:3] == ["harbour", "canyon", "quill"]

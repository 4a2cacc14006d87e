"""BM25 over blocks of postings: what is passed over changes no answer, and how often a term occurs is always known."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis_profile import num_examples

from kvstore import Store
from kvstore.errors import CorruptionError
from kvstore.retrieval import lexical_search
from kvstore.retrieval.lexical_search import TermWeights, compute_bm25_scores, compute_term_rarity, find_best_by_words
from kvstore.storage.environment import Environment
from kvstore.storage.records import seal
from kvstore.structures import tables
from kvstore.structures.documents.allowed import AllowedDocuments
from kvstore.structures.postings import MAX_BLOCK_POSTINGS, Postings, PostingWriter, TermSize, encode_term
from kvstore_cext.word_scores import WordScores

Texts = dict[int, dict[str, int]]
#: Terms and in how many of 100 chunks each is.
SHARES = {"rare": 1, "some": 8, "many": 45, "all": 97}


def make_texts(seed: int, count: int) -> Texts:
    """Return the terms of chunks in groups of five; chunks of similar topics are adjacent, as in a store."""
    draw = random.Random(seed)
    texts: Texts = {}
    for group in range(1, count // 2):
        boost = 6 if group // 40 % 5 == seed % 5 else 1
        for chunk in range(5 * group, 5 * group + draw.randint(1, 4)):
            terms = {term: min(300, int(draw.paretovariate(1.3))) for term, share in SHARES.items()
                     if draw.random() * 100 < share * (boost if share < 20 else 1)}  # fmt: skip
            texts[chunk] = {**terms, "filler": draw.choice([5, 30, 90, 400])}
    return texts


@contextmanager
def open_postings(path: Path, texts: Texts, removed: set[int]) -> Iterator[Any]:
    """Yield a state that only has the postings of some chunks; the postings of `removed` were removed again."""
    with Environment.open(path) as environment:
        with environment.write() as view:
            writer = PostingWriter(view)
            for chunk, terms in texts.items():
                writer.add(chunk, terms, sum(terms.values()))
            writer.flush()
            for chunk in sorted(removed):
                writer.remove(chunk, texts[chunk])
            writer.flush()
            view.commit()
        with environment.snapshot() as snapshot:
            yield SimpleNamespace(postings=Postings(snapshot))


def test_a_term_asked_for_is_written_and_no_other(tmp_path: Path) -> None:
    """Other collected changes wait, to be written together with later ones."""
    with Environment.open(tmp_path / "store") as environment, environment.write() as view:
        writer = PostingWriter(view)
        for chunk in range(5, 905, 5):
            writer.add(chunk, {"tea": 1, "milk": 2, "cup": 1}, 9)
        writer.flush()
        stored = dict(view.scan(tables.POSTINGS))
        writer.remove(700, ["tea", "milk", "cup"])
        writer.add(905, {"tea": 3, "jug": 1}, 4)
        assert writer.get_sizes(["tea", "nothing"]) == [TermSize(180, 1), TermSize(0, 0)]
        now = dict(view.scan(tables.POSTINGS))
        assert {key[:-9] for key in now if now[key] != stored.get(key)} == {b"tea"}
        assert 700 not in writer.get("milk").chunks.tolist()
        writer.remove(5, ["tea"])
        writer.add(910, {"tea": 1, "cup": 1}, 2)
        writer.flush()
        assert writer.get("tea").chunks.tolist() == [*range(10, 700, 5), *range(705, 915, 5)]
        assert writer.get("cup").chunks.tolist() == [*range(5, 700, 5), *range(705, 905, 5), 910]
        assert writer.find_chunks_by_prefix("ju").tolist() == [905]
        assert writer.get_sizes(["tea", "milk", "cup", "jug"]) == [TermSize(n, 1) for n in (180, 179, 180, 1)]


def compute_scores(texts: Texts, weights: TermWeights) -> dict[int, float]:
    """Return the BM25 score of each chunk that has any of the terms."""
    scores = {}
    for chunk, terms in texts.items():
        if not terms.keys().isdisjoint(weights.rarities):
            length = min(65535, sum(terms.values()))
            norm = weights.k1 * (1 - weights.b + weights.b * length / weights.average_length)
            scores[chunk] = 0.0  # no sum(): since Python 3.12, it rounds once
            for term, rarity in sorted(weights.rarities.items(), key=lambda item: -item[1]):
                if term in terms:
                    scores[chunk] += rarity * min(255, terms[term]) * (weights.k1 + 1) / (min(255, terms[term]) + norm)
    return scores


@settings(max_examples=num_examples(25), deadline=None)
@given(
    seed=st.integers(0, 1000),
    count=st.sampled_from([10, 300, 2500]),
    terms=st.sets(st.sampled_from([*SHARES, "filler", "absent"]), min_size=1),
    top=st.integers(1, 40) | st.just(5000),
    share=st.sampled_from([None, 0.0, 0.01, 0.5]),
    parameters=st.sampled_from([(1.2, 0.75), (0.0, 0.0), (10.0, 1.0), (2.0, 0.0)]),
    long=st.sampled_from([0, 1, 512]),
    taken_out=st.sampled_from([0.0, 0.3, 0.9]),
)
def test_the_best_are_those_of_a_plain_evaluation(
    tmp_path_factory: pytest.TempPathFactory,
    seed: int,
    count: int,
    terms: set[str],
    top: int,
    share: float | None,
    parameters: tuple[float, float],
    long: int,
    taken_out: float,
) -> None:
    texts = make_texts(seed, count)
    draw = random.Random(seed)
    removed = {chunk for chunk in texts if draw.random() < taken_out}
    remaining = {chunk: texts[chunk] for chunk in texts if chunk not in removed}
    lengths = [sum(terms_of_chunk.values()) for terms_of_chunk in remaining.values()]
    holding = Counter(term for terms_of_chunk in remaining.values() for term in terms_of_chunk)
    rarities = {term: compute_term_rarity(len(remaining), holding[term]) for term in sorted(terms) if holding[term]}
    weights = TermWeights(rarities, sum(lengths) / max(1, len(lengths)), *parameters)
    groups = sorted({chunk // 5 for chunk in remaining})
    allowed = None
    if share is not None:
        some = np.array([group for group in groups if draw.random() < share], np.uint64)
        allowed = AllowedDocuments(some, some, np.ones(len(some), np.uint64), len(some))
    expected = compute_scores(remaining, weights)
    may = {chunk: score for chunk, score in expected.items() if allowed is None or allowed.is_chunk_allowed(chunk)}
    least = sorted(may.values(), reverse=True)[:top][-1] if may else 0.0
    with (
        open_postings(tmp_path_factory.mktemp("words") / "store", texts, removed) as state,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(lexical_search, "_MAX_WHOLE_BLOCKS", long)
        assert state.postings.count_chunks_by_term(list(SHARES)) == {term: holding[term] for term in SHARES}
        chunks, scores = find_best_by_words(state, weights, top, allowed)
        assert dict(zip(chunks.tolist(), scores.tolist(), strict=True)) == {
            chunk: score for chunk, score in may.items() if score >= least
        }
        assert chunks.tolist() == sorted(chunks.tolist())
        candidates = np.array(draw.sample(sorted(texts), min(30, len(texts))), np.uint64)
        assert compute_bm25_scores(state, weights, candidates).tolist() == [
            expected.get(chunk, 0.0) for chunk in candidates.tolist()
        ]
        known_terms = [term for term in terms if term != "absent"]
        assert state.postings.find_chunks_with_terms(known_terms).tolist() == [
            chunk
            for chunk, terms_of_chunk in sorted(remaining.items())
            if known_terms and terms_of_chunk.keys() >= set(known_terms)
        ]
        assert not len(state.postings.find_chunks_with_terms([*terms, "absent"]))


def test_blocks_that_cannot_be_among_the_best_are_not_read(tmp_path: Path) -> None:
    texts = {
        5 * number: {"common": 1, "filler": 50, **({"rare": 1} if number % 3000 == 7 else {})}
        for number in range(1, 9000)
    }
    rarities = {"common": compute_term_rarity(9000, 8999), "rare": compute_term_rarity(9000, 3)}
    with open_postings(tmp_path / "store", texts, set()) as state:
        search = WordScores(1.2, 0.75, 51.0, 2)
        common, rare = state.postings.get_blocks("common"), state.postings.get_blocks("rare")
        assert len(common) == 8999 // MAX_BLOCK_POSTINGS + 1
        damaged = [(key, memoryview(bytes(value[:-1]) + b"?")) for key, value in common]
        bound = search.compute_bound(rarities["common"], damaged)  # the first bytes of a block say it
        search.add_term(rarities["rare"], rare, search.compute_bound(rarities["rare"], rare), bound)
        candidates = np.frombuffer(search.list_chunks(), np.uint64)
        (size,) = state.postings.get_sizes(["common"])
        needed = {block[0] for block in state.postings.get_candidate_blocks("common", candidates, size)}
        assert len(needed) == 3
        with pytest.raises(ValueError, match="fails its checksum"):
            search.add_term(rarities["common"], damaged, bound, 0.0)
        search = WordScores(1.2, 0.75, 51.0, 2)
        search.add_term(rarities["rare"], rare, search.compute_bound(rarities["rare"], rare), bound)
        search.add_term(
            rarities["common"],
            [whole if whole[0] in needed else broken for whole, broken in zip(common, damaged, strict=True)],
            bound,
            0.0,
        )
        chunks, scores = search.select_best()
        assert np.frombuffer(chunks, np.uint64).tolist() == [chunk for chunk, terms in texts.items() if "rare" in terms]
        assert len(set(np.frombuffer(scores).tolist())) == 1


def test_blocks_of_chunks_that_may_not_answer_are_not_read(tmp_path: Path) -> None:
    texts = {5 * number: {"common": 1 + number % 3} for number in range(1, 9000)}
    groups = np.zeros(4000, np.uint8)
    groups[3000:3100] = 1
    with open_postings(tmp_path / "store", texts, set()) as state:
        blocks = state.postings.get_blocks("common")
        read = [(key, value) for key, value in blocks if 5 * 2700 < int.from_bytes(key[-8:], "big") < 5 * 3100]
        broken = [block if block in read else (block[0], memoryview(b"?")) for block in blocks]
        search = WordScores(1.2, 0.75, 2.0, 1000, groups)
        search.add_term(1.0, broken, search.compute_term_bound(1.0), 0.0)
        assert len(read) == 2
        assert np.frombuffer(search.select_best()[0], np.uint64).tolist() == list(range(15000, 15500, 5))


def test_wrong_bounds_of_a_block_are_reported(tmp_path: Path) -> None:
    with open_postings(tmp_path / "store", {chunk: {"tea": 1} for chunk in range(5, 90)}, set()) as state:
        ((key, value),) = state.postings.get_blocks("tea")
        for place, message in ((2, "fail their check"), (1, "fail their check|truncated")):
            broken = bytearray(value)
            broken[place] ^= 3
            with pytest.raises(ValueError, match=message):
                WordScores(1.2, 0.75, 9.0, 5).compute_bound(1.0, [(key, memoryview(broken))])


@pytest.fixture
def counted_store(make_store: Callable[..., Store]) -> Store:
    """Return a store in which one term has two blocks of postings."""
    store = make_store()
    with store.transaction() as transaction:
        for number in range(MAX_BLOCK_POSTINGS + 40):
            transaction.put(f"page {number}", f"The otter number{number} swims.")
    return store


def test_term_counts_are_stored_in_the_commit(counted_store: Store) -> None:
    store = counted_store

    def read_counts() -> tuple[int, int, dict[bytes, TermSize]]:
        with store.state() as state:
            counts = state.postings.count_chunks_by_term(["otter", "number7"])
            return counts["otter"], counts["number7"], dict(state.postings.scan_sizes())

    sizes = dict.fromkeys((b"otter", b"swim", b"the"), TermSize(MAX_BLOCK_POSTINGS + 40, 2))
    assert read_counts() == (MAX_BLOCK_POSTINGS + 40, 1, sizes)
    store.put("page 3", "The heron swims.")
    assert read_counts() == (MAX_BLOCK_POSTINGS + 39, 1, {**sizes, b"otter": TermSize(MAX_BLOCK_POSTINGS + 39, 2)})
    with store.transaction() as transaction:
        for number in range(MAX_BLOCK_POSTINGS, MAX_BLOCK_POSTINGS + 40):
            transaction.delete(f"page {number}")
    sizes = dict.fromkeys((b"swim", b"the"), TermSize(MAX_BLOCK_POSTINGS, 2))
    assert read_counts() == (MAX_BLOCK_POSTINGS - 1, 1, sizes)


def test_a_wrong_count_is_found_and_repaired(counted_store: Store) -> None:
    store = counted_store
    before = [hit.document for hit in store.search("otter number7", using="lexical")]
    with store._session.environment.write() as view:
        view.delete(tables.TERM_COUNTS, encode_term("otter"))
        view.put(tables.TERM_COUNTS, encode_term("swim"), seal(b"\x92\x01\x02"))
        view.commit()
    problems = [problem for problem in store.check() if "counts" in problem]
    assert problems == ["term b'swim' has wrong counts: 1 postings in 2 blocks", "term b'otter' has no counts"]
    store.repair()
    assert store.check() == []
    assert [hit.document for hit in store.search("otter number7", using="lexical")] == before


def test_a_damaged_block_is_reported_by_a_search(counted_store: Store) -> None:
    store = counted_store
    with store._session.environment.write() as view:
        key, value = view.scan_prefixes(tables.POSTINGS, [encode_term("otter")])[0]
        original = bytes(value)
        view.put(tables.POSTINGS, key, original[:-1] + bytes([original[-1] ^ 1]))
        view.commit()
    with pytest.raises(CorruptionError, match=r"postings.*checksum.*run CHECK"):
        store.search("otter", using="lexical")
    store.repair()
    assert store.search("otter", using="lexical")

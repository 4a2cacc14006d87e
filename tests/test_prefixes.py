"""The first k hits are the same for every TOP of k or more."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from theme_texts import THEMES, write_theme_documents, write_theme_text

import kvstore
from kvstore.registry import STRATEGIES

#: Requested numbers of hits: below, at and above the numbers of candidates that strategies score.
TOPS = (1, 2, 3, 5, 7, 8, 13, 20, 21, 40, 60, 100, 101, 150, 250, 400)
WORDS = ["year", "people", "pages", "joined", "seen together", "written", "remember", "unknown"]
QUESTIONS = st.tuples(
    st.lists(st.sampled_from([name for names in THEMES.values() for name in names]), max_size=3),
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=3),
).map(lambda parts: f"What of {' and '.join(parts[0])}: {' '.join(parts[1])}?")


@pytest.fixture(scope="module")
def themed_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kvstore.Store]:
    """Yield a store of short and a few long texts with trees of names and every index: about 330 chunks."""
    path = tmp_path_factory.mktemp("prefixes") / "store"
    with kvstore.open(path, embedder="hashing", settings={"chunk_tokens": 40}) as store:
        with store.transaction() as transaction:
            for key, text in write_theme_documents(30).items():
                transaction.put(key, text)
            for theme, names in THEMES.items():
                long_text = "\n\n".join(write_theme_text(theme, number) for number in range(20))
                transaction.put(f"long-{theme}", long_text)
                for name in names[1:]:
                    transaction.put_edge(name, names[0], tree=theme)
        for kind in ("units", "communities", "topics"):
            store.create_index(kind, {"least": 2} if kind == "communities" else None)
        yield store


def list_hits(store: kvstore.Store, question: str, strategy: str, top: int, **clauses: Any) -> list[Any]:
    return store.retrieve(question, using=strategy, top=top, **clauses).hits


@pytest.mark.parametrize("strategy", sorted(STRATEGIES))
@given(question=QUESTIONS, tops=st.tuples(st.sampled_from(TOPS), st.sampled_from(TOPS)))
def test_fewer_hits_are_the_first_of_more(
    themed_store: kvstore.Store, strategy: str, question: str, tops: tuple[int, int]
) -> None:
    fewer, more = (list_hits(themed_store, question, strategy, top) for top in sorted(tops))
    assert fewer == more[: len(fewer)]
    if strategy != "sprag":  # its hits consist of several chunks
        assert len(fewer) == min(tops) or fewer == more
    assert [hit.score for hit in more] == sorted((hit.score for hit in more), reverse=True)


CLAUSES: tuple[dict[str, Any], ...] = (
    {"as_segments": True},
    {"options": {"reranker": "combination"}},
    {"options": {"fill": "hybrid"}},
    {"within": 400},
    {"within": 400, "as_segments": True},
    {"where": "key LIKE 'long-%'"},
    {"depth": 3},
)


@pytest.mark.parametrize("clauses", CLAUSES, ids=repr)
@given(question=QUESTIONS, strategy=st.sampled_from(sorted(STRATEGIES)), tops=st.tuples(*[st.sampled_from(TOPS)] * 2))
def test_clauses_keep_the_first_hits(
    themed_store: kvstore.Store, clauses: dict[str, Any], question: str, strategy: str, tops: tuple[int, int]
) -> None:
    if strategy == "global" and "within" in clauses:
        return  # its reports divide the tokens among them
    fewer, more = (list_hits(themed_store, question, strategy, top, **clauses) for top in sorted(tops))
    assert fewer == more[: len(fewer)]


@pytest.mark.parametrize("mode", ["collapsed", "traversal", "leaves"])
@given(question=QUESTIONS, tops=st.tuples(st.sampled_from(TOPS), st.sampled_from(TOPS)))
def test_trees_keep_the_first_hits(
    themed_store: kvstore.Store, mode: str, question: str, tops: tuple[int, int]
) -> None:
    fewer, more = (list_hits(themed_store, question, "raptor", top, options={"mode": mode}) for top in sorted(tops))
    assert fewer == more[: len(fewer)]


def test_a_summary_has_the_length_of_its_hits(themed_store: kvstore.Store) -> None:
    short, long = (list_hits(themed_store, "Summarize all of this.", "raptor", top) for top in (2, 20))
    assert sum(len(hit.text) for hit in short) < sum(len(hit.text) for hit in long)

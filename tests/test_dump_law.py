"""The dump law: what a store holds depends on its documents alone, never on the order or history in which they came."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

import kvstore
from kvstore.storage.dump import dump

# Few words, so that names recur, contain each other, come and go, and stand in titles, headings and text.
WORDS = [
    "Ada",
    "Lovelace",
    "Ada Lovelace",
    "Bank",
    "of",
    "the",
    "engine",
    "Engine",
    "pg_dump",
    "C++",
    "foreign key",
    "Keys",
    "ß",
    "Ålesund",
]
sentence = st.lists(st.sampled_from(WORDS), min_size=1, max_size=8).map(lambda words: " ".join(words) + ".")
heading = st.lists(st.sampled_from(WORDS), min_size=1, max_size=2).map(lambda words: "## " + " ".join(words))
block = st.one_of(sentence, heading, st.lists(sentence, min_size=2, max_size=12).map(" ".join))
markdown = st.lists(block, min_size=1, max_size=8).map("\n\n".join)
pairs = st.lists(st.tuples(st.sampled_from(WORDS), st.sampled_from(WORDS)), min_size=1, max_size=6).map(
    lambda rows: "\n".join(f"{child},{parent}" for child, parent in rows)
)
document = st.one_of(
    st.fixed_dictionaries(
        {"text": markdown, "format": st.sampled_from(["markdown", "text"])},
        optional={"title": st.sampled_from(WORDS), "meta": st.just({"year": 1843})},
    ),
    st.fixed_dictionaries({"text": pairs, "format": st.just("pairs")}, optional={"meta": st.just({"tree": "t"})}),
)
KEYS = ["a", "b", "c", "d"]
step = st.one_of(
    st.tuples(st.just("put"), st.sampled_from(KEYS), document),
    st.tuples(st.just("delete"), st.sampled_from(KEYS), st.none()),
)
# Some steps share a transaction, and a transaction may read in the middle or be rolled back.
transactions = st.lists(
    st.tuples(st.lists(step, min_size=1, max_size=5), st.sampled_from(["commit", "commit", "read", "rollback"])),
    min_size=1,
    max_size=8,
)


@settings(max_examples=60, deadline=None)
@given(transactions)
def test_any_history_gives_the_dump_of_a_fresh_store(history: list) -> None:
    model: dict[str, dict] = {}
    with tempfile.TemporaryDirectory() as folder:
        with kvstore.open(Path(folder) / "lived", embedder="hashing:16") as lived:
            for steps, outcome in history:
                after = dict(model)
                transaction = lived.transaction()
                for action, key, value in steps:
                    if action == "put":
                        assert transaction.put(key, **value) == (after.get(key) != value)
                        after[key] = value
                    else:
                        assert transaction.delete(key) == (after.pop(key, None) is not None)
                    if outcome == "read":
                        assert transaction.keys() == sorted(after)
                if outcome == "rollback":
                    transaction.rollback()
                else:
                    transaction.commit()
                    model = after
            assert lived.check() == []
            with lived.snapshot() as snapshot:
                found = dump(snapshot.view)
        with kvstore.open(Path(folder) / "fresh", embedder="hashing:16") as fresh:
            for key in sorted(model, reverse=True):
                fresh.put(key, **model[key])
            assert fresh.check() == []
            with fresh.snapshot() as snapshot:
                expected = dump(snapshot.view)
    for table in expected:
        assert found[table] == expected[table], table

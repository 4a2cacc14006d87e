"""Units: what they are, what SELECT says of them, and what strategies read."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

import kvstore
from kvstore.extraction.syntax import iter_sentences
from kvstore.models.language import Parse, open_language
from kvstore.storage.environment import WriteTransaction
from kvstore.structures.derived_parts import get_vector_space
from kvstore.structures.vectors.vectors import VectorWriter, compute_block_shape
from kvstore.systems.cue.clauses import find_clauses
from kvstore.systems.cue.unit_derivation import UNIT_DERIVATION
from kvstore.systems.cue.units import UNITS, Units

TEXT = """# Life

Robert Fortune brought *tea* to Darjeeling. He was born in [Kelloe](kelloe.md) in 1812. Yes.

- Tea plants grow in Assam
- ok

| Place | Tea |
|---|---|
| New York | black |

```
pg_dump Assam
```
"""


@pytest.fixture
def store(make_store: Callable[..., kvstore.Store]) -> kvstore.Store:
    store = make_store()
    store.create_index("units")
    store.put("fortune", TEXT, title="Robert Fortune (botanist)", format="markdown")
    store.put("york", "York is a town. New York is another town. In york it rains.")
    store.put("short", "Yes.")
    store.put("pairs", "Tug,Ship", format="pairs")
    return store


def test_units_are_sentences_items_and_rows(store: kvstore.Store) -> None:
    rows = store.execute("SELECT ordinal, heading, source, text FROM units WHERE document = 'fortune'").fetchall()
    assert rows == [
        (0, "Life", "rule", "Robert Fortune brought tea to Darjeeling."),
        (1, "Life", "rule", "He was born in Kelloe in 1812."),
        (2, "Life", "rule", "Tea plants grow in Assam"),
        (3, "Life", "rule", "New York, black"),
    ]
    (row,) = store.execute("SELECT start, \"end\", chunk FROM units WHERE text LIKE 'He was%'").fetchall()
    assert TEXT[row[0] : row[1]] == "He was born in [Kelloe](kelloe.md) in 1812."
    assert store.execute("SELECT text FROM units WHERE chunk = ? AND ordinal = 2", (row[2],)).fetchall() == [
        ("Tea plants grow in Assam",)
    ]
    assert store.execute("SELECT text FROM units WHERE document = 'short'").fetchall() == [("Yes.",)], "never none"
    assert store.execute("SELECT count(*) FROM units WHERE document = 'pairs'").fetchall() == [(0,)]
    store.drop_index("units")
    assert store.execute("SELECT count(*) FROM units, unit_mentions").fetchall() == [(0,)]


def test_units_mention_the_names_in_their_text_or_title(store: kvstore.Store) -> None:
    query = "SELECT ordinal, entity FROM unit_mentions WHERE document = ? ORDER BY 1, 2"
    assert store.execute(query, ("york",)).fetchall() == [(0, "York"), (1, "New York")]
    of_fortune = store.execute(query, ("fortune",)).fetchall()
    assert {entity for ordinal, entity in of_fortune if ordinal == 2} == {
        "Assam", "tea", "Robert Fortune", "Robert Fortune (botanist)"
    }  # fmt: skip
    units = store.execute("SELECT document, ordinal FROM unit_mentions WHERE entity = 'New York' ORDER BY 1").fetchall()
    assert units == [("fortune", 3), ("york", 1)]


def test_the_embedded_text_contains_the_headings_of_a_sentence(
    make_store: Callable[..., kvstore.Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = make_store()
    store.create_index("units")
    embedded: list[str] = []
    embed = store._session.store.embedder.embed
    monkeypatch.setattr(store._session.store.embedder, "embed", lambda texts: embedded.extend(texts) or embed(texts))
    store.put("fortune", TEXT, title="Fortune", format="markdown")
    assert embedded[1:3] == [
        "Fortune. Life. Robert Fortune brought tea to Darjeeling.", "Fortune. Life. He was born in Kelloe in 1812."
    ]  # fmt: skip


def read_units(store: kvstore.Store, read: Callable[[Units], object]) -> object:
    with store.state() as state:
        return read(state.get_part(UNITS))


def test_a_strategy_reads_them(store: kvstore.Store) -> None:
    with store.state() as state:
        units = state.get_part(UNITS)
        assert (units.is_present, units.is_complete, units.count) == (True, True, 8)
        vector = store.embed(["In york it rains."])[0]
        ids, cosines = units.find_nearest(vector, 3)
        assert units.list_texts(ids.tolist())[0] == "In york it rains."
        assert cosines[0] == pytest.approx(1, abs=1e-3) and (np.diff(cosines) <= 0).all()
        assert units.get_vectors(ids.tolist()) @ vector == pytest.approx(cosines, abs=1e-5)
        chunks = [unit.chunk for unit in units.get(ids.tolist())]
        within, _ = units.find_nearest(vector, 2, chunks=[chunks[0]])
        assert {unit.chunk for unit in units.get(within.tolist())} == {chunks[0]}
        (of_chunk,) = units.list_chunk_units([chunks[0]])
        assert [unit.ordinal for unit in of_chunk] == [0, 1, 2]
        york = state.filter.find("york")
        assert york is not None
        assert units.list_texts(units.list_entity_units(york.entity, [chunks[0]])) == ["York is a town."]
    store.drop_index("units")
    assert read_units(store, lambda units: (units.is_present, units.is_complete, units.count)) == (False, False, 0)


def test_equal_scores_are_ordered_by_key_for_any_history(make_store: Callable[..., kvstore.Store]) -> None:
    stores = [make_store("one"), make_store("other")]
    for store, keys in zip(stores, ("abc", "cab"), strict=True):
        store.create_index("units")
        for key in keys:
            store.put(key, "The same two sentences. The same two sentences.")
        vector = store.embed(["The same two sentences."])[0]

        def list_places(
            units: Units, vector: np.ndarray = vector, store: kvstore.Store = store
        ) -> list[tuple[str, int]]:
            nearest = units.get(units.find_nearest(vector, 3)[0].tolist())
            return [(str(store.execute("SELECT document FROM chunks WHERE id = ?", (unit.chunk,)).fetchall()[0][0]),
                     unit.ordinal) for unit in nearest]  # fmt: skip

        assert read_units(store, list_places) == [("a", 0), ("a", 1), ("b", 0)]


def test_a_unit_takes_less_than_500_bytes(make_store: Callable[..., kvstore.Store]) -> None:
    size, rows = compute_block_shape(384, quantized=True)
    assert (size, rows) == (4 * 4096 - 16, 41) and size / rows < 400
    store = make_store()
    sentences = " ".join(f"The ship {number} sails to port {number * 7}." for number in range(200))
    with store.transaction() as transaction:
        for number in range(20):
            transaction.put(f"d{number}", sentences)
    store.create_index("units")
    store._session.environment.write_with_growth(WriteTransaction.merge_buffer)
    with store.state() as state:
        tables = state.lmdb.get_table_statistics()  # type: ignore[attr-defined]
        units = state.get_part(UNITS).count
        unit_tables = [tables[name] for name in ("units_parts", "units_vectors", "units_vector_space")]
        pages = sum(
            table["psize"] * sum(table[k] for k in ("branch_pages", "leaf_pages", "overflow_pages"))
            for table in unit_tables
        )
    assert units == 4000
    per_block = compute_block_shape(store.settings.dimension, quantized=True)
    vector = (per_block[0] + 16) / per_block[1]
    assert pages / units - vector < 40, "its place, and where its vector stands"


def test_a_vector_that_is_stored_again_is_the_same(store: kvstore.Store) -> None:
    random = np.random.default_rng(5)
    rows = random.normal(size=(300, store.settings.dimension)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    rows[7] = 0
    rows[8] = np.eye(1, store.settings.dimension, 3)
    with store._session.environment.write() as view:
        view.clear("units_vectors")
        view.clear("units_vector_space")
        writer = VectorWriter(view, store.settings.dimension, get_vector_space(UNIT_DERIVATION))
        places, block = [], 1
        for number, row in enumerate(rows):
            places.append(writer.add(number, row, block))
            block = max(block, places[-1][0] + 1)
        stored = writer.gather(places)
        again = [writer.add(1000 + number, row, block + number) for number, row in enumerate(stored)]
        assert writer.gather(again).tobytes() == stored.tobytes()
        view.abort()
    lengths = np.linalg.norm(stored, axis=1)
    assert lengths[7] == 0 and np.delete(lengths, 7) == pytest.approx(1, abs=1e-6)
    assert (np.delete(stored * rows, 7, 0).sum(axis=1) > 0.9995).all()


def test_units_of_a_model_replace_the_sentences_of_their_chunk(store: kvstore.Store, tmp_path: Path) -> None:
    path = tmp_path / "units.jsonl"
    path.write_text(json.dumps({"id": "fortune", "units": ["Robert Fortune went to Assam for the tea plants."]}) + "\n")
    store.ingest(path, format="units")
    rows = "SELECT ordinal, source, text, end > start FROM units WHERE document = 'fortune'"
    expected = [(0, "given", "Robert Fortune went to Assam for the tea plants.", 1)]
    assert store.execute(rows.replace("end >", '"end" >')).fetchall() == expected
    entities = store.execute("SELECT entity FROM unit_mentions WHERE document = 'fortune' ORDER BY 1").fetchall()
    assert {"Assam", "Robert Fortune"} <= {entity for (entity,) in entities}
    assert store.check() == []
    with store.state() as state:
        units = state.get_part(UNITS)
        ids, cosines = units.find_nearest(store.embed(["Robert Fortune went to Assam for tea plants"])[0], 1)
        assert (
            units.list_texts(ids.tolist()) == ["Robert Fortune went to Assam for the tea plants."] and cosines[0] > 0.5
        )
    store.update("fortune", title="Fortune")
    (source,) = set(store.execute("SELECT source FROM units WHERE document = 'fortune'").fetchall())
    assert source == ("rule",), "what a model wrote under another title is not of this one"
    store.delete("fortune")
    with store.state() as state:
        assert state.lmdb.count("unit_texts") == 0


def test_clauses_of_a_sentence_are_units_on_request(make_store: Callable[..., kvstore.Store]) -> None:
    store = make_store(settings={"language": "en"})
    store.create_index("units", {"clauses": 1})
    store.put("a", "Robert Fortune was born in Kelloe and died in London in 1880. He was a *fine* man and he knew it.")
    rows = store.execute('SELECT ordinal, start, "end", text FROM units').fetchall()
    assert rows == [
        (0, 0, 33, "Robert Fortune was born in Kelloe"),
        (1, 38, 61, "Robert Fortune died in London in 1880."),
        (2, 62, 97, "He was a fine man and he knew it."),
    ]
    mentions = store.execute("SELECT ordinal, entity FROM unit_mentions ORDER BY 1, 2").fetchall()
    assert mentions == [(0, "Kelloe"), (0, "Robert Fortune"), (1, "London"), (1, "Robert Fortune")]
    assert store.check() == []


CLAUSES = {
    "He founded the company, which was sold in 1990, and his brother ran the bank.": [
        "He founded the company, which was sold in 1990",
        "his brother ran the bank.",
        "the company | was sold in 1990",
    ],
    "Ada Lovelace, who wrote the first program, was the daughter of Byron.": [
        "Ada Lovelace, who wrote the first program, was the daughter of Byron.",
        "Ada Lovelace | wrote the first program",
    ],
    "Alan Turing studied at Cambridge, worked at Bletchley Park and was awarded the OBE.": [
        "Alan Turing studied at Cambridge",
        "Alan Turing | worked at Bletchley Park",
        "Alan Turing | was awarded the OBE.",
    ],
    "He likes tea and coffee.": ["He likes tea and coffee."],
    "The town that he founded lies in Kent.": ["The town that he founded lies in Kent."],
}


@pytest.mark.parametrize(("sentence", "clauses"), CLAUSES.items())
def test_self_contained_clauses(sentence: str, clauses: list[str]) -> None:
    pipeline = open_language("en")
    assert pipeline is not None

    def list_clauses(text: str, parses: Sequence[Parse]) -> list[str]:
        clauses = [
            clause for parse in parses for sentence in iter_sentences(parse.doc) for clause in find_clauses(sentence)
        ]
        subjects = [f"{text[slice(*clause.subject)]} | " if clause.subject else "" for clause in clauses]
        return [subject + text[c.start : c.end] for subject, c in zip(subjects, clauses, strict=True)]

    assert list(pipeline.parse_texts([sentence], list_clauses)) == [clauses]


def test_a_chunk_of_one_unit_keeps_its_exact_vector(make_store: Callable[..., kvstore.Store]) -> None:
    store, fresh = make_store(), make_store("fresh")
    store.create_index("units")
    text = "Robert Fortune brought tea to Darjeeling."
    for store_to_fill in (store, fresh):
        store_to_fill.put("a", text)
        store_to_fill.put("b", text, title="Another")

    def read_vectors(store: kvstore.Store) -> list[bytes]:
        with store.state() as state:
            return [state.read_vectors(state.documents.get(number)).tobytes() for number in sorted(
                record.id for record in state.documents.scan())]  # fmt: skip

    before = read_vectors(store)
    assert before == read_vectors(fresh), "what is stored of a unit is less exact, and serves no chunk"
    store.update("a", meta={"year": 1850})
    store.put("b", text, title="A third")
    store.put("b", text, title="Another")
    with store._session.environment.write() as view:
        view.clear("vector_space")
    store.repair()
    assert sorted(read_vectors(store)) == sorted(before)

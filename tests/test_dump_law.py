"""The dump law: what a store holds depends on its documents, triples, edges and aliases alone, never on their history.

What was exported and imported is one history more.
"""

from __future__ import annotations

import tempfile
from copy import deepcopy
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis_profile import num_examples

import kvstore
from kvstore.changes import facts
from kvstore.changes.dump import dump
from kvstore.errors import DocumentNotFoundError, EntityNotFoundError, InputError
from kvstore.registry.written_passages import ModelTexts, PassageTexts
from kvstore.structures.documents import documents as document_storage
from kvstore.structures.forest.forest import StatedEdge
from kvstore.structures.names.aliases import Alias
from kvstore.systems.cue.written_units import WRITTEN_UNITS
from kvstore.text.normalize import to_entity_key

# Few words, so that names recur, contain each other, and occur in titles, headings and text.
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
# What the parse reads as relations, the same ones from several documents, so that they hold while any of them says so.
statement = st.sampled_from(
    [
        "Ada is an engine.",
        "The engine contains a key.",
        "Engines such as Ada and Lovelace need keys.",
        "The bank of Lovelace belongs to Ada.",
        "The key is not part of the bank.",
        "- Ada\n  - Lovelace\n  - engine",
        "- engine\n  - Ada",
    ]
)
block = st.one_of(sentence, statement, heading, st.lists(sentence, min_size=2, max_size=12).map(" ".join))
markdown = st.lists(block, min_size=1, max_size=8).map("\n\n".join)
pairs = st.lists(st.tuples(st.sampled_from(WORDS), st.sampled_from(WORDS)), min_size=1, max_size=6).map(
    lambda rows: "\n".join(f"{child},{parent}" for child, parent in rows)
)
document = st.one_of(
    st.fixed_dictionaries(
        {"text": markdown, "format": st.sampled_from(["markdown", "text"])},
        optional={
            "title": st.sampled_from([*WORDS, "Ada (engine)", "Lovelace (Bank)"]),
            "meta": st.just({"year": 1843}),
        },
    ),
    st.fixed_dictionaries({"text": pairs, "format": st.just("pairs")}, optional={"meta": st.just({"tree": "t"})}),
)
KEYS = ["a", "b", "c", "d"]
# Names as a user types them, in other spellings too, and one that only edges and aliases bring. They are few, so that
# statements meet: an edge that a document states too, aliases in chains, in circles (refused), several of one entity.
stated_name = st.sampled_from(["Ada", "Lovelace", "ada  LOVELACE", "engine", "Countess"])
tree = st.sampled_from(["t", "edges"])
# Triples of names that texts have, and of some that only triples bring.
phrase = st.sampled_from(["Ada", "ada  lovelace", "engine", "of", "Countess", "Bank of", "first programmer (1843)"])
triples = st.lists(st.tuples(phrase, st.sampled_from(["knew", "is"]), phrase), max_size=4)
# A change of metadata that leaves everything derived as it is, unless it names a language or a tree.
metadata_change = st.fixed_dictionaries(
    {
        "meta": st.sampled_from(
            [{"year": 1843}, {"year": [1, "two"]}, {"b": {"c": "Ada"}}, {"lang": "de"}, {"tree": "t"}]
        )
    }
)
change = st.one_of(
    metadata_change,
    st.fixed_dictionaries({"title": st.sampled_from([*WORDS, "Ada (engine)"])}),
)
step = st.one_of(
    st.tuples(st.just("put"), st.sampled_from(KEYS), document),
    st.tuples(st.just("put"), st.sampled_from(KEYS), document),
    st.tuples(st.just("update"), st.sampled_from(KEYS), change),
    st.tuples(st.just("update"), st.sampled_from(KEYS), metadata_change),
    st.tuples(st.just("delete"), st.sampled_from(KEYS)),
    st.tuples(st.just("put_triples"), st.sampled_from(KEYS), triples, st.lists(phrase, max_size=2)),
    st.tuples(st.just("write"), st.sampled_from(KEYS), st.lists(sentence, max_size=2)),
    st.tuples(st.sampled_from(["put_edge", "delete_edge"]), stated_name, stated_name, tree),
    st.tuples(st.sampled_from(["put_edge", "delete_edge"]), stated_name, st.just("Lovelace"), st.just("t")),
    st.tuples(st.just("alias"), stated_name, stated_name),
    st.tuples(st.just("merge"), stated_name, stated_name),
    st.tuples(st.just("drop_alias"), stated_name),
    st.tuples(st.sampled_from(["alias", "merge"]), stated_name, st.just("Lovelace")),
    st.tuples(st.sampled_from(["drop_alias", "unmerge"]), stated_name),
)
# With it in the store, most names that an alias may stand for are known from the start.
FIRST = {"text": "# Ada\n\n## Lovelace\n\n## Engine\n\nAda Lovelace saw the engine.", "format": "markdown"}
# Some steps share a transaction, and a transaction may read in the middle or be rolled back.
transactions = st.lists(
    st.tuples(st.lists(step, min_size=1, max_size=6), st.sampled_from(["commit", "commit", "read", "rollback"])),
    min_size=1,
    max_size=10,
)


class Model:
    """The expected content of a store: the documents, edges and aliases that survive a history."""

    def __init__(self) -> None:
        self.documents: dict[str, dict] = {}
        self.triples: dict[str, tuple[list, list]] = {}
        self.written: dict[str, ModelTexts] = {}
        self.edges: dict[tuple[str, str, str], StatedEdge] = {}
        self.aliases: dict[str, Alias] = {}

    def apply_step(self, transaction: kvstore.Transaction, action: str, *values: Any) -> None:
        """Carry out one step on the model and in the transaction, and compare the return value of the transaction."""
        if action == "put":
            key, value = values
            previous = self.documents.get(key)
            assert transaction.put(key, **value) == (previous != value)
            self.documents[key] = value
            if previous is None or previous["text"] != value["text"] or value["format"] == "pairs":
                self.triples.pop(key, None)
            self._remove_stale_units(transaction, key)
        elif action == "update":
            key, changes = values
            if key not in self.documents:
                with pytest.raises(DocumentNotFoundError):
                    transaction.update(key, **changes)
            else:
                changed_document = {**self.documents[key], **changes}
                assert transaction.update(key, **changes) == (self.documents[key] != changed_document)
                self.documents[key] = changed_document
                self._remove_stale_units(transaction, key)
        elif action == "write":
            self._write_units(transaction, *values)
        elif action == "put_triples":
            self._put_triples(transaction, *values)
        elif action == "delete":
            self.triples.pop(*values, None)
            self.written.pop(*values, None)
            assert transaction.delete(*values) == (self.documents.pop(*values, None) is not None)
        elif action in ("put_edge", "delete_edge"):
            self._change_edge(transaction, action, *values)
        elif action in ("alias", "merge"):
            alias, canonical = (" ".join(form.split()) for form in values)
            self._add_alias(transaction, Alias(alias, canonical, action))
        else:
            self._remove_alias(transaction, action, *values)

    def _put_triples(self, transaction: kvstore.Transaction, key: str, triples: list, names: list) -> None:
        if key not in self.documents:
            with pytest.raises(DocumentNotFoundError):
                transaction.put_triples(key, triples, names=names)
        elif self.documents[key]["format"] == "pairs":
            with pytest.raises(InputError, match="consists of pairs"):
                transaction.put_triples(key, triples, names=names)
        else:
            transaction.put_triples(key, triples, names=names)
            assert not transaction.put_triples(key, triples, names=names)
            self.triples.pop(key, None)
            if triples or names:
                self.triples[key] = (triples, names)

    def _write_units(self, transaction: kvstore.Transaction, key: str, texts: list) -> None:
        """Write units of every passage of a document but the last."""
        if key in self.documents and self.documents[key]["format"] != "pairs":
            passages = WRITTEN_UNITS.list_passages(transaction._changes._find_chunked_text(key))[:-1]
            value = ModelTexts({passage.digest: PassageTexts("m", tuple(texts)) for passage in passages})
            transaction._put_fact(WRITTEN_UNITS, key, value)
            assert not transaction._put_fact(WRITTEN_UNITS, key, value)
            previous = self.written.get(key, ModelTexts())
            self.written[key] = ModelTexts({**previous.by_digest, **value.by_digest})

    def _remove_stale_units(self, transaction: kvstore.Transaction, key: str) -> None:
        """Remove texts that were written about passages that a document no longer has."""
        if key in self.written:
            pairs = self.documents[key]["format"] == "pairs"
            digests = (
                set()
                if pairs
                else {
                    passage.digest
                    for passage in WRITTEN_UNITS.list_passages(transaction._changes._find_chunked_text(key))
                }
            )
            passages = {digest: entry for digest, entry in self.written[key].by_digest.items() if digest in digests}
            self.written[key] = ModelTexts(passages)

    def _change_edge(self, transaction: kvstore.Transaction, action: str, child: str, parent: str, tree: str) -> None:
        edge = StatedEdge(" ".join(child.split()), " ".join(parent.split()), tree)
        stated = edge.key in self.edges
        if edge.key[1] == edge.key[2]:
            with pytest.raises(InputError, match="its own parent"):
                getattr(transaction, action)(child, parent, tree=tree)
        elif action == "put_edge":
            assert transaction.put_edge(child, parent, tree=tree) == (not stated)
            self.edges.setdefault(edge.key, edge)
        elif not stated and edge.key in self._list_document_edges():
            with pytest.raises(InputError, match="change or delete the document"):
                transaction.delete_edge(child, parent, tree=tree)
        else:
            assert transaction.delete_edge(child, parent, tree=tree) == stated
            self.edges.pop(edge.key, None)

    def _list_document_edges(self) -> set[tuple[str, str, str]]:
        return {
            StatedEdge(*row.split(","), value.get("meta", {}).get("tree", key)).key  # type: ignore[call-arg]
            for key, value in self.documents.items()
            if value["format"] == "pairs"
            for row in value["text"].split("\n")
        }

    def _add_alias(self, transaction: kvstore.Transaction, alias: Alias) -> None:
        existing = self.aliases.get(alias.key)
        try:
            changed = getattr(transaction, alias.kind)(alias.name, alias.entity)
        except EntityNotFoundError:
            return
        except InputError:
            assert (existing is not None and existing.kind != alias.kind) or self._is_resolved_to(
                alias.target, alias.key
            )
            return
        assert changed == (existing is None or existing.target != alias.target)
        if changed:
            self.aliases[alias.key] = alias

    def _is_resolved_to(self, key: str, to: str) -> bool:
        while key != to and key in self.aliases:
            key = self.aliases[key].target
        return key == to

    def _remove_alias(self, transaction: kvstore.Transaction, action: str, name: str) -> None:
        kind = {"drop_alias": "alias", "unmerge": "merge"}[action]
        existing = self.aliases.get(to_entity_key(name))
        if existing is not None and existing.kind != kind:
            remedy = "undoes the merge" if existing.kind == "merge" else "removes the alias"
            with pytest.raises(InputError, match=remedy):
                getattr(transaction, action)(name)
        else:
            assert getattr(transaction, action)(name) == (existing is not None)
            self.aliases.pop(to_entity_key(name), None)


def dump_checked_store(store: kvstore.Store) -> dict[str, list]:
    assert store.check() == []
    with store.snapshot() as snapshot:
        return dump(snapshot._state)


@pytest.mark.slow
@settings(max_examples=num_examples(25), deadline=None)
@given(transactions)
def test_any_history_gives_the_dump_of_a_fresh_store(history: list) -> None:
    compare_history_with_fresh_store(history)


@pytest.mark.slow
@settings(max_examples=num_examples(100), deadline=None)
@given(transactions)
def test_a_hundred_histories_give_the_dump_of_a_fresh_store(history: list) -> None:
    compare_history_with_fresh_store(history)


def compare_history_with_fresh_store(history: list) -> None:
    """Run a history, and compare its dump with that of a fresh store and of an imported one."""
    model = Model()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with kvstore.open(folder / "lived", embedder="hashing:16", settings={"language": "en"}) as lived:
            for steps, outcome in [([("put", "a", FIRST)], "commit"), *history]:
                changed_model = deepcopy(model)
                transaction = lived.transaction()
                for step in steps:
                    changed_model.apply_step(transaction, *step)
                    if outcome == "read":
                        assert transaction.keys() == sorted(changed_model.documents)
                        assert transaction.aliases() == [alias for _, alias in sorted(changed_model.aliases.items())]
                if outcome == "rollback":
                    transaction.rollback()
                else:
                    transaction.commit()
                    model = changed_model
            dumped = dump_checked_store(lived)
            report = lived.export(folder / "lived.jsonl")
        written = {key: value for key, value in model.written.items() if value}
        stated = {"documents": model.documents, "triples": model.triples, "edges": model.edges}
        stated |= {"aliases": model.aliases, "written_units": written}
        assert {name: number for name, number in asdict(report).items() if number or name in stated} == {
            name: len(entries) for name, entries in stated.items()
        }
        with kvstore.open(folder / "fresh", embedder="hashing:16", settings={"language": "en"}) as fresh:
            for key in sorted(model.documents, reverse=True):
                fresh.put(key, **model.documents[key])
            for key, (triples, names) in model.triples.items():
                fresh.put_triples(key, triples, names=names)
            with fresh.transaction() as transaction:
                for key, value in written.items():
                    transaction._put_fact(WRITTEN_UNITS, key, value)
            for edge in model.edges.values():
                fresh.put_edge(edge.child, edge.parent, tree=edge.tree)
            with fresh.transaction() as transaction:
                for alias in model.aliases.values():
                    transaction._put_fact(facts.ALIASES, alias.key, alias)
            expected = dump_checked_store(fresh)
        with kvstore.open(folder / "imported", embedder="hashing:16", settings={"language": "en"}) as imported:
            imported.import_(folder / "lived.jsonl")
            copied = dump_checked_store(imported)
    for table in expected:
        assert dumped[table] == expected[table], table
        assert copied[table] == expected[table], table


def build_dumps_after_deletion(
    documents: list[dict], deleted: set[int], max_removed: int = 512
) -> list[dict[str, list]]:
    """Return the dumps of a store whose documents were deleted in one transaction, and of one that never had them."""
    dumps = []
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        patched.setattr(document_storage, "_MAX_READ_DOCUMENTS", max_removed)
        for name, numbers in (("lived", set(range(len(documents)))), ("fresh", set(range(len(documents))) - deleted)):
            with kvstore.open(Path(folder) / name, embedder="hashing:16", settings={"language": "rules"}) as store:
                with store.transaction() as transaction:
                    for number in sorted(numbers):
                        transaction.put(str(number), **documents[number])
                if name == "lived":
                    with store.transaction() as transaction:
                        assert transaction.delete_many([str(number) for number in deleted]) == len(deleted)
                dumps.append(dump_checked_store(store))
    return dumps


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(st.data(), st.integers(1, 3))
def test_deleting_many_documents_together_leaves_the_dump_of_a_fresh_store(
    data: st.DataObject, max_removed: int
) -> None:
    documents = data.draw(st.lists(document, min_size=2, max_size=8))
    lived, fresh = build_dumps_after_deletion(
        documents, data.draw(st.sets(st.sampled_from(range(len(documents))), min_size=1)), max_removed
    )
    assert lived == fresh


@pytest.mark.parametrize("title", ["Old Bank", "Bank", "Bank Street", "Engine"])
def test_a_deleted_name_disappears_from_texts_that_do_not_introduce_it(title: str) -> None:
    """Alone, around another name that stays, inside one, and beside one that it shares a word with."""
    titles = ["Old Bank", "Bank", "Bank Street", "Engine"]
    documents = [{"text": "It is shut.", "title": name} for name in titles]
    documents += [
        {"text": "Here Old Bank is shut, here Bank Street, here Engine."},
        {"text": "# Here Old Bank is, and Bank Street\n\nHere.", "format": "markdown"},
    ]
    lived, fresh = build_dumps_after_deletion(documents, {titles.index(title)})
    assert lived == fresh
    assert len(fresh["passage_entities"]) > 4

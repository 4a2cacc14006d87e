"""Draw random entities or relations of documents, each with its contexts, for a person to judge.

    python tools/sample_entities.py PATH ... [--relations] [--count 200] [--seed 1] [--language en]

The documents are ingested into a new store (with meaningless vectors, because names and relations do not depend on
them). The sample depends only on the documents and the seed. A judge marks each line ``+`` or ``-`` by the rubric
below, which was fixed before anything was drawn; precision is the share of ``+``. The documents should be of several
kinds, and the rules must not have been developed with them. If there are fewer than ``--count``, all are drawn.

An **entity** is good (``+``) if a reader of the documents may look it up, because it is

1. a complete proper name: a person, place, organization, work, product, event, standard, language;
2. an identifier as written in the document: a command, option, parameter, function, file, type, variable, message;
3. a term: a noun phrase (or a noun that is not an everyday word, or one that the documents explain) for one of their
   subjects, as the index of a book lists it;
4. a complete title of a document, or a complete heading that says what its section is about.

It is bad (``-``) if it is an everyday word or a phrase of such words that names no subject (*done*, *first step*,
*other users*); a part of a name, cut at a bracket, a hyphen or a connecting word, or a name joined with adjacent words;
a fragment of code, a value, a number, markup; navigation or a word that any text contains (*Next*, *Note*,
*Introduction*); a verb, an adjective or a clause that is not a title; a word of another language that is not a name.
In doubt it is bad.

A **relation** is good if its text states that the child *is* one of the parent, is part of it, belongs to it, depends
on it, is in it, or is the "X of" it, as its kind says; if both names are complete and have the same meaning outside the
sentence; and if it says something about either (not that a number is one of something). In doubt it is bad.
"""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import click

import kvstore

#: The number of bytes shown before and after a mention.
_NUM_CONTEXT_BYTES = 60
#: The number of mentions shown per entity.
_NUM_MENTIONS = 2
#: The length at which the sentence that states a relation is cut off.
_MAX_SENTENCE_CHARACTERS = 300


@click.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--relations", is_flag=True, help="Draw relations found in prose, not entities.")
@click.option("--count", default=200, show_default=True, help="Number of entities or relations to draw.")
@click.option("--seed", default=1, show_default=True, help="Seed of the sample.")
@click.option("--language", default="en", show_default=True, help="Language setting of the store.")
def main(paths: tuple[Path, ...], relations: bool, count: int, seed: int, language: str) -> None:
    """Print a random sample of the entities (or relations) of documents, each with its first locations."""
    with (
        tempfile.TemporaryDirectory() as scratch,
        kvstore.open(Path(scratch) / "store", embedder="hashing:16", settings={"language": language}) as store,
    ):
        report = store.ingest(list(paths))
        figures = store.statistics()
        print(
            f"# {report.documents} documents, {figures['chunks']} chunks, {figures['entities']} entities, "
            f"{figures['introductions'] / figures['chunks']:.2f} introductions a chunk, seed {seed}"
        )
        items = format_relations(store) if relations else list_entities(store)
        indexes = sorted(random.Random(seed).sample(range(len(items)), min(count, len(items))))
        print(f"# {len(indexes)} drawn of {len(items)}")
        for line_number, index in enumerate(indexes, 1):
            print(f"{line_number:4} {items[index] if relations else format_entity(store, items[index])}")


def list_entities(store: kvstore.Store) -> list[str]:
    """Return the names of all entities, in order of their normal forms."""
    return [row[0] for row in store.execute("SELECT name FROM entities ORDER BY key")]


def format_entity(store: kvstore.Store, name: str) -> str:
    """Return a name with its kind, its number of mentions, and the text around its first mentions."""
    kind, num_mentions = next(iter(store.execute("SELECT kind, mentions FROM entities WHERE name = ?", [name])))
    lines = [f"[{name}]  {kind}, {num_mentions} mentions"]
    rows = store.execute('SELECT document, start, "end" FROM mentions WHERE entity = ? LIMIT ?', [name, _NUM_MENTIONS])
    for key, start, end in rows.fetchall():
        document = store.get(key)
        assert document is not None
        text = document.text.encode()
        before = text[max(0, start - _NUM_CONTEXT_BYTES) : start].decode(errors="ignore")
        after = text[end : end + _NUM_CONTEXT_BYTES].decode(errors="ignore")
        lines.append(f"       {key}: " + " ".join(f"…{before}«{text[start:end].decode()}»{after}…".split()))
    return "\n".join(lines)


def format_relations(store: kvstore.Store) -> list[str]:
    """Return a text for each relation found in prose: names, kind, confidence, and the sentence that states it."""
    rows = store.execute(
        'SELECT child, parent, kind, confidence, document, start, "end" FROM edges WHERE tree = ? '
        "ORDER BY child, parent, kind, document",
        ["relations"],
    )
    lines = []
    for child, parent, kind, confidence, key, start, end in rows.fetchall():
        document = store.get(key)
        assert document is not None
        sentence = " ".join(document.text.encode()[start:end].decode().split())
        lines.append(
            f"[{child}] {kind} [{parent}]  {confidence:.2f}\n       {key}: {sentence[:_MAX_SENTENCE_CHARACTERS]}"
        )
    return lines


if __name__ == "__main__":
    main()

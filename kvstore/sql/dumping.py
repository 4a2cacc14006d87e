"""What a store's content follows from, as statements of the language.

In: one state of a store. Out: a script that, run on a new store of the same settings, makes the same documents, edges
and aliases. What no statement can say is told: vectors of the user's own and imported triples (EXPORT keeps them), and
names that stand for an entity that is gone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from ..structures.names.aliases import Alias
from ..structures.state import State
from .literals import literal


def statements(view: State) -> Iterator[str]:
    """The statements, one a line unless a text has more; those of comments begin with ``--``."""
    yield f"-- embedder {view.settings.embedder}"
    yield "BEGIN;"
    for key in list(view.documents.keys()):
        yield _document(view, key)
    edges = [edge for _, _, edge in view.forest.stated_edges()]
    for edge in sorted(edges, key=lambda edge: edge.key):
        yield f"INSERT EDGE {literal(edge.child)} UNDER {literal(edge.parent)} IN TREE {literal(edge.tree)};"
    yield from _aliases(view)
    yield "COMMIT;"


def _document(view: State, key: str) -> str:
    document = view.documents.find(key)
    assert document is not None  # the view has just named it
    text = view.documents.text(document.id).decode()
    clauses = f" AS {document.format}" if document.format != "text" else ""
    for word, value in (("SOURCE", document.source), ("TITLE", document.title)):
        clauses += "" if value is None else f" {word} {literal(value)}"
    meta = f" META {literal(json.dumps(document.meta, ensure_ascii=False))}" if document.meta else ""
    return f"INSERT DOCUMENT {literal(key)}{clauses} TEXT {literal(text)}{meta};"


def _aliases(view: State) -> Iterator[str]:
    """An alias after those that make its entity known."""
    left = {alias.key: alias for _, alias in view.aliases.scan() if _can_be_said(view, alias)}
    while left:
        for key, alias in list(left.items()):
            if alias.target not in left:
                del left[key]
                verb = "ALIAS {} FOR {};" if alias.kind == "alias" else "MERGE ENTITY {} INTO {};"
                yield verb.format(literal(alias.name), literal(alias.entity))


def _can_be_said(view: State, alias: Alias) -> bool:
    """Whether the names that the statement needs are known."""
    needed = (alias.target,) if alias.kind == "alias" else (alias.target, alias.key)
    return all(view.filter.find(key) is not None for key in needed)


def unsaid(view: State) -> Iterator[str]:
    """What the statements cannot say, one message each."""
    own = sum(1 for record in view.documents.scan() if record.own_vectors)
    if own:
        yield f"the vectors of {own:,} documents are their own, which no statement holds; EXPORT TO keeps them"
    extracted = sum(1 for _ in view.triples.scan())
    if extracted:
        yield f"the triples imported for {extracted:,} documents are in no statement; EXPORT TO keeps them"
    for _, alias in view.aliases.scan():
        if not _can_be_said(view, alias):
            names = f"{literal(alias.name)} stands for {literal(alias.entity)}"
            yield f"{names}, of which one is not known now; EXPORT TO keeps that"

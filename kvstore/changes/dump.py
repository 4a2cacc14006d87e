"""The logical dump: what a store holds, in names and ordinals only.

Two stores of the same documents, edges, aliases and settings have equal dumps, whatever their history (DESIGN.md, law
2). Internal ids, temperatures, times, vectors and approximate structures are left out.
"""

from __future__ import annotations

from typing import Any

from ..structures.indexes.generations import dump_generation
from ..structures.logical import Logical
from ..structures.state import State
from ..systems import list_generation_kinds, structures
from ..systems.kept_derivations import kept_derivations
from .facts import stated

DumpRows = list[tuple[Any, ...]]


def dump(view: State) -> dict[str, DumpRows]:
    """Everything in the store, as sorted rows by structure."""
    documents = {record.id: record for record in view.documents.scan()}
    logical = Logical(view, documents)
    filter_keys = dict(view.filter.keys())
    tables: dict[str, DumpRows] = {
        "documents": [
            (
                r.key,
                r.title,
                r.source,
                r.format,
                repr(sorted(r.meta.items())),
                r.digest,
                r.size,
                tuple(r.groups),
                r.left_out,
                repr(r.own_chunks),
            )
            for r in documents.values()
        ],
        "texts": [(r.key, view.documents.text(r.id)) for r in documents.values()],
        "outlines": [
            (r.key, index, s.level, s.title, s.parent, s.start, s.end, logical.abstract(s.abstract))
            for r in documents.values()
            for index, s in enumerate(view.documents.outline(r.id))
        ],
        "chunks": [
            (documents[c.document].key, c.ordinal, c.start, c.end, c.section, c.words) for _, c in view.chunks.scan()
        ],
        "abstracts": [
            (
                *logical.abstract(number),
                None if a.parent is None else logical.abstract(a.parent),
                a.level,
                logical.chunk(a.first_chunk),
                logical.chunk(a.last_chunk),
                tuple(logical.abstract(child) for child in a.children),
                view.abstracts.heading(a),
                tuple(map(tuple, a.summary)),
                view.abstracts.text(a),
            )
            for number, a in view.abstracts.scan()
        ],
        "entities": [
            (e.key, e.name, e.kind, tuple(sorted(e.forms.items())), tuple(sorted(e.kinds.items())))
            for _, e in view.entities.scan()
        ],
        "names": [(key, view.entities.get(entity).key) for key, entity in view.entities.names()],
        "introductions": [
            (r.key, view.entities.get(entity).key, form, kind)
            for r in documents.values()
            for entity, form, kind in view.entities.introduced(r.id)
        ],
        "mentions": [
            (*logical.chunk(chunk), logical.entity(entity), start, length)
            for chunk, rows in view.mentions.scan()
            for entity, start, length in rows
        ],
        "place_mentions": [
            (logical.entity(entity), rank, logical.abstract(abstract))
            for r in documents.values()
            for entity, rank, abstract in view.mentions.in_headings(r.id)
        ],
        "addresses": [
            (key, logical.address(number)) for key in filter_keys for number in view.filter.addresses(key).tolist()
        ],
        "postings": [
            (term, *logical.chunk(chunk), frequency, length)
            for term, block in view.postings.scan()
            for chunk, frequency, length in zip(*(column.tolist() for column in block), strict=True)
        ],
        "edges": [
            (logical.node(child), logical.node(parent), view.forest.verdict(child, parent))
            for child, parent in view.forest.edges()
        ],
        "statements": [
            (logical.node(child), logical.node(parent), logical.document(assertion.document), *assertion[1:])
            for child, parent in view.forest.edges()
            for assertion in view.forest.assertions(child, parent)
        ],
        "alias_members": [(target, tuple(names)) for target, names in view.aliases.members()],
        "nodes": [(logical.node(node),) for node, _ in view.forest.nodes()],
        "trees": [(name,) for _, name in view.forest.trees()],
    }
    for fact in stated():
        tables[fact.tables[0]] = [(key, *fact.line(key, value).values()) for key, value in fact.scan(view)]
    for structure in structures():
        rows_by_table = structure.dump(view.part(structure), logical)
        tables.update((name, list(rows)) for name, rows in rows_by_table.items())
    for kept_derivation in kept_derivations(view.lmdb):
        parts = view.derived_parts(kept_derivation.derivation).scan()
        tables[f"{kept_derivation.name}_parts"] = [
            (logical.document(document), derived_part.part) for document, derived_part in parts
        ]
    for kind in list_generation_kinds():
        tables.update((name, list(rows)) for name, rows in dump_generation(view, kind, logical).items())
    return {name: sorted(rows, key=repr) for name, rows in tables.items()}

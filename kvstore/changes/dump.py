"""The logical dump: the content of a store as rows, with names and ordinals in place of internal ids.

Two stores with the same documents, edges, aliases and settings have equal dumps, regardless of their history
(docs/design.md, law 2). Internal ids, temperatures, times, vectors and approximate structures are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..registry import list_generation_indexes, list_structures
from ..registry.derivation import list_maintained_derivations
from ..structures.documents.documents import DocumentRecord
from ..structures.indexes.generations import dump_generation
from ..structures.logical import LogicalNames
from ..structures.state import State
from .facts import list_stated_fact_kinds

DumpRows = list[tuple[Any, ...]]
DumpTables = dict[str, DumpRows]


def dump(state: State) -> DumpTables:
    """Return the store's content as sorted rows, by name of the table; names and ordinals replace ids."""
    documents = {record.id: record for record in state.documents.scan()}
    logical = LogicalNames(state, documents)
    tables = {
        **_dump_documents(state, documents, logical),
        **_dump_names(state, documents, logical),
        **_dump_forest(state, logical),
    }
    for fact in list_stated_fact_kinds():
        tables[fact.row_table] = [(key, *fact.to_line(key, value).values()) for key, value in fact.scan(state)]
    for structure in list_structures():
        rows_by_table = structure.dump(state.get_part(structure), logical)
        tables.update((name, list(rows)) for name, rows in rows_by_table.items())
    for stored_derivation in list_maintained_derivations(state.lmdb):
        parts = state.get_derived_parts(stored_derivation.derivation).scan()
        tables[f"{stored_derivation.name}_parts"] = [
            (logical.name_document(document), derived_part.part) for document, derived_part in parts
        ]
    for index in list_generation_indexes():
        tables.update((name, list(rows)) for name, rows in dump_generation(state, index, logical).items())
    # Rows can have values of several types in a column, which Python cannot compare.
    return {name: sorted(rows, key=repr) for name, rows in tables.items()}


def _dump_documents(state: State, documents: Mapping[int, DocumentRecord], logical: LogicalNames) -> DumpTables:
    """Return the rows of documents, their texts, outlines, chunks and abstracts, by name of the table.

    ``documents`` are all records by id, and ``logical`` replaces internal ids with names and ordinals.
    """
    return {
        "documents": [
            (
                record.key,
                record.title,
                record.source,
                record.format,
                repr(sorted(record.meta.items())),
                record.digest,
                record.size,
                tuple(record.groups),
                record.left_out,
                repr(record.own_chunks),
            )
            for record in documents.values()
        ],
        "texts": [(record.key, state.documents.read_text(record.id)) for record in documents.values()],
        "outlines": [
            (
                record.key,
                index,
                section.level,
                section.title,
                section.parent,
                section.start,
                section.end,
                logical.name_abstract(section.abstract),
            )
            for record in documents.values()
            for index, section in enumerate(state.documents.get_sections(record.id))
        ],
        "chunks": [
            (documents[chunk.document].key, chunk.ordinal, chunk.start, chunk.end, chunk.section, chunk.words)
            for _, chunk in state.chunks.scan()
        ],
        "abstracts": [
            (
                *logical.name_abstract(abstract),
                None if node.parent is None else logical.name_abstract(node.parent),
                node.level,
                logical.name_chunk(node.first_chunk),
                logical.name_chunk(node.last_chunk),
                tuple(logical.name_abstract(child) for child in node.children),
                state.abstracts.get_heading(node),
                tuple(map(tuple, node.summary)),
                state.abstracts.read_text(node),
            )
            for abstract, node in state.abstracts.scan()
        ],
    }


def _dump_names(state: State, documents: Mapping[int, DocumentRecord], logical: LogicalNames) -> DumpTables:
    """Return the rows of names, their introductions, mentions and addresses, and of postings, by name of the table.

    An introduction makes a name known, and an address is a place where it occurs. ``documents`` are all records by id,
    and ``logical`` replaces internal ids with names and ordinals.
    """
    filter_keys = [key for key, _ in state.filter.iter_entries()]
    return {
        "entities": [
            (
                entity.key,
                entity.name,
                entity.kind,
                tuple(sorted(entity.spellings.items())),
                tuple(sorted(entity.kinds.items())),
            )
            for _, entity in state.entities.scan()
        ],
        "names": [(key, state.entities.get(entity).key) for key, entity in state.entities.iter_names()],
        "introductions": [
            (record.key, state.entities.get(entity).key, spelling, kind)
            for record in documents.values()
            for entity, spelling, kind in state.entities.iter_introduced_names(record.id)
        ],
        "mentions": [
            (*logical.name_chunk(chunk), logical.name_entity(entity), start, length)
            for chunk, rows in state.mentions.scan()
            for entity, start, length in rows
        ],
        "place_mentions": [
            (logical.name_entity(entity), rank, logical.name_abstract(abstract))
            for record in documents.values()
            for entity, rank, abstract in state.mentions.get_heading_occurrences(record.id)
        ],
        "addresses": [
            (key, logical.name_address(address))
            for key in filter_keys
            for address in state.filter.get_addresses(key).tolist()
        ],
        "postings": [
            (term, *logical.name_chunk(chunk), frequency, length)
            for term, block in state.postings.scan()
            for chunk, frequency, length in zip(*(column.tolist() for column in block), strict=True)
        ],
    }


def _dump_forest(state: State, logical: LogicalNames) -> DumpTables:
    """Return the rows of edges, aliases, nodes and trees, and of the assertions of edges, by name of the table.

    ``logical`` replaces internal ids with names and ordinals.
    """
    return {
        "edges": [
            (logical.name_node(child), logical.name_node(parent), state.forest.get_edge_status(child, parent))
            for child, parent in state.forest.iter_edges()
        ],
        "statements": [
            (
                logical.name_node(child),
                logical.name_node(parent),
                logical.name_document(assertion.document),
                *assertion[1:],
            )
            for child, parent in state.forest.iter_edges()
            for assertion in state.forest.iter_assertions(child, parent)
        ],
        "alias_members": [(target, tuple(names)) for target, names in state.aliases.scan_direct_aliases()],
        "nodes": [(logical.name_node(node),) for node, _ in state.forest.iter_nodes()],
        "trees": [(name,) for _, name in state.forest.iter_trees()],
    }

"""The tables of a store: one LMDB named database each. FORMAT.md gives every key and value in bytes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Table:
    """A table: its name, and whether its records are small and scattered, so that they go through the change buffer."""

    name: str
    buffered: bool = False


META = "meta"
RECENT = "recent"
DOCUMENTS = "documents"
DOCUMENT_KEYS = "document_keys"
TEXTS = "texts"
OUTLINES = "outlines"
CHUNKS = "chunks"
ABSTRACTS = "abstracts"
ENTITIES = "entities"
ENTITY_NAMES = "entity_names"
INTRODUCTIONS = "introductions"
MENTIONS = "mentions"
PLACE_MENTIONS = "place_mentions"
POSTINGS = "postings"
VECTORS = "vectors"
VECTOR_SPACE = "vector_space"
TREES = "trees"
TREE_NAMES = "tree_names"
NODES = "nodes"
NODE_NAMES = "node_names"
EDGES_UP = "edges_up"
EDGES_DOWN = "edges_down"
REFUSED_UP = "refused_up"
REFUSED_DOWN = "refused_down"
LOOPED_EDGES = "looped_edges"
STATEMENTS = "statements"
DOCUMENT_EDGES = "document_edges"
STATED_EDGES = "stated_edges"
ALIASES = "aliases"
ALIAS_MEMBERS = "alias_members"
FILTER_DIRECTORY = "filter_directory"
BUCKET_PAGES = "bucket_pages"
BLOCK_PAGES = "block_pages"
ADDRESS_BLOCKS = "address_blocks"
PASSAGE_ENTITIES = "passage_entities"
ENTITY_PASSAGES = "entity_passages"
ENTITY_HEADS = "entity_heads"
ENTITY_LINKS = "entity_links"
TRIPLES = "triples"
INGESTED_FILES = "ingested_files"
INDEXES = "indexes"

#: The key in ``meta`` that a migration leaves while everything derived is still to be made from the documents.
REBUILD = b"rebuild"

ALL = (
    META,
    RECENT,  # before those that its records belong to: whoever empties them all need not read it
    DOCUMENTS,
    DOCUMENT_KEYS,
    TEXTS,
    OUTLINES,
    CHUNKS,
    ABSTRACTS,
    ENTITIES,
    ENTITY_NAMES,
    INTRODUCTIONS,
    MENTIONS,
    PLACE_MENTIONS,
    POSTINGS,
    VECTORS,
    VECTOR_SPACE,
    TREES,
    TREE_NAMES,
    NODES,
    NODE_NAMES,
    EDGES_UP,
    EDGES_DOWN,
    REFUSED_UP,
    REFUSED_DOWN,
    LOOPED_EDGES,
    STATEMENTS,
    DOCUMENT_EDGES,
    STATED_EDGES,
    ALIASES,
    ALIAS_MEMBERS,
    FILTER_DIRECTORY,
    BUCKET_PAGES,
    BLOCK_PAGES,
    ADDRESS_BLOCKS,
    PASSAGE_ENTITIES,
    ENTITY_PASSAGES,
    ENTITY_HEADS,
    ENTITY_LINKS,
    TRIPLES,
    INGESTED_FILES,
    INDEXES,
)

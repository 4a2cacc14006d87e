"""The tables of the spine: one LMDB named database each. FORMAT.md gives every key and value in bytes.

Those of the systems are in :func:`kvstore.systems.store_tables`.
"""

from __future__ import annotations

from ..storage.tables import META as META
from ..storage.tables import RECENT as RECENT
from ..storage.tables import Table

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
TRIPLES = "triples"
INGESTED_FILES = "ingested_files"
INDEXES = "indexes"

#: The key in ``meta`` that a migration leaves while everything derived is still to be made from the documents.
REBUILD = b"rebuild"

#: Every table of the spine.
SPINE = (
    Table(META),
    Table(RECENT),  # before those that its records belong to: whoever empties them all need not read it
    Table(DOCUMENTS),
    Table(DOCUMENT_KEYS),
    Table(TEXTS),
    Table(OUTLINES),
    Table(CHUNKS),
    Table(ABSTRACTS),
    Table(ENTITIES, buffered=True),
    Table(ENTITY_NAMES),
    Table(INTRODUCTIONS),
    Table(MENTIONS),
    Table(PLACE_MENTIONS),
    Table(POSTINGS, buffered=True),
    Table(VECTORS),
    Table(VECTOR_SPACE),
    Table(TREES),
    Table(TREE_NAMES),
    Table(NODES),
    Table(NODE_NAMES),
    Table(EDGES_UP),
    Table(EDGES_DOWN),
    Table(REFUSED_UP),
    Table(REFUSED_DOWN),
    Table(LOOPED_EDGES),
    Table(STATEMENTS),
    Table(DOCUMENT_EDGES),
    Table(STATED_EDGES),
    Table(ALIASES),
    Table(ALIAS_MEMBERS),
    Table(FILTER_DIRECTORY),
    Table(BUCKET_PAGES, buffered=True),
    Table(BLOCK_PAGES, buffered=True),
    Table(ADDRESS_BLOCKS, buffered=True),
    Table(TRIPLES),
    Table(INGESTED_FILES),
    Table(INDEXES),
)

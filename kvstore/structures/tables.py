"""The tables of the core structures, each a named LMDB database. FORMAT.md specifies every key and value in bytes.

The tables of the systems are listed by :func:`kvstore.registry.list_store_tables`.
"""

from __future__ import annotations

from ..storage.engine_tables import META as META
from ..storage.engine_tables import RECENT as RECENT
from ..storage.engine_tables import LmdbTable

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
PLACE_MENTIONS = "place_mentions"  # occurrences in titles and headings
POSTINGS = "postings"
TERM_COUNTS = "term_counts"
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
WRITTEN = "written"
#: The table of the triples that a language model wrote. A system defines it, but the structures read it too.
WRITTEN_TRIPLES = "triple_texts"

#: The key in ``meta`` of the settings that a store is created with.
SETTINGS_KEY = b"settings"

#: The key in ``meta`` that a migration sets until all derived data has been rebuilt from the documents.
REBUILD_KEY = b"rebuild"

#: Every table of the core structures.
CORE_TABLES = (
    LmdbTable(META, buffered=False),
    # RECENT precedes the tables its records belong to, so that clearing all tables in order does not read it.
    LmdbTable(RECENT, buffered=False),
    *map(LmdbTable, (DOCUMENTS, DOCUMENT_KEYS, TEXTS, OUTLINES, CHUNKS, ABSTRACTS)),
    *map(LmdbTable, (ENTITIES, ENTITY_NAMES, INTRODUCTIONS, MENTIONS, PLACE_MENTIONS)),
    *map(LmdbTable, (POSTINGS, TERM_COUNTS, VECTORS, VECTOR_SPACE)),
    *map(LmdbTable, (TREES, TREE_NAMES, NODES, NODE_NAMES)),
    *map(LmdbTable, (EDGES_UP, EDGES_DOWN, REFUSED_UP, REFUSED_DOWN, LOOPED_EDGES)),
    *map(LmdbTable, (STATEMENTS, DOCUMENT_EDGES, STATED_EDGES, ALIASES, ALIAS_MEMBERS)),
    *map(LmdbTable, (FILTER_DIRECTORY, BUCKET_PAGES, BLOCK_PAGES, ADDRESS_BLOCKS)),
    *map(LmdbTable, (TRIPLES, INGESTED_FILES, INDEXES, WRITTEN)),
)

"""The systems by name, and the modules that they lack; the check imports none of their libraries."""

from __future__ import annotations

from importlib import import_module

from .peer import Peer

#: The module and class of each system, in the order of the table.
_MODULES = {
    "kvstore": ("kvstore_peer", "Kvstore"),
    "chroma": ("chroma_peer", "Chroma"),
    "lancedb": ("lancedb_peer", "LanceDB"),
    "sqlite-vec": ("sqlite_vec_peer", "SqliteVec"),
    "duckdb": ("duckdb_peer", "DuckDB"),
    "txtai": ("txtai_peer", "Txtai"),
    "tantivy": ("tantivy_peer", "Tantivy"),
    "bm25s": ("bm25s_peer", "Bm25s"),
    "faiss": ("faiss_peer", "Faiss"),
    "numpy": ("numpy_peer", "Numpy"),
}
NAMES = tuple(_MODULES)
#: Distribution names that differ from the module's name.
_DISTRIBUTIONS = {"kvstore": "kvstore-db", "sqlite_vec": "sqlite-vec", "faiss": "faiss-cpu"}


def load_system(name: str) -> type[Peer]:
    """Return the class of a system."""
    module, class_name = _MODULES[name]
    peer_class: type[Peer] = getattr(import_module(f"peers.{module}"), class_name)
    return peer_class


def find_missing_modules(name: str) -> list[str]:
    """Return the modules that a system needs, but that are not installed."""
    from importlib.util import find_spec

    return [module for module in load_system(name).needs if find_spec(module) is None]


def get_version(name: str) -> str:
    """Return the installed version of a system's library."""
    from importlib import metadata

    module = load_system(name).needs[0]
    return metadata.version(_DISTRIBUTIONS.get(module, module))

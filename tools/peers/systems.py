"""The systems by name, and whether they are installed; nothing of theirs is imported to know that."""

from __future__ import annotations

from importlib import import_module

from .peer import Peer

#: Module and class of each, in the order of the table.
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
#: What a distribution is called whose module is called otherwise.
_DISTRIBUTIONS = {"sqlite_vec": "sqlite-vec", "faiss": "faiss-cpu"}


def system(name: str) -> type[Peer]:
    """The class of a system."""
    module, of_class = _MODULES[name]
    found: type[Peer] = getattr(import_module(f"peers.{module}"), of_class)
    return found


def missing(name: str) -> list[str]:
    """Modules that a system needs and that are not installed."""
    from importlib.util import find_spec

    return [module for module in system(name).needs if find_spec(module) is None]


def version(name: str) -> str:
    """The version of a system's library, as it is installed."""
    from importlib import metadata

    module = system(name).needs[0]
    return metadata.version(_DISTRIBUTIONS.get(module, module))

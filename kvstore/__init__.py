"""kvstore: an embedded knowledge store, SQLite for retrieval-augmented generation.

One directory on disk holds documents and everything retrieval needs from them; it is opened in-process and answers
with citations.

>>> import kvstore, tempfile
>>> with kvstore.open(tempfile.mkdtemp() + "/store", embedder="hashing") as store:
...     _ = store.put("tea", "Tea is made from the leaves of Camellia sinensis.", title="Tea")
...     store.ask("What is tea made from?").citations[0].document
'tea'
"""

from __future__ import annotations

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import errors
from .errors import KvstoreError

if TYPE_CHECKING:
    from .answer import Answer
    from .answering.citations import Citation
    from .answering.confidence import Confidence
    from .answering.prompt import Prompt
    from .exchange import ExportReport, ImportReport
    from .ingest.file_documents import Failure
    from .ingest.forecast import Forecast
    from .ingest.pipeline import IngestProgress, IngestReport
    from .opened import Snapshot
    from .opening import migrate_store as migrate
    from .opening import open_store as open
    from .query.cursor import Cursor
    from .query.descriptions import Column, Table
    from .reading import Document
    from .retrieval.evidence import Evidence, Hit, Location, Relative, Step
    from .storage.aliases import Alias
    from .storage.environment import CompactReport
    from .storage.index_building import IndexProgress
    from .storage.indexes import IndexStatus
    from .storage.triples import Triple
    from .store import Store
    from .transaction import Transaction

__version__ = "0.1.0"

__all__ = [
    "Alias",
    "Answer",
    "Citation",
    "Column",
    "CompactReport",
    "Confidence",
    "Cursor",
    "Document",
    "Evidence",
    "ExportReport",
    "Failure",
    "Forecast",
    "Hit",
    "ImportReport",
    "IndexProgress",
    "IndexStatus",
    "IngestProgress",
    "IngestReport",
    "KvstoreError",
    "Location",
    "Prompt",
    "Relative",
    "Snapshot",
    "Step",
    "Store",
    "Table",
    "Transaction",
    "Triple",
    "errors",
    "migrate",
    "open",
]

#: Where each public name lives: loaded when first used, so that importing kvstore costs next to nothing.
_HOMES = {
    "Alias": ("storage.aliases", "Alias"),
    "Triple": ("storage.triples", "Triple"),
    "Answer": ("answer", "Answer"),
    "Citation": ("answering.citations", "Citation"),
    "Confidence": ("answering.confidence", "Confidence"),
    "Column": ("query.descriptions", "Column"),
    "CompactReport": ("storage.environment", "CompactReport"),
    "Cursor": ("query.cursor", "Cursor"),
    "Document": ("reading", "Document"),
    "Evidence": ("retrieval.evidence", "Evidence"),
    "ExportReport": ("exchange", "ExportReport"),
    "Failure": ("ingest.file_documents", "Failure"),
    "Forecast": ("ingest.forecast", "Forecast"),
    "Hit": ("retrieval.evidence", "Hit"),
    "ImportReport": ("exchange", "ImportReport"),
    "IndexProgress": ("storage.index_building", "IndexProgress"),
    "IndexStatus": ("storage.indexes", "IndexStatus"),
    "IngestProgress": ("ingest.pipeline", "IngestProgress"),
    "IngestReport": ("ingest.pipeline", "IngestReport"),
    "Location": ("retrieval.evidence", "Location"),
    "Prompt": ("answering.prompt", "Prompt"),
    "Relative": ("retrieval.evidence", "Relative"),
    "Snapshot": ("opened", "Snapshot"),
    "Step": ("retrieval.evidence", "Step"),
    "Store": ("store", "Store"),
    "Table": ("query.descriptions", "Table"),
    "Transaction": ("transaction", "Transaction"),
    "migrate": ("opening", "migrate_store"),
    "open": ("opening", "open_store"),
}


# A program that wants to know more than errors listens to this logger; it says nothing on its own.
logging.getLogger(__name__).addHandler(logging.NullHandler())


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _HOMES[name]
    value = getattr(import_module(f".{module}", __name__), attribute)
    globals()[name] = value
    return value

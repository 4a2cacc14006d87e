"""kvstore: an embedded knowledge store, SQLite for retrieval-augmented generation.

A store is one directory on disk with documents and everything retrieval needs from them. It is opened in-process and
answers with citations.

>>> import kvstore, tempfile
>>> with kvstore.open(tempfile.mkdtemp() + "/store", embedder="hashing") as store:
...     _ = store.put("tea", "Tea is made from the leaves of Camellia sinensis.", title="Tea")
...     store.ask("What is tea made from?").citations[0].document
'tea'
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import errors
from .errors import KvstoreError

if TYPE_CHECKING:
    from .answering.answer import Answer, AnswerPieces
    from .answering.citations import Citation
    from .answering.confidence import Confidence
    from .answering.prompt import Prompt
    from .changes.facts import ExportReport, ImportReport, Triple
    from .database.model_extraction import ExtractionForecast, ExtractionProgress, ExtractionReport
    from .database.snapshot import Snapshot
    from .database.stored_document import Document
    from .database.transaction import Transaction
    from .derived.passage_graph.neighbors import Neighbour, Neighbours
    from .extensions.entry_points import Plugin
    from .ingest.file_documents import Failure
    from .ingest.forecast import Forecast
    from .ingest.ingest_interface import Ingestion, IngestProgress, IngestReport
    from .language.cursor import Cursor
    from .models.protocol import Embedder
    from .models.token_estimate import token_estimate
    from .readers import FORMATS, RawDocument, ReadFailure
    from .retrieval.evidence import Evidence, Hit, Location, Step, TextSpan
    from .retrieval.relatives import Relative, Relatives
    from .sql.descriptions import Column, Table
    from .storage.environment import CompactReport
    from .store.migration import migrate_store as migrate
    from .store.opening import open_store as open
    from .store.plugin_listing import plugins
    from .store.store import Store
    from .structures.indexes.generation_building import WritingForecast, WritingReport
    from .structures.indexes.generations import Outline, OutlineRow
    from .structures.indexes.index import IndexStatus
    from .structures.indexes.index_building import IndexProgress
    from .structures.names.aliases import Alias
    from .structures.spending import Spending

__version__ = "0.2.0"

__all__ = [
    "FORMATS",
    "Alias",
    "Answer",
    "AnswerPieces",
    "Citation",
    "Column",
    "CompactReport",
    "Confidence",
    "Cursor",
    "Document",
    "Embedder",
    "Evidence",
    "ExportReport",
    "ExtractionForecast",
    "ExtractionProgress",
    "ExtractionReport",
    "Failure",
    "Forecast",
    "Hit",
    "ImportReport",
    "IndexProgress",
    "IndexStatus",
    "IngestProgress",
    "IngestReport",
    "Ingestion",
    "KvstoreError",
    "Location",
    "Neighbour",
    "Neighbours",
    "Outline",
    "OutlineRow",
    "Plugin",
    "Prompt",
    "RawDocument",
    "ReadFailure",
    "Relative",
    "Relatives",
    "Snapshot",
    "Spending",
    "Step",
    "Store",
    "Table",
    "TextSpan",
    "Transaction",
    "Triple",
    "WritingForecast",
    "WritingReport",
    "errors",
    "migrate",
    "open",
    "plugins",
    "token_estimate",
]

#: The module and the attribute of each public name. Names are imported on first use, so importing kvstore is nearly
#: free.
_LAZY_ATTRIBUTES = {
    "Alias": ".structures.names.aliases:Alias",
    "Answer": ".answering.answer:Answer",
    "AnswerPieces": ".answering.answer:AnswerPieces",
    "Citation": ".answering.citations:Citation",
    "Column": ".sql.descriptions:Column",
    "CompactReport": ".storage.environment:CompactReport",
    "Confidence": ".answering.confidence:Confidence",
    "Cursor": ".language.cursor:Cursor",
    "Document": ".database.stored_document:Document",
    "Embedder": ".models.protocol:Embedder",
    "Evidence": ".retrieval.evidence:Evidence",
    "ExportReport": ".changes.facts:ExportReport",
    "ExtractionForecast": ".database.model_extraction:ExtractionForecast",
    "ExtractionProgress": ".database.model_extraction:ExtractionProgress",
    "ExtractionReport": ".database.model_extraction:ExtractionReport",
    "FORMATS": ".readers:FORMATS",
    "Failure": ".ingest.file_documents:Failure",
    "Forecast": ".ingest.forecast:Forecast",
    "Hit": ".retrieval.evidence:Hit",
    "ImportReport": ".changes.facts:ImportReport",
    "IndexProgress": ".structures.indexes.index_building:IndexProgress",
    "IndexStatus": ".structures.indexes.index:IndexStatus",
    "IngestProgress": ".ingest.ingest_interface:IngestProgress",
    "IngestReport": ".ingest.ingest_interface:IngestReport",
    "Ingestion": ".ingest.ingest_interface:Ingestion",
    "Location": ".retrieval.evidence:Location",
    "Neighbour": ".derived.passage_graph.neighbors:Neighbour",
    "Neighbours": ".derived.passage_graph.neighbors:Neighbours",
    "Outline": ".structures.indexes.generations:Outline",
    "OutlineRow": ".structures.indexes.generations:OutlineRow",
    "Plugin": ".extensions.entry_points:Plugin",
    "Prompt": ".answering.prompt:Prompt",
    "RawDocument": ".readers:RawDocument",
    "ReadFailure": ".readers:ReadFailure",
    "Relative": ".retrieval.relatives:Relative",
    "Relatives": ".retrieval.relatives:Relatives",
    "Snapshot": ".database.snapshot:Snapshot",
    "Spending": ".structures.spending:Spending",
    "Step": ".retrieval.evidence:Step",
    "Store": ".store.store:Store",
    "Table": ".sql.descriptions:Table",
    "TextSpan": ".retrieval.evidence:TextSpan",
    "Transaction": ".database.transaction:Transaction",
    "Triple": ".changes.facts:Triple",
    "WritingForecast": ".structures.indexes.generation_building:WritingForecast",
    "WritingReport": ".structures.indexes.generation_building:WritingReport",
    "migrate": ".store.migration:migrate_store",
    "open": ".store.opening:open_store",
    "plugins": ".store.plugin_listing:plugins",
    "token_estimate": ".models.token_estimate:token_estimate",
}


def __dir__() -> list[str]:
    """Return the public names of this module, including those that are not imported yet, and its special names."""
    return sorted({*__all__, *(name for name in globals() if name[:2] == "__")})


def __getattr__(name: str) -> Any:
    """Import a public name at its first use, and keep it as a global of this module.

    Raises AttributeError for an unknown name.
    """
    if name in ("aio", "dbapi"):  # public modules, which no other module imports
        import importlib

        return importlib.import_module(f"{__name__}.{name}")
    if name not in _LAZY_ATTRIBUTES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .process.collection_pause import import_with_gc_paused

    module, _, attribute = _LAZY_ATTRIBUTES[name].partition(":")
    value = getattr(import_with_gc_paused(f"{__name__}{module}"), attribute)
    globals()[name] = value
    return value

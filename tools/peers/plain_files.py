"""Documents as JSON lines, for libraries that only index, and leave the storage of documents to the application."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from .corpus import Batch, Document

if TYPE_CHECKING:
    from .corpus import Matrix


def write_documents(folder: str, batches: Iterable[Batch]) -> list[Matrix]:
    """Write all documents to a new folder, and return the vectors of each batch."""
    os.makedirs(folder, exist_ok=True)
    vectors = []
    with open(f"{folder}/documents.jsonl", "w", encoding="utf-8") as lines:
        for batch in batches:
            lines.writelines(json.dumps(document, ensure_ascii=False) + "\n" for document in batch.documents)
            vectors.append(batch.vectors)
    return vectors


def read_documents(folder: str) -> list[Document]:
    """Return all documents, in the order in which they were written."""
    with open(f"{folder}/documents.jsonl", encoding="utf-8") as lines:
        return [Document(*json.loads(line)) for line in lines]

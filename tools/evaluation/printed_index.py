"""A comparison of LOOKUP with the printed index of a manual: does a term lead to the pages that the index names?

In: a file of entries (term, gold pages) next to the archive of HTML pages. Out: the shares of terms that are found on
one of their pages.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

import kvstore
from kvstore.text.normalize import fold, to_entity_key

from .manual import ingest_pages, unpack
from .question_sets import read_json_lines


def evaluate_index(store: kvstore.Store, index: Path, scratch: Path, log: Callable[[str], None]) -> dict[str, Any]:
    """Ingest the pages of a manual, look up each term of its printed index, and return the hit rates.

    ``index`` is the file of the entries. A hit is a term for which LOOKUP lists a page that the index names. Only terms
    that occur on such a page count.
    """
    archive = next(index.parent.glob(index.name.replace("-index.jsonl", "-html.tar.*")), None)
    if archive is None:
        raise click.UsageError(f"there is no archive of pages beside {index}")
    folder = scratch / "pages"
    unpack(archive, folder)
    report = ingest_pages(store, folder, log)
    texts = _read_page_texts(store)
    entries = read_json_lines(index)
    num_answerable = num_hits = num_hits_at_5 = 0
    for entry in entries:
        gold_pages = {reference["page"] for reference in entry["gold"]}
        term = to_entity_key(entry["term"]).encode()
        if not any(term in texts.get(page, b"") for page in gold_pages):
            continue
        num_answerable += 1
        pages = [Path(row.document).name for row in store.lookup(entry["term"], limit=1000) if row.document]
        num_hits += not gold_pages.isdisjoint(pages)
        num_hits_at_5 += not gold_pages.isdisjoint(pages[:5])
    statistics = store.statistics()
    return {
        "index": index.name,
        "entries": len(entries),
        "answerable": num_answerable,
        "lookup_hit": round(num_hits / num_answerable, 4),
        "lookup_hit@5": round(num_hits_at_5 / num_answerable, 4),
        "entities_per_chunk": round(int(statistics["introductions"]) / int(statistics["chunks"]), 2),
        "pages": len(texts),
        "failures": len(report.failures),
        "chunks": statistics["chunks"],
        "entities": statistics["entities"],
        "ingest_s": round(report.seconds, 1),
    }


def _read_page_texts(store: kvstore.Store) -> dict[str, bytes]:
    """Return the folded title and text of each page, by the name of its file."""
    texts: dict[str, bytes] = {}
    for key in sorted(store.keys()):
        document = store.get(key)
        assert document is not None
        texts.setdefault(Path(key).name, b"")
        texts[Path(key).name] += fold(f"{document.title or ''}\n\n{document.text}").data
    return texts

"""A comparison of LOOKUP with a printed index: does a term lead to the pages that the index names?

In: a file of entries (term, gold pages) next to the archive of HTML pages. Out: the shares of terms that are found on
one of their pages.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

import kvstore
from kvstore.text.normalize import fold, to_entity_key

from .manual import unpack
from .question_sets import read_lines


def evaluate_index(store: kvstore.Store, index: Path, scratch: Path, log: Callable[[str], None]) -> dict[str, Any]:
    """Measure LOOKUP against a printed index.

    Returns the fraction of index terms for which it leads to a gold page, among the terms that occur on one.
    """
    archive = next(index.parent.glob(index.name.replace("-index.jsonl", "-html.tar.*")), None)
    if archive is None:
        raise click.UsageError(f"there is no archive of pages beside {index}")
    folder = scratch / "pages"
    unpack(archive, folder)
    report = store.ingest(folder, progress=lambda now: log(f"{now.done} of {now.total} files, {now.chunks} chunks"))
    for failure in report.failures:
        print(f"{failure.place}: {failure.reason}", file=sys.stderr)
    texts: dict[str, bytes] = {}
    for key in sorted(store.keys()):
        document = store.get(key)
        assert document is not None
        texts.setdefault(Path(key).name, b"")
        texts[Path(key).name] += fold(f"{document.title or ''}\n\n{document.text}").data
    entries = read_lines(index)
    answerable = hits = first_hits = 0
    for entry in entries:
        gold = {reference["page"] for reference in entry["gold"]}
        term = to_entity_key(entry["term"]).encode()
        if not any(term in texts.get(page, b"") for page in gold):
            continue
        answerable += 1
        pages_found = [Path(row.document).name for row in store.lookup(entry["term"], limit=1000) if row.document]
        hits += not gold.isdisjoint(pages_found)
        first_hits += not gold.isdisjoint(pages_found[:5])
    figures = store.statistics()
    return {
        "index": index.name,
        "entries": len(entries),
        "answerable": answerable,
        "lookup_hit": round(hits / answerable, 4),
        "lookup_hit@5": round(first_hits / answerable, 4),
        "entities_per_chunk": round(int(figures["introductions"]) / int(figures["chunks"]), 2),
        "pages": len(texts),
        "failures": len(report.failures),
        "chunks": figures["chunks"],
        "entities": figures["entities"],
        "ingest_s": round(report.seconds, 1),
    }

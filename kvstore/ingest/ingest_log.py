"""The log of a store's ingests, which the explorer's health page shows.

In: the folder of a store, and the report of an ingest. Out: a line of JSON in ``ingests.jsonl`` in that folder. The log
is not part of the store: no answer depends on it, copies do not contain it, and it may be deleted.

On disk: one object per line, the oldest first: ``time`` (UTC, ISO 8601), ``paths``, the counts of the report,
``failures`` (lists of place and reason, the first hundred), and ``num_failures``. Addresses have no user, password or
query, because these can be secret.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..storage.location import open_store_file
from ..structures.documents.documents import get_current_second
from .ingest_interface import IngestReport

#: The name of the log in the folder of a store.
LOG_FILE = "ingests.jsonl"
#: The maximum number of ingests in the log, and of failures of one of them.
_MAX_INGESTS, _MAX_FAILURES = 50, 100
#: The part of an address after its scheme, ``://ann:secret@host/notes?key=1``; the group is ``host/notes``.
_ADDRESS_PATTERN = re.compile(r"://(?:[^\s/@]*@)?([^\s?]*)(?:\?\S*)?")
_COUNTS = ("added", "changed", "unchanged", "removed", "skipped", "known", "documents", "chunks")


def log_ingest(folder: Path, paths: Sequence[str | Path], report: IngestReport) -> None:
    """Append an ingest of ``paths`` with its report to the log in a store's folder, if the folder is writable.

    The log has the last ``_MAX_INGESTS`` ingests. Passwords and query strings of addresses are removed.
    """
    entry = {
        "time": datetime.fromtimestamp(get_current_second(), UTC).isoformat(),
        "paths": [_remove_secrets(str(path)) for path in paths],
        **{name: getattr(report, name) for name in _COUNTS},
        "seconds": round(report.seconds, 3),
        "skipped_by": dict(report.skipped_by),
        "failures": [
            [_remove_secrets(failure.place), _remove_secrets(failure.reason)]
            for failure in report.failures[:_MAX_FAILURES]
        ],
        "num_failures": len(report.failures),
    }
    path = folder / LOG_FILE
    with suppress(OSError):
        lines = [*_read_lines(path), json.dumps(entry, ensure_ascii=False)][-_MAX_INGESTS:]
        temporary_path = path.with_name(f"{LOG_FILE}.part")
        descriptor = open_store_file(temporary_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        with open(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write("\n".join(lines) + "\n")
        os.replace(temporary_path, path)


def read_ingests(folder: Path) -> list[dict[str, Any]]:
    """Return the logged ingests of the store in a folder, newest first; skip damaged lines."""
    ingests: list[dict[str, Any]] = []
    with suppress(OSError):
        for line in _read_lines(folder / LOG_FILE):
            with suppress(ValueError):
                ingests.insert(0, json.loads(line))
    return ingests


def _read_lines(path: Path) -> list[str]:
    """Return the lines of a log, of which a crash of the machine may have damaged some; none if it is not a file."""
    if not path.is_file():
        return []
    # Not splitlines(): a path can contain other line ends, such as U+2028.
    return path.read_text(encoding="utf-8", errors="replace").removesuffix("\n").split("\n")


def _remove_secrets(text: str) -> str:
    """Remove the user, the password and the query string from each address (URL) in a text."""
    return _ADDRESS_PATTERN.sub(r"://\1", text)

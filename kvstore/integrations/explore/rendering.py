"""The explorer's templates and their helpers: URLs, and readable numbers and times.

In: the name of a template, and variables. Out: HTML. Every value is escaped in every template: the content of a
document is never markup.
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import Any

from ...arguments import format_count
from ...errors import shorten
from ...extensions.extras import import_extra
from .urls import build_document_url, build_entity_url, build_page_url, build_path, build_spans_url, build_tree_url

import_extra("jinja2", "explore", "the explorer")

from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: E402

from .cited_pieces import render_cited_pieces  # noqa: E402
from .document_text import make_excerpt, render_passage, split_heading, strip_markdown  # noqa: E402
from .markdown_view import render_markdown  # noqa: E402

#: The folder of static files.
STATIC = Path(__file__).parent / "static"
#: The maximum number of characters of a title, key or name that is shown.
_MAX_TITLE_CHARS = 160
#: The seconds of each unit of a relative time, and the seconds in a week, from which on times are shown as dates.
_TIME_UNITS = ((86_400, "day"), (3_600, "hour"), (60, "minute"))
_MAX_RELATIVE_SECONDS = 7 * 86_400


@cache
def get_template(name: str) -> Any:
    """Return a template, with the helper functions and filters of the environment; cached."""
    return _make_environment().get_template(name)


@cache
def _make_environment() -> Any:
    """Return the environment of the templates: their loader, functions and filters."""
    environment = Environment(
        loader=PackageLoader(__package__ or "", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {
        "document_url": build_document_url,
        "render_passage": render_passage,
        "render_cited_pieces": render_cited_pieces,
        "entity_url": build_entity_url,
        "page_url": build_page_url,
        "spans_url": build_spans_url,
        "tree_url": build_tree_url,
        "item_url": lambda url, name: build_path(url, str(name)),
        "static": _build_static_url,
    }
    environment.filters |= {
        "excerpt": make_excerpt,
        "short": partial(shorten, length=_MAX_TITLE_CHARS),
        "split_heading": split_heading,
        "strip_markdown": strip_markdown,
        "markdown": render_markdown,
        "markdown_line": partial(render_markdown, inline=True),
        "number": _format_number,
        "count_of": format_count,
        "size": _format_size,
        "when": _format_time,
        "percent": "{:.0%}".format,
    }
    return environment


@cache
def _build_static_url(name: str) -> str:
    """Return the URL of a static file, which changes with its content."""
    return f"/static/{name}?{hashlib.sha256((STATIC / name).read_bytes()).hexdigest()[:12]}"


def _format_number(value: float, num_decimals: int = 2) -> str:
    """Format a number with commas between thousands; a float has ``num_decimals`` decimal places, an integer none."""
    return f"{value:,}" if isinstance(value, int) else f"{value:,.{num_decimals}f}"


def _format_size(num_bytes: int) -> str:
    """Format a size in bytes with a unit, with three significant digits if it is not in bytes."""
    size, unit = float(num_bytes), "bytes"
    for larger_unit in ("kB", "MB", "GB", "TB"):
        if size < 1000:
            break
        size, unit = size / 1000, larger_unit
    if unit == "bytes":
        return f"{num_bytes} bytes"
    return f"{size:.3g} {unit}" if size < 999.5 else f"{size:.0f} {unit}"  # .3g would be 1e+03 from 999.5 on


def _format_time(moment: str, now: datetime | None = None) -> str:
    """Format a UTC time in ISO 8601: relative to ``now`` in the last week, else as a date; other text is unchanged."""
    try:
        time = datetime.fromisoformat(moment)
    except ValueError:
        return moment
    time = time if time.tzinfo else time.replace(tzinfo=UTC)
    now = now or datetime.now(UTC)
    seconds = (now - time).total_seconds()
    if not 0 <= seconds < _MAX_RELATIVE_SECONDS:
        return f"{time:%Y-%m-%d %H:%M}"
    for unit_seconds, unit in _TIME_UNITS:
        count = int(seconds // unit_seconds)
        if count:
            return f"{format_count(count, unit)} ago"
    return "just now"

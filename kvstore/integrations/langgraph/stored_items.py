"""Conversion between LangGraph's items and documents of a store. An *item* is a mapping, its value, with a key in a
*namespace*, a tuple of labels. Its *times* are the times of its creation, last change and expiry, in ISO 8601.

A document's key is the namespace, joined by periods, two periods, and the key of the item. No label contains a period,
so a namespace and everything below it is one range of keys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from langgraph.store.base import PutOp, get_text_at_path

from ... import Document
from ...errors import InputError

#: The metadata fields of a document: the value of its item, and its times as mapping.
VALUE, TIMES = "value", "item"
#: The text between namespace and key in a document's key, and between the indexed texts of an item.
_NAMESPACE_END = ".."
_TEXT_SEPARATOR = "\n\n"
#: The maximum number of characters of a text that becomes one chunk, which can have 65,535 bytes.
_MAX_CHUNK_CHARACTERS = 65_535 // 4


def build_key(namespace: Sequence[str], key: str) -> str:
    """Return the key of the document that stores the item with this namespace and key.

    >>> build_key(("users", "ann"), "color")
    'users.ann..color'
    """
    return f"{'.'.join(namespace)}{_NAMESPACE_END}{key}"


def split_key(key: str) -> tuple[tuple[str, ...], str]:
    """Split a document's key into the namespace and the key of its item.

    >>> split_key("users.ann..color")
    (('users', 'ann'), 'color')
    """
    namespace, _, item_key = key.partition(_NAMESPACE_END)
    return tuple(namespace.split(".")), item_key


def build_prefix_condition(namespace: Sequence[str], now: datetime) -> dict[str, Any]:
    """Return the filter for the documents that store the items in a namespace or below it and have not expired.

    ``now`` is the current time, and an empty namespace contains all others.
    """
    expiry_condition = {TIMES: {"expires": {"$lte": now.isoformat()}}}
    conditions: list[dict[str, Any]] = [{TIMES: {"created": {"$exists": True}}}, {"$not": expiry_condition}]
    if namespace:
        prefix = ".".join(namespace)
        # The keys that begin with the prefix and a period: "/" is the next character after ".".
        conditions.append({"$key": {"$gte": f"{prefix}.", "$lt": f"{prefix}/"}})
    return {"$and": conditions}


def to_put_arguments(
    put: PutOp, fields: Sequence[str], previous_document: Document | None, now: datetime
) -> dict[str, Any]:
    """Return the arguments of ``put`` for an item written at the time ``now``.

    It keeps the creation time of ``previous_document``, the previous version of the item (None: it is new).

    The text consists of the indexed fields, one per chunk, or of the whole value if no field is indexed. If one of them
    is too long for a chunk, the text is chunked automatically. Raises InputError if the value, the fields or the
    lifetime of the item is invalid.
    """
    if not isinstance(put.value, Mapping):
        raise InputError(f"item {put.key!r}: its value must be a mapping, not {type(put.value).__name__}")
    value = dict(put.value)
    paths: Sequence[str] = ()
    if put.index is not False:  # False: the item is not indexed; None: by the default fields
        paths = fields if put.index is None else put.index
        check_paths("index", paths)
    texts = [text for path in paths for text in get_text_at_path(value, path) if text.strip()]
    times = {
        "created": now.isoformat() if previous_document is None else previous_document.meta[TIMES]["created"],
        "updated": now.isoformat(),
        "indexed": bool(texts),
        **({} if put.ttl is None else {"minutes": put.ttl, "expires": _compute_expiry(now, put.ttl)}),
    }
    texts = texts or get_text_at_path(value, "$")
    spans, start = [], 0  # in characters
    for text in texts:
        spans.append((start, start + len(text)))
        start += len(text) + len(_TEXT_SEPARATOR)
    return {
        "key": build_key(put.namespace, put.key),
        "text": _TEXT_SEPARATOR.join(texts),
        "meta": {VALUE: value, TIMES: times},
        "chunks": None if any(len(text) > _MAX_CHUNK_CHARACTERS for text in texts) else spans,
    }


def check_paths(argument: str, paths: Sequence[str]) -> None:
    """Raise InputError if ``paths``, the paths of indexed fields, is a single string instead of a sequence.

    Each character of the string would be a path. ``argument`` is the name of the argument in the message.
    """
    if isinstance(paths, str):
        raise InputError(f"{argument} must be a list of fields, not the string {paths!r}; write [{paths!r}]")


def build_refreshed_meta(document: Document, now: datetime) -> dict[str, Any] | None:
    """Return the metadata of an item with its expiry counted from ``now``, or None if the item does not expire."""
    minutes = document.meta[TIMES].get("minutes")
    if minutes is None:
        return None
    return {**document.meta, TIMES: {**document.meta[TIMES], "expires": _compute_expiry(now, minutes)}}


def _compute_expiry(now: datetime, minutes: float) -> str:
    """Return the time ``minutes`` after ``now``, in ISO 8601. Raises InputError if there is no such time."""
    try:
        return (now + timedelta(minutes=minutes)).isoformat()
    except (TypeError, ValueError, OverflowError):
        raise InputError(
            f"ttl must be a number of minutes, not {minutes!r}; omit it for an item that never expires"
        ) from None


def is_live_item(document: Document | None, now: datetime) -> bool:
    """True if a document stores an item that has not expired at the time ``now``; False for None."""
    times = None if document is None else document.meta.get(TIMES)
    never = "9"  # sorts after all times, which begin with the year
    return isinstance(times, Mapping) and "created" in times and times.get("expires", never) > now.isoformat()


def build_item_fields(document: Document) -> dict[str, Any]:
    """Return the arguments of LangGraph's Item for the item that a document stores, by name."""
    namespace, key = split_key(document.key)
    times = document.meta[TIMES]
    return {
        "namespace": namespace,
        "key": key,
        "value": document.meta[VALUE],
        "created_at": datetime.fromisoformat(times["created"]),
        "updated_at": datetime.fromisoformat(times["updated"]),
    }


def get_now() -> datetime:
    """Return the current time in UTC."""
    return datetime.now(UTC)

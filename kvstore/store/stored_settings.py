"""The record of a store's format and settings in its ``meta`` table.
A *view* reads one state of the store. A *tokenizer* is a set of rules for words; some earlier rules differ from the
current ones only for some scripts, such as Chinese.

``format`` and ``settings`` are written when a store is created, and read whenever it is opened or migrated.
"""

from __future__ import annotations

from collections.abc import Callable

import kvstore_migrations

from ..registry.structure_versions import write_versions
from ..settings import EARLIER_TOKENIZERS, ENGLISH_TOKENIZER, FixedSettings
from ..storage import records
from ..storage.environment import View, WriteView
from ..structures import tables

_FORMAT = b"format"


def get_stored_format(view: View) -> int | None:
    """Return the version of the file format that a store records, or None if it records none."""
    value = view.get(tables.META, _FORMAT)
    return None if value is None else int(records.unpack(value, tables.META, _FORMAT))


def read_settings(view: View) -> FixedSettings | None:
    """Return the settings of a store in the current format, or None if it has no settings yet.

    The current tokenizer replaces an earlier one, whose rules were the same for text in English. Raises
    StoreFormatError for a store with settings in a different format.
    """
    value = view.get(tables.META, tables.SETTINGS_KEY)
    if value is None:
        return None
    stored_format = get_stored_format(view)
    if stored_format is not None:
        kvstore_migrations.check_format(stored_format)
    settings = records.unpack(value, tables.META, tables.SETTINGS_KEY)
    if settings["tokenizer"] in EARLIER_TOKENIZERS:
        settings["tokenizer"] = ENGLISH_TOKENIZER
    return FixedSettings(**settings)


def write_settings(view: WriteView, build_settings: Callable[[], FixedSettings]) -> tuple[FixedSettings, bool]:
    """Write the settings of a new store and the versions of its data, unless another process has just done so.

    Returns the store's settings, and True if this call wrote them.
    """
    settings = read_settings(view)
    if settings is not None:
        return settings, False
    from ..structures.language_version import put_language_version, put_settings

    settings = build_settings()
    put_settings(view, settings)
    put_language_version(view, settings)
    write_versions(view)
    return settings, True


def has_earlier_tokenizer(view: View) -> bool:
    """True if the store records an earlier tokenizer, whose rules split most texts as the current rules do."""
    value = view.get(tables.META, tables.SETTINGS_KEY)
    return (
        value is not None and records.unpack(value, tables.META, tables.SETTINGS_KEY)["tokenizer"] in EARLIER_TOKENIZERS
    )


def describe_retokenized_scripts(view: View) -> str | None:
    """Return the names of the scripts in a store whose words an earlier version split by other rules; None if none."""
    if not has_earlier_tokenizer(view):
        return None
    from ..structures.postings import Postings
    from ..text.normalize import SEMITIC_RANGE
    from ..text.words import list_unspaced_ranges

    postings = Postings(view)
    if any(postings.has_term_between(*characters) for characters in list_unspaced_ranges()):
        return "Chinese, Japanese and other writing without spaces"
    first, last = SEMITIC_RANGE
    # Names and terms between the first and the last character of these scripts.
    has_names = next(view.scan(tables.ENTITY_NAMES, first.encode(), chr(ord(last) + 1).encode()), None) is not None
    return "Arabic and Hebrew" if has_names or postings.has_term_between(first, last) else None


def is_rebuild_pending(view: View) -> bool:
    """True if an interrupted rebuild of all derived data must be finished before the store is used."""
    return view.get(tables.META, tables.REBUILD_KEY) is not None

"""The version of the language pipeline that a store's data was derived with.

In: a view. On disk: ``meta`` under ``language_version``, written when a store is created and whenever all data is
derived again. An older store has no such record, which is not an error. Out: the version, and a sentence for CHECK if
another version is installed. With another version, new documents may give other names and relations than those in the
store.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from ..models.language import get_language_version
from ..settings import FixedSettings
from ..storage import records
from ..storage.environment import View, WriteView
from . import tables
from .state import State

_KEY = b"language_version"


def put_settings(view: WriteView, settings: FixedSettings) -> None:
    """Record the settings that all data is derived with, including the version of the text splitting rules."""
    # Without a digest, the record has the form that earlier versions read.
    stored_settings = {name: value for name, value in asdict(settings).items() if name != "weights" or value}
    view.put(tables.META, tables.SETTINGS_KEY, records.pack(stored_settings))


def put_language_version(view: WriteView, settings: FixedSettings) -> None:
    """Record the installed version as the one that all data is derived with."""
    view.put(tables.META, _KEY, records.pack(get_language_version(settings.language)))


def get_stored_language_version(view: View) -> str:
    """Return the version a store was derived with; empty if it parses no texts, or if the version is unknown."""
    value = view.get(tables.META, _KEY)
    return "" if value is None else str(records.unpack(value, tables.META, _KEY))


def check_language_version(state: State) -> Iterator[str]:
    """Yield a sentence for CHECK if the installed version differs from the one the store was derived with."""
    language = state.settings.language
    stored_version, installed_version = get_stored_language_version(state.lmdb), get_language_version(language)
    if stored_version and installed_version and stored_version != installed_version:
        yield (
            f"the texts were parsed by version {stored_version} of the language pipeline {language!r}, and version "
            f"{installed_version} is installed: names and relations may differ; CHECK REPAIR derives all of them with "
            "the installed version"
        )


def list_fixed_settings(state: State) -> list[tuple[str, Any, bool]]:
    """Return the settings fixed when the store was created, as rows of the table ``settings``: name, value, True."""
    settings = {**asdict(state.settings), "language_version": get_stored_language_version(state.lmdb)}
    return [(name, value, True) for name, value in settings.items()]

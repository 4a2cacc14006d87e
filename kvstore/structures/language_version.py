"""The version of the language pipeline and of the word segmenter that a store's data was derived with. The pipeline
finds names and relations in texts, and the segmenter splits texts into words. Other versions may give other results
than those in the store.

In: a view. On disk: ``meta`` under ``language_version``, written when a store is created and whenever all data is
derived again. An older store has no such record, which is not an error. Out: the version, and a sentence for CHECK if a
different version is installed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from ..models.language import get_language_version
from ..settings import FixedSettings
from ..storage import records
from ..storage.environment import View, WriteView
from ..text.segmenters import get_segmenter_version
from . import tables
from .state import State

_KEY = b"language_version"


def put_settings(view: WriteView, settings: FixedSettings) -> None:
    """Store the settings of a store. They are fixed when the store is created, and all data is derived with them."""
    # ``weights`` is a digest of the embedder's weights. Earlier versions cannot read a record that has it.
    stored_settings = {name: value for name, value in asdict(settings).items() if name != "weights" or value}
    view.put(tables.META, tables.SETTINGS_KEY, records.pack(stored_settings))


def put_language_version(view: WriteView, settings: FixedSettings) -> None:
    """Store the installed versions of the language pipeline and the word segmenter, which now derive all data."""
    view.put(tables.META, _KEY, records.pack(_get_installed_version(settings)))


def _get_installed_version(settings: FixedSettings) -> str:
    """Return the installed versions of the language pipeline and of the word segmenter, joined by a comma."""
    versions = (get_language_version(settings.language), get_segmenter_version(settings.stemmer))
    return ", ".join(filter(None, versions))


def get_stored_language_version(view: View) -> str:
    """Return the versions of the language pipeline and word segmenter that derived a store's data, as one text.

    The text is empty if the store uses neither, or if the versions are unknown.
    """
    value = view.get(tables.META, _KEY)
    return "" if value is None else str(records.unpack(value, tables.META, _KEY))


def explain_segmenter_mismatch(view: View, settings: FixedSettings) -> str | None:
    """Return why a store must not be changed if its texts were split into words by a different segmenter.

    The result is a clause without a capital, for the end of a message. If a text were removed, the installed segmenter
    would split it into other terms, so its postings would remain. Returns None if the installed segmenter is the same,
    or if the store uses none.
    """
    installed_version = get_segmenter_version(settings.stemmer)
    stored_version = get_stored_language_version(view)
    # The stored version ends with the segmenter's version.
    if not installed_version or stored_version.endswith(installed_version):
        return None
    return (
        f"its words were split by {stored_version}, but {installed_version} is installed; install {stored_version} to "
        "change the store, or create a new store and ingest the documents again"
    )


def check_language_version(state: State) -> Iterator[str]:
    """Yield a message for CHECK if the store's data was derived with a different language pipeline or word segmenter.

    They differ from the installed ones in their version or, for a segmenter, also in their name.
    """
    language = state.settings.language
    stored_version, installed_version = get_stored_language_version(state.lmdb), _get_installed_version(state.settings)
    segmenter_mismatch = explain_segmenter_mismatch(state.lmdb, state.settings)
    if segmenter_mismatch is not None:
        yield segmenter_mismatch
    elif stored_version and installed_version and stored_version != installed_version:
        yield (
            f"the texts were parsed by version {stored_version} of the language pipeline {language!r}, but version "
            f"{installed_version} is installed, so names and relations may differ; CHECK REPAIR derives all of them "
            "with the installed version"
        )


def list_fixed_settings(state: State) -> list[tuple[str, Any, bool]]:
    """Return the settings fixed when the store was created, and the language version, as rows of the settings table.

    A row is the name, the value, and True for the ``fixed`` column.
    """
    settings = {**asdict(state.settings), "language_version": get_stored_language_version(state.lmdb)}
    return [(name, value, True) for name, value in settings.items()]

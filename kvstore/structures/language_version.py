"""Which version of its language pipeline a store was derived with.

In: a view. On disk: ``meta`` under ``language_version``, written when a store is made and whenever all of it is derived
again; a store of before that record has none, and that is no fault. Out: the version, and the sentence that CHECK says
where another is installed: what is put then may give other names and relations than what is there.
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
    """Record the settings that everything is derived with, the version of the rules that split texts among them."""
    view.put(tables.META, tables.SETTINGS_KEY, records.pack(asdict(settings)))


def put_language_version(view: WriteView, settings: FixedSettings) -> None:
    """Record that everything is derived with the version that is installed."""
    view.put(tables.META, _KEY, records.pack(get_language_version(settings.language)))


def get_stored_language_version(view: View) -> str:
    """The version a store was derived with; empty where it parses nothing, or where the version is not known."""
    value = view.get(tables.META, _KEY)
    return "" if value is None else str(records.unpack(value, tables.META, _KEY))


def check_language_version(state: State) -> Iterator[str]:
    """The sentence of CHECK where another version is installed than the one that the store was derived with."""
    language = state.settings.language
    stored_version, installed_version = get_stored_language_version(state.lmdb), get_language_version(language)
    if stored_version and installed_version and stored_version != installed_version:
        yield (
            f"the texts were parsed by version {stored_version} of the language pipeline {language!r}, and version "
            f"{installed_version} "
            "is installed: names and relations may differ; CHECK REPAIR derives all of them with this one"
        )


def list_fixed_settings(state: State) -> list[tuple[str, Any, bool]]:
    """The settings fixed when the store was made, as rows of the table ``settings``."""
    settings = {**asdict(state.settings), "language_version": get_stored_language_version(state.lmdb)}
    return [(name, value, True) for name, value in settings.items()]

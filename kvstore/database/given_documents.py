"""Many documents as they are given at once: checked, one after the other, before anything is done with any of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from ..arguments import check_clauses, shown
from ..errors import ArgumentError, InputError
from ..extraction.validation import ValidDocument, validate


@dataclass(frozen=True, slots=True)
class CheckedDocument:
    """One of many documents: checked, with the user's vectors, if any, and where it came from."""

    document: ValidDocument
    vectors: npt.ArrayLike | None
    origin: str | None
    number: int
    of: int

    @contextmanager
    def told(self) -> Iterator[None]:
        """Have an error of this document say which of them it is."""
        with _told(self.number, self.of):
            yield


def given_documents(documents: Iterable[Mapping[str, Any]], put: Callable[..., Any]) -> list[CheckedDocument]:
    """Documents, each a mapping of the arguments of the method ``put`` by their names.

    Raises TypeError for arguments that it does not have, or that are missing, InputError for what cannot be a document;
    both say which it is.
    """
    parameters = {name: kind for name, kind in put.__annotations__.items() if name != "return"}
    mappings = list(documents)
    checked_documents = []
    for number, named in enumerate(mappings, 1):
        with _told(number, len(mappings)):
            if not isinstance(named, Mapping):
                raise ArgumentError(f"it is a mapping of the arguments of put() by their names, not {shown(named)}")
            check_clauses("put", named, parameters)
            missing = [name for name in ("key", "text") if name not in named]
            if missing:
                raise ArgumentError(f"put() is missing {missing[0]!r}")
            properties = {name: value for name, value in named.items() if name not in ("vectors", "origin")}
            checked_documents.append(
                CheckedDocument(
                    validate(**properties), named.get("vectors"), named.get("origin"), number, len(mappings)
                )
            )
    return checked_documents


@contextmanager
def _told(number: int, of: int) -> Iterator[None]:
    try:
        yield
    except (InputError, TypeError) as error:
        raise type(error)(f"document {number:,} of {of:,}: {error}") from None

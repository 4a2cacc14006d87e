"""The entities of a question: every word n-gram probed in the filter, longest match first, confirmed exactly.

In: a query. Out: its entities and where the question names them; names that stand for the same are one, and function
words are none. In a question that uses capitals a name that is written with them is meant only where it has some:
"always" is no film.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..storage.aliases import Identity
from ..storage.entity_filter import Matches, longest_matches
from ..storage.store_view import StoreView
from ..text.normalize import Folded, fold
from ..text.words import FUNCTION_WORDS
from .query import Query


@dataclass(frozen=True, slots=True)
class Seed:
    """An entity found in a question: the normal form it is shown under, its names, the number of its places, and the
    bytes of the question that name it (first and last, for each time)."""

    key: str
    identity: Identity
    count: int
    spans: tuple[tuple[int, int], ...]


def recognise(query: Query) -> list[Seed]:
    """The entities named in the question, each once, the rarest first; each counts as a hit for its temperature."""
    view = query.view
    with query.trace.step("recognise entities") as step:
        folded = fold(query.question)
        matches = view.filter.recognise(folded, view.settings.name_words)
        matches = longest_matches(_meant(view, query.question, folded, matches))
        identities: dict[str, Identity] = {}
        spans: dict[str, list[tuple[int, int]]] = {}
        for start, end in zip(matches.start.tolist(), matches.end.tolist(), strict=True):
            key = _key(folded, start, end)
            identity = None if key in FUNCTION_WORDS else view.resolve(key)
            if identity is not None:
                identities[identity.key] = identity
                spans.setdefault(identity.key, []).append((folded.original(start), folded.original(end)))
        seeds = []
        for key, identity in sorted(identities.items()):
            single = len(identity.names) == 1
            count = identity.entry.count if single else len(view.addresses_of(identity))
            if count:
                seeds.append(Seed(key, identity, count, tuple(spans[key])))
                query.count_hit(key)
        seeds.sort(key=lambda seed: (seed.count, seed.key))
        step.detail = ", ".join(f"{seed.key} ({seed.count})" for seed in seeds) or "none known"
        step.count = len(seeds)
    return seeds


def _key(folded: Folded, start: int, end: int) -> str:
    return " ".join(folded.data[start:end].decode().split())


def _meant(view: StoreView, question: str, folded: Folded, matches: Matches) -> Matches:
    """The matches whose case agrees with that of the name; all in a question without capitals after its first
    letter."""
    if not any(character.isupper() for character in question.lstrip()[1:]):
        return matches
    data = question.encode()
    kept: npt.NDArray[np.bool_] = np.ones(len(matches.start), np.bool_)
    for place, (start, end, entity) in enumerate(zip(*(column.tolist() for column in matches), strict=True)):
        written = data[folded.original(start) : folded.original(end)].decode()
        kept[place] = stands_out(written) or not any(map(stands_out, view.entities.get(entity).forms))
    return Matches(matches.start[kept], matches.end[kept], matches.entity[kept])


def stands_out(form: str) -> bool:
    """Whether a form has a capital or a digit in it."""
    return any(character.isupper() or character.isdigit() for character in form)

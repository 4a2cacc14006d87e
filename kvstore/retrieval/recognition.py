"""The entities of a question: every word n-gram probed in the filter, longest match first, confirmed exactly.

In: a query. Out: its entities; names that stand for the same are one, and function words are none.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..storage.aliases import Identity
from ..storage.entity_filter import longest_matches
from ..text.normalize import fold
from ..text.words import FUNCTION_WORDS
from .query import Query


@dataclass(frozen=True, slots=True)
class Seed:
    """An entity found in a question: the normal form it is shown under, its names, and the number of its places."""

    key: str
    identity: Identity
    count: int


def recognise(query: Query) -> list[Seed]:
    """The entities named in the question, each once, the rarest first; each counts as a hit for its temperature."""
    view = query.view
    with query.trace.step("recognise entities") as step:
        folded = fold(query.question)
        matches = longest_matches(view.filter.recognise(folded, view.settings.name_words))
        keys = {
            " ".join(folded.data[start:end].decode().split())
            for start, end in zip(matches.start.tolist(), matches.end.tolist(), strict=True)
        }
        found = (view.resolve(key) for key in sorted(keys - FUNCTION_WORDS))
        identities = {identity.key: identity for identity in found if identity is not None}
        seeds = []
        for key, identity in identities.items():
            single = len(identity.names) == 1
            count = identity.entry.count if single else len(view.addresses_of(identity))
            if count:
                seeds.append(Seed(key, identity, count))
                query.count_hit(key)
        seeds.sort(key=lambda seed: (seed.count, seed.key))
        step.detail = ", ".join(f"{seed.key} ({seed.count})" for seed in seeds) or "none known"
        step.count = len(seeds)
    return seeds

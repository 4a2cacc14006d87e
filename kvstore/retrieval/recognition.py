"""The entities of a question: every word n-gram probed in the filter, longest match first, confirmed exactly."""

from __future__ import annotations

from dataclasses import dataclass

from ..storage.entity_filter import longest_matches
from ..text.normalize import fold
from ..text.words import FUNCTION_WORDS
from .query import Query


@dataclass(frozen=True, slots=True)
class Seed:
    """An entity found in a question: its normal form, its id, and in how many places it is found in the store."""

    key: str
    entity: int
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
        seeds = []
        for key in sorted(keys - FUNCTION_WORDS):
            entry = view.filter.find(key)
            if entry is not None and entry.count:
                seeds.append(Seed(key, entry.entity, entry.count))
                query.count_hit(key)
        seeds.sort(key=lambda seed: (seed.count, seed.key))
        step.detail = ", ".join(f"{seed.key} ({seed.count})" for seed in seeds) or "none known"
        step.count = len(seeds)
    return seeds

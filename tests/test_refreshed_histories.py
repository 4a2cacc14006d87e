"""What compares documents with each other, after any history: no deleted word is told, what is new is found, and what
REFRESH makes is what a new store would make."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from theme_texts import THEMES, theme_text

from kvstore import Store
from kvstore.changes.dump import dump

MakeStore = Callable[..., Store]

#: Strategies over what is refreshed, with the options of their ways.
WAYS: list[tuple[str, dict[str, Any]]] = [
    ("local", {}),
    ("global", {}),
    ("drift", {}),
    ("archrag", {}),
    *(("raptor", {"mode": mode}) for mode in ("auto", "cover", "collapsed", "leaves")),
    ("raptor", {"mode": "traversal", "width": 40}),  # as wide as there are documents: below that it may pass one by
]
QUESTIONS = ["What did {0} and {1} do?", "Summarize everything."]
OPTIONS: dict[str, dict[str, Any]] = {"communities": {"least": 2}, "topics": {}}


def _word(rng: random.Random) -> str:
    """A word that no other document has."""
    return "".join(rng.choice("bdfgklmnprstvz") + rng.choice("aeiou") for _ in range(5))


class History:
    """A store, the documents it should have, and the words of those it should not have any more."""

    def __init__(self, make_store: MakeStore, seed: int) -> None:
        self.rng = random.Random(seed)
        self.make_store = make_store
        self.seed = seed
        self.store = make_store(f"lived-{seed}")
        self.texts: dict[str, str] = {}
        self.own: dict[str, str] = {}
        self.gone: set[str] = set()
        for _ in range(20):
            self.put()
        for kind, options in OPTIONS.items():
            self.store.create_index(kind, options)

    def put(self) -> str:
        theme = self.rng.choice(sorted(THEMES))
        key = f"{theme}-{self.rng.randrange(8)}"
        word = _word(self.rng)
        self.gone |= {self.own[key]} if key in self.own else set()
        self.own[key] = word
        self.texts[key] = f"{theme_text(theme, self.rng.randrange(30))} The {word} of {theme} is praised by all."
        self.store.put(key, self.texts[key])
        return key

    def delete(self) -> None:
        if len(self.texts) > 2:
            key = self.rng.choice(sorted(self.texts))
            self.gone.add(self.own.pop(key))
            del self.texts[key]
            self.store.delete(key)

    def refresh(self) -> None:
        self.store.refresh(self.rng.choice([None, *OPTIONS]))

    def step(self) -> None:
        choice = self.rng.random()
        if choice < 0.45:
            self.put()
        elif choice < 0.75:
            self.delete()
        else:
            self.refresh()

    def require_nothing_gone(self) -> None:
        told = [self.store.execute(f"SELECT * FROM {table}").fetchall() for table in ("communities", "topics")]
        names = self.rng.sample([name for names in THEMES.values() for name in names], 2)
        for strategy, options in WAYS:
            for question in QUESTIONS:
                asked = question.format(*names)
                evidence = self.store.retrieve(asked, using=strategy, options=options, top=20)
                answer = self.store.ask(asked, using=strategy, options=options)
                told += [evidence.hits, evidence.context, evidence.abstracts, answer.text, answer.citations]
        said = repr(told)
        assert not [word for word in self.gone if word in said]

    def require_found(self, key: str) -> None:
        for strategy, options in WAYS:
            hits = self.store.retrieve(f"Who praised the {self.own[key]}?", using=strategy, options=options).hits
            assert key in {span.document for hit in hits for span in hit.spans}, (strategy, options)

    def require_fresh(self) -> None:
        self.store.refresh()
        fresh = self.make_store(f"fresh-{self.seed}")
        for key in self.rng.sample(sorted(self.texts), len(self.texts)):
            fresh.put(key, self.texts[key])
        for kind, options in OPTIONS.items():
            fresh.create_index(kind, options)
        with self.store.state() as lived, fresh.state() as new:
            one, other = dump(lived), dump(new)
        assert one == other
        assert one["topics"] and (one["communities"] or len(self.texts) < 12)


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 100))])
def test_histories(make_store: MakeStore, seed: int) -> None:
    history = History(make_store, seed)
    for _ in range(6):
        history.step()
    history.require_nothing_gone()
    history.require_found(history.put())
    history.require_fresh()

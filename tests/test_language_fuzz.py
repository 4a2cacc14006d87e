"""Unusual texts as statements: each runs or raises a KvstoreError, and the store is sound after all of them."""

from __future__ import annotations

import contextlib
import random
import re
from pathlib import Path

import pytest
from page_running import read_language_pages

import kvstore
from kvstore.errors import KvstoreError
from kvstore.language import get_keywords, iter_tokens, list_expected_terminals

PAGE = read_language_pages()
EXAMPLES: list[str] = re.findall(r"^```sql\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
STATEMENTS = [part.strip() for example in EXAMPLES for part in re.split(r";\n", example) if part.strip()]
OTHER = [
    "'a'",
    "'Payroll'",
    "'hr/pay'",
    "'{}'",
    '"b"',
    "c",
    "documents",
    "bridge",
    "key",
    "?",
    ":d",
    "1",
    "-2.5",
    "1e9",
]
OTHER += ["(", ")", ",", "=", ";", "'", '"', "--", "/*", "*", "\n", "#", "\0", "ünï", "'\u202e'", "9" * 30, "''"]


@pytest.fixture
def filled_store(store: kvstore.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> kvstore.Store:
    """Return a store with a document and a tree in its own folder; the test fails if CHECK reports problems."""
    monkeypatch.chdir(tmp_path)
    store.put("hr/pay", "Wages are paid on the last day. Maria Jensen signs them.", title="Pay")
    store.put("tree.csv", "Payroll,Finance\n", format="pairs")
    return store


def can_execute(store: kvstore.Store, text: str) -> bool:
    """True if a text runs, False if it raises a KvstoreError; other exceptions propagate."""
    has_run = False
    with contextlib.suppress(KvstoreError):
        store.execute(text).fetchall()
        has_run = True
    list_expected_terminals(text)
    return has_run


def split_words(text: str) -> list[str]:
    return [token.text for token in iter_tokens(text) if token.kind != "space"]


def mix_words(chance: random.Random) -> str:
    """Return random words, or a statement of the page with some of its words changed."""
    vocabulary = [*sorted(get_keywords()), *OTHER]
    if chance.random() < 0.4:
        return " ".join(chance.choices(vocabulary, k=chance.randint(1, 10)))
    words = split_words(chance.choice(STATEMENTS))
    for _ in range(chance.randint(0, 3)):
        place = chance.randrange(len(words) + 1)
        words[place : place + chance.randint(0, 1)] = chance.choices(vocabulary, k=chance.randint(0, 2))
    return " ".join(words)


@pytest.mark.slow
def test_5000_random_texts_run_or_raise_a_kvstore_error(filled_store: kvstore.Store) -> None:
    chance = random.Random(4)
    ran = 0
    for number in range(5000):
        ran += can_execute(filled_store, mix_words(chance))
        if filled_store.in_transaction and number % 7 == 0:
            filled_store.execute("ROLLBACK")
    if filled_store.in_transaction:
        filled_store.execute("ROLLBACK")
    assert 500 < ran < 4500, "some texts must run and some must not, or little was tried"
    assert filled_store.check() == []


@pytest.mark.slow
def test_every_prefix_of_every_example_runs_or_raises_a_kvstore_error(filled_store: kvstore.Store) -> None:
    for statement in STATEMENTS:
        for end in range(len(statement) + 1):
            can_execute(filled_store, statement[:end])
        if filled_store.in_transaction:
            filled_store.execute("ROLLBACK")
    assert filled_store.check() == []

"""An embedder, a strategy and a command; the reader is a module of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import click
import numpy as np

import kvstore
from kvstore.arguments import Option
from kvstore.models.protocol import Embeddings, normalised
from kvstore.retrieval.evidence import Evidence
from kvstore.retrieval.lexical_search import rank_by_words
from kvstore.retrieval.query import Query, evidence_of, option


class LetterEmbedder:
    """Frequencies of the first letters of the alphabet in a text: ``letters`` or ``letters:HOW_MANY``."""

    description = "the letters of a text, which say nothing of its meaning"
    poor = True

    def __init__(self, number: str = "26") -> None:
        self.dimension = int(number)
        self.name = "letters" if number == "26" else f"letters:{number}"

    def embed(self, texts: Sequence[str]) -> Embeddings:
        counts = [[text.lower().count(chr(ord("a") + place)) for place in range(self.dimension)] for text in texts]
        return normalised(np.array(counts, np.float32).reshape(len(texts), self.dimension))

    def embed_query(self, text: str) -> Embeddings:
        vector: Embeddings = self.embed([text])[0]
        return vector


class RhymeStrategy:
    """Find chunks that contain the last word of the question."""

    name = "rhymes"
    description = "the words that a question ends with"
    options: Mapping[str, Option] = {"words": Option(1, 1, 9, "how many words at the end of the question count")}

    def retrieve(self, query: Query) -> Evidence:
        words = int(option(query, self, "words"))
        ending = " ".join(query.question.strip("?!. ").split()[-words:])
        ranking = rank_by_words(replace(query, question=ending), query.reach)
        return evidence_of(query, self.name, ranking, "the end of the question", len(ranking))


@click.command()
@click.argument("store")
def count(store: str) -> Any:
    """How many documents STORE has."""
    with kvstore.open(store, readonly=True) as opened:
        click.echo(f"{len(opened)} poems")

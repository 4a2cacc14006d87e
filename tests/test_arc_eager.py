"""The kernel of the parser: what spaCy's own loop gives, move for move."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kvstore_english
from kvstore.models.greedy_parser import GreedyParser, use_kernel_ops
from kvstore.models.lean_import import hide_unneeded_modules
from kvstore_cext.arc_eager import parse

with hide_unneeded_modules():
    import spacy

WORDS = """the old engine of a mill that Watt built in Leeds was sold to its owner , and she likes it . ? ! because He
did not tell them which ones were hers ( or his ) -- 1788 \n\n""".split(" ")


@pytest.fixture(scope="module")
def pipeline() -> Any:
    nlp = spacy.load(Path(kvstore_english.__file__).parent / "pipeline", exclude=["lemmatizer"])
    use_kernel_ops(nlp)
    return nlp


def generate_texts(seed: int) -> list[str]:
    choose = random.Random(seed)
    return ["", "Dogs", " ", *(" ".join(choose.choices(WORDS, k=choose.randint(1, 80))) for _ in range(120))]


def parse_texts(nlp: Any, texts: list[str], parser: Any) -> list[list[tuple[int, str, bool]]]:
    docs = (nlp.make_doc(text) for text in texts)
    for name, component in nlp.pipeline:
        docs = (parser if name == "parser" else component).pipe(docs, batch_size=40)
    return [[(word.head.i, word.dep_, word.is_sent_start) for word in doc] for doc in docs]


def test_it_parses_as_spacy_does(pipeline: Any) -> None:
    parser = pipeline.get_pipe("parser")
    assert parse_texts(pipeline, generate_texts(1), GreedyParser(parser)) == parse_texts(
        pipeline, generate_texts(1), parser
    )


@pytest.mark.slow
def test_it_parses_like_spacy_for_any_network(pipeline: Any) -> None:
    """Weights of chance lead to states that a trained network never comes to."""
    parser = pipeline.get_pipe("parser")
    upper = parser.model.get_ref("upper")
    trained = upper.get_param("W"), upper.get_param("b")
    try:
        for seed in range(4):
            chance = np.random.default_rng(seed)
            upper.set_param("W", chance.standard_normal(trained[0].shape, np.float32))
            # The moves with a label are many: without this nothing else would ever be made.
            bias = chance.standard_normal(trained[1].shape, np.float32)
            bias[[0, 1, -1]] += 20 * chance.random(3, np.float32)
            upper.set_param("b", bias)
            texts = generate_texts(seed)
            assert parse_texts(pipeline, texts, GreedyParser(parser)) == parse_texts(pipeline, texts, parser)
    finally:
        for name, value in zip(("W", "b"), trained, strict=True):
            upper.set_param(name, value)


@pytest.mark.parametrize(
    ("rows", "bias", "upper", "kinds", "lengths"),
    [
        ((3, 26), 2, (1, 32), [0, 1], [1, 2]),  # a token more than there are rows
        ((3, 26), 2, (1, 32), [0, 1], [3, -1]),
        ((3, 26), 2, (1, 32), [0, 2], [2]),  # no way off the stack
        ((3, 26), 2, (1, 32), [0, 1, 5], [2]),
        ((3, 26), 2, (1, 31), [0, 1], [2]),
        ((3, 26), 3, (1, 32), [0, 1], [2]),
        ((3, 26), 2, (3, 32), [0, 1], [2]),
        ((3, 26), 2, (1, 32), [0, 1] * 17, [2]),
    ],
)
def test_arrays_that_do_not_match_are_refused(
    rows: tuple[int, int], bias: int, upper: tuple[int, int], kinds: list[int], lengths: list[int]
) -> None:
    heads, labels = np.zeros((2, rows[0] - 1), np.int32)
    with pytest.raises(ValueError, match="do not match in shape|not a kind of move|negative length"):
        parse(
            np.zeros(rows, np.float32),
            np.zeros(bias, np.float32),
            np.zeros(upper, np.float32),
            np.zeros(upper[1], np.float32),
            np.array(kinds, np.uint8),
            np.array(lengths, np.int32),
            heads,
            labels,
        )

"""spaCy's dependency parser and its matrix products, computed by *kernels*: kvstore's C code in ``kvstore_cext``. A
*move* is an action of the transition-based parser: a letter and a dependency label, such as "L-nsubj".

In: spaCy documents with word vectors, and a trained parser. Out: the heads and labels that spaCy's parser finds, in a
fraction of the time: spaCy takes the interpreter's lock many times per word. The parse of a text is the same, bit for
bit, regardless of the other texts in its batch, because each row of a matrix product is computed independently; the
libraries that spaCy and thinc use do not guarantee this. Imports spaCy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import numpy as np
from spacy.language import Language
from spacy.pipeline._parser_internals.nonproj import deprojectivize  # type: ignore[import-not-found]
from spacy.tokens import Doc
from thinc.backends import NumpyOps

from kvstore_cext.arc_eager import MOVE_LETTERS, parse
from kvstore_cext.row_products import compute_row_products

#: The number of documents whose words pass the network's first layer together.
BATCH_DOCUMENTS = 4
#: The maximum number of moves that the kernel scores at a time.
_MOVES_PER_BLOCK = 32


class GreedyParser:
    """A pipeline component that replaces spaCy's parser and uses its model. ``_kinds`` and ``_labels`` are the letters
    and the labels of the moves. ``_lower`` and ``_upper`` are the last two layers of the parser's network.
    """

    def __init__(self, parser: Any) -> None:
        """Copy the moves (parsing actions), labels and weights of spaCy's parser into arrays that the kernel reads."""
        self.model = parser.model
        names = [parser.moves.get_class_name(number).partition("-") for number in range(parser.moves.n_moves)]
        self._kinds = np.array([MOVE_LETTERS.index(letter) for letter, _, _ in names], np.uint8)
        strings = parser.vocab.strings
        # A word without a head has the move -1, so the last label is the label of a root.
        labels = [strings.add(label) for _, _, label in names] + [strings.add("ROOT")]
        self._labels = np.array(labels, np.uint64)
        # The layers of the network are "tok2vec", "lower" and "upper".
        self._lower = self.model.get_ref("lower")
        self._bias = np.ascontiguousarray(self._lower.get_param("b"), np.float32).ravel()
        upper = self.model.get_ref("upper")
        weights, bias = upper.get_param("W"), upper.get_param("b")
        # The kernel scores whole blocks of moves, so the weights are padded with zeros.
        padding = -(-len(weights) // _MOVES_PER_BLOCK) * _MOVES_PER_BLOCK - len(weights)
        self._upper = np.ascontiguousarray(np.pad(weights, ((0, padding), (0, 0))).T, np.float32)
        self._upper_bias = np.pad(bias, (0, padding)).astype(np.float32)

    def __call__(self, doc: Doc) -> Doc:
        """Set the syntactic head and the dependency label of each word of a document, and return the document."""
        return next(self.pipe([doc]))

    def pipe(self, docs: Iterable[Doc], *, batch_size: int = BATCH_DOCUMENTS) -> Iterator[Doc]:
        """Set the syntactic heads and dependency labels in documents, ``batch_size`` at a time; yield them in order."""
        remaining_docs = iter(docs)
        while batch := list(islice(remaining_docs, batch_size)):
            self._parse_batch([doc for doc in batch if len(doc)])
            yield from batch

    def _parse_batch(self, docs: list[Doc]) -> None:
        """Set the syntactic head and the dependency label of each word in spaCy documents that are not empty."""
        if not docs:
            return
        # The layer's output for no word, then for each word, in each slot of the parser's state that a word can fill.
        outputs = self._lower.predict(self.model.get_ref("tok2vec").predict(docs))
        lengths = np.array([len(doc) for doc in docs], np.int32)
        heads, moves = np.empty((2, lengths.sum()), np.int32)  # of each word, written by the kernel
        parse(
            outputs.reshape(len(outputs), -1),
            self._bias,
            self._upper,
            self._upper_bias,
            self._kinds,
            lengths,
            heads,
            moves,
        )
        ends = lengths.cumsum()
        for doc, start, end in zip(docs, ends - lengths, ends, strict=True):
            # spaCy stores a head as its distance from the word; a word without a head is its own.
            indexes = np.arange(end - start)
            head_indexes = np.where(heads[start:end] < 0, indexes, heads[start:end])
            values: Any = np.stack(((head_indexes - indexes).astype(np.uint64), self._labels[moves[start:end]]), axis=1)
            deprojectivize(doc.from_array(["HEAD", "DEP"], values))


def use_greedy_parser(nlp: Language) -> None:
    """Replace the parser of the spaCy pipeline ``nlp`` with kvstore's faster one (:class:`GreedyParser`), in place."""
    nlp._components[nlp.component_names.index("parser")] = ("parser", GreedyParser(nlp.get_pipe("parser")))


class KernelOps(NumpyOps):  # type: ignore[misc]  # an extension without types
    """The operations of numpy, with the matrix product of kvstore's kernel."""

    def gemm(self, x: Any, y: Any, out: Any = None, trans1: bool = False, trans2: bool = False) -> Any:
        """Return the matrix product x y in float32, as thinc's ``Ops.gemm`` does.

        ``trans1`` and ``trans2`` transpose x and y first. The product is written to ``out``, if it is not None.
        """
        left = np.ascontiguousarray(x.T if trans1 else x)
        right = np.ascontiguousarray(y if trans2 else y.T)  # the kernel multiplies rows by rows
        products = np.empty((len(left), len(right)), np.float32) if out is None else out
        compute_row_products(left, right, products)
        return products


def use_kernel_ops(nlp: Language) -> None:
    """Make every model of a spaCy pipeline compute its matrix products with kvstore's kernel (:class:`KernelOps`)."""
    ops = KernelOps()
    for _, component in nlp.pipeline:
        model = getattr(component, "model", None)
        for layer in model.walk() if model else ():
            layer.ops = ops

"""Draw the batches of the training. An *example* is a question with a *window* of sentences, which answers it or not.
In a *near miss*, it only seems to answer. A *pair* is an answered example and a near miss; a *group* is an answered
example and unanswered ones; a *fold* is a third of the articles.

A batch depends only on (seed, step). For each of some near misses that people wrote, it has a window with the plausible
words, another window of the article, and a question about the same passage that the window answers. For each question
changed by rule, it has the original and the changed question with the same window. For each question with an answer, it
has the window that answers and others that share words with the question.
"""

from __future__ import annotations

import collections
import random
from typing import NamedTuple

import torch
from made_questions import MADE_SOURCE, build_made_row
from network import encode_examples
from rows import (
    SQUAD2_SOURCES,
    DrawnExamples,
    Example,
    Row,
    Span,
    build_answered_example,
    build_near_miss_example,
    build_similar_example,
    build_unanswered_example,
    change_question,
    hash_text,
    vary_form,
)
from tokenizers import Tokenizer

#: The number of unanswered examples in a group, and the share of them whose windows can be anywhere in the article.
_NUM_OTHERS, _SHARE_RANKED = 2, 0.75
#: The share of the groups whose question is from SQuAD 2.0, whose style its near misses have.
_SHARE_SQUAD2 = 0.3
#: The share of questions made by rule that are also changed by rule.
_SHARE_MADE_CHANGED = 0.6
#: The share of near misses whose partner is answered in the same window, if there is such a question.
_SHARE_SAME_WINDOW = 0.7
NUM_FOLDS = 3


def compute_fold(article: str) -> int:
    """Return the fold of an article; each teacher is trained without one fold."""
    return int(hash_text(f"fold {article}")[:8], 16) % NUM_FOLDS


class BatchSizes(NamedTuple):
    """The numbers of near misses, changed questions, groups, and further groups of questions made by rule in a batch.

    A batch is sorted by length and run in ``num_parts`` parts, which saves padding.
    """

    near_misses: int = 40
    changed: int = 24
    groups: int = 70
    made: int = 10
    num_parts: int = 2


class Part(NamedTuple):
    """Windows of similar length: their ordinals in the batch, the inputs of the network, and the tokens that answer.

    `spans` is [windows, 2], the first and last token, or -1 for a window without words that answer.
    """

    ordinals: torch.Tensor
    ids: torch.Tensor
    mask: torch.Tensor
    types: torch.Tensor
    spans: torch.Tensor


class Batch(NamedTuple):
    """A batch: parts, labels and folds of the windows, pairs (answered, near miss), and groups.

    `groups` is [groups, windows], with the ordinal of the window that answers first, filled with -1. The fold
    -1 marks an everyday document.
    """

    parts: list[Part]
    labels: torch.Tensor
    folds: torch.Tensor
    pairs: torch.Tensor
    groups: torch.Tensor


class Draft:
    """The examples of a batch while it is drawn."""

    def __init__(self) -> None:
        """Start without examples; pairs and groups are indexes into ``examples``."""
        self.examples: list[Example] = []
        self.articles: list[str] = []
        self.pairs: list[tuple[int, int]] = []
        self.groups: list[list[int]] = []

    def add(self, row: Row, examples: list[Example], rng: random.Random) -> None:
        """Add the examples made from ``row``; the form of all of them (title, question mark, capitals) varies alike."""
        self.examples += vary_form(examples, row.title, rng)
        self.articles += [row.article] * len(examples)

    def extend(self, drawn: DrawnExamples) -> None:
        """Add drawn examples of everyday documents, which are of no article, with their pairs and groups."""
        start = len(self.examples)
        self.examples += drawn.examples
        self.articles += [""] * len(drawn.examples)
        self.pairs += [(start + answered, start + near_miss) for answered, near_miss in drawn.pairs]
        self.groups += [[start + example for example in group] for group in drawn.groups]


class Batches(torch.utils.data.Dataset[Batch]):
    """The batches of a training, by step."""

    def __init__(
        self, rows: list[Row], tokenizer: Tokenizer, seed: int, left_out: int, sizes: BatchSizes | None = None
    ) -> None:
        """Draw from `rows` without the articles of the fold `left_out` (-1: from all).

        ``sizes`` None means the default sizes.
        """
        rows = [row for row in rows if compute_fold(row.article) != left_out]
        self._tokenizer = tokenizer
        self._seed = seed
        self._sizes = sizes or BatchSizes()
        self._near_misses = [row for row in rows if not row.answers]
        self._answerable = [row for row in rows if row.answers]
        self._squad2 = [row for row in self._answerable if row.source in SQUAD2_SOURCES]
        self._with_spans = [row for row in self._answerable if row.source != "squad1_sentences"]
        self._by_passage: dict[str, list[Row]] = collections.defaultdict(list)
        for row in self._answerable:
            self._by_passage[row.passage].append(row)

    def __getitem__(self, step: int) -> Batch:
        """Return the batch of a step: near misses, changed questions and groups, all drawn with the step as seed."""
        rng = random.Random(f"{self._seed}:{step}")
        draft = Draft()
        self._add_rows(draft, rng)
        return self._encode_draft(draft, rng)

    def _add_rows(self, draft: Draft, rng: random.Random) -> None:
        """Add near misses, changed questions and groups, as many as the sizes of a batch say."""
        for row in rng.sample(self._near_misses, self._sizes.near_misses):
            self._add_near_miss(draft, row, rng)
        self._add_changed_questions(draft, rng)
        self._add_groups(draft, rng)

    def _add_near_miss(self, draft: Draft, row: Row, rng: random.Random) -> None:
        """Add a question that its passage does not answer, with a window that seems to answer it.

        It is paired with an answered question about the same passage; a pair is (answered, near miss). A window of the
        article that resembles the question is added too, if the row has one.
        """
        near_miss, window = build_near_miss_example(row, rng)
        examples = [near_miss]
        similar_window = build_similar_example(row, rng)
        if similar_window is not None:
            examples.append(similar_window)
        partner = self._draw_partner(row, window, rng)
        if partner is not None:
            start = len(draft.examples)
            draft.pairs.append((start + len(examples), start))
            examples.append(partner)
        draft.add(row, examples, rng)

    def _draw_partner(self, row: Row, window: Span, rng: random.Random) -> Example | None:
        """Return an answered example about the same passage, preferably with its answer in ``window``, or None."""
        candidates = self._by_passage.get(row.passage, [])
        answered_in_window = [
            candidate
            for candidate in candidates
            if any(window[0] <= start and end <= window[1] for start, end in candidate.answers)
        ]
        if answered_in_window and rng.random() < _SHARE_SAME_WINDOW:
            candidates = answered_in_window
        return build_answered_example(rng.choice(candidates), rng) if candidates else None

    def _add_changed_questions(self, draft: Draft, rng: random.Random) -> None:
        """Add answered questions, each paired with a changed question that the same window does not answer."""
        num_added = 0
        while num_added < self._sizes.changed:
            row = rng.choice(self._with_spans)
            answered = build_answered_example(row, rng)
            question = change_question(row, rng) if answered else None
            if answered is None or question is None:
                continue
            draft.pairs.append((len(draft.examples), len(draft.examples) + 1))
            draft.add(row, [answered, Example(question, answered.window, answered=False, spans=[])], rng)
            num_added += 1

    def _add_groups(self, draft: Draft, rng: random.Random) -> None:
        """Add groups of windows, each for one question; only the first window answers it.

        The last questions are made by rule; most of them are paired with a changed question.
        """
        while len(draft.groups) < self._sizes.groups + self._sizes.made:
            drawn_row = rng.choice(self._squad2 if rng.random() < _SHARE_SQUAD2 else self._answerable)
            row = drawn_row if len(draft.groups) < self._sizes.groups else build_made_row(drawn_row, rng)
            answered = build_answered_example(row, rng) if row else None
            if row is None or answered is None:  # no question can be made, or its answer does not fit into a window
                continue
            examples = [answered, *_draw_others(row, rng)]
            start = len(draft.examples)
            draft.groups.append(list(range(start, start + len(examples))))
            if row.source == MADE_SOURCE and rng.random() < _SHARE_MADE_CHANGED:
                question = change_question(row, rng)
                if question is not None:
                    draft.pairs.append((start, start + len(examples)))
                    examples.append(Example(question, answered.window, answered=False, spans=[]))
            draft.add(row, examples, rng)

    def _encode_draft(self, draft: Draft, rng: random.Random) -> Batch:
        """Convert the drawn examples to tensors, in parts of similar length.

        Pairs and groups keep the ordinals of the examples in the draft. The span of an example is a random one of its
        answers, or (-1, -1).
        """
        inputs = encode_examples(self._tokenizer, draft.examples)
        spans = torch.tensor([rng.choice(targets) if targets else (-1, -1) for targets in inputs.targets])
        lengths = inputs.mask.sum(1)
        parts = []
        for ordinals in torch.argsort(lengths).chunk(self._sizes.num_parts):
            length = int(lengths[ordinals].max())
            ids, mask, types = (tensor[ordinals, :length] for tensor in (inputs.ids, inputs.mask, inputs.types))
            parts.append(Part(ordinals, ids, mask, types, spans[ordinals]))
        groups = torch.full((len(draft.groups), max(map(len, draft.groups))), -1)  # -1 fills short rows
        for index, ordinals in enumerate(draft.groups):
            groups[index, : len(ordinals)] = torch.tensor(ordinals)
        labels = torch.tensor([float(example.answered) for example in draft.examples])
        folds = torch.tensor([compute_fold(article) for article in draft.articles])
        return Batch(parts, labels, folds, torch.tensor(draft.pairs), groups)


def _draw_others(row: Row, rng: random.Random) -> list[Example]:
    """Return up to _NUM_OTHERS examples whose windows do not answer the question; most resemble it."""
    others = []
    for _ in range(_NUM_OTHERS):
        other = build_similar_example(row, rng) if rng.random() < _SHARE_RANKED else None
        other = other or build_unanswered_example(row, rng)
        if other is not None:
            others.append(other)
    return others

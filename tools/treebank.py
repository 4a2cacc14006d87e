"""Dependency treebanks in CoNLL-U, as spaCy documents.

In: files ``NAME_{train,dev,test}.conllu.xz``. Out: sentences of gold words, and spaCy documents made from them: words,
original spaces, tags, morphology, lemmas, heads, and paragraph breaks as separate words of blanks, as spaCy's tokenizer
produces them. A line that is not CoNLL-U raises a ValueError that names the file and line.
"""

from __future__ import annotations

import lzma
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from spacy.tokens import Doc
from spacy.vocab import Vocab

#: The treebank features that the morphologizer learns: those that lemmas, relations and voices depend on.
FEATURES = frozenset("Degree Number Person Polarity Poss PronType Tense VerbForm Voice".split())


@dataclass(slots=True)
class Word:
    """A word of a treebank: ``head`` is the index of its head in the sentence, its own index for a root."""

    form: str
    lemma: str
    pos: str
    tag: str
    morph: str
    head: int
    relation: str
    space_after: bool


@dataclass(slots=True)
class Sentence:
    """The words of a sentence, and whether it begins a paragraph."""

    words: list[Word] = field(default_factory=list)
    opens_paragraph: bool = False


def iter_documents(path: Path) -> Iterator[list[Sentence]]:
    """Yield the sentences of each document of a treebank file in CoNLL-U."""
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        sentences: list[Sentence] = []
        sentence = Sentence()
        # Of the current multiword token, such as "don't": its last word, and if a space follows the token.
        last_unspaced_index, space_after_unspaced = 0, True
        for line_number, line in enumerate(lines, 1):
            line = line.rstrip("\n")
            if not line:
                if sentence.words:
                    sentences.append(sentence)
                sentence, last_unspaced_index = Sentence(), 0
            elif line.startswith("# newdoc"):
                if sentences:
                    yield sentences
                sentences = []
            elif line.startswith("# newpar"):
                sentence.opens_paragraph = True
            elif not line.startswith("#"):
                columns = line.split("\t")
                if len(columns) != 10:
                    raise ValueError(f"{path}, line {line_number}: {len(columns)} columns, not the 10 of CoNLL-U")
                space_after = "SpaceAfter=No" not in columns[9].split("|")
                if "." in columns[0]:  # an empty node, which is not in the text
                    continue
                if "-" in columns[0]:  # the range of a multiword token
                    last_unspaced_index, space_after_unspaced = int(columns[0].partition("-")[2]), space_after
                    continue
                index = int(columns[0])
                # The words of a multiword token have no space between them.
                if index < last_unspaced_index:
                    space_after = False
                elif index == last_unspaced_index:
                    space_after = space_after_unspaced
                sentence.words.append(_parse_word(columns, space_after))
        if sentences:
            yield sentences


def _parse_word(columns: Sequence[str], space_after: bool) -> Word:
    """Return the word of a line of CoNLL-U; ``space_after`` is True if a space follows it in the text."""
    index, form, lemma, pos, tag, morph, head, relation = columns[:8]
    features = "|".join(pair for pair in morph.split("|") if pair.partition("=")[0] in FEATURES)
    head_index = int(head) - 1 if int(head) else int(index) - 1
    return Word(form, lemma, pos, tag, features, head_index, "ROOT" if relation == "root" else relation, space_after)


def build_document(
    vocab: Vocab, sentences: Iterable[Sentence], breaks: Sequence[str], *, wrap: int = 0, blanks: bool = True
) -> Doc:
    """Return the gold document of the sentences; ``breaks[i]`` (white space or empty) precedes sentence *i*.

    Without ``blanks``, words of white space have no annotation that is scored. With ``wrap``, every space that would
    end a line longer than this number of characters becomes a line break.
    """
    words: list[Word] = []
    heads: list[int] = []
    line_length = 0

    def append_blank(break_text: str) -> None:
        """Append a word of blanks, attached to the previous word."""
        words[-1].space_after = False
        heads.append(len(words) - 1)
        words.append(
            Word(break_text, break_text, "SPACE", "_SP", morph="", head=0, relation="dep", space_after=False)
            if blanks
            else Word(break_text, "", "", "", morph="", head=0, relation="punct", space_after=False)
        )

    for sentence, break_text in zip(sentences, breaks, strict=True):
        if break_text and words:
            append_blank(break_text)
            line_length = 0
        positions: list[int] = []
        for word in sentence.words:
            if wrap and words and words[-1].space_after and line_length + len(word.form) > wrap:
                append_blank("\n")
                line_length = 0
            positions.append(len(words))
            words.append(replace(word))
            heads.append(-1)
            line_length += len(word.form) + word.space_after
        for position, word in zip(positions, sentence.words, strict=True):
            heads[position] = positions[word.head]
    return Doc(
        vocab,
        words=[word.form for word in words],
        spaces=[word.space_after for word in words],
        tags=[word.tag for word in words],
        pos=[word.pos for word in words],
        morphs=[word.morph for word in words],
        lemmas=[word.lemma for word in words],
        heads=heads,
        deps=[word.relation for word in words],
    )

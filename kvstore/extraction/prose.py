"""Parsing of a document's prose: the relations it states and the terms it uses repeatedly. A *relation* states that one
name is the child of another. A *term* is a common noun phrase; a document that uses it often enough introduces it as a
name. *Prose* is sentences and list items.

In: a text, its chunks and a language pipeline. Out: :class:`.Relation` objects with the bytes of the sentence that
states each, and names. Every chunk is parsed once, as one text: its sentences, and its list items without their
markers. Headings, tables, code and text with few words are not parsed. Documents go through the pipeline in batches,
which is faster; the parse of a text depends only on the text.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from ..models.language import LanguagePipeline, Parse
from ..text.blocks import replace_sound_annotations, to_plain_text, unwrap_links
from ..text.mail_fields import is_mail_header
from ..text.names import Name, to_singular
from ..text.normalize import to_nfc
from ..text.patterns import compile_lazily
from .chunking import ByteOffsets, Chunk, SentenceSpan
from .noun_phrases import NounPhrases, Term
from .relations import StatedRelation, extract_statements
from .stated_relations import Relation
from .syntax import iter_sentences

#: The minimum number of uses of a term's head that makes a clear term a name.
_MIN_HEAD_USES = 2

#: The relations stated in the prose of a chunk, and its noun phrases.
_ChunkStatements = tuple[list[StatedRelation], list[Term]]

_MARKER_PATTERN = compile_lazily(r"\A\s*(?:>\s*)*(?:[-*+]\s+|\d{1,9}[.)]\s+)?")


@dataclass(slots=True)
class Prose:
    """The relations found in the prose of a document, and the names of its noun phrases with their counts."""

    relations: list[Relation] = field(default_factory=list)
    phrases: Counter[Term] = field(default_factory=Counter)

    def iter_names(self) -> Iterator[Name]:
        """Yield the names that the prose introduces as entities.

        These are the child and parent of each relation, and the terms (common noun phrases) that are frequent in
        singular or plural. Certain compounds (``is_clear``) need only a frequent last word. A term that may be a noun
        and its verb (``client runs``) is omitted unless it is more frequent in the singular.
        """
        for relation in self.relations:
            yield _make_name(relation.child)
            yield _make_name(relation.parent)
        form_counts: Counter[str] = Counter()
        for term, count in self.phrases.items():
            form_counts[term.form] += count
        singular_forms = {form: to_singular(form) or form for form in form_counts}
        # The number of uses of each last word. A plural is not counted if its singular is, because a use of a plural is
        # recorded under both.
        head_counts: Counter[str] = Counter()
        for form, count in form_counts.items():
            if singular_forms[form] not in form_counts or form == singular_forms[form]:
                head_counts[_get_last_word(form)] += count
        for term in self.phrases:
            # A plural also counts as its singular.
            singular_form = singular_forms[term.form]
            if term.is_verbal and singular_form != term.form and form_counts[singular_form] <= form_counts[term.form]:
                continue  # never used in the singular: probably a noun and its verb
            has_repeated_head = term.is_clear and head_counts[_get_last_word(singular_form)] >= _MIN_HEAD_USES
            if has_repeated_head or max(form_counts[term.form], form_counts[singular_form]) >= term.min_uses:
                yield _make_name(term.form)


@dataclass(slots=True)
class _ChunkProse:
    """The prose of a chunk as plain text; ``starts[i]`` is the offset of ``sentences[i]`` in it."""

    text: str = ""
    starts: list[int] = field(default_factory=list)
    sentences: list[SentenceSpan] = field(default_factory=list)

    def add(self, plain_text: str, sentence: SentenceSpan, starts_paragraph: bool) -> None:
        """Append ``plain_text``, a sentence of the chunk without markup, to the text to parse.

        Before it comes a space or, if the sentence ``starts_paragraph``, a blank line. ``sentence`` is its place in the
        document.
        """
        if self.sentences:
            self.text += "\n\n" if starts_paragraph else " "
        self.starts.append(len(self.text))
        self.sentences.append(sentence)
        self.text += plain_text

    def find_containing_sentence(self, offset: int) -> SentenceSpan:
        """Return the sentence of the chunk that contains the character at ``offset`` of the parsed text."""
        return self.sentences[max(0, bisect_right(self.starts, offset) - 1)]


def parse_prose(
    documents: Iterable[tuple[str, Sequence[Chunk], ByteOffsets]], pipeline: LanguagePipeline
) -> Iterator[Prose]:
    """Parse the prose of documents, and yield the relations and noun phrases of each document.

    A document is its text, its chunks, and the byte offset of every character. Raises LanguageError if the pipeline
    cannot be loaded.
    """
    prose_by_document = []
    for text, chunks, byte_offsets in documents:
        all_prose = [_extract_prose(text, chunk) for chunk in chunks]
        prose_by_document.append(([chunk_prose for chunk_prose in all_prose if chunk_prose.sentences], byte_offsets))
    chunk_statements = pipeline.parse_texts(
        (chunk_prose.text for document_prose, _ in prose_by_document for chunk_prose in document_prose),
        _collect_statements,
    )
    for document_prose, byte_offsets in prose_by_document:
        prose = Prose()
        # The document's prose must come first, so that zip does not consume a result of the next document.
        for chunk_prose, (stated_relations, phrases) in zip(document_prose, chunk_statements, strict=False):
            prose.phrases.update(phrases)
            for statement in stated_relations:
                # The span covers the sentences that assert the relation, in bytes of the document.
                first_sentence = chunk_prose.find_containing_sentence(statement.start)
                last_sentence = chunk_prose.find_containing_sentence(statement.end - 1)
                span = int(byte_offsets[first_sentence.start]), int(byte_offsets[last_sentence.end])
                prose.relations.append(
                    Relation(statement.child, statement.parent, statement.kind, statement.confidence, *span)
                )
        yield prose


def _collect_statements(_text: str, parses: Sequence[Parse]) -> _ChunkStatements:
    """Return the informative relations and the terms (noun phrases) of a chunk, given the parses of its text.

    This is the callback of :meth:`.LanguagePipeline.parse_texts`, which also passes the text.
    """
    stated_relations: list[StatedRelation] = []
    phrases: list[Term] = []
    for parse in parses:
        for sentence in iter_sentences(parse.doc):
            for statement in extract_statements(sentence):
                if statement.is_informative:
                    stated_relations.append(statement.shift(parse.start))
            phrases += NounPhrases(sentence).find_terms()
    return stated_relations, phrases


def _extract_prose(text: str, chunk: Chunk) -> _ChunkProse:
    """Return the sentences and list items of a chunk that are prose, as plain text in Unicode normal form C.

    Markup and list markers are removed, and sound annotations replaced. Lines of mail headers are omitted.
    """
    chunk_prose = _ChunkProse()
    previous_end = chunk.start
    for sentence in chunk.sentences:
        if sentence.kind in ("prose", "item"):
            if is_mail_header(text, sentence.start, sentence.end):
                continue
            content = _MARKER_PATTERN.sub("", text[sentence.start : sentence.end], count=1)
            plain_text = to_nfc(to_plain_text(replace_sound_annotations(unwrap_links(content))))
            num_letters, num_spaces = sum(map(str.isalpha, plain_text)), plain_text.count(" ")
            # Prose has at least three words, and two thirds of its characters other than spaces are letters.
            if num_spaces >= 2 and 3 * num_letters >= 2 * (len(plain_text) - num_spaces):
                chunk_prose.add(plain_text, sentence, starts_paragraph="\n" in text[previous_end : sentence.start])
        previous_end = sentence.end
    return chunk_prose


def _get_last_word(form: str) -> str:
    """Return the last word of ``form``, a noun phrase as written: its main noun in English."""
    _, _, word = form.rpartition(" ")
    return word


def _make_name(form: str) -> Name:
    """Return a name as written (``form``) with its kind: "name" with a capital at its start, otherwise "term"."""
    return Name(form, "name" if form[:1].isupper() else "term")

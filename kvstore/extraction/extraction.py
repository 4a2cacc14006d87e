"""Extraction: everything that is derived from a single document. *Terms* are stems of words, and *abstracts* are
summaries. A document *introduces* names: it makes them known as entities. A *relation* states that one name is the
child of another. A document of *pairs* has only relations.

In: a document's key, title, text and format, and the store's fixed settings. Out: an :class:`ExtractedDocument`: chunks
with their terms, the sections, the abstract tree, the names it introduces, and the relations it states. Extraction is a
pure function, so it can run in other processes and on other machines. Empty or too long text is an InputError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ..models.language import ENGLISH, open_language
from ..process.collection_pause import pause_collection, promote_objects
from ..process.frozen_dataclass import frozen_dataclass
from ..settings import FixedSettings
from ..structures.documents.documents import Section, build_heading_path
from ..text.blocks import Block, format_summary_sentence, parse_blocks, split_chunk_blocks, to_plain_text
from ..text.capital_names import CapitalNames, load_name_words
from ..text.languages import detect_english, find_document_language
from ..text.mail_fields import is_address_field, is_mail_header, split_field_lines, split_mail_fields
from ..text.mail_names import extract_mail_names
from ..text.names import (
    Name,
    SentenceNames,
    extract_title_names,
    find_code_terms,
    find_identifiers,
    find_marked_names,
    is_name_key,
)
from ..text.normalize import to_entity_key, to_nfc
from ..text.sentences import split_sentences
from ..text.stated_names import MAX_ENTITY_KEY_BYTES, check_tree_name
from ..text.words import count_chunk_terms, get_document_stemmer
from .abstracts import AbstractTree, AbstractTreeBuilder
from .chunking import ByteOffsets, Chunk, Heading, Span, chunk_at_spans, chunk_text
from .document_names import Introduction, collect_introductions, find_occurring_keys
from .stated_relations import Relation, extract_structural_relations, get_own_tree_name, parse_pairs
from .validation import PAIRS_FORMAT, ValidDocument, add_vectors_to_digest, validate

if TYPE_CHECKING:
    from .prose import Prose

#: The number of documents whose derived objects outnumber the other objects of a program.
_MIN_LARGE_BATCH = 256

#: A callback that receives the embedding texts.
TextsCallback = Callable[[list[str]], None]


@frozen_dataclass
class ChunkDraft:
    """A chunk to be stored: bytes ``start`` to ``end`` of the text, its section, and its terms (stems) with counts.

    The terms include the terms of the title and the headings. ``length`` is the sum of the counts.
    """

    start: int
    end: int
    section: int
    text: str
    terms: dict[str, int]
    length: int


@dataclass(frozen=True, slots=True)
class ExtractedDocument(ValidDocument):
    """A document and everything derived from it alone.

    ``tree`` has its abstracts (summaries), None if it consists of pairs. ``introductions`` are the names that it makes
    known as entities, with both names of every relation. ``parts`` has the data that optional systems, such as one that
    embeds sentences, derived from the document, by the name of the derivation. ``language`` is the name of its
    language, or None if the language is unknown.
    """

    language: str | None = None
    sections: list[Section] = field(default_factory=list)
    chunks: list[ChunkDraft] = field(default_factory=list)
    tree: AbstractTree | None = None
    introductions: list[Introduction] = field(default_factory=list)
    relations: list[Relation] = field(default_factory=list)
    parts: dict[str, Any] = field(default_factory=dict)


def build_embedding_text(title: str | None, headings: list[str], text: str, context: str = "") -> str:
    """Return the text that a chunk's vector is computed from; ``text`` is the chunk's own text.

    It has the document's title and the headings above the chunk, each once, then ``context`` unless the text contains
    it, then the text.
    """
    titles = list(dict.fromkeys(filter(None, [title, *headings])))
    body = to_plain_text(text)
    prefix_lines = [" > ".join(titles), context if context not in body else ""]
    return "".join(f"{line}\n" for line in prefix_lines if line) + body


def get_first_sentence(text: str, language: str | None = None) -> str:
    """Return the first sentence of a document as plain text, given the text of its first chunk.

    ``language`` decides where the sentence ends (None: the rules for English). Returns an empty string if the chunk has
    only headings, tables and code.
    """
    paragraph = next((block for block in split_chunk_blocks(text) if block.kind in ("prose", "item")), None)
    if paragraph is None:
        return ""
    prose = text[paragraph.start : paragraph.end]
    return next((format_summary_sentence(prose[start:end]) for start, end in split_sentences(prose, language)), "")


def extract(
    key: str,
    text: str,
    settings: FixedSettings,
    *,
    title: str | None = None,
    source: str | None = None,
    meta: Mapping[str, Any] | None = None,
    format: str = "text",
    left_out: int = 0,
    chunks: str | Sequence[Sequence[int]] | None = None,
) -> ExtractedDocument:
    """Validate a document, and derive its chunks, summaries, names and relations by the store's ``settings``.

    ``left_out`` is the number of characters of the source page that were removed as navigation. ``chunks`` are the
    chunks that the user sets: ``whole``, or spans in characters; None to chunk automatically. Raises InputError if the
    document is invalid.
    """
    document = validate(
        key, text, title=title, source=source, meta=meta, format=format, left_out=left_out, chunks=chunks
    )
    return extract_document(document, settings)


def extract_document(document: ValidDocument, settings: FixedSettings) -> ExtractedDocument:
    """Return a validated document with its chunks, their terms (stems), abstracts (summaries), names and relations.

    Raises InputError for no chunks or an invalid pair (child, parent), LanguageError if there is no language pipeline.
    """
    (extracted,) = extract_documents([document], settings)
    if isinstance(extracted, InputError):
        raise extracted
    return extracted


def extract_documents(
    documents: Iterable[ValidDocument], settings: FixedSettings, on_texts: TextsCallback | None = None
) -> list[ExtractedDocument | InputError]:
    """Return each document with its chunks, summaries, names and relations, or the InputError of an invalid one.

    The results are the same as for each document alone, but prose is parsed in batches, which is faster.
    ``on_texts`` is called once, with the embedding texts of all chunks, before parsing starts. Raises LanguageError if
    the language pipeline is missing.
    """
    outcomes: list[ChunkedDocument | ExtractedDocument | InputError] = []  # documents of pairs are already extracted
    for document in documents:
        try:
            outcomes.append(chunk_document(document, settings))
        except InputError as error:
            outcomes.append(error)
    chunked_documents = [outcome for outcome in outcomes if isinstance(outcome, ChunkedDocument)]
    if on_texts is not None:
        on_texts([text for chunked in chunked_documents for text in chunked.build_embedding_texts(settings)])
    extracted = iter(extract_chunked(chunked_documents, settings))
    return [next(extracted) if isinstance(outcome, ChunkedDocument) else outcome for outcome in outcomes]


def extract_chunked(documents: Sequence[ChunkedDocument], settings: FixedSettings) -> list[ExtractedDocument]:
    """Return documents, already split into chunks, with their terms, summaries, names and relations, in order.

    Prose is parsed in batches; with the ``language = rules`` setting, it is not parsed. Raises LanguageError if the
    language pipeline is missing.
    """
    if not documents:
        return []
    from .prose import Prose, parse_prose  # imported here because deleting documents does not need its many rules

    pipeline = open_language(settings.language)
    if pipeline is None:
        with pause_collection():  # garbage collection would be futile: all of the many new objects stay in use
            extracted = [_derive_document(document, Prose(), settings) for document in documents]
            if len(documents) >= _MIN_LARGE_BATCH:
                promote_objects()  # the results live until stored; the next collection would scan them all
        return extracted
    inputs = [(item.text, item.list_parsable_chunks(settings.language), item.byte_offsets) for item in documents]
    prose_by_document = zip(documents, parse_prose(inputs, pipeline), strict=True)
    return [_derive_document(document, prose, settings) for document, prose in prose_by_document]


@frozen_dataclass
class ChunkedDocument:
    """A prose document split into chunks; nothing else is derived from it yet.

    ``byte_offsets`` has the byte offset of each character of ``text``. ``is_english_by_chunk[i]`` is True if chunk *i*
    is in English. ``language`` is the name of the document's language, or None if it is unknown.
    """

    document: ValidDocument
    text: str
    blocks: list[Block]
    sections: list[Heading]
    chunks: list[Chunk]
    byte_offsets: ByteOffsets
    is_english_by_chunk: list[bool]
    language: str | None

    def add_vectors_to_digest(self, vectors: npt.NDArray[np.float32]) -> ChunkedDocument:
        """Return this document with a digest that includes the user's own vectors, shape (chunks, dimension)."""
        return replace(self, document=add_vectors_to_digest(self.document, vectors))

    def list_parsable_chunks(self, language: str) -> list[Chunk]:
        """Return the chunks that the pipeline of ``language`` can parse; for ``en``, only chunks in English."""
        if language != ENGLISH:
            return self.chunks
        return [chunk for chunk, is_english in zip(self.chunks, self.is_english_by_chunk, strict=True) if is_english]

    def build_embedding_texts(self, settings: FixedSettings) -> list[str]:
        """Return the text that the vector of each chunk is computed from: title, headings, context and chunk.

        With the ``chunk_context`` setting, the context is the document's first sentence.
        """
        texts = [self.text[chunk.start : chunk.end] for chunk in self.chunks]
        context = ""
        if settings.chunk_context:
            context = get_first_sentence(texts[0], settings.get_sentence_language(self.language))
        heading_paths = (build_heading_path(self.sections, chunk.section) for chunk in self.chunks)
        return [
            build_embedding_text(self.document.title, headings, text, context)
            for headings, text in zip(heading_paths, texts, strict=True)
        ]


def chunk_document(document: ValidDocument, settings: FixedSettings) -> ChunkedDocument | ExtractedDocument:
    """Split a document into chunks, or derive its names and relations if it consists of pairs (child, parent).

    Raises InputError if a pair or the name of the document's tree is invalid, or if the text has no chunk.
    """
    text = document.text.decode()
    language = find_document_language(document.meta, document.text)
    if document.format == PAIRS_FORMAT:
        check_tree_name(get_own_tree_name(document.key, document.meta))
        relations = parse_pairs(text)
        introductions = collect_introductions(
            _iter_relation_names(relations), max_words=None, document_key=document.key
        )
        return _make_extracted(document, introductions=introductions, relations=relations, language=language)
    blocks = parse_blocks(text, document.format)
    sentence_language = settings.get_sentence_language(language)
    if document.own_chunks is None:
        sections, chunks = chunk_text(text, blocks, settings.chunk_tokens, sentence_language)
    else:
        spans = [(0, len(text))] if document.own_chunks == "whole" else document.own_chunks
        sections, chunks = chunk_at_spans(text, blocks, spans, settings.chunk_tokens, sentence_language)
    if not chunks:
        raise InputError(f"document {document.key!r} is empty; give it some text, or delete it")
    # The document's language if it is known not to be English.
    foreign_language = None if language in (None, "english") else sentence_language
    is_english_by_chunk = detect_english([text[chunk.start : chunk.end] for chunk in chunks], foreign_language)
    byte_offsets = compute_byte_offsets(text, len(document.text))
    return ChunkedDocument(document, text, blocks, sections, chunks, byte_offsets, is_english_by_chunk, language)


def _derive_document(chunked: ChunkedDocument, prose: Prose, settings: FixedSettings) -> ExtractedDocument:
    """Derive the tree of summaries (abstracts), sections, relations, names and terms of a document split into chunks.

    ``prose`` has the relations and noun phrases of its parsed sentences; it is empty without a parser. Names that do
    not occur in a relation, the title, a heading or a chunk are dropped.
    """
    document, text = chunked.document, chunked.text
    stem = get_document_stemmer(settings.stemmer, chunked.language)
    chunk_texts = [text[chunk.start : chunk.end] for chunk in chunked.chunks]
    sentences = [_get_sentences_by_span(text, chunk, chunked.byte_offsets) for chunk in chunked.chunks]
    tree = AbstractTreeBuilder(chunked.sections, chunked.chunks, sentences, chunk_texts, stem).build()
    sections = _build_sections(chunked, tree)
    structural_relations = _list_structural_relations(chunked)
    # A name that cannot be an entity, such as one of too many words, has no relations.
    relations = [
        relation
        for relation in (*structural_relations, *prose.relations)
        if all(is_name_key(to_entity_key(form), settings.name_words) for form in (relation.child, relation.parent))
    ]
    names = [*_find_names(chunked, settings), *_iter_relation_names(structural_relations), *prose.iter_names()]
    introductions = collect_introductions(names, settings.name_words, document.key)
    introductions = _drop_absent_names(introductions, relations, chunked, settings)
    return _make_extracted(
        document,
        sections=sections,
        chunks=_draft_chunks(chunked, sections, stem),
        tree=tree,
        introductions=introductions,
        relations=relations,
        language=chunked.language,
    )


def _build_sections(chunked: ChunkedDocument, tree: AbstractTree) -> list[Section]:
    """Return the sections of a document as they are stored: with spans in bytes, and with their nodes in ``tree``."""
    byte_offsets = chunked.byte_offsets  # the spans of ``chunked`` are in characters
    return [
        Section(
            level=heading.level,
            title=heading.title,
            parent=heading.parent,
            start=int(byte_offsets[heading.start]),
            end=int(byte_offsets[heading.end]),
            abstract=node_index,
        )
        for heading, node_index in zip(chunked.sections, tree.section_nodes, strict=True)
    ]


def _draft_chunks(
    chunked: ChunkedDocument, sections: Sequence[Section], stem: Callable[[str], str]
) -> list[ChunkDraft]:
    """Return the chunks of a document to store: their spans in bytes, texts, and the counts of their terms."""
    byte_offsets = chunked.byte_offsets
    drafts: list[ChunkDraft] = []
    for chunk in chunked.chunks:
        text = chunked.text[chunk.start : chunk.end]
        path = build_heading_path(sections, chunk.section)
        term_counts = count_chunk_terms(chunked.document.title, path, text, stem)
        drafts.append(
            ChunkDraft(
                start=int(byte_offsets[chunk.start]),
                end=int(byte_offsets[chunk.end]),
                section=chunk.section,
                text=text,
                terms=term_counts,
                length=sum(term_counts.values()),
            )
        )
    return drafts


def _list_structural_relations(chunked: ChunkedDocument) -> list[Relation]:
    """Return the relations in the lists and headings of a document: each item is below the item that contains it.

    If the user set the chunks, relations outside of them are omitted. The list is empty if the name of the tree that
    would contain the relations is too long.
    """
    document = chunked.document
    if len(get_own_tree_name(document.key, document.meta).encode()) > MAX_ENTITY_KEY_BYTES:
        return []
    byte_offsets = chunked.byte_offsets
    relations = extract_structural_relations(chunked.blocks, byte_offsets, any(chunked.is_english_by_chunk))
    if chunked.document.own_chunks is None:
        return relations
    chunk_spans = [(int(byte_offsets[chunk.start]), int(byte_offsets[chunk.end])) for chunk in chunked.chunks]

    def is_in_chunk(relation: Relation) -> bool:
        """True if a single chunk contains the text that states the relation."""
        return any(start <= relation.start and relation.end <= end for start, end in chunk_spans)

    return list(filter(is_in_chunk, relations))


def _drop_absent_names(
    introductions: Sequence[Introduction],
    relations: Sequence[Relation],
    chunked: ChunkedDocument,
    settings: FixedSettings,
) -> list[Introduction]:
    """Return the introductions whose names occur in a relation, in the title, in a heading or in a chunk.

    An introduction is a name that the document would add to the store's entities. Names in the text of the document
    that no chunk contains are dropped.
    """
    occurring_keys = {to_entity_key(form) for relation in relations for form in (relation.child, relation.parent)}
    candidate_keys = [name.key for name in introductions if name.key not in occurring_keys]
    texts = [chunked.text[chunk.start : chunk.end] for chunk in chunked.chunks]
    if chunked.document.title:
        texts.append(to_plain_text(chunked.document.title))
    texts += (section.title for section in chunked.sections)
    occurring_keys |= find_occurring_keys(texts, candidate_keys, settings.name_words)
    return [name for name in introductions if name.key in occurring_keys]


_DOCUMENT_FIELDS = [field.name for field in fields(ValidDocument)]


def _make_extracted(document: ValidDocument, **derived: Any) -> ExtractedDocument:
    """Return a document with data derived from it; ``derived`` has the additional fields of ExtractedDocument."""
    return ExtractedDocument(**{name: getattr(document, name) for name in _DOCUMENT_FIELDS}, **derived)


def _iter_relation_names(relations: Iterable[Relation]) -> Iterator[Name]:
    """Yield the child and the parent of each relation as names of the kind ``tree``."""
    return (Name(form, "tree") for relation in relations for form in (relation.child, relation.parent))


#: The minimum of the first byte of a character as a signed integer; continuation bytes are smaller.
_MIN_FIRST_BYTE = -0x40


def compute_byte_offsets(text: str, num_bytes: int) -> ByteOffsets:
    """Return the byte offset of every character of ``text``, and of its end, as a range if the text is ASCII.

    ``num_bytes`` is the size of the text in UTF-8.
    """
    if num_bytes == len(text):  # only ASCII
        return range(num_bytes + 1)
    offsets = np.empty(len(text) + 1, np.int64)
    # As signed bytes, all but the first byte of each character are below ``_MIN_FIRST_BYTE``.
    offsets[:-1] = np.flatnonzero(np.frombuffer(text.encode(), np.int8) >= _MIN_FIRST_BYTE)
    offsets[-1] = num_bytes
    return offsets


def _get_sentences_by_span(text: str, chunk: Chunk, byte_offsets: ByteOffsets) -> dict[Span, str]:
    """Return the sentences of a chunk, formatted for a summary, by their spans (byte offsets in ``text``).

    Headings, rulers between table rows, and code fences are skipped. If nothing else is left, the whole chunk is
    returned as one sentence.
    """
    spans = []  # in characters
    for sentence in chunk.sentences:
        source = text[sentence.start : sentence.end]
        content = source.lstrip("#>-+| ")  # without the markup at its start
        is_markup_only = source.startswith(("#", "|--", "|:", "```", "---"))
        if not is_markup_only and any(map(str.isalnum, content)):
            spans.append((sentence.end - len(content), sentence.end))
    return {
        (int(byte_offsets[start]), int(byte_offsets[end])): format_summary_sentence(text[start:end])
        for start, end in spans or [(chunk.start, chunk.end)]
    }


class _DocumentLine(NamedTuple):
    """A sentence or line of a document, the kind of its block, and True if it is in English."""

    text: str
    kind: str
    is_english: bool


def _find_names(chunked: ChunkedDocument, settings: FixedSettings) -> Iterator[Name]:
    """Yield the names that rules recognize in a document: in its title, headings, sentences, mail headers and code."""
    text, has_english = chunked.text, any(chunked.is_english_by_chunk)
    if chunked.document.title:
        yield from extract_title_names(chunked.document.title, "title", has_english)
    for section in chunked.sections:
        yield from extract_title_names(section.title, "heading", has_english)
    lines = [
        _DocumentLine(to_nfc(text[sentence.start : sentence.end]), sentence.kind, is_english)
        for chunk, is_english in zip(chunked.chunks, chunked.is_english_by_chunk, strict=True)
        for sentence in chunk.sentences
    ]
    prose = _select_prose(lines)
    mail_headers = [
        line for line in prose if is_mail_header(line.text, 0, len(line.text)) or is_address_field(line.text)
    ]
    for header in mail_headers:
        for start, end in split_mail_fields(header.text):
            yield from extract_mail_names(header.text[start:end], header.is_english)
    if mail_headers:
        prose = [line for line in prose if line not in mail_headers]
    yield from _find_english_names([line for line in prose if line.is_english])
    foreign_sentences = [line.text for line in prose if not line.is_english]
    if foreign_sentences:
        yield from _find_non_english_names(foreign_sentences, settings.get_sentence_language(chunked.language))
    for line in lines:
        if line.kind == "code":
            yield from find_identifiers(line.text)


def _select_prose(lines: Sequence[_DocumentLine]) -> list[_DocumentLine]:
    """Return the lines in which capitals mark names: all but code, headings, and the header and ruler of a table.

    An English heading without markup (``#``) is included.
    """
    # The row above the ruler of a table (|---|) has its column names, which are capitalized without being names.
    table_heads = {index for index, next_line in enumerate(lines[1:]) if next_line.text.startswith("|--")}
    texts = [line for index, line in enumerate(lines) if line.kind != "code" and index not in table_heads]
    return [
        line
        for line in texts
        if not line.text.startswith(("#", "|--"))
        and (line.is_english or line.kind != "heading")  # every heading has a capital
    ]


def _find_english_names(sentences: Sequence[_DocumentLine]) -> Iterator[Name]:
    """Yield the names in the English lines of a document: those with capitals or markup, and code identifiers."""
    # A name never continues on a line that begins with the label of a field.
    lines = [(line, sentence.kind) for sentence in sentences for line in split_field_lines(sentence.text)]
    sentence_names = SentenceNames(line for line, _ in lines)
    for index, (line, kind) in enumerate(lines):
        yield from sentence_names.iter_names(index)
        yield from find_identifiers(line)
        yield from find_marked_names(line, kind)


def _find_non_english_names(sentences: Sequence[str], language: str | None) -> Iterator[Name]:
    """Yield the names in a document's sentences and lines in a ``language`` other than English.

    Terms in backticks and code identifiers are always names. Names are recognized by their capitals only if kvstore has
    a word list for the language.
    """
    for sentence in sentences:
        yield from find_code_terms(sentence)
    name_words = load_name_words(language)
    if language is not None and name_words is not None:
        lines = [line for sentence in sentences for line in split_field_lines(sentence)]
        capital_names = CapitalNames(lines, language, name_words)
        for index in range(len(lines)):
            yield from (Name(form, "name") for form in capital_names.iter_names(index))

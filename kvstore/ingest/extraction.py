"""Extraction: everything that is derived from one document alone.

In: a document's key, title, text and format, and the store's fixed settings. Out: an :class:`Extracted`: chunks with
their terms, the outline, the abstract tree, the names it introduces, the relations it states. A pure function, so that
it can run in other processes and on other machines. Empty or over-long text is an InputError.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ..settings import FixedSettings
from ..storage.documents import Section, heading_path
from ..storage.records import pack
from ..storage.triples import DocumentTriples, Triple
from ..text.blocks import plain
from ..text.names import Name, SentenceNames, identifiers, is_name_key, title_names
from ..text.normalize import entity_key
from ..text.words import FUNCTION_WORDS, chunk_terms, stemmer, words
from .abstracts import AbstractTree, build_tree
from .chunking import Chunk, Heading, chunk_text
from .pairs import pairs_of
from .relation import Relation, tree_of

FORMATS = ("text", "markdown", "pairs")
#: Bytes of the longest text of one document.
LONGEST_TEXT = 32 << 20
#: Bytes of the longest document key, and of the longest name of a tree or its members.
LONGEST_KEY = 4096
LONGEST_ENTITY_KEY = 400


@dataclass(frozen=True, slots=True)
class ChunkDraft:
    """A chunk to be: bytes ``start`` to ``end`` of the text, its section, and its terms (title and headings
    included)."""

    start: int
    end: int
    section: int
    text: str
    terms: dict[str, int]
    length: int


@dataclass(frozen=True, slots=True)
class Introduction:
    """A name a document introduces: its normal form, as written, and the kind of name."""

    key: str
    form: str
    kind: str


@dataclass(frozen=True, slots=True)
class Extracted:
    """A document and all that is derived from it alone; ``digest`` changes when any part of it does.

    Both names of every relation are among the introductions.
    """

    key: str
    title: str | None
    source: str | None
    format: str
    meta: dict[str, Any]
    text: bytes
    digest: bytes
    outline: list[Section] = field(default_factory=list)
    chunks: list[ChunkDraft] = field(default_factory=list)
    tree: AbstractTree | None = None
    introductions: list[Introduction] = field(default_factory=list)
    relations: list[Relation] = field(default_factory=list)

    def embedding_texts(self) -> list[str]:
        """For each chunk the text its vector is made from: where it stands, then what it says."""
        return [context_of(self.title, self.headings(chunk.section)) + plain(chunk.text) for chunk in self.chunks]

    def headings(self, section: int) -> list[str]:
        """Titles of the sections around a chunk, outermost first."""
        return heading_path(self.outline, section)


def context_of(title: str | None, headings: list[str]) -> str:
    """The line that places a chunk: its document's title and the headings above it, each once."""
    parts = list(dict.fromkeys(part for part in [title, *headings] if part))
    return " > ".join(parts) + "\n" if parts else ""


def content_digest(
    title: str | None, source: str | None, meta: Mapping[str, Any], format: str, text: bytes, vectors: bytes = b""
) -> bytes:
    """Sixteen bytes that change when any part of a document does; ``vectors`` are the user's own, if any."""
    parts = [title, source, meta, format, len(vectors)]
    head = json.dumps(parts, sort_keys=True, ensure_ascii=False, allow_nan=False).encode()
    digest = hashlib.blake2b(len(head).to_bytes(8, "big"), digest_size=16)
    for part in (head, vectors, text):
        digest.update(part)
    return digest.digest()


@dataclass(frozen=True, slots=True)
class Examined:
    """A document found good, before anything is derived: what is stored of it, and its digest."""

    key: str
    title: str | None
    source: str | None
    format: str
    meta: dict[str, Any]
    text: str
    encoded: bytes
    digest: bytes


def extract(
    key: str,
    text: str,
    settings: FixedSettings,
    *,
    title: str | None = None,
    source: str | None = None,
    meta: Mapping[str, Any] | None = None,
    format: str = "text",
) -> Extracted:
    """Derive everything that follows from one document; raises InputError where it cannot be a document."""
    return derive(examine(key, text, title=title, source=source, meta=meta, format=format), settings)


def examine(
    key: str,
    text: str,
    *,
    title: str | None = None,
    source: str | None = None,
    meta: Mapping[str, Any] | None = None,
    format: str = "text",
) -> Examined:
    """Check a document and take its digest, which costs little; raises InputError where it cannot be one."""
    for what, value in (("key", key), ("text", text), ("title", title), ("source", source)):
        if not isinstance(value, str) and (value is not None or what in ("key", "text")):
            raise InputError(f"a document's {what} is a string, not {type(value).__name__}")
    if meta is not None and not isinstance(meta, Mapping):
        raise InputError(f"document {key!r}: metadata is a mapping of names to JSON values, not {type(meta).__name__}")
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    encoded = _check(key, text, format)
    try:
        # What is stored is what JSON keeps: an export then says all of it.
        details = json.loads(json.dumps(dict(meta or {})))
        pack(details)
        digest = content_digest(title, source, details, format, encoded)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InputError(
            f"document {key!r}: its title, source or metadata are not plain data: {error}; use texts and JSON values"
        ) from None
    return Examined(key, title, source, format, details, text, encoded, digest)


def derive(examined: Examined, settings: FixedSettings) -> Extracted:
    """Derive everything that follows from a document; raises InputError where it states what cannot be."""
    key, title, source, format = examined.key, examined.title, examined.source, examined.format
    details, text, encoded, digest = examined.meta, examined.text, examined.encoded, examined.digest
    if format == "pairs":
        stated_tree(tree_of(key, details))
        relations = pairs_of(text)
        told = (Name(name, "tree") for relation in relations for name in (relation.child, relation.parent))
        introductions = _introductions(told, None, key)
        return Extracted(
            key, title, source, format, details, encoded, digest, introductions=introductions, relations=relations
        )
    sections, chunks = chunk_text(text, format, settings.chunk_tokens)
    if not chunks:
        raise InputError(f"document {key!r} is empty; give it some text, or delete it")
    to_bytes = _byte_offsets(text, len(encoded))
    stem = stemmer(settings.stemmer)
    pieces = [text[chunk.start : chunk.end] for chunk in chunks]
    content = [_content_terms(piece, stem) for piece in pieces]
    sentences = [_prose_units(text, chunk, sections) for chunk in chunks]
    tree = build_tree(sections, chunks, content, sentences)
    outline = [
        Section(s.level, s.title, s.parent, int(to_bytes[s.start]), int(to_bytes[s.end]), tree.of_section[index])
        for index, s in enumerate(sections)
    ]
    extracted = Extracted(key, title, source, format, details, encoded, digest, outline, [], tree)
    for chunk, piece in zip(chunks, pieces, strict=True):
        counts = chunk_terms(title, extracted.headings(chunk.section), piece, stem)
        start, end = int(to_bytes[chunk.start]), int(to_bytes[chunk.end])
        extracted.chunks.append(ChunkDraft(start, end, chunk.section, piece, counts, sum(counts.values())))
    names = _names(title, sections, text, chunks, format)
    extracted.introductions.extend(_introductions(names, settings.name_words, key))
    return extracted


def with_vectors(extracted: Extracted, vectors: npt.NDArray[np.float32]) -> Extracted:
    """The same document with vectors of the user's own, which count for its digest; shape (chunks, dimension)."""
    e = extracted
    digest = content_digest(e.title, e.source, e.meta, e.format, e.text, vectors.astype("<f4").tobytes())
    return replace(extracted, digest=digest)


def stated_tree(name: str) -> str:
    """The name of a tree; raises InputError where it is empty or too long."""
    return _checked(name, name, "the name of a tree")


def stated_name(name: str) -> str:
    """A name as the user typed it, its white space single; raises InputError where it is empty or too long."""
    form = " ".join(name.split())
    return _checked(form, entity_key(form), "a name")


def stated_triples(triples: Iterable[Sequence[str]], names: Iterable[str]) -> DocumentTriples:
    """Triples and names as somebody found them in a document, each once and its white space single.

    Raises InputError for a row that is not subject, relation and object, and for a text that is empty or too long.
    """
    rows: dict[Triple, None] = {}
    for row in triples:
        if isinstance(row, str) or len(row) != 3 or not all(isinstance(text, str) for text in row):
            raise InputError(f"a triple is a subject, a relation and an object, not {row!r}")
        relation = " ".join(row[1].split())
        rows[Triple(stated_name(row[0]), _checked(relation, relation, "a relation"), stated_name(row[2]))] = None
    return DocumentTriples(tuple(dict.fromkeys(map(stated_name, names))), tuple(rows))


def _checked(form: str, key: str, what: str) -> str:
    try:
        size = len(key.encode())
    except UnicodeEncodeError:
        raise InputError(f"{what} is a text, and {form!r} has half of a surrogate pair in it") from None
    if not 0 < size <= LONGEST_ENTITY_KEY:
        raise InputError(f"{what} has 1 to {LONGEST_ENTITY_KEY} bytes, not {size:,}; give it another")
    return form


def _check(key: str, text: str, format: str) -> bytes:
    if not key:
        raise InputError("a document's key is empty; give it a name of 1 byte or more")
    if len(key.encode("utf-8", "replace")) > LONGEST_KEY:
        raise InputError(
            f"a document's key has 1 to {LONGEST_KEY:,} bytes, not {len(key):,} characters; choose a shorter one"
        )
    if format not in FORMATS:
        raise InputError(f"a document's format is one of {', '.join(FORMATS)}, not {format!r}")
    if not text.strip():
        raise InputError(f"document {key!r} is empty; give it some text, or delete it")
    try:
        key.encode()
        encoded = text.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"document {key!r}: character {error.start:,} is half of a surrogate pair and no text"
        ) from None
    if len(encoded) > LONGEST_TEXT:
        raise InputError(
            f"document {key!r} has {len(encoded):,} bytes of text; the limit is {LONGEST_TEXT:,}: "
            "split it into several documents"
        )
    return encoded


def _byte_offsets(text: str, length: int) -> npt.NDArray[np.int64]:
    """The byte offset of every character of ``text``, and of its end."""
    if length == len(text):
        return np.arange(length + 1)
    points = np.frombuffer(text.encode("utf-32-le"), "<u4")
    sizes = 1 + (points > 0x7F).astype(np.int64) + (points > 0x7FF) + (points > 0xFFFF)
    return np.concatenate(([0], np.cumsum(sizes)))


def _content_terms(piece: str, stem: Any) -> dict[str, int]:
    return Counter(stem(word) for word in words(piece) if word not in FUNCTION_WORDS)


def _prose_units(text: str, chunk: Chunk, sections: list[Heading]) -> list[str]:
    """The sentences of a chunk in plain words; headings and table rules are none."""
    units = (text[start:end] for start, end in chunk.units)
    sentences = [
        plain(unit.lstrip("#>-+| ")) for unit in units if not unit.startswith(("#", "|--", "|:", "```", "---"))
    ]
    return [sentence for sentence in sentences if any(c.isalnum() for c in sentence)] or [
        plain(text[chunk.start : chunk.end])
    ]


def _names(title: str | None, sections: list[Heading], text: str, chunks: list[Chunk], format: str) -> Iterator[Name]:
    if title:
        yield from title_names(title, "title")
    for section in sections:
        yield from title_names(section.title, "heading")
    units = [text[start:end] for chunk in chunks for start, end in chunk.units]
    prose = [unit for unit in units if not unit.startswith(("#", "|--", "```"))]
    seen = SentenceNames(prose)
    for index, unit in enumerate(prose):
        yield from seen.names(index)
        yield from identifiers(unit)


def _introductions(names: Iterator[Name], most_words: int | None, document: str) -> list[Introduction]:
    """Each name once, under its first form and the kind it was seen as first."""
    found: dict[str, Introduction] = {}
    for form, kind in names:
        name_key = entity_key(form)
        if most_words is None:
            if not 0 < len(name_key.encode()) <= LONGEST_ENTITY_KEY:
                raise InputError(
                    f"document {document!r}: a name in a tree has 1 to {LONGEST_ENTITY_KEY} bytes, not {form!r}"
                )
        elif not is_name_key(name_key, most_words):
            continue
        found.setdefault(name_key, Introduction(name_key, form, kind))
    return [found[name_key] for name_key in sorted(found)]

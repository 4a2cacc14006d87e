"""Passages: the text around hits, as snippets that record what they need to be understood.

In: hits and their state. Out: one :class:`Passage` for adjacent spans, with the chunks before and after them under the
same heading, so that a sentence can include the one before it wherever a chunk ends. A snippet is a sentence, list
item, table row, definition or block of code. Headings, synopses, diagrams and tables of contents are not snippets,
because they do not read as answers.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

from ..errors import CorruptionError
from ..retrieval.evidence import Hit, TextSpan
from ..structures.documents.chunks import ChunkRecord
from ..structures.documents.documents import build_heading_path
from ..structures.state import State
from ..text.blocks import Block, is_lead_in, parse_blocks, split_parts, to_plain_text, unwrap_wiki_links
from ..text.mail import is_mail_header, split_mail_fields
from ..text.sentences import split_sentences
from ..text.words import FUNCTION_WORDS, count_written_words, is_unspaced

_WORD_PATTERN = re.compile(r"\w+")
_FENCE_PATTERN = re.compile(r"^[ >]*(?:```|~~~).*$\n?", re.MULTILINE)
_MARKER_PATTERN = re.compile(r"^(?:\s*(?:[-*+•>]|\d+[.)]|\([a-z\d]\))\s+)+")
_QUOTE_PATTERN = re.compile(r"^[ \t]*>[ \t]?", re.MULTILINE)
#: The hyphen of a word that a formatter parted, at the end of a line.
_HYPHENATION_PATTERN = re.compile(r"(?<=\w)[\u2010\u00ad]\s*\n\s*")
#: Code in a line, and a star outside it that emphasises nothing: between two things, or before a number.
_CODE_SPAN_PATTERN = re.compile(r"(?<!`)(`{1,2})(?!`)([^`\n]+)\1(?!`)")
_LITERAL_STAR_PATTERN = re.compile(r"(?<=[\w)] )\*(?= [\w(])|(?<![*\\\w])\*(?=\d[^*]*\Z|\d[^\s*]*#)")
#: A term before its definition, as Markdown made from a definition list has it, or a speaker before a turn.
_TERM_PATTERN = re.compile(r"(?P<term>[^\n.!?]{1,80}?):\s+(?=\S)")
_SPEAKER_PATTERN = re.compile(r"(?P<term>[A-Z][\w.'’-]*(?: [A-Z][\w.'’-]*){0,4})\s?:\s+(?=\S)")
#: The first column of a line in plain text, where white space parts it from what it stands for.
_HANGING_TERM_PATTERN = re.compile(r"(?P<term>\S+(?: \S+){0,5}?) {2,}(?=\S)")
_TABLE_RULE_PATTERN = re.compile(r"[\s|:+=-]*")
#: A column of a row and its value, which is no sentence.
_FIELD_PATTERN = re.compile(r"(?P<name>[^\s:][^:\n]{0,60}): (?P<value>\S{1,80}(?: \S{1,80}){0,9})(?<![.!?,;])")
#: Characters of the longest line that is jotted down; those of sentences are longer where they break.
_MAX_NOTE_LINE = 60
#: A line of a bill: what is paid for, and an amount.
_BILL_ENTRY_PATTERN = re.compile(
    r"(?=[^\n]*[^\W\d]{2})[^\n]{1,100}\s[^\w\s]?\d[\d.,’']*[.,]\d\d(?:\s?[^\W\d]{3}|\s?[^\w\s.!?])?"
)
_ANY_LINE_PATTERN = re.compile("")
#: The time that a message of a chat, an entry of a log or a line of a transcript begins with, behind a date or none.
_TIMESTAMP_PATTERN = re.compile(
    r"[\[(]?(?:[A-Z][a-z]{2},? )?(?:\d[\d./-]*\d\.?(?:T|,? +)|[A-Z][a-z]{2} {1,2}\d{1,2} +(?:\d{4} +)?)?"
    r"\d{1,2}:\d\d(?!\d)"
)
#: Behind its time, an entry that asks something: in a chat hardly anybody writes a question mark.
_QUESTION_ENTRY_PATTERN = re.compile(
    r".*\?\W*\Z"
    r"|[^:\n]{0,60}: (?:who|whose|what|which|where|when|why|how|(?:(?:has|does|did|is|can) )?any(?:one|body))\b",
    re.IGNORECASE | re.DOTALL,
)
#: What stands before a command that is typed.
_SHELL_PROMPT_PATTERN = re.compile(r"[$#%>]\s+\S")
#: Words that open a sentence which says something of the one before it.
_CONNECTIVE_PATTERN = re.compile(
    r"""(?:this|that|these|those|such|however|but|and|or|so|therefore|thus|then|hence|also|otherwise|moreover
    |furthermore|instead|likewise|similarly|consequently|accordingly|nevertheless|nonetheless|still|yet|besides
    |conversely|both|here|again|finally|later|afterwards?|meanwhile|additionally|rather|indeed|neither|each
    |the\ (?:former|latter|above|following|same|other)|as\ (?:a\ result|such|well)
    |in\ (?:addition|contrast|turn|that|this|such|fact|other|particular)|for\ (?:example|instance|this|that)
    |(?:because\ of|due\ to|at|with|after|by)\ (?:this|that|these)|to\ (?:this|that)\ end|on\ the\ other
    |all\ of\ (?:these|this|them)|none\ of)\b""",
    re.IGNORECASE | re.VERBOSE,
)
#: Words in a sentence that count on a list in the one before it.
_BACK_REFERENCE_PATTERN = re.compile(
    r"\b(?:all|any|both|each|either|most|neither|none|one|some)(?: of)? (?:these|those)\b", re.IGNORECASE
)
#: Words that stand for somebody or something named before.
_PRONOUN_PATTERN = re.compile(r"(?:he|she|it|they|his|her|its|their|him|them|we|our|i|my)\b", re.IGNORECASE)
_SENTENCE_END_PATTERN = re.compile(r"[.!?…:;。！？][\"'”’)\]*`]*\Z")
#: Headings of parts that show how something is written.
_SYNOPSIS_HEADINGS = frozenset(("synopsis", "usage", "syntax", "table of contents", "contents", "see also"))
#: Words of the longest line of plain text that is a term over its definition, unless it is an option.
_MAX_TERM_WORDS = 6
#: Lines of code that are shown as one piece.
_MAX_CODE_LINES = 8


@dataclass(slots=True)
class Snippet:
    """One snippet: characters ``start`` to ``end`` of its passage, and its displayed ``text``.

    ``kind`` is prose, item, table or code. ``block`` and ``section`` are the numbers of its block and of its part
    between headings. ``heading`` is the heading above it, or a question that opens its paragraph. ``label`` is the
    term, speaker or header row of the snippet if its own text lacks it; ``term`` is that term in any case.
    ``needs_previous``: it needs the snippet before it. ``needs_subject``: it needs its subject named. ``is_lead_in``:
    it introduces what follows. ``is_question``: it is a question. ``is_selectable``: it can be chosen by itself.
    ``hit`` is the hit at its position, if any, and ``chunk`` the number of its chunk then.
    """

    start: int
    end: int
    text: str
    kind: str
    block: int
    section: int = 0
    label: str = ""
    term: str = ""
    needs_previous: bool = False
    needs_subject: bool = False
    is_lead_in: bool = False
    is_selectable: bool = True
    is_question: bool = False
    heading: str = ""
    hit: Hit | None = None
    chunk: int = 0
    words: int = 0


@dataclass(slots=True)
class Passage:
    """Consecutive snippets of a document. ``start`` is the byte of its text where they begin; ``is_whole_document``:
    they are the whole document."""

    document: str
    title: str | None
    heading: str
    start: int
    text: str
    is_whole_document: bool
    snippets: list[Snippet] = field(default_factory=list)


def build_passages(hits: Sequence[Hit], state: State) -> list[Passage]:
    """The passages around the places of some hits, in the order of the best hit of each."""
    return [_build_passage(group, state) for group in _group_spans(hits, state)]


def list_chunk_ids(hit: Hit, state: State) -> list[int]:
    """The ids of the chunks that the places of a hit of the same view are in, each once, in their order."""
    return list(dict.fromkeys(chunk for chunk, _ in iter_spans(hit, state)))


def iter_spans(hit: Hit, state: State) -> Iterator[tuple[int, TextSpan]]:
    """The places of a hit, each with the id of its chunk."""
    for document, spans in groupby(hit.spans, key=lambda span: span.document):
        record = state.documents.find_by_key(document)
        if record is None:
            raise CorruptionError(f"document {document!r} has chunks and is not there; run CHECK")
        ids = list(record.chunk_ids())
        yield from ((ids[span.ordinal], span) for span in spans)


class _HitSpan(NamedTuple):
    """A place that was found, and the hit that it is of."""

    hit: Hit
    span: TextSpan


@dataclass(slots=True)
class _Group:
    """Chunks side by side: those in which something was found, and the one before and after them."""

    document: int
    section: int
    first: int
    last: int
    hit_spans: list[_HitSpan]


def _group_spans(hits: Sequence[Hit], state: State) -> list[_Group]:
    """Group adjacent spans under one heading."""
    groups: list[_Group] = []
    for hit in hits:
        for chunk, span in iter_spans(hit, state):
            _add_to_groups(groups, _HitSpan(hit, span), chunk, state)
    for group in groups:
        group.hit_spans.sort(key=lambda found: found.hit.rank)
    return sorted(groups, key=lambda group: group.hit_spans[0].hit.rank)


def _add_to_groups(groups: list[_Group], hit_span: _HitSpan, chunk: int, state: State) -> None:
    """Add a span of a chunk to the group that it is adjacent to."""
    record = state.chunks.get(chunk)
    first, last = (_get_adjacent_chunk(state, record, chunk, step) for step in (-1, 1))
    mine = _Group(record.document, record.section, first, last, [hit_span])
    for other in [group for group in groups if (group.document, group.section) == (mine.document, mine.section)]:
        if mine.first <= other.last + 1 and other.first <= mine.last + 1:
            groups.remove(other)
            mine.first, mine.last = min(mine.first, other.first), max(mine.last, other.last)
            mine.hit_spans += other.hit_spans
    groups.append(mine)


def _get_adjacent_chunk(state: State, record: ChunkRecord, chunk: int, step: int) -> int:
    """Return the chunk next to one, if it is in the same section of the same document; else the chunk itself."""
    adjacent = state.chunks.find(chunk + step) if chunk + step >= 0 else None
    in_same_section = adjacent is not None and (adjacent.document, adjacent.section) == (
        record.document,
        record.section,
    )
    return chunk + step if in_same_section else chunk


def _build_passage(group: _Group, state: State) -> Passage:
    start, end = state.chunks.get(group.first).start, state.chunks.get(group.last).end
    record = state.documents.get(group.document)
    previous = state.chunks.find(group.first - 1) if group.first else None
    context_start = start if previous is None or previous.document != group.document else min(start, previous.start)
    context = state.documents.text_slice(group.document, context_start, end)
    text = context.encode()[start - context_start :].decode()
    cut = bool(context[: len(context) - len(text)].rpartition("\n")[2].strip())
    heading = " > ".join(build_heading_path(state.documents.get_outline(record.id), group.section))
    whole = group.last - group.first + 1 == record.chunk_count
    passage = Passage(record.key, record.title, heading, start, text, whole)
    passage.snippets = list(_split_snippets(text, record.format, heading, cut=cut))
    if whole and not any(snippet.is_selectable or snippet.kind == "code" for snippet in passage.snippets):
        passage.snippets = list(_split_notes(text, record.format))
    _assign_hits(passage, group.hit_spans)
    return passage


def _assign_hits(passage: Passage, hit_spans: Sequence[_HitSpan]) -> None:
    """Assign each snippet the hit that contains it."""
    data = passage.text.encode()
    spans = []
    for hit, span in sorted(hit_spans, key=lambda found: found.span.start):
        first, last = (len(data[: at - passage.start].decode(errors="ignore")) for at in (span.start, span.end))
        spans.append((first, last, hit, span.ordinal))
    for snippet in passage.snippets:
        for first, last, hit, chunk in spans:
            if first <= snippet.start < last:
                snippet.hit, snippet.chunk = hit, chunk


def _split_snippets(text: str, format: str, heading: str, *, cut: bool) -> Iterator[Snippet]:
    """The snippets of a passage, in order; ``cut`` says that it begins within a line."""
    parts = list(_split_markdown(text) if format == "markdown" else _split_text(text, cut))
    block_sizes = Counter(snippet.block for snippet in parts if isinstance(snippet, Snippet))
    above = to_plain_text(heading.rpartition(" > ")[2]).strip()
    synopsis = above.lower() in _SYNOPSIS_HEADINGS
    at_section_start = True
    previous: Snippet | None = None
    section = 0
    open_question: Snippet | None = None  # a question that opens a paragraph acts as a heading
    for snippet in parts:
        if isinstance(snippet, _TextHeading):
            above = snippet.title.strip()
            synopsis = above.lower() in _SYNOPSIS_HEADINGS
            section, at_section_start, open_question = section + 1, True, None
            continue
        opens_block = previous is None or previous.block != snippet.block
        snippet.is_question |= snippet.kind in ("prose", "item") and snippet.text.endswith(("?", "？"))
        if snippet.is_question:
            open_question = snippet if snippet.kind == "table" or opens_block or open_question is not None else None
        elif (
            open_question is not None and open_question.kind == "table" and open_question is not previous
        ):  # a message is answered by the next
            open_question = None
        snippet.section, snippet.heading = section, above if open_question in (None, snippet) else open_question.text
        snippet.words = count_written_words(snippet.text)
        snippet.is_selectable = (
            snippet.is_selectable and not synopsis and _is_readable(snippet, block_sizes[snippet.block] == 1)
        )
        if snippet.kind in ("prose", "item"):
            opens_term = opens_block and bool(snippet.term)
            cut = snippet.text[:1].islower() and not opens_block
            refers_back = cut or bool(
                _CONNECTIVE_PATTERN.match(snippet.text) or _BACK_REFERENCE_PATTERN.search(snippet.text)
            )
            snippet.needs_previous = not at_section_start and not opens_term and refers_back
            snippet.needs_subject = bool(_PRONOUN_PATTERN.match(snippet.text))
        if (
            previous is not None
            and previous.section == section
            and previous.is_lead_in
            and previous.block != snippet.block
        ):
            snippet.needs_previous = True
        # An answer is not understood without its question.
        snippet.needs_previous |= open_question is not None and open_question is previous
        yield snippet
        at_section_start, previous = False, snippet


def _is_readable(snippet: Snippet, alone: bool) -> bool:
    """True if a snippet reads as text: words in a sentence, not a drawing or a table of contents. If it is ``alone`` in
    its block, a heading or caption does not count either."""
    found = _WORD_PATTERN.findall(f"{snippet.label} {snippet.text}")
    # Without blanks, a sentence is one match.
    words = count_written_words(f"{snippet.label} {snippet.text}") if is_unspaced(snippet.text) else len(found)
    num_symbols = sum(1 for character in snippet.text if not (character.isalnum() or character.isspace()))
    is_field = _FIELD_PATTERN.fullmatch(snippet.text) is not None
    has_number = snippet.kind == "table" and any(map(str.isdigit, snippet.text))
    if (
        words < (2 if is_field or has_number else 3)
        or ". . ." in snippet.text
        or num_symbols > 0.35 * len(snippet.text)
    ):
        return False
    if snippet.kind != "prose" or snippet.label or words > 12 or is_field or not alone:
        return True
    has_function_word = any(word.lower() in FUNCTION_WORDS for word in found)
    return has_function_word or bool(_SENTENCE_END_PATTERN.search(snippet.text)) or not snippet.text.isascii()


def render_inline(piece: str) -> str:
    """A piece of a document on one line, as people read it.

    >>> render_inline("Dial *21#, says [[people/Kees|Kees]];\\n> `**options` are *not* needed for 2 * 3.")
    'Dial *21#, says Kees; **options are not needed for 2 * 3.'
    """
    piece = unwrap_wiki_links(_HYPHENATION_PATTERN.sub("", _QUOTE_PATTERN.sub("", piece)))
    if "*" in piece:
        piece = _LITERAL_STAR_PATTERN.sub(
            r"\\*", _CODE_SPAN_PATTERN.sub(lambda code: code[2].replace("*", r"\*"), piece)
        )
    return to_plain_text(piece)


@dataclass(frozen=True, slots=True)
class _TextHeading:
    """A heading between snippets."""

    title: str


def _split_markdown(text: str) -> Iterator[Snippet | _TextHeading]:
    term, level = "", 0
    for number, part in enumerate(split_parts(text)):
        start, end = part.start, part.end
        if part.kind == "heading":
            term = ""
            yield _TextHeading(render_inline(text[start:end]).lstrip("# "))
        elif part.kind == "code":
            yield from _split_code(text, start, end, number)
        elif part.kind == "table":
            yield from _split_table(text, start, end, number, headless=part.continues)
        elif part.kind == "prose" and _is_bill(text[start:end]):
            yield from _split_table(text, start, end, number, headless=True)
        elif part.kind == "prose" and _is_timestamped(text[start:end]):
            yield from _split_lines(text, start, end, number, _TIMESTAMP_PATTERN)
        elif part.kind == "prose" and is_record(text[start:end]):
            yield _build_record(text, start, end, number)
        elif part.kind == "prose" and _is_line_list(text[start:end]):
            yield from _split_lines(text, start, end, number)
        else:
            own_term = (
                render_inline(_MARKER_PATTERN.sub("", text[start : part.term_end])) if part.term_end > start else ""
            )
            has_marker = _MARKER_PATTERN.match(text, start, end) is not None
            if part.kind != "item" or own_term or (has_marker and part.level <= level):
                term, level = own_term, part.level
            yield from _split_prose(
                text, start, end, number, part.kind, term, names_itself=bool(own_term), leads=part.leads
            )


def _split_prose(
    text: str, start: int, end: int, number: int, kind: str, term: str, *, names_itself: bool, leads: bool
) -> Iterator[Snippet]:
    """The sentences of a paragraph or an item; ``term`` is what it defines, which its first one may name itself."""
    for index, (first, last) in enumerate(split_sentences(text[start:end])):
        piece = text[start + first : start + last]
        text_shown = _MARKER_PATTERN.sub("", render_inline(piece))
        if not text_shown:
            continue
        label = "" if index == 0 and names_itself else term
        is_lead_in = leads and start + last == end
        yield Snippet(
            start + first, start + last, text_shown, kind, number, label=label, term=term, is_lead_in=is_lead_in
        )


def _split_code(text: str, start: int, end: int, number: int) -> Iterator[Snippet]:
    """Split a block of code into pieces of a few lines; only the first needs what precedes the block."""
    begin = text.rfind("\n", 0, start) + 1
    offset = begin if text[begin:start].isspace() else start
    lines = []
    for line in text[offset:end].splitlines(keepends=True):
        if not _FENCE_PATTERN.fullmatch(line):
            lines.append(_CodeLine(offset, offset + len(line.rstrip()), _QUOTE_PATTERN.sub("", line.rstrip())))
        offset += len(line)
    nonblank_lines = [line for line in lines if line.text.strip()]
    margin = min((line.indent for line in nonblank_lines), default=0)
    for index, piece in enumerate(_group_code_lines(lines)):
        text_shown = "\n".join(line.text[margin:] for line in piece)
        first = max(start, piece[0].start)
        yield Snippet(first, piece[-1].end, text_shown, "code", number, is_selectable=False, needs_previous=index == 0)


class _CodeLine(NamedTuple):
    """A line of code: where it begins and ends, and what it is without the marks of a quotation."""

    start: int
    end: int
    text: str

    @property
    def indent(self) -> int:
        return len(self.text) - len(self.text.lstrip())


def _group_code_lines(lines: Sequence[_CodeLine]) -> Iterator[list[_CodeLine]]:
    """Lines of code in pieces that can be shown: as many paragraphs as fit, or as much of one, up to where it is least
    indented."""
    piece: list[_CodeLine] = []
    for empty, group in groupby(lines, key=lambda line: not line.text.strip()):
        paragraph = [] if empty else list(group)
        if piece and paragraph and len(piece) + len(paragraph) > _MAX_CODE_LINES:
            yield piece
            piece = []
        piece += paragraph
        while len(piece) > _MAX_CODE_LINES:
            at = min(range(_MAX_CODE_LINES // 2, _MAX_CODE_LINES + 1), key=lambda at: (piece[at].indent, -at))
            yield piece[:at]
            piece = piece[at:]
    if piece:
        yield piece


def _split_table(text: str, start: int, end: int, number: int, *, headless: bool) -> Iterator[Snippet]:
    """Yield the rows of a table, each with the labels of the header row if the passage contains it."""
    head: list[str] = []
    offset = start
    for index, line in enumerate(text[start:end].splitlines(keepends=True)):
        cells = [render_inline(cell) for cell in line.strip().strip("|").replace("\\|", "\0").split("|")]
        cells = [cell.replace("\0", "|").strip() for cell in cells]
        if index == 0 and not headless:
            head = cells
        elif any(cells) and not _TABLE_RULE_PATTERN.fullmatch(line):
            has_header = len(head) == len(cells) and all(head)
            pairs = zip(head if has_header else cells, cells, strict=True)
            parts = [f"{name}: {cell}" if has_header else cell for name, cell in pairs if cell]
            text_shown = "; ".join(parts)
            yield Snippet(offset, offset + len(line.rstrip()), text_shown, "table", number)
        offset += len(line)


def _split_text(text: str, cut: bool) -> Iterator[Snippet | _TextHeading]:
    """Yield the snippets of plain text: paragraphs, in which indentation and columns can separate a term from its
    meaning."""
    term, depth = "", 0
    announced_indent: int | None = None  # the indentation of what announced the next block
    text_blocks = parse_blocks(text, "text")
    for number, block in enumerate(text_blocks):
        start = block.start
        indent = start - (text.rfind("\n", 0, start) + 1)
        if indent <= depth:
            term = ""
        if announced_indent is not None and indent > announced_indent and _is_code(text[start : block.end]):
            yield from _split_code(text, start, block.end, number)
            continue
        announced_indent = None
        if is_mail_header(text, start, block.end):
            yield from _split_mail_fields(text, start, block.end, number)
            continue
        if _is_bill(text[start : block.end]):
            term = ""
            yield from _split_table(text, start, block.end, number, headless=True)
            continue
        if _is_timestamped(text[start : block.end]):
            term = ""
            yield from _split_lines(text, start, block.end, number, _TIMESTAMP_PATTERN)
            continue
        if is_record(text[start : block.end]):
            yield _build_record(text, start, block.end, number)
            continue
        if _is_line_list(text[start : block.end]) or _is_lone_field(text, text_blocks, number):
            term = ""
            yield from _split_lines(text, start, block.end, number)
            continue
        for part in _split_text_parts(text, start, block.end, indent, cut and number == 0):
            piece = text[part.start : part.end]
            if part.is_heading and (part.indent == 0 or not piece.startswith("-")) and piece.upper() == piece:
                term, depth = "", 0
                yield _TextHeading(render_inline(piece))
                continue
            if part.is_heading:
                term, depth = render_inline(piece), part.indent
                continue
            speaker = _SPEAKER_PATTERN.match(piece)
            own_term = speaker["term"] if speaker else ""
            hanging = _HANGING_TERM_PATTERN.match(piece) if part.indent or part.is_hanging else None
            if hanging and part.is_hanging:
                term, depth, own_term = render_inline(hanging["term"]), part.indent, hanging["term"]
            label = own_term or (term if part.indent > depth else "")
            leads = is_lead_in(piece)
            announced_indent = part.indent if leads else None
            yield from _split_prose(
                text, part.start, part.end, number, "prose", label, names_itself=bool(own_term), leads=leads
            )


def is_record(piece: str) -> bool:
    """True if a paragraph is a stored table row: lines of a name and a short value, no name twice.

    >>> is_record("country: Albania\\nincome: 10620"), is_record("Ann: Is it high?\\nBob: It is.")
    (True, False)
    """
    lines = piece.splitlines()
    fields = [_FIELD_PATTERN.fullmatch(line) for line in lines]
    names = {field["name"] for field in fields if field is not None}
    return len(lines) > 1 and len(names) == len(lines)


def _build_record(text: str, start: int, end: int, number: int) -> Snippet:
    text_shown = "; ".join(_MARKER_PATTERN.sub("", render_inline(line)) for line in text[start:end].splitlines())
    return Snippet(start, end, text_shown, "table", number)


def _is_line_list(piece: str) -> bool:
    """True if a paragraph is a list of lines, and not a sentence that continues over several.

    >>> _is_line_list("Dentist 0171 55 23\\nBlue bins on Tuesday"), _is_line_list("The port of\\nBergen is old.")
    (True, False)
    """
    lines = [line.rstrip() for line in piece.splitlines()]
    return (
        len(lines) > 1
        and all(0 < len(line) <= _MAX_NOTE_LINE and "  " not in line for line in lines)
        and not any(
            line.endswith((".", "!", "?", ",", ";", "。", "！", "？", "，", "、", "；")) or line[0].islower()
            for line in lines
        )
    )


def _split_lines(
    text: str, start: int, end: int, number: int, opening: re.Pattern[str] = _ANY_LINE_PATTERN
) -> Iterator[Snippet]:
    """The lines of a paragraph, each by itself, or from one that begins with ``opening`` to the next."""
    offset = first = start
    for line in [*text[start:end].splitlines(keepends=True), ""]:
        if offset > first and (not line or opening.match(line)):
            piece = text[first:offset]
            if text_shown := _MARKER_PATTERN.sub("", render_inline(piece.strip())):
                stamp = _TIMESTAMP_PATTERN.match(text_shown)
                asks = stamp is not None and _QUESTION_ENTRY_PATTERN.match(text_shown, stamp.end()) is not None
                yield Snippet(first, first + len(piece.rstrip()), text_shown, "table", number, is_question=asks)
            first = offset
        offset += len(line)


def _is_timestamped(piece: str) -> bool:
    """True if a paragraph consists of entries that begin with a time, each a line, some longer; the first can begin
    before the paragraph.

    >>> _is_timestamped("[3.12.26, 18:22] Bo: Who has it?\\n[3.12.26, 18:24] Al: Me.")
    True
    >>> _is_timestamped("At 9:30\\nor 10:00.")
    False
    """
    lines = piece.splitlines()
    num_timestamped = sum(_TIMESTAMP_PATTERN.match(line) is not None for line in lines)
    return num_timestamped > 1 and 2 * num_timestamped >= len(lines)


def _is_lone_field(text: str, text_blocks: Sequence[Block], number: int) -> bool:
    """True if a block is a line of a name and a value (``Alarm code: 4711``), and not a term above an indented
    definition or, without a number, a title of what follows."""

    def match_field(index: int) -> re.Match[str] | None:
        return _FIELD_PATTERN.fullmatch(text, text_blocks[index].start, text_blocks[index].end)

    if (field := match_field(number)) is None:
        return False
    if number + 1 == len(text_blocks):
        return True
    below = text_blocks[number + 1].start
    is_indented_below = text[text.rfind("\n", 0, below) + 1 : below].isspace()
    is_title = number == 0 and not any(map(str.isdigit, field["value"])) and match_field(1) is None
    return not is_indented_below and not is_title


def _split_notes(text: str, format: str) -> Iterator[Snippet]:
    """The paragraphs of a document that has no sentence, only lines of a few words, a shout aside."""
    for number, block in enumerate(parse_blocks(text, format)):
        text_shown = _MARKER_PATTERN.sub("", render_inline(text[block.start : block.end]))
        words = count_written_words(text_shown) if is_unspaced(text_shown) else len(_WORD_PATTERN.findall(text_shown))
        if block.kind != "heading" and words >= 3 and (text_shown.upper() != text_shown or is_unspaced(text_shown)):
            yield Snippet(block.start, block.end, text_shown, "table", number)


def _is_bill(piece: str) -> bool:
    """True if all lines of a paragraph are entries of a bill."""
    return all(_BILL_ENTRY_PATTERN.fullmatch(line.strip()) for line in piece.splitlines())


def _is_code(piece: str) -> bool:
    """True if a paragraph of plain text is something to type: after a prompt, or not a sentence."""
    has_function_word = any(word.lower() in FUNCTION_WORDS for word in _WORD_PATTERN.findall(piece))
    return bool(_SHELL_PROMPT_PATTERN.match(piece)) or not (
        has_function_word or _SENTENCE_END_PATTERN.search(piece.rstrip())
    )


def _split_mail_fields(text: str, start: int, end: int, number: int) -> Iterator[Snippet]:
    """The fields at the head of a mail, a line each but for those that are folded (RFC 5322, 2.2); its subject is a
    heading, which answers nothing."""
    for first, last in split_mail_fields(text, start, end):
        text_shown = render_inline(text[first:last])
        fit = not text_shown.lower().startswith("subject:")
        yield Snippet(first, first + len(text[first:last].rstrip()), text_shown, "table", number, is_selectable=fit)


@dataclass(frozen=True, slots=True)
class _TextPart:
    start: int
    end: int
    indent: int
    is_heading: bool = False
    is_hanging: bool = False


def _split_text_parts(text: str, start: int, end: int, indent: int, cut: bool) -> Iterator[_TextPart]:
    """Split a paragraph of plain text where a line is above deeper ones, as a term or heading is. If its first line is
    ``cut``, its depth is taken from the next line."""
    lines: list[tuple[int, int, int]] = []
    offset = start - indent
    for line in text[offset:end].splitlines(keepends=True):
        lines.append((offset, offset + len(line.rstrip()), len(line) - len(line.lstrip())))
        offset += len(line)
    if cut and len(lines) > 1:
        lines[0] = (lines[0][0] + lines[0][2] - lines[1][2], lines[0][1], lines[1][2])
    first, floor = 0, 0
    while first < len(lines):
        begin, stop, depth = lines[first]
        if _is_term_line(text, lines, first):
            yield _TextPart(begin + depth, stop, depth, is_heading=True)
            first, floor = first + 1, depth + 1
            continue
        is_hanging = _is_hanging_line(text, lines, first)
        last = first + 1
        while (
            last < len(lines)
            and lines[last][2] >= (depth + 1 if is_hanging else floor)
            and not (_is_term_line(text, lines, last) or _is_hanging_line(text, lines, last))
        ):
            last += 1
        is_lone_line = (
            len(lines) == 1
            and len(text[begin:stop].split()) <= 8
            and not _SENTENCE_END_PATTERN.search(text[begin:stop])
        )
        yield _TextPart(
            begin + depth, lines[last - 1][1], depth, is_heading=is_lone_line and not is_hanging, is_hanging=is_hanging
        )
        first = last


def _is_term_line(text: str, lines: Sequence[tuple[int, int, int]], index: int) -> bool:
    """True if a line is above lines indented under it, as a term is above its definition."""
    begin, stop, depth = lines[index]
    line = text[begin + depth : stop]
    is_indented_below = index + 1 < len(lines) and lines[index + 1][2] >= depth + 2
    is_short = len(line) <= 72 and (line.startswith("-") or len(line.split()) <= _MAX_TERM_WORDS)
    return (
        is_indented_below
        and is_short
        and not line.endswith((".", ",", ";", "。", "，", "、", "；"))
        and not _is_hanging_line(text, lines, index)
    )


def _is_hanging_line(text: str, lines: Sequence[tuple[int, int, int]], index: int) -> bool:
    """True if a line has a term in its first column and the start of its meaning in the next."""
    begin, stop, depth = lines[index]
    column = _HANGING_TERM_PATTERN.match(text[begin + depth : stop])
    if column is None or len(column["term"]) > 40:
        return False
    if index + 1 < len(lines) and lines[index + 1][2] > depth:
        return lines[index + 1][2] == depth + column.end()
    # In a single line only an option is distinct from words that a formatter spread, and only at the start of a
    # paragraph.
    return column["term"].startswith("-") and (index == 0 or _is_hanging_line(text, lines, index - 1))

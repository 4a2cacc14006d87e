"""The context that a reader needs to understand a snippet: a sentence, list item, table row, or lines of code. A
*block* is a paragraph, list item or table. An *attribution* is the line above a quoted mail ("On 3 May, Ann wrote:"). A
*reply* follows a question. A *lead-in* introduces the next block.

In: the snippets and headings of a text, in order. Out: the same snippets with their section, heading, caption and
length. The fields also say whether an answer can quote a snippet, and whether it must display the snippet before it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import groupby

from ..text.patterns import compile_lazily
from ..text.words import FUNCTION_WORDS, WORD_PATTERN, count_written_words, is_unspaced
from .block_kinds import FIELD_PATTERN
from .inline_rendering import QUOTE_PATTERN, render_inline
from .plain_text_snippets import FIELD_OR_SPEAKER_PATTERN, SENTENCE_END_PATTERN
from .snippets import Snippet, SnippetHeading

_SYMBOL_PATTERN = compile_lazily(r"[^\w\s\u0900-\u109f]|_")
#: A question mark. That of Greek looks like a semicolon.
_QUESTION_END_PATTERN = compile_lazily(r"(?:[?？؟\u037e]|[\u0370-\u03ff\u1f00-\u1fff];)\Z")
#: Words at the start of a sentence that refer to the sentence before it.
_CONNECTIVE_PATTERN = compile_lazily(
    r"""(?:this|that|these|those|such|however|but|and|or|so|therefore|thus|then|hence|also|otherwise|moreover
    |furthermore|instead|likewise|similarly|consequently|accordingly|nevertheless|nonetheless|still|yet|besides
    |conversely|both|here|again|finally|later|afterwards?|meanwhile|additionally|rather|indeed|neither|each
    |the\ (?:former|latter|above|following|same|other|(?:reason|cause)\ (?:is|was|for\ (?:this|that)))
    |as\ (?:a\ result|such|well)
    |in\ (?:addition|contrast|turn|that|this|such|fact|other|particular)|for\ (?:example|instance|this|that|these|those)
    |(?:because\ of|due\ to|at|with|after|by)\ (?:this|that|these)|to\ (?:this|that)\ end|on\ the\ other
    |all\ of\ (?:these|this|them)|none\ of)\b""",
    re.IGNORECASE | re.VERBOSE,
)
#: Words inside a sentence that refer to a list in the sentence before it.
_BACK_REFERENCE_PATTERN = compile_lazily(
    r"\b(?:all|any|both|each|either|most|neither|none|one|some)(?: of)? (?:these|those)\b", re.IGNORECASE
)
#: Pronouns that refer to something named before, at the start of a sentence or after the number of a clause.
_PRONOUN_PATTERN = compile_lazily(
    r"(?:\d{1,3}(?:\.\d{1,3})*\.? +)?(?:he|she|it|they|his|her|its|their|him|them|we|our|i|my)\b", re.IGNORECASE
)
#: A participle at the start of a sentence without a subject: "Reported by Ann Lee.", "Founded in 1912."
_PARTICIPLE_PATTERN = compile_lazily(
    r"\(?[A-Z][a-z]+(?:ed|en|wn|ght|uilt|ade|old|ound|ent) (?:as|at|by|for|from|in|on|to|under|until|with)\b"
    r"(?![^,]*,[^,]* (?:are|can|did|do|does|had|has|have|is|may|must|shall|should|was|were|will|would)\b)"
)
#: Headings of sections that show how something is written, or list other sections.
_SYNOPSIS_HEADINGS = frozenset(("synopsis", "usage", "syntax", "table of contents", "contents", "see also"))
#: The line above a quoted mail, with its date: "On 3 May 2026 at 09:05, Ann Voss wrote:".
_ATTRIBUTION_PATTERN = compile_lazily(r"(?=.*\d{1,2}[:.h]\d\d)(?=.*\d{4}|.*@).{1,200}:", re.DOTALL)
#: The end of a paragraph of a quotation.
_BLANK_LINE_PATTERN = compile_lazily(r"\n[> \t]*\n")
#: The minimum number of words of a readable snippet, and of an item, a sentence, a field or a row with a number.
MIN_WORDS, _MIN_COMPLETE_WORDS = 3, 2
#: The maximum fraction of symbols in a readable snippet.
_MAX_SYMBOL_FRACTION = 0.35
#: The maximum number of words of a heading or caption in a block of its own.
_MAX_CAPTION_WORDS = 12


class ContextAnnotator:
    """Sets the fields of the snippets of a text that describe their context, in the order of the text.
    The *open question* is one whose reply can follow; it acts as the heading of its reply.
    """

    def __init__(self, text: str, elements: Sequence[Snippet | SnippetHeading], heading: str) -> None:
        """Prepare to annotate the snippets of ``text``, which is in a section with this ``heading``.

        ``elements`` are the snippets and headings of the text, in order. The snippets of attributions become
        unselectable: answers cannot quote them.
        """
        self._text = text
        self._heading = heading
        self._section = 0
        self._at_section_start = True
        self._block_sizes = Counter(element.block_index for element in elements if isinstance(element, Snippet))
        self._attributions = _find_attributions(text, elements)
        self._previous_snippet: Snippet | None = None
        #: The caption of the table or quoted mail that the current snippet is in.
        self._caption = ""
        #: The open question, and the first snippet of its reply.
        self._open_question: Snippet | None = None
        self._reply: Snippet | None = None

    def open_section(self, heading: str) -> None:
        """Begin a section with this heading, and forget the open question. The next snippet is the section's first."""
        self._heading, self._at_section_start, self._open_question = heading, True, None
        self._section += 1

    def annotate(self, snippet: Snippet) -> None:
        """Set the fields of the next snippet of the text: its section, heading, caption and length.

        Also sets whether it is a question, whether it can be quoted (``is_selectable``), and whether an answer must
        display it with the snippet before it (``needs_previous``) or the subject of its pronoun (``needs_subject``).
        A heading that dates a release gets only its section. Snippets must be given in order.
        """
        previous = self._previous_snippet
        opens_block = previous is None or previous.block_index != snippet.block_index
        snippet.is_question |= snippet.kind in ("prose", "item") and bool(_QUESTION_END_PATTERN.search(snippet.text))
        self._update_open_question(snippet, opens_block)
        snippet.section = self._section
        if snippet.release is not None:
            return  # a heading that dates a release needs no context
        question = self._open_question
        snippet.heading = self._heading if question is None or question is snippet else question.text
        snippet.num_words = count_written_words(snippet.text)
        is_synopsis = self._heading.lower() in _SYNOPSIS_HEADINGS
        is_only_snippet = self._block_sizes[snippet.block_index] == 1
        snippet.is_selectable = snippet.is_selectable and not is_synopsis and _is_readable(snippet, is_only_snippet)
        follows_table = previous is not None and previous.kind == "table"  # prose refers to no single row of it
        if snippet.kind == "item" or (snippet.kind == "prose" and not follows_table):
            snippet.needs_previous = not self._at_section_start and _refers_back(snippet, opens_block)
            lacks_subject = not opens_block and _PARTICIPLE_PATTERN.match(snippet.text) is not None
            snippet.needs_subject = lacks_subject or _PRONOUN_PATTERN.match(snippet.text) is not None
        if opens_block or snippet.start in self._attributions:
            self._open_block(snippet)
        snippet.caption = self._caption
        # An answer is not understood without its question.
        snippet.needs_previous |= question is not None and question is previous
        self._at_section_start, self._previous_snippet = False, snippet

    def _open_block(self, snippet: Snippet) -> None:
        """Set the caption of the block or quotation that ``snippet`` opens. It needs a lead-in directly before it."""
        self._caption = self._attributions.get(snippet.start, "")
        lead_in = self._previous_snippet
        if self._caption or lead_in is None or not lead_in.is_lead_in or lead_in.section != self._section:
            return
        snippet.needs_previous = True
        if snippet.kind == "table" and not lead_in.is_selectable:  # the lead-in is not a sentence
            self._caption = lead_in.text.rstrip(":")

    def _update_open_question(self, snippet: Snippet, opens_block: bool) -> None:
        """Make ``snippet`` the open question if it asks something, or remember it as the first snippet of a reply.

        Forget the open question if the snippet no longer belongs to its reply. A question can have a reply if it is a
        chat message, if it opens a block (``opens_block``), if it follows another question with an unfinished reply, or
        if it is quoted: a mail replies to it with the text below that is not quoted.
        """
        question = self._open_question
        depth = _get_quote_depth(self._text, snippet)
        if snippet.is_question:
            # A chat log is parsed as a table with a row for each message.
            can_have_reply = snippet.kind == "table" or opens_block or question is not None or depth > 0
            self._open_question = snippet if can_have_reply else None
        elif question is None:
            return
        elif 0 < _get_quote_depth(self._text, question) <= depth:  # the quoted mail continues without a reply
            self._open_question = None
        elif question is self._previous_snippet:
            self._reply = snippet
        elif self._reply is not None and _ends_reply(self._text, question, self._reply, snippet):
            self._open_question = None


def _find_attributions(text: str, elements: Sequence[Snippet | SnippetHeading]) -> dict[int, str]:
    """Return the line that introduces each quoted mail ("On 3 May, Ann wrote:"), by the offset of its first snippet.

    A quotation can contain others, each with its own line, and continue after them. The line is empty for text that is
    not quoted, and for a quotation without such a line. ``elements`` are the snippets and headings of ``text``, in
    order. Side effect: the snippets of these lines become unselectable.
    """
    attributions: dict[int, str] = {}
    open_attributions: list[str] = []  # one for each level of the quotation
    previous_part: list[Snippet] = []
    snippets = (element for element in elements if isinstance(element, Snippet))
    for (_, depth), group in groupby(
        snippets, key=lambda snippet: (snippet.block_index, _get_quote_depth(text, snippet))
    ):
        part = list(group)
        if depth > len(open_attributions):
            open_attributions += [""] * (depth - len(open_attributions))
            open_attributions[-1] = _take_attribution(text, previous_part)
        del open_attributions[depth:]
        attributions[part[0].start] = open_attributions[-1] if open_attributions else ""
        previous_part = part
    return attributions


def _get_quote_depth(text: str, snippet: Snippet) -> int:
    """Return the number of marks ``>`` at the beginning of the line of ``text`` that a snippet is in."""
    line_start = text.rfind("\n", 0, snippet.start) + 1
    marks = QUOTE_PATTERN.match(text, line_start, snippet.end)
    return 0 if marks is None else marks.group().count(">")


def _take_attribution(text: str, snippets: Sequence[Snippet]) -> str:
    """Return the last paragraph of ``snippets`` if it introduces a quoted mail, and make it unselectable; else "".

    The snippets are adjacent in ``text``.
    """
    if not snippets:
        return ""
    start = snippets[0].start
    for blank_line in _BLANK_LINE_PATTERN.finditer(text, start, snippets[-1].end):
        start = blank_line.end()
    line = render_inline(text[start : snippets[-1].end])
    if _ATTRIBUTION_PATTERN.fullmatch(line) is None:
        return ""
    for snippet in snippets:
        snippet.is_selectable &= snippet.end <= start
    return line.rstrip(": ")


def _ends_reply(text: str, question: Snippet, reply: Snippet, snippet: Snippet) -> bool:
    """True if ``snippet`` is no longer part of the reply to ``question``, an earlier snippet of ``text`` that asks.

    ``reply`` is the first snippet of the reply. In a chat, only the next message (a row) is the reply, and in a
    transcript only the turn of the next speaker. A question in a list item is answered by the items below it, or else
    by the next item. A paragraph with its own heading is not a reply.
    """
    has_own_heading = bool(snippet.label) and snippet.block_index != reply.block_index
    if question.kind == "table" or has_own_heading:
        return True
    if question.kind == "item":
        if snippet.block_index in (question.block_index, reply.block_index):
            return False
        question_indent = _get_indent(text, question.start)
        are_below = all(_get_indent(text, other.start) > question_indent for other in (reply, snippet))
        return snippet.kind != "item" or not are_below
    return all(FIELD_OR_SPEAKER_PATTERN.match(turn.text) for turn in (question, snippet))


def _get_indent(text: str, offset: int) -> int:
    """Return the number of white space characters at the beginning of the line that contains ``offset``."""
    line = text[text.rfind("\n", 0, offset) + 1 :].partition("\n")[0]
    return len(line) - len(line.lstrip())


def _refers_back(snippet: Snippet, opens_block: bool) -> bool:
    """True if a sentence (a snippet) continues or refers to the sentence before it, and so cannot be understood alone.

    ``opens_block`` is True for the first sentence of a paragraph or item. Such a sentence refers back only with a word
    such as "This" or "However", and never if it defines a term.
    """
    if opens_block and snippet.term:
        return False
    is_continuation = snippet.text[:1].islower() and not opens_block
    return is_continuation or bool(
        _CONNECTIVE_PATTERN.match(snippet.text) or _BACK_REFERENCE_PATTERN.search(snippet.text)
    )


def count_words(text: str) -> int:
    """Return the number of words of a text; in scripts without spaces, two characters count as a word."""
    return count_written_words(text) if is_unspaced(text) else len(WORD_PATTERN.findall(text))


def may_be_heading(snippet: Snippet) -> bool:
    """True if a snippet is a short line of prose, neither a field nor the end of a sentence, that may be a title."""
    has_own_form = snippet.label or SENTENCE_END_PATTERN.search(snippet.text) or FIELD_PATTERN.fullmatch(snippet.text)
    return snippet.kind == "prose" and not has_own_form and count_words(snippet.text) <= _MAX_CAPTION_WORDS


def _is_readable(snippet: Snippet, is_only_snippet: bool) -> bool:
    """True if a snippet can be quoted: it is not a drawing, a fragment or a line of a table of contents.

    If ``is_only_snippet``, it is a whole paragraph, and must also not be a heading, caption or salutation.
    """
    labeled_text = f"{snippet.label} {snippet.text}"
    num_words = count_words(labeled_text)
    num_symbols = len(_SYMBOL_PATTERN.findall(snippet.cell_text or snippet.text))
    is_field = FIELD_PATTERN.fullmatch(snippet.text) is not None
    is_numeric_row = snippet.kind == "table" and any(map(str.isdigit, snippet.text))
    is_sentence = snippet.text.endswith((".", "!", "।", "۔")) and not snippet.text[-2:-1].isdigit()  # not "Article 11."
    is_complete = is_sentence or is_field or is_numeric_row or bool(snippet.cell_text) or snippet.kind == "item"
    is_fragment = num_words < (_MIN_COMPLETE_WORDS if is_complete else MIN_WORDS)
    is_contents_line = ". . ." in snippet.text  # the dots before a page number
    is_drawing = num_symbols > _MAX_SYMBOL_FRACTION * len(snippet.text)
    if is_fragment or is_contents_line or is_drawing:
        return False
    if not (is_only_snippet and may_be_heading(snippet)):
        return True
    if snippet.text.endswith(","):  # the salutation or the end of a mail
        return False
    has_function_word = not FUNCTION_WORDS.isdisjoint(WORD_PATTERN.findall(labeled_text.lower()))
    return has_function_word or not snippet.text.isascii()

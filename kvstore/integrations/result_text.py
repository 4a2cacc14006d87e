"""The text that a tool returns to a language model, within a limit of tokens. A *quotation* is text of documents
between marks, which the model must not take as instructions; its *rule* says so. *Sanitized* text can imitate neither
marks nor kvstore's own text. A *note* says how much was omitted.

In: keys, titles, spans and texts of documents, and the lines or parts of a result. Out: texts for a language model.

Document text is quoted as in a prompt (:mod:`kvstore.answering.prompt`): between marks drawn for each result, with keys
and titles on one line and numbers in brackets rewritten. Thus no document can imitate another passage or kvstore. Every
result is limited to the allowed tokens, by :func:`kvstore.token_estimate`, and says what was left out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote

import kvstore

from ..answering.prompt import Quotation, sanitize_slice, to_one_line
from ..rendering.row_formats import is_non_finite

#: The prefix of a document's URI; the percent-encoded key follows.
SCHEME = "kvstore:///"
#: A count with more digits than any real one, to reserve tokens for the note on omitted parts.
_LONGEST_COUNT = 10**9
#: Tokens that are not used, because token counts are estimates.
_MARGIN_TOKENS = 2
#: The number of displayed spans, and of displayed characters of a client's text.
_MAX_SPANS, _MAX_SHOWN_CHARS = 8, 80


def render_parts(
    max_tokens: int, parts: Sequence[ResultPart], separator: str, render_note: Callable[[int], str]
) -> str:
    """Return as many parts of a result (such as passages) as fit in ``max_tokens`` tokens, joined by ``separator``.

    At least the beginning of the first part is returned; there must be one. The result begins with the rule of the
    quotations. ``render_note`` returns a note on the number of omitted parts, which is appended if there are any.
    """
    quotation = Quotation(text for part in parts for text in (part.label, part.document_text or ""))
    # The longest count reserves tokens for any note.
    surrounding_text = f"{quotation.rule}\n\n{render_note(_LONGEST_COUNT)}"
    max_part_tokens = max_tokens - kvstore.token_estimate(surrounding_text) - _MARGIN_TOKENS
    texts = [part.to_text(quotation) for part in parts]
    num_fitting = _count_fitting(texts, separator, max_part_tokens)
    fitting_texts = texts[:num_fitting] or [parts[0].truncate(quotation, max_part_tokens)]
    num_left = len(parts) - len(fitting_texts)
    return f"{quotation.rule}\n\n" + separator.join(
        [*fitting_texts, render_note(num_left)] if num_left else fitting_texts
    )


def render_lines(
    max_tokens: int,
    lines: Iterable[str],
    render_note: Callable[[int], str],
    *,
    heading: str = "",
    always_note: bool = False,
) -> str:
    """Return a heading and as many lines as fit in ``max_tokens`` tokens, with the lines in one quotation.

    ``render_note`` returns a note on the number of omitted lines. The note is appended if lines were omitted, or if
    ``always_note`` is true. At least the beginning of the first line is returned; there must be one.
    """
    all_lines = list(lines)
    quotation = Quotation([heading, *all_lines])
    header = f"{quotation.rule}\n{heading}\n" if heading else f"{quotation.rule}\n"
    # The longest count reserves tokens for any note.
    surrounding_text = header + quotation.quote("") + render_note(_LONGEST_COUNT)
    max_line_tokens = max_tokens - kvstore.token_estimate(surrounding_text) - _MARGIN_TOKENS
    num_fitting = _count_fitting(all_lines, "\n", max_line_tokens)
    fitting_lines = all_lines[:num_fitting] or [truncate(all_lines[0], max_line_tokens)]
    num_left = len(all_lines) - len(fitting_lines)
    footer = f"\n{render_note(num_left)}" if num_left or always_note else ""
    return header + quotation.quote("\n".join(fitting_lines)) + footer


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a tool: the text for a language model, and the same as JSON for programs, if the tool has a schema.

    Texts of documents in ``data`` are quoted like those in the text.
    """

    text: str
    data: dict[str, Any] | None = None


def build_list_data(name: str, items: Sequence[Any], max_tokens: int) -> dict[str, Any]:
    """Return a JSON object with the items that fit in ``max_tokens`` (``name``), and how many do not (``left_out``)."""
    num_fitting = _count_fitting([json.dumps(item, ensure_ascii=False) for item in items], ", ", max_tokens)
    return {name: list(items[:num_fitting]), "left_out": len(items) - num_fitting}


@dataclass(frozen=True, slots=True)
class ResultPart:
    """A part of a result, such as a passage: kvstore's own text (``label``), then the text of a document, if any.

    ``document_text`` is that text without quotation marks, which are added on output.
    """

    label: str
    document_text: str | None = None

    def to_text(self, quotation: Quotation) -> str:
        """Return kvstore's own text (``label``), followed by the document's text between quotation marks, if any."""
        return self.label + ("" if self.document_text is None else quotation.quote(self.document_text))

    def truncate(self, quotation: Quotation, max_tokens: int) -> str:
        """Return as much of the text of this part as fits in ``max_tokens`` tokens.

        If text of a document follows kvstore's own text (``label``), the label gets at most half of the tokens, and the
        document's text is between quotation marks.
        """
        if self.document_text is None:
            return truncate(self.label, max_tokens)
        label = self.label
        if kvstore.token_estimate(label) > max_tokens // 2:
            label = f"{truncate(label, max_tokens // 2)}\n"
        remaining_tokens = max_tokens - kvstore.token_estimate(label + quotation.quote(""))
        return label + quotation.quote(truncate(self.document_text, remaining_tokens))


def _count_fitting(texts: Sequence[str], separator: str, max_tokens: int) -> int:
    """Return the number of leading texts that fit in ``max_tokens`` tokens if the separator joins them."""
    remaining_tokens = max_tokens
    for count, text in enumerate(texts):
        remaining_tokens -= kvstore.token_estimate(text + separator) + 1  # one more, because counts are estimates
        if remaining_tokens < 0:
            return count
    return len(texts)


def truncate(text: str, max_tokens: int, ending: str = " ... (cut)") -> str:
    """Return a text if it fits in ``max_tokens``, else as much of its beginning as fits, followed by ``ending``.

    If not even ``ending`` fits, it is returned alone.
    """
    num_tokens = kvstore.token_estimate(text)
    if num_tokens <= max_tokens:
        return text
    max_text_tokens = max(0, max_tokens - kvstore.token_estimate(ending))
    while num_tokens > max_text_tokens:  # the number of tokens is not exactly proportional to the length
        text = text[: min(len(text) - 1, len(text) * max_text_tokens // num_tokens)]
        num_tokens = kvstore.token_estimate(text)
    return text + ending


def quote_argument(text: str) -> str:
    """Return at most 80 characters of a client's text, in quotation marks for an error message."""
    return repr(text if len(text) <= _MAX_SHOWN_CHARS else f"{text[:_MAX_SHOWN_CHARS]}...")


def format_source(key: str, title: str | None) -> str:
    """Return the key of a document on one line, followed by its title in parentheses if the title is different."""
    return format_key(key) if title is None or title == key else f"{format_key(key)} ({to_one_line(title)})"


def format_key(key: str) -> str:
    """Return a key unchanged, or as the document's URI if sanitizing would alter the key or it begins like a URI."""
    return key if key == to_one_line(key) and not key.startswith(SCHEME) else SCHEME + quote(key, safe="")


def parse_key(text: str) -> str:
    """Return the key in a client's argument, which is a key or a document's URI."""
    return unquote(text.removeprefix(SCHEME)) if text.startswith(SCHEME) else text


def format_spans(spans: Sequence[Mapping[str, Any]]) -> str:
    """Return the byte ranges of the first ``_MAX_SPANS`` spans as text, such as "bytes 0-90, 120-200".

    The ranges of spans in another document than the first span's are preceded by that document's key.
    """
    first_document = spans[0]["document"]
    ranges = (
        f"{span['start']}-{span['end']}"
        if span["document"] == first_document
        else f"{format_key(span['document'])} {span['start']}-{span['end']}"
        for span in spans[:_MAX_SPANS]
    )
    return f"bytes {', '.join(ranges)}"


def to_json_value(value: Any) -> Any:
    """Convert a value of an SQL result to a JSON value: bytes become hexadecimal digits, and other values text.

    Finite numbers and None are unchanged. Text is sanitized like quoted document text: it cannot end a quotation.
    """
    if isinstance(value, bytes):
        return value.hex()
    is_json = value is None or (isinstance(value, (int, float)) and not is_non_finite(value))
    return value if is_json else sanitize_slice(str(value))


def format_outcome(answer: Mapping[str, Any]) -> str:
    """Return a row of ASK as one line: the outcome, the author, the verdict, and the words that answer the question."""
    author = ""
    if answer["outcome"] == "answered":
        author = ", extractive" if answer["model"] is None else f", written by {answer['model']}"
    verdict = "" if answer["verdict"] is None else f"; verdict: {answer['verdict']}"
    span = f"; answer_span: {to_one_line(answer['answer_span']['text'])}" if answer["answer_span"] else ""
    return f"(outcome: {answer['outcome']}{author}{verdict}{span})"


def sanitize_span(span: Mapping[str, Any] | None) -> str | None:
    """Return the text of a span of an answer, sanitized like quoted document text; None without a span."""
    return sanitize_slice(span["text"]) if span else None


def format_occurrence(row: Mapping[str, Any]) -> str:
    """Return a row of LOOKUP as a line: the name, the tree or document where it occurs, and the text."""
    if row["document"] is None:
        location = f"in tree {row['tree']}, level {row['level']}"
    else:
        location = f"in {format_key(row['document'])}"
    parent = f", under {row['parent']}" if row["parent"] else ""
    return f"{row['entity']} {location}{parent}: {row['text']}"


def format_relative(row: Mapping[str, Any]) -> str:
    """Return a row of EXPAND as a line: the signed level, the name, a lower name's parent, the tree and the text."""
    parent = f" (under {row['via']})" if row["level"] > 0 else ""
    text = f": {row['text']}" if row["text"] else ""
    return f"{row['level']:+d} {row['relative']}{parent} in {row['tree']}{text}"

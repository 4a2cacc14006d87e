"""The layouts of results that are not plain tables: the results of LOOKUP, EXPAND, SEARCH, RETRIEVE and ASK.

In: the rows of a statement and a width in cells (None: no limit). Out: lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any, NamedTuple

from .layout import (
    MIN_COLUMN_WIDTH,
    PrintedRow,
    format_value,
    measure_width,
    to_printable,
    truncate,
    wrap,
    wrap_cell,
    wrap_labeled_text,
)
from .masking import BOLD, PLAIN

#: The marker at the start of a list item.
_LIST_MARKER_PATTERN = re.compile(r"(?:[-*•]|\d{1,3}[.)]) ")
#: A Markdown heading that is a whole paragraph.
_HEADING_PATTERN = re.compile(r"\A#{1,6} +(.*)\Z")
#: The width of the note below an answer if nothing limits it.
_UNLIMITED_ANSWER_WIDTH = 200


def render_locations(columns: Sequence[str], rows: Iterable[PrintedRow], width: int) -> Iterator[str]:
    """Yield the lines of the rows of LOOKUP: each entity, the trees and documents where it occurs, and their texts.

    Each line is at most ``width`` terminal cells wide. Asterisks mark the entity in a text. Until the text is wrapped,
    two characters that texts do not use (hidden marks) replace them, because a line may end inside an entity.
    """
    entity = current_location = None  # of the previous row
    for index, values in enumerate(rows):
        row = dict(zip(columns, values, strict=True))
        if row["entity"] != entity:
            entity, current_location = row["entity"], None
            if index:
                yield ""
            yield _limit_width(format_value(entity), width)
        location = _format_location(row["tree"], row["document"], row["parent"])
        if location != current_location:
            current_location = location
            yield _limit_width(f"  {location}", width)
        marked_text = _insert_hidden_marks(format_value(row["text"]), format_value(entity))
        indent = "    "
        lines = wrap_cell(marked_text, max(width - len(indent), MIN_COLUMN_WIDTH))
        yield from (indent + line for line in _replace_hidden_marks(lines))


def _format_location(tree: str | None, document: str | None, parent: str | None) -> str:
    """Return the tree in which an entity occurs or, if ``tree`` is None, the document and the heading ``parent``."""
    if tree is not None:
        return f"in tree {format_value(tree)}"
    heading = f" › {format_value(parent)}" if parent not in (None, document) else ""
    return f"{format_value(document)}{heading}"


#: Characters of private use that mark the words of a name until a text has been broken into lines. Each has the width
#: of an asterisk, so that no line becomes too long.
_OPEN, _CLOSE = "\U0010fffc", "\U0010fffd"


def _insert_hidden_marks(text: str, entity: str) -> str:
    """Put ``_OPEN`` and ``_CLOSE`` around each word of every occurrence of a name in a text, ignoring case.

    After the text is wrapped, asterisks replace these two characters. ``entity`` is the name.
    """
    text = text.replace(_OPEN, "").replace(_CLOSE, "")
    pattern = r"\s+".join(map(re.escape, entity.split()))
    return re.sub(
        rf"(?<!\w)(?:{pattern})(?!\w)",
        lambda name: " ".join(f"{_OPEN}{word}{_CLOSE}" for word in name.group().split()),
        text,
        flags=re.IGNORECASE,
    )


def _replace_hidden_marks(lines: Iterable[str]) -> Iterator[str]:
    """Yield lines with asterisks in place of the marks (``_OPEN`` and ``_CLOSE``) around the words of a name.

    The words of a name that are on one line get one pair of asterisks. Words after a line end get another pair, and so
    does the rest of a word that is divided between two lines.
    """
    is_open = False
    for line in lines:
        text = (_OPEN if is_open else "") + line
        is_open = text.rfind(_OPEN) > text.rfind(_CLOSE)
        text += _CLOSE if is_open else ""
        yield text.replace(f"{_CLOSE} {_OPEN}", " ").replace(_OPEN, "*").replace(_CLOSE, "*")


class _ExpandRow(NamedTuple):
    """A row of EXPAND: a name above (``level`` < 0) or below an entity in a tree, reached through ``via``.

    A row of level 0 with the name ``…`` is a note; its ``text`` describes the omitted rows.
    """

    entity: str
    tree: str
    level: int
    relative: str
    via: str | None
    text: str | None

    @property
    def is_note(self) -> bool:
        """True if the row is a note about omitted rows instead of an entity."""
        return self.level == 0 and not self.via and self.relative == "…"


def render_relatives(rows: Iterable[PrintedRow], width: int | None) -> Iterator[str]:
    """Yield the lines of EXPAND's rows: for each entity and tree, the names above and below the entity as branches.

    Notes about omitted rows follow the branches. Lines are cut to ``width`` cells (None: no limit).
    """
    groups: dict[tuple[str, str], list[_ExpandRow]] = {}
    for row in map(_ExpandRow._make, rows):
        groups.setdefault((row.entity, row.tree), []).append(row)
    for group_index, ((entity, tree), members) in enumerate(groups.items()):
        if group_index:
            yield ""
        yield _limit_width(f"{format_value(entity)}  in {format_value(tree)}", width)
        above = [row for row in members if row.level < 0]
        below = [row for row in members if row.level > 0]
        notes = [row for row in members if row.is_note]
        branches = [(label, branch_rows) for label, branch_rows in (("above", above), ("below", below)) if branch_rows]
        for index, (label, branch_rows) in enumerate(branches):
            is_last = index == len(branches) - 1 and not notes
            yield f"{'└─' if is_last else '├─'} {label}"
            indent = "   " if is_last else "│  "
            yield from _render_branch(branch_rows, distance=1, via=None, indent=indent, width=width, drawn_names=set())
        for note in notes:
            yield _limit_width(f"… {format_value(note.text)}", width)


def render_groups(rows: Iterable[PrintedRow], width: int | None) -> Iterator[str]:
    """Yield the lines of the rows of EXPAND for an index, such as EXPAND TOPICS, as indented trees of groups.

    A row is (level, title, count, detail). Its parent is the last row before it with a smaller level; roots have level
    0. Lines are cut to ``width`` cells (None: no limit).
    """
    row_list = list(rows)
    have_next_siblings = _find_next_siblings([level for level, *_ in row_list])
    # For the row and each of its ancestors, by level: True if it has a next sibling, to which a vertical line leads.
    has_line: dict[int, bool] = {}
    for (level, title, count, detail), is_followed in zip(row_list, have_next_siblings, strict=True):
        has_line = {above: is_drawn for above, is_drawn in has_line.items() if above < level} | {level: is_followed}
        indent = "".join("│  " if has_line.get(above) else "   " for above in range(1, level))
        branch = "" if level == 0 else "├─ " if is_followed else "└─ "
        note = f"  {format_value(detail)}" if detail else ""
        yield _limit_width(f"{indent}{branch}{format_value(title)} ({count:,}){note}", width)


def _find_next_siblings(levels: Sequence[int]) -> list[bool]:
    """Return for each row of a tree, given by its level, if a later row is its sibling.

    >>> _find_next_siblings([0, 1, 2, 1])
    [False, True, False, False]
    """
    have_next_siblings = []  # from the last row to the first
    later_levels: set[int] = set()  # of the later rows that have no row of a smaller level before them
    for level in reversed(levels):
        have_next_siblings.append(level in later_levels)
        later_levels = {other for other in later_levels if other < level} | {level}
    return have_next_siblings[::-1]


def _render_branch(
    rows: Sequence[_ExpandRow], distance: int, via: str | None, indent: str, width: int | None, drawn_names: set[str]
) -> Iterator[str]:
    """Yield the lines of the names ``distance`` edges from the entity that were reached through ``via`` (None: any).

    ``indent`` is the text before each line. The names that were reached through a name follow it as its branch. If
    several paths lead to a name, its branch is drawn only the first time: ``drawn_names``, changed in place, has the
    names whose branches are drawn.
    """
    near_rows = [row for row in rows if abs(row.level) == distance]
    branch_rows = near_rows if via is None else [row for row in near_rows if row.via == via]
    for index, row in enumerate(branch_rows):
        is_last = index == len(branch_rows) - 1
        # "a is under b" only repeats the tree.
        text = format_value(row.text) if row.text and " is under " not in row.text else ""
        yield _limit_width(
            f"{indent}{'└─' if is_last else '├─'} {format_value(row.relative)}" + (f"  {text}" if text else ""), width
        )
        if row.relative not in drawn_names:
            drawn_names.add(row.relative)
            yield from _render_branch(
                rows, distance + 1, row.relative, indent + ("   " if is_last else "│  "), width, drawn_names
            )


def _limit_width(text: str, width: int | None) -> str:
    """Truncate a text to ``width`` cells (None: return it unchanged)."""
    return text if width is None else truncate(text, width)


def render_hits(columns: Sequence[str], rows: Iterable[PrintedRow], width: int) -> Iterator[str]:
    """Yield the lines of the hits of SEARCH or RETRIEVE: rank, document, chunk, score and path, and then the text.

    A hit of another kind has its kind instead of a chunk. Each paragraph of the text begins a line, and headings are
    printed without their marks. Lines fit ``width`` cells.
    """
    for index, row in enumerate(rows):
        hit = dict(zip(columns, row, strict=True))
        kind = hit.get("kind", "chunk")
        part = f"chunk {format_value(hit['ordinal'])}" if kind == "chunk" else str(kind)
        details = [format_value(hit["document"]), part, format_value(hit["score"])]
        if hit.get("path"):
            details.append(format_value(hit["path"]))
        label = f"{hit['rank']}. "
        if index:
            yield ""
        yield from wrap_labeled_text(label, ", ".join(details), width)
        indent = " " * measure_width(label)
        text_width = max(width - len(indent), MIN_COLUMN_WIDTH)
        for paragraph in filter(str.strip, str(hit["text"] or "").split("\n\n")):
            text = _HEADING_PATTERN.sub(r"\1", paragraph)
            yield from (f"{indent}{line}" for line in wrap(to_printable(text), text_width))


def render_answer(answer: Mapping[str, Any], width: int | None, *, is_shown: bool = False) -> Iterator[str]:
    """Yield the lines of an answer with its citations; ``answer`` is a row of ASK, by column name.

    A verdict (yes or no) is the first line. If ``is_shown``, a model's text was printed while the model wrote it, and
    is not repeated. Without a model, the words that answer the question, or each part of a question that asks for
    several facts, are bold. Lines fit ``width`` cells (None: no limit, and nothing is bold).
    """
    if answer["verdict"] is not None:
        yield f"{answer['verdict'].capitalize()}."
    if answer["extractive"] or not is_shown:
        lines: list[str] = []
        for paragraph in answer["answer"].split("\n"):
            line = to_printable(paragraph)
            marker = _LIST_MARKER_PATTERN.match(line)
            label = "" if marker is None else marker[0]
            lines += wrap_labeled_text(label, line.removeprefix(label), width)
        part_spans = [part["span"] for part in answer["parts"]]
        spans = [span for span in (answer["answer_span"], *part_spans) if span is not None]
        yield from lines if width is None else _embolden(lines, answer["answer"], spans)
    if answer["citations"]:
        yield ""
    for citation in answer["citations"]:
        yield from _render_citation(citation, width)
    if answer["extractive"] and answer["citations"] and not answer["abstained"]:
        yield ""
        yield from wrap(
            "  Extractive: sentences of the documents, word for word; no language model wrote them.",
            width or _UNLIMITED_ANSWER_WIDTH,
        )
    elif answer["model"] is not None:
        yield ""
        yield _limit_width(f"  Written by {to_printable(answer['model'])}.", width)


def _embolden(lines: Sequence[str], text: str, spans: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the wrapped ``lines`` of a text with some of its spans in bold.

    The ``start`` and ``end`` of a span are offsets in ``text``. Wrapping changes only white space, so an offset becomes
    the number of characters before it that are not white space.
    """

    def count_visible(end: int) -> int:
        """Return the number of characters before offset ``end`` that are not white space."""
        return len("".join(to_printable(text[:end].replace("\n", " ")).split()))

    bold_offsets: set[int] = set()
    for span in spans:
        bold_offsets.update(range(count_visible(span["start"]), count_visible(span["end"])))
    offset = 0
    for line in lines:
        bold_line = ""
        is_bold = False
        for character in line:
            if not character.isspace():
                if (offset in bold_offsets) != is_bold:
                    bold_line += PLAIN if is_bold else BOLD
                    is_bold = not is_bold
                offset += 1
            bold_line += character
        yield bold_line + (PLAIN if is_bold else "")


def _render_citation(citation: dict[str, Any], width: int | None) -> Iterator[str]:
    """Yield the lines of a citation, indented below its number and wrapped to ``width`` cells (None: no limit).

    The file is shown too if the document's key, such as a message id, does not contain the name of the file.
    """
    document, source, spans = citation["document"], citation.get("source"), citation["spans"]
    file = f" ({to_printable(_shorten_path(source))})" if source and PurePath(source).name not in document else ""
    location = (
        f"{to_printable(document)}{file}, {_format_chunks(spans)}, bytes {citation['start']} to {citation['end']}"
    )
    yield from wrap_labeled_text(f"  [{citation['number']}] ", location + _format_other_documents(spans), width)


def _shorten_path(path: str) -> str:
    """Return a path below the current folder relative to that folder, and any other path unchanged."""
    return str(PurePath(path).relative_to(Path.cwd())) if PurePath(path).is_relative_to(Path.cwd()) else path


def _format_chunks(spans: Sequence[dict[str, Any]]) -> str:
    """Return ``chunk N`` or ``chunks N to M``: the range of chunks of the spans in the first span's document."""
    ordinals = [span["ordinal"] for span in spans if span["document"] == spans[0]["document"]]
    first, last = ordinals[0], max(ordinals)
    return f"chunk {first}" if first == last else f"chunks {first} to {last}"


def _format_other_documents(spans: Sequence[dict[str, Any]]) -> str:
    """Return a phrase with the number of further documents in which a citation has spans, or an empty string."""
    num_others = len({span["document"] for span in spans}) - 1
    return f", and {num_others} more document{'' if num_others == 1 else 's'}" if num_others else ""

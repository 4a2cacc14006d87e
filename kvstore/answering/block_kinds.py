"""The kinds of paragraphs that are not sentences: bills, chat logs, records, columns and lists of short lines. A
*record* is lines of ``name: value``; each such line is a *field*. A *snippet* is a piece of text that an answer can
quote, here usually a line.

In: the text of a paragraph. Out: its :class:`BlockKind`, which splits it into snippets, or None if it is a paragraph of
sentences. :data:`BLOCK_KINDS` has one row per kind: name, rule, method of splitting, and an example.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from ..text.everyday_words import is_everyday
from ..text.name_words import CALENDAR_WORDS
from ..text.patterns import compile_lazily
from ..text.words import count_written_words
from .inline_rendering import render_inline, strip_item_marker
from .snippets import TIMESTAMP_PATTERN, PassageBlock, Snippet, split_entries, split_table

#: A name and a short value that is not a sentence, such as a column of a row.
FIELD_PATTERN = compile_lazily(r"(?P<name>[^\s:][^:\n]{0,60}): (?P<value>\S{1,80}(?: \S{1,80}){0,9})(?<![.!?,;])")
#: A name and a value of any length.
_NAMED_VALUE_PATTERN = compile_lazily(r"(?P<name>[^\s:][^:\n]{0,60}): \S.*")
#: The maximum number of words of a record with values that are sentences.
_MAX_RECORD_WORDS = 80
#: A line of a bill: an item and an amount.
_BILL_ENTRY_PATTERN = compile_lazily(
    r"(?=[^\n]*[^\W\d]{2})[^\n]{1,100}\s[^\w\s]?\d[\d.,’']*[.,]\d\d(?:\s?[^\W\d]{3}|\s?[^\w\s.!?])?"
)
#: The gap between two columns of a line, and the maximum length of the first column in characters.
_COLUMN_GAP_PATTERN = compile_lazily(r"\s{2,}")
_MAX_FIRST_COLUMN = 60
#: A line that only separates what is above it from what is below it, such as the header of a table from its rows.
RULE_PATTERN = compile_lazily(r"(?:[-=_*~#] *){5,}")
#: The maximum distance between the starts of a column in two lines, whose texts can be aligned at their ends.
_MAX_COLUMN_SHIFT = 3
#: The maximum number of words that are one snippet with the line that introduces them.
_MAX_INTRODUCED_WORDS = 40
#: The minimum size of a table whose first line has the names of its columns.
_MIN_HEADED_ROWS, _MIN_HEADED_COLUMNS = 3, 3
#: The mark that the PDF reader writes in a header for a first column without a name.
_UNNAMED_COLUMN = "–"
#: The marks for a missing number in a cell, and the form of a person's name.
_MISSING_NUMBER_PATTERN = compile_lazily(r"(?i:[-\u2013\u2014.?]+|none|nil|n/?a|free|closed|unknown|tb[acd])")
_PERSON_PATTERN = compile_lazily(r"(?:[A-Z][\w'’.-]* ){1,3}[A-Z][\w'’-]*")
_YEAR_PATTERN = compile_lazily(r"(?<![\d.,])(?:19|20)\d\d(?![\d.,])")
#: The maximum length of a line of notes in characters; lines of wrapped sentences are longer.
_MAX_NOTE_LINE = 60
#: The maximum number of words of a listed thing that can begin with a lower-case letter.
_MAX_LISTED_WORDS = 5
_CONTINUED_LINE_ENDS = (".", "!", "?", ",", ";", "。", "।", "۔", "！", "？", "，", "、", "；")


def _is_bill(lines: Sequence[str]) -> bool:
    """True if every line is an entry of a bill: an item and an amount with two decimals."""
    return all(_BILL_ENTRY_PATTERN.fullmatch(line.strip()) for line in lines)


def _is_timestamped(lines: Sequence[str]) -> bool:
    """True if lines are part of a chat or log: at least half of them, and more than one, begin with a time.

    The other lines continue an entry.
    """
    num_timestamped = sum(TIMESTAMP_PATTERN.match(line) is not None for line in lines)
    return num_timestamped > 1 and 2 * num_timestamped >= len(lines)


def _is_record(lines: Sequence[str]) -> bool:
    """True if lines are a record: each is ``name: value``, with distinct names, as in a stored row.

    All values must be short and not sentences. In a record of at most ``_MAX_RECORD_WORDS`` words, more than half of
    the values are enough.
    """
    names = {field["name"] for field in map(_NAMED_VALUE_PATTERN.fullmatch, lines) if field is not None}
    if len(lines) < 2 or len(names) < len(lines):
        return False
    num_short = sum(FIELD_PATTERN.fullmatch(line) is not None for line in lines)
    if num_short == len(lines):
        return True
    return 2 * num_short > len(lines) and count_written_words("\n".join(lines)) <= _MAX_RECORD_WORDS


def _has_columns(lines: Sequence[str]) -> bool:
    """True if there are several lines, each with columns separated by white space, such as a list of prices.

    The second column begins at about the same place in each line. False if a line begins with a dash, as an option with
    its definition does, or ends as a sentence or clause does, unless there is a rule below the first line.
    """
    lines = [line.strip().expandtabs() for line in lines]
    if has_rule := len(lines) > 2 and RULE_PATTERN.fullmatch(lines[1]) is not None:
        del lines[1]
    gaps = [_COLUMN_GAP_PATTERN.search(line) for line in lines]
    second_columns = [gap.end() for gap in gaps if gap is not None and gap.start() <= _MAX_FIRST_COLUMN]
    if len(lines) < 2 or len(second_columns) < len(lines):
        return False
    is_aligned = max(second_columns) - min(second_columns) <= _MAX_COLUMN_SHIFT
    has_option_or_sentence = any(line.startswith("-") or line.endswith((".", "!", "?", ",", ";")) for line in lines)
    return is_aligned and (has_rule or not has_option_or_sentence)


def _is_piped(lines: Sequence[str]) -> bool:
    """True if several lines have cells between vertical bars. The first line can be the end of a row, without a bar."""
    first_line, *later_lines = lines
    return len(later_lines) + (" | " in first_line) > 1 and all(" | " in line for line in later_lines)


def _is_line_list(lines: Sequence[str]) -> bool:
    """True if short lines are a list, and not a sentence that continues over several lines.

    Lines may begin with a lower-case letter if each has a few words and the first line ends with a colon.
    """
    lines = [line.rstrip() for line in lines]
    are_short = all(0 < len(line) <= _MAX_NOTE_LINE and "  " not in line for line in lines)
    if len(lines) < 2 or not are_short or any(line.endswith(_CONTINUED_LINE_ENDS) for line in lines):
        return False
    has_lead_in = lines[0].endswith(":") and all(len(line.split()) <= _MAX_LISTED_WORDS for line in lines[1:])
    return has_lead_in or not any(line[0].islower() for line in lines)


def _split_record(block: PassageBlock) -> Iterator[Snippet]:
    """Yield a record (lines of a name and a value) as one snippet, its lines joined by semicolons."""
    displayed_text = "; ".join(strip_item_marker(render_inline(line)) for line in block.content.splitlines())
    yield Snippet(start=block.start, end=block.end, text=displayed_text, kind="table", block_index=block.block_index)


def _split_columns(block: PassageBlock) -> Iterator[Snippet]:
    """Yield each line of columns as a snippet, such as ``Friday: 10:00; 18:00``.

    If the first line has the names of the columns, it is not yielded, and each cell follows the name of its column.
    A rule below a first line of several names shows that it has them. A row can then have empty cells.
    """
    snippets = list(split_entries(block))
    lines = [block.text[snippet.start : snippet.end].strip().expandtabs() for snippet in snippets]
    if has_rule := len(lines) > 1 and RULE_PATTERN.fullmatch(lines[1]) is not None:
        del snippets[1], lines[1]
    rows = [list(map(render_inline, _split_cells(line, lines[0] if has_rule else ""))) for line in lines]
    has_header = (has_rule and len(rows[0]) >= _MIN_HEADED_COLUMNS) or _has_header(rows)
    first_index = 1 if has_header else 0
    for snippet, row in zip(snippets[first_index:], rows[first_index:], strict=True):
        if has_header and len(row) == len(rows[0]):
            cells = zip(rows[0], row, strict=True)
            snippet.text = "; ".join(
                cell if name == _UNNAMED_COLUMN else f"{name}: {cell}" for name, cell in cells if cell
            )
            snippet.cell_text = " ".join(filter(None, row))
            snippet.empty_columns = " ".join(name for name, cell in zip(rows[0], row, strict=True) if not cell)
        else:
            # The colons of a form are aligned: "Ward     : Heron".
            first_cell, *other_cells = (cell.removeprefix(": ") for cell in row)
            snippet.text = f"{first_cell.removesuffix(':').rstrip()}: {'; '.join(other_cells).replace(':; ', ': ')}"
        yield snippet


def _split_cells(line: str, header: str) -> list[str]:
    """Split a line of an aligned table into cells at its wide gaps.

    If the number of cells differs from that of ``header`` (empty: none), split it where the header's columns begin,
    unless that would cut a word.
    """
    cells = _COLUMN_GAP_PATTERN.split(line)
    starts = [0, *(gap.end() for gap in _COLUMN_GAP_PATTERN.finditer(header))]
    if not header or len(cells) == len(starts) or any(line[start - 1 : start].strip() for start in starts[1:]):
        return cells
    return [line[start:end].strip() for start, end in pairwise([*starts, len(line)])]


def _split_piped(block: PassageBlock) -> Iterator[Snippet]:
    """Yield the rows of a table with vertical bars; its first row has the names of columns if it has no digit."""
    first_row = block.content.partition("\n")[0]
    has_names = first_row.count(" | ") + 1 >= _MIN_HEADED_COLUMNS and not any(map(str.isdigit, first_row))
    return split_table(block, None if has_names else "")


def _has_header(rows: Sequence[Sequence[str]]) -> bool:
    """True if the first of the ``rows`` of cells has the names of the columns.

    At least one column must have a name without a digit above cells that all have one, or two columns must be named
    by years ("2023/24"), and no other row may have a year. All rows must have the same number of cells; there must be
    at least ``_MIN_HEADED_ROWS`` rows and ``_MIN_HEADED_COLUMNS`` columns. The rows have no header if the first one
    begins with a weekday, or if the first column lists persons. If the first cell is capitalized, no other cell of the
    header may begin in lower case.
    """
    if len(rows) < _MIN_HEADED_ROWS:
        return False
    names, *other_rows = rows
    if len(names) < _MIN_HEADED_COLUMNS or any(len(row) != len(names) for row in other_rows):
        return False
    if names[0].lower() in CALENDAR_WORDS or _are_persons([first_cell for first_cell, *_ in rows]):
        return False  # the first row is an entry, like the other rows
    if names[0][:1].isupper() and any(name[:1].islower() for name in names):
        return False
    years_per_row = [sum(_YEAR_PATTERN.search(cell) is not None for cell in row) for row in rows]
    if years_per_row[0] > 1 and not any(years_per_row[1:]):
        return True
    return any(_is_named_number_column(name, cells) for name, *cells in zip(*rows, strict=True))


def _is_named_number_column(name: str, cells: Sequence[str]) -> bool:
    """True if a column has a number in each of its ``cells``, below a first cell (``name``) that can be its name.

    A name has no digit, and is not a placeholder for a missing number, such as "free". A name with letters can have a
    digit ("40' HC") if the cells have no letters.
    """
    has_numbers = all(any(map(str.isdigit, cell)) for cell in cells)
    has_letters, *cells_have_letters = (any(map(str.isalpha, cell)) for cell in [name, *cells])
    can_be_name = (has_letters and not any(cells_have_letters)) or not any(map(str.isdigit, name))
    return has_numbers and can_be_name and not _MISSING_NUMBER_PATTERN.fullmatch(name)


def _are_persons(cells: Sequence[str]) -> bool:
    """True if all cells have the form of a person's name, and the first does not consist only of everyday words."""
    has_only_everyday_words = all(map(is_everyday, cells[0].split()))
    return all(map(_PERSON_PATTERN.fullmatch, cells)) and not has_only_everyday_words


class BlockKind(NamedTuple):
    """A kind of paragraph: the rule that recognizes its lines, the function that splits it, and an example.

    With ``ends_definition``, a term above such a paragraph does not apply to the text after it.
    """

    name: str
    matches: Callable[[Sequence[str]], bool]
    split: Callable[[PassageBlock], Iterator[Snippet]]
    example: str
    ends_definition: bool = True


def _split_line_list(block: PassageBlock) -> Iterator[Snippet]:
    """Yield the lines of a paragraph as snippets.

    A line that ends with a colon becomes one snippet with the lines up to the next such line, unless these have more
    than ``_MAX_INTRODUCED_WORDS`` words.
    """
    lines = list(split_entries(block))
    firsts = [index for index, line in enumerate(lines) if index == 0 or line.text.endswith(":")]
    for first, last in pairwise([*firsts, len(lines)]):
        lead_in, *introduced_lines = lines[first:last]
        content = "; ".join(line.text for line in introduced_lines)
        if lead_in.text.endswith(":") and 0 < count_written_words(content) <= _MAX_INTRODUCED_WORDS:
            yield replace(lead_in, end=introduced_lines[-1].end, text=f"{lead_in.text} {content}")
        else:
            yield from lines[first:last]


LINE_LIST = BlockKind("line list", _is_line_list, _split_line_list, "Dentist 0171 55 23\nBlue bins on Tuesday")
COLUMNS = BlockKind(
    "columns", _has_columns, _split_columns, "Monday   closed\nFriday   10:00 - 18:00", ends_definition=False
)
#: The kinds in the order in which they are tried.
BLOCK_KINDS = (
    BlockKind("bill", _is_bill, partial(split_table, header_row=""), "Milk 1.20\nBread 3.40"),
    BlockKind(
        "timestamped",
        _is_timestamped,
        partial(split_entries, entry_start=TIMESTAMP_PATTERN),
        "[3.12.26, 18:22] Bo: Who has it?\n[3.12.26, 18:24] Al: Me.",
    ),
    BlockKind("piped", _is_piped, _split_piped, "Bed | Name | Notes\n2 | Ann Lee | stays"),
    BlockKind("record", _is_record, _split_record, "country: Albania\nincome: 10620", ends_definition=False),
    COLUMNS,
    LINE_LIST,
)


def find_block_kind(paragraph: str) -> BlockKind | None:
    """Return the kind of a paragraph that is not sentences, such as a bill; None for a paragraph of sentences.

    >>> find_block_kind("Dentist 0171 55 23\\nBlue bins on Tuesday").name
    'line list'
    >>> find_block_kind("The port of\\nBergen is old.")
    """
    lines = paragraph.splitlines()
    return next((kind for kind in BLOCK_KINDS if kind.matches(lines)), None)

"""Rows with an extreme value, such as the cheapest of a price list. A superlative has a *measure* (price, date) and a
direction (highest or lowest). A *cell* is a field of a row such as ``Room: A; Price: $40``; its *column* is the same
field of other rows. A *term* is the stem of a word.

In: a question with a superlative ("the cheapest", "costs the most", "the highest hourly rate"), and the rows of tables.
Out: for each table with a column that the superlative compares, the row with the extreme value, as a text in which the
superlative is written before the name of that column. The answer reader (a neural network) does not compare numbers,
and it sees one row at a time; "Service: Health check; cheapest Price: €480" it can read.

A column is comparable if :mod:`.cell_values` can read its cells. A superlative with a measure, such as "cheapest",
compares a column of this measure; one without, such as "highest", a column that the question names. If the question has
the value of another cell ("the cheapest vendor for plumbing"), only the rows with that value are compared.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import NamedTuple

from ...text.name_words import MONTHS
from ...text.patterns import compile_lazily
from ...text.quantities import CALENDAR_YEAR, CLOCK, DATE
from ...text.words import list_content_terms, list_content_words, list_terms
from .cell_values import CURRENCIES, DATA, LENGTH, MAX_CELL, TIME, VOLUME, WEIGHT, parse_column

#: The superlatives of each measure: for its highest values, and for its lowest.
_SUPERLATIVES = {
    "price": (
        "most expensive, most costly, priciest, dearest, costliest, best paid, highest paid, highest priced",
        "cheapest, least expensive, least costly, worst paid, lowest paid, lowest priced",
    ),
    "length": ("longest", "shortest, briefest"),
    "date": ("latest, newest, most recent, most recently", "earliest, soonest"),
    "age": ("oldest", "youngest"),
    "size": ("largest, biggest, roomiest", "smallest"),
    "weight": ("heaviest", "lightest"),
    "height": ("tallest", ""),
    "width": ("widest", "narrowest"),
    "depth": ("deepest", "shallowest"),
    "speed": ("fastest, quickest", "slowest"),
    "distance": ("farthest, furthest", "nearest, closest"),
    "rating": ("best rated, top rated", "worst rated"),
    "temperature": ("hottest, warmest", "coldest"),
    "": ("highest, greatest, maximum, most", "lowest, minimum, fewest, least"),
}
#: The words of the names of columns with each measure.
_COLUMN_WORDS = {
    "price": "price cost fee rate charge rent amount fare premium salary budget tariff offer bid quote total hire",
    "length": "duration length time long day days hours minutes weeks months years distance term period warranty",
    "duration": "duration time day days hours minutes",
    "date": "date day when released opened closed founded built since year joined start begins deadline due",
    "age": "age",
    "size": "size area capacity seats places population members volume people guests persons beds rooms",
    "weight": "weight mass",
    "height": "height elevation altitude",
    "width": "width",
    "depth": "depth",
    "speed": "speed pace",
    "distance": "distance away",
    "rating": "rating score stars grade review reviews",
    "temperature": "temperature",
}
#: The units of each measure. Measures without units are recognized by the names of columns.
_UNITS_OF_MEASURES = {
    "price": CURRENCIES,
    "length": (TIME, LENGTH),
    "duration": (TIME,),
    "date": (DATE, CALENDAR_YEAR, CLOCK),
    "size": ("person", DATA, VOLUME),
    "weight": (WEIGHT,),
    "height": (LENGTH,),
    "width": (LENGTH,),
    "depth": (LENGTH,),
    "distance": (LENGTH,),
    "temperature": ("°c", "°f"),
}
#: Measures that other columns express in the opposite direction: the fastest takes the least time.
_OPPOSITE_MEASURES = {"speed": "duration", "age": "date"}
#: Superlatives of the age of a thing, which dates in the future do not show.
_AGE_WORDS = frozenset(("newest", "oldest", "youngest"))
_FUTURE_PATTERN = compile_lazily(r"\b(?:next|due|until|ends?|expir\w+|valid|deadline)\b", re.IGNORECASE)
#: Measures of superlatives that can also compare another column, which the question names: "the biggest budget".
_GENERAL_MEASURES = frozenset(("", "size", "length", "speed"))
#: Superlatives that need the name of their column after them ("the most members") or a verb before them ("costs the
#: most"). They have another meaning before other words ("most important").
_QUANTIFIERS = frozenset(("most", "least", "fewest"))
#: Superlatives without a measure that compare heights if the question names no column: "the highest peak".
_HEIGHT_WORDS = frozenset(("highest", "lowest"))
#: The name of a column whose best value is 1.
_RANK_PATTERN = compile_lazily(r"\b(?:rank|ranking|position)\b", re.IGNORECASE)
#: Words that name the measure of a superlative without one: "costs the most", "takes the longest".
_MEASURE_WORDS = {
    **dict.fromkeys(
        "cost costs price priced pay pays paid charge charges offer bid quote spend spent earn earns earned".split(),
        "price",
    ),
    **dict.fromkeys("take takes last lasts".split(), "length"),
    **dict.fromkeys("weigh weighs".split(), "weight"),
}
#: The start of a field of a row: the name of its column.
FIELD_PATTERN = compile_lazily(r"(?:\A|; )([^:;]{1,60}): ")
#: The first cell of a row, or the name of an entry, that summarizes the other rows: "Total", "Average of all stalls".
_SUMMARY_PATTERN = compile_lazily(
    r"(?i:(?:grand |sub-?)?totals?|average|avg\.?)(?: [^A-Z].*)?:?|(?i:sum|mean|median|minimum|maximum|overall|all):?"
)
#: The words of a question that select rows: capitalized words, and words with a digit.
_SELECTING_WORD_PATTERN = compile_lazily(r"(?<!\A)\b[A-Z][\w-]*|\b\w*\d[\w-]*")
#: The measure of each superlative, and True for its highest values.
_MEASURES_BY_WORD = {
    word: (measure, is_highest)
    for measure, directions in _SUPERLATIVES.items()
    for is_highest, words in zip((True, False), directions, strict=True)
    for word in words.split(", ")
    if word
}
#: Words before a superlative that asks for other rows than the extreme one: "the second cheapest", "two cheapest".
_COUNT_WORDS = "second third fourth fifth next two three four five".split()
#: A superlative with the two words after it, but not the "most" of "most of", nor that of "at most".
_SUPERLATIVE_PATTERN = compile_lazily(
    rf"(?<![\w-]){''.join(f'(?<!{word} )' for word in ('at', *_COUNT_WORDS))}(?<!\d )(?<!\d\w\w )"
    rf"(?P<word>{'|'.join(sorted(_MEASURES_BY_WORD, key=len, reverse=True)).replace(' ', '[ -]')})"
    r"(?![\w-])(?! of\b)(?P<after>(?: [^\W\d_]+){0,2})",
    re.IGNORECASE,
)
#: Words that compare the dates of the column that the verb next to them names ("bought first"), and True for the last.
_ORDER_WORDS = {"first": ("date", False), "last": ("date", True)}
_MEASURES_BY_WORD |= _ORDER_WORDS
#: One of these words, but not "last year", "first name" or "the first two", with the words after it.
_ORDER_PATTERN = compile_lazily(
    r"\b(?P<word>first|last)\b(?! (?:\d|few|two|three|four|five|half|quarter|times?|names?|aid"
    r"|floor|seasons?|centur(?:y|ies)|decades?|years?|months?|weeks?|days?|nights?|hours?|minutes?|spring|summer|autumn|winter"
    rf"|{'|'.join(MONTHS)}|\w+day)\b)(?P<after>(?: [^\W\d_]+){{0,5}})",
    re.IGNORECASE,
)
#: A word of the label of a table.
_WORD_PATTERN = compile_lazily(r"\w[\w-]*")
#: A verb that names the measure of the superlative after it.
_VERB_PATTERN = compile_lazily(rf"\b(?:{'|'.join(_MEASURE_WORDS)}) (?:the )?\Z", re.IGNORECASE)


class Superlative(NamedTuple):
    """A superlative of a question: its ``text``, its ``measure`` (empty if it has none), and its direction.

    ``phrase`` is the superlative with a verb before it that names its measure, such as "costs the least". ``terms`` are
    the stems of the other content words of the question, ``next_terms`` those of the two words after the superlative
    (of "first" and "last": the word before and the five after it), and ``names`` its capitalized words and words with
    digits, in lower case. ``stem`` maps a word to its stem.
    """

    text: str
    phrase: str
    measure: str
    is_highest: bool
    terms: frozenset[str]
    next_terms: frozenset[str]
    names: tuple[str, ...]
    stem: Callable[[str], str]


class ComparedRow(NamedTuple):
    """A row as text, ``Name: value; Name: value``, the ``table`` that it belongs to, and the ``labels`` of the table.

    The labels are texts that can say what the table is about, such as its heading and the name of its file.
    """

    table: Hashable
    text: str
    labels: str = ""


class _Cell(NamedTuple):
    """A cell of a row: the offset of the column's name in the text of the row, and the content.

    The content is None if the row has the name twice, because a cell can contain text that looks like a field.
    """

    offset: int
    content: str | None


class _ComparedColumn(NamedTuple):
    """A comparable column of a table.

    ``is_first`` is True for the first column. The other fields are as in :class:`~.cell_values.ParsedColumn`.
    """

    name: str
    is_first: bool
    values: Mapping[int, float]
    unit: str
    has_ranges: bool


class _SelectedRows(NamedTuple):
    """The rows that a question compares by a column: their cells in it, by index of the row.

    ``num_names`` is the number of names of the question that are in these rows or in the labels of their table.
    """

    column: _ComparedColumn
    cells: Mapping[int, _Cell]
    num_names: int


def find_superlative(question: str, stem: Callable[[str], str]) -> Superlative | None:
    """Return the first superlative of a question that can compare rows, or None. ``stem`` maps a word to its stem.

    >>> superlative = find_superlative("Which room is the cheapest in May?", str)
    >>> superlative.text, superlative.measure, superlative.is_highest
    ('cheapest', 'price', False)
    """
    match = _SUPERLATIVE_PATTERN.search(question) or _ORDER_PATTERN.search(question)
    if match is None:
        return None
    start, end = match.span("word")
    text, next_words = match["word"], match["after"]
    if text.lower() in _ORDER_WORDS:
        next_words = f"{' '.join(question[:start].split()[-1:])} {next_words}"
    # "cheapest" measures the price; "highest" measures nothing by itself, but "highest price" does.
    measure, is_highest = _MEASURES_BY_WORD[text.lower().replace("-", " ")]
    other_words = f"{question[:start]} {question[end:]}"
    if not measure:
        words = other_words.lower().replace("?", " ").split()
        measure = next((_MEASURE_WORDS[word] for word in words if word in _MEASURE_WORDS), "")
    verb = _VERB_PATTERN.search(question, 0, start)
    phrase = question[start if verb is None else verb.start() : end]
    names = tuple(name.lower() for name in _SELECTING_WORD_PATTERN.findall(other_words))
    next_terms = frozenset(map(stem, list_content_words(next_words)))
    terms = frozenset(list_content_terms(other_words, stem))
    return Superlative(text, phrase, measure, is_highest, terms, next_terms, names, stem)


def mark_extremes(rows: Sequence[ComparedRow], superlative: Superlative) -> dict[int, str | None]:
    """Map the indexes of rows with an extreme value to their texts with the superlative before the column's name.

    The other rows of a table in which a single column was compared are mapped to None. If rows of some tables have a
    name of the question, no row of another table is extreme.

    >>> rows = [ComparedRow("fees", "Room: A; Price: $40"), ComparedRow("fees", "Room: B; Price: $25")]
    >>> mark_extremes(rows, find_superlative("Which room is the cheapest?", str))
    {1: 'Room: B; cheapest Price: $25', 0: None}
    """
    indexes_by_table: dict[Hashable, list[int]] = defaultdict(list)
    for index, row in enumerate(rows):
        indexes_by_table[row.table].append(index)
    selections: list[_SelectedRows] = []
    ruled_out: list[int] = []
    for indexes in indexes_by_table.values():
        cells = {index: split_cells(rows[index].text) for index in indexes}
        compared_cells = {index: row for index, row in cells.items() if not _is_summary(rows[index].text, row)}
        # The names of entries such as "Minibus: $85"; a name that is repeated names a field ("Price: $85").
        entry_names = [rows[index].text.partition(": ")[0] for index, row in cells.items() if "" in row]
        if len(set(entry_names)) < len(entry_names):
            continue
        columns = _choose_columns(_list_columns(compared_cells), superlative)
        labels = {index: set(_WORD_PATTERN.findall(rows[index].labels.lower())) for index in indexes}
        selections.extend(_select_rows(compared_cells, labels, column, superlative) for column in columns)
        ruled_out.extend(indexes if len(columns) == 1 else [])
    highest_count = max((selection.num_names for selection in selections), default=0)
    marked: dict[int, str | None] = {}
    for selection in selections:
        if selection.num_names == highest_count:
            marked |= _mark_extreme_rows(rows, selection, superlative)
    return marked | {index: None for index in ruled_out if index not in marked}


def _mark_extreme_rows(
    rows: Sequence[ComparedRow], selection: _SelectedRows, superlative: Superlative
) -> dict[int, str]:
    """Return the texts of the selected rows with the extreme value, with the superlative in them, by index of the row.

    The result is empty if the extreme value is unknown.
    """
    column = selection.column
    is_highest = superlative.is_highest != _is_opposite(column, superlative.measure)
    if is_highest and column.has_ranges:  # the value of "5-7" is its lower end
        return {}
    extreme = (max if is_highest else min)(column.values[index] for index in selection.cells)
    marked = {}
    for index, cell in selection.cells.items():
        if column.values[index] == extreme:
            text = rows[index].text
            mark = f"{superlative.text} " if column.name else f"{superlative.phrase}: "
            marked[index] = f"{text[: cell.offset]}{mark}{text[cell.offset :]}"
    return marked


def split_cells(text: str) -> dict[str, _Cell]:
    """Return the cells of a row, ``Name: value; Name: value``, by the names of their columns.

    An entry with a single name, ``Minibus: $85``, has one cell, and the name of its column is empty. The cell's offset
    is then that of the name.

    >>> split_cells("Room: A; Note: quiet; cool")
    {'Room': _Cell(offset=0, content='A'), 'Note': _Cell(offset=9, content='quiet; cool')}
    >>> split_cells("Minibus: $85 a day")
    {'': _Cell(offset=0, content='$85 a day')}
    """
    matches = list(FIELD_PATTERN.finditer(text))
    ends = [*(match.start() for match in matches[1:]), len(text)]
    cells: dict[str, _Cell] = {}
    for match, end in zip(matches, ends, strict=False):  # a text without a field has an end
        name = match[1] if len(matches) > 1 else ""
        cells[name] = _Cell(match.start(1), None if name in cells else text[match.end() : end].strip())
    return cells


def _is_summary(text: str, cells: Mapping[str, _Cell]) -> bool:
    """True if a row summarizes the others: its first cell, or the name of an entry, is a label such as "Total".

    ``text`` is the row as text, and ``cells`` are its cells by column. An entry has one cell, in a column without name.
    """
    column_name, cell = next(iter(cells.items()), ("", None))
    label = cell.content if cell is not None and column_name else text.partition(": ")[0]
    return label is not None and _SUMMARY_PATTERN.fullmatch(label) is not None


def _list_columns(rows: Mapping[int, Mapping[str, _Cell]]) -> list[_ComparedColumn]:
    """Return the comparable columns of a table. ``rows`` has the cells of each row by column, by index of the row."""
    contents: dict[str, dict[int, str | None]] = defaultdict(dict)
    for index, cells in rows.items():
        for name, cell in cells.items():
            contents[name][index] = cell.content
    columns = []
    for position, (name, cells_of_column) in enumerate(contents.items()):
        values = parse_column(name, cells_of_column)
        if values is not None:
            columns.append(_ComparedColumn(name, position == 0, *values))
    return columns


def _choose_columns(columns: Sequence[_ComparedColumn], superlative: Superlative) -> list[_ComparedColumn]:
    """Return the columns that a superlative compares.

    They are the columns that the two words after the superlative name ("the biggest budget"), columns of its measure,
    or columns that the question names, in this order of preference. Among them, those with the most terms of the
    question in their names are chosen. A column whose name has the superlative ("Minimum age") is not compared.
    """
    stem, text = superlative.stem, superlative.text.lower()
    superlative_terms = set() if text.endswith("rated") else set(list_terms(text, stem))
    terms = {column.name: set(list_terms(column.name.replace("_", " "), stem)) for column in columns}
    columns = [column for column in columns if superlative_terms.isdisjoint(terms[column.name])]
    is_quantifier = text in _QUANTIFIERS and superlative.phrase == superlative.text
    if text in _ORDER_WORDS or (is_quantifier and superlative.next_terms):  # not "most members pay"
        columns = [column for column in columns if not superlative.next_terms.isdisjoint(terms[column.name])]
    if text in _AGE_WORDS:
        columns = [column for column in columns if _FUTURE_PATTERN.search(column.name) is None]
    columns = _choose_columns_by_measure(columns, superlative, terms)
    term_counts = [len(terms[column.name] & superlative.terms) for column in columns]
    return [column for column, count in zip(columns, term_counts, strict=True) if count == max(term_counts)]


def _choose_columns_by_measure(
    columns: Sequence[_ComparedColumn], superlative: Superlative, terms: Mapping[str, Collection[str]]
) -> list[_ComparedColumn]:
    """Return the columns of the measure of a superlative or, if it is general, columns that the question names.

    No measure, a size, a length and a speed are general. Columns named next to the superlative ("the largest room
    size") are then preferred to columns of the measure, and these to columns named elsewhere in the question. ``terms``
    are the terms in the name of each column.
    """
    measured_columns = [column for column in columns if _has_measure(column, superlative.measure)]
    if superlative.measure in _GENERAL_MEASURES:
        named_columns = [column for column in columns if not superlative.terms.isdisjoint(terms[column.name])]
        # The number of a room is not the size of "the largest room".
        next_columns = [
            column
            for column in named_columns
            if not (column.is_first or superlative.next_terms.isdisjoint(terms[column.name]))
        ]
        measured_columns = next_columns or measured_columns or named_columns
    if not measured_columns and superlative.text.lower() in _HEIGHT_WORDS:
        return [column for column in columns if _has_measure(column, "height")]
    return measured_columns


def _has_measure(column: _ComparedColumn, measure: str) -> bool:
    """True if a column has values of a measure, or of its opposite: a duration is the opposite of a speed."""
    return any(_has_own_measure(column, name) for name in (measure, _OPPOSITE_MEASURES.get(measure, "")))


def _has_own_measure(column: _ComparedColumn, measure: str) -> bool:
    """True if a column has values of a measure, by its unit or, for numbers without a unit, by a word in its name."""
    words = re.split(r"[\W_]+", column.name.lower())
    words += [word.removesuffix("s") for word in words]
    named_measures = {name for name, names in _COLUMN_WORDS.items() if not set(names.split()).isdisjoint(words)}
    # Numbers such as 1999 are years, unless the column has the name of another measure, such as "Rent".
    if column.unit and not (column.unit == CALENDAR_YEAR and named_measures - {"date"}):
        return column.unit in _UNITS_OF_MEASURES.get(measure, ())
    return measure in named_measures


def _is_opposite(column: _ComparedColumn, measure: str) -> bool:
    """True if the lowest value of a column is the highest of a measure: the shortest time is the highest speed.

    The same holds for ranks, of which 1 is the best.
    """
    if measure == "" and _RANK_PATTERN.search(column.name):
        return True
    return _has_own_measure(column, _OPPOSITE_MEASURES.get(measure, ""))


def _select_rows(
    rows: Mapping[int, Mapping[str, _Cell]],
    labels: Mapping[int, Collection[str]],
    column: _ComparedColumn,
    superlative: Superlative,
) -> _SelectedRows:
    """Return the rows of a table that the question compares by a column; each has a value in it.

    ``rows`` are cells by column, and ``labels`` the lower-case words above the table, both by index of the row. If rows
    have a cell in another column with only words of the question, only these rows remain. The same holds for each name
    in the question, which can also be in the labels. A condition that no remaining row satisfies is ignored.
    """
    indexes = [index for index in rows if index in column.values]
    for name in dict.fromkeys(name for index in indexes for name in rows[index]):
        if name != column.name:
            matching = [index for index in indexes if _is_in_question(rows[index].get(name), superlative)]
            indexes = matching or indexes
    num_names = 0
    for word in superlative.names:
        matching = [
            index
            for index in indexes
            if word in labels[index] or any(_has_word(cell, word) for cell in rows[index].values())
        ]
        indexes = matching or indexes
        num_names += bool(matching)
    return _SelectedRows(column, {index: rows[index][column.name] for index in indexes}, num_names)


def _has_word(cell: _Cell, word: str) -> bool:
    """True if a cell has a word (in lower case)."""
    content = (cell.content or "").lower()
    return word in content and word in _WORD_PATTERN.findall(content)


def _is_in_question(cell: _Cell | None, superlative: Superlative) -> bool:
    """True if all words of a cell are in the question of a superlative; False for an empty, missing or long cell."""
    content = "" if cell is None or cell.content is None or len(cell.content) > MAX_CELL else cell.content
    terms = set(list_terms(content, superlative.stem))
    return bool(terms) and terms <= superlative.terms

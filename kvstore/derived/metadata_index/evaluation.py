"""Evaluation of conditions by the index: the documents that certainly match, and those that possibly match. A *mask* is
a set of documents as an array of flags by document id. The *index key* of a value is a prefix for its field, then its
kind (NUMBER or TEXT) and the encoded value.

In: a condition and the values of documents. Out: two sets, the first a subset of the second. They are equal if the
index can evaluate the condition exactly. A document in only the second set has an unclear value, or the condition has a
part that the index cannot evaluate; SQLite evaluates them. Each set contains the documents for which a condition
is true or, below NOT, false. Neither contains documents for which it is unknown (Kleene's logic, as in SQL).
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence, Set
from datetime import UTC, datetime
from functools import cached_property, partial, reduce
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from ...storage import records
from ...structures import tables
from ...structures.documents.chunks import GROUP_SIZE
from ...structures.documents.documents import LONG_KEY_PREFIX, TEXT_COLUMNS
from ...structures.state import State
from ...structures.text_candidates import find_chunks_with_word, iter_patterns
from ...text.text_query import Phrase, Proximity, WordPattern, find_candidates
from .column_blocks import ColumnValues
from .conditions import (
    COMPARISONS,
    DOCUMENT_TEXT,
    All,
    AnyOf,
    ColumnField,
    Compare,
    Condition,
    Exists,
    Field,
    FieldValue,
    HasText,
    IsEmptyList,
    IsLike,
    IsNotNull,
    IsOneOf,
    MatchesText,
    MetaField,
    Not,
    Unknown,
    Unsupported,
)
from .metadata_encoding import (
    AFTER_TEXT,
    CONTAINER_INDEX_BYTES,
    ELEMENT,
    NOT_NULL,
    NUMBER,
    TEXT,
    UNCLEAR,
    UNINDEXED_KEY,
    DocumentMask,
    compute_parse_range,
    decode_value,
    encode_column_prefix,
    encode_field_prefix,
    encode_number_bound,
    encode_value,
    is_exact_decimal,
)
from .metadata_structure import METADATA, MetadataIndex
from .pattern_matching import ValueMatcher, make_value_matcher


class Bounds(NamedTuple):
    """A lower and an upper bound of the set of documents that satisfy a condition.

    The condition is certainly true for ``certain_matches``, and possibly true for ``possible_matches``, which includes
    ``certain_matches``. If the index can evaluate the condition for every document, both are the same object.
    """

    certain_matches: DocumentMask
    possible_matches: DocumentMask

    @property
    def is_exact(self) -> bool:
        """True if the index can evaluate the condition for every document; both sets are then the same object."""
        return self.certain_matches is self.possible_matches


class _NonNullDocuments(NamedTuple):
    """The documents in which a field is not NULL.

    ``undecided`` are the documents with too many values to be indexed, whose field may be NULL or not; None if there
    are no such documents.
    """

    non_null: DocumentMask
    undecided: DocumentMask | None = None


#: Columns that are numbers, and are stored as numbers.
NUMBER_COLUMNS = ("bytes", "chunks", "left_out")
_NEVER_NULL = (*NUMBER_COLUMNS, "key", "meta", "changed")


class Evaluation:
    """Evaluates conditions on the documents in one state of the store. A result is a lower and an upper bound."""

    def __init__(self, state: State) -> None:
        """Create an evaluator of conditions on the documents in ``state``."""
        self._state = state
        self._index: MetadataIndex = state.get_part(METADATA)

    def evaluate(self, condition: Condition, *, is_negated: bool = False) -> Bounds:
        """Return the documents for which a condition is certainly and possibly true or, if ``is_negated``, false.

        Neither set contains documents for which the condition is unknown, as in SQL.
        """
        match condition:
            case Not(operand):
                return self.evaluate(operand, is_negated=not is_negated)
            case All(operands) | AnyOf(operands):
                # NOT (a AND b) is NOT a OR NOT b.
                combine = np.logical_and if isinstance(condition, All) != is_negated else np.logical_or
                all_bounds = (self.evaluate(operand, is_negated=is_negated) for operand in operands)
                return reduce(partial(_combine_bounds, combine), all_bounds)
            case Exists(operand):
                bounds = self.evaluate(operand)
                return self._complement(bounds) if is_negated else bounds
            case Unknown():  # neither the condition nor its negation is true for any document
                return _make_exact(self._index.make_empty_mask())
            case Unsupported():
                return self._evaluate_unsupported()
            case IsNotNull(field):
                return self._evaluate_not_null(field, is_negated)
            case IsEmptyList(field):
                # An empty list is not NULL, but has no index key, so only the document itself can decide.
                bounds = Bounds(self._index.make_empty_mask(), self.evaluate(IsNotNull(field)).possible_matches)
                return self._complement(bounds) if is_negated else bounds
            case Compare(field):
                return self._apply_negation(field, self._evaluate_comparison(condition), is_negated)
            case IsOneOf(field):
                return self._apply_negation(field, self._evaluate_one_of(condition), is_negated)
            case IsLike(field) | HasText(field):
                return self._apply_negation(field, self._evaluate_match(condition), is_negated)
            case MatchesText(field, query):
                if field != DOCUMENT_TEXT:
                    return self._evaluate_unsupported()
                # The words need not be in one chunk, because a phrase can continue from one chunk into the next.
                candidates = find_candidates(query, self._find_with_all_words, np.logical_and, np.logical_or)
                bounds = Bounds(self._index.make_empty_mask(), candidates)
                return self._complement(bounds) if is_negated else bounds

    def _evaluate_not_null(self, field: Field, is_negated: bool) -> Bounds:
        """Return the documents whose field is certainly and possibly not NULL or, if ``is_negated``, NULL."""
        documents = self._find_non_null(field)
        if documents is None:
            return self._evaluate_unsupported()
        non_null, undecided = documents
        selected = self._all_documents & ~non_null if is_negated else non_null
        return _make_exact(selected) if undecided is None else Bounds(selected & ~undecided, selected | undecided)

    def _evaluate_unsupported(self) -> Bounds:
        """Return the matches of a condition that the index cannot evaluate: any document possibly matches."""
        return Bounds(self._index.make_empty_mask(), self._all_documents)

    @cached_property
    def columns(self) -> dict[str, ColumnValues]:
        """The numeric columns of all documents, by name, read on first use."""
        return self._index.read_columns()

    @cached_property
    def _all_documents(self) -> DocumentMask:
        """The mask of all documents."""
        return self._make_mask(self.columns["document"])

    @cached_property
    def _unindexed_documents(self) -> DocumentMask:
        """The documents whose metadata has too many values to be indexed, so they possibly match any condition."""
        return self._index.find_with_key(UNINDEXED_KEY)

    def _make_mask(self, documents: npt.NDArray[np.int64]) -> DocumentMask:
        """Return a mask, indexed by document id, that is true for ``documents``."""
        mask = self._index.make_empty_mask()
        mask[documents] = True
        return mask

    def _complement(self, bounds: Bounds) -> Bounds:
        """Return the matches of the negation of a condition; ``bounds`` are the matches of the condition itself.

        The condition must be true or false for every document, never unknown (NULL).
        """
        return Bounds(self._all_documents & ~bounds.possible_matches, self._all_documents & ~bounds.certain_matches)

    def _apply_negation(self, field: Field, bounds: Bounds | None, is_negated: bool) -> Bounds:
        """Return the certain and possible matches of a comparison or, if ``is_negated``, of its negation.

        ``bounds`` are the matches of the comparison, or None if the index cannot evaluate it. As in SQL, neither a
        comparison with NULL nor its negation is true. So the negation is true for the documents whose ``field``, the
        compared field, is not NULL, except the matches of the comparison.
        """
        if bounds is None:
            return self._evaluate_unsupported()
        if not is_negated:
            return bounds
        documents = self._find_non_null(field)
        if documents is None:  # in any document, the field may be NULL
            return Bounds(self._index.make_empty_mask(), self._all_documents & ~bounds.certain_matches)
        non_null, undecided = documents
        certain_matches = non_null & ~bounds.possible_matches
        if bounds.is_exact and undecided is None:
            return _make_exact(certain_matches)
        possibly_non_null = non_null if undecided is None else non_null | undecided
        return Bounds(certain_matches, possibly_non_null & ~bounds.certain_matches)

    def _find_non_null(self, field: Field) -> _NonNullDocuments | None:
        """Return the documents whose field is not NULL, and those for which this is undecided.

        Returns None if the index does not record which documents have the field.
        """
        if isinstance(field, ColumnField):
            if field.name in TEXT_COLUMNS:
                return _NonNullDocuments(self._index.find_with_key(encode_column_prefix(field.name) + NOT_NULL))
            return _NonNullDocuments(self._all_documents) if field.name in _NEVER_NULL else None
        prefix = encode_field_prefix(field.names)
        if prefix is None or field.elements:
            return None
        unindexed = self._unindexed_documents
        return _NonNullDocuments(self._index.find_with_key(prefix + NOT_NULL), unindexed if unindexed.any() else None)

    # Words -----------------------------------------------------------------------------------------------------------

    def _find_with_all_words(self, phrase: Phrase | Proximity) -> DocumentMask:
        """Return the documents that may contain all words of a phrase or of NEAR, in any order."""
        return reduce(np.logical_and, map(self._find_with_word, set(iter_patterns(phrase))))

    def _find_with_word(self, pattern: WordPattern) -> DocumentMask:
        """Return the documents whose text may contain a word that matches a pattern: a superset, from posting lists."""
        # Consecutive chunk ids form groups of a fixed size, and each group belongs to one document.
        groups = (find_chunks_with_word(self._state, pattern) // np.uint64(GROUP_SIZE)).astype(np.int64)
        # Groups are numbered in the order of their documents, so a group belongs to the last document whose first group
        # is not after it. A document without groups has the same first group as the next, and is not the last.
        rows = self.columns["first_group"].searchsorted(groups, "right") - 1
        return self._make_mask(self.columns["document"][np.unique(rows)])

    # Comparisons ------------------------------------------------------------------------------------------------------

    def _evaluate_comparison(self, condition: Compare) -> Bounds | None:
        """Return the certain and possible matches of a comparison, or None if the index cannot evaluate it."""
        field, operator, value = condition.field, condition.operator, condition.value
        is_text = isinstance(value, str)
        if is_text and operator != "=" and encode_value(value) is None:
            return None  # the text is too long, or has a NUL, so it cannot be compared with keys
        if isinstance(field, MetaField) or (field.name in TEXT_COLUMNS and is_text):
            same_kind = condition.same_kind
            return self._evaluate_values(field, lambda prefix: self._compare_values(prefix, operator, value, same_kind))
        if field.name in NUMBER_COLUMNS and not isinstance(value, str):
            is_matching = _compare_column(self.columns[field.name], operator, value)
            return _make_exact(self._make_mask(self.columns["document"][is_matching]))
        if field.name == "changed" and isinstance(value, str):
            return self._compare_change_times(operator, value)
        if field.name == "key" and isinstance(value, str):
            return self._compare_keys(operator, value)
        return None

    def _evaluate_one_of(self, condition: IsOneOf) -> Bounds | None:
        """Return the certain and possible matches of a comparison with several values, or None if it is not indexed."""
        field, values = condition.field, condition.values
        texts = [value for value in values if isinstance(value, str)]
        numbers = [value for value in values if not isinstance(value, str)]
        if isinstance(field, ColumnField):
            if field.name == "key" and not numbers:
                return self._find_keys(texts)
            if field.name not in TEXT_COLUMNS or numbers:
                return self.evaluate(AnyOf([Compare(field, "=", value) for value in values]))
        spans = [_compute_number_span(number) for number in numbers]
        spans += [(key, key + b"\xff") for key in map(encode_value, texts) if key is not None]  # None: too long
        spans.sort()
        are_exact = all(map(is_exact_decimal, numbers))
        value_set = frozenset(values)
        return self._evaluate_values(field, lambda prefix: self._find_values(prefix, spans, value_set, are_exact))

    def _find_values(
        self, field_prefix: bytes, spans: Sequence[tuple[bytes, bytes]], values: Set[FieldValue], are_exact: bool
    ) -> Bounds:
        """Return the documents in which a field equals one of ``values``.

        The index keys of the field's values begin with ``field_prefix``. The rest of the key of each of ``values`` is
        in one of ``spans``, which ascend. A number in a span is only a possible match if it has no exact decimal form,
        or if it differs and one of ``values`` has none (``are_exact`` is False); see :meth:`_compare_numbers`.
        """
        certain_rows, possible_rows = list[tuple[bytes, memoryview]](), list[tuple[bytes, memoryview]]()
        prefixed_spans = [(field_prefix + start, field_prefix + stop) for start, stop in spans]
        for key, container in self._index.iter_rows_in_spans(prefixed_spans):
            value = decode_value(key[len(field_prefix) : -CONTAINER_INDEX_BYTES])
            is_exact = isinstance(value, str) or is_exact_decimal(value)
            if is_exact and value in values:
                certain_rows.append((key, container))
            elif not (is_exact and are_exact):
                possible_rows.append((key, container))
        certain = self._index.build_mask(certain_rows)
        if not possible_rows:
            return _make_exact(certain)
        return Bounds(certain, certain | self._index.build_mask(possible_rows))

    def _evaluate_match(self, condition: IsLike | HasText) -> Bounds | None:
        """Return the documents whose field matches a pattern or contains a text (certain and possible matches).

        Returns None if the index cannot evaluate the pattern, or does not have the field.
        """
        field, matcher = condition.field, make_value_matcher(condition)
        if matcher is None:
            return None
        if isinstance(field, MetaField) or field.name in TEXT_COLUMNS:
            # A pattern also matches a number by its decimal text, unless `same_kind`; a substring matches only texts.
            matches_numbers = isinstance(condition, IsLike) and not condition.same_kind
            return self._evaluate_values(field, lambda prefix: self._match_texts(prefix, matcher, matches_numbers))
        if field.name == "changed":
            seconds, indexes = np.unique(self.columns["changed"], return_inverse=True)
            is_matching = np.array([matcher.matches(_format_time(second)) for second in seconds.tolist()], np.bool_)
            return _make_exact(self._make_mask(self.columns["document"][is_matching[indexes]]))
        if field.name == "key":
            return self._match_keys(matcher)
        return None

    def _evaluate_values(self, field: Field, evaluate_prefix: Callable[[bytes], Bounds]) -> Bounds | None:
        """Return the certain and possible matches of a condition on a field, or None if the field is not indexed.

        ``evaluate_prefix`` returns the matches among the values whose index keys begin with a prefix. Documents with a
        value that has no index key, such as a long text, are added to the possible matches.
        """
        if isinstance(field, ColumnField):
            prefixes = [encode_column_prefix(field.name)]
        else:
            field_prefix = encode_field_prefix(field.names)
            if field_prefix is None:
                return None
            # List elements have keys of their own, which begin with another byte than the keys of the field itself.
            prefixes = [field_prefix, ELEMENT + field_prefix[1:]] if field.elements else [field_prefix]
        certain, possible = reduce(partial(_combine_bounds, np.logical_or), map(evaluate_prefix, prefixes))
        # UNCLEAR marks values without a key of their own. A list has no key, but each of its elements may have one.
        possible = possible | self._index.find_with_key(prefixes[-1] + UNCLEAR)
        if isinstance(field, MetaField):
            possible |= self._unindexed_documents
        return _make_exact(certain) if np.array_equal(certain, possible) else Bounds(certain, possible)

    def _compare_values(self, field_prefix: bytes, operator: str, value: FieldValue, same_kind: bool) -> Bounds:
        """Return the documents with a value of a field that satisfies ``operator value``, such as ``<= 5``.

        The index keys of the field's values begin with ``field_prefix``; the encoded value follows. Numbers are less
        than texts. With ``same_kind``, only numbers match a number, and only texts a text.
        """
        # The index keys of numbers (NUMBER) sort before the index keys of texts (TEXT), and AFTER_TEXT after both.
        if isinstance(value, str):
            return _make_exact(self._compare_texts(field_prefix, operator, value, TEXT if same_kind else NUMBER))
        return self._compare_numbers(field_prefix, operator, value, TEXT if same_kind else AFTER_TEXT)

    def _compare_texts(self, field_prefix: bytes, operator: str, text: str, lowest_kind: bytes) -> DocumentMask:
        """Return the documents with a text of a field that satisfies ``operator text``, such as ``< 'm'``.

        The index keys of the field's values begin with ``field_prefix``. If ``lowest_kind`` is NUMBER, numbers match <
        and <= too; if it is TEXT, only texts do.
        """
        if operator == "=":
            key = encode_value(text)
            return self._index.make_empty_mask() if key is None else self._index.find_with_key(field_prefix + key)
        # The key of "tea" ends with a byte 0: "tea\0" sorts before "tea\1", and that before "teas\0".
        text_key, key_after = (field_prefix + TEXT + text.encode() + last_byte for last_byte in (b"\x00", b"\x01"))
        if operator in ("<", "<="):
            return self._index.find_in_range(field_prefix + lowest_kind, text_key if operator == "<" else key_after)
        return self._index.find_in_range(key_after if operator == ">" else text_key, field_prefix + AFTER_TEXT)

    def _compare_numbers(self, field_prefix: bytes, operator: str, number: float, end: bytes) -> Bounds:
        """Return the documents with a number of a field that satisfies ``operator number``, such as ``<= 5``.

        The index keys of the field's values begin with ``field_prefix``. For > and >=, texts also match if ``end`` is
        AFTER_TEXT. SQLite may parse the decimal form of a number as a slightly different number. A stored number that
        close to ``number`` is therefore only a possible match, unless both decimal forms are exact.
        """
        value_start = len(field_prefix)  # in a key
        near_start, near_stop = (field_prefix + bound for bound in _compute_number_span(number))
        certain = self._index.make_empty_mask()
        if operator in ("<", "<="):
            certain |= self._index.find_in_range(field_prefix + NUMBER, near_start)
        elif operator in (">", ">="):
            certain |= self._index.find_in_range(near_stop, field_prefix + end)
        if not is_exact_decimal(number):
            return Bounds(certain, certain | self._index.find_in_range(near_start, near_stop))

        def is_certain(key: bytes) -> bool:
            """True if the number in a key, after ``field_prefix``, is exact and satisfies the comparison."""
            value: Any = decode_value(key[value_start:])
            return is_exact_decimal(value) and COMPARISONS[operator](value, number)

        certain |= self._index.find_matching(near_start, near_stop, is_certain)
        inexact = self._index.find_matching(
            near_start, near_stop, lambda key: not is_exact_decimal(cast(float, decode_value(key[value_start:])))
        )
        return Bounds(certain, certain | inexact)

    def _match_texts(self, field_prefix: bytes, matcher: ValueMatcher, matches_numbers: bool) -> Bounds:
        """Return the documents with a text of a field that matches.

        The index keys of the field's values begin with ``field_prefix``. With ``matches_numbers``, an integer matches
        as its text, and a float is a possible match.
        """
        value_start = len(field_prefix)  # in a key

        # SQLite matches a number as its text, which equals Python's text only for integers; a float may match.
        def is_matching_number(key: bytes) -> bool:
            """True if a key has, after ``field_prefix``, an integer whose decimal text matches."""
            number = decode_value(key[value_start:])
            return isinstance(number, int) and matcher.matches(str(number))

        certain = self._index.make_empty_mask()
        if matches_numbers:
            certain |= self._index.find_matching(field_prefix + NUMBER, field_prefix + TEXT, is_matching_number)
        for prefix in matcher.prefixes:
            bound = field_prefix + TEXT + prefix.encode()
            certain |= self._index.find_matching(
                bound, _make_end_key(bound), lambda key: matcher.matches(str(decode_value(key[value_start:])))
            )
        if not matches_numbers:
            return _make_exact(certain)
        real_numbers = self._index.find_matching(
            field_prefix + NUMBER, field_prefix + TEXT, lambda key: isinstance(decode_value(key[value_start:]), float)
        )
        return Bounds(certain, certain | real_numbers)

    def _compare_change_times(self, operator: str, text: str) -> Bounds:
        """Return the documents whose change time, as ISO 8601 text, satisfies ``operator text``, as exact bounds."""
        # Unix times sort like their texts, which have four-digit years.
        seconds = self.columns["changed"]
        sorted_seconds = np.unique(seconds)
        first_equal = bisect_left(sorted_seconds, text, key=_format_time)
        first_later = bisect_right(sorted_seconds, text, key=_format_time)
        if operator == "=":
            selection = slice(first_equal, first_later)
        elif operator in ("<", "<="):
            selection = slice(0, first_equal if operator == "<" else first_later)
        else:
            selection = slice(first_later if operator == ">" else first_equal, len(sorted_seconds))
        return _make_exact(self._make_mask(self.columns["document"][np.isin(seconds, sorted_seconds[selection])]))

    # Keys of documents -----------------------------------------------------------------------------------------------

    def _compare_keys(self, operator: str, key: str) -> Bounds:
        """Return the certain and possible matches of a comparison: documents whose key satisfies ``operator key``."""
        if operator == "=":
            return self._find_keys([key])
        low_key, high_key = (b"", key.encode()) if operator in ("<", "<=") else (key.encode(), None)
        return self._scan_keys(low_key, high_key, lambda document_key: COMPARISONS[operator](document_key, key))

    def _find_keys(self, keys: Iterable[str]) -> Bounds:
        """Return the documents with these keys, as exact bounds; keys that no document has are ignored."""
        ids = [self._state.documents.find_id(key) for key in keys if key]
        return _make_exact(self._make_mask(np.array([document for document in ids if document is not None], np.int64)))

    def _match_keys(self, matcher: ValueMatcher) -> Bounds:
        """Return the documents whose key matches. Only the range of keys with each prefix is scanned."""
        ranges = ((prefix.encode(), _make_end_key(prefix.encode()) if prefix else None) for prefix in matcher.prefixes)
        all_bounds = (self._scan_keys(low_key, high_key, matcher.matches) for low_key, high_key in ranges)
        return reduce(partial(_combine_bounds, np.logical_or), all_bounds)

    def _scan_keys(self, low_key: bytes, high_key: bytes | None, matches: Callable[[str], bool]) -> Bounds:
        """Return the documents with a key from ``low_key`` to ``high_key`` (None: no limit) that ``matches`` accepts.

        Only the prefix of a long key is stored, so its document is a possible match.
        """
        matching_documents, possible_documents = list[int](), list[int]()
        last_key = None if high_key is None else high_key[:LONG_KEY_PREFIX]
        for stored_key, value in self._state.lmdb.scan(tables.DOCUMENT_KEYS, low_key[:LONG_KEY_PREFIX]):
            key = bytes(stored_key)
            if last_key is not None and key[:LONG_KEY_PREFIX] > last_key:
                break
            if b"\xff" in key:  # the beginning of a long key and a digest
                possible_documents.append(records.U64.unpack(value)[0])
            elif matches(key.decode()):
                matching_documents.append(records.U64.unpack(value)[0])
        certain = self._make_mask(np.array(matching_documents, np.int64))
        if not possible_documents:
            return _make_exact(certain)
        return Bounds(certain, certain | self._make_mask(np.array(possible_documents, np.int64)))


def _combine_bounds(
    combine: Callable[[DocumentMask, DocumentMask], DocumentMask], first: Bounds, second: Bounds
) -> Bounds:
    """Return the certain and possible matches of two conditions joined by AND or OR, given their matches.

    ``combine`` is AND or OR of two masks. The result is exact if both inputs are.
    """
    certain = combine(first.certain_matches, second.certain_matches)
    is_exact = first.is_exact and second.is_exact
    return Bounds(certain, certain if is_exact else combine(first.possible_matches, second.possible_matches))


def _compute_number_span(number: float) -> tuple[bytes, bytes]:
    """Return the span (start and stop) of the encoded numbers whose decimal text SQLite could parse as ``number``."""
    low_key, high_key = map(encode_number_bound, compute_parse_range(number))
    # An encoded number is a bound and one more byte (integer or float), so the stop sorts after both encodings of the
    # highest of these numbers.
    return low_key, high_key + b"\xff"


def _make_exact(documents: DocumentMask) -> Bounds:
    """Return exact bounds: the condition is true for ``documents`` and no others."""
    return Bounds(documents, documents)


def _format_time(second: int) -> str:
    """Format a Unix time in seconds as in the ``changed`` column: ISO 8601 in UTC."""
    return datetime.fromtimestamp(int(second), UTC).isoformat()


def _compare_column(column: ColumnValues, operator: str, limit: float) -> npt.NDArray[np.bool_]:
    """Return a mask of the integers in a column that satisfy ``operator limit``, such as ``<= 3.5``."""
    is_less = operator in ("<", "<=")
    if not -(1 << 63) <= limit < 1 << 63:
        # All integers of a column are less than such a limit if it is positive, and greater if it is negative.
        return np.full(len(column), operator != "=" and is_less == (limit > 0))
    floor = math.floor(limit)
    if floor != limit:
        if operator == "=":
            return np.zeros(len(column), np.bool_)
        operator = "<=" if is_less else ">"  # an integer is less than a fraction if it is at most the fraction's floor
    return np.asarray(COMPARISONS[operator](column, floor), np.bool_)


def _make_end_key(prefix: bytes) -> bytes:
    """Return a key that sorts after all keys that begin with a prefix; UTF-8 contains no byte 0xFF."""
    return prefix + b"\xff"

"""The answer reader: the windows of a question, and the network that reads them, run by onnxruntime.

In: a question, passages, and the rules that score sentences. Out: the windows to read, and a :class:`ReaderOutput` for
each.

The reader reads the passages of the strategy's hits, then of the chunks with the nearest vectors, and then of the
document that the question names by its date or number. It reads them in windows: one snippet each, after its title and
heading. If a snippet refers to the sentence before it, both are read. Only the likeliest windows are read, at most
:data:`MAX_WINDOWS`, chosen by the terms that they share with the question, by the rank of their hits, and by what the
question asks for.

Every window is run alone: in a batch, a quantized network takes its scales from all windows, and a score would depend
on the others. The distribution kvstore-db-english has the weights; ``reader.json`` has their digests.
"""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...extensions.extras import find_first_missing, format_install
from ...models.language import find_english_folder
from ...models.onnx_runtime import import_onnxruntime
from ...models.wordpiece_tokenizer import PairTokens, WordPieceTokenizer
from ...retrieval.dense_search import compute_cosines, rank_by_vector
from ...retrieval.evidence import Hit
from ...retrieval.query import Query, evidence_of
from ...structures.ranking import Ranking, best
from ...text.patterns import compile_lazily
from ...text.words import find_reference_numbers, list_terms, segment_words
from ..answer_types import AnswerType, find_quality
from ..excerpts import SnippetPosition, find_required_end, get_snippet, has_previous
from ..extractive import MAX_CHUNKS, SnippetScorer, list_candidates
from ..passages import Passage
from ..question_form import is_yes_no_question
from ..question_names import find_question_names
from ..snippets import Snippet
from .quantities import find_quantities
from .quantity_ranges import replace_ranges

#: The folder of kvstore-db-english with the weights, and its files.
FOLDER = "answer_reader"
MODEL_FILE, TOKENIZER_FILE, DESCRIPTION_FILE = "reader.onnx", "tokenizer.json", "reader.json"
#: The maximum length of an answer in tokens.
_MAX_SPAN_TOKENS = 30
#: The number of lengths of windows whose possible spans are cached.
_NUM_CACHED_MASKS = 256
#: The number of characters of /proc/cpuinfo that are read: more than the first processor has.
_MAX_CPUINFO = 8192
#: The maximum length of a question in characters, as in training.
_MAX_QUESTION = 300
#: The maximum number of chunks examined in a document that the question identifies by a number.
_MAX_DOCUMENT_CHUNKS = 500
#: The maximum number of windows that are read for a question.
MAX_WINDOWS = 16
#: If the question has a quantity: the maximum number of windows whose ranges are compared with it, and of those with a
#: range that includes it that are preferred to likelier windows. The rows of a table can be equally likely otherwise.
_MAX_COMPARED, _MAX_PREFERRED = 48, 4
#: The weights of a term in the title or headings of a snippet, of 1 / (1 + half the rank of its hit), and of a snippet
#: without what the question asks for. A term in the snippet itself has weight 1.
_TITLE_WEIGHT, _RANK_WEIGHT, _MISSING_WEIGHT = 0.5, 0.5, -0.5
#: Letters and a number, such as "T250" or "KX-120".
_IDENTIFIER_PATTERN = compile_lazily(r"\b[^\W\d_]+-?\d[\w-]*")
#: The start of a field of a row: its name.
_FIELD_START_PATTERN = compile_lazily(r"(?:\A|; )[^:;]{1,60}: ")
#: A field of a mail, as its reader writes it: the sender or the date.
_MAIL_FIELD_PATTERN = compile_lazily(
    r"From: (?P<sender>[^@\n]{1,200}@.{1,200})|Date: (?P<date>\w{3}, \d{1,2} \w{3} \d{4} [\d:]{5,8} [+-]\d{4})"
)
#: The answer types of the questions that such a field can answer, and words of other questions that it can answer.
_MAIL_FIELD_TYPES = frozenset(("person", "time", "e-mail address"))
_MAIL_FIELD_WORDS = frozenset("date sender send sent write wrote written mail email".split())
#: A snippet that is only a web address, and the answer types of the questions that it can answer.
_ADDRESS_PATTERN = compile_lazily(r"\W*https?://\S+\s*")
_ADDRESS_TYPES = frozenset(("place", "web address"))


def add_candidate_hits(hits: Sequence[Hit], query: Query) -> list[Hit]:
    """Return the hits, the chunks with the nearest vectors, and chunks of the document that the question identifies.

    A question identifies a document by a date, number or version. Each chunk is returned once. The store must have an
    embedder.
    """
    limited_query = query.copy_with_limits(top=min(query.top, MAX_CHUNKS), within=None)
    limited_query.abstracts = False  # only the hits are used
    explained_rankings = [
        (rank_by_vector(limited_query, MAX_CHUNKS), "near the question"),
        (_rank_identified_document(hits, query), "in the document with the number that the question names"),
    ]
    hits_by_chunk = {(hit.document, hit.ordinal): hit for hit in hits}
    for ranking, explanation in explained_rankings:
        if ranking:
            for hit in evidence_of(limited_query, "vector", ranking, explanation, query.chunk_count).hits:
                hits_by_chunk.setdefault((hit.document, hit.ordinal), hit)
    return list(hits_by_chunk.values())


def _rank_identified_document(hits: Sequence[Hit], query: Query) -> Ranking:
    """Return the ``MAX_CHUNKS`` chunks nearest to the question in the document that the question identifies by numbers.

    It is the document of the first hit that has all reference numbers of the question (dates, invoice numbers,
    versions) in its file name, title or text. Only its first ``_MAX_DOCUMENT_CHUNKS`` chunks are compared. The ranking
    is empty if there is no such number or document.
    """
    numbers = set(find_reference_numbers(query.question))
    if not numbers:
        return []
    for hit in hits:
        text = f"{PurePosixPath(hit.document).stem} {hit.title or ''} {hit.text}"
        record = query.state.documents.find_by_key(hit.document)
        if record is not None and numbers.issubset(find_reference_numbers(text)):
            ordinals = range(min(record.chunk_count, _MAX_DOCUMENT_CHUNKS))
            chunks = np.array([record.get_chunk_id(ordinal) for ordinal in ordinals], np.uint64)
            return best(query.state, chunks, compute_cosines(query.state, chunks, query.vector), MAX_CHUNKS)
    return []


class Window(NamedTuple):
    """A snippet as the reader reads it: ``text``, in which the snippet begins at character ``offset``.

    ``lacks_answer_type`` is True if the snippet lacks what the question asks for, such as an amount of money, or if it
    is a row of a table about something else. ``is_within_range`` is True if a range that includes a quantity of the
    question was replaced by that quantity. ``is_outside_range`` is True for an item or row with only other ranges.
    """

    position: SnippetPosition
    text: str
    offset: int
    lacks_answer_type: bool
    is_within_range: bool = False
    is_outside_range: bool = False


def select_windows(answer_type: AnswerType, passages: Sequence[Passage], scorer: SnippetScorer) -> list[Window]:
    """Return the windows to read, at most ``MAX_WINDOWS`` with different texts, likeliest first.

    A window is a snippet after its title, its headings and the sentence that it refers to. ``answer_type`` is what the
    question asks for, such as a person. A snippet that is itself a question is not read. A web address, and the sender
    or date of a mail, are read only if the question can ask for such a thing. A heading is read only if it has the date
    of a version that the question asks for. Ranges are replaced by the quantities of the question that they include.
    """
    estimator = _CandidateEstimator(answer_type, passages, scorer)
    numbers = frozenset(find_reference_numbers(scorer.question))
    candidates: dict[SnippetPosition, bool] = {}  # True if the snippet lacks what the question asks for
    for position in list_candidates(passages):
        snippet = get_snippet(passages, position)
        is_address = _ADDRESS_PATTERN.fullmatch(snippet.text) is not None
        is_unasked_address = is_address and answer_type.name not in _ADDRESS_TYPES
        if not (snippet.is_question or is_unasked_address or is_unasked_mail_field(snippet, answer_type)):
            candidates[position] = estimator.lacks_answer_type(position)
    # Headings are not among the candidates, so those with the date of a version are added.
    candidates |= {
        SnippetPosition(passage_index, index): False
        for passage_index, passage in enumerate(passages)
        for index, snippet in enumerate(passage.snippets)
        if snippet.release is not None and snippet.hit is not None and snippet.release.answers_question(scorer.question)
    }
    scores = {position: estimator.estimate_score(position, is_missing) for position, is_missing in candidates.items()}
    max_windows = _MAX_COMPARED if estimator.quantity_words else MAX_WINDOWS
    windows: dict[str, Window] = {}  # by text, because documents can repeat each other
    for position in sorted(candidates, key=lambda position: (-scores[position], position)):
        passage_index, index = position
        text, offset = _build_window_text(passages[passage_index], index, numbers)
        windows.setdefault(text, Window(position, text, offset, candidates[position]))
        if len(windows) == max_windows:
            break
    compared_windows = estimator.replace_ranges(list(windows.values()))
    preferred_windows = [window for window in compared_windows if window.is_within_range][:_MAX_PREFERRED]
    other_windows = [window for window in compared_windows if window not in preferred_windows]
    return [*preferred_windows, *other_windows][:MAX_WINDOWS]


class _CandidateEstimator:
    """Estimates, without embedding any text, how likely a snippet answers a question."""

    def __init__(self, answer_type: AnswerType, passages: Sequence[Passage], scorer: SnippetScorer) -> None:
        """Compute the data that all candidates share: terms of titles, and the identifiers and names to look for.

        ``scorer`` has the question, and ``answer_type`` is what the question asks for, such as a person.
        """
        self._answer_type = answer_type
        self._passages = passages
        self._scorer = scorer
        self._quality = find_quality(scorer.question)  # such as "weight" for "how heavy"
        self._title_terms = [
            scorer.list_question_terms(f"{passage.title or passage.document} {passage.heading}") for passage in passages
        ]
        question = scorer.question
        #: The words of the quantities in the question, which a row with a range that includes them need not have.
        self.quantity_words = {
            word
            for quantity in find_quantities(question)
            for word in segment_words(question[quantity.start : quantity.end])
        }
        #: The identifiers in the question that also occur in a table row of a hit.
        self._row_identifiers = _find_identifiers(scorer.question)
        if self._row_identifiers:
            rows = (
                snippet.text for passage in passages for snippet in passage.snippets if snippet.hit and _is_row(snippet)
            )
            self._row_identifiers &= set().union(*map(_find_identifiers, rows))
        #: The words of each name in the question that also occurs in a table row of a hit.
        names = [set(name.words) for name in find_question_names(scorer.question, scorer.language)]
        row_words = [
            set(segment_words(snippet.labeled_text))
            for passage in (passages if names else ())
            for snippet in passage.snippets
            if snippet.hit and _is_row(snippet)
        ]
        self._row_names = [name for name in names if any(map(name.issubset, row_words))]
        self._name_words = set().union(*names)

    def estimate_score(self, position: SnippetPosition, lacks_answer_type: bool) -> float:
        """Return a score of the snippet at a position, by the question's terms that it has and the rank of its hit.

        ``lacks_answer_type`` is True if the snippet lacks what the question asks for, which lowers the score.
        """
        snippet = get_snippet(self._passages, position)
        assert snippet.hit is not None  # true for all candidates
        own_terms = self._scorer.list_question_terms(snippet.scored_text)
        above_terms = self._scorer.list_question_terms(f"{snippet.heading} {snippet.caption}")
        if snippet.heading.endswith("?"):  # the question that the snippet answers
            own_terms |= above_terms
        above_terms |= self._title_terms[position.passage_index]
        return (
            self._scorer.compute_rarity_fraction(own_terms)
            + _TITLE_WEIGHT * self._scorer.compute_rarity_fraction(above_terms - own_terms)
            + _RANK_WEIGHT / (1 + snippet.hit.rank / 2)
            + _MISSING_WEIGHT * lacks_answer_type
        )

    def replace_ranges(self, windows: Sequence[Window]) -> list[Window]:
        """Return the windows with a quantity of the question in place of each range that includes it."""
        question = self._scorer.question
        parts = [part for window in windows for part in (window.text[: window.offset], window.text[window.offset :])]
        compared_parts = iter(replace_ranges(parts, question, self._scorer.stem))
        asks_yes_no = is_yes_no_question(question)  # "up to 65 mm" answers "Does a bar of 80 mm fit?"
        compared_windows = []
        for window, before, snippet in zip(windows, compared_parts, compared_parts, strict=True):
            is_within = before.is_within or snippet.is_within
            is_entry = get_snippet(self._passages, window.position).kind in ("item", "table")
            compared_window = window._replace(
                text=before.text + snippet.text,
                offset=len(before.text),
                is_within_range=is_within,
                is_outside_range=snippet.is_outside and is_entry and not (is_within or asks_yes_no),
            )
            if is_within:
                lacks_answer_type = self.lacks_answer_type(window.position, is_within_range=True)
                compared_window = compared_window._replace(lacks_answer_type=lacks_answer_type)
            compared_windows.append(compared_window)
        return compared_windows

    def lacks_answer_type(self, position: SnippetPosition, *, is_within_range: bool = False) -> bool:
        """True if the snippet at a position, with a list or table that it introduces, lacks what the question asks for.

        A table row lacks it if its cells have no term from the question, do not mention the quality ("weight") that the
        question asks for, and have no range that includes its quantity (``is_within_range``). If any row has an
        identifier or a name from the question, all rows without one lack it; a name in the title or a heading counts
        for each row below it. If the question asks for the e-mail address of a name, a snippet without any word of that
        name lacks it.
        """
        passage_index, index = position
        passage = self._passages[passage_index]
        snippet = passage.snippets[index]
        if _is_row(snippet):
            if self._row_identifiers and self._row_identifiers.isdisjoint(_find_identifiers(snippet.text)):
                return True
            words = set(segment_words(" ".join([passage.document, *passage.list_labels(index), snippet.labeled_text])))
            if is_within_range:
                words |= self.quantity_words
            if self._row_names and not any(name <= words for name in self._row_names):
                return True
        has_asked_cell = is_within_range or self._scorer.list_question_terms(f"{snippet.label} {snippet.cell_text}")
        if snippet.cell_text and not has_asked_cell:
            quality = self._quality
            if quality is None or self._scorer.stem(quality) not in list_terms(snippet.cell_text, self._scorer.stem):
                return True
        text = _render_with_block(passage.snippets, index)
        if self._answer_type.name == "e-mail address" and self._name_words:
            context = " ".join([passage.document, *passage.list_labels(index), text]).lower()
            if not any(word in context for word in self._name_words):
                return True
        return self._answer_type.is_missing_in(text)


def _find_identifiers(text: str) -> set[str]:
    """Return the identifiers in a text (letters with a number), in lower case.

    >>> sorted(_find_identifiers("Does KX-120 replace the T250 of 1990?"))
    ['kx-120', 't250']
    """
    return set(_IDENTIFIER_PATTERN.findall(text.lower()))


def _is_row(snippet: Snippet) -> bool:
    """True if a snippet is a row of a table or a record with several fields."""
    return bool(snippet.cell_text) or (snippet.kind == "table" and len(_FIELD_START_PATTERN.findall(snippet.text)) > 1)


def _build_window_text(passage: Passage, index: int, numbers: Collection[str]) -> tuple[str, int]:
    """Return the input of the answer reader for the snippet at ``index``, and the snippet's character offset in it.

    The title, the headings and a sentence that the snippet refers to precede it, and a list that it introduces follows.
    The file name is first if it has one of the reference ``numbers`` of the question. The sender or date of a mail is
    rewritten as a sentence. For a heading with the date of a version, the text is only a sentence with this date.
    """
    snippets = passage.snippets
    snippet = snippets[index]
    if snippet.release is not None:
        return snippet.release.sentence, 0
    name = PurePosixPath(passage.document).stem
    document_name = "" if set(numbers).isdisjoint(find_reference_numbers(name)) else name
    labels = [document_name, *passage.list_labels(index)]
    text_before = "".join(
        f"{label.rstrip('.')}{'' if label.endswith(('?', '!', ':')) else '.'} "
        for label in dict.fromkeys(filter(None, labels))
    )
    refers_back = (snippet.needs_previous or snippet.needs_subject) and has_previous(snippets, index)
    if refers_back and snippets[index - 1].text not in labels:  # a question is also the heading of its reply
        text_before += f"{snippets[index - 1].labeled_text} "
    return text_before + _phrase_mail_field(_render_with_block(snippets, index)), len(text_before)


def is_unasked_mail_field(snippet: Snippet, answer_type: AnswerType) -> bool:
    """True if a snippet is the sender or date of a mail, and the question cannot ask for either."""
    is_asked = answer_type.name in _MAIL_FIELD_TYPES or not _MAIL_FIELD_WORDS.isdisjoint(answer_type.words)
    return not is_asked and _MAIL_FIELD_PATTERN.fullmatch(snippet.text) is not None


def _phrase_mail_field(text: str) -> str:
    """Return the sender or date field of a mail as a sentence, and any other text unchanged.

    The network was trained on sentences. It takes a bare date for the answer to most questions for a date.

    >>> _phrase_mail_field("Date: Mon, 04 Mar 2024 10:00:00 +0000")
    'This mail was sent on Mon, 04 Mar 2024 10:00:00 +0000.'
    >>> _phrase_mail_field("From: Ann Lee <ann@example.org>")
    'This mail was written and sent by Ann Lee <ann@example.org>.'
    """
    match = _MAIL_FIELD_PATTERN.fullmatch(text)
    if match is None:
        return text
    return f"This mail was {'sent on' if match['date'] else 'written and sent by'} {match['date'] or match['sender']}."


def build_context_text(window: Window, passages: Sequence[Passage]) -> str | None:
    """Return the text of a window (a snippet with its context), with the sentence before the snippet inserted.

    Returns None if that sentence and the snippet are not prose of one section, or if the window has the sentence
    already.
    """
    passage_index, index = window.position
    snippets = passages[passage_index].snippets
    snippet = snippets[index]
    is_already_included = snippet.needs_previous or snippet.needs_subject
    if is_already_included or not has_previous(snippets, index):
        return None
    if not snippet.kind == snippets[index - 1].kind == "prose":
        return None
    return f"{window.text[: window.offset]}{snippets[index - 1].labeled_text} {window.text[window.offset :]}"


def _render_with_block(snippets: Sequence[Snippet], index: int) -> str:
    """Return the text of the snippet at ``index`` and, if it introduces a list or table, the items or rows below it."""
    text = snippets[index].labeled_text
    if not snippets[index].is_lead_in:
        return text
    last = find_required_end(snippets, index)
    block = [snippet.labeled_text for snippet in snippets[index + 1 : last + 1] if snippet.kind != "code"]
    return " ".join([text, "; ".join(block)]).strip()


class ReaderOutput(NamedTuple):
    """The output of the network for a window: the ``logit`` that it answers the question, and the likeliest answer.

    ``start`` and ``end`` are the character offsets of the answer in the window.
    """

    logit: float
    start: int
    end: int


def _has_vnni() -> bool:
    """True if the processor has instructions that sum products of bytes in 32 bits. Unknown counts as False."""
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as cpuinfo:
            return "_vnni" in cpuinfo.read(_MAX_CPUINFO)
    except OSError:
        return False


class AnswerReader:
    """The loaded network. Threads can share it. OMP_NUM_THREADS limits the number of its own threads."""

    def __init__(self, folder: Path) -> None:
        """Load the files of ``folder``. Raises ValueError if one is damaged."""
        onnxruntime = import_onnxruntime()
        description: dict[str, Any] = json.loads((folder / DESCRIPTION_FILE).read_text(encoding="utf-8"))
        contents = {name: (folder / name).read_bytes() for name in description["digests"]}
        for name, digest in description["digests"].items():
            if hashlib.sha256(contents[name]).hexdigest() != digest:
                raise ValueError(f"{folder / name} is damaged; install kvstore again")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1  # each window has a thread of its own
        if not _has_vnni():
            # Sums of two products would overflow 16 bits, and logits would depend on the processor. With this setting
            # they are computed in 32 bits, as with VNNI, but in twice the time.
            options.add_session_config_entry("session.x64quantprecision", "1")
        self._session = onnxruntime.InferenceSession(contents[MODEL_FILE], options, providers=["CPUExecutionProvider"])
        self._tokenizer = WordPieceTokenizer(json.loads(contents[TOKENIZER_FILE]))
        threads = os.environ.get("OMP_NUM_THREADS", "")
        self._num_threads = int(threads) if threads.isdecimal() and int(threads) else os.cpu_count() or 1

    def read(self, question: str, windows: Sequence[str]) -> list[ReaderOutput]:
        """Return for each window (a text), in order, the logit that it answers the question, and the likeliest answer.

        The windows are read in parallel threads. A question longer than ``_MAX_QUESTION`` characters is truncated.
        """
        pairs = [self._tokenizer.encode_pair(question[:_MAX_QUESTION], window) for window in windows]
        if min(self._num_threads, len(windows)) <= 1:
            return list(map(self._run, pairs))
        with ThreadPoolExecutor(min(self._num_threads, len(windows)), "kvstore-reader") as pool:
            return list(pool.map(self._run, pairs))

    def _run(self, tokens: PairTokens) -> ReaderOutput:
        """Run the network on the tokens of a question and a window (a snippet with its context).

        Return the logit that the window answers the question, and the span of the likeliest answer in the window.
        """
        ids = np.array([tokens.ids], np.int64)
        inputs = {
            "input_ids": ids,
            "attention_mask": np.ones_like(ids),
            "token_type_ids": np.array([tokens.type_ids], np.int64),
        }
        logits, starts, ends = self._session.run(["answered", "start", "end"], inputs)
        # The likeliest answer has the largest sum of the logits that it starts and ends at its first and last token.
        mask = _build_span_mask(len(ends[0]))
        sums = np.where(mask, starts[0][:, None] + ends[0][None, :], -np.inf)
        first, last = divmod(int(sums.argmax()), len(mask))  # its row and column: indexes of tokens
        (answer_start, _), (_, answer_end) = tokens.offsets[first], tokens.offsets[last]
        return ReaderOutput(float(logits[0]), answer_start, answer_end)


@lru_cache(maxsize=_NUM_CACHED_MASKS)
def _build_span_mask(num_tokens: int) -> npt.NDArray[np.bool_]:
    """Return a square matrix for a text of ``num_tokens`` tokens: which spans of tokens can be an answer. It is cached.

    An element is True if an answer can start at the row's token and end at the column's token: it does not end before
    it starts, and has at most ``_MAX_SPAN_TOKENS`` tokens.
    """
    after_start = np.triu(np.ones((num_tokens, num_tokens), np.bool_))
    return after_start & ~np.triu(after_start, _MAX_SPAN_TOKENS)


@lru_cache(maxsize=1)
def load_reader() -> AnswerReader | None:
    """Load the answer reader and return it; None, with a warning, if a package that it needs is missing. Cached.

    Raises ValueError if the weights are damaged.
    """
    folder = find_english_folder(FOLDER)
    is_runnable = find_first_missing(("onnxruntime",)) is None
    if folder is not None and (folder / DESCRIPTION_FILE).is_file() and is_runnable:
        return AnswerReader(folder)
    remedy = format_install("english") if is_runnable else "pip install onnxruntime"
    warnings.warn(
        f"the answer reader is not installed, so kvstore chooses the sentences of answers by rules; {remedy}",
        stacklevel=2,
    )
    return None

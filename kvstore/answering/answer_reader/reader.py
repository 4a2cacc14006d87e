"""The network of the answer reader, run by onnxruntime: is a question answered in a window, and where? A *window* is a
sentence, list item or table row with its context, as one text. A *span* is a range of its tokens.

In: a question and windows (see :mod:`.windows`). Out: a :class:`ReaderOutput` for each.

Every window is run alone: in a batch, a quantized network takes its scales from all windows, and a score would depend
on the others. The distribution kvstore-db-english has the weights; ``reader.json`` has their digests.
"""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...extensions.extras import find_first_missing, format_install
from ...models.language import find_english_folder
from ...models.onnx_runtime import import_onnxruntime
from ...models.wordpiece_tokenizer import PairTokens, WordPieceTokenizer

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


class ReaderOutput(NamedTuple):
    """The output of the network for a window: the ``logit`` that it answers the question, and the likeliest answer.

    ``logit`` is the logarithm of the odds. ``start`` and ``end`` are the character offsets of the answer in the window.
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
        """Return the output of the network for each window (a text), in order.

        The windows are read in parallel threads. A question longer than ``_MAX_QUESTION`` characters is truncated.
        """
        pairs = [self._tokenizer.encode_pair(question[:_MAX_QUESTION], window) for window in windows]
        if min(self._num_threads, len(windows)) <= 1:
            return list(map(self._run, pairs))
        with ThreadPoolExecutor(min(self._num_threads, len(windows)), "kvstore-reader") as pool:
            return list(pool.map(self._run, pairs))

    def _run(self, tokens: PairTokens) -> ReaderOutput:
        """Run the network on the tokens of a question and a window, and return its output."""
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
    """Return a square matrix of bool for a text of ``num_tokens`` tokens: which spans can be an answer. It is cached.

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

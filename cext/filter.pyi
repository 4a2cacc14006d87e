"""Python interface of the kernel; see filter.pyx."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

Mention = TypeVar("Mention", bound=tuple[int, int, int])

BUCKET_ENCODING: bytes
BLOCK_ENCODING: bytes
DIRECTORY_ENCODING: bytes
FORK_ENCODING: bytes
PAGE_BYTES: int
PAGE_LIMIT: int
KEY_BYTES: int
ROOMY_OFFSET: int
BUCKET_SLOTS: int
WIDEST_DIRECTORY: int

class NameHash:
    def __init__(self, seed: int) -> None: ...
    def __call__(self, key: str) -> int: ...

class PageTable:
    count: int
    live: int
    def __init__(
        self,
        table: str,
        encoding: bytes,
        load: Callable[[int], bytes | memoryview],
        more: Callable[[int], list[int]] | None,
        error: type[Exception],
        full: type[Exception],
        count: int,
        live: int,
        writable: bool,
    ) -> None: ...
    def mark_changed(self, number: int) -> None: ...
    def count_loaded(self) -> int: ...
    def take_changed(self) -> list[tuple[int, memoryview]]: ...
    def take_freed(self) -> tuple[list[int], list[int]]: ...
    def list_used(self, listed: Iterable[int]) -> list[int]: ...
    def get_page(self, number: int) -> memoryview: ...

class BlockStore:
    def __init__(self, pages: PageTable, more: Callable[[int], list[int]]) -> None: ...
    def settle(self) -> int: ...
    def forget(self) -> None: ...

class Directory:
    depth: int
    live_forks: int
    kicks: int
    splits: int
    merges: int
    state: tuple[int, ...]
    def __init__(
        self,
        table: PageTable,
        forks: PageTable,
        buckets: PageTable,
        blocks: BlockStore,
        hasher: NameHash,
        head: Sequence[int],
    ) -> None: ...

class EntityIndex:
    entities: int
    addresses: int
    def __init__(
        self,
        hasher: NameHash,
        directory: Directory,
        blocks: BlockStore,
        lists: Any,
        as_addresses: Callable[[Any], npt.NDArray[np.uint64]],
        counts: tuple[int, int],
    ) -> None: ...
    def find(self, key: str) -> tuple[int, int, int] | None: ...
    def look_up(self, key: str, limit: int, start: int) -> tuple[int, int, int, bytes | None] | None: ...
    def find_invalid(self, keys: Sequence[str]) -> int: ...
    def insert_many(self, keys: Sequence[str], entities: npt.NDArray[np.uint32]) -> None: ...
    def delete(self, key: str) -> int: ...
    def change_addresses(self, keys: Sequence[str], addresses: Sequence[Any], adding: bool) -> tuple[int, int]: ...
    def add_hits(self, key: str, hits: int, order: bool) -> bool: ...
    def list_records(self, number: int) -> list[tuple[str, int, int, int]]: ...

class PageCheck:
    faults: list[str]
    long_lists: dict[int, int]
    def __init__(self, index: EntityIndex, bucket_pages: list[int], block_pages: list[int]) -> None: ...

def find_many(
    index: EntityIndex,
    keys: Sequence[str],
    entities: npt.NDArray[np.uint32],
    first_addresses: npt.NDArray[np.uint64] | None = None,
) -> list[int]: ...
def list_addresses_below(index: EntityIndex, keys: Sequence[str], stop: int) -> list[tuple[int, ...] | None]: ...
def count_candidates(index: EntityIndex, hashes: npt.NDArray[np.uint64]) -> int: ...
def find_mentions(
    index: EntityIndex,
    data: bytes,
    offsets: Any,
    max_words: int,
    kind: type[Mention],
    keys: dict[int, str],
) -> list[Mention]: ...
def recognize(index: EntityIndex, data: bytes, max_words: int) -> tuple[bytes, bytes, bytes]: ...

class SearchKeys:
    def __init__(self, keys: list[bytes], max_words: int = 0) -> None: ...
    def find_in_text(self, data: bytes, indexes: list[int]) -> list[tuple[int, int, int]]: ...

class TextTraces:
    held_bytes: int
    def __init__(self, max_bytes: int) -> None: ...
    def __len__(self) -> int: ...
    def add(self, document: int, headings: list[bytes], chunks: dict[int, bytes]) -> None: ...
    def remove_from(self, document: int) -> None: ...
    def select_candidates(self, key: bytes, chunks: npt.NDArray[np.uint64]) -> bytes: ...

def find_occurrences(data: bytes, key: bytes, max_words: int = 0) -> list[tuple[int, int]]: ...
def select_occurring_keys(data: bytes, keys: list[bytes], max_words: int = 0) -> list[bytes]: ...
def select_longest(starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]) -> list[int]: ...

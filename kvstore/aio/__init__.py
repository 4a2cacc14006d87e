"""An asyncio interface: the methods of a store, snapshots, transactions and cursors, run in threads.

In: the arguments of :func:`kvstore.open`. Out: a :class:`AsyncStore` whose methods are coroutines with the arguments,
results and errors of :class:`kvstore.Store`. At most ``threads`` calls to a store run at a time; further calls wait.
``execute`` always runs in the same separate thread, so that BEGIN and COMMIT belong together; each transaction has its
own thread.

A call that has begun is not stopped if its task is cancelled, so a change is committed completely or not at all. A
transaction whose block is cancelled is rolled back. ``query``, ``ingest`` and streams stop early.

>>> import asyncio, tempfile
>>> import kvstore.aio
>>> async def main():
...     async with kvstore.aio.open(tempfile.mkdtemp() + "/store", embedder="hashing") as store:
...         await store.put("tea", "Tea is made from leaves.")
...         answers = await asyncio.gather(store.ask("What is tea made from?"), store.ask("Who owns Mars?"))
...         return [answer.abstained for answer in answers]
>>> asyncio.run(main())
[False, True]
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from ..arguments import check_integer
from ..store.opening import open_store
from .async_store import AsyncAnswerPieces, AsyncCursor, AsyncIngestion, AsyncSnapshot, AsyncStore, AsyncTransaction
from .call_threads import AwaitableContext, CallThreads

if TYPE_CHECKING:
    from ..models.embedder import Embedder

__all__ = [
    "AsyncAnswerPieces",
    "AsyncCursor",
    "AsyncIngestion",
    "AsyncSnapshot",
    "AsyncStore",
    "AsyncTransaction",
    "open",
]

#: The number of threads of a store, unless the caller of :func:`open` chooses another.
NUM_THREADS = 8


def open(
    path: str | os.PathLike[str],
    *,
    threads: int = NUM_THREADS,
    create: bool = True,
    readonly: bool = False,
    embedder: str | Embedder | None = None,
    settings: Mapping[str, Any] | None = None,
    lock_timeout: float = 5.0,
    max_bytes: int | None = None,
    durability: str = "full",
) -> AwaitableContext[AsyncStore]:
    """Open or create the store at ``path``; await the result, or enter it with ``async with``.

    The arguments except ``threads`` are those of :func:`kvstore.open`. At most ``threads`` calls run at a time, besides
    statements and transactions. Calls that change the store wait for each other in these threads, at most
    ``lock_timeout`` seconds.
    """
    check_integer("threads", threads, 1)

    async def start() -> AsyncStore:
        """Open the store in a thread of a new pool."""
        pool = CallThreads(threads, "call")
        run = partial(
            open_store, path, create=create, readonly=readonly, embedder=embedder, settings=settings,
            lock_timeout=lock_timeout, max_bytes=max_bytes, durability=durability,
        )  # fmt: skip
        return AsyncStore(await pool.run(run), pool)

    return AwaitableContext(start())

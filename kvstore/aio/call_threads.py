"""Calls of synchronous functions in threads, for coroutines; and the contexts and streams that use them.
A call that a thread has begun cannot be stopped: if its task is cancelled, it continues in the background.

In: functions and iterators of the synchronous interface. Out: coroutines and async iterators with the same results.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, Self, TypeVar

if TYPE_CHECKING:
    from types import TracebackType

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
Item = TypeVar("Item")
Resource = TypeVar("Resource", bound="AsyncContext")

#: The end of an iterator, because a coroutine cannot raise StopIteration.
_END: Any = object()


class CallThreads:
    """The threads that run the calls of one object."""

    def __init__(self, num_threads: int, name: str) -> None:
        """Create a pool of at most ``num_threads`` threads, named after ``name``; they start with the first calls."""
        self._pool = ThreadPoolExecutor(num_threads, thread_name_prefix=f"kvstore {name}")
        self._is_closed = False

    def submit(self, function: Callable[..., Result], *args: Any, **kwargs: Any) -> Future[Result]:
        """Start a call to ``function`` in a thread, with the context variables of the caller, and return its future."""
        return self._pool.submit(copy_context().run, partial(function, *args, **kwargs))

    async def run(self, function: Callable[..., Result], *args: Any, **kwargs: Any) -> Result:
        """Call ``function`` in a thread, and return its result.

        If the task is cancelled, a call that is already running continues to its end, and one that waits for a thread
        is dropped.
        """
        if self._is_closed:  # the pool accepts no calls; functions of a closed object raise ClosedError
            return await asyncio.to_thread(function, *args, **kwargs)
        return await asyncio.wrap_future(self.submit(function, *args, **kwargs))

    async def run_to_end(self, function: Callable[..., Result], *args: Any, **kwargs: Any) -> Result:
        """Call ``function`` in a thread, and return its result; wait for its end even if the task is cancelled.

        After :meth:`close`, the call can only raise ClosedError, so a cancelled task does not wait for it.
        """
        if self._is_closed:
            return await self.run(function, *args, **kwargs)
        future = asyncio.wrap_future(self.submit(function, *args, **kwargs))
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            await asyncio.wait([future])
            raise

    def close(self) -> None:
        """Accept no more calls. The threads end after their pending calls; this method does not wait for them."""
        self._is_closed = True
        self._pool.shutdown(wait=False)


def run_in_thread(
    method: Callable[Concatenate[Any, Parameters], Result],
) -> Callable[Concatenate[Any, Parameters], Coroutine[Any, Any, Result]]:
    """Convert a method of a store to a coroutine method of its asynchronous wrapper, with the same signature.

    The coroutine calls ``method`` on the wrapped object, ``self._target``, in one of the threads ``self._threads``.
    """

    @wraps(method)
    async def call(self: Any, /, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        """Run the method in a thread. ``wraps`` replaces this docstring with that of ``method``."""
        return await self._threads.run(method, self._target, *args, **kwargs)  # type: ignore[no-any-return]

    return call


class AsyncContext(Protocol):
    """An object that ``async with`` closes."""

    async def __aenter__(self) -> Self:
        """Return the object."""
        ...

    async def __aexit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the object."""
        ...


class AwaitableContext(Coroutine[Any, Any, Resource]):
    """A coroutine that opens a resource, such as a snapshot: await it, or enter it with ``async with``.

    ``async with`` also closes the resource. ``async for`` opens it, iterates over it and closes it.
    """

    def __init__(self, coroutine: Coroutine[Any, Any, Resource]) -> None:
        """Wrap the ``coroutine`` that opens and returns the resource."""
        self._coroutine = coroutine

    def __await__(self) -> Generator[Any, Any, Resource]:
        """Open the resource. The value of ``await`` is the open resource, which the caller must close."""
        return self._coroutine.__await__()

    def send(self, value: Any, /) -> Any:
        """Resume the wrapped coroutine with a value, as the protocol of coroutines requires."""
        return self._coroutine.send(value)

    def throw(self, *error: Any) -> Any:
        """Raise an error in the wrapped coroutine, as the protocol of coroutines requires."""
        return self._coroutine.throw(*error)

    def close(self) -> None:
        """Stop the wrapped coroutine, as the protocol of coroutines requires."""
        self._coroutine.close()

    async def __aiter__(self) -> AsyncIterator[Any]:
        """Open the resource, yield its items and close it."""
        async with self as resource:
            async for item in resource:  # type: ignore[attr-defined]
                yield item

    async def __aenter__(self) -> Resource:
        """Open the resource and enter its own context."""
        self._resource = await self._coroutine
        return await self._resource.__aenter__()

    async def __aexit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the context of the resource, which closes it."""
        await self._resource.__aexit__(error_type, error, trace)


class ClosingContext:
    """A mixin that closes an object at the end of its ``async with`` block."""

    async def close(self) -> None:
        """Close the object; closing twice is allowed."""
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        """Return the object, which the end of the ``async with`` block closes."""
        return self

    async def __aexit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the object."""
        await self.close()


class AsyncStream(ClosingContext, AsyncIterator[Item]):
    """An iterator whose items are computed in threads, one call at a time."""

    def __init__(self, items: Iterator[Item], threads: CallThreads) -> None:
        """Wrap the iterator ``items``; its calls run in ``threads``."""
        self._items = items
        self._threads = threads
        self._lock = threading.Lock()

    def _call_exclusively(self, function: Callable[[], Result]) -> Result:
        """Call a function and return its result, after waiting for a previous call to end.

        A previous call can still be running, because a thread does not stop if its task is cancelled.
        """
        with self._lock:
            return function()

    async def __anext__(self) -> Item:
        """Compute the next item in a thread, and return it."""
        item: Item = await self._threads.run(self._call_exclusively, lambda: next(self._items, _END))
        if item is _END:
            raise StopAsyncIteration
        return item

    async def close(self) -> None:
        """Stop after the current item; closing twice is allowed."""
        await self._threads.run_to_end(self._call_exclusively, self._items.close)  # type: ignore[attr-defined]

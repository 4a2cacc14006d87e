"""A handle of an open store: one user's session, snapshots and transactions, until it is closed.
A *one-shot method* of a handle runs the method of Transaction with the same name in a transaction of its own.

In: an open store. Out: states, snapshots and the write transaction of one user, the settings of the session, and the
models that they name. The last handle that is closed closes the store.

A one-shot method has the signature of the method that it runs, and serves programs that need no longer transaction. The
module of transactions is imported when such a method is first accessed, so programs that only read never import it.
"""

from __future__ import annotations

import inspect
import os
import threading
import weakref
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict
from functools import cache, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, NoReturn, ParamSpec, Self, TypeVar

from ..arguments import MAX_DIGITS, check_arguments, check_text, format_value, is_representable
from ..errors import ArgumentError, ClosedError, InputError, KvstoreError, LockTimeoutError, ReadOnlyError
from ..process.closed_on_exit import ClosedOnExit
from ..process.collection_pause import import_with_gc_paused
from ..settings import FixedSettings, SessionSettings
from ..structures import tables
from ..structures.state import State
from .open_store import OpenStore
from .queryable import Queryable
from .session import Session
from .snapshot import Snapshot

if TYPE_CHECKING:
    from ..models.embedder import Embedder
    from ..models.llm import LanguageModel
    from ..retrieval.query import Strategy
    from ..structures.vectors.vectors import Matrix
    from .transaction import Transaction


def delete_unused_store(handle: Handle) -> bool:
    """Delete the store of a command that failed before it stored anything; return True if the store was deleted.

    Keeps a store that has any content, that another process has open, or that this process did not create.
    """
    from ..ingest.ingest_log import LOG_FILE

    environment = handle._session.environment
    try:
        # An unused store has records only in META; its log is deleted with it.
        if not environment.delete_if_unused({tables.META}, [LOG_FILE]):
            return False
    except (KvstoreError, OSError):
        return False
    with suppress(OSError):  # the directory has other files
        environment.path.rmdir()
    return True


class Handle(ClosedOnExit, Queryable):
    """One user's access to an open store; :class:`~kvstore.database.database.Database` adds the operations."""

    def __init__(
        self,
        store: OpenStore,
        *,
        readonly: bool = False,
        session: SessionSettings | None = None,
        lock_timeout: float | None = None,
    ) -> None:
        """Open a handle of ``store``; ``session`` are the initial settings of its session (None: the defaults).

        Its changes wait at most ``lock_timeout`` seconds for another writer (None: the store's lock timeout). Raises
        ArgumentError for a path, and ClosedError if the store is closed.
        """
        if isinstance(store, (str, os.PathLike)):  # a likely mistake: kvstore.Store(path)
            raise ArgumentError(f"{type(self).__name__}() takes no path; open a store with kvstore.open(path)")
        self._session = Session(
            store, readonly=readonly or store.environment.readonly, settings=session, lock_timeout=lock_timeout
        )
        #: The handles that :meth:`session` returned; closing this one closes them.
        self._child_sessions: weakref.WeakSet[Handle] = weakref.WeakSet()
        #: The transaction begun last; only its thread can use it.
        self._last_transaction: weakref.ref[Transaction] | None = None
        #: The transaction that BEGIN opened in each thread. When a thread ends, its transaction is rolled back.
        self._open_transactions = threading.local()
        #: True while :meth:`close` runs; a transaction that begins meanwhile is rolled back.
        self._is_closing = False
        with store.lock:
            store.environment.require_open()
            store.handles.add(self)

    def __reduce__(self) -> NoReturn:
        """Raise TypeError, because each process must open the store itself."""
        raise TypeError(
            f"a {type(self).__name__} cannot be pickled or copied; pass its path, and open the store there with "
            "kvstore.open(path)"
        )

    def __repr__(self) -> str:
        """Return the class, the path of the store, and the handle's state: closed, read-only or neither."""
        if self.closed:
            return f"<kvstore.{type(self).__name__} {str(self.path)!r}, closed>"
        return f"<kvstore.{type(self).__name__} {str(self.path)!r}{', read-only' if self.readonly else ''}>"

    @property
    def path(self) -> Path:
        """The store's directory."""
        return self._session.store.environment.path

    @property
    def readonly(self) -> bool:
        """True if this handle cannot change the store: it was opened read-only, or a newer kvstore wrote the store."""
        return self._session.readonly or self._session.store.environment.readonly

    @property
    def closed(self) -> bool:
        """True if this handle can no longer be used, because it was closed or inherited through a fork."""
        return self._session.closed or self._session.store.environment.closed

    @property
    def settings(self) -> FixedSettings:
        """The settings that the store was created with."""
        return self._session.store.settings

    @property
    def embedder(self) -> Embedder:
        """The store's embedder; raises EmbedderError if its package is missing."""
        return self._session.store.embedder.load()

    def session(self) -> Self:
        """Open another session on the same store, with the same methods.

        A session has separate settings (initially a copy of these), a separate BEGIN and a separate last LOOKUP. It
        ends when it is closed, or when the handle it was created from is closed. If threads share a store, give each
        thread a session.

        >>> with store.session() as session:
        ...     session.set("top", 2)
        ...     _ = session.execute("BEGIN")
        ...     session.in_transaction, store.in_transaction, store.settings == session.settings
        (True, False, True)
        """
        own_session = self._session
        own_session.environment.require_open()
        session = type(self)(
            own_session.store,
            readonly=own_session.readonly,
            session=own_session.settings,
            lock_timeout=own_session.lock_timeout,
        )
        self._child_sessions.add(session)
        return session

    def close(self) -> None:
        """Roll back the open transaction, even of another thread, and close this handle and its sessions.

        Does nothing if the handle is already closed. Closing the last handle closes the store. Temperatures (counts
        of lookups) are saved then if the writer's lock is free. The file is compacted if it was created or more than
        doubled since it was opened, no other process has it open, and compaction would not take long. Closing waits
        at most the lock timeout for other threads to leave their methods and for snapshots to be closed. If they do not
        finish in time, it raises TransactionError and the handle stays open.
        """
        if self.closed:
            return
        self._is_closing = True
        try:
            for session in list(self._child_sessions):
                session.close()
            self._roll_back()
            self._session.store.remove_handle(self)
            self._session.closed = True
        finally:
            self._is_closing = False

    def _roll_back(self) -> None:
        """Roll back the open transaction, if any; raise TransactionError if a thread is running one of its methods."""
        transaction = None if self._last_transaction is None else self._last_transaction()
        if transaction is not None:
            transaction._roll_back_before_close(self._session.lock_timeout)

    def snapshot(self) -> Snapshot:
        """Open a snapshot: one state of the store, for several reads.

        >>> with store.snapshot() as snapshot:
        ...     len(snapshot.keys()), len(snapshot.search("tea", using="lexical"))
        (2, 1)
        """
        return Snapshot(self._session)

    def state(self) -> AbstractContextManager[State]:
        """Open the state of the last commit, and close it at the end of the ``with`` block."""
        return self._session.open_state()

    def transaction(self, *, timeout: float | None = None, models: bool = True) -> Transaction:
        """Begin the store's only write transaction, waiting at most ``timeout`` seconds for another writer.

        The default of ``timeout`` is the handle's ``lock_timeout``. The transaction belongs to the thread that begins
        it. It is rolled back when it is garbage-collected or the store is closed. Until it ends, other threads read the
        last commit. The models that documents need are loaded before the writer's lock is taken; ``models=False`` skips
        that, for a transaction that puts no documents. A single transaction is the fastest way to load a new store: its
        documents are linked to the names in them at the end, when all names are known. Raises LockTimeoutError, which
        names the lock's holder; TransactionError if this thread has a transaction open; ReadOnlyError and ClosedError.

        >>> with store.transaction() as transaction:
        ...     transaction.delete("tea"), transaction.keys(), store.keys()
        (True, ['coffee'], ['coffee', 'tea'])
        """
        transaction_class = _import_transaction_class()
        self._require_writable()
        if models:
            self._session.store.load_models()
        timeout = self._session.lock_timeout if timeout is None else float(timeout)
        transaction = transaction_class(self._session, timeout)
        self._last_transaction = weakref.ref(transaction)
        if self._is_closing:
            transaction.rollback()
            raise ClosedError(f"{self.path}: the store is being closed; open it again")
        return transaction

    def _require_writable(
        self, remedy: str = "open it for writing to change it", *, finalizes_settings: bool = True
    ) -> None:
        """Raise ClosedError or ReadOnlyError if the store cannot be changed; ``remedy`` is the advice in the message.

        Raises TransactionError if this thread has a write transaction open, before any work is done.

        The settings that a new store takes from its first documents, such as the language, become final, because a
        change depends on them. An ingest, which chooses these settings itself, passes ``finalizes_settings=False``.
        """
        self._session.environment.require_open()
        if self.readonly:
            reason = self._session.environment.readonly_reason
            raise ReadOnlyError(reason or f"{self.path} was opened read-only; {remedy}")
        self._session.environment.require_no_write_transaction()
        if finalizes_settings:
            self._session.store.finalize_settings()

    @property
    def in_transaction(self) -> bool:
        """True if this thread has an open transaction that was started with BEGIN."""
        return self._open_transaction is not None

    @property
    def _open_transaction(self) -> Transaction | None:
        """The transaction that BEGIN opened in this thread, or None."""
        return getattr(self._open_transactions, "transaction", None)

    @_open_transaction.setter
    def _open_transaction(self, transaction: Transaction | None) -> None:
        """Set the transaction that BEGIN opened in this thread, or None."""
        self._open_transactions.transaction = transaction

    @property
    def _other_transaction_thread(self) -> str | None:
        """The name of another thread that has a transaction open, or None."""
        transaction = None if self._last_transaction is None else self._last_transaction()
        return None if transaction is None else transaction._get_other_owner()

    # Models and settings

    def embed(self, texts: Sequence[str]) -> Matrix:
        """Return the unit vectors of these texts, shape (n, dimension). Without texts, the embedder is not loaded.

        >>> store.embed(["Tea is made from leaves."]).shape
        (1, 256)
        """
        for text in texts:
            check_text("a text to embed", text)
        return self._session.store.embedder.embed(texts)

    def language_model(self, name: str | None = None) -> LanguageModel | None:
        """Return the language model that ASK uses: the one named, else the session's, else the environment's.

        Returns None if no model is named, or the name is ``none``. Raises ModelError for an invalid address.

        >>> store.set("base_url", "http://localhost:11434/v1")
        >>> store.language_model("qwen3:4b").url
        'http://localhost:11434/v1/chat/completions'
        """
        return self._session.get_language_model(name)

    def _record_spending(self, statement: str, model: LanguageModel) -> None:
        """Record the requests to a model now, or in a later :meth:`flush` if another process holds the lock."""
        self._session.record_spending(statement, model)
        with suppress(LockTimeoutError):
            self._session.store.flush()

    def settings_table(self) -> list[tuple[str, Any, bool]]:
        """Return all settings as (name, value, fixed); fixed settings cannot change after the store is created.

        >>> [(name, value) for name, value, fixed in store.settings_table() if not fixed][:2]
        [('strategy', 'adaptive'), ('top', 8)]
        """
        from ..structures.language_version import list_fixed_settings

        with self.state() as state:
            fixed_settings = list_fixed_settings(state)
        return fixed_settings + [(name, value, False) for name, value in asdict(self._session.settings).items()]

    def strategies(self) -> list[Strategy]:
        """Return the strategies that a query can name, each with its name, description and options.

        >>> "bridge" in [strategy.name for strategy in store.strategies()]
        True
        """
        from ..registry import list_strategies

        return list_strategies()

    def describe_strategy(self, name: str) -> Strategy:
        """Return the strategy with this name; its attributes describe it. Raises UnknownStrategyError.

        >>> store.describe_strategy("lexical").name
        'lexical'
        """
        from ..registry import get_strategy

        return get_strategy(name)

    def set(self, name: str, value: Any) -> None:
        """Change a setting of this session; None resets it to its default.

        Raises InputError for an unknown name or an invalid value, RerankerError for an invalid reranker, and
        ClosedError.

        >>> store.set("top", 3)
        >>> len(store.retrieve("What is tea made from?").hits) <= 3
        True
        """
        self._session.environment.require_open()
        if isinstance(value, int) and not is_representable(value):
            raise InputError(f"{name} must be a number of at most {MAX_DIGITS} digits, not {format_value(value)}")
        if name == "strategy" and value is not None:
            from ..registry import get_strategy

            value = get_strategy(str(value)).name
        if name == "reranker" and value is not None:
            from ..retrieval.reranking import make_reranker

            make_reranker(str(value))  # raises RerankerError for an invalid name
        if name == "base_url" and value:
            from ..models.endpoint import check_address

            check_address(str(value), InputError)
        self._session.settings = self._session.settings.replace_setting(name, value)


Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class _OneShotMethod:
    """A descriptor for a method of a handle with the signature and docstring of a method of Transaction.
    The first access imports Transaction, which is slow, and replaces the descriptor by the method.

    ``get_method`` returns the method of the class Transaction. A call with some arguments calls ``run(method, handle,
    *arguments)``.
    """

    def __init__(self, get_method: Callable[[type[Transaction]], Callable[..., Any]], run: Callable[..., Any]) -> None:
        """Store the function that returns the Transaction method, and the function that a call runs."""
        self._get_method = get_method
        self._run = run

    def __set_name__(self, owner: type, name: str) -> None:
        """Store the class in which the method is defined, and its name; Python calls this when it creates the class."""
        self._owner, self._name = owner, name

    def __get__(self, handle: Handle | None, owner: type | None = None) -> Callable[..., Any]:
        """Build the method, store it in the class in place of this descriptor, and return it.

        It is bound to ``handle`` (None: the method is accessed on the class, and stays unbound).
        """
        method = self._get_method(_import_transaction_class())
        method = check_arguments(_build_method(method, self._run, self._owner))
        setattr(self._owner, self._name, method)
        bound_method: Callable[..., Any] = getattr(owner if handle is None else handle, self._name)
        return bound_method


@cache
def _import_transaction_class() -> type[Transaction]:
    """Return the class of transactions; import it on first use, with garbage collection paused for speed."""
    transaction_class: type[Transaction] = import_with_gc_paused(f"{__package__}.transaction").Transaction
    return transaction_class


def _build_method(method: Callable[..., Any], run: Callable[..., Any], owner: type) -> Callable[..., Any]:
    """Return a method of ``owner`` with the signature and docstring of a Transaction method.

    The docstring also says that the method has its own transaction. The method calls ``run`` with the Transaction
    method, the handle and the arguments.
    """
    signature = inspect.signature(method)
    summary, _, details = (inspect.getdoc(method) or "").partition("\n\n")

    @wraps(method)
    def call(self: Handle, /, *args: Any, **kwargs: Any) -> Any:
        """Check the arguments, and call ``run``. Replaced by the docstring of the Transaction method below."""
        try:  # before ``run`` begins a transaction, and so that the TypeError has the name of this method
            signature.bind(self, *args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{method.__name__}() {error}") from None
        return run(method, self, *args, **kwargs)

    call.__module__, call.__qualname__ = owner.__module__, f"{owner.__qualname__}.{method.__name__}"
    call.__doc__ = f"{summary}\n\nRuns in its own transaction.\n\n{details}".rstrip()
    return call


def copy_signature(
    get_method: Callable[[type[Transaction]], Callable[Concatenate[Transaction, Parameters], Result]],
) -> Callable[[Callable[..., Result]], Callable[Concatenate[Handle, Parameters], Result]]:
    """Return a decorator that gives a method of a handle the signature and docstring of a Transaction method.

    ``get_method`` gets that method from its class, which is imported on first use.
    """

    def decorate(function: Callable[..., Result]) -> Any:
        """Return a method that calls ``function``, with the signature and docstring of the Transaction method."""
        # ``_OneShotMethod`` uses the signature and docstring of ``method``; the method itself is not called.
        return _OneShotMethod(get_method, lambda method, self, *args, **named: function(self, *args, **named))

    return decorate


def make_one_shot(
    get_method: Callable[[type[Transaction]], Callable[Concatenate[Transaction, Parameters], Result]],
    *,
    models_for: Collection[str] = (),
) -> Callable[Concatenate[Handle, Parameters], Result]:
    """Return a method of a handle that runs a Transaction method in a separate transaction and commits it.

    ``get_method`` gets that method from its class, which is imported on first use. If a call has one of the keyword
    arguments ``models_for``, such as ``text``, the language pipeline and the embedder are loaded before the transaction
    begins.
    """

    def call(method: Callable[..., Result], self: Handle, *args: Any, **kwargs: Any) -> Result:
        """Run a Transaction method, with these arguments, in a new transaction of the handle, and commit it."""
        needs_models = any(kwargs.get(name) is not None for name in models_for)
        with self.transaction(models=needs_models) as transaction:
            return method(transaction, *args, **kwargs)

    # The class attribute is a descriptor, but each access to it returns the method, so that is its type for callers.
    descriptor: Any = _OneShotMethod(get_method, call)
    return descriptor  # type: ignore[no-any-return]

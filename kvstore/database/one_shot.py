"""Methods of a handle that run a method of Transaction in a transaction of their own.

In: a method of Transaction. Out: a method with the same signature, for programs that need no transaction. The module of
transactions is imported when such a method is first accessed, so programs that only read never import it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from ..arguments import check_arguments

if TYPE_CHECKING:
    from .handle import Handle
    from .transaction import Transaction

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class _OneShotMethod:
    """A method with the signature and documentation of a method of Transaction, built on first access.

    ``get_method`` returns the method of the class Transaction. A call with some arguments calls
    ``run(method, handle, *arguments)``.
    """

    def __init__(self, get_method: Callable[[type[Transaction]], Callable[..., Any]], run: Callable[..., Any]) -> None:
        """Store the two functions; see the class."""
        self._get_method = get_method
        self._run = run

    def __set_name__(self, owner: type, name: str) -> None:
        """Remember the class in which the method is defined, and its name."""
        self._owner, self._name = owner, name

    def __get__(self, database: Handle | None, owner: type | None = None) -> Callable[..., Any]:
        """Build the method, and return it, bound to ``database`` unless that is None."""
        from .transaction import Transaction

        method = check_arguments(_build_method(self._get_method(Transaction), self._run, self._owner))
        # The method replaces this descriptor in the class.
        setattr(self._owner, self._name, method)
        bound_method: Callable[..., Any] = getattr(owner if database is None else database, self._name)
        return bound_method


def _build_method(method: Callable[..., Any], run: Callable[..., Any], owner: type) -> Callable[..., Any]:
    """Return a method of ``owner`` with the signature and docstring of a Transaction method.

    It calls ``run`` with the Transaction method, the handle and the arguments.
    """
    signature = inspect.signature(method)
    summary, _, details = (inspect.getdoc(method) or "").partition("\n\n")

    @wraps(method)
    def call(self: Handle, /, *args: Any, **kwargs: Any) -> Any:  # its docstring is set below
        try:
            signature.bind(self, *args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{method.__name__}() {error}") from None
        return run(method, self, *args, **kwargs)

    call.__module__, call.__qualname__ = owner.__module__, f"{owner.__qualname__}.{method.__name__}"
    call.__doc__ = f"{summary}\n\nIn a transaction of its own.\n\n{details}".rstrip()
    return call


def copy_signature(
    get_method: Callable[[type[Transaction]], Callable[Concatenate[Transaction, Parameters], Result]],
) -> Callable[[Callable[..., Result]], Callable[Concatenate[Handle, Parameters], Result]]:
    """Return a decorator that gives a method of a handle the signature and docstring of a Transaction method."""

    def decorate(function: Callable[..., Result]) -> Any:
        """Return a method that calls ``function`` and looks like the Transaction method."""
        return _OneShotMethod(get_method, lambda method, self, *args, **named: function(self, *args, **named))

    return decorate


def make_one_shot(
    get_method: Callable[[type[Transaction]], Callable[Concatenate[Transaction, Parameters], Result]],
    *,
    models: bool = False,
) -> Callable[Concatenate[Handle, Parameters], Result]:
    """Return a method of a handle that runs a Transaction method in a separate transaction and commits it."""

    def call(method: Callable[..., Result], self: Handle, *args: Any, **kwargs: Any) -> Result:
        """Run a Transaction method in a transaction of this handle, and commit it."""
        with self.transaction(models=models) as transaction:
            return method(transaction, *args, **kwargs)

    descriptor: Any = _OneShotMethod(get_method, call)
    return descriptor  # type: ignore[no-any-return]

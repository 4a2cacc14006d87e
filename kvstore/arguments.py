"""Validation of the arguments of public methods against their annotations, before anything else happens.
A *check* is a function that returns None for a valid value. Otherwise, it returns a description of what was expected,
such as "a whole number", for the error message.

In: functions, with annotations as text. Out: the same functions, which raise an :class:`~kvstore.errors.ArgumentError`
with the name of the function, the argument and its value if the value has the wrong kind. Examples are a number where
text is expected, a string that cannot be encoded as UTF-8, and a path that no file can have. Only the annotations in
``_CHECKS`` are checked.
"""

from __future__ import annotations

import inspect
import math
import operator
import os
import re
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import date, time
from functools import wraps
from numbers import Real
from typing import Any, TypeVar

from .errors import ArgumentError, InputError, suggest
from .process.frozen_dataclass import frozen_dataclass

Function = TypeVar("Function", bound=Callable[..., Any])
#: Returns None for a valid value, and otherwise a description of what was expected.
ArgumentCheck = Callable[[Any], str | None]

#: SQLite's largest integer.
_MAX_INTEGER = 2**63 - 1
#: Digits of the largest whole number that can also be a float.
MAX_DIGITS = 308
_MAX_REPRESENTABLE = 10**MAX_DIGITS
#: Bytes of the longest path that Linux and macOS accept, and of the longest name in it.
_MAX_PATH_BYTES = 4096
_MAX_NAME_BYTES = 255


@frozen_dataclass
class Option:
    """A numeric option of a strategy or an index: its default, its range, and its description."""

    default: float
    low: float
    high: float
    description: str


@frozen_dataclass
class Choice:
    """An option with a fixed set of words as values: its default, its choices, and its description."""

    default: str
    choices: tuple[str, ...]
    description: str

    def parse_choice(self, label: str, value: object) -> str:
        """Return the choice that equals ``value``, ignoring case; raise InputError if there is none.

        ``label`` is what the error calls the option.
        """
        word = value.lower() if isinstance(value, str) else str(value)
        if word not in self.choices:
            suggestion = suggest(word, self.choices)
            hint = f"; did you mean {suggestion}?" if suggestion else ""
            raise InputError(f"{label} must be one of {', '.join(self.choices)}, not {value!r}{hint}")
        return word


_HYBRID_OPTIONS = "candidates words nearness headings entries numbers"
#: Options of earlier versions that are constants now, by strategy and kind of index. kvstore 0.5 rejects them.
RETIRED_OPTIONS: Mapping[str, frozenset[str]] = {
    owner: frozenset(names.split())
    for owner, names in {
        "adaptive": f"restart epsilon passages relations bias relevance {_HYBRID_OPTIONS}",
        "archrag": f"ef {_HYBRID_OPTIONS}",
        "cft": "places constant",
        "communities": "percentile levels m exact_below",
        "community_graph": "m exact_below",
        "cue": "names units apart",
        "drift": "reports",
        "global": "rated",
        "graph": "epsilon relations",
        "hipporag": "epsilon",
        "hybrid": "candidates numbers",
        "lexical": "phrases",
        "local": "relations",
        "raptor": _HYBRID_OPTIONS,
        "sprag": f"sections {_HYBRID_OPTIONS}",
        "synonyms": "neighbours m ef_construction",
        "topics": "levels",
        "vectors": "extend_after",
    }.items()
}


def find_caller_level() -> int:
    """Return the ``stacklevel`` with which a warning by the calling function points at the code that uses kvstore."""
    level = 1
    frame = inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "kvstore":
        frame, level = frame.f_back, level + 1
    return level - 1


def warn_if_retired(owner: str, name: str) -> bool:
    """Issue a FutureWarning and return True if an option no longer has an effect, else return False.

    ``owner`` is the name of the strategy or the kind of the index. The caller then ignores the option.
    """
    if name not in RETIRED_OPTIONS.get(owner, ()):
        return False
    warnings.warn(
        f"{owner}: the option {name} no longer has any effect; remove it, because kvstore 0.5 will reject it",
        FutureWarning,
        stacklevel=2,
    )
    return True


def check_arguments(function: Function, name: str | None = None) -> Function:
    """Return ``function`` with a check of its arguments against their annotations before each call.

    ``name`` is the function's name in error messages (None: ``function.__name__``). An invalid argument raises
    ArgumentError. An unknown keyword argument raises TypeError, which suggests the nearest name. A missing argument or
    too many positional arguments also raise TypeError.
    """
    label = name or function.__name__
    parameters = inspect.signature(function).parameters
    accepts_any_keyword = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    optional_checks = ((name, _find_check(str(parameter.annotation))) for name, parameter in parameters.items())
    checks = {name: check for name, check in optional_checks if check is not None}
    if not checks:
        return function
    positional_kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    positional_names = [name for name, parameter in parameters.items() if parameter.kind in positional_kinds]
    varargs_names = [name for name, parameter in parameters.items() if parameter.kind is parameter.VAR_POSITIONAL]
    varargs_name = varargs_names[0] if varargs_names else None
    varargs_check = checks.get(varargs_name or "")
    required_names = [name for name in positional_names if parameters[name].default is inspect.Parameter.empty]
    public_names = [name for name in parameters if name != "self"]

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        """Check the arguments, raising ArgumentError or TypeError, and call the function."""
        for name, value in zip(positional_names, args, strict=False):
            check = checks.get(name)
            if check is not None and (expected := check(value)):
                raise _make_error(label, name, expected, value)
        if varargs_check is not None:
            for value in args[len(positional_names) :]:
                if expected := varargs_check(value):
                    raise _make_error(label, str(varargs_name), expected, value)
        for name, value in kwargs.items():
            check = checks.get(name)
            if check is not None and (expected := check(value)):
                raise _make_error(label, name, expected, value)
            if check is None and not accepts_any_keyword and name not in parameters:
                raise make_name_error(label, name, public_names)
        if len(args) > len(positional_names) and varargs_name is None:
            raise _make_count_error(label, len(args), positional_names, public_names)
        for name in required_names[len(args) :]:
            if name not in kwargs:
                raise TypeError(f"{label}() is missing the argument {name!r}")
        return function(*args, **kwargs)

    return call  # type: ignore[return-value]


def check_methods(cls: type) -> None:
    """Add argument checks to the public methods that a class defines."""
    for name, value in list(vars(cls).items()):
        if name[0] != "_" and inspect.isfunction(value):
            setattr(cls, name, check_arguments(value))


def check_clauses(method: str, clauses: Mapping[str, Any], parameters: Mapping[str, Any]) -> None:
    """Raise TypeError for an unknown keyword argument of a method, and ArgumentError for a value of the wrong type.

    ``clauses`` are the keyword arguments, named like the clauses of a statement (``top``, ``where``). ``parameters``
    has the annotation of each valid one.
    """
    for name, value in clauses.items():
        if name not in parameters:
            raise make_name_error(method, name, parameters)
        annotation = parameters[name]
        check = _find_check(getattr(annotation, "__forward_arg__", str(annotation)))
        expected = None if check is None else check(value)
        if expected:
            raise ArgumentError(f"{method}(): {name} must be {expected}, not {format_value(value)}")


def check_options(name: str, options: Mapping[str, Any] | None) -> None:
    """Raise ArgumentError unless options are texts, numbers, booleans or None, keyed by name.

    Integers of more than 308 digits are invalid. ``name`` is the name of the argument, for the error.
    """
    for key, value in (options or {}).items():
        is_too_large = isinstance(value, int) and not is_representable(value)
        if is_too_large or not isinstance(key, str) or not isinstance(value, (str, int, float, bool, type(None))):
            raise ArgumentError(
                f"{name} must map names to text or numbers, not {format_value(key)}: {format_value(value)}"
            )


def check_text(name: str, value: Any) -> None:
    """Raise ArgumentError unless ``value`` is a string that can be encoded as UTF-8."""
    if expected := _describe_expected_text(value):
        raise ArgumentError(f"{name} must be {expected}, not {format_value(value)}")


def to_plain_value(value: Any) -> Any:
    """Return a scalar of numpy as a Python value, a date or time as ISO 8601, and a missing value of pandas as None.

    NaN also becomes None, and a numpy time is rounded down to microseconds. Other values are returned unchanged.

    >>> import numpy
    >>> to_plain_value(numpy.int64(3)), to_plain_value(numpy.float32(0.5)), to_plain_value(float("nan"))
    (3, 0.5, None)
    >>> to_plain_value(date(2026, 1, 31))
    '2026-01-31'
    """
    if type(value) in _PLAIN_TYPES:
        return value
    if getattr(value, "shape", None) == () and hasattr(value, "item"):
        value = _to_python_scalar(value)
    # Only NaN differs from itself.
    is_missing = value != value if isinstance(value, float) else type(value).__name__ in ("NAType", "NaTType")
    if is_missing:
        return None
    return value.isoformat() if isinstance(value, (date, time)) else value  # a datetime is a date


def _to_python_scalar(value: Any) -> Any:
    """Return a numpy scalar or zero-dimensional array as a Python value.

    A time or duration that Python cannot represent is returned unchanged, but a time in nanoseconds is rounded down to
    microseconds.
    """
    scalar = value.item()
    kind = getattr(getattr(value, "dtype", None), "kind", None)
    if kind not in ("M", "m") or not isinstance(scalar, int):
        return scalar
    # Python cannot represent nanoseconds, so numpy returns them as a number, which is not a time.
    time_or_number = value.astype("datetime64[us]").item() if kind == "M" else scalar
    return value if isinstance(time_or_number, int) else time_or_number


def is_text(value: object) -> bool:
    """True if ``value`` is a string that can be encoded as UTF-8."""
    return _describe_expected_text(value) is None


def check_path(name: str, value: Any) -> None:
    """Raise ArgumentError unless ``value`` is a valid file path."""
    if expected := _describe_expected_path(value):
        raise ArgumentError(f"{name} must be {expected}, not {format_value(value)}")


def check_integer(name: str, value: int, low: int, high: int | None = None) -> None:
    """Raise InputError unless ``value`` is from ``low`` to ``high`` (None: SQLite's largest integer).

    Raises ArgumentError if it is not a whole number.
    """
    if expected := _describe_expected_integer(value):
        raise ArgumentError(f"{name} must be {expected}, not {format_value(value)}")
    max_value = _MAX_INTEGER if high is None else high
    if not low <= value <= max_value:
        limits = f"{low:,} or more" if high is None and value < low else f"{low:,} to {max_value:,}"
        value_text = f"{value:,}" if abs(value) <= 10 * _MAX_INTEGER else format_value(value)
        raise InputError(f"{name} takes {limits}, not {value_text}")


def check_number(name: str, value: Any) -> None:
    """Raise ArgumentError for a value that is not a number, is NaN, or is an integer of more than 308 digits."""
    if expected := _describe_expected_number(value):
        raise ArgumentError(f"{name} must be {expected}, not {format_value(value)}")


def _make_error(function: str, name: str, expected: str, value: Any) -> ArgumentError:
    """Return the error for the argument ``name`` of a function, whose value is not of the ``expected`` kind."""
    return ArgumentError(f"{function}(): {name} must be {expected}, not {format_value(value)}")


def make_name_error(function: str, name: str, names: Collection[str]) -> TypeError:
    """Return the error for an unknown keyword argument ``name``; ``names`` are the names of all arguments."""
    suggestion = suggest(name, names)
    known_names = f"its {'argument is' if len(names) == 1 else 'arguments are'} {', '.join(names)}"
    hint = f"did you mean {suggestion!r}?" if suggestion else known_names
    return TypeError(f"{function}() has no argument {name!r}; {hint}")


def _make_count_error(function: str, num_values: int, positional_names: list[str], names: Sequence[str]) -> TypeError:
    """Return the error for a call with too many positional arguments; ``num_values`` is their number with ``self``.

    ``positional_names`` are the names of the positional parameters, and ``names`` those of all except ``self``.
    """
    num_self = int(positional_names[:1] == ["self"])
    expected_names = positional_names[num_self:]
    expected_list = f" ({', '.join(expected_names)})" if expected_names else ""
    hint = "pass the others by name" if len(names) > len(expected_names) else "remove the others"
    return TypeError(
        f"{function}() takes {format_count(len(expected_names), 'positional argument')}{expected_list}, not "
        f"{num_values - num_self:,}; {hint}"
    )


def format_count(number: int, noun: str) -> str:
    """Format a number with its noun, in the singular or plural.

    >>> format_count(1, "document"), format_count(2000, "document"), format_count(0, "entity")
    ('1 document', '2,000 documents', '0 entities')
    """
    plural = f"{noun.removesuffix('y')}ies" if noun.endswith("ty") else f"{noun}s"  # entity, but not key
    return f"{number:,} {noun if number == 1 else plural}"


def format_value(value: object) -> str:
    """Format a value of the wrong kind for an error message.

    A long text or number is described by its type and length, any other long value by its type alone.

    >>> format_value(2.5), format_value("x" * 99), format_value([])
    ('float 2.5', 'a str of 99 characters', 'list []')
    """
    type_name = type(value).__name__
    article = "an" if type_name[0] in "aeiou" else "a"
    try:
        text = repr(value)
    except Exception:  # a number of 5,000 digits, lists nested a thousand deep, or a class with a broken repr
        return f"{article} {type_name} that cannot be shown"
    if len(text) <= 60:
        return f"{type_name} {text}"
    if not isinstance(value, (str, int, float)):
        return f"{article} {type_name}"
    return f"{article} {type_name} of {len(value if isinstance(value, str) else text):,} characters"


def _find_check(annotation: str) -> ArgumentCheck | None:
    """Return the check for an annotation, such as ``str | None``; None if it has a type that is not checked."""
    while "[" in annotation:  # types in brackets describe elements, which are not checked
        annotation, num_replaced = re.subn(r"\[[^][]*\]", "", annotation)
        if not num_replaced:
            return None
    kinds = [part.strip() for part in annotation.split(" | ")]
    if not set(kinds) <= _CHECKS.keys() | {"None"}:
        return None
    if "os.PathLike" in kinds:  # the check of a path accepts text as well
        kinds = [kind for kind in dict.fromkeys(kinds) if kind != "str"]
    checks = [_CHECKS[kind] for kind in kinds if kind != "None"]
    if len(checks) == 1:
        (single_check,) = checks
        return (lambda value: None if value is None else single_check(value)) if "None" in kinds else single_check

    def check_any(value: Any) -> str | None:
        """Return None if any check accepts a value, else a description of the expected kinds."""
        if value is None and "None" in kinds:
            return None
        if isinstance(value, str) and _describe_expected_path in checks:  # the only kind that text can be
            return _describe_expected_path(value)
        expected_kinds = [check(value) for check in checks]
        return None if None in expected_kinds else " or ".join(map(str, expected_kinds))

    return check_any


def _describe_expected_text(value: Any) -> str | None:
    """Return None if a value is a string that can be encoded as UTF-8, else a description of what was expected.

    >>> _describe_expected_text("text"), _describe_expected_text(3)
    (None, 'text')
    """
    if not isinstance(value, str):
        return "text"
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            return "text that can be written as UTF-8 (this one has half of a surrogate pair)"
    return None


def _describe_expected_path(value: Any) -> str | None:
    """Return None if a value is a path that the file system can have, else a description of what was expected."""
    if not isinstance(value, (str, os.PathLike)):
        return "a path"
    path = os.fspath(value)
    if not isinstance(path, str):
        return "a path string"
    if not path:
        return "a path that is not empty"
    if "\0" in path:
        return "a path without NUL characters"
    try:
        encoded = os.fsencode(path)
    except UnicodeEncodeError:
        return "a path that the file system accepts (this one has half of a surrogate pair)"
    if len(encoded) >= _MAX_PATH_BYTES or any(len(name) > _MAX_NAME_BYTES for name in encoded.split(b"/")):
        return f"a path of less than {_MAX_PATH_BYTES:,} bytes, with at most {_MAX_NAME_BYTES} bytes per name"
    return None


def is_representable(value: int) -> bool:
    """True if a whole number has at most 308 digits. Larger ones cannot become floats, nor always be printed."""
    return bool(abs(value) < _MAX_REPRESENTABLE)


def _describe_expected_integer(value: Any) -> str | None:
    """Return None if a value is a whole number of at most 308 digits, else a description of what was expected.

    True and False are not numbers here.
    """
    try:
        number = operator.index(value)
    except TypeError:  # an array also has __index__, which works only if it has a single element
        return "a whole number"
    if not is_representable(number):
        return f"a whole number of at most {MAX_DIGITS} digits"
    return "a whole number" if isinstance(value, bool) else None


def _describe_expected_number(value: Any) -> str | None:
    """Return None if a value is a valid number, else a description of what was expected.

    NaN, True, False and whole numbers of more than 308 digits are not valid.
    """
    if isinstance(value, bool) or not isinstance(value, Real):  # not Decimal, which cannot be added to other numbers
        return "a number"
    if isinstance(value, int) and not is_representable(value):
        return f"a number of at most {MAX_DIGITS} digits"
    try:
        return "a number" if math.isnan(value) else None
    except OverflowError:  # a fraction that cannot become a float
        return f"a number of at most {MAX_DIGITS} digits"


def _describe_expected_boolean(value: Any) -> str | None:
    """Return None if a value is True, False, 1, 0 or a boolean of numpy, else a description of what was expected.

    Text is not valid, because Python takes "no" and "false" for true.
    """
    if type(value).__name__ in ("bool", "bool_"):
        return None
    return None if isinstance(value, int) and value in (0, 1) else "True or False"


def _describe_expected_function(value: Any) -> str | None:
    """Return None if a value can be called, else a description of what was expected."""
    return None if callable(value) else "a function"


def _describe_expected_mapping(value: Any) -> str | None:
    """Return None if a value is a mapping, else a description of what was expected."""
    return None if isinstance(value, Mapping) else "a mapping of names to values"


def _describe_expected_sequence(value: Any) -> str | None:
    """Return None if a value is a sequence other than a string, else a description of what was expected."""
    return None if isinstance(value, Sequence) and not isinstance(value, (str, bytes)) else "a sequence, such as a list"


def _describe_expected_iterable(value: Any) -> str | None:
    """Return None if a value is an iterable other than a string, else a description of what was expected."""
    return None if isinstance(value, Iterable) and not isinstance(value, (str, bytes)) else "a list of values"


#: The types that :func:`to_plain_value` returns unchanged, for speed.
_PLAIN_TYPES = frozenset({str, int, bool, bytes, type(None), dict, list})

_CHECKS: dict[str, ArgumentCheck] = {
    "str": _describe_expected_text,
    "os.PathLike": _describe_expected_path,
    "int": _describe_expected_integer,
    "float": _describe_expected_number,
    "bool": _describe_expected_boolean,
    "Callable": _describe_expected_function,
    "Mapping": _describe_expected_mapping,
    "Sequence": _describe_expected_sequence,
    "Iterable": _describe_expected_iterable,
}

"""Regular expressions that are compiled on first use.

A process that asks one question needs only some patterns of the modules that it imports. Compiling the others would
take as long as the search.
"""

from __future__ import annotations

import re
from typing import Any, cast


class _LazyPattern:
    """A stand-in for a compiled pattern, with the same attributes."""

    def __init__(self, source: str, flags: re.RegexFlag) -> None:
        """Store the source and the flags of a pattern without compiling it."""
        self._source = source
        self._flags = flags
        self._compiled: re.Pattern[str] | None = None

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the compiled pattern, and store it here so that the next access is fast."""
        if self._compiled is None:
            self._compiled = re.compile(self._source, self._flags)
        value = getattr(self._compiled, name)
        setattr(self, name, value)
        return value


def compile_lazily(source: str, flags: re.RegexFlag = re.NOFLAG) -> re.Pattern[str]:
    """Return a pattern that is compiled from its ``source`` when it is first used.

    An invalid pattern raises ``re.error`` only then. ``flags`` are the flags of :func:`re.compile`.
    """
    return cast("re.Pattern[str]", _LazyPattern(source, flags))


#: The length from which a run without white space is not a word: encoded data, or a line of dashes. The longest web
#: addresses in texts are shorter.
_MIN_RUN_LENGTH = 500
_LONG_RUN_PATTERN = compile_lazily(rf"[!-~\xa1-\u0dff]{{{_MIN_RUN_LENGTH},}}")


def remove_long_runs(text: str) -> str:
    """Return a text with each run of 500 characters or more without white space replaced by a space.

    Patterns that look for words, numbers and addresses take quadratic time in the length of such a run. Runs of
    writing without spaces, such as Chinese, are kept.

    >>> remove_long_runs(f"key {'-' * 5000} end")
    'key   end'
    """
    return text if len(text) < _MIN_RUN_LENGTH else _LONG_RUN_PATTERN.sub(" ", text)

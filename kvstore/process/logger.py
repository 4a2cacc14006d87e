"""The ``kvstore`` logger, loaded with the first message.

In: nothing. Out: a logger that prints nothing unless the program adds a handler. Most processes log nothing, and the
``logging`` module and its imports take 4 ms, as long as a search.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import logging


def get_logger() -> logging.Logger:
    """Return the ``kvstore`` logger, which drops messages unless the program adds a handler."""
    import logging

    logger = logging.getLogger("kvstore")
    if not logger.handlers:  # without a handler, Python would print warnings
        logger.addHandler(logging.NullHandler())
    return logger

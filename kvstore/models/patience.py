"""How long a server is waited for: set by a session or an option, kept to by every request."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How many seconds to wait, and how many attempts to make.

    ``connect`` is for the connection, ``first`` for the first part of an answer, ``between`` for each further part, and
    ``total`` for everything, further attempts and the pauses before them included.
    """

    connect: float
    first: float
    between: float
    total: float = math.inf
    attempts: int = 4

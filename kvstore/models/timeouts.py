"""Timeouts of requests to a server, set by a session or an option."""

from __future__ import annotations

import math
from typing import NamedTuple


class Timeouts(NamedTuple):
    """The seconds to wait, and the number of attempts.

    ``connect`` is for the connection, ``first_part`` for the first part of an answer, ``next_part`` for each further
    part, and ``total`` for everything, including further attempts and the pauses before them.
    """

    connect: float
    first_part: float
    next_part: float
    total: float = math.inf
    attempts: int = 4

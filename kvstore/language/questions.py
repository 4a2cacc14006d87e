"""Questions that somebody types where a statement should stand, not having met ASK yet.

In: what was typed. Out: the question, if it is one; who reads it says how it is asked.
"""

from __future__ import annotations

import re

#: Words that begin questions and no statement, and how long a line is that may be one.
_QUESTION = re.compile(
    r"(?:what|who|whom|whose|when|where|which|why|how|is|are|was|were|does|do|did|can|could|should|may|will|would|has"
    r"|have)(?:['’]\w+)? (?=\S)",
    re.IGNORECASE,
)
_LONGEST_QUESTION = 500


def plain_question(text: str) -> str | None:
    """The question that stands where a statement should, as somebody types it who has not met ASK yet.

    >>> plain_question(" who signs it? "), plain_question("SELECT 1"), plain_question("what")
    ('who signs it?', None, None)
    """
    asked = " ".join(text.rstrip().rstrip(";").split())
    return asked if _QUESTION.match(asked) and len(asked) <= _LONGEST_QUESTION else None

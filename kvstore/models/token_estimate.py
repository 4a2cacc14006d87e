"""Estimates of the number of tokens of a text for a language model.

In: a text, or the messages of a prompt. Out: an estimate that tends to be too high.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

#: The number of bytes of UTF-8 that count as one token. The tokenizers of models need a token for 4 to 5 bytes of
#: English prose and for about 3 bytes of many other languages.
BYTES_PER_TOKEN = 3.5
#: The number of tokens of a message in addition to its text, in the chat templates of common models.
MESSAGE_TOKENS = 8


def token_estimate(text: str) -> int:
    """Return the estimated number of tokens of a text; the estimate tends to be too high.

    >>> kvstore.token_estimate("Leave lasts twenty weeks.")
    8
    """
    return -int(-len(text.encode()) // BYTES_PER_TOKEN)  # rounded up


def estimate_message_tokens(messages: Iterable[Mapping[str, str]]) -> int:
    """Return the estimated number of tokens of the messages of a prompt.

    >>> estimate_message_tokens([{"role": "user", "content": "Leave lasts twenty weeks."}])
    16
    """
    return sum(MESSAGE_TOKENS + token_estimate(message["content"]) for message in messages)

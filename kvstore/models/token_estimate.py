"""Estimates of the number of tokens of a text for a language model.

In: a text, or the messages of a prompt. Out: an estimate that tends to be too high.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

#: Bytes of UTF-8 that are taken for one token. The models' own tokenizers, which nobody asks here, take 4 to 5 for
#: English prose and about 3 for many other languages.
BYTES_PER_TOKEN = 3.5
#: Tokens that a message costs beside its text, in the chat templates of common models.
MESSAGE_TOKENS = 8


def token_estimate(text: str) -> int:
    """About how many tokens a model's tokenizer makes of a text, rather too many than too few.

    >>> kvstore.token_estimate("Leave lasts twenty weeks.")
    8
    """
    return -int(-len(text.encode()) // BYTES_PER_TOKEN)


def estimate_message_tokens(messages: Iterable[Mapping[str, str]]) -> int:
    """About how many tokens the messages of a prompt are.

    >>> estimate_message_tokens([{"role": "user", "content": "Leave lasts twenty weeks."}])
    16
    """
    return sum(MESSAGE_TOKENS + token_estimate(message["content"]) for message in messages)

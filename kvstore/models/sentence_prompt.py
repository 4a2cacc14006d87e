"""The prompt for one sentence about each of some passages: an easy request for weak models. Each sentence of the answer
follows a *label*, the number and the first words of its passage.

In: passages, and a check of the sentences. Out: a prompt. With the label, a weak model writes about this passage and
not about the last or the example.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from .json_schema import build_array_schema, build_object_schema, build_text_schema
from .quoting import Quotation
from .statement_support import SourcePassages
from .structured import StructuredPrompt
from .text_checks import find_supported_sentences

Result = TypeVar("Result")

#: The instruction, and an example: passages, each with a sentence about it.
SENTENCE_TASK = (
    "You are shown numbered passages. For each, write one short sentence that says the most important thing in it, "
    "with its words and in its language. Say nothing that is not in the passages."
)
_EXAMPLE = (
    ("Ann Lee, born in Oslo, sings in the choir of Rome. She has two sons.", "Ann Lee sings in the choir of Rome."),
    (
        "The choir of Rome has forty singers. It was founded by Carl Berg.",
        "The choir of Rome was founded by Carl Berg.",
    ),
    ("Oak Lake, which is fed by the Rill, froze in 1802.", "Oak Lake froze in 1802."),
)
#: The minimum characters of a sentence, and the maximum that is asked for and that is accepted.
_MIN_SENTENCE_CHARS, _MAX_SENTENCE_CHARS, _MAX_ACCEPTED_CHARS = 12, 250, 400
#: The maximum words and characters of a passage in its label.
_LABEL_WORDS, _MAX_LABEL_CHARS = 4, 40
_ANSWER_TOKENS = 800


def build_sentence_prompt(
    name: str, texts: Sequence[str], check: Callable[[list[str]], Result]
) -> StructuredPrompt[Result]:
    """Return the prompt for one sentence about each text.

    ``check`` converts the written sentences to the result, or raises ValueError if they are invalid. ``name`` is one
    word that names the answer's schema.
    """
    quotation = Quotation(texts)
    example_texts, example_sentences = zip(*_EXAMPLE, strict=True)
    example = [
        {"passage": label, "text": sentence}
        for label, sentence in zip(_build_labels(example_texts), example_sentences, strict=True)
    ]
    messages = [
        {"role": "system", "content": f"{SENTENCE_TASK} {quotation.rule}"},
        {"role": "user", "content": format_numbered_texts(example_texts, quotation)},
        {"role": "assistant", "content": json.dumps({"sentences": example})},
        {"role": "user", "content": format_numbered_texts(texts, quotation)},
    ]
    # No sentence needs to be longer than its passage.
    max_chars = max(_MIN_SENTENCE_CHARS, min(_MAX_SENTENCE_CHARS, max(map(len, texts))))

    def build_schema(min_items: int, max_chars: int, label_schema: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the schema of an answer with at least ``min_items`` sentences of at most ``max_chars`` characters.

        Each sentence has the label of its passage, whose schema is ``label_schema``.
        """
        text_schema = build_text_schema(max_chars, _MIN_SENTENCE_CHARS)
        sentence_schema = build_object_schema(passage=label_schema, text=text_schema)
        return build_object_schema(sentences=build_array_schema(sentence_schema, len(texts), min_items))

    return StructuredPrompt(
        name=name,
        messages=messages,
        schema=build_schema(1, _MAX_ACCEPTED_CHARS, {"type": ["string", "integer"]}),
        check=lambda answer: check([entry["text"] for entry in answer["sentences"]]),
        answer_tokens=_ANSWER_TOKENS,
        # The schema that is sent to the model is stricter than the one that its answer is checked against.
        requested_schema=build_schema(len(texts), max_chars, {"type": "string", "enum": _build_labels(texts)}),
    )


def select_usable_indexes(texts: Sequence[str], indexes: Sequence[int]) -> list[int]:
    """Return the ``indexes`` of texts about which a model can write a sentence that passes the checks.

    A text is usable if one of its own sentences passes them. Return all of ``indexes`` if no text is usable.
    """
    return [index for index in indexes if _is_usable(texts[index])] or list(indexes)


def _is_usable(text: str) -> bool:
    """True if a sentence copied from a text passes the checks of a sentence that a model writes about the text."""
    with suppress(ValueError):
        return bool(find_supported_sentences([text], SourcePassages([text]), name="a passage"))
    return False


def format_numbered_texts(texts: Iterable[str], quotation: Quotation) -> str:
    """Return the passages of a prompt as one string, each with its number and between quotation delimiters."""
    return "\n\n".join(f"[{number}]\n{quotation.quote(text)}" for number, text in enumerate(texts, 1))


def _build_labels(texts: Iterable[str]) -> list[str]:
    """Return the label of each passage, which the model repeats in its answer: the passage's number and first words."""
    first_words = (" ".join(text.split()[:_LABEL_WORDS])[:_MAX_LABEL_CHARS] for text in texts)
    return [f"{number}: {words}" for number, words in enumerate(first_words, 1)]

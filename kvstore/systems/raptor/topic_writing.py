"""Prompts for the title and the summary of a topic, and the check of a model's answer.

In: the texts that a topic is summarized from, and its extractive summary. Out: a prompt whose answer is a title and
sentences. Its second attempt asks for less: one sentence about each passage that the extractive summary is from, so
that weak models, which write about the last of many passages only, have usable answers too.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import accumulate
from typing import Any

from ...models.json_schema import build_array_schema, build_object_schema, build_text_schema
from ...models.quoting import Quotation, replace_quotes
from ...models.statement_support import SourcePassages
from ...models.structured import StructuredPrompt
from ...models.text_checks import check_text, find_supported_sentences
from ...models.token_estimate import token_estimate
from .topic_building import Topic
from .topics import Topics

#: The maximum characters of a title that a model writes, the minimum and maximum characters of a sentence, and the
#: maximum number of sentences of a summary.
_MAX_TITLE_CHARS, _MIN_SENTENCE_CHARS, _MAX_SENTENCE_CHARS, _MAX_SENTENCES = 120, 12, 400, 6
_TASK = (
    "You are shown numbered passages that a collection of documents has on one topic. Write what they say together, in "
    "a few sentences and in the language of the passages, each with the numbers of the passages that it is from; and a "
    "title of a few words. Say nothing that is not in the passages."
)
#: An example of a request and its answer, from which weak models learn the form of an answer.
_EXAMPLE_TEXTS = (
    "Ann Lee, born in Oslo, sings in the choir of Rome. She has two sons.",
    "The choir of Rome has forty singers. It was founded by Carl Berg.",
)
_EXAMPLE_ANSWER: Mapping[str, Any] = {
    "title": "The choir of Rome",
    "sentences": [
        {"sources": [1], "text": "Ann Lee, born in Oslo, sings in the choir of Rome."},
        {"sources": [2], "text": "The choir of Rome has forty singers and was founded by Carl Berg."},
    ],
}
_SHORT_TASK = (
    "You are shown numbered passages. For each, write one short sentence that says the most important thing in it, "
    "with its words and in its language. Say nothing that is not in the passages."
)
_SHORT_EXAMPLE = (
    (_EXAMPLE_TEXTS[0], "Ann Lee sings in the choir of Rome."),
    (_EXAMPLE_TEXTS[1], "The choir of Rome was founded by Carl Berg."),
    ("Oak Lake, which is fed by the Rill, froze in 1802.", "Oak Lake froze in 1802."),
)
#: The maximum bytes of the passages and the maximum characters of a sentence of a second attempt.
_MAX_SHORT_BYTES, _MAX_SHORT_SENTENCE_CHARS = 2000, 250
#: The maximum words and characters of a passage in its label: a weak model then writes about this passage.
_LABEL_WORDS, _MAX_LABEL_CHARS = 4, 40
#: The number of tokens around a source: its number and the delimiters.
_FRAME_TOKENS = 16
_ANSWER_TOKENS = 800


def build_topic_prompt(
    topics: Topics, topic_id: int, max_tokens: int | None = None
) -> StructuredPrompt[Mapping[str, Any]] | None:
    """Return the prompt for a topic's title and summary, or None if a source was deleted or no source fits.

    The sources have at most ``max_tokens`` tokens.
    """
    if not topics.has_prompt_texts(topic_id):
        return None
    texts = list(map(replace_quotes, topics.list_prompt_texts(topic_id)))
    if max_tokens is not None:
        total_sizes = accumulate(token_estimate(text) + _FRAME_TOKENS for text in texts)
        texts = texts[: sum(total_size <= max_tokens for total_size in total_sizes)]
    if not texts:
        return None
    quotation = Quotation(texts)
    sentence_schema = build_object_schema(
        sources=build_array_schema({"type": "integer", "minimum": 1, "maximum": len(texts)}, len(texts)),
        text=build_text_schema(_MAX_SENTENCE_CHARS, _MIN_SENTENCE_CHARS),
    )
    messages = [
        {"role": "system", "content": f"{_TASK} {quotation.rule}"},
        {"role": "user", "content": _number_texts(_EXAMPLE_TEXTS, quotation)},
        {"role": "assistant", "content": json.dumps(_EXAMPLE_ANSWER)},
        {"role": "user", "content": _number_texts(texts, quotation)},
    ]
    schema = build_object_schema(
        title=build_text_schema(_MAX_TITLE_CHARS),
        sentences=build_array_schema(sentence_schema, _MAX_SENTENCES),
    )
    return StructuredPrompt(
        name="topic",
        messages=messages,
        schema=schema,
        check=lambda answer: _check_answer(answer, texts, range(len(texts)), _TASK),
        answer_tokens=_ANSWER_TOKENS,
        build_second=partial(_build_short_prompt, topics.get(topic_id), texts),
    )


def _build_short_prompt(topic: Topic, texts: Sequence[str]) -> StructuredPrompt[Mapping[str, Any]]:
    """Return the prompt for one sentence about each of some texts of a topic."""
    selected = _select_summarized(topic, texts)
    selected_texts = [texts[index] for index in selected]
    quotation = Quotation(selected_texts)
    example_texts, example_sentences = zip(*_SHORT_EXAMPLE, strict=True)
    example = [
        {"passage": label, "text": sentence}
        for label, sentence in zip(_label_texts(example_texts), example_sentences, strict=True)
    ]
    messages = [
        {"role": "system", "content": f"{_SHORT_TASK} {quotation.rule}"},
        {"role": "user", "content": _number_texts(example_texts, quotation)},
        {"role": "assistant", "content": json.dumps({"sentences": example})},
        {"role": "user", "content": _number_texts(selected_texts, quotation)},
    ]
    # No sentence needs to be longer than its passage.
    max_chars = max(_MIN_SENTENCE_CHARS, min(_MAX_SHORT_SENTENCE_CHARS, max(map(len, selected_texts))))

    def build_schema(min_items: int, max_chars: int, label_schema: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the schema of at least ``min_items`` sentences of at most ``max_chars`` characters."""
        text_schema = build_text_schema(max_chars, _MIN_SENTENCE_CHARS)
        sentence_schema = build_object_schema(passage=label_schema, text=text_schema)
        return build_object_schema(sentences=build_array_schema(sentence_schema, len(selected), min_items))

    return StructuredPrompt(
        name="topic",
        messages=messages,
        schema=build_schema(1, _MAX_SENTENCE_CHARS, {"type": ["string", "integer"]}),
        check=lambda answer: _check_answer(answer, selected_texts, selected, _SHORT_TASK),
        answer_tokens=_ANSWER_TOKENS,
        # What a model is asked for is stricter than what is accepted.
        requested_schema=build_schema(
            len(selected), max_chars, {"type": "string", "enum": _label_texts(selected_texts)}
        ),
    )


def _select_summarized(topic: Topic, texts: Sequence[str]) -> list[int]:
    """Return the sorted indexes of the texts to ask about in a second attempt, at least one.

    They are the texts with sentences of the extractive summary. Those whose copy is no usable sentence, such as items
    of a list, are replaced by others. Together they have at most ``_MAX_SHORT_BYTES`` bytes.
    """
    summarized = dict.fromkeys(
        index
        for sentence in topic.summary
        for index, span in enumerate(topic.prompt_spans[: len(texts)])
        if span.document == sentence.document and span.start <= sentence.start and sentence.end <= span.end
    )
    num_selected = min(_MAX_SENTENCES, max(1, len(summarized)))
    candidates = list(dict.fromkeys((*summarized, *range(len(texts)))))  # those of the summary first
    candidates = [index for index in candidates if _is_usable_in_summary(texts[index])] or candidates
    total_sizes = accumulate(len(texts[index].encode()) for index in candidates[:num_selected])
    return sorted(candidates[: max(1, sum(total_size <= _MAX_SHORT_BYTES for total_size in total_sizes))])


def _is_usable_in_summary(text: str) -> bool:
    """True if a copy of a sentence of a text would be accepted as a sentence of a summary."""
    with suppress(ValueError):
        return bool(find_supported_sentences([text], SourcePassages([text]), name="a passage"))
    return False


def _label_texts(texts: Iterable[str]) -> list[str]:
    """Return the label of each passage, which the model repeats: its number and its first words."""
    first_words = (" ".join(text.split()[:_LABEL_WORDS])[:_MAX_LABEL_CHARS] for text in texts)
    return [f"{number}: {words}" for number, words in enumerate(first_words, 1)]


def _number_texts(texts: Iterable[str], quotation: Quotation) -> str:
    """Return the passages of a prompt, quoted and numbered."""
    return "\n\n".join(f"[{number}]\n{quotation.quote(text)}" for number, text in enumerate(texts, 1))


def _check_answer(answer: Any, texts: Sequence[str], indexes: Sequence[int], task: str) -> Mapping[str, Any]:
    """Return the summary, the title if the model wrote one, and the indexes of the summary's sources.

    ``indexes`` are those of the texts among the texts of the topic, and ``task`` is the instruction. Unusable
    sentences and an unusable title are dropped. If the sources that a sentence names do not support it, or if it names
    none, its source is the first text that does. Raises ValueError if no sentence is usable.
    """
    passages = SourcePassages(texts)
    entries = answer["sentences"]
    sentence_texts = [entry["text"] for entry in entries]
    sentences = find_supported_sentences(sentence_texts, passages, name="a sentence", prompt=task)
    named_positions = {source - 1 for entry in entries for source in entry.get("sources", ())}
    sources = {
        indexes[position]
        for supporting in sentences.values()  # the positions of the texts that support each sentence
        for position in named_positions.intersection(supporting) or supporting[:1]
    }
    value: dict[str, Any] = {"summary": " ".join(sentences), "sources": sorted(sources)}
    title = " ".join(answer.get("title", "").split())
    with suppress(ValueError):
        check_text(title, texts, name="the title", prompt=task, is_title=True)
        passages.check_title(title)
        value["title"] = title
    return value

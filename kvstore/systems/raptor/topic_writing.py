"""Prompts for the title and the summary of a topic (a group of chunks), and the check of a model's answer. The
*extractive summary* is the one selected from the texts without a model. The *retry prompt* is sent after an invalid
answer.

In: the texts that a topic is summarized from, and its extractive summary. Out: a prompt whose answer is a title and
sentences. Its retry prompt asks for less: one sentence about each passage that the extractive summary is from, so that
weak models, which write about the last of many passages only, have usable answers too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import accumulate
from typing import Any

from ...models.json_schema import build_array_schema, build_object_schema, build_text_schema
from ...models.quoting import Quotation, replace_quotes
from ...models.sentence_prompt import SENTENCE_TASK, build_sentence_prompt, format_numbered_texts, select_usable_indexes
from ...models.statement_support import SourcePassages
from ...models.structured import StructuredPrompt
from ...models.text_checks import check_text, find_supported_sentences
from ...models.token_estimate import token_estimate
from .topic_building import Topic
from .topics import Topics

#: The maximum number of characters of a title that a model writes, the minimum and maximum of a sentence, and the
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
#: The maximum size in bytes of the passages in a retry prompt.
_MAX_SHORT_BYTES = 2000
#: The number of tokens around a source: its number and the delimiters.
_FRAME_TOKENS = 16
_ANSWER_TOKENS = 800


def build_topic_prompt(
    topics: Topics, topic_id: int, max_tokens: int | None
) -> StructuredPrompt[Mapping[str, Any]] | None:
    """Return the prompt that asks a model for the title and the summary of a topic, as in RAPTOR (section 3).

    Returns None if a source was deleted or no source fits. The sources have at most ``max_tokens`` tokens (None: no
    limit).
    """
    if not topics.has_prompt_documents(topic_id):
        return None
    texts = list(map(replace_quotes, topics.list_prompt_texts(topic_id)))
    if max_tokens is not None:
        total_sizes = accumulate(token_estimate(text) + _FRAME_TOKENS for text in texts)
        num_fitting = len([size for size in total_sizes if size <= max_tokens])  # the sizes ascend
        texts = texts[:num_fitting]
    if not texts:
        return None
    quotation = Quotation(texts)
    messages = [
        {"role": "system", "content": f"{_TASK} {quotation.rule}"},
        {"role": "user", "content": format_numbered_texts(_EXAMPLE_TEXTS, quotation)},
        {"role": "assistant", "content": json.dumps(_EXAMPLE_ANSWER)},
        {"role": "user", "content": format_numbered_texts(texts, quotation)},
    ]
    return StructuredPrompt(
        name="topic",
        messages=messages,
        schema=_build_answer_schema(len(texts)),
        check=lambda answer: _convert_answer(answer, texts, range(len(texts)), _TASK),
        answer_tokens=_ANSWER_TOKENS,
        build_retry_prompt=partial(_build_retry_prompt, topics.get(topic_id), texts),
    )


def _build_answer_schema(num_texts: int) -> dict[str, Any]:
    """Return the JSON schema of a title and of sentences that cite texts by number, 1 to ``num_texts``."""
    source_schema = {"type": "integer", "minimum": 1, "maximum": num_texts}
    sentence_schema = build_object_schema(
        sources=build_array_schema(source_schema, num_texts),
        text=build_text_schema(_MAX_SENTENCE_CHARS, _MIN_SENTENCE_CHARS),
    )
    return build_object_schema(
        title=build_text_schema(_MAX_TITLE_CHARS), sentences=build_array_schema(sentence_schema, _MAX_SENTENCES)
    )


def _build_retry_prompt(topic: Topic, texts: Sequence[str]) -> StructuredPrompt[Mapping[str, Any]]:
    """Return the prompt used after an invalid answer: it asks for one sentence about each text of the summary.

    These are the texts from which the extractive summary (without a model) took sentences. ``texts`` are all texts of
    the topic that the first prompt showed.
    """
    indexes = _select_summarized_texts(topic, texts)
    selected_texts = [texts[index] for index in indexes]

    def convert_sentences(sentences: Sequence[str]) -> Mapping[str, Any]:
        """Return the summary made of the sentences about each text; raises ValueError without a usable sentence."""
        answer = {"sentences": [{"text": sentence} for sentence in sentences]}
        return _convert_answer(answer, selected_texts, indexes, SENTENCE_TASK)

    return build_sentence_prompt("topic", selected_texts, convert_sentences)


def _select_summarized_texts(topic: Topic, texts: Sequence[str]) -> list[int]:
    """Return the sorted indexes of the texts to ask a model about after an invalid answer, at least one.

    ``texts`` are the texts that the first prompt for a summary of the topic showed. The selected ones are the texts
    with sentences of the extractive summary. A text that cannot be copied as a sentence, such as a list item, is
    replaced by another text. If several texts are selected, they have at most ``_MAX_SHORT_BYTES`` bytes together.
    """
    summarized_indexes = dict.fromkeys(
        index
        for sentence in topic.summary
        for index, span in enumerate(topic.prompt_spans[: len(texts)])
        if span.document == sentence.document and span.start <= sentence.start and sentence.end <= span.end
    )
    num_selected = min(_MAX_SENTENCES, max(1, len(summarized_indexes)))
    candidates = list(dict.fromkeys((*summarized_indexes, *range(len(texts)))))  # the texts of the summary first
    candidates = select_usable_indexes(texts, candidates)
    total_sizes = accumulate(len(texts[index].encode()) for index in candidates[:num_selected])
    num_fitting = len([size for size in total_sizes if size <= _MAX_SHORT_BYTES])  # the sizes ascend
    return sorted(candidates[: max(1, num_fitting)])


def _convert_answer(answer: Any, texts: Sequence[str], indexes: Sequence[int], task: str) -> Mapping[str, Any]:
    """Return the usable ``summary`` and ``title`` in a model's answer, and ``sources``, the indexes of source texts.

    ``indexes`` has the index of each of the ``texts`` among all texts of the topic, and ``task`` is the instruction.
    Unusable sentences and an unusable title are dropped. The sources of a sentence are the texts that the answer cites
    and that support it. If there is no such text, its source is the first text that supports it. Raises ValueError if
    no sentence is usable.
    """
    passages = SourcePassages(texts)
    answer_sentences = answer["sentences"]
    sentence_texts = [sentence["text"] for sentence in answer_sentences]
    sentences = find_supported_sentences(sentence_texts, passages, name="a sentence", prompt=task)
    cited_positions = {source - 1 for sentence in answer_sentences for source in sentence.get("sources", ())}
    sources = {
        indexes[position]
        for supporting_positions in sentences.values()  # of the texts that support each sentence
        for position in cited_positions.intersection(supporting_positions) or supporting_positions[:1]
    }
    value: dict[str, Any] = {"summary": " ".join(sentences), "sources": sorted(sources)}
    title = " ".join(answer.get("title", "").split())
    with suppress(ValueError):
        check_text(title, texts, name="the title", prompt=task, is_title=True)
        passages.check_title(title)
        value["title"] = title
    return value

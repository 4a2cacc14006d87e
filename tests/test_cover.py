"""A cover: sentences of some chunks that together have most of what they are about."""

from __future__ import annotations

import kvstore
from kvstore.retrieval.cover import collect_cover_sentences, extract_question_words, select_cover
from kvstore.text.words import count_text_tokens

TEXT = """# Körpüls

The village of Körpüls lies on a river with two mills. The mills of the village grind rye. The mills of the village
grind rye and barley. A chapel stands above the vineyard.

| mill | rye |
|---|---|
| upper | 40 |

- The vineyard of the chapel gives white wine.
"""


def test_sentences_have_their_places_and_tables_and_headings_have_none(store: kvstore.Store) -> None:
    store.put("village", TEXT, format="markdown")
    with store.state() as state:
        sentences = collect_cover_sentences(state, list(state.documents.get(1).chunk_ids()))
        assert [sentence.text.split()[0] for sentence in sentences] == ["The", "The", "The", "A", "The"]
        for sentence in sentences:
            stored = TEXT.encode()[sentence.start : sentence.end].decode()
            assert " ".join(stored.split()) == sentence.text
            assert sentence.to_span(state).document == "village"


def test_covered_content_is_not_repeated_and_the_question_counts_double(store: kvstore.Store) -> None:
    store.put("village", TEXT, format="markdown")
    with store.state() as state:
        sentences = collect_cover_sentences(state, list(state.documents.get(1).chunk_ids()))
        selected_texts = [sentence.text for sentence in select_cover(sentences, 40)]
        assert not {"The mills of the village grind rye.", "The mills of the village grind rye and barley."} <= {
            *selected_texts
        }
        assert sum(map(count_text_tokens, selected_texts)) <= 40
        assert selected_texts == [sentence.text for sentence in sentences if sentence.text in selected_texts]
        assert "vineyard" not in select_cover(sentences, 8)[0].text
        assert (
            "vineyard"
            in select_cover(
                sentences, 8, question_words=extract_question_words("Where is the vineyard, and the chapel?")
            )[0].text
        )
        assert select_cover(sentences, 0) == [] and select_cover([], 100) == []

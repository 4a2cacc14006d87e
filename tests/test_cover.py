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
    with store.state() as view:
        found = collect_cover_sentences(view, list(view.documents.get(1).chunk_ids()))
        assert [sentence.text.split()[0] for sentence in found] == ["The", "The", "The", "A", "The"]
        for sentence in found:
            stored = TEXT.encode()[sentence.start : sentence.end].decode()
            assert " ".join(stored.split()) == sentence.text
            assert sentence.to_span(view).document == "village"


def test_covered_content_is_not_repeated_and_the_question_counts_double(store: kvstore.Store) -> None:
    store.put("village", TEXT, format="markdown")
    with store.state() as view:
        found = collect_cover_sentences(view, list(view.documents.get(1).chunk_ids()))
        taken = [sentence.text for sentence in select_cover(found, 40)]
        assert not {"The mills of the village grind rye.", "The mills of the village grind rye and barley."} <= {*taken}
        assert sum(map(count_text_tokens, taken)) <= 40
        assert taken == [sentence.text for sentence in found if sentence.text in taken]
        assert "vineyard" not in select_cover(found, 8)[0].text
        assert (
            "vineyard"
            in select_cover(found, 8, question_words=extract_question_words("Where is the vineyard, and the chapel?"))[
                0
            ].text
        )
        assert select_cover(found, 0) == [] and select_cover([], 100) == []
        assert len(select_cover(found, 100, max_per_document=1)) == 1

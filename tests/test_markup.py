"""Displays in notebooks: escaped, without scripts, without loss of text, and with the cited bytes marked."""

from __future__ import annotations

import doctest
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kvstore
from kvstore.rendering import markup
from kvstore.retrieval.relatives import Relative, Relatives, render_relatives
from kvstore.structures.indexes.generations import Outline

TAGS = frozenset("bdi blockquote b div em li mark ol p small table tbody td th thead tr ul".split())
HOSTILE = "</td><script>alert(1)</script><img src=x onerror='x'>\" & <!-- ]]> \u202e"
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\0")) | st.just(HOSTILE)


class Page(HTMLParser):
    """The text and the marked parts of some HTML; it refuses other elements and attributes than kvstore's."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""
        self.marked: list[str] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        assert tag in TAGS
        assert {name for name, _ in attributes} <= {"dir", "style", "value"}
        self.open.append(tag)
        self.marked += [""] if tag == "mark" else []

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data
        if "mark" in self.open:
            self.marked[-1] += data

    def handle_comment(self, data: str) -> None:
        raise AssertionError(data)


@given(TEXTS, st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)).map(sorted).map(tuple), max_size=4))
def test_marks_are_at_their_places(text: str, places: list[tuple[int, int]]) -> None:
    characters = [(min(start, len(text)), min(end, len(text))) for start, end in places]
    spans = [(len(text[:start].encode()), len(text[:end].encode())) for start, end in characters]
    page = Page(markup.mark_spans(text, spans))
    assert page.text == text
    covered = {at for start, end in characters for at in range(start, end)}
    assert "".join(page.marked) == "".join(text[at] for at in sorted(covered))


@given(st.lists(st.tuples(TEXTS, st.none() | st.integers() | st.floats() | st.binary() | TEXTS), max_size=5), TEXTS)
def test_a_table_shows_cells_without_markup(rows: list[tuple[Any, Any]], name: str) -> None:
    page = Page(markup.render_table((name, "b"), rows, remarks=[name]))
    assert all(name[: markup.MAX_CELL_CHARACTERS] in page.text for name in (name, *(text for text, _ in rows)))


@given(st.lists(st.tuples(st.integers(0, 5), TEXTS, TEXTS), max_size=12))
def test_an_outline_is_lists_in_lists(rows: list[tuple[int, str, str]]) -> None:
    page = Page(markup.render_outline(rows))
    assert all(name in page.text and note in page.text for _, name, note in rows)


def test_a_cyclic_or_deep_tree_is_drawn_once() -> None:
    assert doctest.testmod(markup).failed == 0
    turning = [("a", "t", 0, "a", "", ""), ("a", "t", 1, "b", "a", HOSTILE), ("a", "t", 1, "c", "a", "")]
    turning += [("a", "t", 2, "d", "b", ""), ("a", "t", 2, "d", "c", ""), ("a", "t", 3, "e", "d", "")]
    turning += [("a", "t", 0, "…", "", "cut at 6 rows; LIMIT n shows more")]
    page = Page(render_relatives(Relative(*row) for row in turning))
    assert page.text.startswith(f"a in tbelowb {HOSTILE}dec")  # relatives of d are shown at its first occurrence
    assert page.text.count("d", page.text.index("dec")) == 2
    assert "cut at 6 rows" in page.text
    deep = [("a", "t", level, f"n{level}", f"n{level - 1}", "") for level in range(1, 3000)]
    assert "n49" in Page(render_relatives(Relative(*row) for row in deep)).text
    assert Page(markup.render_outline((level, f"n{level}", "") for level in range(3000))).text.count("n") == 3000


@pytest.fixture
def store(make_store: Callable[..., kvstore.Store]) -> kvstore.Store:
    store = make_store()
    store.put("tea", f"Tea is made from leaves. Robert Fortune took it to India. {HOSTILE}", title=HOSTILE)
    store.put("coffee", "Coffee is brewed from roasted seeds.")
    store.put_edge("Darjeeling", "India", tree=HOSTILE)
    return store


def test_an_answer_marks_the_bytes_that_it_cites(store: kvstore.Store) -> None:
    answer = store.ask("What is tea made from?")
    cited = answer.citations[0]
    page = Page(answer._repr_html_())
    assert page.marked[0] == cited.text == "Tea is made from leaves."
    assert "Robert Fortune took it to India." in page.text  # the surrounding text
    assert HOSTILE in page.text
    assert f"bytes {cited.start} to {cited.end}" in page.text
    assert "tea" in Page(answer.evidence._repr_html_()).text
    nothing = store.ask("Who won the regatta?")
    assert nothing.text in Page(nothing._repr_html_()).text


def test_a_citation_of_more_than_a_hit_is_shown_by_itself(store: kvstore.Store) -> None:
    answer = store.ask("What is tea made from?")
    away = kvstore.Citation(1, "elsewhere", 0, 3, 9, "Seeds!")
    away_answer = kvstore.Answer("Of seeds. [1]", [away], False, "tiny", answer.evidence)
    page = Page(away_answer._repr_html_())
    assert page.marked == ["Seeds!"]
    assert "written by tiny" in page.text


def test_showing_a_cursor_takes_nothing_from_it(store: kvstore.Store) -> None:
    counting = "WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 3000) SELECT i FROM n"
    cursor = store.execute(counting)
    assert cursor.fetchone() == (1,)
    page = Page(cursor._repr_html_())
    assert page.text.endswith("495051the first 50 rows; there are more")
    assert cursor._repr_html_() == cursor._repr_html_()
    assert [i for (i,) in cursor] == list(range(2, 3001))
    few = store.execute("SELECT key, title FROM documents ORDER BY key")
    assert HOSTILE in Page(few._repr_html_()).text
    assert len(few.fetchall()) == 2
    assert Page(few._repr_html_()).text == "keytitle"
    assert Page(store.execute("DELETE DOCUMENT 'tea'")._repr_html_()).text == "1 document deleted"


def test_trees_are_drawn(store: kvstore.Store) -> None:
    relatives = store.expand("India")
    assert isinstance(relatives, Relatives)
    assert HOSTILE in Page(relatives._repr_html_()).text
    assert Page(store.execute("EXPAND 'India'")._repr_html_()).text == Page(relatives._repr_html_()).text
    store.create_index("topics")
    outline = store.outline("topics")
    assert isinstance(outline, Outline)
    assert Page(store.execute("EXPAND TOPICS")._repr_html_()).text == Page(outline._repr_html_()).text != ""

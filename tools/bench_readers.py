"""Measure how much of the text of a page the HTML reader keeps, and how much of the rest it leaves out. *Source* words
are those of the text that the page was made from; *other* words are those that a generator added, such as navigation.

    pip install docutils sphinx furo sphinx-rtd-theme mkdocs-material pdoc
    python tools/bench_readers.py --json

In: pages that real generators make from a small manual (``reader_pages/source.py``), and pages in the shapes of other
generators, written by hand around the same text (``reader_pages/written.py``). Generators that are not installed are
listed. The generators can be in another environment: ``--python PATH``. Out: a line per page: ``kept``, the share of
the words of the source that are in the document, and ``left_out``, the share of the page's other words that are not;
the number of words of each kind; with ``--json`` one object that also contains these words.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

from reader_pages.generated import Page, Unavailable, iter_pages
from reader_pages.source import split_tokens
from reader_pages.written import iter_pages as iter_written_pages
from selectolax.lexbor import LexborHTMLParser

from kvstore.readers import RawDocument, read_bytes

#: The targets of both shares for every page.
MIN_KEPT, MIN_LEFT_OUT = 0.995, 0.95
#: The elements (a CSS selector) whose text a browser does not show as text of the page.
_INVISIBLE_ELEMENTS = "script, style, noscript, template, title, svg, input, button, select, textarea, math annotation"


#: The elements that can be a part of a word.
_INLINE_TAGS = ("span", "b", "i", "em", "strong", "code")


@dataclass(frozen=True)
class PageMeasures:
    """The result for one page: counts and shares of words, the source words that were lost, and other words kept."""

    generator: str
    page: str
    source_words: int
    kept: float
    other_words: int
    left_out: float
    lost: dict[str, int]
    added: dict[str, int]


def measure_page(page: Page) -> PageMeasures:
    """Return how well the words of a page, as the HTML reader reads it, agree with those of the page's source."""
    (document,) = read_bytes(page.markup, f"{page.name}.html")
    assert isinstance(document, RawDocument)
    source_words, document_words, page_words = (
        Counter(page.words),
        Counter(split_tokens(_remove_markup(document.text))),
        _count_visible_words(page.markup),
    )
    # A generator shows some source words in a different form, such as a code language or a link target.
    source_words &= page_words
    other_words = page_words - source_words
    lost, added = source_words - document_words, (document_words - source_words) & other_words
    return PageMeasures(
        generator=page.generator,
        page=page.name,
        source_words=source_words.total(),
        kept=1 - lost.total() / max(1, source_words.total()),
        other_words=other_words.total(),
        left_out=1 - added.total() / other_words.total() if other_words else 1.0,
        lost=dict(lost),
        added=dict(added),
    )


def _remove_markup(text: str) -> str:
    """Return a text without the languages of code blocks and the numbers of ordered items.

    The words of the source do not contain them.
    """
    return re.sub(r"(?m)^\s*(?:`{3,}\w+|\d+\.)(?=\s)", "", text)


def _count_visible_words(markup: bytes) -> Counter[str]:
    """Count the visible words of a page, including navigation and alternative texts of images."""
    tree = LexborHTMLParser(markup)
    for node in tree.css(_INVISIBLE_ELEMENTS):
        node.decompose()
    assert tree.body is not None
    images = " ".join(node.attributes.get("alt") or "" for node in tree.body.css("img"))
    return Counter(split_tokens(f"{_extract_text(tree)} {images}"))


def _extract_text(tree: LexborHTMLParser) -> str:
    """Return the visible text of a tree, with a space at each element that cannot be a part of a word."""
    assert tree.body is not None
    pieces = []
    for node in tree.body.traverse(include_text=True):
        if node.tag == "-text":
            pieces.append(node.text_content or "")
        elif node.tag not in _INLINE_TAGS:
            pieces.append(" ")
    return "".join(pieces)


def main(arguments: list[str]) -> int:
    """Print the table; return the exit status, 1 if a page misses a target."""
    parser = argparse.ArgumentParser(description="What the HTML reader keeps and leaves out of pages.")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.add_argument("--python", default=sys.executable, help="the Python that the generators are installed for")
    parser.add_argument("--written", action="store_true", help="only the pages written by hand")
    options = parser.parse_args(arguments)
    pages, unavailable = list(iter_written_pages()), {}
    with tempfile.TemporaryDirectory() as folder:
        for name, pages_or_error in () if options.written else iter_pages(Path(folder), options.python):
            if isinstance(pages_or_error, Unavailable):
                unavailable[name] = str(pages_or_error)
            else:
                pages += pages_or_error
    measures = [measure_page(page) for page in pages]
    if options.json:
        print(json.dumps({"pages": [asdict(page) for page in measures], "missing": unavailable}, indent=1))
    else:
        print(f"{'generator':24} {'page':12} {'source':>7} {'kept':>8} {'other':>7} {'left out':>9}")
        for page in measures:
            source_counts = f"{page.source_words:7,} {page.kept:8.2%}"
            counts = f"{source_counts} {page.other_words:7,} {page.left_out:9.2%}"
            print(f"{page.generator:24} {page.page:12} {counts}")
        for name, reason in unavailable.items():
            print(f"{name}: not run: {reason}")
    return int(any(page.kept < MIN_KEPT or page.left_out < MIN_LEFT_OUT for page in measures))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

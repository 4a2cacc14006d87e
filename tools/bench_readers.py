"""Measure how much of the text of a page the HTML reader keeps, and how much of the rest it leaves out.

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

#: What is no text of a page, whoever reads it.
_NO_TEXT = "script, style, noscript, template, title, svg, input, button, select, textarea, math annotation"


@dataclass(frozen=True)
class Measured:
    """The result for one page: ``lost`` are missing words of its source, ``added`` are words that its source lacks."""

    generator: str
    page: str
    source_words: int
    kept: float
    other_words: int
    left_out: float
    lost: dict[str, int]
    added: dict[str, int]


def measure(page: Page) -> Measured:
    """Read a page with the HTML reader, and compare the words of its text with those of the page's source."""
    (document,) = read_bytes(page.markup, f"{page.name}.html")
    assert isinstance(document, RawDocument)
    source, stored, page_words = (
        Counter(page.words),
        Counter(split_tokens(_remove_markup(document.text))),
        _count_visible_words(page.markup),
    )
    source &= (
        page_words  # a generator shows some of its source in another form, such as a code language or a link target
    )
    other = page_words - source
    lost, added = source - stored, (stored - source) & other
    return Measured(
        page.generator,
        page.name,
        source.total(),
        1 - lost.total() / max(1, source.total()),
        other.total(),
        1 - added.total() / other.total() if other else 1.0,
        dict(lost),
        dict(added),
    )


def _remove_markup(text: str) -> str:
    """Return a text without languages of code blocks and numbers of ordered items, which its source lacks."""
    return re.sub(r"(?m)^\s*(?:`{3,}\w+|\d+\.)(?=\s)", "", text)


def _count_visible_words(markup: bytes) -> Counter[str]:
    """Count all visible words of a page, including navigation."""
    tree = LexborHTMLParser(markup)
    for node in tree.css(_NO_TEXT):
        node.decompose()
    assert tree.body is not None
    images = " ".join(node.attributes.get("alt") or "" for node in tree.body.css("img"))
    return Counter(split_tokens(f"{_extract_text(tree)} {images}"))


def _extract_text(tree: LexborHTMLParser) -> str:
    """Return the text of a tree, with a space at the end of each element that is not part of a word."""
    assert tree.body is not None
    pieces = []
    for node in tree.body.traverse(include_text=True):
        if node.tag == "-text":
            pieces.append(node.text_content or "")
        elif node.tag not in ("span", "b", "i", "em", "strong", "code"):
            pieces.append(" ")
    return "".join(pieces)


def main(arguments: list[str]) -> int:
    """Print the table; return 1 if a page misses the target."""
    parser = argparse.ArgumentParser(description="What the HTML reader keeps and leaves out of pages.")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.add_argument("--python", default=sys.executable, help="the Python that the generators are installed for")
    parser.add_argument("--written", action="store_true", help="only the pages written by hand")
    asked = parser.parse_args(arguments)
    pages, missing = list(iter_written_pages()), {}
    with tempfile.TemporaryDirectory() as folder:
        for name, html_parts in () if asked.written else iter_pages(Path(folder), asked.python):
            if isinstance(html_parts, Unavailable):
                missing[name] = str(html_parts)
            else:
                pages += html_parts
    measured = [measure(page) for page in pages]
    if asked.json:
        print(
            json.dumps({"pages": [asdict(page_measures) for page_measures in measured], "missing": missing}, indent=1)
        )
    else:
        print(f"{'generator':24} {'page':12} {'source':>7} {'kept':>8} {'other':>7} {'left out':>9}")
        for page_measures in measured:
            source_counts = f"{page_measures.source_words:7,} {page_measures.kept:8.2%}"
            counts = f"{source_counts} {page_measures.other_words:7,} {page_measures.left_out:9.2%}"
            print(f"{page_measures.generator:24} {page_measures.page:12} {counts}")
        for name, reason in missing.items():
            print(f"{name}: not run: {reason}")
    return int(any(page_measures.kept < 0.995 or page_measures.left_out < 0.95 for page_measures in measured))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

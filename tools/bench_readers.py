"""Measure what the HTML reader keeps of a page's text and what it leaves out, page by page.

    pip install docutils sphinx furo sphinx-rtd-theme mkdocs-material pdoc
    python tools/bench_readers.py --json

In: pages that the real generators make from a manual of our own (``reader_pages/source.py``), and pages of other
generators' shapes written by hand around the same text (``reader_pages/written.py``); a generator that is not installed
is named. The generators may be in another environment: ``--python PATH``. Out: a line a page: ``kept``, the share of
the words of its source that the document has (each as often), and ``left_out``, the share of the page's other words
that it has not; how many words of each kind there are; with ``--json`` one object, with the words in question.
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

from reader_pages.generated import Page, Unavailable, pages
from reader_pages.source import tokens
from reader_pages.written import written
from selectolax.lexbor import LexborHTMLParser

from kvstore.readers import RawDocument, read_bytes

#: What is no text of a page, whoever reads it.
_NO_TEXT = "script, style, noscript, template, title, svg, input, button, select, textarea, math annotation"


@dataclass(frozen=True)
class Measured:
    """What became of one page; ``lost`` are words of its source that are missing, ``added`` others that are there."""

    generator: str
    page: str
    source_words: int
    kept: float
    other_words: int
    left_out: float
    lost: dict[str, int]
    added: dict[str, int]


def measure(page: Page) -> Measured:
    """Read a page and compare."""
    (document,) = read_bytes(page.markup, f"{page.name}.html")
    assert isinstance(document, RawDocument)
    source, stored, shown = Counter(page.words), Counter(tokens(_unmarked(document.text))), _shown(page.markup)
    source &= shown  # a generator shows some of its source in another form, such as a code language or a link target
    other = shown - source
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


def _unmarked(text: str) -> str:
    """A text without the languages of its code blocks and the numbers of ordered items, which its source has not."""
    return re.sub(r"(?m)^\s*(?:`{3,}\w+|\d+\.)(?=\s)", "", text)


def _shown(markup: bytes) -> Counter[str]:
    """All words of a page, as a reader would see them who takes everything for text."""
    tree = LexborHTMLParser(markup)
    for node in tree.css(_NO_TEXT):
        node.decompose()
    assert tree.body is not None
    images = " ".join(node.attributes.get("alt") or "" for node in tree.body.css("img"))
    return Counter(tokens(f"{_spaced(tree)} {images}"))


def _spaced(tree: LexborHTMLParser) -> str:
    """The text, with a space where an element ends that is no part of a word."""
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
    found, missing = list(written()), {}
    with tempfile.TemporaryDirectory() as folder:
        for name, made in () if asked.written else pages(Path(folder), asked.python):
            if isinstance(made, Unavailable):
                missing[name] = str(made)
            else:
                found += made
    measured = [measure(page) for page in found]
    if asked.json:
        print(json.dumps({"pages": [asdict(one) for one in measured], "missing": missing}, indent=1))
    else:
        print(f"{'generator':24} {'page':12} {'source':>7} {'kept':>8} {'other':>7} {'left out':>9}")
        for one in measured:
            counts = f"{one.source_words:7,} {one.kept:8.2%} {one.other_words:7,} {one.left_out:9.2%}"
            print(f"{one.generator:24} {one.page:12} {counts}")
        for name, reason in missing.items():
            print(f"{name}: not run: {reason}")
    return int(any(one.kept < 0.995 or one.left_out < 0.95 for one in measured))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

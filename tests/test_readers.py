"""Readers: what each format becomes, and what every kind of bad input gets."""

from __future__ import annotations

import codecs
import csv
import html
import io
import json
import re
import sys
import tarfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from document_producers import (
    WML,
    make_relations,
    make_word_document,
    make_word_paragraph,
    make_word_runs,
    pack_zip,
    unpack_zip,
)
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from kvstore import Store
from kvstore.errors import InputError, ReaderError
from kvstore.ingest.sources import find_sources
from kvstore.readers import FORMATS, RawDocument, ReadFailure, SkippedPart, get_trusted_size, read, read_bytes
from kvstore.sample import QUESTIONS, UPDATE, folder, hierarchy

MANUAL = Path(__file__).parents[2] / "shared" / "data" / "docs" / "postgresql-15-html.tar.xz"


def read_one(data: bytes | str, key: str, format: str | None = None, /, **options: object) -> RawDocument:
    (document,) = read_bytes(data.encode() if isinstance(data, str) else data, key, format, options)
    assert isinstance(document, RawDocument)
    return document


def read_rows(
    data: bytes | str, key: str, format: str | None = None, /, **options: object
) -> list[RawDocument | ReadFailure]:
    return list(read_bytes(data.encode() if isinstance(data, str) else data, key, format, options))


def read_refused(data: bytes | str, key: str, format: str | None = None, /, **options: object) -> str:
    with pytest.raises(ReaderError) as caught:
        read_rows(data, key, format, **options)
    message = str(caught.value)
    assert key in message
    return message


# --- text ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mark", "encoding"),
    [
        (b"", "utf-8"),
        (codecs.BOM_UTF8, "utf-8"),
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
        (codecs.BOM_UTF32_LE, "utf-32-le"),
        (codecs.BOM_UTF32_BE, "utf-32-be"),
    ],
)
@pytest.mark.parametrize(
    ("key", "content", "text"),
    [
        ("a.txt", "Grüße, 東京\n", "Grüße, 東京\n"),
        ("a.md", "# Grüße\n", "# Grüße\n"),
        ("a.html", "<p>Grüße", "Grüße\n"),
        ("a.csv", "text\nGrüße\n", "Grüße"),
        ("a.jsonl", '{"text": "Grüße"}\n', "Grüße"),
    ],
)
def test_byte_order_marks_decide_the_encoding(mark: bytes, encoding: str, key: str, content: str, text: str) -> None:
    assert read_one(mark + content.encode(encoding), key).text == text


def test_line_ends_page_breaks_and_terminal_sequences() -> None:
    document = read_one("one\r\ntwo\rthree\fnext\x1b[31mred\x1b[0m b\bbold\x07", "a.log")
    assert document == RawDocument("a.log", None, "one\ntwo\nthree\n\nnextred bold", {}, "text")


@pytest.mark.slow
@pytest.mark.parametrize("key", ["a.txt", "a.md", "a.html", "a.csv"])
def test_invalid_utf8_names_the_byte_its_offset_and_the_remedy(key: str) -> None:
    data = b"text\n" * 400_000 + b"caf\xe9 au lait"
    message = read_refused(data, key)
    assert "0xE9" in message
    assert "offset 2000003 " in message
    assert "save it as UTF-8" in message and "WITH (encoding = 'cp1252')" in message
    assert "options={'encoding': 'cp1252'} in Python" in message
    *_, last = read_rows(data, key, encoding="latin-1")
    assert isinstance(last, RawDocument)
    assert "café" in last.text[-20:]


@pytest.mark.parametrize("key", ["a.csv", "a.jsonl"])
def test_an_encoding_that_does_not_fit_is_named(key: str) -> None:
    assert "is not valid UTF-16" in read_refused(codecs.BOM_UTF16_LE + "text\nx".encode("utf-16-le") + b"\n", key)


@pytest.mark.parametrize("key", ["a.txt", "a.md", "a.html", "a.csv", "a.jsonl"])
def test_nul_means_binary(key: str) -> None:
    assert "binary" in read_refused(b"text\0more\n", key)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("data", [b"", b" \n\t\n", codecs.BOM_UTF8])
def test_an_empty_file_is_passed_over(format: str, data: bytes) -> None:
    assert list(read_bytes(data, "nothing", format)) == [SkippedPart("nothing", "empty")]


def test_unknown_suffixes_are_sniffed() -> None:
    assert read_one("plain", "README").format == "text"
    assert read_one("plain".encode("utf-16"), "a.dat").text == "plain"
    message = read_refused(b"\x7fELF\0\0", "program")
    assert "convert it, or specify its format with AS (on the command line: --as)" in message
    assert read_one("# Not a heading", "a.md", "text").format == "text"


def test_wrong_formats_and_options_suggest_the_nearest() -> None:
    with pytest.raises(InputError, match="did you mean markdown"):
        read_bytes(b"x", "a", "markdwon")
    with pytest.raises(InputError, match="did you mean delimiter"):
        read_bytes(b"x", "a.csv", None, {"delimeter": ";"})
    with pytest.raises(InputError, match="no encoding 'latin-x'"):
        read_bytes(b"x", "a.txt", None, {"encoding": "latin-x"})
    with pytest.raises(InputError, match="no encoding 'rot13'"):
        read_bytes(b"x", "a.txt", None, {"encoding": "rot13"})
    with pytest.raises(InputError, match="one character"):
        read_bytes(b"x", "a.csv", None, {"delimiter": "ab"})
    with pytest.raises(InputError, match="must be a string"):
        read_bytes(b"x", "a.csv", None, {"text": 5})


def test_files_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(ReaderError, match=r"absent\.txt: cannot be read"):
        list(read(tmp_path / "absent.txt", "absent.txt"))
    with pytest.raises(ReaderError, match="cannot be read"):
        list(read(tmp_path, "folder"))


def test_a_file_and_its_bytes_read_alike(tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    path.write_text("# T\n\nx\n")
    assert list(read(path, "k.md")) == read_rows("# T\n\nx\n", "k.md")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("key", "before", "after"), [("a.txt", "", ""), ("a.jsonl", '{"text": "', '"}'), ("a.csv", "text\n", "")]
)
def test_a_line_of_100_megabytes_is_a_document(key: str, before: str, after: str) -> None:
    text = "word " * 20_000_000
    assert read_one(before + text + after, key).text.rstrip() == text.rstrip()


# --- Markdown --------------------------------------------------------------------------------------------------------


def test_front_matter_becomes_metadata() -> None:
    document = read_one(
        "---\ntitle: \"The: Title\"\nyear: 2024\nratio: 0.5\ndraft: false\nnone: ~\ntags: [a, 'b, c', 3, it's]\n"
        "names: [\n  a,\n  b,\n]\nauthors:\n  - Ada\n  - Grace\n# a comment\n"
        "abstract: >\n  two\n  lines\nzip: 01234\nurl: http://x/y\n---\n\nBody\n",
        "a.md",
    )
    assert document.title == "The: Title"
    assert document.text == "two\nlines\n\nBody\n"
    assert document.meta == {
        "title": "The: Title",
        "year": 2024,
        "ratio": 0.5,
        "draft": False,
        "none": None,
        "tags": ["a", "b, c", 3, "it's"],
        "names": ["a", "b"],
        "authors": ["Ada", "Grace"],
        "abstract": "two\nlines",
        "zip": "01234",
        "url": "http://x/y",
    }


@pytest.mark.parametrize(
    ("front_matter", "body", "text"),
    [
        ("description: Ends a lease.", "# Lease\n\nMore.\n", "# Lease\n\nEnds a lease.\n\nMore.\n"),
        ("summary: Ends a lease.", "Lease\n=====\nMore.\n", "Lease\n=====\n\nEnds a lease.\n\nMore.\n"),
        ("Description: 'Ends a lease.'", "## Part\n", "Ends a lease.\n\n## Part\n"),
        ("description: Ends a lease.", "", "Ends a lease."),
        ("description: '# 1'\nsummary: Ends a lease.", "x\n", "\\# 1\n\nEnds a lease.\n\nx\n"),
        # What the text says itself is not said twice, nor what is no sentence.
        ("description: Ends a lease.\nsummary: Ends a lease.", "It\nEnds  a\nlease.\n", "It\nEnds  a\nlease.\n"),
        ("description: [a, b]\nsummary: 4\nabstract:", "x\n", "x\n"),
    ],
)
def test_the_description_in_front_matter_is_the_first_paragraph(front_matter: str, body: str, text: str) -> None:
    assert read_one(f"---\n{front_matter}\n---\n\n{body}", "a.md").text == text


def test_a_page_is_found_by_its_front_matter(tmp_path: Path, make_store: Callable[..., Store]) -> None:
    (tmp_path / "lease.md").write_text("---\ndescription: How a tenancy is terminated.\n---\n# Lease\n\nGive notice.\n")
    (tmp_path / "other.md").write_text("# Other\n\nNothing of the kind.\n")
    with make_store() as store:
        store.ingest(tmp_path)
        (hit, *_) = store.retrieve("terminated tenancy", using="lexical").hits
        assert hit.document == "lease.md"
        text = store.get("lease.md").text.encode()
        assert text[hit.start : hit.end].decode() == hit.text
        assert "How a tenancy is terminated." in hit.text


@pytest.mark.parametrize(
    "text", ["---\nProse with no field.\n---\nmore\n", "---\na: b\nnever closed\n", "x\n---\na: b\n---\n"]
)
def test_invalid_front_matter_stays_in_the_text(text: str) -> None:
    document = read_one(text, "a.md")
    assert (document.text, document.meta) == (text, {})


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("intro\n\n# First #\n\n# Second\n", "First"),
        ("# C#\n", "C#"),
        ("```\n# not\n```\n\nTitle\n=====\n", "Title"),
        ("````\n```\n# not\n````\n# Yes\n", "Yes"),
        ("## Only second level\n", None),
        ("#hashtag\n", None),
        ("#\n\ntext", None),
    ],
)
def test_markdown_titles(text: str, title: str | None) -> None:
    document = read_one(text, "a.md")
    assert (document.title, document.text, document.format) == (title, text, "markdown")


# --- HTML ------------------------------------------------------------------------------------------------------------


def convert_to_markdown(body: str) -> str:
    return read_one(f"<!DOCTYPE html><title>t</title><body>{body}", "a.html").text.rstrip("\n")


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("<h1>A</h1><p>b\n c&nbsp;d<br>e</p><h3>F</h3>g", "# A\n\nb c d\ne\n\n### F\n\ng"),
        ("<p>a <b>b</b> <em> c </em>d <i><code>x</code></i>", "a *b* *c* d `x`"),
        ("<p>see <a href='u'>the <code>page</code></a>.", "see the `page`."),
        (
            "<p><a href='mailto:a%40x.org?subject=b'>Ada </a>, <b><a href='MAILTO:b@x.org'>Bo</a></b>, "
            "<a href=tel:+4419>us</a>.",
            "Ada (a@x.org), *Bo (b@x.org)*, us (+4419).",
        ),
        (
            "<p><a href='mailto:a@x.org'>a@x.org</a> <a href='mailto:list@x.org'>b at x.org</a> "
            "<a href='mailto:%00@x.org'>d</a> <a href='mailto:a@x.org%0A%0A1.'>e</a> "
            "<a href='mailto:?body=c'>c</a> <a href='tel:+441904555011'>01904 555011</a>",
            "a@x.org b at x.org d e c 01904 555011",
        ),
        (
            "<p><a href='mailto:a@x.org'><img alt='Mail'></a><h2>Call <a href=tel:1904>Bo</a></h2>x",
            "Mail (a@x.org)\n\n## Call Bo (1904)\n\nx",
        ),
        ("<p><code>a`b</code> <code>c</code><code>()</code> <code>d</code><code>e</code>", "``a`b`` `c()` `d` `e`"),
        ("<ul><li>a<li>b<ul><li>c</ul></ul>", "- a\n- b\n  - c"),
        ("<ol start=3><li>a<li><p>b<p>c</ol>", "3. a\n\n4. b\n\n   c"),
        ("<p>Pay <s>half</s> <del>now</del><ins>later</ins>.", "Pay ~~half now~~later."),
        ("<del><p>Gone</p></del><p>Here", "Gone\n\nHere"),
        ("<ol><li>a<li value=7>b<li>c</ol>", "1. a\n7. b\n8. c"),
        ("<ol reversed><li>a<li>b<ol><li>c</ol></ol>", "2. a\n1. b\n   1. c"),
        ("<ol><li>1. a<li><p>2. b<li>2. c<li>40 d</ol>", "1. a\n2. b\n3. 2\\. c\n4. 40 d"),  # typed numbers
        ("<ol type=a><li>a. a<li>(b) b</ol>", "- a. a\n- b. (b) b"),
        ("<ol reversed start=2><li>a<li value=1>b<li>c<li>d</ol>", "2. a\n1. b\n0. c\n- d"),
        ("<ol type=a><li>x<li>y<ol style='list-style: upper-roman'><li>z</ol></ol>", "- a. x\n- b. y\n  - I. z"),
        ("<dl><dt>a<dt>b<dd>c<dd>d<dt>e</dl>", "- a, b: c\n\n  d\n\n- e"),
        ("<ul><li>a<pre>x\n\n y</pre></ul>", "- a\n\n  ```\n  x\n\n   y\n  ```"),
        ("<pre class='language-sql'>\nSELECT 1;<br>```</pre>", "````sql\nSELECT 1;\n```\n````"),
        ("<blockquote><p>a<p>b</blockquote>", "> a\n>\n> b"),
        (
            "<table><caption>C</caption><tr><th>a<th>b<tr><td>1|2<td>x<p>y</table>",
            "C\n\n| a | b |\n| --- | --- |\n| 1\\|2 | x; y |",
        ),
        ("<table><tr><td>a<tr><td>b</table>", "- a\n- b"),
        (
            "<table><tr><th>h<th>i<th>j<tr><td rowspan=2 colspan=2>a<td>1<tr><td>2</table>",
            "| h | i | j |\n| --- | --- | --- |\n| a |  | 1 |\n| a |  | 2 |",
        ),
        (
            "<table><tr><th>h<th>i<tr><td rowspan=2>a<td>1<tr><td>2</table>",
            "| h | i |\n| --- | --- |\n| a | 1 |\n| a | 2 |",
        ),
        (
            "<table><tr><td colspan=2>a<td>b<tr><td>1<td>2<td>3</table>",
            "|  |  |  |\n| --- | --- | --- |\n| a |  | b |\n| 1 | 2 | 3 |",
        ),
        (
            "<table><tr><th colspan=2>Pump<tr><th>Year<td>1850<tr><th>Inventor<td>Tom Berg</table>",
            "Pump\n\n|  |  |\n| --- | --- |\n| Year | 1850 |\n| Inventor | Tom Berg |",
        ),
        (
            "<table><tr><th colspan=2>2024<tr><th>Quarter<th>Sales<tr><td>1<td>5</table>",
            "2024\n\n| Quarter | Sales |\n| --- | --- |\n| 1 | 5 |",
        ),
        (
            "<table><tr><th rowspan=2>Loan<th colspan=2>Fee<tr><th>small<th>full<tr><td>Harp<td>1<td>2</table>",
            "| Loan | Fee / small | Fee / full |\n| --- | --- | --- |\n| Harp | 1 | 2 |",
        ),
        (
            "<table><thead><tr><td>Loan<td colspan=2>Fee</thead><tr><td>Harp<td colspan=2>1</table>",
            "| Loan | Fee | Fee |\n| --- | --- | --- |\n| Harp | 1 |  |",
        ),
        (
            "<table><tr><th>a<th>b<tr><th colspan=2>c<tr><td>1<td>2</table>",
            "| a / c | b |\n| --- | --- |\n| 1 | 2 |",
        ),
        ("<table><tr><td><h2>Layout</h2><p>text<td>side</table>", "## Layout\n\ntext\n\nside"),
        ("<div class=note><h3>Note</h3><p>Mind.</div><p>After", "Note: Mind.\n\nAfter"),
        ("<p>10<sup>6</sup> m<sup>2</sup> H<sub>2</sub>O x<sup><a>1</a></sup> 1<sup>st</sup>", "10^6 m^2 H2O x[1] 1st"),
        ("<p>soft&shy;ly &lt;b&gt; &amp;amp;", "softly <b> &amp;"),
        (
            "<p># a<p>- b<p>1. c<p>```<p>&lt;div&gt;<p>d<br>---",
            "\\# a\n\n\\- b\n\n1\\. c\n\n\\```\n\n\\<div>\n\nd\n\\---",
        ),
        ("<h2>5.4.5. Foreign Keys <a href='#x'>#</a></h2>x", "## 5.4.5. Foreign Keys\n\nx"),
        ("<h2>Chapter&nbsp;5.&nbsp;Data Definition</h2>x", "## Chapter 5. Data Definition\n\nx"),
        (
            "<h2>Appendix L. Acronyms</h2><h3>E.1. Release 15.20</h3>x",
            "## Appendix L. Acronyms\n\n### E.1. Release 15.20\n\nx",
        ),
        ("<h2>3.5 mm plugs</h2><h2>C#</h2><h2>E. coli</h2>x", "## 3.5 mm plugs\n\n## C#\n\n## E. coli\n\nx"),
    ],
)
def test_html_becomes_markdown(body: str, text: str) -> None:
    assert convert_to_markdown(body) == text


@pytest.mark.parametrize(
    "navigation",
    [
        "<nav>drop</nav>",
        "<header>drop</header>",
        "<footer>drop</footer>",
        "<aside>drop</aside>",
        "<div class='navheader'><table><tr><td>drop</table></div>",
        "<div role=navigation>drop</div>",
        "<ul class='breadcrumb x'><li>drop</ul>",
        "<div id=sidebar>drop</div>",
        "<div class=toc><dl><dt>drop</dl></div>",
        "<p><a href=a>drop</a><a href=b>Download</a></p>",
        "<form><label><input value=drop></label><button>drop</button><select><option>drop</select></form>",
        "<script>drop</script><style>drop</style><noscript>drop</noscript><template>drop</template>",
        "<p hidden>drop</p><i aria-hidden=true>drop</i><p style='display: none'>drop</p>",
        "<a class=skip-link href=#m>drop</a>",
        "<!-- drop -->",
    ],
)
def test_navigation_is_dropped(navigation: str) -> None:
    assert (
        convert_to_markdown(f"{navigation}<article><header><h1>Kept</h1></header><p>text</p></article>{navigation}")
        == "# Kept\n\ntext"
    )


def test_a_page_of_contents_keeps_its_list() -> None:
    body = "<div class=navheader><a href=p>Prev</a> <a href=n>Next</a></div><h2>Part I. Start</h2><div class=toc>"
    body += "<p><b>Table of Contents</b></p><dl><dt><a href=1>1. One</a></dt><dd><dl><dt><a href=11>1.1. Inner</a></dt>"
    body += "</dl></dd><dt><a href=2>2. Two</a></dt></dl></div>"
    assert convert_to_markdown(body) == "## Part I. Start\n\n- One\n  - Inner\n- Two"
    assert convert_to_markdown("<nav><ul><li>only this</ul></nav>") == "- only this"
    assert convert_to_markdown("<div class='sidebar'><h1>Whole page</h1><p>inside</div>") == "# Whole page\n\ninside"


PROSE = "The lamp is trimmed at noon, when nobody needs its light, and lit an hour before the sun goes down."


@pytest.mark.parametrize(
    "box",
    [
        "<aside>{}</aside>",
        "<aside class=sidebar><p class=sidebar-title>Oil</p><p>{}</p></aside>",
        "<div class=sidebar><p>{}</p></div>",
        "<div class=menu><p>{}</p></div>",
        "<aside class='topic nav'><p>{}</p></aside>",
        "<aside class='footnote' role=doc-footnote><a role=doc-backlink href=#a>1</a><p>{}</p></aside>",
        "<div class='navigation'><p>{}</p></div>",
        "<section id=navigation><h2>Navigation</h2><p>{}</p></section>",
        "<details><summary>More</summary>{}</details>",
        "<div role=tabpanel hidden>{}</div>",
        "<p>Press <a href=n>Next</a>, or go <a href=t>back to top</a>. {}</p>",
        "<ul><li><a href=a>{}</a></li><li><a href=b>Painting</a></li></ul>",
        "<p><a href=a>{}</a></p>",
    ],
)
def test_elements_in_the_content_are_kept_regardless_of_their_class(box: str) -> None:
    page = "<nav><a href=/>Home</a></nav><main><h1>Lamps</h1><p>{prose}</p>{box}<p>{prose}</p></main>"
    text = convert_to_markdown(page.format(box=box.format(PROSE), prose="Something else stands around it. " * 5))
    assert PROSE in text
    assert "Home" not in text
    # Nor does it need landmarks around it.
    assert PROSE in convert_to_markdown(
        f"<h1>Lamps</h1><p>{'Something else stands around it. ' * 5}</p>{box.format(PROSE)}"
    )


@pytest.mark.parametrize(
    "part",
    [
        "<p>It has two parts:</p><ul><li><a href=#w>Wicks</a></li><li><a href=#o>Oil</a></li></ul>",
        "<div class=line><a href=#home>home()</a></div>",
        "<p>Both <a href=#n>next()</a> and <a href=#l>last()</a> changed with it.</p>",
        "<h4>fn <a href=#next>next</a>(lamp)</h4>",
        "<ul><li><p><a href=#s>Source</a> (mandatory)</p></li></ul>",
        "<table class=related><tr><th>Related lamps<tr><td><a href=a>North</a><tr><td><a href=b>South</a></table>",
        "<aside class=topic><p><a href=a>group</a> <a href=b>chain</a> <a href=c>chord</a></p></aside>",
        "<div class=sect1><h2>See also</h2><p><a href=a>lampd</a>, <a href=b>wickd</a></p></div>",
    ],
)
def test_links_that_are_content_are_kept(part: str) -> None:
    page = f"<h1>Lamps</h1><div class=sect1><p>{PROSE * 9}</p></div>{{}}<h2>Wicks</h2><p>{PROSE}</p><h2>Oil</h2>{PROSE}"
    words = re.findall(r"\w+", re.sub(r"<[^>]*>", " ", part))
    for around in ("{}", "<div>{}</div>", "<main>{}</main>", "<body><nav><a href=/>Start</a></nav><div>{}</div>"):
        words_of_page = re.findall(r"\w+", convert_to_markdown(around.format(page.format(part))))
        assert not Counter(words) - Counter(words_of_page)


def test_a_blog_keeps_its_title_and_its_author_and_not_its_lists() -> None:
    by = "<p>By <a href=/a>Ada North</a> on <a href=/d>3 May 1901</a></p>"
    head = f"<header class=entry-header><h1>Lamps</h1>{by}</header>"
    foot = "<footer class=entry-footer>Filed under: <a href=/c>Weather</a></footer>"
    about = f"<section><h2>About</h2><p>{PROSE} {PROSE}</p></section>"
    recent = "<section><h2>Recent</h2><ul><li><a href=/1>Paint</a><li><a href=/2>Ropes</a></ul></section>"
    aside = f"<aside>{about}{recent}</aside>"
    crumbs = "<div class=breadcrumb>Home » Blog » Lamps</div>"
    page = f"<main><article>{crumbs}{head}<p>{PROSE}</p>{foot}</article></main>{aside}"
    assert (
        convert_to_markdown(page) == f"# Lamps\n\nBy Ada North on 3 May 1901\n\n{PROSE}\n\n## About\n\n{PROSE} {PROSE}"
    )


def test_a_line_about_changes_is_not_fine_print() -> None:
    name = "<h2>Name</h2><div class=body>lampblame - Show who last modified each lamp, with its copyright</div>"
    fine = "<div>Copyright 1901 The keepers. All rights reserved.</div>"
    text = convert_to_markdown(
        f"<div id=head><h1>lampblame(1)</h1>{name}</div><div id=content><p>{PROSE * 4}</p></div>{fine}"
    )
    assert "Show who last modified" in text
    assert "rights" not in text


def test_a_title_outside_the_content_is_kept() -> None:
    header = "<div class=header><p><a href=a>Files</a> <a href=b>Classes</a></p><div class=title>{}</div></div>"
    body = f"<div id=top><a href=/>Site</a></div>{header}<div class=contents><p>{PROSE}</p></div>"
    page = f"<title>Site: Getting started</title>{body.format('Getting started')}"
    assert read_one(page, "a.html").text == f"Getting started\n\n{PROSE}\n"


@pytest.mark.parametrize(
    ("inline", "text"),
    [
        ("<p>See <a href=p>Prev</a><a href=d>Download</a> for it, as all do who keep a lamp.", "Prev Download for"),
        ("<p>By <span>Ada North</span><span>Second keeper</span>.", "By Ada North Second keeper."),
        ("<p>By <cite>Ada</cite><time>1901</time>", "By Ada 1901"),
        ("<p>a<b>b</b>c <span>d</span><span>e</span> <code>f</code><code>()</code>", "abc de `f()`"),
        ("<p>one<img alt=two>three", "one two three"),
        ("<figure><a><img alt='A  boat'></a><figcaption>a boat in ice</figcaption></figure>", "a boat in ice"),
        ("<figure><img alt='A boat'><figcaption>ice</figcaption></figure>", "![A boat]()\n\nice"),
        ("<p><b><img alt=one></b> <a><img alt='two [2]'></a><p>so", "![one]()\n\n![two (2)]()\n\nso"),
        ("<table><tr><th>h<th>i<tr><td>a<td><img alt=yes></table>", "| h | i |\n| --- | --- |\n| a | yes |"),
        (
            "<dl><dt><img alt=term><dd><img alt=definition></dl><h2><img alt=title></h2><img alt='\u200b'>so",
            "- term: ![definition]()\n\n## title\n\nso",
        ),
        ("<table><tr><th>h<th>i<tr><td>a<td><ul><li><img alt=yes></ul></table>", "| --- | --- |\n| a | yes |"),
        ("<div class=note><h3>Note</h3><img alt=map></div><p>so", "Note:\n\n![map]()\n\nso"),
        ("<p><x-tab>First</x-tab><x-tab>second</x-tab>", "First second"),
        ("<dl><dt>wick<span class=classifier>cotton</span><dd>Draws oil.</dl>", "- wick cotton: Draws oil."),
    ],
)
def test_inline_elements_are_not_glued_together(inline: str, text: str) -> None:
    assert text in convert_to_markdown(inline)


def test_white_space_of_every_kind_is_one_space() -> None:
    spaces = [chr(code) for code in range(sys.maxunicode + 1) if chr(code).isspace() and chr(code) not in "\x0c\r"]
    for space in (*spaces, "  ", "\n \u2003"):
        reference = "".join(f"&#{ord(character)};" if ord(character) > 0x9F else character for character in space)
        assert convert_to_markdown(f"<p>one{reference}two{reference}<b>three</b> <code>a{reference}b</code></p>") == (
            "one two *three* `a b`"
        ), repr(space)


@pytest.mark.parametrize("element", ["script src='x'", "A id=here", "title", "textarea", "span class='a/b'"])
def test_self_closing_xhtml_tags_do_not_contain_the_rest(element: str) -> None:
    page = "<html xmlns='http://www.w3.org/1999/xhtml'><body><p>one<br/>{}<i>/></i> two<hr/></p></body></html>"
    assert convert_to_markdown(page.format(f"<{element}/>")) == convert_to_markdown(
        page.format(f"<{element}></{element.split()[0]}>")
    )
    assert "two" in convert_to_markdown(page.format(f"<{element}/>"))


def test_blocks_keep_their_structure() -> None:
    options = "<table class=option-list><tr><td colspan=2><kbd>--tower NAME</kbd><tr><td>&nbsp;<td>Only this one."
    assert convert_to_markdown(f"{options}<tr><td><kbd>-b</kbd><td>Briefly.</table>") == (
        "|  |  |\n| --- | --- |\n| `--tower NAME` | Only this one. |\n| `-b` | Briefly. |"
    )
    footnote = (
        "<aside class=footnote role=doc-footnote><span class=label>[<a href=#r>1</a>]</span><p>It burnt.</p></aside>"
    )
    assert convert_to_markdown(f"<p>Lit.</p>{footnote}") == "Lit.\n\n[1] It burnt."
    assert convert_to_markdown("<table><tr><td class=label>[1]<td>It burnt.</table>") == "[1] It burnt."
    tip = "<div class=tip><table><tr><td rowspan=2><img alt='[Tip]'><th>Tip<tr><td><p>Cut it.</table></div><p>After"
    assert convert_to_markdown(tip) == "Tip: Cut it.\n\nAfter"
    icon = (
        "<div class='admonitionblock note'><table><tr><td class=icon><div class=title>Note</div><td class=content>Mind."
    )
    assert convert_to_markdown(f"{icon}</table></div>") == "Note: Mind."
    bar = "<ul class=docnav><li><a accesskey=p href=a>Prev</a><li>The Book of All Lamps<li><a href=c>Next</a></ul>"
    page = convert_to_markdown(f"<body>{bar}<div><h2>9.9. Lamps</h2><p>They burn.</div>")
    assert page == "## 9.9. Lamps\n\nThey burn."
    code = (
        "<pre><span></span><a href=#1><span class=linenos>1</span></a>light()\n<span class=linenos>2</span>dim(2)</pre>"
    )
    assert convert_to_markdown(code) == "```\nlight()\ndim(2)\n```"


def test_left_out_parts_of_a_page_are_reported() -> None:
    page = "<nav class=top><a href=/>Home</a> <a href=/b>Boats</a></nav><main><h1>Lamps</h1><p>They burn.</p></main>"
    document = read_one(page, "a.html")
    assert [(part.element, part.reason, part.characters, part.text) for part in document.left_out] == [
        ("nav.top", "navigation", 9, "Home Boats")
    ]
    complete = read_one(page, "a.html", navigation="keep")
    assert (complete.left_out, complete.text) == ((), "Home Boats\n\n# Lamps\n\nThey burn.\n")
    with pytest.raises(InputError, match="'keep' or 'drop'"):
        read_one(page, "a.html", navigation="some")


def test_a_date_at_the_right_side_of_a_page_is_no_title() -> None:
    rule = "=-" * 39
    text = f"{' ' * 67}jw 21.10.93\n\n   screen: questions that are often asked\n{rule}\n\nQ: Does it blink?\nA: No.\n"
    assert read_one(text, "FAQ.txt").title is None
    assert (
        read_one(f"{' ' * 26}The harbour of Tolland\n\n{'It is deep. ' * 6}\n", "a.txt").title
        == "The harbour of Tolland"
    )


def test_shapes_of_a_picture_in_html_are_not_nested() -> None:
    shapes = '<path d="M0,1L2,1" /><polygon points="0,1 2,1"/>'
    assert read_one(f"<p>Before.</p><svg>{shapes * 3_000}</svg><p>After.</p>", "a.html").text == "Before.\n\nAfter.\n"


def test_html_titles() -> None:
    assert read_one("<title>Site</title><h1>Page <i>one</i></h1>x", "a.html").title == "Page one"
    assert read_one("<title>5.4.\u00a0Constraints</title><h2>x</h2>y", "a.html").title == "Constraints"
    assert read_one("<p>x", "a.html").title is None


@pytest.mark.parametrize(
    "declaration", ["<meta charset=iso-8859-1>", "<meta http-equiv=x content='text/html; charset=cp1252'>"]
)
def test_html_declares_its_encoding(declaration: str) -> None:
    assert read_one(f"{declaration}<p>“café”".encode("cp1252"), "a.html").text == "“café”\n"
    assert read_one(f"{declaration}<p>“café”".encode(), "a.html").text == "“café”\n"


#: HTML that costs its parser or its reader more than its length says, the worst first.
HOSTILE = {
    "attributes": lambda size: "<p " + " ".join(f"a{i}=1" for i in range(size // 8)) + ">x",
    "formatting never closed": lambda size: "".join(f"<b id={i}>" for i in range(min(size // 9, 18_000))) + "<p>x" * 99,
    "code in code": lambda size: "<code>\n" * min(size // 16, 4_900) + "<pre>x</pre>" + "</code>" * 4_900,
    "options": lambda size: "<select>" + "<option>x" * (size // 9) + "</select><p>x",
    "bars around bars": lambda size: "<div class=sidebar>" * 4_900 + "<main>x</main>" + "</div>" * 4_900,
    "lists in lists": lambda size: "<ul><li>x" * 4_900 + "</ul>" * (size // 9),
    "tables in tables": lambda size: "<table><tr><td>" * 4_900 + "x" + "</table>" * (size // 15),
    "terms": lambda size: "<dl>" + "<dt>a" * (size // 5),
    "wide cells": lambda size: "<table>" + "<tr><td rowspan=50 colspan=50>a" * (size // 31),
    "entities": lambda size: "&CounterClockwiseContourIntegral;" * (size // 33),
    "bodies": lambda size: "<body>x" + "".join(f"<body b{i}=1>" for i in range(size // 13)),
    "names cut short": lambda size: "&CounterClockwiseContourIntegra" * (size // 31),
}


@pytest.mark.slow
@pytest.mark.matrix
@pytest.mark.parametrize("shape", HOSTILE)
def test_html_that_is_read_in_this_process_takes_no_time(shape: str, limit_cpu_time: Callable[[float], None]) -> None:
    """The largest that comes to no worker, and so under no time limit, whatever it is made of."""
    page = HOSTILE[shape](int(get_trusted_size("html")))
    limit_cpu_time(20)
    with suppress(ReaderError):  # that it has no text
        read_one(page[: int(get_trusted_size("html"))], "a.html")


def test_a_paragraph_of_many_emphasized_words_is_read_once(limit_cpu_time: Callable[[float], None]) -> None:
    limit_cpu_time(20)
    assert read_one(f"<p>{'<b>x</b> <i>y</i> ' * 60_000}</p>", "a.html").text.count("*y*") == 60_000


@pytest.mark.parametrize(
    ("suffix", "unit"), [("py", "\\\n"), ("py", "/*"), ("c", "x=>"), ("js", "}class A{\n/*(function a(){")]
)
def test_invalid_code_that_is_read_in_this_process_takes_no_time(
    suffix: str, unit: str, limit_cpu_time: Callable[[float], None]
) -> None:
    pytest.importorskip("tree_sitter")
    code = "}" + unit * (int(get_trusted_size("code")) // len(unit))
    limit_cpu_time(20)
    list(read_bytes(code[: int(get_trusted_size("code"))].encode(), f"a.{suffix}"))


def test_html_that_cannot_be_read() -> None:
    assert "has no text" in read_refused("<html><body><script>x()</script></body></html>", "a.html")
    assert "has no text" in read_refused("<frameset><frame src=x></frameset>", "a.html")
    assert "deep" in read_refused("<div>" * 1_000_000, "a.html")
    for start in (
        "<svg><foreignObject>",
        "<svg><p>",
        "<svg/>",
        "<svg></svg>",
        "<!-- <svg> -->",
    ):  # HTML, in which <g/> is left open
        assert "deep" in read_refused(start + "<g/>" * 6_000, "a.html")
    xhtml = '<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml"><head><title/></head><body>'
    assert read_one(xhtml + '<script src="x"/><p>kept</p></body></html>', "a.xhtml").text == "kept\n"


def test_markup_in_attributes_and_labels_of_a_picture_hide_no_depth_and_add_none() -> None:
    for attribute in (
        'title="<svg>"', "title='a > b <svg>'", "<svg>", 'title="<!--"', 'href=/?q="', 'a=b="', "a==\"", '="', "a'",
        'title=a\u00a0b="', 'x=a\x0bb="',
    ):  # fmt: skip
        assert "deep" in read_refused(f"<p>Water</p><div {attribute}>" + "<g/>" * 6_000, "a.html")
    for comment in ("<!-->", "<!--->", "<!-- a --!>"):
        assert "deep" in read_refused(f"<p>Water</p>{comment}" + "<div>" * 6_000, "a.html")
    for shape in ("<g><title>A</title><path d='M1'/></g>", "<path/><desc>A</desc>", "<a title='1 > 0'></a><path/>"):
        assert "Water" in read_one(f"<p>Water</p><svg>{shape * 6_000}</svg>", "a.html").text
    assert "Water" in read_one("<p>Water</p>" + '<div title="<b>"></div>' * 6_000, "a.html").text


@given(
    st.one_of(st.binary(max_size=300), st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass")))
)
@example(b"<table><tr><td rowspan=99999999999999999999 colspan=-1>x")
@example(b"<ol start=99999999999999999999><li>x")
def test_html_of_any_bytes_is_read_or_refused(data: bytes) -> None:
    try:
        (document,) = read_bytes(data, "a.html")
    except ReaderError:
        return
    if isinstance(document, SkippedPart):
        assert not data.decode("utf-8-sig", "replace").strip()
        return
    assert isinstance(document, RawDocument)
    assert document.text.strip()
    document.text.encode()


TAGS = re.findall(
    r"\w+",
    "h1 h2 p div ul ol li dl dt dd table caption thead tr td th pre code em b a br blockquote nav section sup q hr",
)


@st.composite
def draw_markup(draw: st.DrawFn) -> str:
    words = st.sampled_from(
        ["# x", "- y", "1. z", "word", "a|b", "```", "---", "> q", "<&>", "*", "[l]: m", "    i", "~~~", "="]
    )
    pieces = draw(
        st.lists(
            st.one_of(
                words.map(html.escape),
                st.sampled_from(TAGS).map("<{}>".format),
                st.sampled_from(TAGS).map("</{}>".format),
                st.sampled_from(["<td rowspan=3>", "<td colspan=2>", "<div class=toc>", "<div class=note>", "&nbsp;"]),
            ),
            max_size=40,
        )
    )
    return "".join(pieces)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(draw_markup())
def test_no_text_of_a_page_turns_into_structure(body: str) -> None:
    """An independent Markdown parser finds no headings but the page's own, whatever its text looks like."""
    try:
        text = convert_to_markdown(body)
    except ReaderError:
        return
    headings = re.findall(r"<h[12]", body)
    heading_tokens = [
        token for token in MarkdownIt("commonmark").enable("table").parse(text) if token.type == "heading_open"
    ]
    assert len(heading_tokens) <= len(headings)
    assert all(token.markup in ("#", "##") for token in heading_tokens)


@given(st.lists(st.text("#->|`*~=1.) x<[]:_+", min_size=1, max_size=12), min_size=1, max_size=5))
@example(["***"])
@example(["_ _ _"])
def test_paragraphs_stay_paragraphs(texts: list[str]) -> None:
    expected = [" ".join(text.split()) for text in texts if text.split()]
    # The mark of a footnote is joined to its text.
    if not expected or any(re.fullmatch(r"\[\d+\]", text) for text in expected):
        return
    tokens = (
        MarkdownIt("commonmark")
        .enable("table")
        .parse(convert_to_markdown("".join(f"<p>{html.escape(text)}" for text in texts)))
    )
    blocks = [token.type for token in tokens if token.level == 0 and token.nesting == 1]
    assert blocks == ["paragraph_open"] * len(expected)


@pytest.mark.slow
@pytest.mark.skipif(not MANUAL.exists(), reason="the PostgreSQL manual is not here (shared/data/docs)")
def test_the_postgresql_manual_is_read_completely_and_without_navigation() -> None:
    """Word for word: nothing is lost but contents, and nothing comes from navigation."""
    pages = num_numbered = 0
    lost: Counter[str] = Counter()
    added: set[str] = set()
    for name, markup in _iter_manual_pages():
        pages += 1
        document = read_one(markup, name)
        assert document.title, name
        assert "\u00a0" not in document.text
        assert not re.search(r"^\W*(?:Prev|Next|Up|Home)\W*$", document.text, re.M), name
        num_numbered += (
            re.search(r"^#+ (?:Chapter|Appendix|Part) [\dA-Z]|^#+ (?:[A-Z]\.)?\d+\.", document.text, re.M) is not None
        )
        body = markup.decode()[markup.decode().index("<body") :]
        body = re.sub(r'(?s)<div class="navheader">.*?<hr /></div>|<div class="navfooter">.*', "", body)
        page = _count_words(re.sub(r'(?s)<div class="toc">.*?</div>', "", body))
        contents = _count_words(body)
        words = Counter(re.findall(r"[^\W\d_]{2,}", re.sub("[`*]", "", document.text)))
        lost += page - words
        added |= set(words) - set(contents)
    assert pages == 1168
    assert num_numbered > 700  # pages of commands and programs have no numbers
    # The marks of emphasis are taken out below, and with them a few asterisks that were meant.
    assert sum(lost.values()) < 40
    assert len(added) < 10


def _iter_manual_pages() -> Iterator[tuple[str, bytes]]:
    with tarfile.open(MANUAL) as archive:
        for member in archive:
            if member.name.endswith(".html"):
                content = archive.extractfile(member)
                assert content is not None
                yield Path(member.name).name, content.read()


def _count_words(markup: str) -> Counter[str]:
    """Count the words of a page without a parser; blocks separate words, formatting does not."""
    markup = re.sub(r"</a>(?=<a\b)|(?<=</code>)(?=<code)", " ", markup)
    spaced = re.sub(r"</?(?:p|div|d[ltd]|li|t[dhr]|br|h\d|pre|table|ul|ol|hr)\b", r" \g<0>", markup)
    return Counter(re.findall(r"[^\W\d_]{2,}", html.unescape(re.sub(r"<[^>]*>", "", spaced))))


# --- PDF -------------------------------------------------------------------------------------------------------------


def make_page_content(*texts: tuple[float, float, str]) -> str:
    """Return the content of a page with each text at its place."""
    return "BT /F1 10 Tf " + "".join(f"1 0 0 1 {x} {y} Tm ({text}) Tj " for x, y, text in texts) + "ET"


def make_pdf(pages: Sequence[list[str] | str], title: str | None = None) -> bytes:
    """Return a PDF with one text line per line, without a library: catalog, page tree, font, two objects per page.

    A page may be given as the content that it has.
    """
    objects = ["<< /Type /Catalog /Pages 2 0 R >>", "", "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"]
    kids = []
    for lines in pages:
        line_operators = "".join(f"({line.replace('(', chr(92) + '(')}) Tj T* " for line in lines)
        stream = lines if isinstance(lines, str) else f"BT /F1 11 Tf 14 TL 50 800 Td {line_operators}ET"
        objects.append(f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream")
        bold = "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica-Bold >>"
        fonts = f"<< /Font << /F1 3 0 R /F2 {bold} >> >>"
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Resources {fonts} /Contents {len(objects)} 0 R >>"
        )
        kids.append(f"{len(objects)} 0 R")
    objects[1] = f"<< /Type /Pages /Kids [{' '.join(kids)}] /Count {len(kids)} >>"
    info = ""
    if title is not None:
        objects.append(f"<< /Title ({title}) >>")
        info = f"/Info {len(objects)} 0 R"
    out = b"%PDF-1.4\n"
    offsets = []
    for number, content in enumerate(objects, 1):
        offsets.append(len(out))
        out += f"{number} 0 obj\n{content}\nendobj\n".encode("latin-1")
    table = "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    end = f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}trailer\n"
    end += f"<< /Size {len(objects) + 1} /Root 1 0 R {info} >>\nstartxref\n{len(out)}\n%%EOF\n"
    return out + end.encode()


def test_an_untitled_pdf_gets_its_first_line_as_title() -> None:
    page = [
        "Invoice 2025-027",
        "The keel bolts were drawn and renewed in the yard while she stood in the sling of the new",
        "hoist.",
    ]
    assert read_one(make_pdf([page], "untitled"), "a.pdf").title == "Invoice 2025-027"
    assert read_one(make_pdf([page], "Microsoft Word - keel bolts.docx"), "a.pdf").title == "keel bolts"
    assert (
        read_one(make_pdf([["The pump was stopped at noon, and nobody knew why it had been."]]), "a.pdf").title is None
    )


def test_pdf_joins_lines_and_counts_pages() -> None:
    first = [
        "The Keepers",
        "The lighthouse on the rock was first lit in the spring of the year, and its infor-",
        "mation board says that the lamp of the Anglo-",
        "Saxon king burnt oil.",
        "A second paragraph begins here, since the line above it was a short one, and it",
        "goes on.",
    ]
    document = read_one(make_pdf([first, ["Page two."]], "Lights"), "a.pdf")
    assert document == RawDocument(
        "a.pdf",
        "Lights",
        "The Keepers\n\n"
        "The lighthouse on the rock was first lit in the spring of the year, and its information board says that the "
        "lamp of the Anglo-Saxon king burnt oil.\n\n"
        "A second paragraph begins here, since the line above it was a short one, and it goes on.\n\nPage two.\n",
        {"pages": 2},
        "text",
    )
    assert read_one(make_pdf([["x"]]), "a.pdf").title is None


@pytest.mark.parametrize(
    ("elsewhere", "word"),
    [
        ("INTRODUCTION", "INTRODUC-TION"), ("Introduction", "Introduc-Tion"), ("well-known", "well-known"),
        ("MacArthur", "Mac-Arthur"), ("state-of-the-art", "state-of-the-art"),
    ],
)  # fmt: skip
def test_pdf_a_word_that_a_line_end_parts_is_written_as_it_is_elsewhere(elsewhere: str, word: str) -> None:
    before, _, after = word.rpartition("-")
    page = ["The word at the end of this line, which is as long as the others, is here " + before + "-"]
    page += [after + " and that is the beginning of the next line, of the same length as others."]
    assert f"is here {before}{'' if after[0].islower() else '-'}{after} and" in read_one(make_pdf([page]), "a.pdf").text
    expected = elsewhere if elsewhere.casefold() == word.replace("-", "").casefold() else word
    printed = before + (("-" if "-" in expected else "") + after)
    assert f"is here {printed} and" in read_one(make_pdf([page, [f"So it is {elsewhere} there."]]), "a.pdf").text


LONG = "The keeper on watch lights the lamp of the tower at dusk and"


def test_pdf_numbered_clauses_are_paragraphs_without_gaps_between_them() -> None:
    page = [
        "4.1 The room is used as a studio, and nobody may sleep there at night.",
        "4.2 Naked flames are forbidden, and so are the heaters of section",
        "4.1 of the fire code, which the landlord keeps in the office.",
    ]
    assert read_one(make_pdf([page]), "a.pdf").text == f"{page[0]}\n\n{page[1]} {page[2]}\n"


def test_pdf_running_heads_and_page_numbers_are_left_out_and_reported() -> None:
    chapters = ["Ships", "Ships", "Ships", "Lamps", "Lamps", "Lamps", "Lamps"]
    pages = [
        make_page_content(
            (50, 800, f"Chapter {chapter}"), (50, 700, f"Keeper {'abcdefg'[at]} wrote."), (290, 40, f"- {at + 1} -")
        )
        for at, chapter in enumerate(chapters)
    ]
    document = read_one(
        make_pdf([*pages, make_page_content((50, 800, "Chapter End"), (50, 700, "The last."))]), "a.pdf"
    )
    assert document.text == "\n\n".join(
        [*(f"Keeper {letter} wrote." for letter in "abcdefg"), "Chapter End", "The last.\n"]
    )
    assert [(part.element, part.reason, part.text) for part in document.left_out[:2]] == [
        ("page 1", "running head", "Chapter Ships"),
        ("page 1", "page number", "- 1 -"),
    ]
    complete = read_one(make_pdf(pages), "a.pdf", None, navigation="keep")
    assert complete.text.count("Chapter") == 7 and not complete.left_out
    same = read_one(make_pdf([make_page_content((50, 700, "Same."))] * 4), "a.pdf")
    assert same.text.count("Same.") == 4 and not same.left_out


def test_pdf_markers_of_a_list_precede_its_items_if_they_are_drawn_last() -> None:
    texts = ((70, 700, "Dogs pay half."), (70, 686, "Cats pay"), (50, 600, "1."), (50, 700, "a."), (50, 686, "2."))
    assert read_one(make_pdf([make_page_content(*texts)]), "a.pdf").text == "a. Dogs pay half.\n\n2. Cats pay\n\n1.\n"


def test_pdf_two_pages_are_enough_for_a_line_with_the_number_of_the_page() -> None:
    def make_pages(line: str, y: int) -> list[str]:
        return [
            make_page_content(
                (50, y, line.format(at + 1)), (50, 700, f"Day {at + 1}"), (50, 500, f"Keeper {'ab'[at]} wrote.")
            )
            for at in range(2)
        ]

    for line, y in (("Lights Ltd, page {}", 800), ("Form 7, page {} of 2", 40), ("{}", 40)):
        document = read_one(make_pdf(make_pages(line, y)), "a.pdf")
        assert document.text == "Day 1\n\nKeeper a wrote.\n\nDay 2\n\nKeeper b wrote.\n"
        assert len(document.left_out) == 2 and document.title == "Day 1"
    assert not read_one(make_pdf(make_pages("Question {}", 800)), "a.pdf").left_out
    assert not read_one(make_pdf(make_pages("Form 7", 40)), "a.pdf").left_out
    assert not read_one(make_pdf(make_pages("Total of 202{}", 40)), "a.pdf").left_out


def test_pdf_pages_that_are_pictures_are_counted() -> None:
    assert read_one(make_pdf([["Some text."], [], []]), "a.pdf").meta == {"pages": 3, "pages_without_text": 2}


def test_pdf_entries_rows_and_columns_are_not_glued_to_one_line() -> None:
    options = make_page_content(
        (50, 760, f"{LONG} these are the"),
        (50, 748, "options that there are:"),
        (60, 730, "-a, --all"),
        (150, 730, "Lights every lamp that there is along the"),
        (150, 718, "whole of the coast."),
        (60, 706, "-b"),
        (150, 706, "Blinks once in every minute of the night"),
        (60, 688, "wick"),
        (80, 676, "The braided cotton that draws the oil up from"),
        (80, 664, "the tank to the flame."),
        (60, 652, "burner"),
        (80, 640, "What holds the wick."),
    )
    assert read_one(make_pdf([options]), "a.pdf").text == (
        f"{LONG} these are the options that there are:\n\n"
        "-a, --all Lights every lamp that there is along the whole of the coast.\n\n"
        "-b Blinks once in every minute of the night\n\n"
        "wick\nThe braided cotton that draws the oil up from the tank to the flame.\n\n"
        "burner\nWhat holds the wick.\n"
    )
    table = make_page_content(
        *((x, y, cell) for y, row in ((700, "Tower Summer Winter"), (688, "North 3.5 7.25"), (676, "South 2.7 6.5"))
          for x, cell in zip((50, 150, 250), row.split(), strict=True))
    )  # fmt: skip
    assert (
        read_one(make_pdf([table]), "a.pdf").text
        == "Tower   Summer   Winter\nNorth   3.5      7.25\nSouth   2.7      6.5\n"
    )
    left = [
        f"{word} line of what stands at the left" for word in ("First", "second", "third", "fourth", "fifth", "last")
    ]
    right = [line.replace("left", "right").replace("First", "Sixth") for line in left]
    columns = [
        (x, 700 - 12 * row, text)
        for row, texts in enumerate(zip(left, right, strict=True))
        for x, text in zip((50, 320), texts, strict=True)
    ]
    assert read_one(make_pdf([make_page_content(*columns)]), "a.pdf").text == " ".join(left + right) + "\n"


def test_pdf_cells_that_are_drawn_one_by_one_are_a_row() -> None:
    """ReportLab draws each cell as a text of its own, in a font whose widths the file need not have."""
    rows = (("Berth", "Draft", "Fee a night"), ("East quay", "4 m", "21.50"), ("Fishing harbor", "2 m", "9.00"))
    cells = [
        (x, 700 - 18 * row, cell)
        for row, texts in enumerate(rows)
        for x, cell in zip((60, 137, 175), texts, strict=True)
    ]
    operators = "".join(f"BT 1 0 0 1 {x} {y} Tm /F1 10 Tf 12 TL ({cell}) Tj T* ET\n" for x, y, cell in cells)
    operators += "BT 1 0 0 1 60 640 Tm /F1 10 Tf 12 TL (Fees are due at noon.) Tj T* ET\n"
    assert read_one(make_pdf([operators]), "a.pdf").text == (
        "Berth            Draft   Fee a night\n"
        "East quay        4 m     21.50\n"
        "Fishing harbor   2 m     9.00\n\n"
        "Fees are due at noon.\n"
    )


def test_pdf_tables_of_two_columns_have_a_line_for_each_row() -> None:
    """The longest cell of a column is near the next one, headers are centered, and amounts end at the same place."""
    facts = make_page_content(
        (84, 700, "Subject"),
        (210, 700, "Entry"),
        (60, 682, "Caller"),
        (180, 682, "Mrs. Ingram, Quay 12"),
        (60, 664, "Damage by the estimate"),
        (180, 664, "about 230,000 euros"),
        (60, 646, "Crew"),
        (180, 646, "27 from the harbor and four"),
        (180, 634, "from the island"),
        (60, 600, "The lamp burned until the morning, and nobody was hurt that night on the quay or in the boats."),
    )
    assert read_one(make_pdf([facts]), "a.pdf").text == (
        "Subject                  Entry\n"
        "Caller                   Mrs. Ingram, Quay 12\n"
        "Damage by the estimate   about 230,000 euros\n"
        "Crew                     27 from the harbor and four from the island\n\n"
        "The lamp burned until the morning, and nobody was hurt that night on the quay or in the boats.\n"
    )
    # A digit has the width of 5.56 points, and a period or comma 2.78.
    fees = make_page_content(
        (60, 700, "Berth"),
        (200, 700, "12.00"),
        (60, 682, "Crane, for each lift of a boat"),
        (194.44, 682, "145.00"),
        (60, 664, "Shed"),
        (186.1, 664, "1,240.00"),
    )
    assert read_one(make_pdf([fees]), "a.pdf").text == (
        "Berth                            12.00\n"
        "Crane, for each lift of a boat   145.00\n"
        "Shed                             1,240.00\n"
    )


def test_pdf_cells_can_almost_touch_the_next_column() -> None:
    """A browser makes a column hardly wider than its longest cell; a word space of the font has 2.78 points."""
    rows = (
        ("Subject", "2017", "2024"),
        ("Notice to give up a plot", "three months", "one month"),
        ("Hens", "six", "eight"),
    )
    starts = (60, 168, 230)  # the longest cell of the first column ends 4 points before the second
    cells = [(x, 700 - 18 * row, text) for row, texts in enumerate(rows) for x, text in zip(starts, texts, strict=True)]
    assert read_one(make_pdf([make_page_content(*cells)]), "a.pdf").text == (
        "Subject                    2017           2024\n"
        "Notice to give up a plot   three months   one month\n"
        "Hens                       six            eight\n"
    )


def test_pdf_tables_can_have_bold_names_and_empty_cells() -> None:
    """A browser centers the names of columns. A column of short cells is hardly wider than the longest one."""
    names = make_page_content((92, 700, "Size"), (170, 700, "330"), (214, 700, "500"), (255, 700, "Note"))
    rows = make_page_content(
        (60, 682, "Fill height from mouth"),
        (164, 682, "52 mm"),
        (206, 682, "60 mm"),
        (60, 664, "Height of the crank"),
        (164, 664, "turn 14"),
        (206, 664, "turn 22"),
        (60, 646, "Head bolts"),
        (164, 646, "24 Nm"),
        (250, 646, "both"),
        (60, 628, "Pressure"),
        (164, 628, "1.8 bar"),
        (206, 628, "2.0 bar"),
        (250, 628, "check"),
    )
    assert read_one(make_pdf([names.replace("/F1", "/F2") + rows]), "a.pdf").text == (
        "Size                     330       500       Note\n"
        "----------------------   -------   -------   -----\n"
        "Fill height from mouth   52 mm     60 mm\n"
        "Height of the crank      turn 14   turn 22\n"
        "Head bolts               24 Nm               both\n"
        "Pressure                 1.8 bar   2.0 bar   check\n"
    )


def test_pdf_centered_names_of_columns_can_lack_the_first_one() -> None:
    names = make_page_content((130, 700, "Trust"), (255, 700, "Supplier"))
    rows = make_page_content(
        *((x, y, cell) for y, row in ((682, "Contract,Ann Lee Oduya,Gareth Flynn"), (664, "Orders,Bo Ray,order desk"))
          for x, cell in zip((60, 105, 240), row.split(","), strict=True))
    )  # fmt: skip
    assert read_one(make_pdf([names.replace("/F1", "/F2") + rows]), "a.pdf").text == (
        "–          Trust           Supplier\n"
        "--------   -------------   ------------\n"
        "Contract   Ann Lee Oduya   Gareth Flynn\n"
        "Orders     Bo Ray          order desk\n"
    )


def test_pdf_a_wrapped_title_is_whole() -> None:
    title = make_page_content((50, 760, "Bottling line: operating and"), (50, 736, "maintenance manual"))
    text = make_page_content(*((50, 700 - 12 * row, f"{LONG} of the line") for row in range(4)))
    document = read_one(make_pdf([title.replace("10 Tf", "20 Tf") + text], "manual.html"), "a.pdf")
    assert document.title == "Bottling line: operating and maintenance manual"
    assert document.text.startswith(f"{document.title}\n\n{LONG}")


def test_pdf_the_date_that_a_browser_prints_on_two_pages_is_left_out() -> None:
    date = make_page_content((24, 820, "11/30/26, 7:34 AM")).replace("10 Tf", "8 Tf")
    pages = [make_page_content((50, 700, f"{LONG} of page {page}")) + date for page in ("one", "two")]
    assert read_one(make_pdf(pages), "a.pdf").text == f"{LONG} of page one\n\n{LONG} of page two\n"


def test_pdf_lists_and_contents_are_no_tables() -> None:
    rows = [(x, 700 - 12 * row, text) for row, texts in enumerate((("Rope", "3"), ("Sails", "5"), ("Tar", "9")))
            for x, text in zip((60, 200), texts, strict=True)]  # fmt: skip
    assert read_one(make_pdf([make_page_content(*rows)]), "a.pdf").text == "Rope 3\n\nSails 5\n\nTar 9\n"


def test_pdf_numbered_items_are_paragraphs_with_their_last_words() -> None:
    page = make_page_content(
        (
            60,
            700,
            "1. Bring the boat to the slip, and take the sail and the boom and all that is loose off her, and wait",
        ),
        (71, 688, "for the crane."),
        (
            60,
            676,
            "2. Wash her with fresh water from the hose that hangs next to the slip, and also rinse her anchor well.",
        ),
        (60, 664, "3. Sign the book."),
    )
    assert read_one(make_pdf([page]), "a.pdf").text == (
        "1. Bring the boat to the slip, and take the sail and the boom and all that is loose off her, and wait for the "
        "crane.\n\n2. Wash her with fresh water from the hose that hangs next to the slip, and also rinse her anchor "
        "well.\n\n3. Sign the book.\n"
    )


def test_the_address_of_a_printed_page_is_not_its_title() -> None:
    for address in ("about:blank", "https://tern.example/fees?year=2026"):
        assert read_one(make_pdf([["Harbor fees", LONG]], title=address), "a.pdf").title != address


@pytest.mark.parametrize(
    ("font", "advance"),
    [
        ("/BaseFont /Helvetica", 13.34),
        ("/BaseFont /Helvetica /Encoding /WinAnsiEncoding", 13.34),
        ("/BaseFont /Helvetica /Encoding << /Differences [97 /m /l] >>", None),
        ("/BaseFont /Symbol", None),
        ("/BaseFont /ZapfDingbats", None),
    ],
)
def test_pdf_widths_of_standard_fonts_are_those_of_letters(font: str, advance: float | None) -> None:
    from pypdf import PdfReader

    from kvstore.readers.pdf_fonts import PenTracker

    tracker = PenTracker()
    tracker.start_page(PdfReader(io.BytesIO(make_pdf([[]]).replace(b"/BaseFont /Helvetica", font.encode()))).pages[0])
    tracker.track_operator(b"Tf", ["/F1", 12])
    assert tracker.measure_advance([b"ab"]) == (None if advance is None else pytest.approx(advance, abs=0.01))


def test_pdf_words_of_a_justified_line_are_not_glued() -> None:
    """If a font has no space, only gaps, which may be narrow, separate words."""
    widths = f"/FirstChar 32 /LastChar 126 /Widths [{' '.join(['600'] * 95)}]"
    operators = "[(The)-237(ke)20(eper)-236(lights)-180(the)-400(lamp.)] TJ"
    page = make_pdf([f"BT /F1 10 Tf 50 700 Td {operators} ET"]).replace(
        b"/BaseFont /Helvetica", f"/BaseFont /Justified {widths}".encode()
    )
    assert read_one(page, "a.pdf").text == "The keeper lights the lamp.\n"


@pytest.mark.parametrize(
    "between",
    [
        "",
        "BT 1 0 0 1 0 0 Tm ET",
        "q 1 0 0 1 0 0 cm BT /F1 1 Tf 1 0 0 1 0 0 Tm ( ) Tj ET Q",
        "q 1 0 0 1 9 9 cm 0 0 1 1 re f Q",
    ],
)
def test_pdf_lines_are_whole_if_the_pen_moves_away_between_words(between: str) -> None:
    lines = ["The office of the harbour opens at eight", "and closes at five.", "", "A second paragraph is here."]
    words = [
        (50 + 5 * f" {line} ".index(f" {word} "), 700 - 14 * number, word)
        for number, line in enumerate(lines)
        for word in line.split()
    ]
    operators = "".join(
        f"q 1 0 0 1 {x} {y} cm BT /F1 10 Tf 1 0 0 1 0 0 Tm ({word}) Tj ET Q {between}\n" for x, y, word in words
    )
    text = read_one(make_pdf([operators]), "a.pdf").text
    assert text == "The office of the harbour opens at eight and closes at five.\n\nA second paragraph is here.\n"


def test_pdf_words_in_two_fonts_are_not_glued() -> None:
    """A word in another font begins where its operator says; only the widths show where the previous word ends."""
    widths = f"/FirstChar 32 /LastChar 126 /Widths [{' '.join(['600'] * 95)}]"
    operators = "/F1 10 Tf 50 700 Td (The) Tj /F2 10 Tf 20.4 0 Td (lamp) Tj /F1 10 Tf 26.4 0 Td (is) Tj"
    second_font = f"/F2 << /Type /Font /Subtype /Type1 /BaseFont /Code {widths} >>"
    page = make_pdf([f"BT {operators} /F2 10 Tf 12 0 Td (lit.) Tj ET"])
    page = page.replace(b"/F1 3 0 R", f"/F1 3 0 R {second_font}".encode())
    page = page.replace(b"/BaseFont /Helvetica", f"/BaseFont /Roman {widths}".encode())
    assert read_one(page, "a.pdf").text == "The lamp islit.\n"


def test_pdf_words_are_joined_across_spacings() -> None:
    """The way Ghostscript writes justified text: each piece begins where spacings left the pen, kerned or not."""
    widths = f"/FirstChar 32 /LastChar 126 /Widths [300 {' '.join(['600'] * 94)}]"

    def read_text(operators: str) -> str:
        page = make_pdf([f"BT /F1 10 Tf {operators} ET"]).replace(
            b"/BaseFont /Helvetica", f"/BaseFont /Justified {widths}".encode()
        )
        return read_one(page, "a.pdf").text

    words = "50 700 Td 2.8 Tw (it lights the v) Tj 89.4 0 Td (ariable) Tj 0 Tw 44.8 0 Td (lamp.) Tj"
    assert read_text(words) == "it lights the variable lamp.\n"
    assert read_text(
        words.replace("Td 2.8 Tw (it lights the v) Tj", 'Td 12 TL 2.8 0 (it lights the v) "')
    ) == read_text(words)
    characters = "50 700 Td (a) Tj 2.5 Tc 6 0 Td [(sa)250(si)250(ft)] TJ 0 Tc 43.5 0 Td (he v) Tj 21 0 Td (alue) Tj"
    assert read_text(characters) == "as as if the value\n"
    taken_back = "50 700 Td (so n) Tj -.1 Tc -2.8 Tw 21 0 Td (eg a) Tj 0 Tc 0 Tw 17.8 0 Td (tive) Tj"
    assert read_text(taken_back) == "so negative\n"
    letterspaced = "50 700 Td 3 Tc (KEEPER) Tj q 50 Tz 0 Tc 57 0 Td (watches) Tj Q 3 Tc 24 0 Td (ALONE) Tj"
    assert read_text(letterspaced) == "KEEPER watches ALONE\n"


def test_pdf_ligatures_are_unfolded() -> None:
    font = "<< /Type /Encoding /Differences [65 /fi /fl /ff /ffi] >>"
    page = make_pdf([make_page_content((50, 700, "AnD the oCce"))]).replace(
        b"/BaseFont /Helvetica", f"/BaseFont /Helvetica /Encoding {font}".encode()
    )
    assert read_one(page, "a.pdf").text == "finffi the offce\n"


def test_pdf_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    from pypdf import PdfReader, PdfWriter

    good = make_pdf([["locked"]])
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(good)))
    writer.encrypt("secret", algorithm="RC4-128")
    locked = io.BytesIO()
    writer.write(locked)
    assert "protected by a password" in read_refused(locked.getvalue(), "a.pdf")
    assert "run OCR first" in read_refused(make_pdf([[], []]), "a.pdf")
    assert "damaged" in read_refused(b"%PDF-1.4\n" + b"junk" * 100, "a.pdf")
    assert "damaged" in read_refused(good[: len(good) // 3], "a.pdf")
    assert capfd.readouterr().err == ""
    monkeypatch.setitem(sys.modules, "pypdf", None)
    assert "pip install 'kvstore-db[documents]'" in read_refused(good, "a.pdf")


@given(st.integers(0, 600), st.binary(min_size=1, max_size=8))
def test_pdf_with_any_damage_is_read_or_refused(at: int, junk: bytes) -> None:
    good = make_pdf([["some text"]])
    try:
        read_rows(good[:at] + junk + good[at + len(junk) :], "a.pdf")
    except ReaderError as error:
        assert "a.pdf" in str(error)


# --- DOCX ------------------------------------------------------------------------------------------------------------


def save_docx(document: object) -> bytes:
    stream = io.BytesIO()
    document.save(stream)  # type: ignore[attr-defined]
    return stream.getvalue()


def test_docx_becomes_markdown_in_body_order() -> None:
    import docx
    from docx.oxml import parse_xml
    from docx.oxml.ns import nsdecls

    word = docx.Document()
    word.add_heading("The Light", 0)
    word.add_heading("Keepers", 1)
    paragraph = word.add_paragraph("Lit by ")
    paragraph.add_run("Agnes ").bold = True
    paragraph.add_run("Marl").italic = True
    paragraph.add_run(".").add_break()
    paragraph.add_run("# no heading")
    inserted = (
        f'<w:ins {nsdecls("w")} w:id="1" w:author="x"><w:r><w:t xml:space="preserve"> Inserted.</w:t></w:r></w:ins>'
    )
    deleted = f'<w:del {nsdecls("w")} w:id="2" w:author="x"><w:r><w:delText>Deleted.</w:delText></w:r></w:del>'
    for change in (inserted, deleted):
        paragraph._p.append(parse_xml(change))
    for text, style in [
        ("a", "List Bullet"),
        ("a1", "List Bullet 2"),
        ("b", "List Bullet"),
        ("one", "List Number"),
        ("two", "List Number"),
    ]:
        word.add_paragraph(text, style=style)
    word.add_paragraph("Contents", style="TOC Heading")
    table = word.add_table(3, 2)
    for row in range(3):
        for column in range(2):
            table.cell(row, column).text = f"r{row}c{column}"
    table.cell(1, 0).text = table.cell(2, 0).text = ""
    table.cell(1, 0).merge(table.cell(2, 0)).text = "both"
    word.add_heading("Code", 2)
    word.add_paragraph("x = 1", style="macro")
    word.add_paragraph("y = 2", style="macro")
    word.add_paragraph("Said she.", style="Quote")
    control = (
        f"<w:sdt {nsdecls('w')}><w:sdtContent><w:p><w:r><w:t>In a control.</w:t></w:r></w:p></w:sdtContent></w:sdt>"
    )
    word.element.body.insert_element_before(parse_xml(control), "w:sectPr")
    document = read_one(save_docx(word), "a.docx")
    assert document.title == "The Light"
    assert document.format == "markdown"
    assert document.text == (
        "# The Light\n\n## Keepers\n\nLit by *Agnes Marl*.\n\\# no heading Inserted.\n\n- a\n  - a1\n- b\n\n"
        "1. one\n2. two\n\n"
        "| r0c0 | r0c1 |\n| --- | --- |\n| both | r1c1 |\n| both | r2c1 |\n\n"
        "### Code\n\n```\nx = 1\ny = 2\n```\n\n> Said she.\n\nIn a control.\n"
    )
    word.core_properties.title = "Named"
    assert read_one(save_docx(word), "a.docx").title == "Named"


def test_docx_bold_paragraphs_are_headings_if_no_style_is_one() -> None:
    import docx

    def write_minutes(heading: str | None) -> bytes:
        word = docx.Document()
        for text, is_bold in (
            ("MINUTES", True),
            ("of the meeting in May", False),
            ("1. Shelter", True),
            ("The shelter is built.", False),
            ("It must be green.", True),
            ("All agree.", False),
            ("它必须是绿色的。", True),
            ("大家同意。", False),
            ("Signed", True),
        ):
            word.add_paragraph().add_run(text).bold = is_bold
        word.add_paragraph("Ann", style="List Bullet").runs[0].bold = True
        if heading:
            word.add_heading(heading, 1)
        return save_docx(word)

    document = read_one(write_minutes(None), "a.docx")
    assert document.title == "MINUTES"
    assert document.text == (
        "# MINUTES\n\nof the meeting in May\n\n## 1. Shelter\n\nThe shelter is built.\n\n*It must be green.*\n\n"
        "All agree.\n\n*它必须是绿色的。*\n\n大家同意。\n\n## Signed\n\n- *Ann*\n"
    )
    assert read_one(write_minutes("Annex"), "a.docx").text.startswith("*MINUTES*\n\nof the")


def make_form(rows: Sequence[Sequence[str]], is_bold: Callable[[int, int], bool]) -> bytes:
    """Return a Word document with a table, in which some cells, chosen by row and column, are bold."""
    import docx

    word = docx.Document()
    table = word.add_table(rows=len(rows), cols=len(rows[0]))
    for row, texts in enumerate(rows):
        for column, text in enumerate(texts):
            table.cell(row, column).paragraphs[0].add_run(text).bold = is_bold(row, column) or None
    return save_docx(word)


def test_docx_forms_have_a_row_for_each_label() -> None:
    form = [["Boat", "Petrel 22", "Owner", "Ada Lund"], ["Length", "9 m", "Insured until", "3 May 2026"]]
    lines = ["Boat | Petrel 22", "Owner | Ada Lund", "Length | 9 m", "Insured until | 3 May 2026"]
    text = "|  |  |\n| --- | --- |\n" + "".join(f"| {line} |\n" for line in lines)
    assert read_one(make_form(form, lambda row, column: False), "a.docx").text == text
    entries = [["Caller", "Mrs. Ingram"], ["Place", "Quay 12"], ["Alarm", "23:18"]]
    text = "|  |  |\n| --- | --- |\n| Caller | Mrs. Ingram |\n| Place | Quay 12 |\n| Alarm | 23:18 |\n"
    assert read_one(make_form(entries, lambda row, column: column == 0), "a.docx").text == text
    columns = [["Item", "Next Service"], ["Boiler", "3 May"], ["Lift", "Week 12"], ["Alarm", "Unknown"]]
    text_of_columns = read_one(make_form(columns, lambda row, column: False), "a.docx").text
    assert text_of_columns.startswith("| Item | Next Service |\n")
    with_colons = make_form([[f"{label}:", value] for label, value in entries], lambda row, column: False)
    assert read_one(with_colons, "a.docx").text.replace(":", "") == text.replace(":", "")


def test_docx_groups_of_columns_are_named_in_each_column() -> None:
    import docx

    word = docx.Document()
    table = word.add_table(4, 4)
    rows = ("Season|Income||Seats", "|2024|2025|", "Matinées|£3,930|£3,275|120", "Galas|£900|£950|80")
    for row, texts in enumerate(rows):
        for column, text in enumerate(texts.split("|")):
            table.cell(row, column).text = text
    for first, last in (((0, 1), (0, 2)), ((0, 0), (1, 0)), ((0, 3), (1, 3))):
        table.cell(*first).merge(table.cell(*last))
    assert "| Season | Income / 2024 | Income / 2025 | Seats |\n" in read_one(save_docx(word), "a.docx").text


def test_docx_tables_with_a_header_are_no_forms() -> None:
    table = [["Room", "Fee in 2026"], ["Hall", "60"], ["Shed", "none"]]
    text = "| Room | Fee in 2026 |\n| --- | --- |\n| Hall | 60 |\n| Shed | none |\n"
    assert read_one(make_form(table, lambda row, column: False), "a.docx").text == text
    marked = [["Room", "Fee for 2 days"], *table[1:]]
    text = text.replace("in 2026", "for 2 days")
    assert read_one(make_form(marked, lambda row, column: row == 0), "a.docx").text == text


def test_docx_notes_symbols_formulas_and_raised_digits_are_read() -> None:
    """A Word file without properties has endnotes, characters of symbol fonts, ruby text and two directions."""
    m = 'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"'
    fraction = f"<m:oMath {m}><m:f><m:num><m:r><m:t>a+b</m:t></m:r></m:num><m:den><m:r><m:t>2</m:t></m:r></m:den></m:f>"
    power = "<m:sSup><m:e><m:r><m:t>x</m:t></m:r></m:e><m:sup><m:r><m:t>2</m:t></m:r></m:sup></m:sSup>"
    delimiter = "<m:d><m:e><m:r><m:t>y</m:t></m:r></m:e></m:d></m:oMath>"
    raised = '<w:r><w:rPr><w:vertAlign w:val="superscript"/></w:rPr><w:t>{}</w:t></w:r>'
    note = '<w:r><w:{}Reference w:id="2"/></w:r>'
    lines = [
        make_word_runs("Cells: 10") + raised.format("-6") + make_word_runs(" on the 21") + raised.format("st"),
        '<w:r><w:sym w:font="Symbol" w:char="F06D"/></w:r>' + make_word_runs("m ")
        + '<w:r><w:sym w:font="Wingdings" w:char="F0FE"/></w:r>',
        "<w:r><w:ruby><w:rt><w:r><w:t>tō</w:t></w:r></w:rt><w:rubyBase><w:r><w:t>東</w:t></w:r></w:rubyBase></w:ruby></w:r>",
        f'<w:bdo w:val="rtl">{make_word_runs("left")}</w:bdo><w:r><w:ptab/></w:r>{make_word_runs("right")}',
        make_word_runs("Freight") + note.format("endnote") + make_word_runs(" and tax") + note.format("footnote"),
        fraction + power + delimiter,
    ]  # fmt: skip
    parts = dict(unpack_zip(make_word_document("".join(map(make_word_paragraph, lines)))))
    relations = [("styles", "styles.xml"), ("numbering", "numbering.xml")]
    for kind in ("footnote", "endnote"):
        body = make_word_paragraph(make_word_runs(f"The {kind}."))
        parts[f"word/{kind}s.xml"] = f'<w:{kind}s {WML}><w:{kind} w:id="2">{body}</w:{kind}></w:{kind}s>'.encode()
        relations.append((f"{kind}s", f"{kind}s.xml"))
    parts["word/_rels/document.xml.rels"] = make_relations(*relations).encode()
    document = read_one(pack_zip(parts), "a.docx")
    assert document.title is None
    assert document.text == (
        "Cells: 10^-6 on the 21st\n\nμm ☑\n\n東\n\nleft right\n\nFreight[1] and tax[2]\n\n(a+b)/2x^2(y)\n\n"
        "[1] The endnote.\n\n[2] The footnote.\n"
    )


def test_docx_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    import docx

    empty = save_docx(docx.Document())
    assert "has no text" in read_refused(empty, "a.docx")
    assert "damaged or not DOCX" in read_refused(empty[: len(empty) // 2], "a.docx")
    assert "damaged or not DOCX" in read_refused(b"PK\x03\x04 not a zip", "a.docx")
    assert "old .doc file or protected by a password" in read_refused(
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 600, "a.docx"
    )
    monkeypatch.setitem(sys.modules, "docx", None)
    assert "pip install 'kvstore-db[documents]'" in read_refused(empty, "a.docx")


# --- CSV -------------------------------------------------------------------------------------------------------------


def test_csv_rows_are_documents() -> None:
    data = 'id,title,text,year,price,code\nk1,T,"two\nlines",2024,1.5,007\n,,only text,,,\n'
    assert read_rows(data, "dir/a.csv") == [
        RawDocument("k1", "T", "two\nlines", {"year": 2024, "price": 1.5, "code": "007"}, "text", (), "dir/a.csv:2"),
        RawDocument("dir/a.csv:4", None, "only text", {}, "text"),
    ]


def test_csv_without_a_text_column_lists_its_columns() -> None:
    assert read_rows("Key;Name;City\nx;Ada;London\n", "a.csv") == [
        RawDocument("x", "a", "Name: Ada\nCity: London", {"Name": "Ada", "City": "London"}, "text", (), "a.csv:2")
    ]


def test_a_column_or_field_with_a_colon_has_one_colon_in_the_text() -> None:
    (row,) = read_rows("Name:,City\nAda,London\n", "a.csv")
    assert (row.text, row.meta) == ("Name: Ada\nCity: London", {"Name:": "Ada", "City": "London"})
    (line,) = read_rows('{"Name:": "Ada", "City": "London"}', "a.jsonl")
    assert line.text == "Name: Ada\nCity: London"
    (page,) = read_rows("Name:\n  Ada\n\n:Date\\:: 9 May\n", "a.rst")
    assert page.text == "- Name: Ada\n\n- Date: 9 May\n"


@pytest.mark.parametrize(
    ("data", "meta"),
    [
        ("sep=;\r\nName;Price\r\nBolt;1,50\r\n", {"Name": "Bolt", "Price": "1,50"}),
        (
            "Name;Price (net, in €);City\nBolt;1,50;Bonn\n",
            {"Name": "Bolt", "Price (net, in €)": "1,50", "City": "Bonn"},
        ),
        ("Name|City\nBolt|Bonn\n", {"Name": "Bolt", "City": "Bonn"}),
        ("name,notes (a;b;c)\nBolt,none\n", {"name": "Bolt", "notes (a;b;c)": "none"}),
        ('name,"of; a; b"\nBolt,"c; d; e"\n', {"name": "Bolt", "of; a; b": "c; d; e"}),
    ],
)
def test_csv_has_the_delimiter_that_fits_its_first_two_lines(data: str, meta: dict[str, object]) -> None:
    assert read_one(data, "a.csv").meta == meta


def test_csv_options_name_columns_and_delimiter() -> None:
    document = read_one("a|b|c\n1|2|3\n", "a.dat", "csv", delimiter="|", text="C", title="b", key="a")
    assert document == RawDocument("1", "2", "3", {}, "text", (), "a.dat:2")
    assert read_one("text\tn\nx\t1\n", "a.tsv").meta == {"n": 1}
    assert read_one("text,n\tm\nx,1\t2\n", "a.csv", delimiter="tab", text="m").text == "2"
    assert "has no column 'body2'; the option text must name one of: a, b" in read_refused(
        "a,b\n1,2\n", "a.csv", text="body2"
    )


def test_a_bad_row_does_not_lose_the_others() -> None:
    data = 'id,text\na,one\nb\nc,two,three\nd,"x"y\ne,\n\nf,last\n'
    documents = read_rows(data, "a.csv")
    assert [document.key for document in documents if isinstance(document, RawDocument)] == ["a", "f"]
    failures = {document.place: document.reason for document in documents if isinstance(document, ReadFailure)}
    assert list(failures) == ["a.csv:3", "a.csv:4", "a.csv:5", "a.csv:6"]
    assert failures["a.csv:3"].startswith("has 1 cell, but the header has 2")
    assert failures["a.csv:4"].startswith("has 3 cells, but the header has 2")
    assert "not valid CSV" in failures["a.csv:5"]
    assert "has no text" in failures["a.csv:6"]
    (failure,) = read_rows('text\n"never closed\nmore\n', "a.csv")
    assert isinstance(failure, ReadFailure)
    assert (failure.place, "not closed" in failure.reason) == ("a.csv:2", True)


def test_csv_that_cannot_be_read() -> None:
    assert "the header contains the column 'a' twice" in read_refused("a,a\n1,2\n", "a.csv")
    assert "no rows" in read_refused("a,b\n", "a.csv")


cells = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Zl", "Zp", "Zs"]), min_size=1, max_size=20)


@given(st.lists(st.tuples(cells, cells, cells), min_size=1, max_size=8))
def test_csv_round_trip(table: list[tuple[str, str, str]]) -> None:
    stream = io.StringIO()
    csv.writer(stream).writerows([("id", "title", "text"), *table])
    assert [
        (row.key, row.title, row.text) for row in read_rows(stream.getvalue(), "a.csv") if isinstance(row, RawDocument)
    ] == table


# --- pairs -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("header", ["child,parent\n", "Child,Parent\n", ""])
def test_pairs_are_one_canonical_document(header: str) -> None:
    data = header + 'cat, feline\n"lynx, Iberian",feline\n\ncat,feline\nfeline,  big   mammal \n'
    assert read_one(data, "x/animals.csv", "pairs") == RawDocument(
        "x/animals.csv",
        None,
        'cat,feline\n"lynx, Iberian",feline\nfeline,big mammal\n',
        {"tree": "animals"},
        "pairs",
    )


def test_pairs_columns_and_tree() -> None:
    assert read_one("parent,child\na,b\n", "t.csv", "pairs").text == "b,a\n"
    document = read_one("n,what,kind\n1,cat,feline\n", "t.csv", "pairs", child="what", parent="kind", tree="zoo")
    assert (document.text, document.meta) == ("cat,feline\n", {"tree": "zoo"})


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ("child,parent\na,b\nc\n", "t.csv:3: has 1 cell instead of child and parent"),
        ("a,b\nc,d,e\n", "t.csv:2: has 3 cells"),
        ("a,b\nc,\n", "t.csv:2: the parent is empty"),
        ('a,b\n"c,d\n', "t.csv:2: a quote that opens in this row is not closed"),
        ("child,parent\n", "has no pairs"),
    ],
)
def test_bad_pairs_name_the_line(data: str, reason: str) -> None:
    assert reason in read_refused(data, "t.csv", "pairs")


@given(st.lists(st.tuples(cells, cells), min_size=1, max_size=10))
def test_pairs_read_again_are_the_same(pairs: list[tuple[str, str]]) -> None:
    stream = io.StringIO()
    csv.writer(stream).writerows([("child", "parent"), *pairs])
    text = read_one(stream.getvalue(), "t.csv", "pairs").text
    assert read_one("child,parent\n" + text, "t.csv", "pairs").text == text
    assert [tuple(row) for row in csv.reader(io.StringIO(text))] == list(dict.fromkeys(pairs))


# --- JSON Lines ------------------------------------------------------------------------------------------------------


def test_jsonl_lines_are_documents() -> None:
    data = (
        '{"id": 7, "title": "T", "text": "x\\r\\ny", "meta": {"a": [1]}, "b": null}\n\n{"contents": "z", "meta": 3}\n'
    )
    assert read_rows(data, "dir/a.jsonl") == [
        RawDocument("7", "T", "x\ny", {"b": None, "a": [1]}, "text", (), "dir/a.jsonl:1"),
        RawDocument("dir/a.jsonl:3", None, "z", {"meta": 3}, "text"),
    ]
    assert read_one(
        '{"n": "k", "h": "T", "b": "x", "text": "other"}', "a.ndjson", key="n", title="h", text="b"
    ) == RawDocument("k", "T", "x", {"text": "other"}, "text", (), "a.ndjson:1")


def test_an_object_without_the_named_key_is_not_stored_under_another() -> None:
    named, missing, null = read_rows(
        '{"nr": 1, "b": "x"}\n{"Nr": 2, "b": "y"}\n{"nr": null, "b": "z"}\n', "a.jsonl", key="nr"
    )
    assert isinstance(named, RawDocument) and named.key == "1"
    assert missing == ReadFailure("a.jsonl:2", "has no field 'nr'; the option key must name one of: Nr, b")
    (empty,) = read_rows("{}\n", "a.jsonl", key="nr")
    assert empty == ReadFailure("a.jsonl:1", "has no field 'nr'; the object is empty")
    assert isinstance(null, RawDocument) and null.key == "a.jsonl:3"


def test_an_object_without_a_text_is_read_from_its_fields() -> None:
    line = {"id": "w1", "station": "Muckle", "height": {"m": 3.2, "by": None}, "tags": ["spring", "high"], "at": [[1]]}
    assert read_one(json.dumps(line), "a.jsonl").text == (
        "station: Muckle\nheight.m: 3.2\ntags: spring, high\nat: [[1]]"
    )
    assert read_one('{"title": "T", "year": 3}', "a.jsonl").text == "year: 3"
    assert read_one('{"title": "T"}', "a.jsonl").text == "T"
    with pytest.raises(AssertionError):
        read_one('{"n": "x"}', "a.jsonl", text="body")


def test_objects_of_a_list_are_documents_and_another_value_is_one() -> None:
    data = '[\n {"id": "a", "text": "x"},\n {"id": "a", "n": 1},\n {"id": "b"}]'
    documents = list(read_bytes(data.encode(), "dir/a.json"))
    assert documents[:2] == [
        RawDocument("a", None, "x", {}, "text", (), "dir/a.json:1"),
        RawDocument("a", None, "n: 1", {"n": 1}, "text"),
    ]
    assert isinstance(documents[2], ReadFailure) and documents[2].place == "dir/a.json:3"
    value = read_one('{"name":"lantern","deps":{"gauge":"`2`"}}', "package.json")
    assert value.text == (
        '# package.json\n\n```json\n{\n  "name": "lantern",\n  "deps": {\n    "gauge": "`2`"\n  }\n}\n```\n'
    )
    assert read_one("[1, {}]", "a.json").format == "markdown"


def test_objects_of_the_main_list_of_a_value_are_documents() -> None:
    rows = [{"id": "b1", "group": {"name": "Oak"}, "nights": 3}, {"text": "Late."}]
    documents = list(read_bytes(json.dumps({"page": 1, "data": rows, "tags": []}).encode(), "dir/a.json"))
    assert documents[:2] == [
        RawDocument(
            "b1",
            None,
            "group.name: Oak\nnights: 3",
            {"group": {"name": "Oak"}, "nights": 3},
            "text",
            (),
            "dir/a.json:1",
        ),
        RawDocument("dir/a.json:2", None, "Late.", {}, "text"),
    ]
    (remainder,) = documents[2:]
    assert isinstance(remainder, RawDocument) and remainder.key == "dir/a.json"
    assert '"page": 1' in remainder.text and "nights" not in remainder.text
    assert len(list(read_bytes(json.dumps({"data": rows}).encode(), "a.json"))) == 2
    for value in (
        {"data": rows, "about": "x" * 200},
        {"data": rows[:1]},
        {"data": [*rows, 3]},
        {"a": {"data": rows}},
    ):
        assert read_one(json.dumps(value), "a.json").format == "markdown"
    many = [{"text": "x" * 100}] * 12_000
    assert len(list(read_bytes(json.dumps({"n": 1, "data": many}).encode(), "a.json"))) == 12_001


@pytest.mark.parametrize("character", ["\u2028", "\u2029", "\x85", "\x7f"])
def test_json_may_contain_raw_line_separators_in_strings(character: str) -> None:
    """JSON allows them, and COPY writes them."""
    rows = [{"id": f"k{character}", "text": f"Early.{character}Late."}]
    (row,) = read_bytes(json.dumps(rows, ensure_ascii=False).encode(), "a.json")
    (line,) = read_bytes(json.dumps(rows[0], ensure_ascii=False).encode(), "a.jsonl")
    assert isinstance(row, RawDocument) and isinstance(line, RawDocument)
    assert row.key == line.key and row.text == line.text
    document = read_one(json.dumps({"a": f"b{character}c"}, ensure_ascii=False), "a.json")
    assert character not in document.text and '"a": "b' in document.text


def test_json_that_is_no_text_is_refused_or_passed_over() -> None:
    assert "a.json: is not valid JSON: Expecting value at line 2, column 6" in read_refused(b'{\n"a": }', "a.json")
    # The position in a row that ends too early is in this row, not in the next.
    _, failure = read_bytes(b'{"text": "A."}\n{"text":\n', "a.jsonl")
    assert isinstance(failure, ReadFailure) and failure.reason == "is not valid JSON: Expecting value at column 9"
    assert "too deep" in read_refused(b"[" * 100_000, "a.json")
    for depth in range(800, 1000, 4):  # as deep as can be read and not be written is among them
        deep = b'{"a": [{}, {"x": %s}]}' % (b"[" * depth + b"]" * depth)
        try:
            assert len(list(read_bytes(deep, "a.json"))) == 2
        except ReaderError as error:
            assert "too deep" in str(error)
    assert "surrogate" in read_refused(b'{"a": "\\ud800"}', "a.json")
    assert "surrogate" in read_refused(b'["x", "\\u0000"]', "a.json")
    assert "surrogate" in read_refused(b'{"data": [{"text": "one"}, {"text": "two"}], "a": "\\u0000"}', "a.json")
    rows = b'[{"text": "one"}, {"text": "x\\u0000y"}, {"text": "\\u00e9", "\\ud83d\\ude00": 1}, {"m": {"\\ud800": 1}}]'
    one, nul, two, surrogate = read_bytes(rows, "a.json")
    assert isinstance(one, RawDocument) and isinstance(two, RawDocument)
    assert (one.text, two.text, two.meta) == ("one", "é", {"😀": 1})
    assert isinstance(nul, ReadFailure) and isinstance(surrogate, ReadFailure)
    assert (nul.place, surrogate.place) == ("a.json:2", "a.json:4")
    assert "not valid text" in nul.reason
    assert "is empty" in read_refused(b"{}", "a.json")
    assert list(read_bytes(b'{"lockfileVersion": 3}', "web/package-lock.json")) == [
        SkippedPart("web/package-lock.json", "lock file")
    ]
    (large,) = read_bytes(json.dumps({"a": ["x" * 100] * 10_000}).encode(), "a.json")
    assert isinstance(large, SkippedPart) and "write it as a list of objects" in large.detail


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"text": }', "not valid JSON: Expecting value at column 10"),
        (b'["text"]', "not a JSON object"),
        (b"[" * 100_000, "too deep"),
        (b'{"id": 1}', "has no field text, content, body or contents"),
        (b'{"text": ["a"]}', "the field text must be a string"),
        (b'{"text": " "}', "the field text is empty"),
        (b'{"text": "x", "title": 3}', "the field title must be a string"),
        (b'{"text": "x", "id": true}', "the field id must be a number or a string"),
        (b'{"text": "x", "id": ""}', "the field id must be a number or a string"),
        (b'{"text": "x", "n": NaN}', "NaN is not a number"),
        (b'{"text": "x", "n": 1e999}', "64 bits"),
        (b'{"text": "x", "n": 123456789012345678901}', "64 bits"),
        (b'{"text": "x\\ud800"}', "surrogate"),
        (b'{"text": "x", "m": {"\\u0000": 1}}', "not valid text"),
        (b'{"text": "\xff"}', "byte 0xFF at offset 26 is not valid UTF-8; specify the encoding"),
    ],
)
def test_a_bad_line_does_not_lose_the_others(line: bytes, reason: str) -> None:
    before, failure, after = read_rows(b'{"text": "one"}\n' + line + b'\n{"text": "two"}\n', "a.jsonl")
    assert isinstance(before, RawDocument)
    assert isinstance(after, RawDocument)
    assert (before.text, after.text) == ("one", "two")
    assert isinstance(failure, ReadFailure)
    assert failure.place == "a.jsonl:2"
    assert reason in failure.reason


json_values = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-(2**63), 2**63), st.floats(allow_nan=False, allow_infinity=False), cells
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(cells, inner, max_size=3)),
    max_leaves=8,
)
field_names = cells.filter(
    lambda name: name not in ("id", "key", "title", "text", "content", "body", "contents", "meta")
)


@given(
    st.lists(st.tuples(cells, cells, st.dictionaries(field_names, json_values, max_size=3)), min_size=1, max_size=5),
    st.booleans(),
)
def test_jsonl_round_trip(lines: list[tuple[str, str, dict[str, object]]], ascii_only: bool) -> None:
    data = "\n".join(
        json.dumps({"id": key, "text": text, "meta": meta}, ensure_ascii=ascii_only) for key, text, meta in lines
    )
    assert [
        (row.key, row.text, row.meta) for row in read_rows(data, "a.jsonl") if isinstance(row, RawDocument)
    ] == lines


# --- the sample ------------------------------------------------------------------------------------------------------


def read_sample() -> dict[str, RawDocument]:
    documents: dict[str, RawDocument] = {}
    sources = find_sources([folder()])
    assert not sources.skipped
    for source in sources:
        for item in read(source.path, source.key, source.format):
            assert isinstance(item, RawDocument)
            assert item.key not in documents
            documents[item.key] = item
    return documents


def test_the_sample_is_read_completely() -> None:
    documents = read_sample()
    assert len(documents) == 51
    prose = [document for document in documents.values() if document.format == "markdown"]
    assert len(prose) == 32
    for document in prose:
        assert document.title
        assert "\n## " in document.text
        assert 120 <= len(document.text.split()) <= 350, document.key
    assert all(key in documents for _, key in QUESTIONS)
    key, old, new, question = UPDATE
    assert documents[key].text.count(old) == 1
    assert new not in documents[key].text
    assert (question, key) in QUESTIONS


def test_the_hierarchy_names_the_subjects_of_the_sample() -> None:
    (pairs,) = read(hierarchy(), "hierarchy.csv", "pairs")
    assert isinstance(pairs, RawDocument)
    edges = [tuple(row) for row in csv.reader(io.StringIO(pairs.text))]
    assert len(edges) == 83
    sample_text = " ".join(f"{document.title} {document.text}" for document in read_sample().values())
    sample_text = " ".join(sample_text.replace("*", "").lower().split())
    assert not [name for edge in edges for name in edge if name.lower() not in sample_text]

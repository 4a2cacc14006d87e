# ruff: noqa: E501 -- markup is read best with its lines whole
"""Readers of books, office files, mail, notebooks, source code and archives: files as several producers write them,
whose words must come through in their order; and damaged ones, locked ones and bombs."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import re
import sys
import tarfile
import time
import zipfile
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from difflib import SequenceMatcher
from email.message import EmailMessage
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis_profile import num_examples

import kvstore
from kvstore.errors import ReaderError
from kvstore.readers import RawDocument, ReadFailure, SkippedPart, mail_messages, mail_parser, read_bytes
from kvstore.readers import text as text_reader
from kvstore.readers.code_languages import LANGUAGES
from kvstore.readers.packages import Package

PROSE = (
    "The lighthouse of Portland was lit in 1716. Its keeper wrote down every ship.",
    "Übergroße Schiffe fuhren an der Küste von 東京 vorbei, 12.5 Meilen weit.",
    "In winter the lamp burned sixteen hours; in summer, only eight.",
)


def read_all(data: bytes | str, key: str, format: str | None = None, /, **options: object) -> list[Any]:
    return list(read_bytes(data.encode() if isinstance(data, str) else data, key, format, options))


def read_one(data: bytes | str, key: str, format: str | None = None, /, **options: object) -> RawDocument:
    (document,) = read_all(data, key, format, **options)
    assert isinstance(document, RawDocument)
    return document


def pack_parts(parts: dict[str, str | bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return stream.getvalue()


def split_words(text: str) -> list[str]:
    return re.findall(r"\w+", text)


def compute_common_share(source: str, text: str) -> float:
    """Return the share of the words of the source that the text contains in the same order."""
    source_words, text_words = split_words(source), split_words(text)
    blocks = SequenceMatcher(None, source_words, text_words, autojunk=False).get_matching_blocks()
    return sum(block.size for block in blocks) / len(source_words)


def list_headings(text: str) -> list[str]:
    return re.findall(r"^#+ .*$", text, re.M)


# --- EPUB ------------------------------------------------------------------------------------------------------------

CONTAINER = (
    '<?xml version="1.0"?><container version="1.0" xmlns="urn:oasis:names:tc:opendocument:xmlns:container">'
    '<rootfiles><rootfile full-path="{}" media-type="application/oebps-package+xml"/></rootfiles></container>'
)


def make_page(body: str) -> str:
    return (
        f'<?xml version="1.0" encoding="utf-8"?><html xmlns="http://www.w3.org/1999/xhtml"><body>{body}</body></html>'
    )


def make_book(
    pages: dict[str, str],
    *,
    folder: str = "OEBPS/",
    nav: str = "",
    ncx: str = "",
    spine: tuple[str, ...] = (),
    **more: str,
) -> bytes:
    items = "".join(
        f'<item id="i{number}" href="{name}" media-type="application/xhtml+xml"/>' for number, name in enumerate(pages)
    )
    items += '<item id="nav" href="nav.xhtml" properties="nav" media-type="application/xhtml+xml"/>' if nav else ""
    items += '<item id="ncx" href="toc.ncx" media-type="application/x-dtbncx+xml"/>' if ncx else ""
    order = spine or tuple(f"i{number}" for number in range(len(pages)))
    opf = (
        '<package xmlns="http://www.idpf.org/2007/opf" xmlns:dc="http://purl.org/dc/elements/1.1/" version="3.0">'
        "<metadata><dc:title>The Keeper</dc:title><dc:creator>Ada</dc:creator><dc:creator>Bea</dc:creator>"
        f"<dc:date>1901</dc:date></metadata><manifest>{items}</manifest>"
        f"<spine{' toc=' + chr(34) + 'ncx' + chr(34) if ncx else ''}>"
        + "".join(f'<itemref idref="{item_id}"/>' for item_id in order)
        + "</spine></package>"
    )
    parts: dict[str, str | bytes] = {
        "mimetype": "application/epub+zip",
        "META-INF/container.xml": CONTAINER.format(f"{folder}content.opf"),
        f"{folder}content.opf": opf,
        **{folder + name.replace("%20", " "): make_page(body) for name, body in pages.items()},
        **more,
    }
    if nav:
        parts[f"{folder}nav.xhtml"] = make_page(f'<nav xmlns:epub="e" epub:type="toc">{nav}</nav>')
    if ncx:
        parts[f"{folder}toc.ncx"] = f'<ncx xmlns="http://www.daisy.org/z3986/2005/ncx/"><navMap>{ncx}</navMap></ncx>'
    return pack_parts(parts)


BODIES = [f"<p>{text}</p>" for text in PROSE]
BOOKS = {
    "navigation of EPUB 3": make_book(
        {"a.xhtml": BODIES[0], "b.xhtml": f"<h1>Two</h1>{BODIES[1]}", "c.xhtml": f"<h1>Deep</h1>{BODIES[2]}"},
        nav="<ol><li><a href='a.xhtml'>One</a></li><li><a href='b.xhtml'>Two</a>"
        "<ol><li><a href='c.xhtml'>Deep</a></li></ol></li></ol>",
    ),
    "navigation of EPUB 2": make_book(
        {"a.html": BODIES[0], "b.html": BODIES[1], "c.html": BODIES[2]},
        folder="",
        ncx="<navPoint><navLabel><text>One</text></navLabel><content src='a.html'/></navPoint>"
        "<navPoint><navLabel><text>Two</text></navLabel><content src='b.html'/><navPoint><navLabel><text>Deep</text>"
        "</navLabel><content src='c.html#x'/></navPoint></navPoint>",
    ),
    "names with spaces": make_book(
        {
            "part%20one.xhtml": f"<h1>One</h1>{BODIES[0]}",
            "t/b.xhtml": f"<h1>Two</h1>{BODIES[1]}<h2>Deep</h2>{BODIES[2]}",
        }
    ),
    "another order of the spine": make_book(
        {
            "c.xhtml": f"<h2>Deep</h2>{BODIES[2]}",
            "a.xhtml": f"<h1>One</h1>{BODIES[0]}",
            "b.xhtml": f"<h1>Two</h1>{BODIES[1]}",
        },
        spine=("i1", "i2", "i0"),
    ),
    "fonts obfuscated": make_book(
        {"a.xhtml": f"<h1>One</h1>{BODIES[0]}<h1>Two</h1>{BODIES[1]}<h2>Deep</h2>{BODIES[2]}"},
        **{"META-INF/encryption.xml": "<encryption><CipherReference URI='OEBPS/font.otf'/></encryption>"},
    ),
}


@pytest.mark.parametrize("name", BOOKS)
def test_a_book_is_read_in_the_order_of_its_spine(name: str) -> None:
    document = read_one(BOOKS[name], "keeper.epub")
    assert list_headings(document.text) == ["# One", "# Two", "## Deep"]
    assert compute_common_share(" ".join(PROSE), document.text) == 1
    assert (document.title, document.meta) == ("The Keeper", {"author": "Ada, Bea", "date": "1901"})


@pytest.mark.parametrize(
    ("text", "language"),
    [("Cuocere il finocchio per dieci minuti e usare la stessa acqua per la pasta.", None), (PROSE[0], "en")],
)
def test_a_book_that_is_not_in_english_does_not_state_that_it_is(
    tmp_path: Path, text: str, language: str | None
) -> None:
    mkepub = pytest.importorskip("mkepub")
    book = mkepub.Book(title="Book")  # states "en" for every book
    book.add_page("Page", f"<p>{text}</p>")
    book.save(tmp_path / "a.epub")
    assert read_one((tmp_path / "a.epub").read_bytes(), "a.epub").meta.get("language") == language


def test_a_book_whose_pages_are_locked_is_refused() -> None:
    locked = make_book({"a.xhtml": "x"}, **{"META-INF/encryption.xml": "<e><CipherReference URI='OEBPS/a.xhtml'/></e>"})
    with pytest.raises(ReaderError, match="digital rights"):
        read_all(locked, "a.epub")


# --- ODT -------------------------------------------------------------------------------------------------------------

ODF = (
    " ".join(
        f'xmlns:{short}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"'
        for short, name in (
            ("office", "office"),
            ("text", "text"),
            ("table", "table"),
            ("style", "style"),
            ("draw", "drawing"),
        )
    )
    + ' xmlns:fo="urn:oasis:names:tc:opendocument:xmlns:xsl-fo-compatible:1.0" xmlns:dc="http://purl.org/dc/elements/1.1/"'
    + ' xmlns:xlink="http://www.w3.org/1999/xlink"'
)


def make_odt(body: str, styles: str = "", **more: str) -> bytes:
    content = (
        f'<?xml version="1.0"?><office:document-content {ODF}><office:automatic-styles>{styles}</office:automatic-styles>'
        f"<office:body><office:text>{body}</office:text></office:body></office:document-content>"
    )
    return pack_parts({"mimetype": "application/vnd.oasis.opendocument.text", "content.xml": content, **more})


ODTS = {
    "headings and notes": (
        f'<text:h text:outline-level="1">One</text:h><text:p>{PROSE[0]}<text:note><text:note-citation>1</text:note-citation>'
        f"<text:note-body><text:p>{PROSE[2]}</text:p></text:note-body></text:note></text:p>"
        f'<text:h text:outline-level="2">Two</text:h><text:p>{PROSE[1]}</text:p>',
        f"# One\n\n{PROSE[0]}[1]\n\n## Two\n\n{PROSE[1]}\n\n[1] {PROSE[2]}\n",
    ),
    "lists in lists": (
        "<text:list text:style-name='L1'><text:list-item><text:p>one</text:p><text:list><text:list-item><text:p>inner"
        "</text:p></text:list-item></text:list></text:list-item><text:list-item><text:p>two</text:p></text:list-item>"
        "</text:list>",
        "- one\n  1. inner\n- two\n",
    ),
    "a table": (
        "<table:table><table:table-header-rows><table:table-row><table:table-cell><text:p>a</text:p></table:table-cell>"
        "<table:table-cell><text:p>b</text:p></table:table-cell></table:table-row></table:table-header-rows>"
        "<table:table-row><table:table-cell table:number-columns-repeated='2'><text:p>x</text:p></table:table-cell>"
        "<table:table-cell table:number-columns-repeated='16000'/></table:table-row></table:table>",
        "| a | b |\n| --- | --- |\n| x | x |\n",
    ),
    "code, quotation and emphasis": (
        "<text:p text:style-name='Preformatted_20_Text'>def f():</text:p><text:p text:style-name='P1'>"
        "<text:s text:c='4'/>return 1</text:p><text:p text:style-name='Quotations'>Said.</text:p>"
        "<text:p>a <text:span text:style-name='T1'>bold</text:span> word</text:p>",
        "```\ndef f():\n    return 1\n```\n\n> Said.\n\na *bold* word\n",
    ),
    "raised digits": (
        "<text:p>10<text:span text:style-name='T2'>6</text:span> on the 21<text:span text:style-name='T2'>st</text:span> of "
        "CO<text:span text:style-name='T3'>2</text:span></text:p>",
        "10^6 on the 21st of CO2\n",
    ),
    "links to addresses": (
        "<text:p>Ask <text:a xlink:href='mailto:ada@x.example?subject=Keys'>Ada</text:a>, <text:a "
        "xlink:href='mailto:bo@x.example'>bo@x.example</text:a> or <text:a xlink:href='tel:+4930123'>call</text:a>; see "
        "<text:a xlink:href='https://x.example'>us</text:a>.</text:p>",
        "Ask Ada (ada@x.example), bo@x.example or call (+4930123); see us.\n",
    ),
    "text that is struck out": (
        "<text:p>Pay <text:span text:style-name='T4'>ha<text:span text:style-name='T1'>lf</text:span></text:span>"
        "<text:span text:style-name='T4'>, all. None </text:span>now</text:p><text:p text:style-name='P4'>Gone</text:p>",
        "Pay ~~half, all.~~ ~~None~~ now\n\n~~Gone~~\n",
    ),
    "what is left out": (
        "<text:table-of-content><text:index-body><text:p>One 1</text:p></text:index-body></text:table-of-content>"
        "<text:tracked-changes><text:changed-region><text:deletion><text:p>gone</text:p></text:deletion>"
        "</text:changed-region></text:tracked-changes><text:section><text:p>kept<office:annotation><text:p>remark</text:p>"
        "</office:annotation></text:p></text:section><text:p><draw:frame><draw:text-box><text:p>boxed</text:p>"
        "</draw:text-box></draw:frame></text:p>",
        "kept\n\nboxed\n",
    ),
}
STYLES = (
    "<style:style style:name='P1' style:parent-style-name='Preformatted_20_Text'/><style:style style:name='T1'>"
    "<style:text-properties fo:font-weight='bold'/></style:style><style:style style:name='T2'><style:text-properties "
    "style:text-position='super 58%'/></style:style><style:style style:name='T3'><style:text-properties "
    "style:text-position='-33% 58%'/></style:style><style:style style:name='P4' style:parent-style-name='T4'/>"
    "<style:style style:name='T4'><style:text-properties style:text-line-through-style='solid'/></style:style>"
    "<text:list-style style:name='L1'>"
    "<text:list-level-style-bullet text:level='1'/><text:list-level-style-number text:level='2' style:num-format='1'/>"
    "</text:list-style>"
)


def test_headings_and_items_of_opendocument_have_the_numbers_of_their_styles() -> None:
    styles = (
        "<text:outline-style><text:outline-level-style text:level='1' style:num-format='1' style:num-suffix='.'/>"
        "<text:outline-level-style text:level='2' style:num-format='1' text:display-levels='2'/></text:outline-style>"
        "<text:list-style style:name='L1'><text:list-level-style-number text:level='1' style:num-format='a' "
        "style:num-prefix='(' style:num-suffix=')'/></text:list-style>"
    )
    item = "<text:list-item><text:p>{}</text:p></text:list-item>"
    body = (
        "<text:h text:outline-level='1'>Rent</text:h><text:h text:outline-level='1'>Term</text:h>"
        "<text:h text:outline-level='2'>Notice</text:h>"
        f"<text:list text:style-name='L1'>{item.format('one')}{item.format('two')}</text:list><text:p>or</text:p>"
        f"<text:list text:style-name='L1' text:continue-numbering='true'>{item.format('three')}</text:list>"
        f"<text:p>and</text:p><text:list text:style-name='L1'>{item.format('new')}</text:list>"
    )
    assert read_one(make_odt(body, styles), "a.odt").text == (
        "# 1. Rent\n\n# 2. Term\n\n## 2.1 Notice\n\n- (a) one\n- (b) two\n\nor\n\n- (c) three\n\nand\n\n- (a) new\n"
    )


def test_a_damaged_or_typed_number_of_opendocument_does_not_matter() -> None:
    levels = "".join(
        f"<text:outline-level-style text:level='{level}' text:display-levels='999999999' style:num-format='1'/>"
        for level in (1, 999_999_999)
    )
    styles = (
        f"<text:outline-style>{levels}</text:outline-style><text:list-style style:name='L1'>"
        f"<text:list-level-style-number text:level='1' style:num-format='a' style:num-suffix='{'.' * 100_000}'/>"
        "</text:list-style>"
    )
    headings = "".join(
        f"<text:h text:outline-level='{level}'>{text}</text:h>"
        for level, text in ((1, "1 Rent"), (1, "20 days"), ("x", "Term"), (999_999_999, "Deep"))
    )
    items = "<text:list-item><text:p>one</text:p></text:list-item>" * 1000
    text = read_one(make_odt(f"{headings}<text:list text:style-name='L1'>{items}</text:list>", styles), "a.odt").text
    assert text.startswith("# 1 Rent\n\n# 2 20 days\n\n# 3 Term\n\n###### 1 Deep\n\n")
    assert len(text) < 100_000


@pytest.mark.parametrize("name", ODTS)
def test_a_text_of_opendocument_becomes_markdown(name: str) -> None:
    body, text = ODTS[name]
    assert read_one(make_odt(body, STYLES), "a.odt").text == text


def test_a_merged_row_above_the_header_of_an_opendocument_table_is_its_title() -> None:
    def make_row(*cells: str) -> str:
        joined = "".join(f"<table:table-cell><text:p>{cell}</text:p></table:table-cell>" for cell in cells)
        return f"<table:table-row>{joined}</table:table-row>"

    title = (
        "<table:table-row><table:table-cell table:number-columns-spanned='2'><text:p>Budget</text:p></table:table-cell>"
        "<table:covered-table-cell/></table:table-row>"
    )
    rows = make_row("Item", "Amount") + make_row("Seats", "£30")
    text = "| Item | Amount |\n| --- | --- |\n| Seats | £30 |\n"
    assert read_one(make_odt(f"<table:table>{title}{rows}</table:table>"), "a.odt").text == f"Budget\n\n{text}"
    # An empty cell in the header does not make the other cell a title.
    header = make_row("", "Visitors")
    rows = make_row("2024", "1240") + make_row("2025", "1310")
    assert read_one(make_odt(f"<table:table>{header}{rows}</table:table>"), "a.odt").text == (
        "|  | Visitors |\n| --- | --- |\n| 2024 | 1240 |\n| 2025 | 1310 |\n"
    )


def test_the_text_of_merged_cells_of_opendocument_is_repeated_in_each_row() -> None:
    rows = [["Team", "Name", "Room"], ["Keepers", "Ada", 4], [None, "Ivo", None], ["Cooks", "Bea", None]]
    table = make_merged_table(rows, {(1, 0): (2, 1), (1, 2): (3, 1)})
    text = "| Team | Name | Room |\n| --- | --- | --- |\n| Keepers | Ada | 4 |\n| Keepers | Ivo | 4 |\n| Cooks | Bea | 4 |\n"
    assert read_one(make_odt(table), "a.odt").text == text
    # The covered cells of two columns are one element.
    wide = make_merged_table([["a", "b"], [1, 2], [None, None]], {(1, 0): (2, 1), (1, 1): (2, 1)})
    wide = wide.replace(
        "<table:covered-table-cell/>" * 2, "<table:covered-table-cell table:number-columns-repeated='2'/>"
    )
    assert read_one(make_odt(wide), "a.odt").text == "| a | b |\n| --- | --- |\n| 1 | 2 |\n| 1 | 2 |\n"


def test_struck_out_text_of_many_spans_is_marked_once() -> None:
    started = time.monotonic()
    span = "<text:span text:style-name='T4'>a</text:span>"
    text = read_one(make_odt(f"<text:p>{span * 30_000}</text:p>", STYLES), "a.odt").text
    assert text == f"~~{'a' * 30_000}~~\n"
    assert time.monotonic() - started < 20


def test_the_title_of_a_text_is_that_of_its_properties() -> None:
    meta = f"<office:document-meta {ODF}><dc:title>Named</dc:title></office:document-meta>"
    assert read_one(make_odt("<text:h>Shown</text:h>", **{"meta.xml": meta}), "a.odt").title == "Named"
    assert read_one(make_odt("<text:h>Shown</text:h>"), "a.odt").title == "Shown"
    for name, title in (
        ("Untitled 1", "Shown"),
        ("Documento1", "Shown"),
        ("Microsoft Word - Lease.doc", "Lease"),
        ("Untitled Lives", "Untitled Lives"),
    ):
        changed = meta.replace("Named", name)
        assert read_one(make_odt("<text:h>Shown</text:h>", **{"meta.xml": changed}), "a.odt").title == title


# --- slides, sheets, RTF ---------------------------------------------------------------------------------------------


def make_slides(fill: Callable[[Any], None]) -> bytes:
    pptx = pytest.importorskip("pptx")
    presentation = pptx.Presentation()
    fill(presentation)
    stream = io.BytesIO()
    presentation.save(stream)
    return stream.getvalue()


def test_slides_are_sections_with_lists_tables_charts_groups_and_notes() -> None:
    pytest.importorskip("pptx")
    from pptx.chart.data import CategoryChartData
    from pptx.enum.chart import XL_CHART_TYPE

    def add_slides(presentation: Any) -> None:
        first_slide = presentation.slides.add_slide(presentation.slide_layouts[1])
        first_slide.shapes.title.text = "Lighthouses"
        frame = first_slide.placeholders[1].text_frame
        frame.text = PROSE[0]
        inner = frame.add_paragraph()
        inner.text, inner.level = "An inner point", 1
        first_slide.notes_slide.notes_text_frame.text = PROSE[1]
        second_slide = presentation.slides.add_slide(presentation.slide_layouts[6])
        second_slide.shapes.add_textbox(0, 0, 1, 1).text_frame.text = PROSE[2]
        table = second_slide.shapes.add_table(2, 2, 0, 0, 1, 1).table
        for cell, text in zip(table.iter_cells(), ("name", "height", "Portland", "41"), strict=True):
            cell.text = text
        group = second_slide.shapes.add_group_shape()
        group.shapes.add_textbox(0, 0, 1, 1).text_frame.text = "Grouped"
        data = CategoryChartData()
        data.categories = ["1901", "1902"]
        data.add_series("Ships", (3, 4.5))
        second_slide.shapes.add_chart(XL_CHART_TYPE.COLUMN_CLUSTERED, 0, 0, 1, 1, data)

    document = read_one(make_slides(add_slides), "a.pptx")
    assert document.title == "Lighthouses"
    assert document.text == (
        f"## Lighthouses\n\n- {PROSE[0]}\n  - An inner point\n\nNotes: {PROSE[1]}\n\n## Slide 2\n\n{PROSE[2]}\n\n"
        "| name | height |\n| --- | --- |\n| Portland | 41 |\n\nGrouped\n\n"
        "|  | Ships |\n| --- | --- |\n| 1901 | 3 |\n| 1902 | 4.5 |\n"
    )


def test_raised_digits_of_a_slide_are_exponents() -> None:
    pytest.importorskip("pptx")

    def add_slide(presentation: Any) -> None:
        slide = presentation.slides.add_slide(presentation.slide_layouts[6])
        paragraph = slide.shapes.add_textbox(0, 0, 1, 1).text_frame.paragraphs[0]
        for text, baseline in (("10", None), ("6", "30000"), (" t of CO", None), ("2", "-25000")):
            run = paragraph.add_run()
            run.text = text
            if baseline is not None:
                run.font._element.set("baseline", baseline)

    assert read_one(make_slides(add_slide), "a.pptx").text == "## Slide 1\n\n10^6 t of CO2\n"


def make_openpyxl_sheet() -> bytes:
    openpyxl = pytest.importorskip("openpyxl")
    import datetime

    workbook = openpyxl.Workbook()
    sheet = workbook.active
    sheet.title = "Ships"
    for row in (
        ["id", "text", "built"],
        ["s1", PROSE[0], datetime.date(1901, 2, 3)],
        ["s2", "a|b", 4.5],
        [None],
        ["s3", True],
    ):
        sheet.append(row)
    stream = io.BytesIO()
    workbook.save(stream)
    return stream.getvalue()


def make_xlsxwriter_sheet() -> bytes:
    xlsxwriter = pytest.importorskip("xlsxwriter")
    import datetime

    stream = io.BytesIO()
    workbook = xlsxwriter.Workbook(stream)
    sheet = workbook.add_worksheet("Ships")
    date = workbook.add_format({"num_format": "yyyy-mm-dd"})
    for row, cells in enumerate((["id", "text", "built"], ["s1", PROSE[0]], ["s2", "a|b", 4.5], [], ["s3", True])):
        sheet.write_row(row, 0, cells)
    sheet.write_datetime(1, 2, datetime.datetime(1901, 2, 3), date)
    workbook.close()
    return stream.getvalue()


def make_sheet() -> bytes:
    def format_cell(text: str) -> str:
        return f'<c t="inlineStr"><is><t>{text}</t></is></c>'

    rows = "".join(
        f"<row>{cells}</row>"
        for cells in (
            format_cell("id") + format_cell("text") + format_cell("built"),
            format_cell("s1") + format_cell(PROSE[0]) + format_cell("1901-02-03"),
            format_cell("s2") + format_cell("a|b") + "<c><v>4.5</v></c>",
            "",
            format_cell("s3") + '<c t="b"><v>1</v></c>',
        )
    )
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    kinds = "http://schemas.openxmlformats.org/package/2006"
    kind = "application/vnd.openxmlformats-officedocument.spreadsheetml"
    return pack_parts(
        {
            "[Content_Types].xml": f'<Types xmlns="{kinds}/content-types"><Default Extension="xml" ContentType="application/xml"/>'
            f'<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
            f'<Override PartName="/xl/workbook.xml" ContentType="{kind}.sheet.main+xml"/>'
            f'<Override PartName="/xl/s.xml" ContentType="{kind}.worksheet+xml"/></Types>',
            "_rels/.rels": f'<Relationships xmlns="{kinds}/relationships"><Relationship Id="r1" Type="{office}/officeDocument" '
            'Target="xl/workbook.xml"/></Relationships>',
            "xl/workbook.xml": f'<workbook xmlns="{main}" xmlns:r="{office}"><sheets><sheet name="Ships" sheetId="1" r:id="r1"/>'
            "</sheets></workbook>",
            "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{kinds}/relationships"><Relationship Id="r1" '
            f'Type="{office}/worksheet" Target="s.xml"/></Relationships>',
            "xl/s.xml": f'<worksheet xmlns="{main}"><dimension ref="A1:ZZ1"/><sheetData>{rows}</sheetData></worksheet>',
        }
    )


@pytest.mark.parametrize("write_sheet", [make_openpyxl_sheet, make_xlsxwriter_sheet, make_sheet])
def test_a_sheet_is_a_table_or_its_rows_are_documents(write_sheet: Callable[[], bytes]) -> None:
    data = write_sheet()
    document = read_one(data, "a.xlsx")
    assert (document.key, document.title) == ("a.xlsx", "a: Ships")
    assert document.text == (
        f"| id | text | built |\n| --- | --- | --- |\n| s1 | {PROSE[0]} | 1901-02-03 |\n| s2 | a\\|b | 4.5 |\n"
        "| s3 | TRUE |\n"
    )
    rows = read_all(data, "a.xlsx", "rows", sheet="Ships")
    assert [(row.key, row.text, row.meta) for row in rows] == [
        ("s1", PROSE[0], {"built": "1901-02-03"}),
        ("s2", "a|b", {"built": 4.5}),
        ("s3", "TRUE", {}),
    ]
    with pytest.raises(ReaderError, match="no sheet 'Boats'; .* one of: Ships"):
        read_all(data, "a.xlsx", "rows", sheet="Boats")


def test_rows_of_one_cell_above_the_header_of_a_sheet_are_its_title() -> None:
    openpyxl = pytest.importorskip("openpyxl")
    import datetime

    workbook = openpyxl.Workbook()
    sheet = workbook.active
    sheet.title = "Ferry"
    for row in (["Ferry to Merrow"], [None, "from May"], ["id", "leaves", "full"], ["N1", datetime.time(6, 12), 0.07]):
        sheet.append(row)
    sheet["C4"].number_format = "0%"
    sheet.merge_cells("A1:C1")
    stream = io.BytesIO()
    workbook.save(stream)
    assert read_one(stream.getvalue(), "a.xlsx").text == (
        "Ferry to Merrow\n\nfrom May\n\n| id | leaves | full |\n| --- | --- | --- |\n| N1 | 06:12 | 7% |\n"
    )
    (row,) = read_all(stream.getvalue(), "a.xlsx", "rows")
    assert (row.key, row.text) == ("N1", "leaves: 06:12\nfull: 7%")


def test_a_list_with_a_remark_beside_an_item_keeps_its_header_and_rows() -> None:
    openpyxl = pytest.importorskip("openpyxl")
    workbook = openpyxl.Workbook()
    for row in (["Keeper"], ["Ada"], ["Bob", "on leave"], ["Eve"]):
        workbook.active.append(row)
    stream = io.BytesIO()
    workbook.save(stream)
    texts = [document.text for document in read_all(stream.getvalue(), "a.xlsx", "rows")]
    assert texts == ["Keeper: Ada", "Keeper: Bob\ncolumn 2: on leave", "Keeper: Eve"]


def test_a_literal_percent_sign_of_a_number_format_does_not_multiply() -> None:
    openpyxl = pytest.importorskip("openpyxl")
    workbook = openpyxl.Workbook()
    sheet = workbook.active
    for row in (["full", "empty", "rate"], [12.5, 0.5, 0.07]):
        sheet.append(row)
    sheet["A2"].number_format, sheet["B2"].number_format = '0.0"%"', r"0.0\%"
    sheet["C2"].number_format = '0%;"no %"'
    stream = io.BytesIO()
    workbook.save(stream)
    assert read_one(stream.getvalue(), "a.xlsx").text.endswith("| 12.5 | 0.5 | 7% |\n")


def make_sheet_of_number(value: float, number_format: str) -> bytes:
    openpyxl = pytest.importorskip("openpyxl")
    workbook = openpyxl.Workbook()
    for row in (["name", "amount"], ["A", value]):
        workbook.active.append(row)
    workbook.active["B2"].number_format = number_format
    stream = io.BytesIO()
    workbook.save(stream)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("value", "number_format", "text"),
    [
        (1200.5, "#,##0.00\\ [$€-407]", "1200.50 €"),
        (1200, '_("$"* #,##0.00_);_("$"* \\(#,##0.00\\)', "$1200"),
        (-7.25, "[$£-809]#,##0.00;[Red]-[$£-809]#,##0.00", "-£7.25"),
        (9.5, '0.0" kg"', "9.5 kg"),
        (1067, "00000", "01067"),
        (1234567, '0.0,,"M"', "1234567"),
        (1234567, "0.00E+00", "1234567"),
        (12.5, "0.000", "12.5"),
        (3, '0 "m_s*x"', "3 m_s*x"),  # in quotes, these are no layout
        (3, '0 "a;b"', "3 ab"),
        (-5, '+0" kg";-0" kg"', "-5 kg"),
    ],
)
def test_a_number_in_a_sheet_has_its_unit_and_leading_zeros(value: float, number_format: str, text: str) -> None:
    data = make_sheet_of_number(value, number_format)
    assert read_one(data, "a.xlsx").text.endswith(f"| A | {text} |\n")
    (row,) = read_all(data, "a.xlsx", "rows")
    assert row.meta["amount"] == value  # still a number, for conditions such as ``amount > 5``


@pytest.mark.parametrize(
    ("value", "number_format", "text"),
    [
        (8 / 3, "0.00", "2.67"),
        (8 / 3, "$#,##0.0", "$2.7"),
        (-8 / 3, "0.0_);(0.0)", "-2.7"),
        (1 / 3, "General", "0.333333333333333"),
        (1 / 3, "# ?/?", "0.333333333333333"),
        (2.6666667, "0.00", "2.6666667"),  # as entered
        (1.234567890123e-14, "0.00", "0"),
        (12345678901.25, "#,##0.00", "12345678901.25"),
    ],
)
def test_a_long_number_in_a_sheet_is_rounded_to_the_decimals_of_its_format(
    value: float, number_format: str, text: str
) -> None:
    data = make_sheet_of_number(value, number_format)
    assert read_one(data, "a.xlsx").text.endswith(f"| A | {text} |\n")
    (row,) = read_all(data, "a.xlsx", "rows")
    assert float(row.meta["amount"]) == pytest.approx(value, rel=1e-14)


@pytest.mark.parametrize(
    ("number_format", "text"),
    [('0% "of sales"', "50% of sales"), ('"about "0%', "about 50%"), ("+0%;-0%", "50%"), ('[=0]"-";0%', "50%")],
)
def test_a_percentage_in_a_sheet_has_the_words_around_it(number_format: str, text: str) -> None:
    assert read_one(make_sheet_of_number(0.5, number_format), "a.xlsx").text.endswith(f"| A | {text} |\n")


def test_a_percentage_in_a_sheet_has_the_decimals_of_its_format() -> None:
    openpyxl = pytest.importorskip("openpyxl")
    workbook = openpyxl.Workbook()
    for row in (["name", "share"], ["A", 1 / 3], ["B", 0.125]):
        workbook.active.append(row)
    workbook.active["B2"].number_format, workbook.active["B3"].number_format = "0.0%", "0%"
    stream = io.BytesIO()
    workbook.save(stream)
    assert read_one(stream.getvalue(), "a.xlsx").text.endswith("| A | 33.3% |\n| B | 12.5% |\n")
    rows = read_all(stream.getvalue(), "a.xlsx", "rows")
    assert [row.meta["share"] for row in rows] == ["33.3333333333%", "12.5%"]


@pytest.mark.parametrize(
    ("date_format", "text"),
    [
        ("mmm yyyy", "2026-03"),
        ("[$-809]mmmm\\ yy", "2026-03"),
        ("mmm-yy", "2026-03"),
        ('yyyy"d"', "2026"),
        ("dddd d mmmm", "2026-03-01"),
        ("ddd", "2026-03-01"),
        ("mm/yyyy hh:mm", "2026-03-01"),
    ],
)
def test_a_date_in_a_sheet_has_no_day_that_its_format_omits(date_format: str, text: str) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    import datetime

    workbook = openpyxl.Workbook()
    for row in (["name", "from"], ["A", datetime.date(2026, 3, 1)]):
        workbook.active.append(row)
    workbook.active["B2"].number_format = date_format
    stream = io.BytesIO()
    workbook.save(stream)
    assert read_one(stream.getvalue(), "a.xlsx").text.endswith(f"| A | {text} |\n")


def test_the_exponent_of_a_number_in_a_sheet_is_not_padded_with_zeros() -> None:
    openpyxl = pytest.importorskip("openpyxl")
    workbook = openpyxl.Workbook()
    for row in (["name", "amount"], ["A", 1.5e-7]):
        workbook.active.append(row)
    workbook.active["B2"].number_format = '"$"0.00000000'
    stream = io.BytesIO()
    workbook.save(stream)
    assert read_one(stream.getvalue(), "a.xlsx").text.endswith("| A | $1.5e-07 |\n")


def test_a_duration_in_a_sheet_is_read_as_hours_and_minutes() -> None:
    openpyxl = pytest.importorskip("openpyxl")
    workbook = openpyxl.Workbook()
    for row in (["worked", "rest"], [timedelta(hours=26, minutes=5), timedelta(seconds=30)]):
        workbook.active.append(row)
    stream = io.BytesIO()
    workbook.save(stream)
    assert read_one(stream.getvalue(), "a.xlsx").text.endswith("| 26:05 | 0:00:30 |\n")


def test_a_title_below_an_empty_row_of_a_sheet_begins_another_table() -> None:
    openpyxl = pytest.importorskip("openpyxl")
    workbook = openpyxl.Workbook()
    for row in (["Item", "Cost"], ["Rent", 9], [], ["Total", 9], [], ["Staff"], ["Name", "Hours"], ["Ivo", 37.5]):
        workbook.active.append(row)
    stream = io.BytesIO()
    workbook.save(stream)
    assert read_one(stream.getvalue(), "a.xlsx").text == (
        "| Item | Cost |\n| --- | --- |\n| Rent | 9 |\n| Total | 9 |\n\nStaff\n\n"
        "| Name | Hours |\n| --- | --- |\n| Ivo | 37.5 |\n"
    )
    for name, title in (("Tabelle1", "a"), ("Sheet", "a"), ("Costs", "a: Costs")):
        workbook.active.title = name
        stream = io.BytesIO()
        workbook.save(stream)
        assert read_one(stream.getvalue(), "a.xlsx").title == title


def make_workbook(*rows: list[Any]) -> bytes:
    openpyxl = pytest.importorskip("openpyxl")
    workbook = openpyxl.Workbook()
    for row in rows:
        workbook.active.append(row)
    stream = io.BytesIO()
    workbook.save(stream)
    return stream.getvalue()


@pytest.mark.parametrize("gap", [(), ([],)])
def test_a_form_above_the_table_of_a_sheet_and_notes_below_it_become_paragraphs(gap: tuple[list[Any], ...]) -> None:
    data = make_workbook(
        ["Time sheet"],
        ["Name:", "Ada", None, "Week:", 10],
        ["Approved:"],
        ["Rate:", 19.5],
        *gap,
        ["Date", "Start", "Hours"],
        ["2 March", "09:00", 7],
        ["Total", None, 7],
        [],
        ["Signed by Ivo Dool"],
        ["In two copies."],
    )
    assert read_one(data, "a.xlsx").text == (
        "Time sheet\n\nName: Ada\n\nWeek: 10\n\nApproved:\n\nRate: 19.5\n\n"
        "| Date | Start | Hours |\n| --- | --- | --- |\n| 2 March | 09:00 | 7 |\n| Total |  | 7 |\n\n"
        "Signed by Ivo Dool\n\nIn two copies.\n"
    )
    assert read_all(data, "a.xlsx", "rows")[0].text == "Date: 2 March\nStart: 09:00\nHours: 7"


def test_a_sheet_that_is_a_form_has_no_table() -> None:
    data = make_workbook(["Name:", "Ada"], ["Role:", "keeper"])
    assert read_one(data, "a.xlsx").text == "Name: Ada\n\nRole: keeper\n"
    assert read_one(make_workbook(["Name:", "Ada"], ["Date", "Start", "End"], ["2 May", 9, 12]), "a.xlsx").text == (
        "Name: Ada\n\n| Date | Start | End |\n| --- | --- | --- |\n| 2 May | 9 | 12 |\n"
    )


@pytest.mark.parametrize(
    "rows",
    [
        [["Item", "Cost"], ["Rent:", 9], ["Heat:", 3]],  # labels below a header
        [["Question:", "Answer"], ["Who?", "Ada"], ["When?", "in May"]],  # a header with a colon
        [["Name:", "Role"], ["Ada", "keeper", "on leave"], ["Ivo", "cook"]],  # with a remark beside a row
        [["Name:", "Age:"], ["Ada", 9], ["Ivo", 12]],
        [["Name", "Phone 1"], ["Ada", "0301 44"], ["Ivo", "0302 7"]],  # a header with digits
        [["Name", "Ada"], [], ["Date", "Start", "End"], ["2 May", 9, 12]],  # perhaps a table
        [["Item", "Cost"], ["Rent", 9], [], ["Heating"], [], ["Total", 12]],  # gaps
        [["Item", "Cost"], ["Rent", 9], [], ["Heating"]],
        [["Item", "Cost", "Sum"], ["Rent", 9, 9], [], ["", "", "12 in all"]],  # a total in its column
        [["Keeper"], ["Ada Byron"], [], ["Ivo Dool"]],  # a table of one column
    ],
)
def test_a_table_without_a_form_or_notes_keeps_its_header_and_rows(rows: list[list[Any]]) -> None:
    texts = [" | ".join(str(cell) for cell in row) for row in rows if row]
    lines = read_one(make_workbook(*rows), "a.xlsx").text.splitlines()
    assert [line.strip("| ") for line in lines if "---" not in line] == [text.strip("| ") for text in texts]


def make_merged_workbook(rows: list[list[Any]], *ranges: str) -> bytes:
    openpyxl = pytest.importorskip("openpyxl")
    workbook = openpyxl.Workbook()
    for row in rows:
        workbook.active.append(row)
    for cell_range in ranges:
        workbook.active.merge_cells(cell_range)
    stream = io.BytesIO()
    workbook.save(stream)
    return stream.getvalue()


def make_ods(tables: str, styles: str = "") -> bytes:
    content = (
        f'<?xml version="1.0"?><office:document-content {ODF}><office:automatic-styles>{styles}</office:automatic-styles>'
        f"<office:body><office:spreadsheet>{tables}</office:spreadsheet></office:body></office:document-content>"
    )
    return pack_parts({"mimetype": "application/vnd.oasis.opendocument.spreadsheet", "content.xml": content})


def make_merged_table(rows: list[list[Any]], spans: dict[tuple[int, int], tuple[int, int]]) -> str:
    """Return a table as LibreOffice writes it; ``spans`` has the rows and columns of merged cells by position."""
    covered = {
        (row + below, column + right)
        for (row, column), (num_rows, num_columns) in spans.items()
        for below in range(num_rows)
        for right in range(num_columns)
    } - set(spans)

    def make_cell(row: int, column: int, value: Any) -> str:
        if (row, column) in covered:
            return "<table:covered-table-cell/>"
        num_rows, num_columns = spans.get((row, column), (1, 1))
        span = f" table:number-rows-spanned='{num_rows}' table:number-columns-spanned='{num_columns}'"
        text = "" if value is None else f"<text:p>{value}</text:p>"
        return f"<table:table-cell{span if (row, column) in spans else ''}>{text}</table:table-cell>"

    table_rows = "".join(
        f"<table:table-row>{''.join(make_cell(row, column, value) for column, value in enumerate(values))}</table:table-row>"
        for row, values in enumerate(rows)
    )
    return f"<table:table table:name='Sales'>{table_rows}</table:table>"


@pytest.mark.parametrize("suffix", ["xlsx", "ods"])
def test_the_value_of_merged_cells_of_a_sheet_belongs_to_each_of_their_rows(suffix: str) -> None:
    rows = [["Team", "Name", "Room"], ["Keepers", "Ada", 4], [None, "Ivo", None], [None] * 3, ["Cooks", "Bea", 5]]
    if suffix == "xlsx":
        data = make_merged_workbook(rows, "A2:A4", "C2:C3")
    else:
        data = make_ods(make_merged_table(rows, {(1, 0): (3, 1), (1, 2): (2, 1)}))
    assert read_one(data, f"a.{suffix}").text == (
        "| Team | Name | Room |\n| --- | --- | --- |\n| Keepers | Ada | 4 |\n| Keepers | Ivo | 4 |\n| Cooks | Bea | 5 |\n"
    )
    assert read_all(data, f"a.{suffix}", "rows")[1].text == "Team: Keepers\nName: Ivo\nRoom: 4"


@pytest.mark.parametrize("suffix", ["xlsx", "ods"])
@pytest.mark.parametrize("is_merged", [True, False])
def test_a_header_of_groups_in_a_sheet_becomes_one_row(suffix: str, is_merged: bool) -> None:
    upper = ["Region", "Sales", None, "Costs", None] if is_merged else [None, "Sales", None, "Costs", None]
    lower = [None if is_merged else "Region", "2025", "2026", "2025", "2026"]
    rows = [["Report"], upper, lower, ["North", 7, 8, 3, 4], ["South", 5, 6, 1, 2]]
    if suffix == "xlsx":
        data = make_merged_workbook(rows, "B2:C2", "D2:E2", *(["A2:A3"] if is_merged else []))
    else:
        spans = {(1, 1): (1, 2), (1, 3): (1, 2), **({(1, 0): (2, 1)} if is_merged else {})}
        data = make_ods(make_merged_table(rows, spans))
    assert read_one(data, f"a.{suffix}").text == (
        "Report\n\n| Region | Sales / 2025 | Sales / 2026 | Costs / 2025 | Costs / 2026 |\n"
        "| --- | --- | --- | --- | --- |\n| North | 7 | 8 | 3 | 4 |\n| South | 5 | 6 | 1 | 2 |\n"
    )
    row = read_all(data, f"a.{suffix}", "rows")[1]
    assert row.text == "Region: South\nSales / 2025: 5\nSales / 2026: 6\nCosts / 2025: 1\nCosts / 2026: 2"


def test_a_wide_cell_in_the_header_of_a_sheet_does_not_take_data_for_names() -> None:
    rows = [["No", "Name", None], [1, "Ada", "Byron"], [2, "Ivo", "Dool"]]
    assert read_one(make_merged_workbook(rows, "B1:C1"), "a.xlsx").text == (
        "| No | Name |  |\n| --- | --- | --- |\n| 1 | Ada | Byron |\n| 2 | Ivo | Dool |\n"
    )
    rows[0][0] = None
    assert read_one(make_merged_workbook(rows, "B1:C1"), "a.xlsx").text.startswith("Name\n\n| 1 |")


def test_merged_cells_of_a_sheet_are_repeated_within_limits() -> None:
    rows: list[list[Any]] = [["Team", "No"], ["x" * 30_000, 1], *([None, number] for number in range(1000))]
    text = read_one(make_merged_workbook(rows, "A2:A1048576", "B2:XFD2"), "a.xlsx").text
    assert text.count("\n") == 1003
    assert 1_000_000 < len(text) < 5_000_000
    table = (
        "<table:table table:name='a'><table:table-row><table:table-cell table:number-rows-spanned='x' "
        "table:number-columns-spanned='99999999999'><text:p>a</text:p></table:table-cell></table:table-row></table:table>"
    )
    assert read_one(make_ods(table), "a.ods").text == "| a |\n| --- |\n"


def test_hidden_sheets_of_opendocument_are_left_out_unless_all_are_hidden_or_rows_name_one() -> None:
    def make_sheets(*is_shown: bool) -> bytes:
        styles = "".join(
            f"<style:style style:name='ta{number}' style:family='table'>"
            f"<style:table-properties table:display='{str(shown).lower()}'/></style:style>"
            for number, shown in enumerate(is_shown)
        )
        cells = "<table:table-cell><text:p>{0}</text:p></table:table-cell><table:table-cell><text:p>b</text:p></table:table-cell>"
        tables = "".join(
            f"<table:table table:name='{name}' table:style-name='ta{number}'><table:table-row>"
            f"{cells.format('Fee of ' + name)}</table:table-row><table:table-row>{cells.format('9')}</table:table-row></table:table>"
            for number, name in enumerate(("Old", "New"))
        )
        return make_ods(tables, styles)

    assert [document.title for document in read_all(make_sheets(False, True), "a.ods")] == ["a: New"]
    assert [document.key for document in read_all(make_sheets(False, False), "a.ods")] == ["a.ods/Old", "a.ods/New"]
    assert read_all(make_sheets(False, True), "a.ods", "rows")[0].text.startswith("Fee of New: 9")
    assert read_all(make_sheets(False, True), "a.ods", "rows", sheet="Old")[0].text.startswith("Fee of Old: 9")


@pytest.mark.parametrize("state", ["hidden", "veryHidden"])
def test_hidden_sheets_are_left_out_unless_all_are_hidden_or_rows_name_one(state: str) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    workbook = openpyxl.Workbook()
    workbook.active.append(["Old fee", "Class"])
    workbook.active.append([9, "Harp"])
    workbook.active.title, workbook.active.sheet_state = "Old", state
    sheet = workbook.create_sheet("Fees")
    sheet.append(["Fee", "Class"])
    sheet.append([10, "Harp"])
    workbook.active = 1
    stream = io.BytesIO()
    workbook.save(stream)
    document = read_one(stream.getvalue(), "a.xlsx")
    assert (document.key, document.title) == ("a.xlsx", "a: Fees")
    (row,) = read_all(stream.getvalue(), "a.xlsx", "rows")
    assert row.text == "Fee: 10\nClass: Harp"
    (row,) = read_all(stream.getvalue(), "a.xlsx", "rows", sheet="Old")
    assert row.text == "Old fee: 9\nClass: Harp"

    with zipfile.ZipFile(stream) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    parts["xl/workbook.xml"] = parts["xl/workbook.xml"].replace(b'"visible"', f'"{state}"'.encode())
    assert [document.key for document in read_all(pack_parts(parts), "a.xlsx")] == ["a.xlsx/Old", "a.xlsx/Fees"]


@pytest.mark.parametrize(
    "markup",
    [
        r"{\rtf1\ansi\ansicpg1252{\fonttbl{\f0 Arial;}}{\info{\title The Keeper}}\f0 Keepers wrote.\par \'dcber alles\par}",
        r"{\rtf1\ansi\uc1{\info{\title The Keeper}{\author A}}{\stylesheet{\s1 heading;}}\pard Keepers wrote.\par\u220?ber alles\par }",
        "{\\rtf1\\mac\\ansicpg10000\n{\\info{\\title The Keeper}}\n{\\*\\generator X;}\nKeepers wrote.\\par\n\\'86ber alles\\par}",
        r"{\rtf1\ansi\deff0{\colortbl;\red0\green0\blue0;}{\info {\title The Keeper}}{\b Keepers} wrote.\par {\i\'dcber} alles}",
        r"{\rtf1\ansi\ansicpg1252{\info{\title The Keeper}}{\*\bkmkstart a}Keepers wrote.{\*\bkmkend a}\line\par \'dcber alles\par\par}",
    ],
)
def test_rich_text_becomes_paragraphs(markup: str) -> None:
    document = read_one(markup, "a.rtf")
    assert (document.title, document.format) == ("The Keeper", "text")
    assert document.text == "Keepers wrote.\n\nÜber alles\n"


def test_rich_text_without_a_title_has_that_of_its_first_line_and_aligned_tables() -> None:
    row = r"\trowd\cellx2000\cellx4000\intbl {}\cell {}\cell\row"
    rows = row.format("Floor", "Contact") + row.format("Third", "Delphine Marsh")
    document = read_one(
        rf"{{\rtf1\ansi\b Notice to tenants\b0\par The lift is out of service.\par {rows}\pard}}", "a.rtf"
    )
    assert document.title == "Notice to tenants"
    assert document.text == (
        "Notice to tenants\n\nThe lift is out of service.\n\nFloor   Contact\nThird   Delphine Marsh\n"
    )


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        (r"Pay {\strike half }forty per cent.", "Pay ~~half~~ forty per cent."),
        (
            r"Pay \strike\b h\u228 ?lf.\b0  In May.\strike0  Or \striked1 June\plain  July.",
            "Pay ~~hälf.~~ ~~In May.~~ Or ~~June~~ July.",
        ),
        (r"It {\deleted was \u8220?gone\rquote\~}{\b stays}.{\v See {\b here}}", "It stays."),
        (r"{\v hidden\v0  not }now{\*\bkmkstart a}{\pict\bin3 }{\}.", "not now."),
        (r"{\strike Half\cell Full}\cell\row", "~~Half~~   ~~Full~~"),
    ],
)
def test_hidden_and_deleted_rich_text_is_left_out_and_struck_out_text_is_marked(markup: str, text: str) -> None:
    assert read_one(rf"{{\rtf1\ansi First.\par {markup}\par}}", "a.rtf").text == f"First.\n\n{text}\n"


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (r"{\pntext 1.\tab}", "1. One."),
        (r"{\pntext\pard\plain\f0 (b)\tab}", "(b) One."),
        (r"{\listtext 2.\tab}{\pntext 2.\tab}", "2. One."),
        (r"{\pntext\f1\'B7\tab}", "One."),
    ],
)
def test_an_old_list_number_of_rich_text_is_read_once(number: str, text: str) -> None:
    assert read_one(rf"{{\rtf1\ansi First.\par {number}One.\par}}", "a.rtf").text == f"First.\n\n{text}\n"


def test_an_empty_cell_of_rich_text_is_no_paragraph() -> None:
    empty_row = r"\trowd\cellx2000\intbl \cell\row"
    assert read_one(rf"{{\rtf1\ansi First.\par{empty_row}\pard Second.\par}}", "a.rtf").text == "First.\n\nSecond.\n"
    with pytest.raises(ReaderError, match="has no text"):
        read_one(rf"{{\rtf1\ansi{empty_row}}}", "a.rtf")


# --- mail ------------------------------------------------------------------------------------------------------------


def make_message(**headers: str) -> EmailMessage:
    mail = EmailMessage()
    for name, value in {"Subject": "Ships", "From": "Ada <a@x.org>", "To": "b@x.org", **headers}.items():
        mail[name.replace("_", "-")] = value
    return mail


def test_a_mail_has_its_headers_as_metadata_and_marks_quotations_and_signatures() -> None:
    mail = make_message(Message_ID="<m1@x.org>", Date="Fri, 01 Mar 2024 10:00:00 +0100", In_Reply_To="<m0@x.org>")
    mail.set_content(
        f"Dear Bea,\n{PROSE[1]}\n\nOn Monday Bea wrote:\n> {PROSE[0]}\n> > older\n\n- one\n- two\n\n-- \nAda\n#1 Street\n"
    )
    document = read_one(mail.as_bytes(), "inbox/1.eml")
    assert (document.key, document.title) == ("m1@x.org", "Ships")
    assert document.meta == {
        "from": "Ada <a@x.org>",
        "to": "b@x.org",
        "in_reply_to": "m0@x.org",
        "date": "2024-03-01T10:00:00+01:00",
    }
    assert document.text == (
        "From: Ada <a@x.org>\n\nDate: Fri, 01 Mar 2024 10:00:00 +0100\n\n"
        f"Dear Bea,\n{PROSE[1]}\n\nOn Monday Bea wrote:\n\n> {PROSE[0]}\n>\n> > older\n\n- one\n- two\n\n"
        "> Signature:\n> Ada\n> #1 Street\n"
    )


def read_body(body: str) -> str:
    """Return the text of a mail without the lines of its headers."""
    mail = make_message()
    mail.set_content(body)
    return read_one(mail.as_bytes(), "a.eml").text.removeprefix("From: Ada <a@x.org>\n\n")


def test_a_reply_comes_before_the_message_it_quotes() -> None:
    reply = "Yes, at nine.\n\n-- \nAda"
    after = "Yes, at nine.\n\n> Signature:\n> Ada\n\n"
    assert read_body(f"On Monday Bea wrote:\n> Are you there?\n\n{reply}") == (
        f"{after}On Monday Bea wrote:\n\n> Are you there?\n"
    )
    assert read_body(f"> Are you there?\n\n{reply}") == f"{after}Quoted message:\n\n> Are you there?\n"


def test_answers_stay_below_the_questions_that_they_quote() -> None:
    assert read_body("> Who?\n\nAda.\n\n> When?\n\nAt nine.") == "> Who?\n\nAda.\n\n> When?\n\nAt nine.\n"
    assert read_body("> Only a quotation.") == "> Only a quotation.\n"


@pytest.mark.slow
def test_sender_and_date_of_a_mail_are_answered(store: kvstore.Store, tmp_path: Path) -> None:
    for number, (name, subject) in enumerate((("Ada Bell", "The pump"), ("Ben Reid", "The boat"))):
        mail = make_message(
            Message_ID=f"<{number}@x>", Subject=subject, Date=f"Fri, 0{number + 1} Mar 2024 10:00:00 +0100"
        )
        mail.replace_header("From", f"{name} <{name[:3].lower()}@x.org>")
        mail.set_content(f"It was seen on the pier, {subject.lower()} of ours.")
        (tmp_path / f"{number}.eml").write_bytes(mail.as_bytes())
    store.ingest(tmp_path)
    store.set("least_confidence", 0)
    assert "Ada Bell" in store.ask("Who wrote of the pump?").text
    assert store.ask("Who wrote of the boat?").citations[0].document == "1@x"
    assert [place.document for place in store.lookup("Ben Reid")] == ["1@x"]


def test_attachments_are_read_by_their_suffixes_and_bad_ones_fail_alone() -> None:
    mail = make_message()
    mail.set_content("See these.")
    mail.add_alternative("<p>See <b>these</b>.</p>", subtype="html")
    mail.add_attachment("# Plan\n\nText.", filename="plan.md")
    mail.add_attachment(b"\x89PNG", maintype="image", subtype="png", filename="a.png")
    mail.add_attachment(b"%PDF-broken", maintype="application", subtype="pdf", filename="../b.pdf")
    inner = make_message(Subject="Inner", Message_ID="<i@x>")
    inner.set_content("Forwarded.")
    mail.add_attachment(inner)
    items = read_all(mail.as_bytes(), "m.eml")
    documents = [item for item in items if isinstance(item, RawDocument)]
    assert [(document.key, document.title, document.text) for document in documents] == [
        ("m.eml", "Ships", "From: Ada <a@x.org>\n\nSee these.\n"),
        ("m.eml/plan.md", "Plan", "# Plan\n\nText.\n"),
        ("i@x", "Inner", "From: Ada <a@x.org>\n\nForwarded.\n"),
    ]
    assert documents[0].meta["attachments"] == ["plan.md", "a.png", "b.pdf", "message.eml"]
    assert documents[1].meta == {"attached_to": "m.eml"}
    assert list_skipped(items) == {"m.eml/a.png": "suffix .png"}
    (failure,) = [item for item in items if isinstance(item, ReadFailure)]
    assert failure.place == "m.eml/b.pdf" and "not PDF" in failure.reason


@pytest.mark.parametrize(
    "raw",
    [
        b"Subject: =?utf-8?q?S=C3=BCd?=\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: "
        b"quoted-printable\r\n\r\nZw=C3=B6lf Sch=\r\niffe\r\n",
        b"Subject: =?windows-1252?B?U/xk?=\nContent-Type: text/plain; charset=windows-1252\n\nZw\xf6lf Schiffe\n",
        "Subject: Süd\nContent-Type: text/plain; charset=unknown-8bit\n\nZwölf Schiffe\n".encode(),
        b"Subject: =?utf-8?b?U8O8ZA==?=\nContent-Type: text/html; charset=utf-8\n\n<p>Zw&ouml;lf <i></i>Schiffe\n",
        b"Subject: =?utf-8?b?U8O8ZA==?=\nContent-Type: text/plain; charset=utf-8; format=flowed\n\nZw\xc3\xb6lf \nSchiffe\n",
    ],
)
def test_the_words_of_a_mail_of_any_program_are_read(raw: bytes) -> None:
    document = read_one(raw, "a.eml")
    assert (document.title, document.text) == ("Süd", "Zwölf Schiffe\n")


def test_the_same_mail_in_two_files_is_one_document_and_another_of_its_id_is_kept(
    tmp_path: Path, make_store: Callable[..., Any]
) -> None:
    def make_mail(text: str, attached: str = "") -> bytes:
        message = make_message(Message_ID="<1@x>")
        message.set_content(text)
        if attached:
            message.add_attachment(attached, filename="plan.txt")
        return message.as_bytes()

    def list_keys() -> list[str]:
        return [key for (key,) in store.execute("SELECT key FROM documents ORDER BY key")]

    folder = tmp_path / "mail"
    folder.mkdir()
    (folder / "b.eml").write_bytes(make_mail("The boat is late."))
    with make_store() as store:
        assert store.ingest(folder, workers=0).added == 1
        # Another file before it holds the same mail, in other headers; a third one other words under the same id.
        (folder / "a.eml").write_bytes(b"Received: by x\n" + make_mail("The boat is late."))
        (folder / "c.eml").write_bytes(make_mail("The boat is here.", "Unload it."))
        (folder / "d.mbox").write_bytes(
            b"".join(b"From a 10:00\n" + make_mail(text) + b"\n" for text in ("The boat is late.", "Gone.", "Gone."))
        )
        for _ in range(3):
            report = store.ingest(folder, workers=0)
            assert report.failures == []
            assert list_keys() == ["1@x", "1@x/plan.txt", "c.eml", "d.mbox:2", "d.mbox:3"][: len(list_keys())]
        assert report.skips == "2 the same document again"
        assert store.get("c.eml").text == "From: Ada <a@x.org>\n\nThe boat is here.\n"
        assert store.get("1@x").source.endswith("a.eml")
        # The first file goes: what it held is still there, from the next one that has it.
        (folder / "a.eml").unlink()
        assert store.ingest(folder, prune=True, workers=0).failures == []
        assert store.get("1@x").source.endswith("b.eml") and "c.eml" in list_keys()
        fresh_store = make_store("fresh")
        fresh_store.ingest(folder, workers=0)
        assert list(fresh_store.dump()) == list(store.dump())


@pytest.mark.slow
def test_a_mail_forwarded_any_number_of_times_is_read() -> None:
    text = "".join(f"--- Original Message ---\n\nround {number}\n\n" for number in range(2000))
    document = read_one(f"Subject: x\n\n{text}", "a.eml")
    assert compute_common_share(text, document.text) == 1


def test_a_mailbox_is_cut_into_messages() -> None:
    first_mail, second_mail = make_message(Message_ID="<1@x>"), make_message(Subject="Two")
    first_mail.set_content("One.\n\n>From the deck\n")
    second_mail.set_content("Two.")
    data = (
        b"From a@x Mon\n"
        + first_mail.as_bytes()
        + b"\nFrom b@x Tue Mar  5 10:00:00 2024\nno header at all\n\nFrom b@x Tue\n"
        + second_mail.as_bytes()
    )
    items = read_all(data, "all.mbox")
    assert [(item.key, item.text) for item in (items[0], items[2])] == [
        ("1@x", "From: Ada <a@x.org>\n\nOne.\n\nFrom the deck\n"),
        ("all.mbox:3", "From: Ada <a@x.org>\n\nTwo.\n"),
    ]
    assert items[1].place == "all.mbox, message 2" and "not mail" in items[1].reason


def make_mail_parts(number: int) -> str:
    part = "--x\nContent-Type: text/plain\n\nHello.\n"
    return "Subject: x\nContent-Type: multipart/mixed; boundary=x\n\n" + part * number + "--x--\n"


def make_nested_mail(depth: int) -> str:
    heads = (f"Content-Type: multipart/mixed; boundary=x{level}\n\n--x{level}\n" for level in range(depth))
    return f"Subject: x\n{''.join(heads)}Content-Type: text/plain\n\nHello.\n"


@pytest.mark.parametrize(
    ("data", "limit"),
    [
        (f"Subject: x\nContent-Type: {chr(34) * 30_000}\n\nHello.\n", "4,096; shorten it"),
        (f"Subject: x\nContent-Disposition: attachment; filename={chr(34) * 30_000}\n\nHello.\n", "4,096; shorten it"),
        (f"Subject: {'=?utf-8?q?a?= ' * 15_000}\n\nHello.\n", "4,096; shorten it"),
        (f"Subject: x\nTo: {', '.join(f'a{n}@b.c' for n in range(200_000))}\n\nHello.\n", "262,144; shorten it"),
        (make_mail_parts(10_001), "more than 10,000 parts, the limit for a message; split it"),
        (make_nested_mail(51), "nests parts more than 50 levels deep, the limit for a message; unpack it"),
    ],
    ids=["Content-Type", "Content-Disposition", "Subject", "To", "parts", "depth"],
)
def test_a_mail_beyond_a_limit_is_refused_and_its_neighbours_in_a_file_are_read(data: str, limit: str) -> None:
    with pytest.raises(ReaderError, match=re.escape(limit)):
        read_all(data, "a.eml")
    mails = ("Subject: y\n\nHello.\n", data, "Subject: z\n\nHello.\n")
    first_mail, failure, last_mail = read_all("".join(f"From a 10:00\n{mail}\n" for mail in mails), "all.mbox")
    assert (first_mail.title, last_mail.title) == ("y", "z")
    assert isinstance(failure, ReadFailure) and limit in failure.reason


@pytest.mark.slow
def test_a_mail_within_its_limits_has_all_its_parts_and_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_one(make_mail_parts(3000), "a.eml").text.count("Hello.") == 3000
    assert read_one(make_nested_mail(49), "a.eml").text == "Hello.\n"
    names = [f'"Lee, Ann {number}" <ann{number}@x.org>' for number in range(5000)]
    parsed: list[int] = []
    parse = mail_parser.policy.default.header_fetch_parse

    def record_call(self: object, name: str, value: str) -> object:
        parsed.append(len(value))
        return parse(name, value)

    monkeypatch.setattr(type(mail_parser.policy.default), "header_fetch_parse", record_call)
    mail = f"Subject: x\nTo: {', '.join(names)}, {chr(34) * 20_000}\n\nHello.\n"
    to = read_one(mail, "a.eml").meta["to"]
    assert str(to).startswith(", ".join(names)) and str(to).endswith('"' * 20_000)
    # The parser's time grows with the square of what it gets at once.
    assert max(parsed) <= 998 and sum(parsed) <= len(mail)
    parsed.clear()
    strange = [*['"' * 990] * 130, *["("] * 65_000]
    to = read_one(f"Subject: x\nTo: {','.join(strange)}\n\nHello.\n", "a.eml").meta["to"]
    assert str(to).endswith(", ".join(strange[100:]))
    assert sum(length**2 + 1000 for length in parsed) < 40_000_000


@pytest.mark.parametrize("field", ["Content-Disposition", "Content-Transfer-Encoding", "Content-Type"])
def test_a_mail_field_of_nested_comments_does_not_exhaust_the_stack(field: str) -> None:
    part = f"--x\n{field}: {'(' * 4_000}\n\nHello.\n"
    data = f"Subject: x\nContent-Type: multipart/mixed; boundary=x\n\n{part}--x--\n"
    assert [item.title for item in read_all(data, "a.eml") if isinstance(item, RawDocument)] == ["x"]


def test_a_long_list_of_mail_addresses_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    parse = mail_parser.policy.default.header_fetch_parse
    parsed: list[str] = []

    def record_call(self: object, name: str, value: str) -> object:
        parsed.append(value)
        return parse(name, value)

    monkeypatch.setattr(type(mail_parser.policy.default), "header_fetch_parse", record_call)
    others = ["'Dr. Who' <who@x.org>", "<b@x.org>", '"Lee, Ann" <c.d@x.org>', "Jo =?utf-8?q?B=C3=A4r?= <e@x.org>"]
    addresses = [f"a{number}@x.org" for number in range(100)] + ["Ann Lee <ann.lee@x-y.org>", *others]
    mail = read_one(f"From: {', '.join(addresses)}\nSubject: x\n\nHello.\n", "a.eml")
    expected = ", ".join(str(parse("from", address)) for address in addresses)
    assert mail.meta["from"] == expected and f"From: {expected}\n" in mail.text.replace("\\", "")
    # Both the metadata and the text need the field, and plain addresses need no parser.
    assert [value for value in parsed if "@" in value] == others


def test_each_line_of_flowed_text_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    depth = text_reader.get_quote_depth
    lengths: list[int] = []

    def record_call(line: str) -> int:
        lengths.append(len(line))
        return depth(line)

    monkeypatch.setattr(text_reader, "get_quote_depth", record_call)
    text = "word \n" * 20_000 + "end\n> quoted \n> words\n"
    assert text_reader.join_flowed_lines(text) == "word " * 20_000 + "end\n> quoted words\n"
    assert sum(lengths) <= len(text)


def test_markup_that_is_never_closed_is_scanned_once() -> None:
    for opening in ("<style><!--", "<!--", "<a "):
        markup = f"Hello {opening * 1000}"
        assert [match.span() for match in mail_messages._MARKUP_PATTERN.finditer(markup)] == [(6, len(markup))]
    data = (
        "Subject: x\nContent-Type: multipart/alternative; boundary=x\n\n--x\nContent-Type: text/plain\n\nHello.\n"
        f"--x\nContent-Type: text/html\n\n<head><title>T</title></head>Hello <b>there</b>. {'<style><!--' * 100}\n--x--\n"
    )
    assert read_one(data, "a.eml").text == "Hello.\n"


def test_files_of_one_name_are_numbered_without_trying_every_number() -> None:
    part = "--x\nContent-Disposition: attachment; filename=a.bin\n\nx\n"
    data = f"Subject: x\nContent-Type: multipart/mixed; boundary=x\n\n{part * 5000}--x--\n"
    document = read_all(data, "a.eml")[0]
    assert document.meta["attachments"][::2499] == ["a.bin", "a-2500.bin", "a-4999.bin"]


def test_a_part_of_a_book_that_several_items_name_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = range(1000)
    items = "".join(f'<item id="i{n}" href="a.xhtml" media-type="application/xhtml+xml"/>' for n in numbers)
    spine = "".join(f'<itemref idref="i{n}"/>' for n in numbers)
    package = (
        f'<package xmlns="http://www.idpf.org/2007/opf"><manifest>{items}</manifest><spine>{spine}</spine></package>'
    )
    container = '<container><rootfiles><rootfile full-path="c.opf"/></rootfiles></container>'
    parts = {"META-INF/container.xml": container, "c.opf": package, "a.xhtml": "<p>The lamp is lit.</p>"}
    read_part, names = Package.read_part, []

    def record_call(self: Package, part: str) -> bytes:
        names.append(part)
        return read_part(self, part)

    monkeypatch.setattr(Package, "read_part", record_call)
    assert read_one(pack_parts(parts), "a.epub").text == "The lamp is lit.\n"
    assert names.count("a.xhtml") == 1


def test_a_table_of_too_many_columns_is_refused_and_a_wide_one_is_compared_by_name_once() -> None:
    def make_table(columns: int) -> str:
        return ",".join(f"c{number}" for number in range(columns)) + "\n" + ",".join("x" * columns) + "\n"

    with pytest.raises(ReaderError, match="the header has 1,000,000 columns; the limit is 10,000: remove some"):
        read_all(make_table(1_000_000), "a.csv")
    assert len(read_one(make_table(10_000), "a.csv").meta) == 10_000


# --- notebooks, source code, archives --------------------------------------------------------------------------------


def make_notebook(**fields: object) -> str:
    cells = [
        {"cell_type": "markdown", "metadata": {}, "source": ["# Ships\n", "\n", PROSE[0]]},
        {
            "cell_type": "code",
            "metadata": {},
            "source": "print(1)",
            "outputs": [
                {"output_type": "stream", "name": "stdout", "text": ["1\n"]},
                {"output_type": "execute_result", "data": {"text/plain": "42", "text/html": "<b>42</b>"}},
                {"output_type": "display_data", "data": {"image/png": "AAAA"}},
                {"output_type": "error", "ename": "E", "evalue": "v", "traceback": ["\x1b[0;31mE: v\x1b[0m"]},
            ],
        },
    ]
    return json.dumps({"nbformat": 4, "cells": cells, "metadata": {"language_info": {"name": "python"}}, **fields})


def test_a_notebook_is_read_as_cells_and_their_outputs() -> None:
    document = read_one(make_notebook(), "a.ipynb")
    assert (document.title, document.meta) == ("Ships", {"language": "python"})
    assert document.text == (
        f"# Ships\n\n{PROSE[0]}\n\n```python\nprint(1)\n```\n\n```\n1\n```\n\n```\n42\n```\n\n```\nE: v\n```\n"
    )
    old_notebook = {
        "nbformat": 3,
        "worksheets": [
            {
                "cells": [
                    {"cell_type": "heading", "level": 2, "source": "Old"},
                    {"cell_type": "code", "input": ["x = 1"], "outputs": []},
                ]
            }
        ],
    }
    assert read_one(json.dumps(old_notebook), "a.ipynb").text == "## Old\n\n```\nx = 1\n```\n"


SOURCES = {
    ".py": "import os\n\n# Opens.\n@cached\ndef open_store(path):\n    return path\n\n\nclass Store:\n    x = 1\n\nLAST = 2\n",
    ".js": "import x from 'y';\nfunction open_store(path) { return path; }\nclass Store {}\n",
    ".ts": "import x from 'y';\nexport const open_store = (path: string) => path;\nexport class Store<T> {}\n",
    ".java": "package x;\n/** Opens. */\nclass open_store {}\nclass Store {\n  int x;\n}\n",
    ".c": "#include <x.h>\nstatic int *open_store(int a)\n{\n  return 0;\n}\nstruct Store { int x; };\n",
    ".cpp": "#include <x>\ntemplate <class T> int open_store(T a) { return 0; }\nclass Store { int x; };\n",
    ".cs": "using System;\nclass open_store { }\nclass Store { int x; }\n",
    ".go": "package x\n\n// Opens.\nfunc open_store(p string) error { return nil }\n\ntype Store struct{ a int }\n",
    ".rs": "use x;\n/// Opens.\nfn open_store() {}\npub struct Store<T> { a: T }\n",
    ".rb": "require 'x'\ndef open_store(path)\n  path\nend\nclass Store\nend\n",
    ".php": "<?php\n$x = 1;\nfunction open_store($path) { return $path; }\nclass Store {}\n",
    ".kt": "package x\n\nfun open_store(a: Int): Int {\n    return a\n}\n\nclass Store(val b: Int)\n",
}


@pytest.mark.parametrize("suffix", SOURCES)
def test_source_code_is_cut_at_definitions_whose_names_are_headings(suffix: str) -> None:
    document = read_one(SOURCES[suffix], f"src/a{suffix}")
    assert list_headings(document.text.replace("#include", "include").replace("# Opens", "Opens"))[:3] == [
        "# a" + suffix,
        "## open_store",
        "## Store",
    ]
    code = "".join(re.findall(r"^```\w+\n(.*?)^```$", document.text, re.M | re.S))
    assert code.split() == SOURCES[suffix].split()
    assert document.meta == {"language": LANGUAGES[suffix].name}


@pytest.mark.parametrize(
    ("key", "text", "sections"),
    [
        ("a.sh", "#!/bin/sh\nset -e\n\n# Opens.\nopen_it() {\n  true\n}\nfunction shut ()\n{\n}\n", ["open_it", "shut"]),
        ("a.sql", "-- Ships.\nCREATE TABLE IF NOT EXISTS \"ships\" (id int);\ncreate unique index by_id on ships (id);\n",
         ["ships", "by_id"]),
        ("a.toml", "a = 1\n[tool.lint] # of code\nb = [\n 2]\n[[rows]]\n", ["tool.lint", "rows"]),
        ("a.ini", "; Where.\n\n[server one]\nport = 80\n", ["server one"]),
        ("a.yaml", "services:\n  a: 1\n", []),
    ],
)  # fmt: skip
def test_scripts_and_settings_are_cut_at_their_lines(key: str, text: str, sections: list[str]) -> None:
    document = read_one(text, key)
    code = "".join(re.findall(r"^```\w+\n(.*?)^```$", document.text, re.M | re.S))
    assert code.split() == text.split()
    names = [
        line.lstrip("# ") for line in re.sub(r"^```.*?^```$", "", document.text, flags=re.M | re.S).splitlines() if line
    ]
    assert [name for name in names if name != key] == sections
    assert "# Opens.\nopen_it" in document.text or key != "a.sh"


def test_methods_of_a_long_class_have_sections_of_their_own() -> None:
    text = (
        "class Store:\n    def open(self):\n        "
        + "x = 1\n        " * 100
        + "\n    def close(self):\n        pass\n"
    )
    document = read_one(text, "a.py")
    assert list_headings(document.text) == ["## Store", "### Store.open", "### Store.close"]
    broken = read_one("def broken(:\n  return\n\ndef whole():\n    pass\n", "b.py").text
    assert list_headings(broken)[-1] == "## whole" and broken.count("return") == 1


def test_names_of_definitions_are_entities(tmp_path: Path) -> None:
    (tmp_path / "engine.py").write_text(SOURCES[".py"] + "\n\nclass CuckooFilter:\n    pass\n")
    with kvstore.open(tmp_path / "store", embedder="hashing") as store:
        assert store.ingest(tmp_path / "engine.py").added == 1
        assert "engine.py" in {place.document for place in store.lookup("CuckooFilter")}


def test_archives_are_read_file_by_file() -> None:
    data = pack_parts(
        {"b/two.md": "# Two", "a.txt": "one", ".hidden.txt": "x", "__MACOSX/a.txt": "x", "c.bin": "x", "d.pdf": "x"}
    )
    items = read_all(data, "all.zip")
    documents = [item for item in items if isinstance(item, RawDocument)]
    assert [(document.key, document.text) for document in documents] == [
        ("all.zip/a.txt", "one"),
        ("all.zip/b/two.md", "# Two"),
    ]
    assert [item.place for item in items if isinstance(item, ReadFailure)] == ["all.zip/d.pdf"]
    assert list_skipped(items) == {
        "all.zip/.hidden.txt": "hidden",
        "all.zip/__MACOSX/a.txt": "hidden",
        "all.zip/c.bin": "suffix .bin",
    }
    assert read_one(gzip.compress(b"# T"), "notes/a.md.gz").title == "T"
    (failure,) = read_all(gzip.compress(b"a\0b"), "notes/a.md.gz")
    assert failure.place == "notes/a.md.gz/a.md"
    rows = read_all(gzip.compress(b"id,text\n1,a\n,b\n"), "rows.csv.gz")
    assert [row.key for row in rows] == ["1", "rows.csv.gz:3"]
    with pytest.raises(ReaderError, match="no file with a known suffix"):
        read_all(pack_parts({"a.bin": b"x"}), "a.zip")


def list_skipped(items: list[Any]) -> dict[str, str]:
    return {item.place: item.reason for item in items if isinstance(item, SkippedPart)}


def make_tar(*members: tuple[str, bytes | str, bytes]) -> bytes:
    """Make a tar archive of members: a path, its content or link target, and its kind."""
    stream = io.BytesIO()
    with tarfile.TarFile(fileobj=stream, mode="w") as archive:
        for name, content, kind in members:
            member = tarfile.TarInfo(name)
            member.type = kind
            if isinstance(content, str):
                member.linkname = content
            else:
                member.size = len(content)
            archive.addfile(member, io.BytesIO(content) if isinstance(content, bytes) else None)
    return stream.getvalue()


def test_members_of_a_tar_archive_that_are_not_files_are_skipped_and_counted() -> None:
    data = make_tar(
        ("b.md", b"# Two", tarfile.REGTYPE),
        ("./a.txt", b"one", tarfile.REGTYPE),
        ("link.md", "/etc/passwd", tarfile.SYMTYPE),
        ("hard.md", "b.md", tarfile.LNKTYPE),
        ("null.txt", b"", tarfile.CHRTYPE),
        ("pipe.txt", b"", tarfile.FIFOTYPE),
        ("/etc/motd.txt", b"x", tarfile.REGTYPE),
        ("../up.txt", b"x", tarfile.REGTYPE),
        ("C:/win.txt", b"x", tarfile.REGTYPE),
        (".git/a.txt", b"x", tarfile.REGTYPE),
        ("c.bin", b"x", tarfile.REGTYPE),
        ("LICENSE", b"Terms.", tarfile.REGTYPE),
        ("picture", b"\x89PNG\0", tarfile.REGTYPE),
    )
    for key, packed_by in (("all.tar", bytes), ("all.tgz", gzip.compress), ("all.tar.bz2", bz2.compress), ("all.tar.xz", lzma.compress)):  # fmt: skip
        items = read_all(packed_by(data), key)
        assert [(item.key, item.text) for item in items if isinstance(item, RawDocument)] == [
            (f"{key}/LICENSE", "Terms."),
            (f"{key}/a.txt", "one"),
            (f"{key}/b.md", "# Two"),
        ]
        assert sorted(Counter(list_skipped(items).values()).items()) == [
            ("devices", 2), ("hidden", 1), ("links in archives", 2), ("no suffix", 1), ("paths outside the archive", 3), ("suffix .bin", 1),
        ]  # fmt: skip
        assert not any(isinstance(item, ReadFailure) for item in items)
    (inner,) = [
        item for item in read_all(pack_parts({"../a.txt": "x", "b.txt": "y"}), "a.zip") if isinstance(item, RawDocument)
    ]
    assert inner.key == "a.zip/b.txt"


def make_sparse_tar() -> bytes:
    """Make a tar archive of a sparse file of one terabyte with one byte of data."""
    sparse = {"major": "1", "minor": "0", "realsize": str(1 << 40), "name": "a.txt"}
    content = b"1\n0\n1\n".ljust(512, b"\0") + b"x".ljust(512, b"\0")
    member = tarfile.TarInfo("a.txt")
    member.size, member.pax_headers = len(content), {f"GNU.sparse.{name}": value for name, value in sparse.items()}
    return member.tobuf(tarfile.PAX_FORMAT) + content + bytes(1024)


def test_a_damaged_tar_archive_is_read_up_to_the_damage_and_reported() -> None:
    data = bytearray(make_tar(*((f"{number}.txt", b"x" * 600, tarfile.REGTYPE) for number in range(4))))
    data[2 * 1536 + 150] ^= 0x55
    for damaged in (bytes(data), bytes(data[: 2 * 1536 + 300])):
        items = read_all(damaged, "a.tar")
        assert [item.key for item in items if isinstance(item, RawDocument)] == ["a.tar/0.txt", "a.tar/1.txt"]
        (failure,) = [item for item in items if isinstance(item, ReadFailure)]
        assert failure.place == "a.tar" and "is damaged after '1.txt'" in failure.reason
    with pytest.raises(ReaderError, match=r"a\.tar: is damaged or not a tar archive"):
        read_all(b"no archive" * 100, "a.tar")
    with pytest.raises(ReaderError, match=r"a\.txt\.bz2: is damaged or not packed with bzip2"):
        read_all(bz2.compress(b"text")[:-4], "a.txt.bz2")
    with pytest.raises(ReaderError, match="unpacks to more than"):
        read_all(make_sparse_tar(), "a.tar")


@pytest.mark.slow
def test_a_book_without_one_of_its_pages_is_read_and_reported(tmp_path: Path, make_store: Callable[..., Any]) -> None:
    book = make_book({"a.xhtml": BODIES[0], "b.xhtml": BODIES[1], "c.xhtml": BODIES[2]})
    with zipfile.ZipFile(io.BytesIO(book)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    broken = pack_parts(
        {**{name: part for name, part in parts.items() if "b.xhtml" not in name}, "OEBPS/c.xhtml": b"\0"}
    )
    document, *lacking = read_all(broken, "keeper.epub")
    assert document.text == f"{PROSE[0]}\n" and len(lacking) == 2
    (tmp_path / "keeper.epub").write_bytes(broken)
    with make_store() as store:
        report = store.ingest(tmp_path / "keeper.epub")
        assert (report.added, report.skips, report.failures) == (1, "2 unreadable pages of books", [])
        assert len(report.remarks) == 1
        assert (
            "keeper.epub: is damaged: 2 of its pages are missing or cannot be read, such as 'OEBPS/b.xhtml'"
            in report.remarks[0]
        )
    with pytest.raises(ReaderError, match="its pages are missing or cannot be read"):
        read_all(pack_parts({name: part for name, part in parts.items() if not name.endswith(".xhtml")}), "a.epub")


# --- rst, AsciiDoc ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text", "start"),
    [
        ("a.rst", "--aa <Aa" + ", --aa" * 30_000 + "!", "--aa <Aa, --aa"),
        ("a.adoc", f"= x {' ' * 200_000}y\n\nText.\n", "# x y\n\nText."),
        ("a.vtt", f"WEBVTT\n\n00:00.000 --> 00:01.000\n<v.a{chr(9) * 200_000}x\n", "[00:00:00] <v.a x"),
        ("a.tex", f"A\\begin{{lstlisting}}[language = {' ' * 200_000}]\nx\n\\end{{lstlisting}}", "A\n\n```\nx"),
    ],
)
def test_long_runs_of_repeated_marks_are_read(name: str, text: str, start: str) -> None:
    assert read_one(text, name).text.startswith(start)


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("=====\nTitle\n=====\n\nOne\n---\n\nText ``code`` :class:`~a.B` `link <u>`_ ref_ [1]_.\n\n.. [1] Note.\n",
         "# Title\n\n## One\n\nText `code` `B` link ref [1].\n\n[1] Note.\n"),
        ("* one\n  more\n\n  - in\n\n* two\n\n1. a\n2. b\n", "- one more\n  - in\n- two\n\n1. a\n2. b\n"),
        ("term\n  what it is\n\n:field: value\n\n-v, --verbose  tell\n", "- term: what it is\n\n- field: value\n\n- `-v, --verbose`: tell\n"),
        ("--python3.11  Use it.\n-Wa3.0, /xa1  Warn.\n", "- `--python3.11`: Use it.\n- `-Wa3.0, /xa1`: Warn.\n"),
        ("So::\n\n    a\n      b\n\n.. code:: sql\n\n   SELECT 1\n", "So:\n\n```\na\n  b\n```\n\n```sql\nSELECT 1\n```\n"),
        (".. note:: Take care.\n\n.. toctree::\n\n   a\n\n.. comment\n\n.. function:: open(path)\n\n   Opens.\n", "Note: Take care.\n\n- `open(path)`: Opens.\n"),
        (".. http:put:: /api/v2/setpoint\n\n   Changes the point.\n", "- `PUT /api/v2/setpoint`: Changes the point.\n"),
        ("+---+----+\n| a | b  |\n+===+====+\n| 1 | x  |\n|   | y  |\n+---+----+\n\n== ==\nA  B\n== ==\n1  2\n== ==\n",
         "| a | b |\n| --- | --- |\n| 1 | x y |\n\n| A | B |\n| --- | --- |\n| 1 | 2 |\n"),
        ("+---+----+----+\n| a | b  | c  |\n+===+====+====+\n| 1 | x  | -- |\n|   +----+----+\n|   | y  | z  |\n+---+----+----+\n",
         "| a | b | c |\n| --- | --- | --- |\n| 1 | x | \\-- |\n| 1 | y | z |\n"),
        ("+---+-------+\n| a | b     |\n|   +---+---+\n|   | c | d |\n|   +---+---+\n|   | e     |\n+---+-------+\n",
         "| a | b |  |\n| --- | --- | --- |\n| a | c | d |\n| a | e |  |\n"),
        ("+------+----+\n| 東京 | 値 |\n+------+----+\n| x    | 1  |\n+------+----+\n\n==== ==\n東京 値\n==== ==\nx    1\n==== ==\n",
         "| 東京 | 値 |\n| --- | --- |\n| x | 1 |\n\n| 東京 | 値 |\n| --- | --- |\n| x | 1 |\n"),
        ("+---+-------+\n| N | G     |\n|   +---+---+\n|   | a | b |\n+===+===+===+\n| 1 | 2 | c |\n+---+---+   |\n| 3 | 4 | d |\n+---+---+---+\n",
         "| N | G a | b |\n| --- | --- | --- |\n| 1 | 2 | c; d |\n| 3 | 4 | c; d |\n"),
        ("Press it.\n\n.. image:: a.png\n   :alt: Screen [1] of\n      the *app*.\n", "Press it.\n\n![Screen (1) of the *app*.]()\n"),
        ("10\\ :sup:`6` cells on the 21\\ :sup:`st` in H\\ :sub:`2`\\ O.\n", "10^6 cells on the 21st in H2O.\n"),
        (".. |x| replace:: the name\n\nSay |x|.\n\n    quoted\n\n>>> 1\n1\n", "Say the name.\n\n> quoted\n\n```python\n>>> 1\n1\n```\n"),
    ],
)  # fmt: skip
def test_restructured_text_becomes_markdown(markup: str, text: str) -> None:
    assert read_one(markup, "a.rst").text == text


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("= Title\nAda L <a@x>\nv1, 2024-03-01\n:v: 9\n\n== One\n\nText `code` *bold* {v} https://x[link] <<id,there>>.\n",
         "# Title\n\n## One\n\nText `code` *bold* 9 link there.\n"),
        ("* one\nmore\n** in\n* two\n+\n----\ncode\n----\n", "- one more\n  - in\n\n- two\n\n  ```\n  code\n  ```\n"),
        (". a\n. b\n\n//\n\nterm:: what it is\nother::\n  more\n", "1. a\n2. b\n\n- term: what it is\n- other: more\n"),
        ("[source,sql]\n----\nSELECT 1\n----\n\n....\nraw\n....\n\n literal\n", "```sql\nSELECT 1\n```\n\n```\nraw\n```\n\n```\nliteral\n```\n"),
        ("NOTE: Take care.\n\n[WARNING]\n====\nDanger.\n====\n\n____\nSaid.\n____\n", "Note: Take care.\n\nWarning: Danger.\n\n> Said.\n"),
        ("Press it.\n\nimage::a.png[Screen of the app,200]\n", "Press it.\n\n![Screen of the app]()\n"),
        ('.Cap\n[cols="1,2"]\n|===\n|A |B\n\n|1\n|two words\n|===\n', "Cap\n\n| A | B |\n| --- | --- |\n| 1 | two words |\n"),
        ('[format="csv",options="header"]\n|===\nA,B\n1,2\n|===\n\n[format=dsv]\n|===\nC:D\n|===\n', "| A | B |\n| --- | --- |\n| 1 | 2 |\n\n| C | D |\n| --- | --- |\n"),
        ("[separator=;]\n|===\nA;B\n\n1;2\n|===\n\nText.\n", "A;B\n1;2\n\nText.\n"),
        ("= T\n:description: What it is.\n\nText.\n", "# T\n\nWhat it is.\n\nText.\n"),
        ("10^6^ cells on the 21^st^ in H~2~O\n", "10^6 cells on the 21st in H2O\n"),
        ("One\nifdef::x[]\ntwo\nendif::[]\nifndef::y[three]\n", "One two three\n"),
        ("a footnote:[Small.] b\n\n// gone\n\ninclude::other.adoc[]\n", "a [1] b\n\n[1] Small.\n"),
        ("|===\n|a|b\n\n|x |y|z a|- item\n|===\n", "| a | b |\n| --- | --- |\n| x | y |\n| z | item |\n"),
        (". one\n+\nfirst\n+\nsecond\n. two\n\nTea:: green\n+\nmore\nMint:: fresh\n",
         "1. one\n\n   first\n\n   second\n\n2. two\n\n- Tea: green\n\n  more\n\n- Mint: fresh\n"),
    ],
)  # fmt: skip
def test_asciidoc_becomes_markdown(markup: str, text: str) -> None:
    assert read_one(markup, "a.adoc").text == text


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("#+TITLE: T\n#+AUTHOR: A\n#+DESCRIPTION: What it is.\n* One\nText =code= ~c~ *b* /i/ _u_ [[https://x][link]].\n",
         "# One\n\nWhat it is.\n\nText `code` `c` *b* *i* u link.\n"),
        ("* TODO [#A] One :a:b:\nDEADLINE: <2024-05-01 Wed>\nText.\n", "# One\n\nState: TODO; Tags: a, b\n\nDEADLINE: 2024-05-01 Wed\n\nText.\n"),
        ("- one\n  more\n  - in\n- [X] done\n- term :: what\n\n1. a\n2. b\n", "- one more\n  - in\n- done\n- term: what\n\n1. a\n2. b\n"),
        ("#+begin_src sql\n  SELECT 1\n#+end_src\n: fixed\n# gone\n#+BEGIN_QUOTE\nSaid.\n#+END_QUOTE\n", "```sql\nSELECT 1\n```\n\n```\nfixed\n```\n\n> Said.\n"),
        ("a[fn:1] /usr/bin/x\n\n[fn:1] Small.\n\n| a | b |\n|---+---|\n| 1 | *2* |\n", "a[1] /usr/bin/x\n\n[1] Small.\n\n| a | b |\n| --- | --- |\n| 1 | *2* |\n"),
        ("#+begin_example\nnever closed\n", "```\nnever closed\n```\n"),
    ],
)  # fmt: skip
def test_org_becomes_markdown(markup: str, text: str) -> None:
    document = read_one(markup, "a.org")
    assert document.text == text
    if "#+TITLE" in markup:
        assert (document.title, document.meta) == ("T", {"author": "A"})


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        (".TH OPEN 2 2023-02-05 L\n.SH NAME\nopen \\- open a file\n.SH X\n\\fBa\\fP \\(em b\n.br\nc\n.PP\nd\\-e\n",
         "# open(2)\n\n## NAME\n\nopen - open a file\n\n## X\n\na — b\nc\n\nd-e\n"),
        (".TP\n.B \\-a\nall\n.TP\n.BI \\-n \" N\"\n.TQ\n.B \\-m\nnumber\n.RS\n.IP 1. 4\none\n.IP 2.\ntwo\n.RE\n.PP\nText.\n",
         "- -a: all\n- -n N, -m: number\n  1. one\n  2. two\n\nText.\n"),
        (".EX\nif a\n    b\n.EE\n.TS\nl l.\nA\tB\n_\nT{\none\ntwo\nT}\t2\n.TE\n", "```\nif a\n    b\n```\n\n| A | B |\n| --- | --- |\n| one two | 2 |\n"),
        (".de FN\n\\fI\\\\$1\\fP\n..\n.ds x y\n.ie t no\n.el \\{\\\nsee\n.\\}\n.FN file\n\\*x \\*(lqz\\*(rq \\[u00E9]\\['e].\n.\\\" gone\n.ig\ngone\n..\n",
         "see file y “z” éé.\n"),
        (".de FN\n\\fI\\\\$1\\fP\n..\n.als GN FN\n.rn FN HN\nsee\n.GN a\n.HN b\n", "see a b\n"),
        (".Dd May 1, 2024\n.Dt CAT 1\n.Os X\n.Sh NAME\n.Nm cat\n.Nd join files\n.Sh OPTIONS\n.Bl -tag -width x\n.It Fl n Ns Ar N Op Ar file ...\nLines of\n.Xr lpr 1 .\n.El\n",
         "# cat(1)\n\n## NAME\n\ncat — join files\n\n## OPTIONS\n\n- -nN [file ...]: Lines of lpr(1).\n"),
        (".Sh X\n.Fo f\n.Fa \"int a\"\n.Fa b\n.Fc\nsays\n.Dq a b ,\n.Bd -literal\ncode\n.Ed\n.Bl -column a b\n.It A Ta B\n.It 1 Ta 2\n.El\n",
         "## X\n\nf(int a, b) says “a b”,\n\n```\ncode\n```\n\n| A | B |\n| --- | --- |\n| 1 | 2 |\n"),
    ],
)  # fmt: skip
def test_manual_pages_become_markdown(markup: str, text: str) -> None:
    document = read_one(markup, "a.man")
    assert document.text == text
    if ".Dd" in markup:
        assert (document.title, document.meta) == (
            "cat(1): join files",
            {"section": "1", "date": "May 1, 2024", "source": "X"},
        )
        assert read_one(gzip.compress(markup.encode()), "a.1.gz").text == text  # recognized by its beginning


def test_a_manual_page_that_names_another_is_passed_over_and_one_without_end_refused() -> None:
    assert read_all(".so man3/printf.3\n", "sprintf.3") == [SkippedPart("sprintf.3", "pages that only refer to others")]
    strings = ".ds a " + "x" * 4000 + "\n" + "".join(f".ds {b} \\*{a}\\*{a}\n" for a, b in pairwise("abcdefgh"))
    for text in (".de X\n.X\n.X\n..\n.X\n", strings + "\\*h\n" * 100):
        with pytest.raises(ReaderError, match="which is the limit"):
            read_all(text, "a.man")


ATOM = 'xmlns="http://www.w3.org/2005/Atom"'


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("<article><info><title>T</title><abstract><para>In short.</para></abstract></info><section><title>One</title><para>Run <command>x</command>"
         "<footnote><para>Twice.</para></footnote>.</para><note><para>Care.</para></note><variablelist><varlistentry><term>a</term><listitem><para>b</para>"
         "</listitem></varlistentry></variablelist><programlisting language='sh'>a &lt; b\nc</programlisting></section></article>",
         "# T\n\n## Abstract\n\nIn short.\n\n## One\n\nRun `x`[1].\n\nNote: Care.\n\n- a: b\n\n```sh\na < b\nc\n```\n\n[1] Twice.\n"),
        ("<article><front><article-meta><title-group><article-title>T</article-title></title-group></article-meta></front><body><sec><label>1</label><title>M</title>"
         "<list list-type='order'><list-item><p>a</p></list-item></list><table-wrap><label>Table 1</label><caption><p>C.</p></caption><table><tr><th>A</th></tr>"
         "<tr><td>1</td></tr></table></table-wrap></sec></body><back><ref-list><ref><name><surname>Ray</surname><given-names>B</given-names></name></ref></ref-list></back></article>",
         "# T\n\n## 1 M\n\n1. a\n\nTable 1 C.\n\n| A |\n| --- |\n| 1 |\n\nRay B\n"),
        ("<TEI><teiHeader><fileDesc><titleStmt><title>T</title></titleStmt></fileDesc></teiHeader><text><body><div><head>H</head><lg><l>one</l><l>two</l></lg>"
         "<p>He said <q>no</q>.</p></div></body></text></TEI>", "# T\n\n## H\n\none\ntwo\n\nHe said “no”.\n"),
        ("<article><title>T</title><para>10<superscript>6</superscript> on the 21<superscript>st</superscript></para></article>",
         "# T\n\n10^6 on the 21st\n"),
        ("<project a='1'><name>N</name><deps><dep><id>x</id></dep><dep><id>y</id></dep></deps></project>",
         "# N\n\n- a: 1\n- name: N\n\n## deps\n\n### dep\n\n- id: x\n\n### dep\n\n- id: y\n"),
    ],
)  # fmt: skip
def test_xml_becomes_markdown(markup: str, text: str) -> None:
    assert read_one(markup, "a.xml").text == text


def test_an_empty_list_of_terms_is_no_text() -> None:
    terms = "<variablelist><varlistentry><term/><listitem/></varlistentry></variablelist>"
    assert read_one(f"<article><para>Tea.</para>{terms}</article>", "a.xml").text == "Tea.\n"
    with pytest.raises(ReaderError, match="has no text"):
        read_one(f"<article><para/>{terms}</article>", "a.xml")


def test_entries_of_feeds_and_records_of_xml_are_documents() -> None:
    feed = (
        f"<feed {ATOM}><title>News</title><entry><id>urn:1</id><title>A</title><link href='http://x/1'/><updated>2024-01-01</updated>"
        "<author><name>Ann</name></author><content type='html'>&lt;p&gt;Hello &lt;b&gt;there&lt;/b&gt;.&lt;/p&gt;</content></entry></feed>"
    )
    meta = {"author": "Ann", "date": "2024-01-01", "link": "http://x/1", "feed": "News"}
    assert read_one(feed, "a.atom") == RawDocument(
        "urn:1", "A", "# A\n\nHello *there*.\n", meta, "markdown", (), "a.atom:1"
    )
    rss = "<rss><channel><title>N</title><item><title>A &amp; B</title></item><item><description>Text.</description></item></channel></rss>"
    assert [(item.key, item.text) for item in read_all(rss, "a.xml")] == [
        ("a.xml:1", "A & B\n"),
        ("a.xml:2", "Text.\n"),
    ]
    rows = read_all("<all><b id='x'><title>T</title><price>1.5</price></b><b><title>U</title></b></all>", "a.xml")
    assert [(item.key, item.title, item.meta) for item in rows] == [
        ("x", "T", {"id": "x", "title": "T", "price": 1.5}),
        ("a.xml:2", "U", {"title": "U"}),
    ]
    assert [(item.text, item.format) for item in rows] == [
        ("id: x\ntitle: T\nprice: 1.5\n", "text"),
        ("title: U\n", "text"),
    ]


def test_xml_fetches_nothing_and_expands_nothing_without_end() -> None:
    source = "<!DOCTYPE a SYSTEM 'http://x/a.dtd' [<!ENTITY c SYSTEM 'c.xml'><!ENTITY b 'been'>]><a><p>It has &b; &c; caf&eacute; &app;.</p></a>"
    document, skipped = read_all(source, "a.xml")
    assert document.text == "It has been café app.\n"
    assert isinstance(skipped, SkippedPart) and "'c.xml'" in skipped.detail
    laughs = "".join(f"<!ENTITY {b} '{'&' + a + ';'}{('&' + a + ';') * 9}'>" for a, b in pairwise("abcdefghi"))
    for markup in (
        f"<!DOCTYPE a [<!ENTITY a '{'x' * 40}'>{laughs}]><a><p>&i;</p></a>",
        f"<!DOCTYPE a [<!ENTITY a '{'x' * 60_000}'>]><a><p>{'&a;' * 60_000}</p></a>",
        "<a>" * 300 + "</a>" * 300,
        "<a><b></a>",
        "<?xml version='1.0' encoding='gb2312'?><a>\xff</a>",
    ):
        with pytest.raises(ReaderError, match=r"^a\.xml: "):
            read_all(markup.encode("latin-1"), "a.xml")
    assert (
        read_one("<?xml version='1.0' encoding='gb2312'?><a><p>你好</p></a>".encode("gb2312"), "a.xml").text == "你好\n"
    )
    assert read_all("<svg><text>x</text></svg>", "a.xml") == [SkippedPart("a.xml", "drawings")]
    assert read_all("<urlset><url><loc>x</loc></url></urlset>", "sitemap.xml") == [
        SkippedPart("sitemap.xml", "lists of addresses")
    ]


@pytest.mark.parametrize(
    ("name", "source", "text"),
    [
        ("a.rst", "a. one\nb. two\n\n(i) three\n\n(ii) four\n", "- a. one\n- b. two\n- (i) three\n- (ii) four\n"),
        ("a.rst", "c) tea\n\n   i. green\n   ii. black\n\n3. three\n#. four\n",
         "- c) tea\n  - i. green\n  - ii. black\n3. three\n4. four\n"),
        ("a.adoc", "= T\n\n[start=7]\n. seven\n. eight\n\ntext\n\n[%reversed, start = \"3\"]\n.Steps\n. three\n\nx\n\n. one\n",
         "# T\n\n7. seven\n8. eight\n\ntext\n\nSteps\n\n3. three\n\nx\n\n1. one\n"),
        ("a.adoc", "[start=999999999999]\n. one\n", "1. one\n"),
        ("a.adoc", "[start=7]\n* one\n", "- one\n"),
        ("a.org", "1. [@7] seven\n2. [X] eight\n   1. inner\n3. nine\n\ntext\n\n1. one\n2. two\n",
         "7. seven\n8. eight\n   1. inner\n9. nine\n\ntext\n\n1. one\n2. two\n"),
        ("a.org", "7. [@7] [ ] seven\n8. eight\n", "7. seven\n8. eight\n"),  # as Emacs writes it
    ],
)  # fmt: skip
def test_items_have_the_numbers_and_letters_that_their_markup_states(name: str, source: str, text: str) -> None:
    assert read_one(source, name).text == text


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("\\documentclass{article}\n\\newcommand{\\x}[1]{\\emph{#1}!}\n\\title{T\\thanks{No.}}\\author{A \\and B}\n\\begin{document}\\maketitle\n\\section{One}\\label{a}\n"
         "A \\x{b} caf\\'e---5\\%, ``so'' \\texttt{c} $x^2$~\\cite{k}\\footnote{Small.}. % gone\n\n\\begin{abstract}In short.\\end{abstract}\\end{document}",
         "# T\n\n## 1 One\n\nA *b*! café—5%, “so” `c` $x^2$ [1].\n\n## Abstract\n\nIn short.\n\n[1] Small.\n"),
        ("\\begin{longtable}{lS}\\caption{Peat}\\\\ Site & {Depth}\\\\ \\endfirsthead Site & {Depth}\\\\ \\endhead Moss & 3.4\\\\"
         "\\end{longtable}\\SI{3.4}{\\kilo\\metre}, \\unit{\\gram\\per\\cubic\\centi\\metre}.",
         "Peat\n\n| Site | Depth |\n| --- | --- |\n| Moss | 3.4 |\n\n3.4 km, g/cm³.\n"),
        ("\\begin{itemize}\\item one\\item two\\begin{enumerate}\\item in\\end{enumerate}\\end{itemize}\\begin{description}\\item[Term] what\\end{description}",
         "- one\n- two\n  1. in\n\n- Term: what\n"),
        ("\\begin{table}\\caption{Cap}\\begin{tabular}{|l|r|}\\hline A & B \\\\ \\hline 1 & \\textbf{2} \\\\\\end{tabular}\\end{table}", "Cap\n\n| A | B |\n| --- | --- |\n| 1 | 2 |\n"),
        ("\\begin{lstlisting}[language=Python]\na % b\n\\end{lstlisting}\n\\verb|a_b|\n\\[ E = mc^2 \\]\n\\begin{quote}Said.\\end{quote}\\begin{tikzpicture}gone\\end{tikzpicture}",
         "```python\na % b\n```\n\n`a_b`\n\n$$E = mc^2$$\n\n> Said.\n"),
        ("\\newcommand{\\x}{\\textsc{Hydro}\\xspace}\\newcommand{\\y}{Stra\\ss}The \\x runs, the \\x{} too: \\x, \\y e.", "The Hydro runs, the Hydro too: Hydro, Straße.\n"),
        ("\\begin{tabular}{lrr}A & B & C \\\\ \\midrule \\multicolumn{2}{c}{x} & 1 \\\\\\end{tabular}", "| A | B | C |\n| --- | --- | --- |\n| x |  | 1 |\n"),
        ("\\unknown{kept} \\textcolor{red}{red} \\href{http://x}{link} \\begin{nosuch}inside\\end{nosuch}", "kept red link\n\ninside\n"),
        ("10\\textsuperscript{6} on the 21\\textsuperscript{st} at \\ang{30} or \\ang{12;3;1}", "10^6 on the 21st at 30° or 12°3′1″\n"),
    ],
)  # fmt: skip
def test_latex_becomes_markdown(markup: str, text: str) -> None:
    document = read_one(markup, "a.tex")
    assert document.text == text
    if "title" in markup:
        assert (document.title, document.meta) == ("T", {"author": "A, B"})


def test_a_list_item_keeps_the_number_that_its_source_states() -> None:
    source = "1. one\n2. two\n\nText.\n\n3. three\n#. four\n7. seven\n1. next\n"
    text = "1. one\n2. two\n\nText.\n\n3. three\n4. four\n7. seven\n8. next\n"
    assert read_one(source, "a.rst").text == text
    assert read_one(source.replace("#.", "4."), "a.adoc").text == text


def test_letters_after_z_are_aa_and_ab_in_html() -> None:
    page = '<p>Rinse the pot.</p><ol type="A" start="27"><li>one</li><li>two</li></ol>'
    assert read_one(page, "a.html").text == "Rinse the pot.\n\n- AA. one\n- AB. two\n"


SECTIONS = r"""
\section*{Preface}\section{Peat}\subsection{Depth}\subsubsection{Cores}\paragraph{Wet}\subsection{3 sites}
\section[Short]{2 Moss}\appendix\section{Data}\subsection{Tables}
"""


def read_sections(document_class: str, body: str, preamble: str = "") -> list[str]:
    source = f"\\documentclass[11pt]{{{document_class}}}{preamble}\\begin{{document}}{body}\\end{{document}}"
    (text,) = (document.text for document in read_all(source, "a.tex") if isinstance(document, RawDocument))
    return [heading.lstrip("# ") for heading in list_headings(text)]


def test_sections_of_latex_have_the_numbers_that_are_printed() -> None:
    assert read_sections("article", SECTIONS) == [
        "Preface", "1 Peat", "1.1 Depth", "1.1.1 Cores", "Wet", "1.2 3 sites", "2 Moss", "A Data", "A.1 Tables"
    ]  # fmt: skip
    book = (
        r"\frontmatter\chapter{Thanks}\mainmatter\part{Land}\chapter{Peat}\section{Depth}\subsection{Cores}"
        r"\subsubsection{Wet}\chapter{Moss}\section{Green}\appendix\chapter{Data}\section{Tables}"
        r"\backmatter\chapter{Index}"
    )
    assert read_sections("book", book) == [
        "Thanks", "Land", "1 Peat", "1.1 Depth", "1.1.1 Cores", "Wet", "2 Moss", "2.1 Green", "A Data", "A.1 Tables",
        "Index",
    ]  # fmt: skip
    assert read_sections("article", r"\section{1. Typed}\section*{2) Typed}") == ["1. Typed", "2) Typed"]
    untitled = r"\documentclass{article}\begin{document}\section{Peat}\end{document}"
    assert read_one(untitled, "a.tex").title == "Peat"
    appendices = r"\section{Peat}\begin{appendices}\section{Data}\end{appendices}"
    assert read_sections("scrartcl", appendices) == ["1 Peat", "A Data"]


@pytest.mark.parametrize(
    ("document_class", "preamble", "body"),
    [
        ("IEEEtran", "", ""),  # Roman numbers
        ("article", r"\setcounter{secnumdepth}{0}", ""),
        ("article", r"\renewcommand{\thesection}{\Roman{section}}", ""),
        ("article", r"\renewcommand\thesubsection{\alph{subsection}}", ""),
        ("article", "", r"\input{introduction}"),  # which can have sections
    ],
)
def test_sections_of_latex_whose_numbers_are_uncertain_have_none(document_class: str, preamble: str, body: str) -> None:
    sections = r"\section{Peat}\subsection{Depth}"
    assert read_sections(document_class, body + sections, preamble) == ["Peat", "Depth"]
    assert list_headings(read_one(sections, "a.tex").text) == ["## Peat", "### Depth"]  # a part of a document


def test_latex_includes_nothing_and_ends() -> None:
    document, skipped = read_all("Text.\n\\input{chapters/one}", "a.tex")
    assert (document.text, skipped) == ("Text.\n", SkippedPart("a.tex", "parts in other files"))
    source = r"Text. \input chapters/intro \import{chapters/}{tea.tex} \subimport*{parts/}{end} The end."
    document, *skipped_parts = read_all(source, "a.tex")
    assert (document.text, len(skipped_parts)) == ("Text. The end.\n", 3)
    assert (
        read_all("\\begin{document}\\include{a}\\end{document}", "a.tex")[0].reason == "files that only include others"
    )
    for text in ("\\def\\a{\\a\\a}\\a x", "\\newcommand\\a{\\b\\b}\\newcommand\\b{\\a\\a}\\a x"):
        with pytest.raises(ReaderError, match="which is the limit"):
            read_all(text, "a.tex")
    assert (
        read_one(
            "\\usepackage[latin1]{inputenc}\\begin{document}caf\xe9\\end{document}".encode("latin-1"), "a.tex"
        ).text
        == "café\n"
    )


def test_subtitles_are_read_as_paragraphs_with_times() -> None:
    srt = (
        "1\n00:00:01,000 --> 00:00:03,000\n<i>The harbour</i> was dug\nby hand.\n\n"
        "2\n00:00:03,500 --> 00:00:05,000\nIn 1874.\n\n3\n01:02:05,000 --> 01:02:06,000\nThat was all.\n"
    )
    assert (
        read_one(srt, "a.srt").text == "[00:00:01] The harbour was dug by hand. In 1874.\n\n[01:02:05] That was all.\n"
    )
    vtt = (
        "WEBVTT\n\nNOTE kept\nsecret\n\nx\n00:01.000 --> 00:02.000 align:start\n<v.loud Ann>Who &amp; when?</v>\n\n"
        "00:02.000 --> 00:03.000\n<v Ben>Now.\n\n00:03.000 --> 00:04.000\n<v Ben>Now.\n<v Ben>Go.\n"
    )
    assert read_one(vtt, "a.vtt").text == "[00:00:01] Ann: Who & when?\n\n[00:00:02] Ben: Now. Go.\n"
    with pytest.raises(ReaderError, match="has no cue"):
        read_all("WEBVTT\n\n", "a.vtt")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.vtt", "WEBVTT\n\n" + "00:01.000 --> 00:02.000\nIt is so.\n\n" * 40_000),
        ("a.adoc", "|===\n" + "1" * 20_000 + "\n|==="),
        ("a.adoc", "_" * 50_000 + "!"),
    ],
    ids=["cues", "cell", "delimiter"],
)
def test_long_files_of_one_mark_are_read_in_linear_time(name: str, text: str) -> None:
    start = time.process_time()
    assert read_all(text, name)
    assert time.process_time() - start < 2


# --- calendars, address cards, bibliographies ------------------------------------------------------------------------

CALENDAR = r"""BEGIN:VCALENDAR
X-WR-CALNAME:Harbour office
BEGIN:VEVENT
UID:1@x
DTSTART;TZID=Europe/Berlin:20261127T100000
DTEND;TZID=Europe/Berlin:20261127T113000
SUMMARY:Budget meeting
LOCATION:Room 5\, second floor
ORGANIZER;CN="Lee, Ann":mailto:ann@x.org
ATTENDEE;CN=Bob Hill;PARTSTAT=DECLINED:mailto:bob@x.org
CATEGORIES:Money,Work
RRULE:FREQ=MONTHLY;BYDAY=4FR;COUNT=6
DESCRIPTION:Bring the figures of October.\nWe vote on the new cra
 ne.
BEGIN:VALARM
DESCRIPTION:Reminder
END:VALARM
END:VEVENT
BEGIN:VEVENT
DTSTART;VALUE=DATE:20261224
DTEND;VALUE=DATE:20270102
SUMMARY:Office closed
END:VEVENT
BEGIN:VTODO
SUMMARY:Renew the lease
DUE:20261201T120000Z
STATUS:IN-PROCESS
END:VTODO
BEGIN:VFREEBUSY
END:VFREEBUSY
END:VCALENDAR
"""


def test_a_calendar_entry_is_a_document_with_time_and_place() -> None:
    meeting, closed, lease = read_all(CALENDAR, "a.ics")
    assert (meeting.key, meeting.other_key, meeting.title) == ("1@x", "a.ics:1", "Budget meeting")
    assert meeting.text == (
        "Appointment: Budget meeting\nWhen: Friday, 27 November 2026 (2026-11-27) 10:00 to 11:30 Europe/Berlin\n"
        "Repeats: every month on the fourth Friday, 6 times\nWhere: Room 5, second floor\n"
        "Organizer: Lee, Ann <ann@x.org>\nWith: Bob Hill <bob@x.org> (declined)\nCategories: Money, Work\n\n"
        "Bring the figures of October.\nWe vote on the new crane.\n"
    )
    assert meeting.meta == {
        "type": "appointment", "start": "2026-11-27T10:00:00", "end": "2026-11-27T11:30:00", "calendar": "Harbour office",
        "location": "Room 5, second floor", "organizer": "Lee, Ann <ann@x.org>", "categories": ["Money", "Work"],
        "attendees": ["Bob Hill <bob@x.org> (declined)"],
    }  # fmt: skip
    assert closed.text.endswith("24 December 2026 (2026-12-24)\nUntil: Friday, 1 January 2027 (2027-01-01)\n")
    assert (closed.key, closed.meta["end"]) == ("a.ics:2", "2027-01-01")
    assert "Due: Tuesday, 1 December 2026 (2026-12-01) 12:00 UTC\nStatus: in process\n" in lease.text
    assert (lease.meta["type"], lease.meta["due"]) == ("task", "2026-12-01T12:00:00Z")


def test_a_rule_of_a_series_names_its_months_and_the_positions_of_its_days() -> None:
    for rule, text in (
        ("MONTHLY;BYDAY=MO;BYSETPOS=1", "every month on the first Monday"),
        ("MONTHLY;BYDAY=MO,TU;BYSETPOS=-1", "every month on the last of Monday, Tuesday"),
        ("YEARLY;BYMONTH=03,11;BYDAY=4TH", "every year in March, November on the fourth Thursday"),
        ("MONTHLY;BYDAY=FR;BYMONTHDAY=13", "every month on Friday if it is day 13"),
        ("WEEKLY;BYDAY=MO;BYSETPOS=x,0;BYMONTH=13", "every week on Monday"),
    ):
        calendar = f"BEGIN:VCALENDAR\nBEGIN:VEVENT\nSUMMARY:x\nRRULE:FREQ={rule}\nEND:VEVENT\nEND:VCALENDAR\n"
        assert read_one(calendar, "a.ics").text == f"Appointment: x\nRepeats: {text}\n"


def test_the_excluded_days_of_a_series_are_named() -> None:
    calendar = (
        "BEGIN:VCALENDAR\nBEGIN:VEVENT\nSUMMARY:Choir\nDTSTART;TZID=Europe/Berlin:20260302T180000\n"
        "RRULE:FREQ=WEEKLY;BYDAY=MO\nEXDATE;TZID=Europe/Berlin:20260309T180000,20260316T180000\n"
        "EXDATE;VALUE=DATE:20260309\nEXDATE:x\nEND:VEVENT\nEND:VCALENDAR\n"
    )
    assert (
        "Repeats: every week on Monday\nExcept: Monday, 9 March 2026 (2026-03-09), Monday, 16 March 2026 (2026-03-16)\n"
    ) in read_one(calendar, "a.ics").text


def test_an_invalid_or_empty_calendar_is_refused() -> None:
    for text, reason in (("x", "no line BEGIN:VCALENDAR"), ("BEGIN:VCALENDAR\nBEGIN:VEVENT\n", "has no appointment")):
        with pytest.raises(ReaderError, match=reason):
            read_all(text, "a.ics")
    odd = "BEGIN:VCALENDAR\nBEGIN:VEVENT\nSUMMARY:x\nDTSTART:20269999\nDTEND:00010101\nDURATION:P99999D\nRRULE:;;=\n"
    assert read_one(odd, "a.ics").text == "Appointment: x\n"


def test_a_card_of_an_address_book_is_a_document_whose_numbers_have_their_kinds() -> None:
    old_card = (
        "BEGIN:VCARD\nVERSION:2.1\nN;CHARSET=UTF-8;ENCODING=QUOTED-PRINTABLE:M=C3=BCller;J=C3=B6rg;;Dr.;\n"
        "TEL;CELL;PREF:+49 170 1\nTEL;WORK:030 99\nADR;HOME;ENCODING=QUOTED-PRINTABLE:;;Hafenstra=C3=9Fe 7=\n"
        ";Bremen;;28217;Germany\nPHOTO;JPEG;ENCODING=BASE64:\n /9j/4AAQ\n\nNOTE:Pilot\\; knows the ledges.\nEND:VCARD\n"
    )
    new_card = (
        "BEGIN:VCARD\nUID:urn:uuid:7\nFN:Chandlery North\nORG:Chandlery North;Ropes\nitem1.TEL:555 1234\n"
        "item1.X-ABLabel:_$!<Night desk>!$_\nBDAY:19800203\nEMAIL;TYPE=INTERNET:n@x.org\nEND:VCARD\n"
    )
    pilot, shop = read_all(old_card + new_card, "a.vcf")
    assert (pilot.key, pilot.title) == ("a.vcf:1", "Dr. Jörg Müller")
    assert pilot.text == (
        "Name: Dr. Jörg Müller\nTelephone (cell): +49 170 1\nTelephone (work): 030 99\n"
        "Address (home): Hafenstraße 7, Bremen, 28217, Germany\n\nPilot; knows the ledges.\n"
    )
    assert (shop.key, shop.other_key) == ("7", "a.vcf:2")
    assert "Telephone (Night desk): 555 1234\nE-mail: n@x.org\nBirthday: 1980-02-03\n" in shop.text
    assert shop.meta == {"organization": "Chandlery North, Ropes", "email": ["n@x.org"], "telephone": ["555 1234"]}
    with pytest.raises(ReaderError, match="has no address card"):
        read_all("x", "a.vcf")


def test_an_entry_of_a_bibliography_is_a_document_without_latex() -> None:
    bib = r"""A comment.
@string{tods = "ACM Trans. Database Syst."}
@article{smith2004,
  author = {Smith, Ann and {The {IEEE} Group} and M{\"u}ller, J{\"o}rg},
  title = "Log-{S}tructured Merge",
  journal = tods # { (reprint)}, year = 2004, month = feb, pages = {12--34}, file = {x.pdf},
  abstract = {We show that \emph{merging} costs less.}
}
@book{unended, title = {x
@misc(second, title={Second one}, howpublished = {\url{http://x.org/a_b}})
@misc{second, title={Third}}
"""
    first_entry, failed, second_entry, third_entry = read_all(bib, "a.bib")
    assert (first_entry.key, first_entry.title) == ("smith2004", "Log-Structured Merge")
    assert first_entry.text == (
        "Title: Log-Structured Merge\nAuthors: Ann Smith, The IEEE Group, Jörg Müller\n"
        "journal: ACM Trans. Database Syst. (reprint)\nyear: 2004\nmonth: February\npages: 12–34\n\n"
        "We show that merging costs less.\n"
    )
    assert (
        first_entry.meta["author"] == ["Ann Smith", "The IEEE Group", "Jörg Müller"]
        and first_entry.meta["year"] == 2004
    )
    assert failed == ReadFailure("a.bib:9", "the entry that begins here is not closed; add its brace")
    assert (second_entry.key, second_entry.text) == ("second", "Title: Second one\nhowpublished: http://x.org/a_b\n")
    assert (third_entry.key, third_entry.other_key) == ("second", None)
    with pytest.raises(ReaderError, match="has no entry"):
        read_all("nothing", "a.bib")


# --- damaged, locked, bombs ------------------------------------------------------------------------------------------

SAMPLES: dict[str, Callable[[], bytes]] = {
    "a.epub": lambda: BOOKS["navigation of EPUB 3"],
    "a.odt": lambda: make_odt(ODTS["headings and notes"][0]),
    "a.xlsx": make_sheet,
    "a.pptx": lambda: make_slides(lambda presentation: presentation.slides.add_slide(presentation.slide_layouts[0])),
    "a.rtf": lambda: rb"{\rtf1\ansi Text.\par}",
    "a.eml": lambda: make_message().as_bytes() + b"\nText.\n",
    "a.mbox": lambda: b"From a@x\n" + make_message().as_bytes() + b"\nText.\n",
    "a.ipynb": lambda: make_notebook().encode(),
    "a.py": lambda: SOURCES[".py"].encode(),
    "a.sql": lambda: b"-- x\nCREATE TABLE a (b);\n",
    "a.json": lambda: b'[{"a": 1}, {"b": "\\u00e9"}]',
    "a.md.gz": lambda: gzip.compress(b"# T"),
    "a.tar": lambda: make_tar(("a.md", b"# T", tarfile.REGTYPE), ("b.txt", b"x", tarfile.REGTYPE)),
    "a.md.xz": lambda: lzma.compress(b"# T"),
    "a.md.bz2": lambda: bz2.compress(b"# T"),
    "a.zip": lambda: pack_parts({"a.md": "# T", "b.odt": make_odt("<text:p>x</text:p>")}),
    "a.rst": lambda: b"T\n=\n\n.. note:: x\n",
    "a.org": lambda: b"* T\n- x\n| a |\n#+begin_src\n1\n#+end_src\n",
    "a.xml": lambda: b"<a><p>x</p><list><item><p>y</p></item></list><table><row><cell>z</cell></row></table></a>",
    "a.tex": lambda: (
        b"\\section{T}\\begin{itemize}\\item x\\end{itemize}\\begin{tabular}{l}a & b\\end{tabular} $x$ \\emph{y}"
    ),
    "a.man": lambda: b".TH A 1\n.SH NAME\na \\- b\n.TP\n.B x\ny\n.TS\nl.\na\n.TE\n",
    "a.srt": lambda: b"1\n00:00:01,000 --> 00:00:02,000\nText.\n",
    "a.ics": CALENDAR.encode,
    "a.vcf": lambda: b'BEGIN:VCARD\nitem1.TEL;TYPE="a,b";X=1:5\nNOTE;ENCODING=QUOTED-PRINTABLE:a=\n=20b\nEND:VCARD\n',
    "a.bib": lambda: b'@string{a = "b"}\n@article{k, title = {T {\\\'e}} # a, author = "A and B, C", year = 1}\n',
    "a.adoc": lambda: b"= T\n\n|===\n|a\n|===\n",
}


@pytest.mark.parametrize("key", SAMPLES)
def test_damaged_files_are_refused_with_their_name_or_read_in_part(key: str) -> None:
    file_bytes = SAMPLES[key]()
    step = max(1, len(file_bytes) // 25)
    for end in range(0, len(file_bytes), step):
        flipped = bytearray(file_bytes)
        flipped[end] ^= 0x55
        for data in (file_bytes[:end], bytes(flipped), file_bytes[end:]):
            try:
                read_all(data, key)
            except ReaderError as error:
                assert str(error).startswith(key), error


@given(
    st.sampled_from(
        [
            "rst",
            "asciidoc",
            "org",
            "man",
            "xml",
            "latex",
            "subtitles",
            "mail",
            "mbox",
            "notebook",
            "rtf",
            "calendar",
            "contacts",
            "bibtex",
        ]
    ),
    st.text(st.sampled_from("ab =-*.:|`_+>[]{}<~#\n\\'@;,\""), max_size=80),
)
@example("rtf", "|")
@settings(max_examples=num_examples(400), deadline=None)
def test_any_text_is_read_or_refused(format: str, text: str) -> None:
    opening = {
        "mail": "Subject: x\n\n",
        "subtitles": "00:01.000 --> 00:02.000\n",
        "mbox": "From a\n",
        "rtf": r"{\rtf1 ",
        "calendar": "BEGIN:VCALENDAR\nBEGIN:VEVENT\nSUMMARY:",
        "contacts": "BEGIN:VCARD\nNOTE;ENCODING=QUOTED-PRINTABLE:",
        "bibtex": "@a{b,\n",
    }.get(format, "")
    try:
        for item in read_all(opening + text, "a", format):
            assert item.text.strip() if isinstance(item, RawDocument) else item.reason
    except ReaderError as error:
        assert str(error).startswith("a: ")


@pytest.mark.slow
def test_bombs_are_refused_before_they_are_unpacked() -> None:
    zeros = bytes(1 << 24)
    inner = pack_parts({f"{number}.txt": zeros for number in range(8)})
    middle = pack_parts({f"{number}.zip": inner for number in range(8)})
    items = read_all(pack_parts({f"{number}.zip": middle for number in range(8)}), "a.zip")
    assert all(isinstance(item, ReadFailure) for item in items[1:]) and any("limit" in item.reason for item in items)
    with pytest.raises(ReaderError, match="unpacks to"):
        read_all(pack_parts({f"{number}.txt": bytes(1 << 26) for number in range(9)}), "a.zip")
    deep = "<text:section>" * 300 + "x" + "</text:section>" * 300
    with pytest.raises(ReaderError, match="200 levels deep"):
        read_all(make_odt(deep), "a.odt")
    entities = '<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><x>&b;</x>'
    with pytest.raises(ReaderError, match="its own entities"):
        read_all(pack_parts({"content.xml": entities}), "a.odt")
    with pytest.raises(ReaderError, match="old .odt file or protected by a password"):
        read_all(b"\xd0\xcf\x11\xe0" + bytes(100), "a.odt")


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("pptx", "openpyxl", "striprtf.striprtf", "tree_sitter"):
        monkeypatch.setitem(sys.modules, module, None)
    for key, data in (("a.pptx", b"PK"), ("a.xlsx", b"PK"), ("a.rtf", rb"{\rtf1 x}"), ("a.go", b"package x")):
        with pytest.raises(ReaderError, match=r"pip install 'kvstore-db\[documents\]'"):
            read_all(data, key)

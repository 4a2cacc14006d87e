# ruff: noqa: E501 -- markup is read best with its lines whole
"""Every format as at least five programs write it: the words come through in their order, places cite, limits hold.

The files are made by :mod:`document_producers`. Those of libraries that only tests need are slow tests.
"""

from __future__ import annotations

import gzip
import importlib
import io
import json
import lzma
import re
import socket
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from difflib import SequenceMatcher
from pathlib import Path
from typing import TYPE_CHECKING, Any

import document_producers as samples
import pytest

from kvstore.errors import ReaderError
from kvstore.readers import RawDocument, ReadFailure, SkippedPart, read_bytes
from kvstore.readers.code_languages import LANGUAGES

if TYPE_CHECKING:
    from kvstore import Store

#: Libraries that a plain installation for tests has, with the extra ``documents``.
PRESENT = ("docx", "email", "mailbox", "openpyxl", "pptx")
#: The words of a text that may be lost: one in two hundred.
LEAST = 0.995


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every connection fail."""

    def refuse(*arguments: object) -> None:
        raise AssertionError(f"the network is called: {arguments}")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def list_cases(*, by_library: bool) -> list[tuple[str, str]]:
    return [
        (suffix, name)
        for suffix, producers in samples.PRODUCERS.items()
        for name in producers
        if (samples.NEEDS.get(f"{suffix} {name}", "email") not in PRESENT) is by_library
    ]


def read_file(suffix: str, name: str) -> bytes:
    """Return the file that a producer writes; skip the test if its library is missing or does not work on this machine."""
    needed = samples.NEEDS.get(f"{suffix} {name}")
    if needed is not None:
        try:
            importlib.import_module(needed)
        except (ImportError, OSError) as error:  # OSError: a library of the system that it needs
            pytest.skip(f"{name} is not installed: {error}")
    return samples.PRODUCERS[suffix][name]()


def read_text(data: bytes, key: str, **options: object) -> str:
    documents = [item for item in read_bytes(data, key, None, options) if not isinstance(item, SkippedPart)]
    assert all(isinstance(item, RawDocument) for item in documents), documents
    return "\n".join(document.text for document in documents)


def find_lost_words(source: str, text: str) -> list[str]:
    """Return the words of the source that the text does not contain in the same order; markup does not split words."""
    source_words, text_words = (re.findall(r"\w+", side) for side in (source, text))
    blocks = SequenceMatcher(None, source_words, text_words, autojunk=False).get_matching_blocks()
    common_places = {place for block in blocks for place in range(block.a, block.a + block.size)}
    return [word for place, word in enumerate(source_words) if place not in common_places]


def check_producer(suffix: str, name: str) -> None:
    words = samples.list_latin_words() if suffix == ".pdf" else samples.WORDS
    missing = find_lost_words(words, read_text(read_file(suffix, name), f"lights{suffix}"))
    assert len(missing) <= (1 - LEAST) * len(words.split()), missing


def test_every_format_has_five_producers() -> None:
    assert {suffix: len(producers) for suffix, producers in samples.PRODUCERS.items() if len(producers) < 5} == {}


@pytest.mark.parametrize(("suffix", "name"), list_cases(by_library=False))
def test_the_words_of_a_file_are_read_in_their_order(suffix: str, name: str) -> None:
    check_producer(suffix, name)


@pytest.mark.slow
@pytest.mark.parametrize(("suffix", "name"), list_cases(by_library=True))
def test_the_words_of_a_file_written_by_a_library_keep_their_order(suffix: str, name: str) -> None:
    check_producer(suffix, name)


@pytest.mark.slow
@pytest.mark.parametrize(("suffix", "name"), [*list_cases(by_library=False), *list_cases(by_library=True)])
def test_a_damaged_file_of_any_producer_is_refused_by_its_name_or_read_in_part(suffix: str, name: str) -> None:
    file_bytes = read_file(suffix, name)
    for part in range(8):
        at = len(file_bytes) * part // 8
        flipped = bytearray(file_bytes)
        flipped[at] ^= 0x55
        for data in (file_bytes[:at], bytes(flipped), file_bytes[at:]):
            try:
                list(read_bytes(data, f"lights{suffix}"))
            except ReaderError as error:
                assert str(error).startswith("lights"), error


@pytest.mark.slow
def test_places_in_the_files_of_all_producers_cite(tmp_path: Path, make_store: Callable[..., Store]) -> None:
    folder = tmp_path / "files"
    for suffix, name in list_cases(by_library=False):
        file = folder / re.sub(r"\W+", "-", name) / f"lights{suffix}"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(read_file(suffix, name))
    with make_store() as store:
        result = store.ingest(folder)
        assert not result.failures
        assert result.added == len(list_cases(by_library=False)) + len(samples.PRODUCERS[".mbox"])
        texts = {key: store.get(key).text.encode() for (key,) in store.execute("SELECT key FROM documents")}
        for key, start, end, text in store.execute("SELECT document, start, end, text FROM chunks"):
            assert texts[key][start:end].decode() == text
        mentions = store.execute(
            "SELECT document, start, end FROM mentions WHERE entity = 'Elias Thornbury'"
        ).fetchall()
        assert {tuple(texts[key][start:end].decode().split()) for key, start, end in mentions} == {
            ("Elias", "Thornbury")
        }
        # The answers in the mailboxes do not name him.
        assert len({key for key, _, _ in mentions}) == len(list_cases(by_library=False))


# --- what producers of slides, books and mail do, one by one ---------------------------------------------------------


def test_the_points_of_a_diagram_are_a_list_as_it_is_shown() -> None:
    text = read_text(samples.PRODUCERS[".pptx"]["PowerPoint, with SmartArt and a formula"](), "a.pptx")
    first_item, second_item, third_item = samples.ITEMS
    assert f"- {first_item}\n  - {second_item}\n- {third_item}\n" in text
    assert samples.LAST in text  # beside a formula, which older programs are shown a picture of


def test_a_diagram_with_a_cycle_is_read_once() -> None:
    points = [(name, "", samples.make_runs(f"point {name}")) for name in "abc"]
    data = samples.make_diagram(points, [("a", "b"), ("b", "c"), ("c", "a")])
    slide = samples.make_shape(2, samples.make_paragraphs("Round"), "title") + samples.make_smart_art(4, "r2")
    slides = samples.make_presentation(
        [slide], extra={"ppt/diagrams/data1.xml": data}, relation=((samples.DIAGRAM_TYPE, "../diagrams/data1.xml"),)
    )
    assert read_text(slides, "a.pptx") == "## Round\n\n- point a\n  - point b\n    - point c\n"


def test_dates_and_numbers_of_slides_are_left_out_and_reported() -> None:
    slides = samples.make_presentation(
        [samples.make_shape(2, samples.make_paragraphs("Ships"), "title") + samples.FOOT]
    )
    (document,) = read_bytes(slides, "a.pptx")
    assert isinstance(document, RawDocument)
    assert [(part.element, part.reason, part.text) for part in document.left_out] == [
        ("slide 1", "date", "17 May"),
        ("slide 1", "slide number", "3"),
    ]
    assert "17 May" in read_text(slides, "a.pptx", navigation="keep") and "17 May" not in document.text


def test_hidden_slides_are_left_out_and_reported_unless_all_are_hidden() -> None:
    def hide(data: bytes, *numbers: int) -> bytes:
        parts = samples.unpack_zip(data)
        for number in numbers:
            name = f"ppt/slides/slide{number}.xml"
            parts[name] = parts[name].replace(b"<p:sld ", b'<p:sld show="0" ', 1)
        return samples.pack_zip(parts)

    titles = ("Prices", "Old prices", "Rooms")
    data = samples.make_presentation([
        samples.make_shape(2, samples.make_paragraphs(title), "title")
        + samples.make_shape(3, samples.make_paragraphs(f"text of {title}"))
        for title in titles
    ])  # fmt: skip
    shown = "## Prices\n\ntext of Prices\n\n## Rooms\n\ntext of Rooms\n"
    (document,) = read_bytes(hide(data, 2), "a.pptx")
    assert isinstance(document, RawDocument) and document.text == shown
    assert [(part.element, part.reason, part.text) for part in document.left_out] == [
        ("slide 2", "hidden slide", "Old prices text of Old prices")
    ]
    full = read_text(data, "a.pptx")
    assert read_text(hide(data, 2), "a.pptx", navigation="keep") == full
    assert read_text(hide(data, 1, 2, 3), "a.pptx") == full


def test_hidden_slides_of_opendocument_are_left_out_and_reported_unless_all_are_hidden() -> None:
    def make_slides(*visibilities: str) -> bytes:
        styles = "".join(
            f'<style:style style:name="dp{number}" style:family="drawing-page"><style:drawing-page-properties '
            f'presentation:visibility="{visibility}"/></style:style>'
            for number, visibility in enumerate(visibilities)
        )
        pages = "".join(
            f'<draw:page draw:style-name="dp{number}">'
            f"{samples.make_odp_frame(samples.make_odp_paragraphs(title), 'title')}</draw:page>"
            for number, title in enumerate(("Prices", "Old prices", "Rooms"))
        )
        return samples.make_opendocument("presentation", pages, styles)

    data = make_slides("visible", "hidden", "visible")
    (document,) = read_bytes(data, "a.odp")
    assert isinstance(document, RawDocument) and document.text == "## Prices\n\n## Rooms\n"
    assert [(part.element, part.reason, part.text) for part in document.left_out] == [
        ("slide 2", "hidden slide", "Old prices")
    ]
    full = "## Prices\n\n## Old prices\n\n## Rooms\n"
    assert read_text(data, "a.odp", navigation="keep") == full
    assert read_text(make_slides("hidden", "hidden", "hidden"), "a.odp") == full


def test_the_text_of_merged_cells_of_a_slide_is_repeated_in_each_row() -> None:
    pptx = pytest.importorskip("pptx")
    presentation = pptx.Presentation()
    slide = presentation.slides.add_slide(presentation.slide_layouts[6])
    table = slide.shapes.add_table(3, 3, 0, 0, 9, 9).table
    for row, texts in enumerate((("Team", "Name", "Room"), ("Keepers", "Ada", "4"), ("", "Ivo", "5"))):
        for column, text in enumerate(texts):
            table.cell(row, column).text = text
    table.cell(1, 0).merge(table.cell(2, 0))
    stream = io.BytesIO()
    presentation.save(stream)
    assert read_text(stream.getvalue(), "a.pptx").endswith(
        "| Team | Name | Room |\n| --- | --- | --- |\n| Keepers | Ada | 4 |\n| Keepers | Ivo | 5 |\n"
    )


def test_paragraphs_of_a_slide_with_bullets_and_numbers_are_items() -> None:
    numbered = samples.make_paragraphs("one", "two", properties='<a:pPr><a:buAutoNum type="arabicPeriod"/></a:pPr>')
    plain = samples.make_paragraphs("not one", properties="<a:pPr><a:buNone/></a:pPr>")
    bullet = samples.make_paragraphs("item", properties='<a:pPr lvl="0"><a:buChar char="•"/></a:pPr>')
    body = samples.make_shape(3, plain + numbered, "body", 1) + samples.make_shape(4, bullet)
    slides = samples.make_presentation([samples.make_shape(2, samples.make_paragraphs("List"), "title") + body])
    assert read_text(slides, "a.pptx") == "## List\n\nnot one\n\n1. one\n2. two\n\n- item\n"


MACROS = ("application/vnd.ms-word.document.macroEnabled.main+xml", "application/vnd.ms-word.template.macroEnabledTemplate.main+xml")  # fmt: skip


@pytest.mark.parametrize("target", ["NULL", "../NULL", "/word/media/image9.png", "", "#top", "http://x.org/a.png"])
def test_a_relationship_to_a_missing_part_of_a_document_does_not_matter(target: str) -> None:
    pytest.importorskip("docx")
    data = samples.PRODUCERS[".docx"]["Word"]()
    relation = f'<Relationship Id="r99" Type="{samples.OFFICE}/image" Target="{target}"/></Relationships>'
    stream = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as source, zipfile.ZipFile(stream, "w") as changed:
        for name in source.namelist():
            part = source.read(name)
            if name == "word/_rels/document.xml.rels":
                part = part.replace(b"</Relationships>", relation.encode())
            changed.writestr(name, part)
    assert stream.getvalue().count(b"r99") == 1
    assert read_text(stream.getvalue(), "a.docx") == read_text(data, "a.docx")


@pytest.mark.parametrize("main", MACROS)
def test_a_document_with_macros_and_a_template_are_read_as_others(main: str) -> None:
    body = samples.make_word_paragraph(samples.make_word_runs(samples.FIRST))
    assert read_text(samples.make_word_document(body, main=main), "a.docm") == f"{samples.FIRST}\n"
    with pytest.raises(ReaderError, match=r"a\.docm: is damaged or not DOCX"):
        read_text(samples.make_word_document(body, main="application/xml"), "a.docm")


def make_numbered_paragraph(text: str, list_id: int, level: int | None = None, style: str = "") -> str:
    """Return a paragraph of a Word list; without a level, the list's level for its style applies."""
    named_level = "" if level is None else f'<w:ilvl w:val="{level}"/>'
    properties = f'<w:numPr>{named_level}<w:numId w:val="{list_id}"/></w:numPr>'
    return samples.make_word_paragraph(samples.make_word_runs(text), style, properties)


def test_headings_and_clauses_of_a_word_document_have_the_numbers_that_word_prints() -> None:
    formats = [
        ("decimal", "%1.", "Heading1"),
        ("decimal", "%1.%2", "Heading2"),
        ("lowerLetter", "(%3)", ""),
        ("upperRoman", "§ %1.%4", ""),
    ]
    levels = "".join(
        f'<w:lvl w:ilvl="{level}"><w:start w:val="1"/><w:numFmt w:val="{number_format}"/>'
        f'<w:pStyle w:val="{style}"/><w:lvlText w:val="{text}"/></w:lvl>'
        for level, (number_format, text, style) in enumerate(formats)
    )
    restart = '<w:lvlOverride w:ilvl="2"><w:startOverride w:val="3"/></w:lvlOverride>'
    numbering = f'<w:abstractNum w:abstractNumId="7">{levels}</w:abstractNum>' + "".join(
        f'<w:num w:numId="{list_id}"><w:abstractNumId w:val="7"/>{override}</w:num>'
        for list_id, override in ((1, ""), (2, restart))
    )
    body = [
        make_numbered_paragraph("Terms", 1, style="Heading1"),
        make_numbered_paragraph("Term", 1, style="Heading1"),
        make_numbered_paragraph("Notice", 1, style="Heading2"),
        make_numbered_paragraph("ninety days;", 1, 2),
        make_numbered_paragraph("thirty days:", 1, 2),
        make_numbered_paragraph("by letter.", 1, 3),
        make_numbered_paragraph("Renewal", 2, style="Heading2"),  # the same definition, so the numbers continue
        make_numbered_paragraph("one year;", 2, 2),
        make_numbered_paragraph("two years.", 1, 2),
    ]
    styles = {"Heading1": "heading 1", "Heading2": "heading 2"}
    assert read_text(samples.make_word_document("".join(body), styles, numbering), "a.docx") == (
        "# 1. Terms\n\n# 2. Term\n\n## 2.1 Notice\n\n- (a) ninety days;\n- (b) thirty days:\n  - § 2.I by letter.\n\n"
        "## 2.2 Renewal\n\n- (c) one year;\n- (d) two years.\n"
    )


def number_paragraphs(*paragraphs: str, level: str, **styles: str) -> str:
    """Return the Markdown of paragraphs that a numbering with a definition of one level can number, as list 1."""
    numbering = (
        f'<w:abstractNum w:abstractNumId="7">{level}</w:abstractNum>'
        '<w:num w:numId="1"><w:abstractNumId w:val="7"/></w:num>'
    )
    return read_text(samples.make_word_document("".join(paragraphs), styles, numbering), "a.docx")


DECIMAL_LEVEL = '<w:lvl w:ilvl="0"><w:start w:val="1"/><w:numFmt w:val="decimal"/><w:lvlText w:val="%1."/></w:lvl>'


def test_a_number_that_the_author_typed_before_the_number_of_its_list_is_read_once() -> None:
    assert (
        number_paragraphs(
            make_numbered_paragraph("1. Terms", 1, style="Heading1"),
            make_numbered_paragraph("2 years", 1, style="Heading1"),
            make_numbered_paragraph("3. by letter", 1),
            make_numbered_paragraph("4 letters", 1),
            level=DECIMAL_LEVEL,
            Heading1="heading 1",
        )
        == "# 1. Terms\n\n# 2. 2 years\n\n3. by letter\n4. 4 letters\n"
    )


@pytest.mark.parametrize("name", ["del", "moveFrom", "vanish"])
def test_a_paragraph_that_is_deleted_or_hidden_has_no_number_in_a_word_list(name: str) -> None:
    gone = (
        f'<w:p><w:pPr><w:numPr><w:ilvl w:val="0"/><w:numId w:val="1"/></w:numPr><w:rPr><w:{name}/></w:rPr></w:pPr>'
        "<w:del><w:r><w:delText>gone</w:delText></w:r></w:del></w:p>"
    )
    empty = gone.replace(f"<w:{name}/>", "")  # Word numbers it
    items = [make_numbered_paragraph(text, 1, 0) for text in ("one", "two", "four")]
    text = number_paragraphs(items[0], gone, items[1], empty, items[2], level=DECIMAL_LEVEL)
    assert text == "1. one\n2. two\n4. four\n"


@pytest.mark.parametrize("value", ["", ' w:val=""', ' w:val="x"', ' w:val="-1"', ' w:val="99999999999999999999"'])
def test_damaged_numbers_of_word_lists_and_tables_do_not_matter(value: str) -> None:
    level = DECIMAL_LEVEL.replace(' w:val="1"', value).replace(' w:ilvl="0"', value.replace("val", "ilvl"))
    item = make_numbered_paragraph("one", 1, 0)
    item += item.replace(' w:val="0"', value) + item.replace(' w:val="1"', value)
    cells = f"<w:tc><w:tcPr><w:gridSpan{value}/></w:tcPr><w:p/></w:tc><w:tc>{make_numbered_paragraph('b', 1)}</w:tc>"
    text = number_paragraphs(item, f"<w:tbl><w:tr>{cells}</w:tr></w:tbl>", level=level)
    assert re.findall(r"\w+", text.replace("0. ", "").replace("1. ", "")) == ["one", "one", "one", "b"]


def test_a_long_label_of_a_word_list_is_not_repeated_for_each_item() -> None:
    level = DECIMAL_LEVEL.replace("%1.", "%1" * 100_000)
    text = number_paragraphs(*[make_numbered_paragraph("one", 1, 0)] * 1000, level=level)
    assert text.count("one") == 1000
    assert len(text) < 150_000


def test_hidden_text_and_missing_parts_of_a_word_header_are_omitted() -> None:
    docx = pytest.importorskip("docx")
    document = docx.Document()
    document.add_paragraph("The rent is due.")
    header = document.sections[0].header
    header.paragraphs[0].text = "Hall"
    header.paragraphs[0].add_run(" secret").font.hidden = True
    stream = io.BytesIO()
    document.save(stream)
    assert read_text(stream.getvalue(), "a.docx") == "The rent is due.\n\nHall\n"
    with zipfile.ZipFile(stream) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    name = "word/_rels/document.xml.rels"
    parts[name] = parts[name].replace(b'Target="header1.xml"', b'Target="http://x.example" TargetMode="External"')
    changed = io.BytesIO()
    with zipfile.ZipFile(changed, "w") as archive:
        for part_name, part in parts.items():
            archive.writestr(part_name, part)
    assert read_text(changed.getvalue(), "a.docx") == "The rent is due.\n"


def test_merged_rows_above_the_header_of_a_word_table_are_its_titles() -> None:
    def make_row(*cells: str, span: int = 1) -> str:
        return "<w:tr>{}</w:tr>".format(
            "".join(
                f'<w:tc><w:tcPr><w:gridSpan w:val="{span}"/></w:tcPr>'
                f"{samples.make_word_paragraph(samples.make_word_runs(cell) if cell else '')}</w:tc>"
                for cell in cells
            )
        )

    def read_rows(*rows: str) -> str:
        return read_text(samples.make_word_document(f"<w:tbl>{''.join(rows)}</w:tbl>"), "a.docx")

    title, note = make_row("Allowances from 2025", span=2), make_row("Per mile", span=2)
    header, car, bicycle = make_row("Item", "Rate"), make_row("Car", "41p"), make_row("Bicycle", "22p")
    table = "| Item | Rate |\n| --- | --- |\n| Car | 41p |\n| Bicycle | 22p |\n"
    assert read_rows(title, make_row("", span=2), note, header, car, bicycle) == (
        f"Allowances from 2025\n\nPer mile\n\n{table}"
    )
    assert read_rows(header, car, bicycle) == table
    # A merged row below the header is a row, and so is one above a single row.
    assert read_rows(header, car, note) == "| Item | Rate |\n| --- | --- |\n| Car | 41p |\n| Per mile |  |\n"
    assert read_rows(title, car) == "| Allowances from 2025 |  |\n| --- | --- |\n| Car | 41p |\n"


@pytest.mark.parametrize("style", ["Light List Accent 1", "Medium Shading 1", "Light Grid"])
def test_a_word_table_whose_style_marks_its_header_is_no_form(style: str) -> None:
    docx = pytest.importorskip("docx")
    document = docx.Document()
    table = document.add_table(rows=3, cols=2, style=style)
    for row, texts in enumerate((("Name", "Phone 1"), ("Ada", "0301 44"), ("Ivo", "0302 7"))):
        for column, text in enumerate(texts):
            table.cell(row, column).text = text
    stream = io.BytesIO()
    document.save(stream)
    text = read_text(stream.getvalue(), "a.docx")
    assert text == "| Name | Phone 1 |\n| --- | --- |\n| Ada | 0301 44 |\n| Ivo | 0302 7 |\n"


def test_headers_and_footers_of_a_word_document_are_its_last_paragraphs_without_page_numbers() -> None:
    docx = pytest.importorskip("docx")
    oxml = importlib.import_module("docx.oxml")
    namespace = samples.WML
    number = "".join(
        f"<w:r>{part}</w:r>"
        for part in (
            '<w:fldChar w:fldCharType="begin"/>',
            "<w:instrText> PAGE </w:instrText>",
            '<w:fldChar w:fldCharType="separate"/>',
            "<w:t>3</w:t>",
            '<w:fldChar w:fldCharType="end"/>',
        )
    )
    total = '<w:fldSimple w:instr=" NUMPAGES "><w:r><w:t>9</w:t></w:r></w:fldSimple>'
    page = f"{samples.make_word_runs('Page ')}{number}{samples.make_word_runs(' of ')}{total}"
    line = f"<w:p {namespace}>{samples.make_word_runs('IBAN GB00 1234')}<w:r><w:tab/></w:r>{page}</w:p>"

    document = docx.Document()
    document.add_heading("Lease of the hall", 1)
    document.add_paragraph("The rent is due in May. Ask the warden.")
    section = document.sections[0]
    section.different_first_page_header_footer = True
    for part, text in ((section.first_page_header, "Our ref. CE/2207/G"), (section.header, "LEASE OF THE HALL")):
        part.paragraphs[0].text = text
    section.header.add_paragraph("Our ref. CE/2207/G")
    section.header.add_paragraph("2026")
    section.footer.add_paragraph("Ask the warden.")
    section.footer._element.append(oxml.parse_xml(line))
    section.footer._element.append(oxml.parse_xml(f"<w:p {namespace}>{page}</w:p>"))
    document.add_section().header.is_linked_to_previous = False
    document.sections[1].header.paragraphs[0].text = "Annex"
    stream = io.BytesIO()
    document.save(stream)
    assert read_text(stream.getvalue(), "a.docx") == (
        "# Lease of the hall\n\nThe rent is due in May. Ask the warden.\n\nOur ref. CE/2207/G\n\nIBAN GB00 1234\n"
    )


def test_links_of_a_word_document_have_their_mail_addresses_and_telephone_numbers() -> None:
    targets = ("mailto:ada@x.example?subject=Keys", "mailto:bo@x.example", "tel:+4930123", "https://x.example")
    texts = ("Ada", "bo@x.example", "call", "our page")
    relations = "".join(
        f'<Relationship Id="rL{n}" Type="{samples.OFFICE}/hyperlink" Target="{target}" TargetMode="External"/>'
        for n, target in enumerate(targets)
    )
    inner = [f'<w:hyperlink r:id="rL{n}">{samples.make_word_runs(text)}</w:hyperlink>' for n, text in enumerate(texts)]
    body = samples.make_word_paragraph(samples.make_word_runs("; ").join(inner))
    parts = samples.unpack_zip(samples.make_word_document(body))
    name = "word/_rels/document.xml.rels"
    parts[name] = parts[name].replace(b"</Relationships>", f"{relations}</Relationships>".encode())
    assert read_text(samples.pack_zip(parts), "a.docx") == (
        "Ada (ada@x.example); bo@x.example; call (+4930123); our page\n"
    )


def make_struck_paragraph(*texts: tuple[str, str]) -> str:
    """Return a paragraph of a Word document, given the properties and the text of each run."""
    runs = (samples.make_word_runs(text, properties=f"<w:rPr>{properties}</w:rPr>") for properties, text in texts)
    return samples.make_word_paragraph("".join(runs))


def test_struck_out_text_of_a_word_document_is_marked_and_left_out_of_answers(
    tmp_path: Path, make_store: Callable[..., Store]
) -> None:
    heading = samples.make_word_paragraph(
        samples.make_word_runs("Rent ") + samples.make_word_runs("of 2024", properties="<w:rPr><w:strike/></w:rPr>"),
        "Heading1",
    )
    body = (
        heading
        + make_struck_paragraph(
            ("", "The rent of the hall is "),
            ("<w:strike/>", "300 pounds "),
            ("<w:dstrike/><w:b/>", "a month"),
            ("<w:b/>", " 450 "),
            ('<w:strike w:val="0"/>', "pounds."),
        )
        + make_struck_paragraph(("<w:strike/>", "The rent of the kitchen is 80 pounds. It rises in May."))
    )
    data = samples.make_word_document(body, {"Heading1": "heading 1"})
    text = read_text(data, "a.docx")
    assert text == (
        "# Rent ~~of 2024~~\n\n"
        "The rent of the hall is ~~300 pounds *a month*~~ *450* pounds.\n\n"
        "~~The rent of the kitchen is 80 pounds.~~ ~~It rises in May.~~\n"
    )
    (tmp_path / "rent.docx").write_bytes(data)
    store = make_store()
    store.ingest(str(tmp_path / "rent.docx"))
    answer = store.ask("What is the rent of the hall?")
    assert answer.text.startswith("The rent of the hall is 450 pounds.")
    assert store.get("rent.docx").title == "Rent"
    assert "80 pounds" not in store.ask("What is the rent of the kitchen?").text


@pytest.mark.parametrize("kind", ["presentation", "slideshow", "template"])
def test_a_presentation_with_macros_and_a_show_are_read_as_others(kind: str) -> None:
    plain = samples.make_presentation(
        [
            samples.make_shape(2, samples.make_paragraphs(samples.TITLE), "title")
            + samples.make_shape(3, samples.make_paragraphs("x"))
        ]
    )
    before = b"application/vnd.openxmlformats-officedocument.presentationml.presentation.main+xml"
    parts = samples.unpack_zip(plain)
    types = parts["[Content_Types].xml"].replace(
        before, f"application/vnd.ms-powerpoint.{kind}.macroEnabled.main+xml".encode()
    )
    macro = samples.pack_zip({**parts, "[Content_Types].xml": types, "ppt/vbaProject.bin": b"\0" * 99})
    assert read_text(macro, "a.pptm") == read_text(plain, "a.pptx") == f"## {samples.TITLE}\n\nx\n"


def test_the_cells_of_an_opendocument_sheet_are_as_kept_and_the_sheets_apart() -> None:
    def make_cell(kind: str, value: str, text: str) -> str:
        attribute = "value" if kind in ("float", "percentage") else f"{kind}-value"
        return f'<table:table-cell office:value-type="{kind}" office:{attribute}="{value}"><text:p>{text}</text:p></table:table-cell>'

    rows = (
        f"<table:table-row>{samples.make_ods_cell('id')}{samples.make_ods_cell('text')}{samples.make_ods_cell('built')}</table:table-row>"
        '<table:table-row table:number-rows-repeated="2"><table:table-cell/></table:table-row>'
        f"<table:table-row>{samples.make_ods_cell('s1')}{make_cell('boolean', 'true', 'WAHR')}{make_cell('date', '1901-02-03', '3.2.01')}</table:table-row>"
        f"<table:table-row>{make_cell('float', '4.5', '4,50')}{make_cell('percentage', '0.5', '50 %')}{make_cell('date', '1901-02-03T04:05:00', 'x')}</table:table-row>"
    )
    data = samples.make_ods(
        rows,
        f'<table:table table:name="Empty"/><table:table table:name="Two"><table:table-row>{samples.make_ods_cell("a|b")}</table:table-row></table:table>',
    )
    items = list(read_bytes(data, "a.ods"))
    assert [(item.key, item.title) for item in items if isinstance(item, RawDocument)] == [
        ("a.ods/Two", "a: Two"),
        ("a.ods/Lights", "a: Lights"),
    ]
    assert read_text(data, "a.ods").split("\n")[3:7] == [
        "| id | text | built |",
        "| --- | --- | --- |",
        "| s1 | TRUE | 1901-02-03 |",
        "| 4.5 | 50 % | 1901-02-03 04:05:00 |",
    ]
    first_row, second_row = read_bytes(data, "a.ods", "rows", {"sheet": "Lights"})
    assert isinstance(first_row, RawDocument) and isinstance(second_row, RawDocument)
    assert (first_row.key, first_row.text, first_row.meta) == ("s1", "TRUE", {"built": "1901-02-03"})
    assert (second_row.key, second_row.text) == ("4.5", "50 %")
    with pytest.raises(
        ReaderError, match="has no sheet 'Three'; the option sheet must name one of: Empty, Two, Lights"
    ):
        list(read_bytes(data, "a.ods", "rows", {"sheet": "Three"}))


def test_a_sheet_that_repeats_its_text_without_end_is_refused() -> None:
    strings = f"<si><t>{'x' * 30_000}</t></si>"
    rows = ("<row>" + '<c t="s"><v>0</v></c>' * 100 + "</row>") * 30
    with pytest.raises(ReaderError, match=r"a\.xlsx: a sheet has more than .* characters"):
        read_text(samples.make_workbook(rows, strings), "a.xlsx")


@pytest.mark.parametrize(
    ("styles", "text"),
    [
        ('<fills><fill/></fills><cellXfs><xf numFmtId="0"/><xf numFmtId="9" xfId="4"/></cellXfs>', "500%"),
        ('<fonts><font><color rgb="FF00"/></font></fonts><cellXfs><xf fontId="7"/><xf numFmtId="x"/></cellXfs>', "5"),
        ('<numFmts><numFmt numFmtId="170" formatCode="0.0&quot;%&quot;"/></numFmts><cellXfs><xf/></cellXfs>', "5"),
        ("<cellXfs><xf/><xf numFmtId='199'/></cellXfs>", "5"),
        ("", "5"),
    ],
)
def test_styles_that_openpyxl_refuses_do_not_matter(styles: str, text: str) -> None:
    pytest.importorskip("openpyxl")
    core = "http://schemas.openxmlformats.org/package/2006/metadata/core-properties"
    created = '<created xmlns="http://purl.org/dc/terms/">unknown</created>'
    stream = io.BytesIO(samples.make_workbook('<row r="1"><c r="A1"><v>1</v></c><c r="B1" s="1"><v>5</v></c></row>'))
    with zipfile.ZipFile(stream, "a") as archive:
        archive.writestr("xl/styles.xml", f'<styleSheet xmlns="{samples.SML}">{styles}</styleSheet>')
        archive.writestr("docProps/core.xml", f'<coreProperties xmlns="{core}">{created}</coreProperties>')
    assert read_text(stream.getvalue(), "a.xlsx").startswith(f"| 1 | {text} |\n")


def test_a_sheet_with_a_row_number_beyond_those_of_excel_is_refused() -> None:
    pytest.importorskip("openpyxl")
    rows = '<row r="1"><c r="A1"><v>1</v></c></row><row r="2147483648"><c><v>2</v></c></row>'
    with pytest.raises(ReaderError, match="a sheet has more than 1,048,576 rows, which is the limit: split it"):
        read_text(samples.make_workbook(rows), "a.xlsx")


def test_slides_of_opendocument_have_notes_and_repeated_texts_are_reported() -> None:
    (document,) = read_bytes(samples.PRODUCERS[".odp"]["LibreOffice Impress"](), "a.odp")
    assert isinstance(document, RawDocument)
    assert document.title == samples.TITLE and document.meta == {"slides": 2}
    assert [(part.element, part.reason) for part in document.left_out] == [
        ("slide 1", "date"), ("slide 1", "slide number"), ("slide 2", "date"), ("slide 2", "slide number"),
    ]  # fmt: skip
    assert document.text.endswith(f"\n\nNotes: {samples.LAST}\n") and "17 May" not in document.text
    text = read_text(samples.PRODUCERS[".odp"]["LibreOffice Impress"](), "a.odp", navigation="keep")
    assert text.count("17 May") == 2


@pytest.mark.parametrize("suffix", [".odt", ".ods", ".odp"])
def test_an_opendocument_that_is_another_or_locked_is_refused(suffix: str) -> None:
    with pytest.raises(ReaderError, match=rf"a\{suffix}: is not {suffix[1:].upper()} \(it contains no "):
        read_text(samples.make_opendocument("chart", ""), f"a{suffix}")
    parts = samples.unpack_zip(samples.make_opendocument("text", "<text:p>x</text:p>"))
    locked = parts["META-INF/manifest.xml"].replace(b"/>", b"><manifest:encryption-data/></manifest:file-entry>", 1)
    with pytest.raises(ReaderError, match="is protected by a password"):
        read_text(samples.pack_zip({**parts, "META-INF/manifest.xml": locked}), f"a{suffix}")


def test_a_word_of_which_some_letters_are_emphasised_is_one_word() -> None:
    body = "<p>In <b>win</b>ter Port<i>land</i> and <b>Start</b> <i>P</i><i>oint</i>, <b>H</b>alcyon’<i>s</i>.</p>"
    assert read_text(body.encode(), "a.html") == "In winter Portland and *Start* Point, Halcyon’*s*.\n"


def test_a_book_of_xhtml_may_close_any_element_in_its_start_tag() -> None:
    page = '<html xmlns="http://www.w3.org/1999/xhtml"><body><h2/><p>One <em/>two.<blockquote/></p><pre/><p>Three &lt; <![CDATA[4 < 5 & 6]]>.</p></body></html>'
    assert read_text(page.encode(), "a.xhtml") == "One two.\n\nThree < 4 < 5 & 6.\n"


@pytest.mark.parametrize(
    ("plain", "markup", "text"),
    [
        ("See the other form.", "<p>" + "The lamp was lit at dusk. " * 3 + "</p>", "The lamp was lit"),
        ("The lamp was lit at dusk.", "<style>p {a: b}</style><p>The <b>lamp</b> was lit at dusk.</p>", "The lamp was"),
        ("", "<p>Only here.</p>", "Only here."),
    ],
)
def test_the_plain_form_of_a_mail_is_read_unless_it_is_much_shorter(plain: str, markup: str, text: str) -> None:
    mail = (
        "Subject: x\nContent-Type: multipart/alternative; boundary=b\n\n"
        f"--b\nContent-Type: text/plain\n\n{plain}\n--b\nContent-Type: text/html\n\n{markup}\n"
        "--b\nContent-Type: text/calendar\n\nBEGIN:VCALENDAR\n--b--\n"
    )
    mail_text = read_text(mail.encode(), "a.eml")
    assert mail_text.startswith(text) and "VCALENDAR" not in mail_text and "a: b" not in mail_text


def test_parts_of_a_mail_of_any_kind_of_text_are_read() -> None:
    mail = (
        "Subject: x\nContent-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: text/plain\n\nSee the patch.\n"
        "--b\nContent-Type: text/x-patch\n\nlight the lamp\n--b--\n"
    )
    assert read_text(mail.encode(), "a.eml") == "See the patch.\n\nlight the lamp\n"


@pytest.mark.parametrize(
    ("declared", "encoding"),
    [("gb2312", "gb18030"), ("shift_jis", "cp932"), ("ks_c_5601-1987", "cp949"), ("iso-8859-1", "cp1252"),
     ("unknown-8bit", "utf-8"), ("windows-874", "cp874")],
)  # fmt: skip
def test_character_sets_of_mail_are_decoded_as_in_browsers(declared: str, encoding: str) -> None:
    text = {"gb18030": "照明鎔", "cp932": "灯台①", "cp949": "등대똠", "cp1252": "“light”", "cp874": "ประภาคาร…"}.get(
        encoding, "Süd"
    )
    mail = f"Subject: x\nContent-Type: text/plain; charset={declared}\nContent-Transfer-Encoding: 8bit\n\n".encode()
    assert read_text(mail + text.encode(encoding), "a.eml") == f"{text}\n"


@pytest.mark.parametrize("encoding", ["utf-8", "cp1252"])
def test_a_header_whose_letters_are_not_encoded_is_read(encoding: str) -> None:
    mail = "Subject: Süd – café\nFrom: Björn <b@x.org>\n\nText.\n".encode(encoding)
    (document,) = read_bytes(mail, "a.eml")
    assert isinstance(document, RawDocument)
    assert (document.title, document.meta["from"]) == ("Süd – café", "Björn <b@x.org>")


def test_a_line_that_only_begins_with_from_begins_no_message() -> None:
    box = b"From a@x Mon\nSubject: One\n\nText.\n\nFrom here the coast is low.\n\nFrom there\nand on.\n"
    assert read_text(box, "a.mbox") == "Text.\n\nFrom here the coast is low.\n\nFrom there\nand on.\n"


def test_html_output_of_a_notebook_is_read() -> None:
    output = {"output_type": "display_data", "data": {"text/plain": "<IPython.core.display.HTML object>"}}
    output["data"]["text/html"] = "<h3>Ships</h3><table><tr><th>a<th>b<tr><td>1<td>2</table>"  # type: ignore[index]
    cells = [{"cell_type": "code", "source": "show()", "outputs": [output]}]
    text = read_text(json.dumps({"nbformat": 4, "cells": cells, "metadata": {}}).encode(), "a.ipynb")
    assert text == "```\nshow()\n```\n\n### Ships\n\n| a | b |\n| --- | --- |\n| 1 | 2 |\n"


def test_parts_next_to_a_rich_text_are_read() -> None:
    box = r"{\shp{\*\shpinst\shpleft1{\sp{\sn type}{\sv 202}}{\shptxt \pard In a box.\par}}"
    box += r"{\shprslt{\*\do{\dptxbxtext In a box.}}}}"
    note = r"{\super\chftn{\footnote\ftnalt {\super\chftn} A \{note\}.}}"
    text = read_text(
        rf"{{\rtf1\ansi\uc1 The {box}light{note} \u-10179?\u-8704? goes on.\par The end.\par}}".encode(), "a.rtf"
    )
    assert text == "The light[1] 😀 goes on.\n\nIn a box.\n\nThe end.\n\n[1] A {note}.\n"
    assert "light" in read_text(rb"{\rtf1 The light{\footnote goes on.", "a.rtf")


# --- source code -----------------------------------------------------------------------------------------------------

FRAGMENT = {
    "py": "def {0}(ship):\n\treturn 'Küste'  # {1}\n",
    "js": "function {0}(ship) {{\n\treturn 'Küste'; // {1}\n}}\n",
    "ts": "export function {0}(ship: string): string {{\n\treturn 'Küste'; // {1}\n}}\n",
    "java": 'class {0} {{\n\tString a = "Küste"; // {1}\n}}\n',
    "c": "int {0}(int ship)\n{{\n\treturn 0; /* Küste {1} */\n}}\n",
    "cpp": "int {0}(int ship)\n{{\n\treturn 0; // Küste {1}\n}}\n",
    "cs": 'class {0} {{\n\tstring a = "Küste"; // {1}\n}}\n',
    "go": "package x\n\nfunc {0}(ship int) int {{\n\treturn 0 // Küste {1}\n}}\n",
    "rs": "fn {0}(ship: u8) -> u8 {{\n\t0 // Küste {1}\n}}\n",
    "rb": "def {0}(ship)\n\t'Küste' # {1}\nend\n",
    "php": "<?php\nfunction {0}($ship) {{\n\treturn 'Küste'; // {1}\n}}\n",
    "kt": "fun {0}(ship: Int): Int {{\n\treturn 0 // Küste {1}\n}}\n",
}


@pytest.mark.parametrize("suffix", FRAGMENT)
def test_source_code_of_any_editor_is_read(suffix: str) -> None:
    pytest.importorskip("tree_sitter")
    assert f".{suffix}" in LANGUAGES
    code = FRAGMENT[suffix].format("count_ships", "says the keeper")
    forms = (
        code,
        code.replace("\n", "\r\n"),
        "\ufeff" + code,
        code.replace("\t", "    ").rstrip("\n"),
        code.replace("return", "reTurn(").replace("}", "") + "\n<<<<<<< HEAD\n",
    )
    for form in forms:
        text = read_text(form.encode(), f"a.{suffix}")
        assert not find_lost_words(form, text)
    assert re.search(r"^#+ count_ships$", read_text(code.encode(), f"a.{suffix}"), re.M)


# --- PDF: columns, running heads, pictures of pages ------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("columns", [1, 2])
def test_pages_of_columns_with_running_heads_are_read_in_their_order(columns: int) -> None:
    typst = pytest.importorskip("typst")
    data = typst.compile(samples.make_typst_source(columns, 4, "Annals of the coast").encode())
    (document,) = read_bytes(data, "a.pdf")
    assert isinstance(document, RawDocument)
    source = " ".join(f"{part} {samples.list_latin_words()} {part}" for part in samples.PARTS)
    missing = find_lost_words(source, document.text)
    assert len(missing) <= (1 - LEAST) * len(source.split()), missing
    assert "Annals" not in document.text
    reasons = [part.reason for part in document.left_out]
    assert reasons.count("running head") >= 4 and reasons.count("page number") >= 4


# --- limits ----------------------------------------------------------------------------------------------------------


def iter_bombs() -> Iterator[tuple[str, bytes]]:
    deep = "(" * 100_000
    yield "a.ipynb", ('{"cells": ' + "[" * 100_000).encode()
    yield "a.rtf", b"{\\rtf1 " + b"{" * 100_000 + b"x"
    yield "a.rst", "\n".join(" " * depth + "* x" for depth in range(2_000)).encode()
    yield "a.adoc", "\n".join("*" * depth + " x" for depth in range(1, 2_000)).encode()
    yield "a.py", deep.encode()
    yield (
        "a.man",
        (".Oo " + "Oo " * 100_000 + "\n" + ".IP x\ny\n.RS\n" * 20_000 + ".Bl -tag\n.It x\n" * 20_000).encode(),
    )
    yield "a.tex", ("\\emph{" * 20_000 + "\\begin{a}" * 9_000 + "\\[ x " * 50_000 + "\\end{a}" * 9_000).encode()
    yield "a.xml", ("<a><p/>" + "<table><row><cell>" * 60 + "y" + "</cell></row></table>" * 60 + "</a>").encode()
    yield "a.org", ("#+begin_quote\n:x:\n* a" + " " * 9_999 + "b\n- [[[[*/=~_+<\n").encode() * 900
    yield (
        "a.ics",
        ("BEGIN:VCALENDAR\n" * 9_000 + "BEGIN:VEVENT\nSUMMARY" + ';A="' * 50_000 + ":x\n" + " ;" * 9_000).encode(),
    )
    yield (
        "a.vcf",
        ("BEGIN:VCARD\nNOTE;ENCODING=QUOTED-PRINTABLE:" + "=\n" * 200_000 + "x\nADR:" + ";\\" * 90_000).encode(),
    )
    yield "a.bib", ("@a{b, c = {" * 50_000 + '@a{b, c = "{' * 50_000 + '@a{b, c = {\\"' * 20_000).encode()
    yield "a.vtt", ("00:01.000 --> 00:02.000\n" + "<v." * 9_999 + "\n").encode() * 9
    part = "--{0}\nContent-Type: multipart/mixed; boundary={1}\n\n"
    yield (
        "a.eml",
        (
            "Subject: x\nContent-Type: multipart/mixed; boundary=0\n\n"
            + "".join(part.format(n, n + 1) for n in range(3_000))
        ).encode(),
    )
    yield "a.md.gz", gzip.compress(gzip.compress(bytes(1 << 24)))
    group = "<p:grpSp><p:nvGrpSpPr/><p:grpSpPr/>" * 300 + "</p:grpSp>" * 300
    yield "a.pptx", samples.make_presentation([group])
    yield "a.xlsx", samples.make_workbook("<row>" + '<c r="XFD1048576" t="n"><v>1</v></c>' * 3 + "</row>", "<si>" * 500)
    yield (
        "a.odt",
        samples.make_odt(
            samples.make_odf_table(lambda text: f"<text:p>{text}</text:p>").replace(
                "<table:table-row>", '<table:table-row table:number-rows-repeated="1000000000">'
            )
        ),
    )
    yield "a.odt", samples.make_odt("<text:p>x<text:s text:c='4000000000'/>y</text:p>")
    sheet = samples.make_ods_rows(
        suffix='<table:table-cell table:number-columns-repeated="999999999"><text:p>x</text:p></table:table-cell>'
    )
    yield (
        "a.ods",
        samples.make_ods(
            sheet.replace("<table:table-row>", '<table:table-row table:number-rows-repeated="999999999">')
        ),
    )
    yield (
        "a.odp",
        samples.make_odp(
            "<draw:g>" * 190 + samples.make_odp_frame(samples.make_odp_paragraphs("x")) + "</draw:g>" * 190
        ),
    )
    negative = bytearray(tarfile.TarInfo("a.txt").tobuf(tarfile.GNU_FORMAT))
    negative[124:136] = b"\xff" * 11 + b"\x00"
    negative[148:156] = b"%06o\0 " % (sum(negative[:148]) + 8 * 32 + sum(negative[156:512]))
    yield "a.tar", bytes(negative) * 3 + bytes(1024)
    yield "a.tar.xz", lzma.compress(samples.pack_tar({"a.txt.xz": lzma.compress(bytes(1 << 24))}))
    yield "a.pdf", make_pdf(zlib.compress(zlib.compress(b"BT /F1 9 Tf (x) Tj ET " * (1 << 20))))


def make_pdf(stream: bytes) -> bytes:
    """Make a PDF page whose content is compressed twice."""
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 9 9] /Contents 4 0 R >>",
        b"<< /Filter [/FlateDecode /FlateDecode] /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream),
    ]
    return (
        b"%PDF-1.4\n"
        + b"".join(b"%d 0 obj\n%s\nendobj\n" % pair for pair in enumerate(objects, 1))
        + b"trailer\n<< /Root 1 0 R >>\n"
    )


@pytest.mark.slow
@pytest.mark.parametrize("number", range(24))
def test_a_file_made_to_exhaust_a_reader_ends_within_its_limits(
    number: int, limit_cpu_time: Callable[[float], None]
) -> None:
    key, data = list(iter_bombs())[number]
    limit_cpu_time(60)
    try:
        items: list[Any] = list(read_bytes(data, key))
    except ReaderError as error:
        assert str(error).startswith("a.")
        return
    assert all(isinstance(item, (RawDocument, ReadFailure, SkippedPart)) for item in items)
    assert sum(len(item.text) for item in items if isinstance(item, RawDocument)) < 1 << 24

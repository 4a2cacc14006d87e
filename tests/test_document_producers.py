"""Every format as at least five programs write it: the words come through in their order, places cite, limits hold.

The files are made by :mod:`document_producers`. Those of libraries that only tests need are slow tests.
"""

from __future__ import annotations

import gzip
import importlib
import json
import re
import socket
import zlib
from collections.abc import Callable, Iterator
from difflib import SequenceMatcher
from pathlib import Path
from typing import TYPE_CHECKING, Any

import document_producers as made
import pytest

from kvstore.errors import ReaderError
from kvstore.ingest.readers import RawDocument, ReadFailure, read_bytes
from kvstore.ingest.readers.code_languages import LANGUAGES

if TYPE_CHECKING:
    from kvstore import Store

#: Libraries that a plain installation for tests has, with the extra ``documents``.
PRESENT = ("email", "mailbox", "openpyxl", "pptx")
#: The words of a text that may be lost: one in two hundred.
LEAST = 0.995


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever calls anybody fails."""

    def refuse(*called: object) -> None:
        raise AssertionError(f"the network is called: {called}")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def cases(*, by_library: bool) -> list[tuple[str, str]]:
    return [
        (suffix, name)
        for suffix, producers in made.PRODUCERS.items()
        for name in producers
        if (made.NEEDS.get(f"{suffix} {name}", "email") not in PRESENT) is by_library
    ]


def file_of(suffix: str, name: str) -> bytes:
    """What a producer writes; skips where its library is not there, or cannot work on this machine."""
    needed = made.NEEDS.get(f"{suffix} {name}")
    if needed is not None:
        try:
            importlib.import_module(needed)
        except (ImportError, OSError) as error:  # OSError: a library of the system that it needs
            pytest.skip(f"{name} is not installed: {error}")
    return made.PRODUCERS[suffix][name]()


def texts(data: bytes, key: str, **options: object) -> str:
    found = list(read_bytes(data, key, None, options))
    assert all(isinstance(item, RawDocument) for item in found), found
    return "\n".join(document.text for document in found)


def lost(source: str, text: str) -> list[str]:
    """The words of the source that do not stand in the text in their order; markup does not part words."""
    wanted, found = (re.findall(r"\w+", each) for each in (source, text))
    blocks = SequenceMatcher(None, wanted, found, autojunk=False).get_matching_blocks()
    kept = {place for block in blocks for place in range(block.a, block.a + block.size)}
    return [word for place, word in enumerate(wanted) if place not in kept]


def check(suffix: str, name: str) -> None:
    words = made.latin_words() if suffix == ".pdf" else made.WORDS
    missing = lost(words, texts(file_of(suffix, name), f"lights{suffix}"))
    assert len(missing) <= (1 - LEAST) * len(words.split()), missing


def test_every_format_has_five_producers() -> None:
    assert {suffix: len(producers) for suffix, producers in made.PRODUCERS.items() if len(producers) < 5} == {}


@pytest.mark.parametrize(("suffix", "name"), cases(by_library=False))
def test_the_words_of_a_file_come_through_in_their_order(suffix: str, name: str) -> None:
    check(suffix, name)


@pytest.mark.slow
@pytest.mark.parametrize(("suffix", "name"), cases(by_library=True))
def test_the_words_of_what_a_library_writes_come_through_in_their_order(suffix: str, name: str) -> None:
    check(suffix, name)


@pytest.mark.slow
@pytest.mark.parametrize(("suffix", "name"), [*cases(by_library=False), *cases(by_library=True)])
def test_a_damaged_file_of_any_producer_is_refused_by_its_name_or_read_in_part(suffix: str, name: str) -> None:
    whole = file_of(suffix, name)
    for part in range(8):
        at = len(whole) * part // 8
        flipped = bytearray(whole)
        flipped[at] ^= 0x55
        for data in (whole[:at], bytes(flipped), whole[at:]):
            try:
                list(read_bytes(data, f"lights{suffix}"))
            except ReaderError as error:
                assert str(error).startswith("lights"), error


@pytest.mark.slow
def test_places_in_the_files_of_all_producers_cite(tmp_path: Path, make_store: Callable[..., Store]) -> None:
    folder = tmp_path / "files"
    for suffix, name in cases(by_library=False):
        file = folder / re.sub(r"\W+", "-", name) / f"lights{suffix}"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(file_of(suffix, name))
    with make_store() as store:
        result = store.ingest(folder)
        assert not result.failures
        assert result.added == len(cases(by_library=False)) + len(made.PRODUCERS[".mbox"])
        kept = {key: store.get(key).text.encode() for (key,) in store.execute("SELECT key FROM documents")}
        for key, start, end, text in store.execute("SELECT document, start, end, text FROM chunks"):
            assert kept[key][start:end].decode() == text
        found = store.execute("SELECT document, start, end FROM mentions WHERE entity = 'Elias Thornbury'").fetchall()
        assert {tuple(kept[key][start:end].decode().split()) for key, start, end in found} == {("Elias", "Thornbury")}
        # The answers in the mailboxes do not name him.
        assert len({key for key, _, _ in found}) == len(cases(by_library=False))


# --- what producers of slides, books and mail do, one by one ---------------------------------------------------------


def test_the_points_of_a_diagram_are_a_list_as_it_is_shown() -> None:
    text = texts(made.PRODUCERS[".pptx"]["PowerPoint, with SmartArt and a formula"](), "a.pptx")
    first, second, third = made.ITEMS
    assert f"- {first}\n  - {second}\n- {third}\n" in text
    assert made.LAST in text  # beside a formula, which older programs are shown a picture of


def test_a_diagram_whose_points_go_round_in_a_circle_is_told_once() -> None:
    points = [(name, "", made.runs(f"point {name}")) for name in "abc"]
    data = made.diagram(points, [("a", "b"), ("b", "c"), ("c", "a")])
    slide = made.shape(2, made.paragraphs("Round"), "title") + made.smart_art(4, "r2")
    shown = made.presentation(
        [slide], extra={"ppt/diagrams/data1.xml": data}, relation=((made.DIAGRAM_TYPE, "../diagrams/data1.xml"),)
    )
    assert texts(shown, "a.pptx") == "## Round\n\n- point a\n  - point b\n    - point c\n"


def test_dates_and_numbers_of_slides_are_left_out_and_told() -> None:
    shown = made.presentation([made.shape(2, made.paragraphs("Ships"), "title") + made.FOOT])
    (document,) = read_bytes(shown, "a.pptx")
    assert isinstance(document, RawDocument)
    assert [(part.element, part.reason, part.text) for part in document.left_out] == [
        ("slide 1", "date", "17 May"),
        ("slide 1", "slide number", "3"),
    ]
    assert "17 May" in texts(shown, "a.pptx", navigation="keep") and "17 May" not in document.text


def test_paragraphs_of_a_slide_with_bullets_and_numbers_are_items() -> None:
    numbered = made.paragraphs("one", "two", properties='<a:pPr><a:buAutoNum type="arabicPeriod"/></a:pPr>')
    plain = made.paragraphs("not one", properties="<a:pPr><a:buNone/></a:pPr>")
    bullet = made.paragraphs("item", properties='<a:pPr lvl="0"><a:buChar char="•"/></a:pPr>')
    body = made.shape(3, plain + numbered, "body", 1) + made.shape(4, bullet)
    shown = made.presentation([made.shape(2, made.paragraphs("List"), "title") + body])
    assert texts(shown, "a.pptx") == "## List\n\nnot one\n\n1. one\n2. two\n\n- item\n"


def test_a_word_of_which_some_letters_are_emphasised_is_one_word() -> None:
    body = "<p>In <b>win</b>ter Port<i>land</i> and <b>Start</b> <i>P</i><i>oint</i>, <b>H</b>alcyon’<i>s</i>.</p>"
    assert texts(body.encode(), "a.html") == "In winter Portland and *Start* Point, Halcyon’*s*.\n"


def test_a_book_of_xhtml_may_close_any_element_in_its_start_tag() -> None:
    page = '<html xmlns="http://www.w3.org/1999/xhtml"><body><h2/><p>One <em/>two.<blockquote/></p><pre/><p>Three &lt; <![CDATA[4 < 5 & 6]]>.</p></body></html>'  # noqa: E501
    assert texts(page.encode(), "a.xhtml") == "One two.\n\nThree < 4 < 5 & 6.\n"


@pytest.mark.parametrize(
    ("plain", "markup", "text"),
    [
        ("See the other form.", "<p>" + "The lamp was lit at dusk. " * 3 + "</p>", "The lamp was lit"),
        ("The lamp was lit at dusk.", "<style>p {a: b}</style><p>The <b>lamp</b> was lit at dusk.</p>", "The lamp was"),
        ("", "<p>Only here.</p>", "Only here."),
    ],
)
def test_of_two_forms_of_a_mail_the_plain_one_is_read_unless_it_says_far_less(
    plain: str, markup: str, text: str
) -> None:
    mail = (
        "Subject: x\nContent-Type: multipart/alternative; boundary=b\n\n"
        f"--b\nContent-Type: text/plain\n\n{plain}\n--b\nContent-Type: text/html\n\n{markup}\n"
        "--b\nContent-Type: text/calendar\n\nBEGIN:VCALENDAR\n--b--\n"
    )
    found = texts(mail.encode(), "a.eml")
    assert found.startswith(text) and "VCALENDAR" not in found and "a: b" not in found


def test_parts_of_a_mail_of_any_kind_of_text_are_read() -> None:
    mail = (
        "Subject: x\nContent-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: text/plain\n\nSee the patch.\n"
        "--b\nContent-Type: text/x-patch\n\nlight the lamp\n--b--\n"
    )
    assert texts(mail.encode(), "a.eml") == "See the patch.\n\nlight the lamp\n"


@pytest.mark.parametrize(
    ("declared", "encoding"),
    [("gb2312", "gb18030"), ("shift_jis", "cp932"), ("ks_c_5601-1987", "cp949"), ("iso-8859-1", "cp1252"),
     ("unknown-8bit", "utf-8"), ("windows-874", "cp874")],
)  # fmt: skip
def test_mail_means_by_a_character_set_what_browsers_take_it_for(declared: str, encoding: str) -> None:
    shown = {"gb18030": "照明鎔", "cp932": "灯台①", "cp949": "등대똠", "cp1252": "“light”", "cp874": "ประภาคาร…"}.get(
        encoding, "Süd"
    )
    mail = f"Subject: x\nContent-Type: text/plain; charset={declared}\nContent-Transfer-Encoding: 8bit\n\n".encode()
    assert texts(mail + shown.encode(encoding), "a.eml") == f"{shown}\n"


@pytest.mark.parametrize("encoding", ["utf-8", "cp1252"])
def test_a_header_whose_letters_are_not_encoded_is_read(encoding: str) -> None:
    mail = "Subject: Süd – café\nFrom: Björn <b@x.org>\n\nText.\n".encode(encoding)
    (document,) = read_bytes(mail, "a.eml")
    assert isinstance(document, RawDocument)
    assert (document.title, document.meta["from"]) == ("Süd – café", "Björn <b@x.org>")


def test_a_line_that_only_begins_with_from_begins_no_message() -> None:
    box = b"From a@x Mon\nSubject: One\n\nText.\n\nFrom here the coast is low.\n\nFrom there\nand on.\n"
    assert texts(box, "a.mbox") == "Text.\n\nFrom here the coast is low.\n\nFrom there\nand on.\n"


def test_what_a_notebook_shows_only_as_html_is_read() -> None:
    output = {"output_type": "display_data", "data": {"text/plain": "<IPython.core.display.HTML object>"}}
    output["data"]["text/html"] = "<h3>Ships</h3><table><tr><th>a<th>b<tr><td>1<td>2</table>"  # type: ignore[index]
    cells = [{"cell_type": "code", "source": "show()", "outputs": [output]}]
    text = texts(json.dumps({"nbformat": 4, "cells": cells, "metadata": {}}).encode(), "a.ipynb")
    assert text == "```\nshow()\n```\n\n### Ships\n\n| a | b |\n| --- | --- |\n| 1 | 2 |\n"


def test_what_stands_beside_a_rich_text_is_read() -> None:
    box = r"{\shp{\*\shpinst\shpleft1{\sp{\sn type}{\sv 202}}{\shptxt \pard In a box.\par}}"
    box += r"{\shprslt{\*\do{\dptxbxtext In a box.}}}}"
    note = r"{\super\chftn{\footnote\ftnalt {\super\chftn} A \{note\}.}}"
    text = texts(
        rf"{{\rtf1\ansi\uc1 The {box}light{note} \u-10179?\u-8704? goes on.\par The end.\par}}".encode(), "a.rtf"
    )
    assert text == "The light[1] 😀 goes on.\n\nIn a box.\n\nThe end.\n\n[1] A {note}.\n"
    assert "light" in texts(rb"{\rtf1 The light{\footnote goes on.", "a.rtf")


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
def test_source_code_comes_through_whatever_editor_wrote_it(suffix: str) -> None:
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
        text = texts(form.encode(), f"a.{suffix}")
        assert not lost(form, text)
    assert re.search(r"^#+ count_ships$", texts(code.encode(), f"a.{suffix}"), re.M)


# --- PDF: columns, running heads, pictures of pages ------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("columns", [1, 2])
def test_pages_of_columns_with_running_heads_are_read_in_their_order(columns: int) -> None:
    typst = pytest.importorskip("typst")
    data = typst.compile(made.typst_source(columns, 4, "Annals of the coast").encode())
    (document,) = read_bytes(data, "a.pdf")
    assert isinstance(document, RawDocument)
    source = " ".join(f"{part} {made.latin_words()} {part}" for part in made.PARTS)
    missing = lost(source, document.text)
    assert len(missing) <= (1 - LEAST) * len(source.split()), missing
    assert "Annals" not in document.text
    told = [part.reason for part in document.left_out]
    assert told.count("running head") >= 4 and told.count("page number") >= 4


# --- limits ----------------------------------------------------------------------------------------------------------


def bombs() -> Iterator[tuple[str, bytes]]:
    deep = "(" * 100_000
    yield "a.ipynb", ('{"cells": ' + "[" * 100_000).encode()
    yield "a.rtf", b"{\\rtf1 " + b"{" * 100_000 + b"x"
    yield "a.rst", "\n".join(" " * depth + "* x" for depth in range(2_000)).encode()
    yield "a.adoc", "\n".join("*" * depth + " x" for depth in range(1, 2_000)).encode()
    yield "a.py", deep.encode()
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
    yield "a.pptx", made.presentation([group])
    yield "a.xlsx", made.workbook("<row>" + '<c r="XFD1048576" t="n"><v>1</v></c>' * 3 + "</row>", "<si>" * 500)
    yield (
        "a.odt",
        made.odt(
            made.odf_table(lambda text: f"<text:p>{text}</text:p>").replace(
                "<table:table-row>", '<table:table-row table:number-rows-repeated="1000000000">'
            )
        ),
    )
    yield "a.odt", made.odt("<text:p>x<text:s text:c='4000000000'/>y</text:p>")
    yield "a.pdf", pdf_of(zlib.compress(zlib.compress(b"BT /F1 9 Tf (x) Tj ET " * (1 << 20))))


def pdf_of(stream: bytes) -> bytes:
    """A page whose content unpacks twice."""
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
@pytest.mark.parametrize("number", range(12))
def test_what_is_made_to_exhaust_a_reader_ends_within_its_limits(number: int, at_most: Callable[[float], None]) -> None:
    key, data = list(bombs())[number]
    at_most(60)
    try:
        found: list[Any] = list(read_bytes(data, key))
    except ReaderError as error:
        assert str(error).startswith("a.")
        return
    assert all(isinstance(item, (RawDocument, ReadFailure)) for item in found)
    assert sum(len(item.text) for item in found if isinstance(item, RawDocument)) < 1 << 24

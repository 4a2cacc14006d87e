# ruff: noqa: E501 -- markup is read best with its lines whole
"""One text as common programs write it, in every format that kvstore reads, with at least five producers each.

If a program exists as a library, that library writes the file (``needs`` names it; its test is skipped without it).
Otherwise this module builds the bytes as the program writes them: with its markup, its peculiarities and its encodings.
Every producer gets the same text, and ``WORDS`` must be read from its file.
"""

from __future__ import annotations

import base64
import gzip
import io
import json
import quopri
import re
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from xml.sax.saxutils import escape

TITLE = "The lights of Portland"
FIRST = (
    "The lighthouse of Portland was lit in 1716, and its keeper, Elias Thornbury, wrote down every ship that came by. "
    "In his first winter he counted 212 of them; the brig Halcyon was lost on the ledges with nineteen men. "
    "“Nobody,” he wrote, “who has heard a hull break on stone forgets the sound — it is like a door.”"
)
SECOND = (
    "Übergroße Schiffe fuhren an der Küste von 東京 vorbei, 12.5 Meilen weit; Ελένη und Пётр zählten sie. "
    "Žofia’s coöperative sold fish & chips at < 3 crowns, naïvely, in the café by the harbour of Kraków."
)
ITEMS = ("Trim the wick of the lamp at dusk", "Wind the clockwork every four hours", "Polish the brass on Saturdays")
TABLE = (("Station", "Height", "Keeper"), ("Portland", "41", "Thornbury"), ("Start Point", "28", "Margaret Ashe"))
INNER = "How the lamp is tended"
LAST = (
    "In winter the lamp burned sixteen hours; in summer, only eight. The office of fishery affairs in Weymouth paid for "
    "the oil, which came by the efficient cutter Marigold on the first Monday of the month, and for nothing else."
)
#: What is shown, in its order.
SHOWN = (TITLE, FIRST, SECOND, INNER, *ITEMS, *(cell for row in TABLE for cell in row), LAST)
WORDS = " ".join(SHOWN)

Producer = Callable[[], bytes]
#: Of each suffix the producers, by name; and what library a producer needs.
PRODUCERS: dict[str, dict[str, Producer]] = {}
NEEDS: dict[str, str] = {}


def register_producer(suffix: str, name: str, needs: str | None = None) -> Callable[[Producer], Producer]:
    """Register a producer of files with a suffix."""

    def register(write: Producer) -> Producer:
        PRODUCERS.setdefault(suffix, {})[name] = write
        if needs is not None:
            NEEDS[f"{suffix} {name}"] = needs
        return write

    return register


def pack_zip(parts: Mapping[str, str | bytes], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Make a ZIP archive of parts."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return stream.getvalue()


def unpack_zip(data: bytes) -> dict[str, bytes]:
    """Return the parts of a ZIP archive."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def save_to_bytes(save: Callable[[io.BytesIO], object]) -> bytes:
    """Return the bytes that a function writes to a stream."""
    stream = io.BytesIO()
    save(stream)
    return stream.getvalue()


def make_html_body(paragraph: str = "p") -> str:
    """Return the text as plain markup."""
    p = paragraph
    items = "".join(f"<li>{escape(item)}</li>" for item in ITEMS)
    rows = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in TABLE)
    return (
        f"<h1>{TITLE}</h1><{p}>{escape(FIRST)}</{p}><{p}>{escape(SECOND)}</{p}><h2>{INNER}</h2><ul>{items}</ul>"
        f"<table>{rows}</table><{p}>{escape(LAST)}</{p}>"
    )


# --- EPUB ------------------------------------------------------------------------------------------------------------

CONTAINER = (
    '<?xml version="1.0"?><container version="1.0" xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
    '<rootfile full-path="{}" media-type="application/oebps-package+xml"/></rootfiles></container>'
)
DC = 'xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:opf="http://www.idpf.org/2007/opf"'


def make_opf(version: str, manifest: str, spine: str, toc: str = "") -> str:
    return (
        f'<?xml version="1.0" encoding="utf-8"?><package xmlns="http://www.idpf.org/2007/opf" version="{version}" unique-identifier="id">'
        f'<metadata {DC}><dc:title>{TITLE}</dc:title><dc:creator opf:role="aut">Elias Thornbury</dc:creator>'
        f'<dc:identifier id="id">urn:x</dc:identifier><dc:language>en</dc:language></metadata>'
        f"<manifest>{manifest}</manifest><spine{toc}>{spine}</spine></package>"
    )


def split_html_body() -> tuple[str, str]:
    before, after = make_html_body().split("<h2>")
    return before, "<h2>" + after


@register_producer(".epub", "Calibre")
def _() -> bytes:
    # Split into parts, EPUB 2, anchors and titles closed in the start tag, a cover of SVG, styles by the letter.
    head = '<?xml version=\'1.0\' encoding=\'utf-8\'?>\n<html xmlns="http://www.w3.org/1999/xhtml"><head><title/><link href="s.css" rel="stylesheet" type="text/css"/></head><body class="calibre">'
    first, second = split_html_body()
    first = first.replace("<p>", '<p class="calibre1"><a id="p1" class="calibre3"/>').replace(
        " Halcyon ", ' <i class="calibre4">Halcyon</i> '
    )
    parts = {
        "titlepage.xhtml": f'{head}<div><svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1 1"><image width="1" height="1" href="cover.jpeg"/></svg></div></body></html>',
        "text/part0000_split_000.html": f"{head}{first}<p class='calibre5'/></body></html>",
        "text/part0000_split_001.html": f"{head}<h3 class='x'/>{second}</body></html>",
    }
    manifest = "".join(
        f'<item id="i{n}" href="{name}" media-type="application/xhtml+xml"/>' for n, name in enumerate(parts)
    )
    ncx = (
        "<?xml version='1.0' encoding='utf-8'?><!DOCTYPE ncx PUBLIC \"-//NISO//DTD ncx 2005-1//EN\" \"http://www.daisy.org/z3986/2005/ncx-2005-1.dtd\">"
        '<ncx xmlns="http://www.daisy.org/z3986/2005/ncx/"><navMap><navPoint id="a" playOrder="1"><navLabel><text>'
        f'{TITLE}</text></navLabel><content src="text/part0000_split_000.html"/><navPoint id="b" playOrder="2"><navLabel><text>{INNER}</text></navLabel>'
        '<content src="text/part0000_split_001.html#x"/></navPoint></navPoint></navMap></ncx>'
    )
    manifest += '<item id="ncx" href="toc.ncx" media-type="application/x-dtbncx+xml"/><item id="c" href="cover.jpeg" media-type="image/jpeg"/>'
    return pack_zip({
        "mimetype": "application/epub+zip", "META-INF/container.xml": CONTAINER.format("content.opf"),
        "content.opf": make_opf("2.0", manifest, '<itemref idref="i0"/><itemref idref="i1"/><itemref idref="i2"/>', ' toc="ncx"'),
        "toc.ncx": ncx, "cover.jpeg": b"\xff\xd8\xff", **parts,
    })  # fmt: skip


@register_producer(".epub", "InDesign")
def _() -> bytes:
    # A span around every run of characters, breaks inside words, ids everywhere, a navigation document with page list.
    body = make_html_body().replace(
        "lighthouse", '<span class="CharOverride-1">light</span><span class="CharOverride-2">house</span>'
    )
    body = body.replace(
        "<p>", '<p class="ParaOverride-1" id="_idTextAnchor000"><span id="a" /><span class="CharOverride-3">'
    ).replace("</p>", "</span></p>")
    body = body.replace("ledges with", "ledges<br /> with")
    html = (
        '<?xml version="1.0" encoding="UTF-8" standalone="no"?><!DOCTYPE html><html xmlns="http://www.w3.org/1999/xhtml" xmlns:epub="http://www.idpf.org/2007/ops">'
        f'<head><title>book</title></head><body id="book" xml:lang="en-US"><div class="_idGenObjectLayout-1"><div id="_idContainer000" class="Basic-Text-Frame">{body}</div></div></body></html>'
    )
    nav = (
        '<?xml version="1.0" encoding="UTF-8"?><html xmlns="http://www.w3.org/1999/xhtml" xmlns:epub="http://www.idpf.org/2007/ops"><body><nav epub:type="page-list"><ol><li><a href="book.xhtml#p">1</a></li></ol></nav>'
        f'<nav epub:type="toc" id="toc"><ol><li><a href="book.xhtml#_idTextAnchor000">{TITLE}</a></li></ol></nav></body></html>'
    )
    manifest = '<item id="book" href="book.xhtml" media-type="application/xhtml+xml" /><item id="toc" href="toc.xhtml" media-type="application/xhtml+xml" properties="nav" />'
    return pack_zip({
        "mimetype": "application/epub+zip", "META-INF/container.xml": CONTAINER.format("OEBPS/content.opf"),
        "META-INF/encryption.xml": '<encryption xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><CipherReference URI="OEBPS/font/a.otf"/></encryption>',
        "OEBPS/content.opf": make_opf("3.0", manifest, '<itemref idref="book" />'), "OEBPS/book.xhtml": html, "OEBPS/toc.xhtml": nav,
    })  # fmt: skip


@register_producer(".epub", "Pandoc")
def _() -> bytes:
    head = '<?xml version="1.0" encoding="UTF-8"?><!DOCTYPE html><html xmlns="http://www.w3.org/1999/xhtml" xmlns:epub="http://www.idpf.org/2007/ops"><head><meta charset="utf-8" /><title>x</title><style type="text/css"/></head>'
    first, second = split_html_body()
    section = f'{head}<body epub:type="bodymatter"><section id="lights" class="level1" data-number="1">{first}<section id="tended" class="level2">{second}</section></section></body></html>'
    manifest = "".join(
        f'<item id="{name}" href="{href}" media-type="application/xhtml+xml"{more} />'
        for name, href, more in (
            ("nav", "nav.xhtml", ' properties="nav"'),
            ("title_page_xhtml", "text/title_page.xhtml", ""),
            ("ch001_xhtml", "text/ch001.xhtml", ""),
        )
    )
    nav = f'{head}<body epub:type="frontmatter"><nav epub:type="toc" id="toc"><h1 id="toc-title">T</h1><ol class="toc"><li id="toc-li-1"><a href="text/ch001.xhtml#lights">{TITLE}</a></li></ol></nav></body></html>'
    empty = f"{head}<body epub:type='frontmatter'><section epub:type='titlepage'></section></body></html>"
    return pack_zip({
        "mimetype": "application/epub+zip", "META-INF/container.xml": CONTAINER.format("EPUB/content.opf"),
        "EPUB/content.opf": make_opf("3.0", manifest, '<itemref idref="title_page_xhtml" linear="yes" /><itemref idref="nav" /><itemref idref="ch001_xhtml" />'),
        "EPUB/nav.xhtml": nav, "EPUB/text/title_page.xhtml": empty, "EPUB/text/ch001.xhtml": section,
    })  # fmt: skip


@register_producer(".epub", "an old converter")
def _() -> bytes:
    # XHTML 1.1 in Latin-1 with entities of HTML, text in CDATA, names with spaces and in another case.
    body = (
        make_html_body()
        .replace("ü", "&uuml;")
        .replace("—", "&#8212;")
        .replace("brig Halcyon", "<![CDATA[brig Halcyon]]>")
        .replace("—", "&mdash;")
    )
    body = "".join(char if ord(char) < 128 else f"&#x{ord(char):X};" for char in body).replace("&#xDC;", "&Uuml;")
    html = (
        '<?xml version="1.0" encoding="iso-8859-1"?><!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.1//EN" "http://www.w3.org/TR/xhtml11/DTD/xhtml11.dtd">'
        f'<html xmlns="http://www.w3.org/1999/xhtml" xml:lang="en"><head><title /><script type="text/javascript" src="x.js" /></head><body><p />{body}<em /></body></html>'
    )
    manifest = '<item id="a" href="chapter%20one.htm" media-type="text/x-oeb1-document"/>'
    return pack_zip({
        "mimetype": "application/epub+zip\n", "META-INF/container.xml": CONTAINER.format("OPS/book.opf"),
        "OPS/book.opf": make_opf("2.0", manifest, '<itemref idref="a"/>'), "OPS/chapter one.htm": html.encode("latin-1"),
    }, zipfile.ZIP_STORED)  # fmt: skip


@register_producer(".epub", "Sphinx", "sphinx")
def _() -> bytes:
    import tempfile

    from sphinx.application import Sphinx

    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "conf.py").write_text(
            f"project = {TITLE!r}\nauthor = 'x'\nversion = release = '1'\nepub_show_urls = 'no'\n"
        )
        (root / "index.rst").write_text(make_rst())
        with open("/dev/null", "w") as silent:
            Sphinx(
                folder, folder, f"{folder}/out", f"{folder}/trees", "epub", status=silent, warning=silent, parallel=0
            ).build()
        return next((root / "out").glob("*.epub")).read_bytes()


@register_producer(".epub", "mkepub", "mkepub")
def _() -> bytes:
    import tempfile

    import mkepub

    first, second = split_html_body()
    book = mkepub.Book(title=TITLE)
    page = book.add_page(TITLE, first)
    book.add_page(INNER, second, parent=page)
    with tempfile.TemporaryDirectory() as folder:
        book.save(f"{folder}/a.epub")
        return Path(f"{folder}/a.epub").read_bytes()


# --- ODT -------------------------------------------------------------------------------------------------------------

ODF = " ".join(
    f'xmlns:{short}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"'
    for short, name in (("office", "office"), ("text", "text"), ("table", "table"), ("style", "style"), ("draw", "drawing"), ("meta", "meta"), ("manifest", "manifest"), ("svg", "svg-compatible"), ("fo", "xsl-fo-compatible"), ("presentation", "presentation"))
) + ' xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:xlink="http://www.w3.org/1999/xlink"'  # fmt: skip


def make_odt(body: str, styles: str = "", more: str = "") -> bytes:
    """Make a text document with this body; ``more`` are styles in styles.xml."""
    return make_opendocument("text", body, styles, more)


def make_opendocument(kind: str, body: str, styles: str = "", more: str = "") -> bytes:
    """Make a package of this kind with this body; ``more`` are styles in styles.xml."""
    media = f"application/vnd.oasis.opendocument.{kind}"
    content = (
        f'<?xml version="1.0" encoding="UTF-8"?><office:document-content {ODF}><office:automatic-styles>{styles}</office:automatic-styles>'
        f"<office:body><office:{kind}>{body}</office:{kind}></office:body></office:document-content>"
    )
    manifest = f'<manifest:manifest {ODF}><manifest:file-entry manifest:full-path="/" manifest:media-type="{media}"/></manifest:manifest>'
    header = '<style:master-page style:name="Standard"><style:header><text:p>The running head of every page</text:p></style:header></style:master-page>'
    named = f'<?xml version="1.0" encoding="UTF-8"?><office:document-styles {ODF}><office:styles>{more}</office:styles><office:master-styles>{header}</office:master-styles></office:document-styles>'
    return pack_zip({"mimetype": media, "content.xml": content, "styles.xml": named, "META-INF/manifest.xml": manifest})


def make_odf_table(cell: Callable[[str], str]) -> str:
    rows = "".join(
        "<table:table-row>"
        + "".join(f"<table:table-cell>{cell(text)}</table:table-cell>" for text in row)
        + "</table:table-row>"
        for row in TABLE
    )
    return f'<table:table table:name="T"><table:table-column table:number-columns-repeated="3"/>{rows}</table:table>'


@register_producer(".odt", "LibreOffice")
def _() -> bytes:
    # Soft page breaks, sequence declarations, tracked changes, spaces and tabs as elements, a text in a drawn shape.
    first = (
        escape(FIRST)
        .replace("wrote down", "wrote<text:s/>down")
        .replace(" came by.", "<text:soft-page-break/> came<text:tab/>by.")
    )
    items = "".join(
        f'<text:list-item><text:p text:style-name="P2">{item}</text:p></text:list-item>' for item in ITEMS[:2]
    )
    return make_odt(
        '<text:sequence-decls><text:sequence-decl text:name="Figure"/></text:sequence-decls><text:tracked-changes><text:changed-region text:id="c1"><text:deletion><office:change-info><dc:creator>x</dc:creator></office:change-info><text:p>gone</text:p></text:deletion></text:changed-region></text:tracked-changes>'
        f'<text:h text:style-name="Heading_20_1" text:outline-level="1"><text:bookmark-start text:name="_Toc1"/>{TITLE}<text:bookmark-end text:name="_Toc1"/></text:h>'
        f'<text:p text:style-name="P1">{first}<text:change text:change-id="c1"/></text:p><text:p text:style-name="Text_20_body">{escape(SECOND)}</text:p>'
        f'<text:h text:style-name="Heading_20_2" text:outline-level="2">{INNER}</text:h><text:list text:style-name="L1">{items}</text:list>'
        f'<text:p text:style-name="Standard"><draw:custom-shape draw:style-name="gr1" svg:width="5cm"><text:p>{ITEMS[2]}</text:p><draw:enhanced-geometry draw:type="rectangle"/></draw:custom-shape></text:p>'
        + make_odf_table(lambda text: f'<text:p text:style-name="Table_20_Contents">{text}</text:p>')
        + f'<text:p text:style-name="Standard"><text:span text:style-name="T1">{LAST[:6]}</text:span><text:span text:style-name="T2">{LAST[6:30]}</text:span>{LAST[30:]}</text:p>',
        '<style:style style:name="T1" style:family="text"><style:text-properties fo:font-weight="bold"/></style:style><style:style style:name="T2" style:family="text"/>',
    )  # fmt: skip


@register_producer(".odt", "Google Docs")
def _() -> bytes:
    # No named headings by style, a span around every run, lists with a style an item, links.
    def span(text: str) -> str:
        return f'<text:span text:style-name="T1">{escape(text)}</text:span>'

    items = "".join(
        f'<text:list text:style-name="LS{n}" text:continue-numbering="true"><text:list-item><text:p>{span(item)}</text:p></text:list-item></text:list>'
        for n, item in enumerate(ITEMS)
    )
    return make_odt(
        f'<text:h text:style-name="P1" text:outline-level="1">{span(TITLE)}</text:h><text:p text:style-name="P2"><text:a xlink:href="https://x.org/" xlink:type="simple">{span(FIRST[:40])}</text:a>{span(FIRST[40:])}</text:p>'
        f'<text:p text:style-name="P2">{span(SECOND)}</text:p><text:p/><text:h text:outline-level="2">{span(INNER)}</text:h>{items}{make_odf_table(lambda text: f"<text:p>{span(text)}</text:p>")}<text:p>{span(LAST)}</text:p>'
    )


@register_producer(".odt", "Word")
def _() -> bytes:
    # Everything in spans that part words, headings by outline level, a table in a section, fields.
    def spans(text: str) -> str:
        return "".join(
            f'<text:span text:style-name="T{n % 3}">{escape(text[n : n + 7])}</text:span>'
            for n in range(0, len(text), 7)
        ).replace("> <", "><text:s/><")

    items = "".join(
        f'<text:list-item><text:p text:style-name="ListParagraph">{spans(item)}</text:p></text:list-item>'
        for item in ITEMS
    )
    styles = (
        '<style:style style:name="T1" style:family="text"><style:text-properties fo:font-style="italic"/></style:style>'
    )
    return make_odt(
        f'<text:h text:style-name="Überschrift1" text:outline-level="1">{spans(TITLE)}</text:h><text:p>{spans(FIRST)}</text:p><text:p>{spans(SECOND)}</text:p>'
        f'<text:h text:outline-level="2">{spans(INNER)}</text:h><text:list text:style-name="LFO1">{items}</text:list><text:section text:name="S">{make_odf_table(lambda text: f"<text:p>{spans(text)}</text:p>")}</text:section><text:p>{spans(LAST)}</text:p>',
        styles,
    )  # fmt: skip


@register_producer(".odt", "Pandoc")
def _() -> bytes:
    items = "".join(f'<text:list-item><text:p text:style-name="P3">{item}</text:p></text:list-item>' for item in ITEMS)
    frame = f'<text:p text:style-name="Text_20_body"><draw:frame draw:name="f"><draw:text-box><text:p text:style-name="Caption">{LAST}</text:p></draw:text-box></draw:frame></text:p>'
    return make_odt(
        f'<text:h text:style-name="Heading_20_1" text:outline-level="1">{TITLE}</text:h><text:p text:style-name="First_20_paragraph">{escape(FIRST)}</text:p><text:p text:style-name="Text_20_body">{escape(SECOND)}</text:p>'
        f'<text:h text:style-name="Heading_20_2" text:outline-level="2">{INNER}</text:h><text:list text:style-name="L1">{items}</text:list>{make_odf_table(lambda text: f"<text:p>{text}</text:p>")}{frame}'
    )


@register_producer(".odt", "odfpy", "odf")
def _() -> bytes:
    from odf.opendocument import OpenDocumentText
    from odf.table import Table, TableCell, TableRow
    from odf.text import H, List, ListItem, P

    document = OpenDocumentText()
    document.text.addElement(H(outlinelevel=1, text=TITLE))
    document.text.addElement(P(text=FIRST))
    document.text.addElement(P(text=SECOND))
    document.text.addElement(H(outlinelevel=2, text=INNER))
    listed = List()
    for item in ITEMS:
        entry = ListItem()
        entry.addElement(P(text=item))
        listed.addElement(entry)
    document.text.addElement(listed)
    table = Table(name="T")
    for row in TABLE:
        line = TableRow()
        for text in row:
            cell = TableCell()
            cell.addElement(P(text=text))
            line.addElement(cell)
        table.addElement(line)
    document.text.addElement(table)
    document.text.addElement(P(text=LAST))
    return save_to_bytes(document.save)


@register_producer(".odt", "Docutils", "docutils")
def _() -> bytes:
    from docutils.core import publish_string

    return publish_string(make_rst(), writer="odt", settings_overrides={"report_level": 5, "doctitle_xform": False})


# --- slides ----------------------------------------------------------------------------------------------------------

PML = 'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships" xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main"'
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"


def make_relations(*pairs: tuple[str, str]) -> str:
    """Return relationships r1, r2, ... of these types and targets."""
    rows = "".join(
        f'<Relationship Id="r{n}" Type="{OFFICE}/{kind}" Target="{target}"/>'
        for n, (kind, target) in enumerate(pairs, 1)
    )
    return f'<?xml version="1.0" encoding="UTF-8" standalone="yes"?><Relationships xmlns="{PACKAGE}/relationships">{rows}</Relationships>'


def make_presentation(
    slides: list[str], notes: str = "", extra: dict[str, str] | None = None, relation: tuple[tuple[str, str], ...] = ()
) -> bytes:
    """Make a presentation from the shapes of its slides; ``relation``: more relationships of the first slide, from r2 on."""
    kind = "application/vnd.openxmlformats-officedocument.presentationml"
    types = "".join(
        f'<Override PartName="/ppt/slides/slide{n}.xml" ContentType="{kind}.slide+xml"/>'
        for n in range(1, len(slides) + 1)
    )
    parts: dict[str, str | bytes] = {
        "[Content_Types].xml": f'<?xml version="1.0" encoding="UTF-8"?><Types xmlns="{PACKAGE}/content-types"><Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Default Extension="xml" ContentType="application/xml"/>'
        f'<Override PartName="/ppt/presentation.xml" ContentType="{kind}.presentation.main+xml"/><Override PartName="/ppt/slideLayouts/slideLayout1.xml" ContentType="{kind}.slideLayout+xml"/><Override PartName="/ppt/slideMasters/slideMaster1.xml" ContentType="{kind}.slideMaster+xml"/>'
        f'<Override PartName="/ppt/notesSlides/notesSlide1.xml" ContentType="{kind}.notesSlide+xml"/>{types}</Types>',
        "_rels/.rels": make_relations(("officeDocument", "ppt/presentation.xml")),
        "ppt/presentation.xml": f'<?xml version="1.0"?><p:presentation {PML}><p:sldMasterIdLst><p:sldMasterId id="2147483648" r:id="r1"/></p:sldMasterIdLst><p:sldIdLst>{"".join(f"""<p:sldId id="{255 + n}" r:id="r{n + 1}"/>""" for n in range(1, len(slides) + 1))}</p:sldIdLst></p:presentation>',
        "ppt/_rels/presentation.xml.rels": make_relations(
            ("slideMaster", "slideMasters/slideMaster1.xml"),
            *(("slide", f"slides/slide{n}.xml") for n in range(1, len(slides) + 1)),
        ),
        "ppt/slideMasters/slideMaster1.xml": f"<p:sldMaster {PML}><p:cSld><p:spTree/></p:cSld><p:clrMap/></p:sldMaster>",
        "ppt/slideMasters/_rels/slideMaster1.xml.rels": make_relations(
            ("slideLayout", "../slideLayouts/slideLayout1.xml")
        ),
        "ppt/slideLayouts/slideLayout1.xml": f"<p:sldLayout {PML}><p:cSld><p:spTree/></p:cSld></p:sldLayout>",
        "ppt/slideLayouts/_rels/slideLayout1.xml.rels": make_relations(
            ("slideMaster", "../slideMasters/slideMaster1.xml")
        ),
    }
    for n, shapes in enumerate(slides, 1):
        more = relation if n == 1 else ()
        if notes and n == 1:
            more = (*more, ("notesSlide", "../notesSlides/notesSlide1.xml"))
        parts[f"ppt/slides/slide{n}.xml"] = (
            f'<?xml version="1.0" encoding="UTF-8" standalone="yes"?><p:sld {PML}><p:cSld><p:spTree><p:nvGrpSpPr><p:cNvPr id="1" name=""/><p:cNvGrpSpPr/><p:nvPr/></p:nvGrpSpPr><p:grpSpPr/>{shapes}</p:spTree></p:cSld></p:sld>'
        )
        parts[f"ppt/slides/_rels/slide{n}.xml.rels"] = make_relations(
            ("slideLayout", "../slideLayouts/slideLayout1.xml"), *more
        )
    if notes:
        parts["ppt/notesSlides/notesSlide1.xml"] = (
            f"<p:notes {PML}><p:cSld><p:spTree>{make_shape(9, make_paragraphs(notes), 'body', 1)}{make_shape(10, make_paragraphs('7'), 'sldNum', 2)}</p:spTree></p:cSld></p:notes>"
        )
        parts["ppt/notesSlides/_rels/notesSlide1.xml.rels"] = make_relations(("slide", "../slides/slide1.xml"))
    return pack_zip({**parts, **(extra or {})})


def make_paragraphs(*texts: str, properties: str = "") -> str:
    return "".join(f"<a:p>{properties}<a:r><a:rPr/><a:t>{escape(text)}</a:t></a:r></a:p>" for text in texts)


def make_shape(number: int, text: str, placeholder: str = "", index: int = 0) -> str:
    placeholder_xml = f'<p:nvPr><p:ph type="{placeholder}" idx="{index}"/></p:nvPr>' if placeholder else "<p:nvPr/>"
    return f'<p:sp><p:nvSpPr><p:cNvPr id="{number}" name="s"/><p:cNvSpPr/>{placeholder_xml}</p:nvSpPr><p:spPr/><p:txBody><a:bodyPr/>{text}</p:txBody></p:sp>'


def make_slide_table(number: int = 30) -> str:
    rows = "".join(
        "<a:tr h='1'>"
        + "".join(f"<a:tc><a:txBody><a:bodyPr/>{make_paragraphs(cell)}</a:txBody><a:tcPr/></a:tc>" for cell in row)
        + "</a:tr>"
        for row in TABLE
    )
    grid = "<a:tblGrid>" + "<a:gridCol w='1'/>" * 3 + "</a:tblGrid>"
    return (
        f'<p:graphicFrame><p:nvGraphicFramePr><p:cNvPr id="{number}" name="t"/><p:cNvGraphicFramePr/><p:nvPr/></p:nvGraphicFramePr><p:xfrm><a:off x="0" y="0"/><a:ext cx="1" cy="1"/></p:xfrm>'
        f'<a:graphic><a:graphicData uri="http://schemas.openxmlformats.org/drawingml/2006/table"><a:tbl><a:tblPr/>{grid}{rows}</a:tbl></a:graphicData></a:graphic></p:graphicFrame>'
    )


FOOT = make_shape(40, make_paragraphs("17 May"), "dt", 10) + make_shape(
    41, "<a:p><a:fld id='{x}' type='slidenum'><a:t>3</a:t></a:fld></a:p>", "sldNum", 12
)
DIAGRAM_TYPE = "diagramData"


def make_diagram(points: list[tuple[str, str, str]], connections: list[tuple[str, str]]) -> str:
    """Return the data of a SmartArt: points (id, type, runs) and their parents."""
    dgm = 'xmlns:dgm="http://schemas.openxmlformats.org/drawingml/2006/diagram" xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'
    points_xml = "".join(
        f'<dgm:pt modelId="{name}"{f""" type="{kind}" """ if kind else ""}><dgm:prSet/><dgm:spPr/><dgm:t><a:bodyPr/><a:lstStyle/><a:p>{runs}</a:p></dgm:t></dgm:pt>'
        for name, kind, runs in points
    )
    lines = "".join(
        f'<dgm:cxn modelId="c{n}" srcId="{above}" destId="{below}" srcOrd="{sum(1 for a, _ in connections[:n] if a == above)}" destOrd="0"/>'
        for n, (above, below) in enumerate(connections)
    )
    return f'<?xml version="1.0" encoding="UTF-8" standalone="yes"?><dgm:dataModel {dgm}><dgm:ptLst>{points_xml}</dgm:ptLst><dgm:cxnLst>{lines}</dgm:cxnLst><dgm:bg/><dgm:whole/></dgm:dataModel>'


def make_runs(text: str, every: int = 6) -> str:
    return "".join(
        f"<a:r><a:rPr lang='en-US' dirty='0'/><a:t>{escape(text[n : n + every])}</a:t></a:r>"
        for n in range(0, len(text), every)
    )


def make_smart_art(number: int, relation: str) -> str:
    return (
        f'<p:graphicFrame><p:nvGraphicFramePr><p:cNvPr id="{number}" name="Diagram"/><p:cNvGraphicFramePr/><p:nvPr/></p:nvGraphicFramePr><p:xfrm><a:off x="0" y="0"/><a:ext cx="1" cy="1"/></p:xfrm><a:graphic>'
        f'<a:graphicData uri="http://schemas.openxmlformats.org/drawingml/2006/diagram"><dgm:relIds xmlns:dgm="http://schemas.openxmlformats.org/drawingml/2006/diagram" r:dm="{relation}" r:lo="{relation}" r:qs="{relation}" r:cs="{relation}"/></a:graphicData></a:graphic></p:graphicFrame>'
    )


@register_producer(".pptx", "PowerPoint, with SmartArt and a formula")
def _() -> bytes:
    # Words of a diagram in runs of a few letters, its points not in the order shown; a text with a formula, which is
    # one of two alternatives; slide numbers and dates.
    points = [
        ("{3}", "", make_runs(ITEMS[2])), ("{0}", "doc", ""), ("{1}", "", make_runs(ITEMS[0])), ("{4}", "parTrans", ""), ("{5}", "sibTrans", ""), ("{2}", "", make_runs(ITEMS[1])), ("{6}", "pres", ""),
    ]  # fmt: skip
    data = make_diagram(points, [("{0}", "{1}"), ("{1}", "{2}"), ("{0}", "{3}")])
    formula = (
        '<mc:AlternateContent xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"><mc:Choice xmlns:a14="http://schemas.microsoft.com/office/drawing/2010/main" Requires="a14">'
        f"{make_shape(7, make_paragraphs(LAST))}</mc:Choice><mc:Fallback>{make_shape(7, make_paragraphs(' '))}</mc:Fallback></mc:AlternateContent>"
    )
    return make_presentation(
        [
            make_shape(2, f"<a:p>{make_runs(TITLE)}</a:p>", "ctrTitle") + make_shape(3, f"<a:p>{make_runs(FIRST)}</a:p><a:p>{make_runs(SECOND)}<a:endParaRPr/></a:p><a:p>{make_runs(INNER)}</a:p>", "subTitle", 1) + make_smart_art(4, "r2") + FOOT,
            make_slide_table() + formula + FOOT,
        ],
        extra={"ppt/diagrams/data1.xml": data},
        relation=((DIAGRAM_TYPE, "../diagrams/data1.xml"),),
    )  # fmt: skip


@register_producer(".pptx", "Google Slides")
def _() -> bytes:
    # Placeholders without types, every shape with a body, links, vertical tabs as breaks, notes that hold text.
    bullets = make_paragraphs(
        *ITEMS,
        properties='<a:pPr indent="-342900" lvl="0" marL="457200"><a:buSzPts val="1800"/><a:buChar char="●"/></a:pPr>',
    )
    title = make_shape(54, make_paragraphs(TITLE), "title") + make_shape(
        55, f"<a:p>{make_runs(FIRST, 40)}</a:p>", "body", 1
    )
    last = make_shape(57, f"<a:p><a:r><a:t>{LAST[:18]}</a:t></a:r><a:br/><a:r><a:t>{LAST[18:]}</a:t></a:r></a:p>")
    return make_presentation(
        [title, make_shape(60, make_paragraphs(INNER), "title") + make_shape(61, bullets) + make_slide_table() + last],
        SECOND,
    )


@register_producer(".pptx", "LibreOffice Impress")
def _() -> bytes:
    # Titles as plain placeholders, outline text with levels, groups, a grabbag of empty shapes, master fields.
    outline = "".join(
        f'<a:p><a:pPr lvl="{level}" marL="432000" indent="-324000"><a:buClr><a:srgbClr val="000000"/></a:buClr><a:buFont typeface="Wingdings"/><a:buChar char="&#xF06C;"/></a:pPr><a:r><a:rPr b="0" lang="en-US" strike="noStrike"/><a:t>{item}</a:t></a:r></a:p>'
        for level, item in zip((0, 1, 0), ITEMS, strict=True)
    )
    group = f'<p:grpSp><p:nvGrpSpPr><p:cNvPr id="70" name=""/><p:cNvGrpSpPr/><p:nvPr/></p:nvGrpSpPr><p:grpSpPr/>{make_shape(71, "<a:p><a:endParaRPr/></a:p>")}{make_shape(72, make_paragraphs(LAST))}</p:grpSp>'
    return make_presentation([
        make_shape(54, make_paragraphs(TITLE), "title") + make_shape(55, make_paragraphs(FIRST, SECOND), "subTitle", 0),
        make_shape(60, make_paragraphs(INNER), "title") + make_shape(61, outline, "", 0).replace("<p:nvPr/>", '<p:nvPr><p:ph idx="0"/></p:nvPr>') + make_slide_table() + group + FOOT,
    ])  # fmt: skip


@register_producer(".pptx", "PptxGenJS")
def _() -> bytes:
    # Text boxes only, no placeholder at all.
    box = (
        make_shape(2, make_paragraphs(TITLE))
        + make_shape(3, make_paragraphs(FIRST))
        + make_shape(4, f"<a:p><a:pPr algn='l'/>{make_runs(SECOND, 12)}</a:p>")
    )
    bullets = make_paragraphs(
        *ITEMS,
        properties='<a:pPr marL="342900" indent="-342900"><a:buSzPct val="100000"/><a:buChar char="&#x2022;"/></a:pPr>',
    )
    return make_presentation(
        [
            box,
            make_shape(2, make_paragraphs(INNER))
            + make_shape(3, bullets)
            + make_slide_table()
            + make_shape(6, make_paragraphs(LAST)),
        ]
    )


@register_producer(".pptx", "python-pptx", "pptx")
def _() -> bytes:
    import pptx

    shown = pptx.Presentation()
    slide = shown.slides.add_slide(shown.slide_layouts[1])
    slide.shapes.title.text = TITLE
    slide.placeholders[1].text_frame.text = f"{FIRST}\n{SECOND}"
    slide = shown.slides.add_slide(shown.slide_layouts[1])
    slide.shapes.title.text = INNER
    slide.placeholders[1].text_frame.text = "\n".join(ITEMS)
    table = slide.shapes.add_table(3, 3, 0, 0, 1, 1).table
    for cell, text in zip(table.iter_cells(), (text for row in TABLE for text in row), strict=True):
        cell.text = text
    slide.shapes.add_textbox(0, 0, 1, 1).text_frame.text = LAST
    return save_to_bytes(shown.save)


# --- sheets ----------------------------------------------------------------------------------------------------------

#: The text as a sheet: every cell in its order.
CELLS = ([TITLE], [FIRST, SECOND], [INNER], list(ITEMS), *(list(row) for row in TABLE), [LAST])
SML = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"


def make_workbook(rows: str, shared: str = "", prefix: str = "") -> bytes:
    """Make a workbook with one sheet of rows; ``prefix`` is the namespace prefix of the elements."""
    kind = "application/vnd.openxmlformats-officedocument.spreadsheetml"
    x = f"{prefix}:" if prefix else ""
    space = f'xmlns{":" + prefix if prefix else ""}="{SML}"'
    return pack_zip({
        "[Content_Types].xml": f'<Types xmlns="{PACKAGE}/content-types"><Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Default Extension="xml" ContentType="application/xml"/>'
        f'<Override PartName="/xl/workbook.xml" ContentType="{kind}.sheet.main+xml"/><Override PartName="/xl/worksheets/sheet1.xml" ContentType="{kind}.worksheet+xml"/><Override PartName="/xl/sharedStrings.xml" ContentType="{kind}.sharedStrings+xml"/></Types>',
        "_rels/.rels": make_relations(("officeDocument", "xl/workbook.xml")),
        "xl/workbook.xml": f'<?xml version="1.0" encoding="UTF-8" standalone="yes"?><{x}workbook {space} xmlns:r="{OFFICE}"><{x}sheets><{x}sheet name="Lights" sheetId="1" r:id="r1"/></{x}sheets></{x}workbook>',
        "xl/_rels/workbook.xml.rels": make_relations(("worksheet", "worksheets/sheet1.xml"), ("sharedStrings", "sharedStrings.xml")),
        "xl/worksheets/sheet1.xml": f'<{x}worksheet {space}><{x}dimension ref="A1"/><{x}sheetData>{rows}</{x}sheetData><{x}mergeCells count="1"><{x}mergeCell ref="A1:C1"/></{x}mergeCells></{x}worksheet>',
        "xl/sharedStrings.xml": f'<{x}sst {space}>{shared}</{x}sst>',
    })  # fmt: skip


def share_cell_strings(string: Callable[[str], str], prefix: str = "", references: bool = True) -> tuple[str, str]:
    """Return rows whose cells are shared strings, and the strings."""
    x = f"{prefix}:" if prefix else ""
    rows, strings = "", []
    for number, cells in enumerate(CELLS, 1):
        line = ""
        for column, text in zip("ABC", cells, strict=False):
            place = f' r="{column}{number}"' if references else ""
            line += (
                f'<{x}c{place} s="1" t="s"><{x}v>{len(strings)}</{x}v></{x}c>'
                if not text.isdigit()
                else f"<{x}c{place}><{x}v>{text}</{x}v></{x}c>"
            )
            if not text.isdigit():
                strings.append(string(text))
        rows += f'<{x}row{f""" r="{number}" spans="1:3" """ if references else ""}>{line}</{x}row>'
    return rows, "".join(strings)


@register_producer(".xlsx", "Excel")
def _() -> bytes:
    # Rich strings in runs, with readings beside the characters, which are no text of the cell.
    def string(text: str) -> str:
        reading = '<rPh sb="0" eb="2"><t>トウキョウ</t></rPh><phoneticPr fontId="1"/>' if "東京" in text else ""
        return f'<si><r><t xml:space="preserve">{escape(text[:5])}</t></r><r><rPr><b/></rPr><t xml:space="preserve">{escape(text[5:])}</t></r>{reading}</si>'

    return make_workbook(*share_cell_strings(string))


@register_producer(".xlsx", "Google Sheets")
def _() -> bytes:
    return make_workbook(*share_cell_strings(lambda text: f'<si><t xml:space="preserve">{escape(text)}</t></si>'))


@register_producer(".xlsx", "a report generator with prefixes")
def _() -> bytes:
    # Open XML SDK: every element with a prefix, no references of cells.
    return make_workbook(*share_cell_strings(lambda text: f"<x:si><x:t>{escape(text)}</x:t></x:si>", "x", False), "x")


@register_producer(".xlsx", "openpyxl", "openpyxl")
def _() -> bytes:
    import openpyxl

    book = openpyxl.Workbook()
    for row in CELLS:
        book.active.append(row)
    return save_to_bytes(book.save)


@register_producer(".xlsx", "XlsxWriter", "xlsxwriter")
def _() -> bytes:
    import xlsxwriter

    stream = io.BytesIO()
    book = xlsxwriter.Workbook(stream)
    sheet = book.add_worksheet()
    for number, row in enumerate(CELLS):
        sheet.write_row(number, 0, row)
    bold = book.add_format({"bold": True})
    sheet.write_rich_string(1, 0, FIRST[:5], bold, FIRST[5:9], FIRST[9:])
    book.close()
    return stream.getvalue()


@register_producer(".xlsx", "PyExcelerate", "pyexcelerate")
def _() -> bytes:
    import pyexcelerate

    book = pyexcelerate.Workbook()
    book.new_sheet("Lights", data=list(CELLS))
    return save_to_bytes(book._save)


# --- ODS -------------------------------------------------------------------------------------------------------------


def make_ods(rows: str, more: str = "") -> bytes:
    """Return a spreadsheet with one sheet, given by its rows; ``more`` precedes the sheet."""
    return make_opendocument(
        "spreadsheet",
        f'{more}<table:table table:name="Lights"><table:table-column table:number-columns-repeated="16384"/>{rows}</table:table>',
    )


def make_ods_cell(text: str, displayed: str | None = None) -> str:
    """Return a cell with a text or a number."""
    if text.isdigit():
        return f'<table:table-cell office:value-type="float" office:value="{text}"><text:p>{displayed or text}</text:p></table:table-cell>'
    return (
        f'<table:table-cell office:value-type="string"><text:p>{displayed or escape(text)}</text:p></table:table-cell>'
    )


def make_ods_rows(cell: Callable[[str], str] = make_ods_cell, suffix: str = "") -> str:
    return "".join(f"<table:table-row>{''.join(map(cell, cells))}{suffix}</table:table-row>" for cells in CELLS)


@register_producer(".ods", "LibreOffice Calc")
def _() -> bytes:
    # Cells and rows that fill the sheet, spaces and links as elements, a comment, declarations before the tables.
    def cell(text: str) -> str:
        shown = escape(text).replace("wrote down", "wrote<text:s/>down")
        note = "<office:annotation><dc:creator>x</dc:creator><text:p>a remark</text:p></office:annotation>"
        return make_ods_cell(text, shown).replace("<text:p>", f"{note if text == TITLE else ''}<text:p>", 1)

    fill = '<table:table-cell table:number-columns-repeated="16381"/>'
    end = '<table:table-row table:number-rows-repeated="1048570"><table:table-cell table:number-columns-repeated="16384"/></table:table-row>'
    return make_ods(
        make_ods_rows(cell, fill) + end, "<table:calculation-settings><table:iteration/></table:calculation-settings>"
    )


@register_producer(".ods", "Excel")
def _() -> bytes:
    # Every text in spans, several paragraphs a cell, columns and rows in groups.
    def cell(text: str) -> str:
        parts = "".join(f"<text:span>{escape(text[n : n + 9])}</text:span>" for n in range(0, len(text), 9))
        return make_ods_cell(text, parts.replace(" </text:span><text:span>", "</text:span><text:s/><text:span>"))

    return make_ods(
        f"<table:table-row-group><table:table-rows>{make_ods_rows(cell)}</table:table-rows></table:table-row-group>"
    )


@register_producer(".ods", "Google Sheets")
def _() -> bytes:
    # Links in cells, values beside what is shown, columns that are covered by merged cells.
    def cell(text: str) -> str:
        return make_ods_cell(text, f'<text:a xlink:href="https://x.org/" xlink:type="simple">{escape(text)}</text:a>')

    return make_ods(make_ods_rows(cell, '<table:covered-table-cell table:number-columns-repeated="2"/>'))


@register_producer(".ods", "a file of XML")
def _() -> bytes:
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<office:document {ODF} office:mimetype="application/vnd.oasis.opendocument.spreadsheet">'
        f'<office:body><office:spreadsheet><table:table table:name="Lights">{make_ods_rows()}</table:table></office:spreadsheet></office:body></office:document>'
    ).encode()


@register_producer(".ods", "odfpy", "odf")
def _() -> bytes:
    from odf.opendocument import OpenDocumentSpreadsheet
    from odf.table import Table, TableCell, TableRow
    from odf.text import P

    book = OpenDocumentSpreadsheet()
    table = Table(name="Lights")
    for row in CELLS:
        line = TableRow()
        for text in row:
            cell = TableCell(valuetype="float", value=text) if text.isdigit() else TableCell(valuetype="string")
            cell.addElement(P(text=text))
            line.addElement(cell)
        table.addElement(line)
    book.spreadsheet.addElement(table)
    return save_to_bytes(book.save)


@register_producer(".ods", "pandas", "pandas")
def _() -> bytes:
    import pandas

    pandas_rows = [[*row, *[None] * (3 - len(row))] for row in CELLS]
    frame = pandas.DataFrame(pandas_rows)
    return save_to_bytes(lambda stream: frame.to_excel(stream, engine="odf", header=False, index=False))


# --- ODP -------------------------------------------------------------------------------------------------------------


def make_odp(*slides: str) -> bytes:
    """Make a presentation from the shapes of its slides."""
    pages = "".join(f'<draw:page draw:name="page{n}">{shapes}</draw:page>' for n, shapes in enumerate(slides, 1))
    return make_opendocument("presentation", pages)


def make_odp_frame(body: str, kind: str = "") -> str:
    """Return a text box, or a placeholder of a kind."""
    attributes = f' presentation:class="{kind}"' if kind else ""
    return f'<draw:frame draw:layer="layout"{attributes} svg:width="5cm"><draw:text-box>{body}</draw:text-box></draw:frame>'


def make_odp_paragraphs(*texts: str) -> str:
    return "".join(f"<text:p>{escape(text)}</text:p>" for text in texts)


def make_odp_list(*items: str) -> str:
    return f"<text:list>{''.join(f'<text:list-item><text:p>{item}</text:p></text:list-item>' for item in items)}</text:list>"


@register_producer(".odp", "LibreOffice Impress")
def _() -> bytes:
    # An outline as lists, a drawn shape, a table in a frame, placeholders of every slide, notes with the slide's picture.
    foot = make_odp_frame(make_odp_paragraphs("17 May"), "date-time") + make_odp_frame(
        "<text:p><text:page-number>1</text:page-number></text:p>", "page-number"
    )
    shape = f'<draw:custom-shape draw:name="s">{make_odp_paragraphs(SECOND)}<draw:enhanced-geometry draw:type="rectangle"/></draw:custom-shape>'
    notes = f'<presentation:notes><draw:page-thumbnail draw:page-number="1"/>{make_odp_frame(make_odp_paragraphs(LAST), "notes")}{make_odp_frame(make_odp_paragraphs("7"), "page-number")}</presentation:notes>'
    return make_odp(
        make_odp_frame(make_odp_paragraphs(TITLE), "title") + make_odp_frame(make_odp_list(escape(FIRST)), "outline") + shape + foot,
        make_odp_frame(make_odp_paragraphs(INNER), "title") + make_odp_frame(make_odp_list(*ITEMS), "outline") + f"<draw:frame>{make_odf_table(make_odp_paragraphs)}<draw:image/></draw:frame>" + foot + notes,
    )  # fmt: skip


@register_producer(".odp", "PowerPoint")
def _() -> bytes:
    # Runs of a few letters, empty placeholders, text in groups.
    def spans(text: str) -> str:
        parts = "".join(
            f'<text:span text:style-name="a{n}">{escape(text[n : n + 8])}</text:span>' for n in range(0, len(text), 8)
        )
        return f"<text:p>{parts}</text:p>"

    group = f"<draw:g>{make_odp_frame(''.join(map(spans, ITEMS)))}<draw:g><draw:frame>{make_odf_table(spans)}</draw:frame></draw:g></draw:g>"
    return make_odp(
        make_odp_frame(spans(TITLE), "title") + make_odp_frame("", "subtitle") + make_odp_frame(spans(FIRST) + spans(SECOND)),
        make_odp_frame(spans(INNER), "title") + group + make_odp_frame(spans(LAST)),
    )  # fmt: skip


@register_producer(".odp", "Google Slides")
def _() -> bytes:
    # No classes but titles, lists with an item each, notes that are empty.
    empty = f"<presentation:notes>{make_odp_frame('<text:p/>', 'notes')}</presentation:notes>"
    return make_odp(
        make_odp_frame(make_odp_paragraphs(TITLE), "title") + make_odp_frame(make_odp_paragraphs(FIRST, SECOND), "subtitle") + empty,
        make_odp_frame(make_odp_paragraphs(INNER), "title") + make_odp_frame("".join(map(make_odp_list, ITEMS))) + f"<draw:frame>{make_odf_table(make_odp_paragraphs)}</draw:frame>" + make_odp_frame(make_odp_paragraphs(LAST)) + empty,
    )  # fmt: skip


@register_producer(".odp", "a file of XML")
def _() -> bytes:
    shapes = make_odp_frame(make_odp_paragraphs(TITLE), "title") + make_odp_frame(
        make_odp_paragraphs(FIRST, SECOND, INNER, *ITEMS)
    )
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<office:document {ODF} office:mimetype="application/vnd.oasis.opendocument.presentation"><office:body><office:presentation>'
        f"<draw:page>{shapes}</draw:page><draw:page><draw:frame>{make_odf_table(make_odp_paragraphs)}</draw:frame>{make_odp_frame(make_odp_paragraphs(LAST))}</draw:page></office:presentation></office:body></office:document>"
    ).encode()


@register_producer(".odp", "odfpy", "odf")
def _() -> bytes:
    from odf.draw import Frame, Page, TextBox
    from odf.opendocument import OpenDocumentPresentation
    from odf.style import MasterPage, PageLayout
    from odf.text import P

    shown = OpenDocumentPresentation()
    layout = PageLayout(name="layout")
    shown.automaticstyles.addElement(layout)
    master = MasterPage(name="master", pagelayoutname=layout)
    shown.masterstyles.addElement(master)
    for title, texts in ((TITLE, (FIRST, SECOND)), (INNER, (*ITEMS, *(cell for row in TABLE for cell in row), LAST))):
        page = Page(masterpagename=master)
        for kind, lines in (("title", (title,)), ("outline", texts)):
            frame, box = Frame(width="1cm", height="1cm"), TextBox()
            frame.setAttrNS("urn:oasis:names:tc:opendocument:xmlns:presentation:1.0", "class", kind)
            for line in lines:
                box.addElement(P(text=line))
            frame.addElement(box)
            page.addElement(frame)
        shown.presentation.addElement(page)
    return save_to_bytes(shown.save)


# --- DOCX ------------------------------------------------------------------------------------------------------------

WML = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main" xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships" xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006" xmlns:wps="http://schemas.microsoft.com/office/word/2010/wordprocessingShape" xmlns:v="urn:schemas-microsoft-com:vml" xmlns:w14="http://schemas.microsoft.com/office/word/2010/wordml"'
MAIN_PART = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"


def make_word_document(
    body: str, styles: dict[str, str] | None = None, numbering: str = "", main: str = MAIN_PART
) -> bytes:
    """Make a document with this body; ``styles``: the names of styles by identifier; ``main``: its content type."""
    kind = "application/vnd.openxmlformats-officedocument.wordprocessingml"
    named = "".join(
        f'<w:style w:type="paragraph" w:styleId="{identifier}"><w:name w:val="{name}"/></w:style>'
        for identifier, name in (styles or {}).items()
    )
    return pack_zip({
        "[Content_Types].xml": f'<?xml version="1.0" encoding="UTF-8" standalone="yes"?><Types xmlns="{PACKAGE}/content-types"><Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Default Extension="xml" ContentType="application/xml"/>'
        f'<Override PartName="/word/document.xml" ContentType="{main}"/><Override PartName="/word/styles.xml" ContentType="{kind}.styles+xml"/><Override PartName="/word/numbering.xml" ContentType="{kind}.numbering+xml"/></Types>',
        "_rels/.rels": make_relations(("officeDocument", "word/document.xml")),
        "word/_rels/document.xml.rels": make_relations(("styles", "styles.xml"), ("numbering", "numbering.xml")),
        "word/document.xml": f'<?xml version="1.0" encoding="UTF-8" standalone="yes"?><w:document {WML}><w:body>{body}<w:sectPr/></w:body></w:document>',
        "word/styles.xml": f"<w:styles {WML}>{named}</w:styles>",
        "word/numbering.xml": f"<w:numbering {WML}>{numbering}</w:numbering>",
    })  # fmt: skip


def make_word_runs(text: str, every: int = 1000, properties: str = "") -> str:
    """Return a text in runs of ``every`` letters."""
    return "".join(
        f'<w:r>{properties}<w:t xml:space="preserve">{escape(text[n : n + every])}</w:t></w:r>'
        for n in range(0, len(text), every)
    )


def make_word_paragraph(inner: str, style: str = "", more: str = "") -> str:
    named = f'<w:pStyle w:val="{style}"/>' if style else ""
    return f"<w:p><w:pPr>{named}{more}</w:pPr>{inner}</w:p>"


def make_word_table(inner: Callable[[str], str] = make_word_runs) -> str:
    rows = "".join(
        f"<w:tr>{''.join(f'<w:tc><w:tcPr/>{make_word_paragraph(inner(cell))}</w:tc>' for cell in row)}</w:tr>"
        for row in TABLE
    )
    return f"<w:tbl><w:tblPr/><w:tblGrid/>{rows}</w:tbl>"


NUMBERED = '<w:numPr><w:ilvl w:val="0"/><w:numId w:val="1"/></w:numPr>'
BULLETS = '<w:abstractNum w:abstractNumId="0"><w:lvl w:ilvl="0"><w:numFmt w:val="bullet"/></w:lvl></w:abstractNum><w:num w:numId="1"><w:abstractNumId w:val="0"/></w:num>'


@register_producer(".docx", "Word")
def _() -> bytes:
    # Runs that are parted by spelling and revisions, changes that are tracked, fields, a text box in two forms, a
    # content control around a table.
    def run(text: str) -> str:
        return make_word_runs(text, 7, "<w:rPr><w:lang/></w:rPr>").replace(
            "<w:r>", '<w:proofErr w:type="spellStart"/><w:r w:rsidR="00A">'
        )

    gone = '<w:del w:id="1" w:author="x"><w:r><w:delText>gone </w:delText></w:r></w:del>'
    kept = f'<w:ins w:id="2" w:author="x">{run(FIRST[:30])}</w:ins>{run(FIRST[30:])}'
    field = '<w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r><w:instrText> REF x </w:instrText></w:r><w:r><w:fldChar w:fldCharType="end"/></w:r>'
    box = f"<w:txbxContent>{make_word_paragraph(run(LAST))}</w:txbxContent>"
    shape = f'<w:r><mc:AlternateContent><mc:Choice Requires="wps"><w:drawing><wps:txbx>{box}</wps:txbx></w:drawing></mc:Choice><mc:Fallback><w:pict><v:textbox>{box}</v:textbox></w:pict></mc:Fallback></mc:AlternateContent></w:r>'
    return make_word_document(
        make_word_paragraph(f'<w:bookmarkStart w:id="0" w:name="_Toc1"/>{run(TITLE)}<w:bookmarkEnd w:id="0"/>', "Heading1")
        + make_word_paragraph(gone + kept + field) + make_word_paragraph(run(SECOND)) + make_word_paragraph(run(INNER), "Heading2")
        + "".join(make_word_paragraph(run(item), "ListParagraph", NUMBERED) for item in ITEMS)
        + f"<w:sdt><w:sdtPr/><w:sdtContent>{make_word_table(run)}</w:sdtContent></w:sdt>" + make_word_paragraph(shape),
        {"Heading1": "heading 1", "Heading2": "heading 2", "ListParagraph": "List Paragraph"}, BULLETS,
    )  # fmt: skip


@register_producer(".docx", "Google Docs")
def _() -> bytes:
    # Every property at every run, headings by style and size, right-to-left off, links.
    def run(text: str) -> str:
        return make_word_runs(
            text, 1000, '<w:rPr><w:rFonts w:ascii="Arial"/><w:b w:val="0"/><w:rtl w:val="0"/></w:rPr>'
        )

    return make_word_document(
        make_word_paragraph(run(TITLE), "Heading1") + make_word_paragraph(f'<w:hyperlink r:id="r9">{run(FIRST[:20])}</w:hyperlink>{run(FIRST[20:])}')
        + make_word_paragraph(run(SECOND)) + make_word_paragraph(run(INNER), "Heading2")
        + "".join(make_word_paragraph(run(item), "", NUMBERED + '<w:ind w:left="720"/>') for item in ITEMS) + make_word_table(run) + make_word_paragraph(run(LAST)),
        {"Heading1": "heading 1", "Heading2": "heading 2"}, BULLETS,
    )  # fmt: skip


@register_producer(".docx", "LibreOffice Writer")
def _() -> bytes:
    # Styles by its own identifiers, tabs and line breaks in runs, soft hyphens, headings by outline level.
    soft = make_word_runs(FIRST).replace("lighthouse", "light\u00adhouse").replace(
        "came by.", "came</w:t><w:br/><w:t>by.</w:t></w:r><w:r><w:t>"
    ).replace("wrote down", "wrote</w:t><w:tab/><w:t>down")  # fmt: skip
    return make_word_document(
        make_word_paragraph(make_word_runs(TITLE), "Berschrift1", '<w:outlineLvl w:val="0"/>') + make_word_paragraph(soft, "Textkrper") + make_word_paragraph(make_word_runs(SECOND), "Textkrper")
        + make_word_paragraph(make_word_runs(INNER), "Berschrift2", '<w:outlineLvl w:val="1"/>')
        + "".join(make_word_paragraph(make_word_runs(item), "Textkrper", NUMBERED) for item in ITEMS) + make_word_table() + make_word_paragraph(make_word_runs(LAST)),
        {"Berschrift1": "Überschrift 1", "Berschrift2": "Überschrift 2", "Textkrper": "Body Text"}, BULLETS,
    )  # fmt: skip


@register_producer(".docx", "Pages")
def _() -> bytes:
    # No headings but sizes and bold letters, everything in the style Body, lists of a style, fonts by script.
    def run(text: str) -> str:
        return make_word_runs(text, 12, '<w:rPr><w:rFonts w:ascii="Helvetica Neue"/></w:rPr>')

    bold = "<w:rPr><w:b/><w:sz w:val='36'/></w:rPr>"
    return make_word_document(
        make_word_paragraph(make_word_runs(TITLE, 1000, bold), "Body") + make_word_paragraph(run(FIRST), "Body") + make_word_paragraph(run(SECOND), "Body")
        + make_word_paragraph(make_word_runs(INNER, 1000, bold), "Body") + "".join(make_word_paragraph(run(item), "Body", NUMBERED) for item in ITEMS)
        + make_word_table(run) + make_word_paragraph(run(LAST), "Body"),
        {"Body": "Body"}, BULLETS,
    )  # fmt: skip


@register_producer(".docx", "Pandoc")
def _() -> bytes:
    styles = {
        "Heading1": "heading 1",
        "Heading2": "heading 2",
        "FirstParagraph": "First Paragraph",
        "BodyText": "Body Text",
        "Compact": "Compact",
    }
    return make_word_document(
        make_word_paragraph(make_word_runs(TITLE), "Heading1") + make_word_paragraph(make_word_runs(FIRST), "FirstParagraph") + make_word_paragraph(make_word_runs(SECOND), "BodyText")
        + make_word_paragraph(make_word_runs(INNER), "Heading2") + "".join(make_word_paragraph(make_word_runs(item), "Compact", NUMBERED) for item in ITEMS)
        + make_word_table() + make_word_paragraph(make_word_runs(LAST), "BodyText"), styles, BULLETS,
    )  # fmt: skip


@register_producer(".docx", "python-docx", "docx")
def _() -> bytes:
    import docx

    document = docx.Document()
    document.add_heading(TITLE, 1)
    document.add_paragraph(FIRST)
    document.add_paragraph(SECOND)
    document.add_heading(INNER, 2)
    for item in ITEMS:
        document.add_paragraph(item, "List Bullet")
    table = document.add_table(0, 3)
    for row in TABLE:
        for cell, text in zip(table.add_row().cells, row, strict=True):
            cell.text = text
    document.add_paragraph(LAST)
    return save_to_bytes(document.save)


# --- RTF -------------------------------------------------------------------------------------------------------------


def escape_rtf(text: str, codepage: str = "", fallback: str = "?") -> str:
    """Return the text with non-ASCII characters escaped, in the code page if it has them."""
    written = ""
    for char in text:
        if char in "\\{}":
            written += "\\" + char
        elif ord(char) < 128:
            written += char
        else:
            try:
                written += "".join(f"\\'{byte:02x}" for byte in char.encode(codepage or "ascii"))
            except UnicodeEncodeError:
                units = struct.unpack(f"<{len(char.encode('utf-16-le')) // 2}h", char.encode("utf-16-le"))
                written += "".join(f"\\u{unit}{fallback}" for unit in units)
    return written


@register_producer(".rtf", "Word")
def _() -> bytes:
    # Lines broken anywhere in the markup, revision marks, list texts, a text box, a footnote, fields, pictures.
    def e(text: str) -> str:
        return escape_rtf(text, "cp1252", "\\'3f").replace("“", "\\ldblquote ").replace("”", "\\rdblquote ")

    first = (
        e(FIRST)
        .replace("Halcyon", "{\\rtlch\\fcs1 \\ai\\af0 \\ltrch\\fcs0 \\i\\insrsid123 Halcyon}")
        .replace(" forgets", "{\\insrsid77  for}{\\insrsid78 gets}")
    )
    items = "".join(
        f"{{\\listtext\\pard\\plain\\ltrpar \\s16 \\f3\\lang1033 \\loch\\af3\\dbch\\af31505\\hich\\f3 \\'b7\\tab}}\\pard \\fi-360\\li720\\ls1 {{\\rtlch {e(item)}\\par }}\r\n"
        for item in ITEMS
    )
    rows = "".join(
        "\\trowd \\irow0\\cellx100\\cellx200\\cellx300\\pard\\intbl "
        + "".join(f"{{{e(cell)}\\cell }}" for cell in row)
        + "\\pard {\\trowd \\row }\r\n"
        for row in TABLE
    )
    return (
        "{\\rtf1\\adeflang1025\\ansi\\ansicpg1252\\uc1\\adeff0\\deff0{\\fonttbl{\\f0\\fbidi \\froman\\fcharset0\\fprq2{\\*\\panose 02020603050405020304}Times New Roman;}{\\f3\\fcharset2 Symbol;}}"
        "{\\colortbl;\\red0\\green0\\blue0;}{\\stylesheet{\\ql \\snext0 Normal;}{\\s1\\outlinelevel0 \\snext0 heading 1;}}{\\*\\latentstyles\\lsdstimax376{\\lsdlockedexcept Normal;heading 1;}}{\\*\\rsidtbl \\rsid123}"
        "{\\*\\generator Microsoft Word 16;}{\\info{\\title The lights}{\\author Elias}{\\creatim\\yr2024\\mo1}}{\\header \\pard running head\\par }{\\*\\xmlnstbl {\\xmlns1 http://x}}\r\n"
        f"\\pard\\plain \\s1\\outlinelevel0 {{\\rtlch\\b {e(TITLE)}\\par }}\\pard\\plain {{{first}\\par }}{{\\pict{{\\*\\picprop}}\\wmetafile8\\picw1\r\n0100090000\r\n}}{{{e(SECOND)}\\par }}"
        f"\\pard\\plain \\s2\\outlinelevel1 {{{INNER}\\par }}{items}{rows}\\pard {{\\field{{\\*\\fldinst {{HYPERLINK \"http://x.org\"}}}}{{\\fldrslt {{\\ul {LAST[:9]}}}}}}}{{{e(LAST[9:])}\\par }}"
        "{\\*\\themedata 504b0304}{\\*\\datastore 0105}}"
    ).encode("latin-1")  # fmt: skip


@register_producer(".rtf", "WordPad")
def _() -> bytes:
    # Greek and Russian by the character sets of fonts, line ends in the markup, no info.
    def e(text: str) -> str:
        text = escape_rtf(text.replace("Ελένη", "<GREEK>").replace("Пётр", "<RUSSIAN>"), "cp1252")
        greek = "".join(f"\\'{byte:02x}" for byte in "Ελένη".encode("cp1253"))
        russian = "".join(f"\\'{byte:02x}" for byte in "Пётр".encode("cp1251"))
        return text.replace("<GREEK>", f"\\f1\\lang1032 {greek}\\f0\\lang1033 ").replace(
            "<RUSSIAN>", f"\\f2 {russian}\\f0 "
        )

    items = "".join(f"{{\\pntext\\f3\\'B7\\tab}}{e(item)}\\par\r\n" for item in ITEMS)
    rows = "".join(
        "\\trowd\\cellx1\\cellx2\\cellx3\r\n\\pard\\intbl " + "".join(f"{e(cell)}\\cell " for cell in row) + "\\row\r\n"
        for row in TABLE
    )
    return (
        "{\\rtf1\\ansi\\ansicpg1252\\deff0\\nouicompat\\deflang1033{\\fonttbl{\\f0\\fnil\\fcharset0 Calibri;}{\\f1\\fnil\\fcharset161 Calibri;}{\\f2\\fnil\\fcharset204 Calibri;}{\\f3\\fnil\\fcharset2 Symbol;}}\r\n"
        f"{{\\*\\generator Riched20 10.0.19041}}\\viewkind4\\uc1 \r\n\\pard\\sa200\\sl276\\slmult1\\b\\f0\\fs22\\lang9 {e(TITLE)}\\b0\\par\r\n{e(FIRST)}\\par\r\n{e(SECOND)}\\par\r\n{INNER}\\par\r\n{items}\\pard {rows}\\pard {e(LAST)}\\par\r\n}}\r\n\0"
    ).encode("latin-1")  # fmt: skip


@register_producer(".rtf", "LibreOffice")
def _() -> bytes:
    def e(text: str) -> str:
        return escape_rtf(text, "", "\\'3f")

    items = "".join(
        f"\\pard\\plain \\s0{{\\listtext\\pard\\plain \\u8226\\'95\\tab}}\\ilvl0\\ls1 {{\\loch\r\n{e(item)}}}\\par "
        for item in ITEMS
    )
    rows = "".join(
        "\\trowd\\trql\\cellx1\\cellx2\\cellx3\\pard\\plain\\intbl"
        + "".join(f"{{\\loch\r\n{e(cell)}}}\\cell" for cell in row)
        + "\\row"
        for row in TABLE
    )
    return (
        "{\\rtf1\\ansi\\deff3\\adeflang1025\r\n{\\fonttbl{\\f0\\froman\\fprq2\\fcharset0 Times New Roman;}{\\f3\\froman\\fprq2\\fcharset0 Liberation Serif{\\*\\falt Times New Roman};}}\r\n{\\stylesheet{\\s0\\snext0 Default Paragraph Style;}{\\s1\\sbasedon15\\snext16 Heading 1;}}"
        "{\\*\\generator LibreOffice/7.4;}{\\info{\\creatim\\yr0}{\\revtim\\yr2024}}{\\*\\userprops}\\deftab709\r\n{\\*\\pgdsctbl\r\n{\\pgdsc0\\pgdscuse451\\pgwsxn11906 Default Page Style;}}\r\n\\formshade\\sectd\\sbknone\\pgwsxn11906\r\n{\\*\\ftnsep\\chftnsep}"
        f"\\pgndec\\pard\\plain \\s1\\outlinelevel0{{\\loch\r\n{e(TITLE)}}}\r\n\\par \\pard\\plain \\s0{{\\loch\r\n{e(FIRST)}}}\r\n\\par \\pard\\plain {{\\hich\\af4\\loch\r\n{e(SECOND)}}}\r\n\\par {{\\loch\r\n{INNER}}}\\par {items}{rows}\\pard\\plain {{\\rtlch \\ltrch\\loch\r\n{e(LAST)}}}\r\n\\par }}"
    ).encode()  # fmt: skip


@register_producer(".rtf", "TextEdit")
def _() -> bytes:
    # Cocoa: a Macintosh code page that is none, \uc0, a backslash at the end of a line as the end of a paragraph.
    def e(text: str) -> str:
        return escape_rtf(text, "", " ").replace("\\u8220 ", "\\'93").replace("\\u8221 ", "\\'94")

    rows = "".join(
        "\\itap1\\trowd \\taflags1 \\cellx1\\cellx2\\cellx3\n"
        + "".join(f"\\pard\\intbl\\itap1\\pardeftab720\\partightenfactor0\n\\cf0 {e(cell)}\\cell \n" for cell in row)
        + "\\row\n"
        for row in TABLE
    )
    return (
        "{\\rtf1\\ansi\\ansicpg1252\\cocoartf2639\n\\cocoatextscaling0\\cocoaplatform0{\\fonttbl\\f0\\fswiss\\fcharset0 Helvetica;\\f1\\froman\\fcharset0 Times;}\n{\\colortbl;\\red255\\green255\\blue255;}\n{\\*\\expandedcolortbl;;}\n{\\*\\listtable{\\list\\listtemplateid1{\\listlevel{\\leveltext\\leveltemplateid1\\'01\\uc0\\u8226 ;}{\\levelnumbers;}}{\\listname ;}\\listid1}}\n\\paperw11900\\vieww1\n\\pard\\pardeftab720\n\n"
        f"\\f0\\b\\fs24 \\cf0 \\uc0{e(TITLE)}\\\n\\f1\\b0 {e(FIRST)}\\\n{e(SECOND)}\\\n{INNER}\\\n" + "".join(f"{{\\listtext\t\\uc0\\u8226 \t}}{e(item)}\\\n" for item in ITEMS) + f"{rows}\\pard {e(LAST)}}}"
    ).encode()  # fmt: skip


@register_producer(".rtf", "Pandoc")
def _() -> bytes:
    def e(text: str) -> str:
        return escape_rtf(text)

    items = "".join(
        f"{{\\pard \\ql \\f0 \\sa0 \\li360 \\fi-360 \\bullet \\tx360\\tab {e(item)}\\par}}\n" for item in ITEMS
    )
    rows = "".join(
        "{\n\\trowd \\trgaph120\n\\cellx1\\cellx2\\cellx3\n\\trkeep\\intbl\n{\n"
        + "".join(f"{{{{\\pard\\intbl \\ql \\f0 \\sa0 \\li0 \\fi0 {e(cell)}\\par}}\n\\cell}}\n" for cell in row)
        + "}\n\\intbl\\row}\n"
        for row in TABLE
    )
    return (
        "{\\rtf1\\ansi\\deff0{\\fonttbl{\\f0 \\fswiss Helvetica;}{\\f1 Courier;}}\n{\\colortbl;\\red255\\green0\\blue0;}\n\\widowctrl\\hyphauto\n\n"
        f"{{\\pard \\ql \\f0 \\sa180 \\li0 \\fi0 \\outlinelevel0 \\b \\fs36 {e(TITLE)}\\par}}\n{{\\pard \\ql \\f0 \\sa180 {e(FIRST)}\\par}}\n{{\\pard \\ql {e(SECOND)}\\par}}\n{{\\pard \\outlinelevel1 \\b {INNER}\\par}}\n{items}{rows}{{\\pard \\ql {e(LAST)}\\par}}\n}}\n"
    ).encode()  # fmt: skip


# --- mail ------------------------------------------------------------------------------------------------------------


def make_mail_text(bullet: str = "* ") -> str:
    items = "\n".join(bullet + item for item in ITEMS)
    rows = "\n".join("  ".join(row) for row in TABLE)
    return f"{TITLE}\n\n{FIRST}\n\n{SECOND}\n\n{INNER}\n\n{items}\n\n{rows}\n\n{LAST}\n"


def wrap_lines(text: str, width: int = 72, end: str = "") -> str:
    """Return the lines of a text, at most ``width`` characters long; ``end`` is added to lines that continue."""
    lines = []
    for line in text.split("\n"):
        words = line.split(" ")
        current = ""
        for word in words:
            if current and len(current) + len(word) >= width:
                lines.append(current + end)
                current = word
            else:
                current = f"{current} {word}" if current else word
        lines.append(current)
    return "\n".join(lines)


def make_mail_head(
    producer: str, more: str = "", subject: str = "Subject: =?UTF-8?Q?Lights_=E2=80=94_Portland?="
) -> str:
    return f"Return-Path: <ada@x.org>\nReceived: by mail.x.org (x) id 1; Fri, 01 Mar 2024 10:00:00 +0100\nFrom: Ada <ada@x.org>\nTo: =?iso-8859-1?Q?Bj=F6rn?= <b@x.org>\n{subject}\nDate: Fri, 1 Mar 2024 10:00:00 +0100\nMessage-ID: <{producer}@x.org>\n{more}MIME-Version: 1.0\n"


@register_producer(".eml", "the standard library", "email")
def _() -> bytes:
    from email.message import EmailMessage

    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = "Ada <ada@x.org>", "Björn <b@x.org>", "Lights — Portland"
    mail["Message-ID"] = "<library@x.org>"
    mail.set_content(make_mail_text())
    return mail.as_bytes()


@register_producer(".eml", "Outlook")
def _() -> bytes:
    # HTML of Word with conditional comments, its plain form only says that there is another, Windows-1252 and UTF-8.
    html = (
        '<html xmlns:v="urn:schemas-microsoft-com:vml" xmlns:o="urn:schemas-microsoft-com:office:office" xmlns="http://www.w3.org/TR/REC-html40"><head><meta http-equiv=Content-Type content="text/html; charset=utf-8"><meta name=Generator content="Microsoft Word 15">'
        "<!--[if !mso]><style>v\\:* {behavior:url(#default#VML);}</style><![endif]--><style><!-- p.MsoNormal {margin:0} --></style></head><body lang=EN-US><div class=WordSection1>"
        + make_html_body("p class=MsoNormal")
        .replace("</p class=MsoNormal>", "<o:p></o:p></p>")
        .replace("lighthouse", "light<span style='color:red'>house</span>")
        + "<p class=MsoNormal><o:p>&nbsp;</o:p></p></div></body></html>"
    )
    plain = "This message is in HTML. View it in a program that shows HTML."
    coded = base64.encodebytes(html.encode()).decode()
    return (
        make_mail_head("outlook", "Thread-Topic: Lights\nX-MS-Has-Attach: \nContent-Language: en-US\n", "Subject: =?Windows-1252?Q?Lights_=97_Portland?=")
        + 'Content-Type: multipart/alternative;\n\tboundary="_000_ABC_"\n\n--_000_ABC_\nContent-Type: text/plain; charset="Windows-1252"\nContent-Transfer-Encoding: quoted-printable\n\n'
        + f"{plain}\n--_000_ABC_\nContent-Type: text/html; charset=\"utf-8\"\nContent-Transfer-Encoding: base64\n\n{coded}\n--_000_ABC_--\n"
    ).replace("\n", "\r\n").encode()  # fmt: skip


@register_producer(".eml", "Apple Mail")
def _() -> bytes:
    # Flowed with spaces deleted; what is inline beside a picture.
    text = wrap_lines(make_mail_text(), 66, "  ")
    coded = quopri.encodestring(text.encode()).decode()
    return (
        make_mail_head("apple", "X-Mailer: Apple Mail (2.3774)\n")
        + 'Content-Type: multipart/mixed; boundary="Apple-Mail=_1"\n\n--Apple-Mail=_1\nContent-Transfer-Encoding: quoted-printable\nContent-Type: text/plain;\n\tcharset=utf-8;\n\tformat=flowed;\n\tdelsp=yes\n\n'
        + f"{coded}\n--Apple-Mail=_1\nContent-Disposition: inline;\n\tfilename=a.png\nContent-Type: image/png;\n\tname=\"a.png\"\nContent-Transfer-Encoding: base64\n\niVBORw0KGgo=\n--Apple-Mail=_1--\n"
    ).encode()  # fmt: skip


@register_producer(".eml", "Gmail")
def _() -> bytes:
    html = '<div dir="ltr">' + make_html_body("div") + "</div>"
    return (
        make_mail_head("gmail")
        + 'Content-Type: multipart/alternative; boundary="0000000000001"\n\n--0000000000001\nContent-Type: text/plain; charset="UTF-8"\nContent-Transfer-Encoding: base64\n\n'
        + base64.encodebytes(wrap_lines(make_mail_text("   - "), 78).encode()).decode()
        + f'\n--0000000000001\nContent-Type: text/html; charset="UTF-8"\nContent-Transfer-Encoding: quoted-printable\n\n{quopri.encodestring(html.encode()).decode()}\n--0000000000001--\n'
    ).replace("\n", "\r\n").encode()  # fmt: skip


@register_producer(".eml", "Thunderbird")
def _() -> bytes:
    return (
        make_mail_head(
            "thunderbird",
            "User-Agent: Mozilla Thunderbird\nX-Mozilla-Status: 0001\nContent-Type: text/plain; charset=UTF-8; format=flowed\nContent-Transfer-Encoding: 8bit\n",
        )
        + "\n"
        + wrap_lines(make_mail_text(), 72, " ")
    ).encode()


@register_producer(".eml", "a Chinese web mailer")
def _() -> bytes:
    # Calls GBK GB2312, and the header is not encoded at all.
    body = f"照明\n\n{make_mail_text()}".encode("gb18030")
    head = make_mail_head(
        "cn",
        "Content-Type: text/plain; charset=gb2312\nContent-Transfer-Encoding: base64\n",
        "Subject: Lights — Portland",
    )
    return head.encode() + b"\n" + base64.encodebytes(body)


def make_mailbox(lines: list[tuple[str, bytes]], blank: bytes = b"\n") -> bytes:
    """Make a mailbox of messages, each after a line ``From``."""
    return b"".join(line.encode() + b"\n" + message.rstrip() + b"\n" + blank for line, message in lines)


def make_reply(producer: str) -> bytes:
    return f"From: b@x.org\nSubject: Re: Lights\nDate: Sat, 2 Mar 2024 10:00:00 +0100\nMessage-ID: <answer-{producer}@x.org>\n\nThank you.\n".encode()


def make_plain_mail(producer: str, text: str | None = None, more: str = "") -> bytes:
    head = make_mail_head(producer, f"{more}Content-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: 8bit\n")
    return (head + "\n" + wrap_lines(make_mail_text() if text is None else text)).encode()


@register_producer(".mbox", "the standard library", "mailbox")
def _() -> bytes:
    import mailbox
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        box = mailbox.mbox(f"{folder}/a.mbox")
        for message in (make_plain_mail("library-box"), make_reply("library")):
            box.add(message)
        box.close()
        return Path(f"{folder}/a.mbox").read_bytes()


@register_producer(".mbox", "Thunderbird")
def _() -> bytes:
    return make_mailbox(
        [
            ("From - Fri Mar 01 10:00:00 2024", b"X-Mozilla-Status: 0001\n" + make_plain_mail("thunderbird-box")),
            ("From - Sat Mar 02 10:00:00 2024", make_reply("thunderbird")),
        ]
    ).replace(b"\n", b"\r\n")


@register_producer(".mbox", "Takeout")
def _() -> bytes:
    return make_mailbox(
        [
            (
                "From 1792@xxx Fri Mar 01 09:00:00 +0000 2024",
                b"X-GM-THRID: 1792\nX-Gmail-Labels: =?UTF-8?Q?Archiviert?=\n" + make_plain_mail("takeout"),
            ),
            ("From 1793@xxx Sat Mar 02 09:00:00 +0000 2024", make_reply("takeout")),
        ]
    ).replace(b"\n", b"\r\n")


@register_producer(".mbox", "pipermail")
def _() -> bytes:
    # Addresses made unreadable, no MIME at all.
    text = f"From: ada at x.org (Ada)\nDate: Fri, 01 Mar 2024 10:00:00 +0100\nSubject: [lights] Portland\nMessage-ID: <pipermail@x.org>\n\n{wrap_lines(make_mail_text())}"
    return make_mailbox(
        [
            ("From ada at x.org  Fri Mar  1 10:00:00 2024", text.encode()),
            ("From b at x.org  Sat Mar  2 10:00:00 2024", make_reply("pipermail")),
        ]
    )


@register_producer(".mbox", "Dovecot")
def _() -> bytes:
    # The header has the length, so lines that begin with From need no escaping.
    text = make_mail_text().replace(LAST, f"From the deck, nothing.\n\n{LAST}").replace("\n\nFrom", "\n\nFrom")
    message = make_plain_mail("dovecot", text, f"X-UID: 1\nStatus: RO\nContent-Length: {len(text.encode())}\n")
    return make_mailbox(
        [
            ("From ada@x.org  Fri Mar 01 10:00:00 2024", message),
            ("From b@x.org  Sat Mar 02 10:00:00 2024", make_reply("dovecot")),
        ]
    )


# --- notebooks -------------------------------------------------------------------------------------------------------


def make_markdown() -> str:
    items = "\n".join(f"- {item}" for item in ITEMS)
    rows = "\n".join(f"| {' | '.join(row)} |" for row in (TABLE[0], ("---",) * 3, *TABLE[1:]))
    return f"# {TITLE}\n\n{FIRST}\n\n{SECOND}\n\n## {INNER}\n\n{items}\n\n{rows}\n\n{LAST}\n"


def split_notebook() -> tuple[str, str]:
    before, after = make_markdown().split(f"{LAST}\n")[0], LAST
    return before, after


@register_producer(".ipynb", "Jupyter", "nbformat")
def _() -> bytes:
    import nbformat
    from nbformat import v4

    before, after = split_notebook()
    cells = [v4.new_markdown_cell(before), v4.new_code_cell("", outputs=[v4.new_output("stream", text=after)])]
    return nbformat.writes(
        v4.new_notebook(
            cells=cells, metadata={"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
        )
    ).encode()


@register_producer(".ipynb", "IPython of 2013", "nbformat")
def _() -> bytes:
    from nbformat import v3

    before, after = split_notebook()
    title, rest = before.split("\n\n", 1)
    cells = [
        v3.new_heading_cell(title.removeprefix("# "), level=1),
        v3.new_text_cell("markdown", rest),
        v3.new_code_cell("", outputs=[v3.new_output("pyout", after)]),
    ]
    return v3.writes_json(
        v3.new_notebook(worksheets=[v3.new_worksheet(cells=cells)], metadata=v3.new_metadata())
    ).encode()


def make_notebook(cells: list[dict[str, object]], **metadata: object) -> bytes:
    return json.dumps(
        {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}, ensure_ascii=False, indent=1
    ).encode()


@register_producer(".ipynb", "Colab")
def _() -> bytes:
    # Metadata of its own, every line of a cell by itself, a form as code, a result only as HTML.
    before, after = split_notebook()
    return make_notebook(
        [
            {"cell_type": "markdown", "metadata": {"id": "x", "colab_type": "text"}, "source": before.splitlines(keepends=True)},
            {"cell_type": "code", "execution_count": None, "metadata": {"id": "y", "cellView": "form"}, "source": [], "outputs": [
                {"output_type": "display_data", "data": {"text/html": [f"<div><b>{after}</b></div>"]}, "metadata": {}},
            ]},
        ],
        colab={"provenance": []}, kernelspec={"name": "python3", "display_name": "Python 3"}, language_info={"name": "python"},
    )  # fmt: skip


@register_producer(".ipynb", "VS Code")
def _() -> bytes:
    before, after = split_notebook()
    return make_notebook([
        {"cell_type": "markdown", "metadata": {}, "source": before},
        {"cell_type": "code", "metadata": {"vscode": {"languageId": "sql"}}, "source": "", "outputs": [{"output_type": "stream", "name": "stdout", "text": after.replace(" ", "\x1b[0m \x1b[32m")}]},
    ])  # fmt: skip


@register_producer(".ipynb", "Databricks")
def _() -> bytes:
    before, after = split_notebook()
    return b"\xef\xbb\xbf" + make_notebook([
        {"cell_type": "markdown", "metadata": {"application/vnd.databricks.v1+cell": {"title": ""}}, "source": [before]},
        {"cell_type": "raw", "metadata": {}, "source": [after]},
    ], **{"application/vnd.databricks.v1+notebook": {"language": "python"}})  # fmt: skip


@register_producer(".ipynb", "Jupytext", "jupytext")
def _() -> bytes:
    import jupytext

    return jupytext.writes(jupytext.reads(make_markdown(), "md"), "ipynb").encode()


# --- rst and AsciiDoc ------------------------------------------------------------------------------------------------


def make_rst(line: str = "=", over: bool = False, table: str = "simple") -> str:
    """Return the text in reStructuredText; a character underlines, and optionally overlines, the headings."""

    def format_heading(title: str, mark: str) -> str:
        rule = mark * len(title)
        return f"{rule}\n{title}\n{rule}\n" if over else f"{title}\n{rule}\n"

    items = "\n".join(f"* {item}" for item in ITEMS)
    widths = [max(len(row[column]) for row in TABLE) for column in range(3)]
    if table == "simple":
        rule = "  ".join("=" * width for width in widths)
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in TABLE]
        content = "\n".join([rule, lines[0], rule, *lines[1:], rule])
    elif table == "grid":
        rule = "+" + "+".join("-" * (width + 2) for width in widths) + "+"
        lines = [
            "|" + "|".join(f" {cell.ljust(width)} " for cell, width in zip(row, widths, strict=True)) + "|"
            for row in TABLE
        ]
        content = "\n".join([rule, *(each for row in lines for each in (row, rule))])
    elif table == "csv":
        content = ".. csv-table::\n   :header-rows: 1\n\n" + "\n".join(
            "   " + ", ".join(f'"{cell}"' for cell in row) for row in TABLE
        )
    else:
        content = ".. list-table::\n   :header-rows: 1\n\n" + "\n".join(
            "\n".join(f"   {'* -' if n == 0 else '  -'} {cell}" for n, cell in enumerate(row)) for row in TABLE
        )
    return f"{format_heading(TITLE, line)}\n{wrap_lines(FIRST)}\n\n{wrap_lines(SECOND)}\n\n{format_heading(INNER, '-')}\n{items}\n\n{content}\n\n{wrap_lines(LAST)}\n"


@register_producer(".rst", "Docutils")
def _() -> bytes:
    return make_rst().encode()


@register_producer(".rst", "Sphinx")
def _() -> bytes:
    # Directives around the text, roles, substitutions, labels, comments, a table by a list.
    text = (
        make_rst("#", True, "list")
        .replace("Halcyon", ":ref:`Halcyon <x-ref>`")
        .replace("cutter Marigold", "cutter |m|")
    )
    return f".. _x-ref:\n\n.. |m| replace:: Marigold\n\n{text}\n.. toctree::\n   :maxdepth: 2\n\n   a\n   b\n\n.. a comment\n   of two lines\n".encode()


@register_producer(".rst", "the Linux kernel")
def _() -> bytes:
    return (".. SPDX-License-Identifier: GPL-2.0\n\n" + make_rst("=", True, "grid")).encode()


@register_producer(".rst", "a README of PyPI")
def _() -> bytes:
    return (
        (
            make_rst("~", False, "csv").replace("Elias Thornbury", "`Elias Thornbury <https://x.org>`_")
            + "\n.. image:: https://x.org/badge.svg\n   :target: https://x.org\n"
        )
        .replace("\n", "\r\n")
        .encode()
    )


@register_producer(".rst", "Nikola")
def _() -> bytes:
    return (
        ".. title: x\n.. slug: y\n.. date: 2024-03-01\n\n"
        + make_rst("=", False, "grid").replace("the efficient cutter Marigold", "the **efficient** cutter *Marigold*")
    ).encode()


# --- manual pages ----------------------------------------------------------------------------------------------------


def escape_roff(text: str, dash: str = r"\-") -> str:
    """Return a text with the special characters of roff escaped."""
    text = text.replace("\\", r"\e").replace("-", dash)
    return "\n".join((r"\&" if line[:1] in "'." else "") + line for line in wrap_lines(text).split("\n"))


def make_manual_page(head: str, item: Callable[[str], str], paragraph: str = ".PP", section: str = ".SH") -> str:
    """Return the text with the macros of man."""
    name = (
        head
        + f'{section} {TITLE}\n{paragraph}\n{escape_roff(FIRST)}\n{paragraph}\n{escape_roff(SECOND)}\n{section} "{INNER}"\n'
    )
    rows = "\n".join("\t".join(row) for row in TABLE)
    table = f".TS\nallbox tab(\t);\nlB lB lB\nl l l.\n{rows}\n.TE\n"
    return name + "".join(map(item, ITEMS)) + table + f"{paragraph}\n{escape_roff(LAST)}\n"


@register_producer(".man", "an editor")
def _() -> bytes:
    page = make_manual_page(
        '.TH LIGHTS 7 2024-03-01 "Portland" "Of the harbour"\n', lambda item: f".IP \\(bu 2\n{item}\n"
    )
    page = page.replace("Elias Thornbury", "\n.B Elias Thornbury\n").replace("\n, wrote", "\n\\&, wrote")
    return page.replace("”", r"\(rq").replace("“", r"\*(lq").encode()


@register_producer(".man", "DocBook XSL")
def _() -> bytes:
    # Terms and items are set in, and drawn differently by nroff and troff; definitions depend on the formatter.
    head = (
        '\'\\" t\n.\\"     Title: lights\n.TH "LIGHTS" "7" "03/01/2024" "x" "y"\n.ie \\n(.g .ds Aq \\(aq\n.el       .ds Aq \'\n'
        ".nh\n.ad l\n"
    )
    item = ".sp\n.RS 4\n.ie n \\{\\\n\\h'-04'\\(bu\\h'+03'\\c\n.\\}\n.el \\{\\\n.sp -1\n.IP \\(bu 2.3\n.\\}\n%s\n.RE\n"
    return make_manual_page(head, lambda text: item % text).encode()


@register_producer(".man", "Pod::Man")
def _() -> bytes:
    head = (
        '.de Sp \\" Vertical space\n.if t .sp .5v\n.if n .sp\n..\n.de Vb\n.ft CW\n.nf\n.ne \\\\$1\n..\n.tr \\(*W-\n'
        ".ds C+ C\\v'-.1v'\\h'-1p'\\s-2+\\h'-1p'+\\s0\\v'.1v'\\h'-1p'\n.ie n \\{\\\n.    ds -- \\(*W-\n.    ds L\" \"\"\n'br\\}\n.el\\{\\\n"
        ".    ds -- \\|\\(em\\|\n'br\\}\n.if !\\nF .nr F 0\n.if \\nF>0 \\{\\\n.    de IX\n.    tm Index:\\\\$1\n..\n.\\}\n"
        '.IX Title "LIGHTS 7"\n.TH LIGHTS 7 "2024-03-01" "perl v5.36.0" "User Contributed"\n'
    )
    return make_manual_page(head, lambda item: f'.IP "\\(bu" 4\n{item}\n.IX Item "x"\n', "", ".SH").encode()


@register_producer(".man", "mandoc")
def _() -> bytes:
    items = "".join(f".It\n{item}\n" for item in ITEMS)
    rows = "".join(
        f".It {row[0].replace(' ', chr(92) + ' ')} Ta {row[1]} Ta {row[2].replace(' ', chr(92) + ' ')}\n"
        for row in TABLE
    )
    first = escape_roff(FIRST, "-").replace("“Nobody,” he wrote, “who", ".Dq Nobody,\nhe wrote,\n“who")
    first = "\n".join(
        line
        for part in first.split(" .Dq")
        for line in ((".Dq" + part) if part[0] == " " and "Nobody" in part[:9] else part,)
    )
    return (
        f'.\\" $Id$\n.Dd $Mdocdate: March 1 2024 $\n.Dt LIGHTS 7\n.Os\n.Sh {TITLE}\n{first}\n.Pp\n{escape_roff(SECOND, "-")}\n'
        f".Ss {INNER}\n.Bl -bullet -compact\n{items}.El\n.Bl -column Station Height Keeper\n{rows}.El\n.Pp\n{escape_roff(LAST, '-')}\n"
    ).encode()


@register_producer(".man", "a program of 1993")
def _() -> bytes:
    # In Latin-1 as far as that goes, macros of its own, lines of the middle of sentences in other fonts.
    head = ".de Nm\n.IR \\\\$1 \\\\$2\n..\n.TH lights 7\n.SH NAME\nlights \\- of Portland\n"
    page = make_manual_page(head, lambda item: f".TP\n\\(bu\n{item}\n", ".LP")
    page = (
        page.replace("ü", r"\[:u]")
        .replace("Ü", r"\[u00DC]")
        .replace("é", r"\['e]")
        .replace("Marigold", "\n.Nm Marigold\n")
    )
    return (
        page.replace("harbour", "har\\%bour\\").replace("harbour\\\n", "harbour\n").replace("bour\\", "bour").encode()
    )


@register_producer(".man", "docutils", needs="docutils")
def _() -> bytes:
    from docutils.core import publish_string

    written = publish_string(make_rst("=", False, "simple"), writer="manpage", settings_overrides={"report_level": 5})
    return bytes(written)


# --- XML -------------------------------------------------------------------------------------------------------------


def make_xml_body(p: str, items: str, item: str, row: str, cell: str, around: str = "{}") -> tuple[str, str]:
    """Return the text before and after its inner heading, with the element names of a vocabulary."""
    list_items = "".join(f"<{item}><{p}>{each}</{p}></{item}>" for each in ITEMS)
    rows = "".join(f"<{row}>" + "".join(f"<{cell}>{each}</{cell}>" for each in cells) + f"</{row}>" for cells in TABLE)
    first_part = f"<{p}>{escape(FIRST)}</{p}><{p}>{escape(SECOND)}</{p}>"
    return first_part, f"<{items}>{list_items}</{items}>{around.format(rows)}<{p}>{escape(LAST)}</{p}>"


@register_producer(".xml", "DocBook 5 of oXygen")
def _() -> bytes:
    table = '<informaltable><tgroup cols="3"><colspec colname="a"/><tbody>{}</tbody></tgroup></informaltable>'
    before, behind = make_xml_body("para", "itemizedlist", "listitem", "row", "entry", table)
    before = before.replace("Elias Thornbury", "<personname>Elias Thornbury</personname>").replace(
        "Halcyon", "<emphasis>Halcyon</emphasis>"
    )
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n<?xml-model href="docbook.rng"?>\n<article xmlns="http://docbook.org/ns/docbook" '
        f'xmlns:xlink="http://www.w3.org/1999/xlink" version="5.0">\n<info><title>{TITLE}</title></info>\n{before}\n'
        f"<section><title>{INNER}</title>{behind}</section></article>"
    ).encode()


@register_producer(".xml", "DocBook 4 by hand")
def _() -> bytes:
    # Entities of its own and of a document type that lies elsewhere, lines that are wrapped, footnotes, terms of an index.
    table = '<table frame="all"><title></title><tgroup cols="3"><thead>{}</thead><tbody></tbody></tgroup></table>'
    before, behind = make_xml_body("para", "itemizedlist", "listitem", "row", "entry", table)
    before = before.replace("Halcyon", "&boat;<indexterm><primary>gone</primary></indexterm>").replace(
        "café", "caf&eacute;"
    )
    text = (
        '<!DOCTYPE book PUBLIC "-//OASIS//DTD DocBook XML V4.5//EN" "http://www.oasis-open.org/docbook.dtd" [\n'
        '<!ENTITY boat "<emphasis>Halcyon</emphasis>">\n]>\n'
        f"<book><bookinfo><title>{TITLE}</title></bookinfo><chapter>{before}<sect1><title>{INNER}</title>{behind}</sect1></chapter></book>"
    )
    return ('<?xml version="1.0" encoding="iso-8859-1"?>\n' + text.replace("</para>", "\n  </para>\n")).encode(
        "latin-1", "xmlcharrefreplace"
    )


@register_producer(".xml", "JATS of a publisher")
def _() -> bytes:
    table = "<table-wrap><table><tbody>{}</tbody></table></table-wrap>"
    before, behind = make_xml_body("p", "list", "list-item", "tr", "td", table)
    return (
        '<!DOCTYPE article PUBLIC "-//NLM//DTD JATS (Z39.96) Journal Publishing DTD v1.2 20190208//EN" "JATS-journalpublishing1.dtd">\n'
        "<article><front><journal-meta><journal-id>x</journal-id></journal-meta><article-meta><title-group><article-title>"
        f"{TITLE}</article-title></title-group><contrib-group><contrib><name><surname>Lee</surname><given-names>Ann</given-names></name>"
        f"</contrib></contrib-group></article-meta></front><body>{before}<sec><title>{INNER}</title>{behind}</sec></body></article>"
    ).encode("utf-16")


@register_producer(".xml", "TEI of an edition")
def _() -> bytes:
    before, behind = make_xml_body("p", "list", "item", "row", "cell", "<table>{}</table>")
    before = before.replace("Portland was", "<placeName>Portland</placeName> was").replace(" by. ", " by.<lb/> ")
    return (
        '<TEI xmlns="http://www.tei-c.org/ns/1.0"><teiHeader><fileDesc><titleStmt><title>x</title><author>Ann Lee</author></titleStmt>'
        f"</fileDesc></teiHeader><text><body><div><head>{TITLE}</head>{before}<div><head>{INNER}</head>{behind}</div></div></body></text></TEI>"
    ).encode()


@register_producer(".xml", "DITA")
def _() -> bytes:
    before, behind = make_xml_body("p", "ul", "li", "strow", "stentry", "<simpletable>{}</simpletable>")
    return (
        '<?xml version="1.0"?><!DOCTYPE topic PUBLIC "-//OASIS//DTD DITA Topic//EN" "topic.dtd"><topic id="x">'
        f"<title>{TITLE}</title><body>{before}<section><title>{INNER}</title>{behind}</section></body></topic>"
    ).encode()


@register_producer(".xml", "FictionBook")
def _() -> bytes:
    before, behind = make_xml_body("p", "x", "y", "tr", "td", "<table>{}</table>")
    return (
        '<?xml version="1.0" encoding="utf-8"?><FictionBook xmlns="http://www.gribuser.ru/xml/fictionbook/2.0"><body>'
        f"<title><p>{TITLE}</p></title><section>{before}<section><title><p>{INNER}</p></title>{behind}</section></section></body></FictionBook>"
    ).encode()


@register_producer(".xml", "docutils", needs="docutils")
def _() -> bytes:
    from docutils.core import publish_string

    return bytes(publish_string(make_rst("=", False, "simple"), writer="xml", settings_overrides={"report_level": 5}))


# --- LaTeX -----------------------------------------------------------------------------------------------------------


def to_latex(text: str) -> str:
    """Return a text with the special characters of LaTeX escaped."""
    return wrap_lines(
        re.sub(r"([&%$#_{}])", r"\\\1", text)
        .replace("“", "``")
        .replace("”", "''")
        .replace("’", "'")
        .replace("—", "---")
    )


def make_latex_article(
    head: str, heading: str = "section", inner: str = "subsection", table: str = "tabular", rule: str = r"\hline"
) -> str:
    """Return the text as the body of an article after its head."""
    items = "".join(f"  \\item {item}\n" for item in ITEMS)
    rows = "".join(" & ".join(row) + f" \\\\ {rule}\n" for row in TABLE)
    title = f"\\{heading}{{{TITLE}}}\n\n" if heading else ""
    return (
        f"{head}\\begin{{document}}\n{title}{to_latex(FIRST)}\n\n{to_latex(SECOND)}\n\n\\{inner}{{{INNER}}}\\label{{sec:lamp}}\n"
        f"\\begin{{itemize}}\n{items}\\end{{itemize}}\n\\begin{{{table}}}{{lrl}}\n{rule}\n{rows}\\end{{{table}}}\n\n{to_latex(LAST)}\n\\end{{document}}\n"
    )


@register_producer(".tex", "an editor")
def _() -> bytes:
    head = f"% !TeX program = xelatex\n\\documentclass[a4paper,11pt]{{article}}\n\\usepackage{{fontspec}}\n\\title{{{TITLE}}}\n\\author{{Ann Lee}}\n"
    text = make_latex_article(head, "").replace("\\begin{document}", "\\begin{document}\n\\maketitle")
    return (
        text.replace("Elias Thornbury", "\\textbf{Elias Thornbury}")
        .replace("harbour", "har\\-bour % of the town\n", 1)
        .encode()
    )


@register_producer(".tex", "pandoc")
def _() -> bytes:
    head = "\\PassOptionsToPackage{unicode}{hyperref}\n\\documentclass[]{article}\n\\providecommand{\\tightlist}{%\n  \\setlength{\\itemsep}{0pt}\\setlength{\\parskip}{0pt}}\n"
    text = make_latex_article(head, table="longtable", rule="").replace(
        "\\begin{itemize}\n", "\\begin{itemize}\n\\tightlist\n"
    )
    return (
        text.replace("\\item ", "\\item\n  ")
        .replace("{lrl}", "[]{@{}lrl@{}}\n\\toprule()\n")
        .replace("\\section{", "\\hypertarget{x}{%\n\\section{", 1)
        .replace(f"{TITLE}}}", f"{TITLE}}}\\label{{x}}}}", 1)
        .encode()
    )


@register_producer(".tex", "a journal's class")
def _() -> bytes:
    head = "\\documentclass[prl,twocolumn]{revtex4-2}\n\\usepackage[latin1]{inputenc}\n\\newcommand{\\ship}[1]{\\emph{#1}}\n\\newcommand\\town{Portland}\n"
    text = (
        make_latex_article(head, rule="\\colrule")
        .replace("Halcyon", "\\ship{Halcyon}")
        .replace("lighthouse of Portland", "lighthouse of \\town{}")
    )
    for letter, written in (
        ("Ü", '\\"U'),
        ("ü", '{\\"u}'),
        ("ö", '\\"{o}'),
        ("ï", '\\"{\\i}'),
        ("é", "\\'e"),
        ("ó", "\\'{o}"),
        ("Ž", "\\v{Z}"),
        ("ß", "{\\ss}"),
    ):
        text = text.replace(letter, written)
    return text.encode("utf-8")


@register_producer(".tex", "a thesis in chapters")
def _() -> bytes:
    text = make_latex_article("\\documentclass{scrbook}\n", "chapter", "section*", "tabularx", r"\midrule").replace(
        "{lrl}", "{\\textwidth}{lrl}"
    )
    return (
        text.replace("ship that came by.", "ship that came by.\\index{ships}\\label{p} ").replace("\n", "\r\n").encode()
    )


@register_producer(".tex", "slides of beamer")
def _() -> bytes:
    text = make_latex_article("\\documentclass{beamer}\n\\usetheme{Madrid}\n", "frametitle", "frametitle")
    text = text.replace("\\begin{document}", "\\begin{document}\\begin{frame}").replace(
        "\\end{document}", "\\end{frame}\\end{document}"
    )
    return (
        text.replace("\\item ", "\\item<1-> ")
        .replace("\\frametitle{" + INNER, "\\end{frame}\n\\begin{frame}[fragile]\\frametitle{" + INNER)
        .encode()
    )


@register_producer(".tex", "docutils", needs="docutils")
def _() -> bytes:
    from docutils.core import publish_string

    return bytes(publish_string(make_rst("=", False, "simple"), writer="latex", settings_overrides={"report_level": 5}))


def make_asciidoc(rule: str = "|===", heading: str = "=") -> str:
    items = "\n".join(f"* {item}" for item in ITEMS)
    rows = "\n".join("|" + " |".join(row) for row in TABLE)
    titles = f"= {TITLE}", f"== {INNER}"
    if heading == "-":
        titles = f"{TITLE}\n{'=' * len(TITLE)}", f"{INNER}\n{'-' * len(INNER)}"
    return f"{titles[0]}\n\n{wrap_lines(FIRST)}\n\n{wrap_lines(SECOND)}\n\n{titles[1]}\n\n{items}\n\n{rule}\n{rows}\n{rule}\n\n{wrap_lines(LAST)}\n"


@register_producer(".adoc", "Asciidoctor")
def _() -> bytes:
    return make_asciidoc().encode()


@register_producer(".adoc", "Antora")
def _() -> bytes:
    return (
        "////\nlicence\n////\n"
        + make_asciidoc()
        .replace(f"= {TITLE}\n", f"= {TITLE}\n:page-layout: home\n:navtitle: x\n:boat: Halcyon\n", 1)
        .replace("brig Halcyon", "brig {boat}")
        .replace("Weymouth", "xref:towns:weymouth.adoc[Weymouth]")
    ).encode()


@register_producer(".adoc", "AsciiDoc of 2004")
def _() -> bytes:
    return make_asciidoc("|======", "-").replace("Elias Thornbury", "'Elias Thornbury'").encode()


@register_producer(".adoc", "a README of GitHub")
def _() -> bytes:
    return (
        (
            "ifdef::env-github[]\n:tip-caption: x\nendif::[]\n"
            + make_asciidoc()
            .replace("Margaret Ashe", "*Margaret Ashe*")
            .replace("|===\n|", '[cols="1,1,2",options="header"]\n|===\n|', 1)
        )
        .replace("\n", "\r\n")
        .encode()
    )


@register_producer(".adoc", "a publisher of books")
def _() -> bytes:
    return (
        make_asciidoc()
        .replace(f"= {TITLE}\n", f"[[lights]]\n= {TITLE}\n", 1)
        .replace("Elias Thornbury", "((Elias Thornbury))")
        .replace(f"\n{ITEMS[0]}", f"\n[role=x]\n{ITEMS[0]}")
        .encode()
    )


def make_org(todo: str = "", emphasis: str = "Elias Thornbury", rule: str = "|---+---+---|") -> str:
    items = "\n".join(f"- {item}" for item in ITEMS)
    rows = [f"| {' | '.join(row)} |" for row in TABLE]
    first = wrap_lines(FIRST.replace("Elias Thornbury", emphasis))
    return f"* {todo}{TITLE}\n{first}\n\n{wrap_lines(SECOND)}\n\n** {INNER}\n{items}\n\n{rows[0]}\n{rule}\n{rows[1]}\n{rows[2]}\n\n{wrap_lines(LAST)}\n"


@register_producer(".org", "Emacs")
def _() -> bytes:
    # Drawers, plans, states, tags, comments, keywords, code that is shown, a block that is quoted.
    text = make_org("TODO [#A] ", "/Elias Thornbury/").replace(
        f"** {INNER}\n",
        f"** {INNER}      :lamp:oil:\n   DEADLINE: <2024-05-01 Wed>\n   :PROPERTIES:\n   :CUSTOM_ID: x\n   :END:\n",
    )
    return f"#+STARTUP: overview\n# a comment\n{text}\n#+BEGIN_COMMENT\nnothing\n#+END_COMMENT\n".encode()


@register_producer(".org", "Org-roam")
def _() -> bytes:
    linked = make_org("", "[[id:1b][Elias Thornbury]]")
    return f":PROPERTIES:\n:ID: 0b\n:END:\n#+title: x\n#+filetags: :a:b:\n{linked}".encode()


@register_producer(".org", "Pandoc")
def _() -> bytes:
    text = make_org(rule="|-------------+--------+---------------|").replace("* The", "* The", 1)
    return text.replace(f"** {INNER}\n", f"** {INNER}\n:PROPERTIES:\n:CUSTOM_ID: how\n:END:\n").encode()


@register_producer(".org", "Logseq")
def _() -> bytes:
    # Windows line ends, everything indented below its heading.
    return make_org().replace("\n", "\r\n").replace("\r\n- ", "\r\n  - ").encode()


@register_producer(".org", "Orgzly")
def _() -> bytes:
    return (
        b"\xef\xbb\xbf"
        + make_org("DONE ")
        .replace(f"{TITLE}\n", f"{TITLE}\nCLOSED: [2024-03-01 Fri 10:00] SCHEDULED: <2024-02-01 Thu>\n")
        .encode()
    )


def make_cues(head: str, time: Callable[[int], str], line: Callable[[str], str] = escape, number: bool = True) -> str:
    """Return the text in cues of four seconds and at most 40 letters."""
    lines = [line_of_text for text in SHOWN for line_of_text in wrap_lines(text, 40).split("\n")]
    content = head
    for place in range(0, len(lines), 2):
        count = f"{place // 2 + 1}\n" if number else ""
        text_lines = "\n".join(map(line, lines[place : place + 2]))
        content += f"{count}{time(4 * place)} --> {time(4 * place + 7)}\n{text_lines}\n\n"
    return content


def make_clock(comma: str, hours: bool = True) -> Callable[[int], str]:
    return lambda seconds: f"{'00:' if hours else ''}{seconds // 60:02}:{seconds % 60:02}{comma}000"


@register_producer(".srt", "SubRip")
def _() -> bytes:
    return b"\xef\xbb\xbf" + make_cues("", make_clock(","), str).replace("\n", "\r\n").encode()


@register_producer(".srt", "Aegisub")
def _() -> bytes:
    return make_cues("", make_clock(","), lambda text: f"{{\\an8}}<i>{text}</i>").encode()


@register_producer(".srt", "Whisper")
def _() -> bytes:
    return make_cues("", make_clock(","), lambda text: f" {text}").encode()


@register_producer(".srt", "DaVinci Resolve")
def _() -> bytes:
    return (
        make_cues("", make_clock(","), lambda text: f'<font color="#ffffff">{escape(text)}</font>')
        .replace("\n\n", "\n\n\n")
        .encode()
    )


@register_producer(".srt", "a broadcaster")
def _() -> bytes:
    return make_cues("", make_clock(","), str).encode("utf-16")


@register_producer(".vtt", "YouTube")
def _() -> bytes:
    # Each line comes twice: while it is spoken, word by word, and above the next one.
    lines = [each for text in SHOWN for each in wrap_lines(text, 40).split("\n")]
    shown = "WEBVTT\nKind: captions\nLanguage: en\n\n"
    for place, (above, line) in enumerate(zip(["", *lines], lines, strict=False)):
        begin, end = make_clock(".")(3 * place), make_clock(".")(3 * place + 3)
        words = escape(line).replace(" ", f"<{begin}><c> ") + "</c>"
        shown += f"{begin} --> {end} align:start position:0%\n{escape(above)}\n{words}\n\n".replace(
            "\n\n\n", "\n \n", 1
        )
    return shown.replace("align:start position:0%\n\n", "align:start position:0%\n \n").encode()


@register_producer(".vtt", "Zoom")
def _() -> bytes:
    return (
        make_cues("WEBVTT\n\n", make_clock("."), lambda text: escape(text).replace("Margaret", "Margaret"))
        .replace("\n", "\r\n")
        .encode()
    )


@register_producer(".vtt", "Teams")
def _() -> bytes:
    # A voice a cue, identifiers as long as keys.
    return make_cues("WEBVTT\n\n", make_clock("."), lambda text: f"<v Elias Thornbury>{escape(text)}</v>").encode()


@register_producer(".vtt", "Vimeo")
def _() -> bytes:
    head = "WEBVTT - x\n\nSTYLE\n::cue { color: lime }\n\nNOTE made by\na program\n\nREGION\nid:a\n\n"
    return make_cues(head, make_clock(".", False), lambda text: f"<c.yellow>{escape(text)}</c>", False).encode()


@register_producer(".vtt", "FFmpeg")
def _() -> bytes:
    return make_cues("WEBVTT\n\n", make_clock(".", False), lambda text: f"<b>{escape(text)}</b>&nbsp;", False).encode()


# --- archives --------------------------------------------------------------------------------------------------------


@register_producer(".md.gz", "gzip")
def _() -> bytes:
    return gzip.compress(make_markdown().encode())


@register_producer(".md.gz", "gzip with a name and a comment")
def _() -> bytes:
    data = make_markdown().encode()
    deflated = zlib.compressobj(9, zlib.DEFLATED, -15)
    return (
        b"\x1f\x8b\x08\x1c"
        + bytes(4)
        + b"\x02\x03"
        + struct.pack("<H", 4)
        + b"extr"
        + b"other name.txt\0"
        + b"comment\0"
        + deflated.compress(data)
        + deflated.flush()
        + struct.pack("<II", zlib.crc32(data), len(data))
    )


@register_producer(".md.gz", "bgzip, in members")
def _() -> bytes:
    data = make_markdown().encode()
    return b"".join(gzip.compress(data[n : n + 100]) for n in range(0, len(data), 100)) + gzip.compress(b"")


@register_producer(".md.gz", "a device that stores")
def _() -> bytes:
    return gzip.compress(make_markdown().encode(), 0)


@register_producer(".md.gz", "tape, padded with zeros")
def _() -> bytes:
    return gzip.compress(make_markdown().encode()) + bytes(512)


@register_producer(".zip", "zip")
def _() -> bytes:
    return pack_zip({"docs/": b"", "docs/a.md": make_markdown(), "docs/.DS_Store": b"x"})


@register_producer(".zip", "Windows Explorer")
def _() -> bytes:
    return pack_zip({"docs\\a.md": make_markdown(), "desktop.ini": b"x"})


@register_producer(".zip", "macOS")
def _() -> bytes:
    # Written to a stream: sizes follow the data, and each file has a resource fork.
    class Pipe(io.RawIOBase):
        def __init__(self) -> None:
            self.data = bytearray()

        def writable(self) -> bool:
            return True

        def write(self, data: bytes) -> int:  # type: ignore[override]
            self.data += data
            return len(data)

    pipe = Pipe()
    with zipfile.ZipFile(pipe, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("docs/a.md", make_markdown())
        archive.writestr("__MACOSX/docs/._a.md", b"\0\x05\x16\x07")
    return bytes(pipe.data)


@register_producer(".zip", "7-Zip")
def _() -> bytes:
    return pack_zip({"a.md": make_markdown()}, zipfile.ZIP_LZMA)


@register_producer(".zip", "a self-extracting archive")
def _() -> bytes:
    return b"MZ" + bytes(1000) + pack_zip({"a.md": make_markdown()}, zipfile.ZIP_BZIP2)


def pack_tar(parts: Mapping[str, str | bytes], kind: int = tarfile.GNU_FORMAT, **more: object) -> bytes:
    """Make a tar archive of parts; a name that ends with ``/`` is a folder."""
    stream = io.BytesIO()
    with tarfile.TarFile(fileobj=stream, mode="w", format=kind, **more) as archive:
        for name, content in parts.items():
            data = content.encode() if isinstance(content, str) else content
            member = tarfile.TarInfo(name)
            member.size, member.type = len(data), tarfile.DIRTYPE if name.endswith("/") else tarfile.REGTYPE
            archive.addfile(member, io.BytesIO(data))
    return stream.getvalue()


@register_producer(".tar", "GNU tar")
def _() -> bytes:
    # Paths from the folder it stood in, one too long for its field.
    return pack_tar({"./": b"", "./docs/": b"", f"./{'long-' * 30}/a.md": make_markdown()})


@register_producer(".tar", "bsdtar on macOS")
def _() -> bytes:
    return pack_tar({"docs/._a.md": b"\0\x05\x16\x07", "docs/ä.md": make_markdown()}, tarfile.PAX_FORMAT)


@register_producer(".tar", "git archive")
def _() -> bytes:
    return pack_tar(
        {"x-1.0/": b"", "x-1.0/a.md": make_markdown()}, tarfile.PAX_FORMAT, pax_headers={"comment": "0" * 40}
    )


@register_producer(".tar", "a tape of 1979")
def _() -> bytes:
    # No magic, a regular file of the kind NUL, blocks of zeros at the end.
    data = bytearray(pack_tar({"a.md": make_markdown()}, tarfile.USTAR_FORMAT))
    data[156] = 0
    data[257:265] = bytes(8)
    data[148:156] = b"%06o\0 " % (sum(data[:148]) + 8 * 32 + sum(data[156:512]))
    return bytes(data) + bytes(10240)


@register_producer(".tar", "7-Zip")
def _() -> bytes:
    return pack_tar({"a.md": make_markdown()}, tarfile.USTAR_FORMAT).rstrip(b"\0") + bytes(1024)


# --- PDF -------------------------------------------------------------------------------------------------------------


@register_producer(".pdf", "ReportLab", "reportlab")
def _() -> bytes:
    from reportlab.lib.styles import getSampleStyleSheet
    from reportlab.platypus import Paragraph, SimpleDocTemplate, Table

    styles = getSampleStyleSheet()
    story = [
        Paragraph(TITLE, styles["Heading1"]), Paragraph(escape(FIRST), styles["BodyText"]), Paragraph(escape(to_latin(SECOND)), styles["BodyText"]),
        Paragraph(INNER, styles["Heading2"]), *(Paragraph(item, styles["Bullet"], bulletText="•") for item in ITEMS), Table([list(row) for row in TABLE]), Paragraph(LAST, styles["BodyText"]),
    ]  # fmt: skip
    return save_to_bytes(lambda stream: SimpleDocTemplate(stream).build(story))


def to_latin(text: str) -> str:
    """Return the text with characters missing from the standard fonts of PDF replaced."""
    return text.translate(LATIN)


LATIN = {ord("東"): "T", ord("京"): "o", ord("ž"): "z", ord("Ž"): "Z", **{ord(char): "x" for char in "ΕλένηПётр"}}


def list_latin_words() -> str:
    return to_latin(WORDS)


@register_producer(".pdf", "Typst", "typst")
def _() -> bytes:
    import typst

    return typst.compile(make_typst_source().encode())


#: What stands before and behind the text on each of several pages, so that none is as another.
PARTS = ("Spring", "Summer", "Autumn", "Winter")


def make_typst_source(columns: int = 1, pages: int = 1, head: str = "") -> str:
    def e(text: str) -> str:
        return "".join("\\" + char if char in "#*_<>@$`\\[]=" else char for char in text)

    items = "\n".join(f"- {item}" for item in ITEMS)
    cells = ", ".join(f"[{cell}]" for row in TABLE for cell in row)
    bodies = [
        f"= {part} {TITLE}\n{e(FIRST)}\n\n{e(to_latin(SECOND))}\n\n== {INNER}\n{items}\n\n#table(columns: 3, {cells})\n\n{LAST} {part}\n\n"
        for part in (PARTS[:pages] if pages > 1 else ("",))
    ]
    return (
        f"#set page(columns: {columns}, header: [{head}], numbering: {chr(34) + '1' + chr(34) if head else 'none'})\n#set par(justify: true)\n"
        + "#pagebreak()\n".join(bodies)
    )


@register_producer(".pdf", "WeasyPrint", "weasyprint")
def _() -> bytes:
    import weasyprint

    return weasyprint.HTML(
        string=f"<html lang=en><body style='text-align: justify; hyphens: auto'>{to_latin(make_html_body())}</body></html>"
    ).write_pdf()


@register_producer(".pdf", "Skia", "skia")
def _() -> bytes:
    import skia

    stream = skia.DynamicMemoryWStream()
    with skia.PDF.MakeDocument(stream) as document, document.page(595, 842) as canvas:
        font, y = skia.Font(skia.Typeface("DejaVu Sans"), 10), 50
        for text in (TITLE, FIRST, to_latin(SECOND), INNER, *ITEMS):
            for line in wrap_lines(text, 80).split("\n"):
                canvas.drawString(line, 50, y, font, skia.Paint())
                y += 13
            y += 13
        for row in TABLE:
            for column, cell in enumerate(row):
                canvas.drawString(cell, 50 + 150 * column, y, font, skia.Paint())
            y += 13
        y += 13
        for line in wrap_lines(LAST, 80).split("\n"):
            canvas.drawString(line, 50, y, font, skia.Paint())
            y += 13
    return bytes(stream.detachAsData())


@register_producer(".pdf", "matplotlib", "matplotlib")
def _() -> bytes:
    import matplotlib

    matplotlib.use("pdf")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 11))
    rows = ["          ".join(row) for row in TABLE]
    text = "\n\n".join(
        [
            TITLE,
            *(wrap_lines(each, 80) for each in (FIRST, to_latin(SECOND))),
            INNER,
            "\n".join(ITEMS),
            "\n".join(rows),
            wrap_lines(LAST, 80),
        ]
    )
    figure.text(0.05, 0.95, text.replace("$", r"\$"), va="top", size=9)
    return save_to_bytes(lambda stream: figure.savefig(stream, format="pdf"))


# --- calendars, address cards, bibliographies -------------------------------------------------------------------------

SAID = "\n".join(SHOWN[1:])


def escape_content_value(text: str) -> str:
    """Return a value of a content line with its escapes."""
    return text.replace("\\", "\\\\").replace(";", "\\;").replace(",", "\\,").replace("\n", "\\n")


def fold_lines(lines: list[str], width: int = 75, mark: bytes = b"\r\n ", whole_characters: bool = True) -> bytes:
    """Fold content lines to ``width`` bytes; without ``whole_characters``, a fold can divide a character of several bytes."""
    written = b""
    for line in lines:
        data = line.encode()
        while len(data) > width:
            at = width
            while whole_characters and data[at] & 0xC0 == 0x80:
                at -= 1
            written, data = written + data[:at] + mark, data[at:]
        written += data + b"\r\n"
    return written


def make_calendar(*lines: str, product: str) -> list[str]:
    return [
        "BEGIN:VCALENDAR", f"PRODID:{product}", "VERSION:2.0", "BEGIN:VTIMEZONE", "TZID:Europe/London",
        "BEGIN:STANDARD", "DTSTART:19701025T020000", "TZOFFSETFROM:+0100", "TZOFFSETTO:+0000", "TZNAME:GMT",
        "END:STANDARD", "END:VTIMEZONE", "BEGIN:VEVENT", f"UID:{product}", *lines, "BEGIN:VALARM",
        "ACTION:DISPLAY", "TRIGGER:-PT10M", "END:VALARM", "END:VEVENT", "END:VCALENDAR",
    ]  # fmt: skip


@register_producer(".ics", "Google Calendar")
def _() -> bytes:
    lines = [
        f"DESCRIPTION:{escape_content_value(SAID)}",
        "DTSTART:20240301T100000Z",
        f"SUMMARY:{TITLE}",
        "TRANSP:OPAQUE",
    ]
    return fold_lines(make_calendar(*lines, product="-//Google Inc//Google Calendar 70.9054//EN"))


@register_producer(".ics", "Outlook")
def _() -> bytes:
    lines = [
        "CLASS:PUBLIC", "DTSTART;TZID=Europe/London:20240301T100000", f"SUMMARY;LANGUAGE=en-gb:{TITLE}",
        'ORGANIZER;CN="Ashe, Margaret":mailto:m@example.org', f"DESCRIPTION:{escape_content_value(SAID)}\\n",
        f"X-ALT-DESC;FMTTYPE=text/html:<html><body><p>{escape_content_value(escape(SAID))}</p></body></html>",
    ]  # fmt: skip
    return fold_lines(
        make_calendar(*lines, product="-//Microsoft Corporation//Outlook 16.0 MIMEDIR//EN"), mark=b"\r\n\t"
    )


@register_producer(".ics", "Apple Calendar")
def _() -> bytes:
    lines = [
        "DTSTART;VALUE=DATE:20240301",
        "DURATION:P1D",
        f"SUMMARY:{TITLE}",
        f"DESCRIPTION:{escape_content_value(SAID)}",
    ]
    return fold_lines(make_calendar(*lines, product="-//Apple Inc.//macOS 14.3//EN"), 70)


@register_producer(".ics", "Thunderbird")
def _() -> bytes:
    markup = "<br>".join(escape(SAID).split("\n"))
    lines = ["DTSTART:20240301T100000Z", f"SUMMARY:{TITLE}", f"DESCRIPTION:{escape_content_value(f'<p>{markup}</p>')}"]
    return fold_lines(make_calendar(*lines, product="-//Mozilla.org/NONSGML Mozilla Calendar V1.1//EN")).replace(
        b"\r\n", b"\n"
    )


@register_producer(".ics", "an old script")
def _() -> bytes:
    lines = ["DTSTART:20240301T100000Z", f"SUMMARY:{TITLE}", f"DESCRIPTION:{escape_content_value(SAID)}"]
    return fold_lines(make_calendar(*lines, product="-//x"), 61, whole_characters=False)


@register_producer(".ics", "icalendar", "icalendar")
def _() -> bytes:
    import icalendar

    event = icalendar.Event()
    for name, value in (("uid", "lights"), ("summary", TITLE), ("description", SAID)):
        event.add(name, value)
    whole = icalendar.Calendar()
    whole.add_component(event)
    return bytes(whole.to_ical())


def make_card(version: str, *lines: str) -> list[str]:
    return ["BEGIN:VCARD", f"VERSION:{version}", *lines, "END:VCARD"]


def encode_quoted_printable_line(name: str, text: str) -> str:
    """Return a line of vCard 2.1 in quoted-printable with soft line breaks."""
    lines = [quopri.encodestring(line.encode(), quotetabs=True).decode() for line in text.split("\n")]
    return f"{name};CHARSET=UTF-8;ENCODING=QUOTED-PRINTABLE:" + "=0D=0A=\n".join(lines).replace("\n", "\r\n")


@register_producer(".vcf", "Google Contacts")
def _() -> bytes:
    lines = [f"FN:{TITLE}", "N:Portland;Lights;;;", f"NOTE:{escape_content_value(SAID)}", "CATEGORIES:myContacts"]
    return fold_lines(make_card("3.0", *lines))


@register_producer(".vcf", "Apple Contacts")
def _() -> bytes:
    lines = [
        f"FN:{TITLE}", f"NOTE:{escape_content_value(SAID)}", "X-ABUID:1\\:ABPerson", "PHOTO;ENCODING=b;TYPE=JPEG:" + "QUJD" * 90
    ]  # fmt: skip
    return fold_lines(make_card("3.0", *lines))


@register_producer(".vcf", "Outlook")
def _() -> bytes:
    lines = [
        encode_quoted_printable_line("FN", TITLE),
        encode_quoted_printable_line("NOTE", SAID),
        "X-MS-OL-DEFAULT-POSTAL-ADDRESS:0",
        "REV:20240301T1Z",
    ]
    return "\r\n".join(make_card("2.1", *lines, "")).encode()


@register_producer(".vcf", "Android")
def _() -> bytes:
    lines = [
        f"FN:{TITLE}",
        encode_quoted_printable_line("NOTE", SAID),
        "PHOTO;ENCODING=BASE64;JPEG:/9j/4AAQ\n SkZJRg==\n",
    ]
    return "\n".join(make_card("2.1", *lines)).replace("\r", "").encode()


@register_producer(".vcf", "Nextcloud")
def _() -> bytes:
    lines = [f"FN:{TITLE}", f"NOTE;LANGUAGE=en:{escape_content_value(SAID)}", "UID:urn:uuid:4d0c", "KIND:group"]
    return fold_lines(make_card("4.0", *lines), whole_characters=False)


@register_producer(".vcf", "vobject", "vobject")
def _() -> bytes:
    import vobject

    made = vobject.vCard()
    for name, value in (("fn", TITLE), ("note", SAID)):
        made.add(name).value = value
    made.add("n").value = vobject.vcard.Name("", "")
    return str(made.serialize()).encode()


def escape_latex(text: str) -> str:
    """Return a text as programs write it that escape LaTeX."""
    for written, command in (("&", "\\&"), ("<", "{\\textless}"), ("“", "``"), ("”", "''"), ("—", "---"), ("%", "\\%")):
        text = text.replace(written, command)
    return text


ACCENTS = {
    "Ü": '{\\"{U}}', "ü": '{\\"u}', "ö": '{\\"{o}}', "ß": "{\\ss}", "Ž": "{\\v{Z}}", "ï": '{\\"\\i}', "é": "{\\'e}",
    "ó": "{\\'{o}}",
}  # fmt: skip


def encode_accents(text: str) -> str:
    return "".join(ACCENTS.get(letter, letter) for letter in escape_latex(text))


@register_producer(".bib", "Zotero")
def _() -> bytes:
    return (
        "\n@article{thornbury_lights_1716,\n\ttitle = {The Lights of {Portland}},\n".replace("Lights", "lights")
        + f"\tabstract = {{{escape_latex(SAID)}}},\n\tlanguage = {{en}},\n\tfile = {{PDF:/x.pdf:application/pdf}},\n}}\n"
    ).encode()


@register_producer(".bib", "Mendeley")
def _() -> bytes:
    head = "Automatically generated by Mendeley Desktop 1.19\nAny changes to this file will be lost\n\n"
    return (
        f"{head}@article{{Thornbury1716,\nabstract = {{{encode_accents(SAID)}}},\nauthor = {{Thornbury, Elias}},\n"
        f"title = {{{{{TITLE}}}}},\nyear = {{1716}}\n}}\n"
    ).encode()


@register_producer(".bib", "JabRef")
def _() -> bytes:
    return (
        f"% Encoding: UTF-8\n\n@Article{{a,\n  title    = {{{TITLE}}},\n  abstract = {{{escape_latex(SAID)}}},\n"
        "  groups   = {Lights},\n}\n\n@Comment{jabref-meta: databaseType:bibtex;}\n"
    ).encode()


@register_producer(".bib", "Google Scholar")
def _() -> bytes:
    return f"@article{{thornbury1716lights,\n  title={{{TITLE}}},\n  abstract={{{encode_accents(SAID)}}},\n  publisher={{}}\n}}\n".encode()


@register_producer(".bib", "the ACM")
def _() -> bytes:
    text = escape_latex(SAID).replace('"', "{''}")
    return (
        "@string{tods = {ACM Trans. Database Syst.}}\r\n@article(10.1145/1.2,\r\n"
        f'title = "{TITLE}",\r\nabstract = "{text}"\r\n)\r\n'
    ).encode()


@register_producer(".bib", "bibtexparser", "bibtexparser")
def _() -> bytes:
    import bibtexparser
    from bibtexparser.model import Entry, Field

    fields = [Field("title", TITLE), Field("abstract", escape_latex(SAID))]
    return str(bibtexparser.write_string(bibtexparser.Library([Entry("article", "a", fields)]))).encode()

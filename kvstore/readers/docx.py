"""DOCX: a Word document becomes Markdown, in the order of its body.

In: a ``.docx`` file, a template, or a file with macros (``.docm``), which are ignored. Out: one document of format
``markdown`` with headings, lists, tables, code, quotations, text boxes, footnotes and endnotes, and last, the texts of
page headers and footers that are nowhere else. If no paragraph has the style of a heading, short bold paragraphs become
headings. Tables of contents, deleted text and hidden text are dropped. The title is the one in the file's properties,
else the first title or level-one heading. A file that is not DOCX, is locked with a password or has no text is a
ReaderError, and so is a missing python-docx.
"""

from __future__ import annotations

import io
import posixpath
import warnings
import zipfile
from collections.abc import Iterator
from typing import BinaryIO
from xml.etree.ElementTree import tostring

from ..errors import ReaderError
from ..extensions.extras import import_extra
from .markdown_blocks import join_blocks, make_paragraph
from .packages import Package, open_main_part
from .raw_document import Origin, RawDocument, ReadOptions, clean_property_title

#: Other content types of the main part (ECMA-376 part 1, 11.3.10; MS-OFFMACRO2, 2.2).
_MAIN_PART_TYPES = (
    "application/vnd.ms-word.document.macroEnabled.main+xml",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.template.main+xml",
    "application/vnd.ms-word.template.macroEnabledTemplate.main+xml",
)


def read(stream: BinaryIO, origin: Origin, options: ReadOptions) -> Iterator[RawDocument]:
    """Convert a Word file to Markdown, and yield it as one document.

    Raises ReaderError if the file is not DOCX, is locked or has no text, or if python-docx is not installed.
    """
    purpose = f"{origin.name}: reading DOCX"
    import_extra("docx", "documents", purpose, package="python-docx", error=ReaderError)
    from docx.opc.part import PartFactory
    from docx.package import Package as WordPackage
    from docx.parts.document import DocumentPart

    from .docx_blocks import DocxBody
    from .docx_headers import list_header_texts

    package = Package(stream, origin.name, "DOCX")
    with package.convert_errors():
        stream = _drop_missing_parts(stream, package)
        stream.seek(0)
        document = open_main_part(stream, WordPackage, PartFactory, DocumentPart, _MAIN_PART_TYPES).document
        body = DocxBody(document)
        blocks = body.build_blocks()
        header_texts = list_header_texts(document)
        title = document.core_properties.title
    origin.require_content(blocks)
    title = clean_property_title(title) or body.title
    known_text = " ".join(" ".join([title or "", *(block.text for block in blocks)]).casefold().split())
    blocks += [make_paragraph(text) for text in header_texts if text.casefold() not in known_text]
    yield RawDocument(origin.key, title, join_blocks(blocks) + "\n", meta={}, format="markdown")


def _drop_missing_parts(stream: BinaryIO, package: Package) -> BinaryIO:
    """Return a copy of a Word file without the relationships whose parts are missing, or ``stream`` if none is missing.

    Word opens a file with such relationships, for example to a deleted image; python-docx refuses it. ``package`` is
    the opened file.
    """
    relations_by_part: dict[str, bytes] = {}
    for part in package.parts:
        folder, name = posixpath.split(part.filename)
        if not name.endswith(".rels"):
            continue
        tree = package.read_tree(part.filename)
        folder = posixpath.dirname(folder)  # word/_rels/document.xml.rels has the relationships of word/document.xml
        valid_relations = [
            relation
            for relation in tree
            if relation.get("TargetMode") == "External"
            or posixpath.normpath(posixpath.join("/", folder, relation.get("Target", "")))[1:] in package
        ]
        if len(valid_relations) < len(tree):
            tree[:] = valid_relations
            relations_by_part[part.filename] = tostring(tree)
    if not relations_by_part:
        return stream
    stream.seek(0)
    copy = io.BytesIO(stream.read())
    with zipfile.ZipFile(copy, "a") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the second part with the same name replaces the first
        for filename, relations in relations_by_part.items():
            archive.writestr(filename, relations)
    return copy

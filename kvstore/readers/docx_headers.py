"""The texts of the page headers and footers of a Word document.
In: a document that python-docx has opened. Out: lines of text without page numbers. A *field* is text that Word
computes, such as a page number; a *complex* field has bounds, an instruction (such as ``PAGE``) and a result.

Section numbers below (``17.10``) refer to ECMA-376 part 1.
"""

from __future__ import annotations

import re
from typing import Any

from docx.oxml.ns import nsmap, qn

from .docx_runs import (
    FALLBACK_TAG,
    PARAGRAPH_TAG,
    RUN_TAG,
    TEXT_TAG,
    VERBATIM_CHARACTERS,
    is_on,
    parse_part,
    read_properties,
)

#: Fields, whose results are text: a simple field, and the bounds and the instruction of a complex one (17.16).
_FIELD_TAG, _FIELD_BOUND_TAG, _INSTRUCTION_TAG = (qn(f"w:{name}") for name in ("fldSimple", "fldChar", "instrText"))
_PAGE_FIELD_PATTERN = re.compile(r"\s*(?:PAGE|NUMPAGES|SECTIONPAGES)\b", re.IGNORECASE)
#: The mark that replaces a page number, and the separators between the parts of a line in a header or footer.
_PAGE_NUMBER_MARK = "\ue000"
_HEADER_SEPARATOR_PATTERN = re.compile(r"[\t\n]| {2,}|\s[|·•–—-]\s|[,;]\s")


def list_header_texts(document: Any) -> list[str]:
    """Return the distinct texts of the headers, then of the footers, of the pages of the first section.

    Texts of the first page come before those of the other pages. Page numbers, and lines without letters, are omitted
    (ECMA-376, 17.10).
    """
    section = next(document.element.body.iter(qn("w:sectPr")), None)
    if section is None:
        return []
    has_first_page = section.find("w:titlePg", nsmap) is not None
    relation_ids = [
        reference.get(qn("r:id"))
        for kind in ("header", "footer")
        for page in (["first"] if has_first_page else []) + ["default"]
        for reference in section.iterfind(f"w:{kind}Reference[@w:type='{page}']", nsmap)
    ]
    relations = (document.part.rels[relation_id] for relation_id in relation_ids if relation_id in document.part.rels)
    parts = (relation.target_part for relation in relations if not relation.is_external)
    lines = [line for part in parts for line in _read_header(part)]
    return list(dict.fromkeys(line for line in lines if any(map(str.isalpha, line))))


def _read_header(part: Any) -> list[str]:
    """Return the lines of a header or footer, one for each paragraph, without page numbers.

    ``part`` is the part of the package that has the header. The words around a page number (``Page 1 of 2``) are
    omitted, too.
    """
    lines: dict[Any, str] = {}  # by the element of the paragraph
    are_page_fields: list[bool] = []  # for each open complex field, True for a page number
    for element in parse_part(part).iter():
        ancestors = list(element.iterancestors())
        paragraph = next((ancestor for ancestor in ancestors if ancestor.tag == PARAGRAPH_TAG), None)
        if paragraph is None or any(ancestor.tag == FALLBACK_TAG for ancestor in ancestors):
            continue
        if element.tag == TEXT_TAG and is_on(read_properties(element.getparent()), "vanish"):
            continue
        text = ""
        if element.tag == _FIELD_BOUND_TAG:
            bound = element.get(qn("w:fldCharType"))
            if bound == "begin":
                are_page_fields.append(False)
            elif bound == "end" and are_page_fields:
                are_page_fields.pop()
        elif element.tag == _INSTRUCTION_TAG and are_page_fields:
            are_page_fields[-1] |= _PAGE_FIELD_PATTERN.match(element.text or "") is not None
        elif element.tag == TEXT_TAG:
            is_page_number = any(are_page_fields) or any(map(_is_page_field, ancestors))
            text = _PAGE_NUMBER_MARK if is_page_number else element.text or ""
        elif element.getparent().tag == RUN_TAG:
            text = VERBATIM_CHARACTERS.get(element.tag, "")
        lines[paragraph] = lines.get(paragraph, "") + text
    return [_remove_page_number(line) for line in lines.values()]


def _is_page_field(element: Any) -> bool:
    """True if an element is a simple field with a page number."""
    return element.tag == _FIELD_TAG and _PAGE_FIELD_PATTERN.match(element.get(qn("w:instr")) or "") is not None


def _remove_page_number(line: str) -> str:
    """Return a line of a header with single spaces, without its parts between separators that have a page number."""
    if _PAGE_NUMBER_MARK in line:
        line = " ".join(part for part in _HEADER_SEPARATOR_PATTERN.split(line) if _PAGE_NUMBER_MARK not in part)
    return " ".join(line.split())

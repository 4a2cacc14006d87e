"""The text, the formatting and the links of the paragraphs in a part of a Word document.
In: XML elements of a part (the body, a header). Out: texts and properties. ``w:p`` is a paragraph, and ``w:r`` a
*run*: a stretch of text in it with the same formatting. A *wrapper* is an element around runs.

Section numbers below (``17.3.2``) refer to ECMA-376 part 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

from docx.oxml import parse_xml
from docx.oxml.ns import nsmap, qn

from .markdown_blocks import find_contact_address

PARAGRAPH_TAG, RUN_TAG, TEXT_TAG, TAB_TAG, BREAK_TAG, RETURN_TAG, HYPHEN_TAG, VALUE_ATTRIBUTE = (
    qn(f"w:{name}") for name in ("p", "r", "t", "tab", "br", "cr", "noBreakHyphen", "val")
)
#: The texts of elements that are characters.
VERBATIM_CHARACTERS = {TAB_TAG: "\t", BREAK_TAG: "\n", RETURN_TAG: "\n", HYPHEN_TAG: "-"}
#: An element that repeats a text box for older programs.
FALLBACK_TAG = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
_OFF_VALUES = ("0", "false", "off", "none")
#: Elements whose children are read in their place: content controls, insertions, links, fields, smart tags, text
#: directions (17.3.2, 17.5, 17.13, 17.16).
_WRAPPER_TAGS = frozenset(
    qn(f"w:{name}")
    for name in ("sdt", "sdtContent", "ins", "moveTo", "hyperlink", "fldSimple", "smartTag", "customXml", "bdo", "dir")
)


def iter_unwrapped(container: Any) -> Iterator[Any]:
    """Yield the child elements of ``container``; wrappers (links, insertions) are replaced by their own children."""
    for child in container:
        if child.tag in _WRAPPER_TAGS:
            yield from iter_unwrapped(child)
        elif isinstance(child.tag, str):
            yield child


def read_properties(run: Any) -> dict[str, str]:
    """Return the values of the properties of a run by name, such as ``b`` for bold (ECMA-376, 17.3.2).

    The value of a property without one is "1": the property is on.
    """
    properties = run.find("w:rPr", nsmap)
    children = () if properties is None else properties.iterchildren("*")
    return {child.tag.rpartition("}")[2]: child.get(VALUE_ATTRIBUTE, "1") for child in children}


def is_on(properties: Mapping[str, str], name: str) -> bool:
    """True if a property of a run, such as ``b``, is on."""
    return properties.get(name, "0") not in _OFF_VALUES


def get_verbatim(element: Any) -> str:
    """Return the text of a paragraph, or of a run in it, including its tabs and line breaks."""
    return "".join(
        (part.text or "") if part.tag == TEXT_TAG else VERBATIM_CHARACTERS.get(part.tag, "") for part in element.iter()
    )


def parse_part(part: Any) -> Any:
    """Parse an XML part of the package, add the addresses of its links to their texts, and return the root element."""
    root = parse_xml(part.blob)
    add_link_addresses(root, part.rels)
    return root


def add_link_addresses(root: Any, relations: Mapping[str, Any]) -> None:
    """Add mail addresses and telephone numbers to the texts of the links to them: ``Ada (ada@example.org)``.

    ``root`` is the root element of a part, and ``relations`` has the targets of its links by their identifiers.
    """
    for link in root.iter(qn("w:hyperlink")):
        relation = relations.get(link.get(qn("r:id")))
        runs = link.findall("w:r", nsmap)
        address = find_contact_address(relation.target_ref, get_verbatim(link)) if relation is not None else ""
        if not address or not runs:
            continue
        run = deepcopy(runs[-1])  # with its properties, such as bold
        for child in run.xpath("*[not(self::w:rPr)]"):
            run.remove(child)
        run.text = f" ({address})"
        link.append(run)

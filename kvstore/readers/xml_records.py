"""XML data: the records of a file, or the whole file, by the names of its elements.

In: the root element of XML that is neither prose nor a feed. Out: each of several similar records becomes a document,
else the whole file; the content of an element follows its name. A record without nested elements has a line for each
field, as a row of a CSV file. Data of over a million characters is skipped, and data without text is a ReaderError.
"""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree.ElementTree import Element

from ..errors import ReaderError
from .decoding import collapse_whitespace
from .field_lines import format_entry
from .markdown_blocks import MarkdownBlock, join_blocks, make_heading, make_list, make_paragraph
from .raw_document import JSON, Origin, RawDocument, SkippedPart
from .scalars import parse_number
from .xml_tree import get_local_name, get_text, strip_namespace

#: The maximum number of characters of data, as for JSON; larger files are not meant for human readers.
_MAX_DATA_CHARACTERS = 1_000_000
#: The maximum length of a field that also becomes metadata.
_MAX_META_CHARACTERS = 200
#: The maximum depth of indented lists.
_MAX_LIST_DEPTH = 12
#: The maximum level of headings; deeper elements become lists.
_MAX_HEADING_LEVEL = 3


def read_data(root: Element, origin: Origin) -> Iterator[RawDocument | SkippedPart]:
    """Yield a document for each of several similar records, else one for the whole file."""
    num_characters = sum(len(element.text or "") + sum(map(len, element.attrib.values())) for element in root.iter())
    children = list(root)
    if len(children) > 1 and len({child.tag for child in children}) == 1 and all(len(child) for child in children):
        for number, record in enumerate(children, 1):
            if any((element.text or "").strip() or element.attrib for element in record.iter()):
                yield _build_record(record, f"{origin.key}:{number}")
        return
    if num_characters > _MAX_DATA_CHARACTERS:
        yield SkippedPart(origin.name, "data of over a million characters")
        return
    blocks = _build_fields(root, 2)
    if not blocks:
        raise ReaderError(f"{origin.name}: has no text; there is nothing to store")
    title = _find_label(root)
    yield RawDocument(
        origin.key,
        title or None,
        join_blocks([make_heading(1, title or get_local_name(root)), *blocks]) + "\n",
        {},
        "markdown",
    )


def _build_record(record: Element, default_key: str) -> RawDocument:
    """Return the document of a record; its attributes and short simple children are its metadata."""
    fields: dict[str, str] = dict(record.attrib)
    for child in record:
        if not len(child):
            fields.setdefault(get_local_name(child), get_text(child))
    identifier = next((fields[name] for name in ("id", "key") if fields.get(name)), "")
    title = next((fields[name] for name in ("title", "name") if fields.get(name)), "")
    meta: dict[str, JSON] = {
        strip_namespace(name): parse_number(value)
        for name, value in fields.items()
        if value and len(value) <= _MAX_META_CHARACTERS
    }
    blocks = _build_fields(record, 2)
    other_key = default_key if identifier else None
    field_lines = [line.removeprefix("- ").partition(": ") for block in blocks for line in block.text.split("\n")]
    if len(blocks) == 1 and blocks[0].kind == "list" and all(value for _, _, value in field_lines):
        text, format = format_entry(((name, value) for name, _, value in field_lines), ()), "text"
    else:
        text = join_blocks([*([make_heading(1, title)] if title else []), *blocks]) + "\n"
        format = "markdown"
    return RawDocument(identifier or default_key, title or None, text, meta, format, other_key=other_key)


def _build_fields(element: Element, level: int) -> list[MarkdownBlock]:
    """Return the blocks of the attributes and children of an element.

    A child without children becomes a list item with its name and value; others become sections, whose headings have
    the level ``level``, or inner lists.
    """
    blocks: list[MarkdownBlock] = []
    items: list[tuple[str, list[MarkdownBlock]]] = [
        ("-", [MarkdownBlock("paragraph", f"{strip_namespace(name)}: {collapse_whitespace(value)}")])
        for name, value in element.attrib.items()
        if value.strip() and not name.endswith(("}schemaLocation", "}space"))
    ]

    def flush_items() -> None:
        """Add the list of the items collected so far."""
        if items:
            blocks.append(make_list(list(items)))
            items.clear()

    if (element.text or "").strip():
        blocks.append(make_paragraph(collapse_whitespace(element.text or "")))
    for child in element:
        name = get_local_name(child)
        is_mixed = bool(len(child)) and any((grandchild.tail or "").strip() for grandchild in child)
        if not len(child) or is_mixed:
            if description := _describe_element(child):
                items.append(("-", [MarkdownBlock("paragraph", description)]))
        elif level <= _MAX_HEADING_LEVEL:
            inner_blocks = _build_fields(child, level + 1)
            if inner_blocks:
                flush_items()
                label = _find_label(child)
                blocks += [make_heading(level, f"{name} {label}".strip()), *inner_blocks]
        else:
            inner_blocks = _build_fields(child, level + 1)
            if inner_blocks and level < _MAX_HEADING_LEVEL + _MAX_LIST_DEPTH:
                items.append(("-", [MarkdownBlock("paragraph", f"{name}:"), *inner_blocks]))
            elif inner_blocks:
                flush_items()
                blocks += inner_blocks
        if (child.tail or "").strip():
            flush_items()
            blocks.append(make_paragraph(collapse_whitespace(child.tail or "")))
    flush_items()
    return blocks


def _describe_element(element: Element) -> str:
    """Return an element as ``name (attribute value): text``; empty if it has neither text nor an attribute."""
    name, text = get_local_name(element), get_text(element)
    attributes = ", ".join(
        f"{strip_namespace(key)} {collapse_whitespace(value)}" for key, value in element.attrib.items() if value.strip()
    )
    if not text:
        return f"{name} {attributes}" if attributes else ""
    return f"{name} ({attributes}): {text}" if attributes else f"{name}: {text}"


def _find_label(element: Element) -> str:
    """Return the title, name, label or id of an element, from an attribute or a child, or an empty string."""
    for name in ("title", "name", "label"):
        label = element.get(name) or next(
            (get_text(child) for child in element if get_local_name(child) == name and not len(child)), ""
        )
        if label and len(label) <= _MAX_META_CHARACTERS:
            return label
    return element.get("id", "")

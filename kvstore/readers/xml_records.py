"""XML data: the records of a file, or the whole file, by the names of its elements.
The *content* of an element is a list of blocks and list items; an item is a list of blocks.

In: the root element of XML that is neither prose nor a feed. Out: each of several similar records becomes a document,
else the whole file; the content of an element follows its name. A record without nested elements has a line for each
field, as a row of a CSV file. Data of over a million characters is skipped, and data without text is a ReaderError.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from xml.etree.ElementTree import Element

from .decoding import collapse_whitespace
from .field_lines import format_entry
from .markdown_blocks import ListItem, MarkdownBlock, join_blocks, make_heading, make_list, make_paragraph
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
#: A block, or the blocks of a list item.
_BlockOrItem = MarkdownBlock | list[MarkdownBlock]


def read_data(root: Element, origin: Origin) -> Iterator[RawDocument | SkippedPart]:
    """Yield a document for each record, or one document for the whole file.

    The children of the root are records if there are several, with the same name, and all of them have children; those
    without text are skipped. Without records, a file of more than ``_MAX_DATA_CHARACTERS`` characters is a SkippedPart,
    and one without text raises ReaderError.
    """
    num_characters = sum(len(element.text or "") + sum(map(len, element.attrib.values())) for element in root.iter())
    children = list(root)
    have_same_name = len({child.tag for child in children}) == 1
    if len(children) > 1 and have_same_name and all(len(child) for child in children):
        for number, record in enumerate(children, 1):
            if any((element.text or "").strip() or element.attrib for element in record.iter()):
                yield _build_document(record, f"{origin.key}:{number}")
        return
    if num_characters > _MAX_DATA_CHARACTERS:
        yield SkippedPart(origin.name, "data of over a million characters")
        return
    blocks = _combine_items(_list_content(root, level=2))
    origin.require_content(blocks)
    title = _find_label(root)
    yield RawDocument(
        origin.key,
        title=title or None,
        text=join_blocks([make_heading(1, title or get_local_name(root)), *blocks]) + "\n",
        meta={},
        format="markdown",
    )


def _build_document(record: Element, default_key: str) -> RawDocument:
    """Return the document of a record; its attributes and short simple children are its metadata.

    The key is the id, or ``default_key`` without an id. With an id, ``default_key`` is the ``other_key``, used if
    another record has the same id.
    """
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
    other_key = default_key if identifier else None
    content = _list_content(record, level=2)
    # At this level, every item is a paragraph of one line, usually "name: value".
    lines = [item[0].text.partition(": ") for item in content if isinstance(item, list)]
    has_only_fields = content and len(lines) == len(content) and all(value for _, _, value in lines)
    if has_only_fields:
        text, format = format_entry(((name, value) for name, _, value in lines), ()), "text"
    else:
        text = join_blocks([*([make_heading(1, title)] if title else []), *_combine_items(content)]) + "\n"
        format = "markdown"
    return RawDocument(
        identifier or default_key, title=title or None, text=text, meta=meta, format=format, other_key=other_key
    )


def _list_content(element: Element, level: int) -> list[_BlockOrItem]:
    """Return the content of an element: its text, attributes and children, each as a block or a list item.

    An attribute is an item with its name and value. A child without children, or with text between its children, is
    also an item. Other children become sections with headings of this ``level``. Deeply nested ones become items with
    inner lists; of very deeply nested ones, only the content is added.
    """
    content: list[_BlockOrItem] = []
    if (element.text or "").strip():
        content.append(make_paragraph(collapse_whitespace(element.text or "")))
    for name, value in element.attrib.items():
        if value.strip() and not name.endswith(("}schemaLocation", "}space")):
            content.append([MarkdownBlock("paragraph", f"{strip_namespace(name)}: {collapse_whitespace(value)}")])
    for child in element:
        name = get_local_name(child)
        is_mixed = bool(len(child)) and any((grandchild.tail or "").strip() for grandchild in child)
        if not len(child) or is_mixed:
            if description := _describe_element(child):
                content.append([MarkdownBlock("paragraph", description)])
        elif inner_blocks := _combine_items(_list_content(child, level + 1)):
            if level <= _MAX_HEADING_LEVEL:
                content += [make_heading(level, f"{name} {_find_label(child)}".strip()), *inner_blocks]
            elif level < _MAX_HEADING_LEVEL + _MAX_LIST_DEPTH:
                content.append([MarkdownBlock("paragraph", f"{name}:"), *inner_blocks])
            else:
                content += inner_blocks
        if (child.tail or "").strip():
            content.append(make_paragraph(collapse_whitespace(child.tail or "")))
    return content


def _combine_items(content: Iterable[_BlockOrItem]) -> list[MarkdownBlock]:
    """Return the blocks of ``content``, with adjacent list items (lists of blocks) combined into one list."""
    blocks: list[MarkdownBlock] = []
    items: list[ListItem] = []
    for block_or_item in content:
        if isinstance(block_or_item, list):
            items.append(ListItem("-", block_or_item))
            continue
        blocks += [make_list(items), block_or_item] if items else [block_or_item]
        items = []
    return [*blocks, make_list(items)] if items else blocks


def _describe_element(element: Element) -> str:
    """Return an element as ``name (attribute value): text``, or ``name attribute value`` if it has no text.

    The result is empty if it has neither text nor an attribute.
    """
    name, text = get_local_name(element), get_text(element)
    attributes = ", ".join(
        f"{strip_namespace(key)} {collapse_whitespace(value)}" for key, value in element.attrib.items() if value.strip()
    )
    if not text:
        return f"{name} {attributes}" if attributes else ""
    return f"{name} ({attributes}): {text}" if attributes else f"{name}: {text}"


def _find_label(element: Element) -> str:
    """Return the text that names an element for people: its title, name, label or id; empty if it has none of them.

    The title, name and label can be an attribute or a child; one of more than ``_MAX_META_CHARACTERS`` is skipped.
    """
    for name in ("title", "name", "label"):
        texts = (get_text(child) for child in element if get_local_name(child) == name and not len(child))
        label = element.get(name) or next(texts, "")
        if label and len(label) <= _MAX_META_CHARACTERS:
            return label
    return element.get("id", "")

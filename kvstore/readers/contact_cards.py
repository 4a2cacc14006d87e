"""Address cards: each person or organization of an address book becomes a document.

In: a vCard file (``.vcf``; 2.1, 3.0 or 4.0) with one card or more. Out: documents of format ``text``. A document's key
is the card's ``UID``; if that is missing or another card uses it, the key is the file's key and the card's number. The
title is the name. The text has lines ``Name: ...``, ``Organization: ...``, ``Telephone (work): ...``, ``E-mail: ...``,
``Address (home): ...`` and so on, then the notes. Metadata are ``organization``, ``email``, ``telephone`` and
``categories``. Pictures, sounds and keys are dropped. A file without a card is a ReaderError.

Source: RFC 6350 (vCard 4.0), 6; RFC 2426 (3.0); vCard 2.1 (versit Consortium, 1996).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from ..errors import ReaderError
from .content_lines import Component, Property, parse_components, split_value
from .field_lines import format_entry
from .raw_document import JSON, Origin, RawDocument, ReadOptions

#: The labels of card properties, in output order.
_LABELS = {
    "NICKNAME": "Nickname", "ORG": "Organization", "TITLE": "Position", "ROLE": "Role", "TEL": "Telephone",
    "EMAIL": "E-mail", "IMPP": "Messages", "ADR": "Address", "LABEL": "Address as written", "BDAY": "Birthday",
    "ANNIVERSARY": "Anniversary", "X-ANNIVERSARY": "Anniversary", "X-ABDATE": "Date", "RELATED": "Related to",
    "X-ABRELATEDNAMES": "Related to", "X-SPOUSE": "Spouse", "X-ASSISTANT": "Assistant", "X-MANAGER": "Manager",
    "MEMBER": "Member", "LANG": "Language", "TZ": "Time zone", "URL": "Web", "CATEGORIES": "Categories",
}  # fmt: skip
#: Types of a number or address that do not help a human reader.
_IGNORED_TYPES = frozenset("pref voice internet x400 dom intl postal parcel text type other".split())
_STRUCTURED_NAMES = frozenset({"ADR", "ORG"})
_LIST_NAMES = frozenset({"NICKNAME", "CATEGORIES"})


def read(stream: BinaryIO, origin: Origin, options: ReadOptions) -> Iterator[RawDocument]:
    """Yield a document for each card."""
    cards = [
        component
        for component in parse_components(stream.read(), origin.name, options.encoding)
        if component.kind == "VCARD"
    ]
    if not cards:
        raise ReaderError(f"{origin.name}: has no address card (no line BEGIN:VCARD); name its format with AS")
    has_documents = False
    for number, card in enumerate(cards, 1):
        card_document = _build_document(card, origin.key if len(cards) == 1 else f"{origin.key}:{number}")
        if card_document is not None:
            has_documents = True
            yield card_document
    if not has_documents:
        raise ReaderError(f"{origin.name}: has no address card with text; there is nothing to store")


def _build_document(card: Component, default_key: str) -> RawDocument | None:
    """Return the document of a card, or None if the card has no text."""
    labels = {entry.group: _unwrap_label(entry.text) for entry in card.list_properties("X-ABLABEL")}
    labeled_lines = [
        (line, label, text)
        for name, label in _LABELS.items()
        for line in card.list_properties(name)
        if (text := _get_line_text(line))
    ]
    notes = [entry.text for entry in card.list_properties("NOTE") if entry.text]
    name = " ".join(card.get_text("FN").split()) or _format_name(card.find_property("N"))
    organization = next((text for line, _, text in labeled_lines if line.name == "ORG"), "")
    title = name or organization or next((text for line, _, text in labeled_lines if line.name == "EMAIL"), "")
    if not title and not notes and not labeled_lines:
        return None
    fields = [
        ("Name", title),
        *((f"{label}{_format_line_type(line, labels)}", text) for line, label, text in labeled_lines),
    ]
    meta: dict[str, JSON] = {"organization": organization} if organization else {}
    for field, entry in (("email", "EMAIL"), ("telephone", "TEL")):
        texts = [*dict.fromkeys(text for line, _, text in labeled_lines if line.name == entry)]
        if texts:
            meta[field] = [*texts]
    if categories := card.split_values("CATEGORIES"):
        meta["categories"] = [*categories]
    identifier = card.get_text("UID").removeprefix("urn:uuid:")
    return RawDocument(
        identifier or default_key,
        title or None,
        format_entry(fields, notes),
        meta,
        "text",
        other_key=default_key if identifier else None,
    )


def _get_line_text(line: Property) -> str:
    """Return the value of a property on one line; empty if it is not text."""
    if line.get_parameter("ENCODING") in ("B", "BASE64") or line.value.startswith("data:"):
        return ""
    if line.name in _STRUCTURED_NAMES or line.name in _LIST_NAMES:
        components = split_value(line.value, ";" if line.name in _STRUCTURED_NAMES else ",")
        return ", ".join(" ".join(component.split()) for component in components if component)
    text = " ".join(line.text.split())
    for scheme in ("tel:", "mailto:"):
        text = text.removeprefix(scheme)
    if line.name in ("BDAY", "ANNIVERSARY") and len(text) >= 8 and text[:8].isdecimal():
        text = f"{text[:4]}-{text[4:6]}-{text[6:8]}"  # 19700131 becomes 1970-01-31
    return _unwrap_label(text)


def _unwrap_label(label: str) -> str:
    """Return a label without the ``_$!<`` and ``>!$_`` that Apple's address book puts around its built-in labels."""
    return label.removeprefix("_$!<").removesuffix(">!$_")


def _format_line_type(line: Property, labels: dict[str, str]) -> str:
    """Return the label or types of a number or address in parentheses, such as `` (work)``, or an empty string.

    ``labels`` maps the group of a property to its custom label, which replaces the types.
    """
    types = [
        type_name.lower() for type_name in line.parameters.get("TYPE", ()) if type_name.lower() not in _IGNORED_TYPES
    ]
    label = labels.get(line.group, "") if line.group else ""
    description = label or ", ".join(dict.fromkeys(types))
    return f" ({description})" if description else ""


def _format_name(line: Property | None) -> str:
    """Return a person's name in natural order, built from the parts of an ``N`` line; empty without a line."""
    family_name, given_names, additional_names, prefix, suffix, *_ = [
        *(split_value(line.value, ";") if line else []),
        *[""] * 5,  # for missing parts
    ]
    return " ".join(filter(None, (prefix, given_names, additional_names, family_name, suffix)))

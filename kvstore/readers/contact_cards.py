"""Address cards: each person or organization of an address book becomes a document.
A *property* is a line of a card, such as ``TEL;TYPE=home:555``.

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
    """Yield a document for each address card (vCard) of a file.

    Raises ReaderError if no card has text, or if the file cannot be decoded.
    """
    cards = parse_components(stream.read(), "VCARD", origin.name, options.encoding)
    if not cards:
        raise ReaderError(f"{origin.name}: has no address card (no line BEGIN:VCARD); specify its format with AS")
    has_documents = False
    for number, card in enumerate(cards, 1):
        card_document = _build_document(card, origin.key if len(cards) == 1 else f"{origin.key}:{number}")
        if card_document is not None:
            has_documents = True
            yield card_document
    origin.require_content(has_documents, "has no address card with text")


def _build_document(card: Component, default_key: str) -> RawDocument | None:
    """Return the document of a card, or None if the card has no text.

    The key is the UID, or ``default_key`` without a UID. With a UID, ``default_key`` is the ``other_key``, used if
    another card has the same UID.
    """
    custom_labels = {entry.group: _unwrap_label(entry.text) for entry in card.list_properties("X-ABLABEL")}
    fields: list[tuple[str, str]] = []
    texts_by_name: dict[str, list[str]] = {}  # by the name of the property, such as EMAIL
    for property_name, label in _LABELS.items():
        for property in card.list_properties(property_name):
            if text := _get_property_text(property):
                fields.append((f"{label}{_format_property_type(property, custom_labels)}", text))
                texts_by_name.setdefault(property_name, []).append(text)
    notes = [entry.text for entry in card.list_properties("NOTE") if entry.text]
    name = " ".join(card.get_text("FN").split()) or _format_name(card.find_property("N"))
    organization = texts_by_name.get("ORG", [""])[0]
    email = texts_by_name.get("EMAIL", [""])[0]
    title = name or organization or email
    if not title and not notes and not fields:
        return None
    meta: dict[str, JSON] = {"organization": organization} if organization else {}
    for meta_field, property_name in (("email", "EMAIL"), ("telephone", "TEL")):
        if property_name in texts_by_name:
            meta[meta_field] = [*dict.fromkeys(texts_by_name[property_name])]
    if categories := card.split_values("CATEGORIES"):
        meta["categories"] = [*categories]
    identifier = card.get_text("UID").removeprefix("urn:uuid:")
    return RawDocument(
        identifier or default_key,
        title=title or None,
        text=format_entry([("Name", title), *fields], notes),
        meta=meta,
        format="text",
        other_key=default_key if identifier else None,
    )


def _get_property_text(property: Property) -> str:
    """Return the value of a card's property on one line; empty if it is not text, such as a picture.

    Components of a value are joined by commas, and dates become ISO 8601.
    """
    if property.get_parameter("ENCODING") in ("B", "BASE64") or property.value.startswith("data:"):
        return ""
    if property.name in _STRUCTURED_NAMES or property.name in _LIST_NAMES:
        components = split_value(property.value, ";" if property.name in _STRUCTURED_NAMES else ",")
        return ", ".join(" ".join(component.split()) for component in components if component)
    text = " ".join(property.text.split())
    for scheme in ("tel:", "mailto:"):
        text = text.removeprefix(scheme)
    if property.name in ("BDAY", "ANNIVERSARY") and len(text) >= 8 and text[:8].isdecimal():
        text = f"{text[:4]}-{text[4:6]}-{text[6:8]}"  # 19700131 becomes 1970-01-31
    return _unwrap_label(text)


def _unwrap_label(label: str) -> str:
    """Return a label without the ``_$!<`` and ``>!$_`` that Apple's address book puts around its built-in labels."""
    return label.removeprefix("_$!<").removesuffix(">!$_")


def _format_property_type(property: Property, custom_labels: dict[str, str]) -> str:
    """Return the label or types of a number or address in parentheses, such as `` (work)``; empty without them.

    ``custom_labels`` has the labels that users wrote, by the group of the property, such as ``item1``. Such a label
    replaces the types.
    """
    type_names = [type_name.lower() for type_name in property.parameters.get("TYPE", ())]
    types = dict.fromkeys(type_name for type_name in type_names if type_name not in _IGNORED_TYPES)
    label = custom_labels.get(property.group, "") if property.group else ""
    description = label or ", ".join(types)
    return f" ({description})" if description else ""


def _format_name(property: Property | None) -> str:
    """Return a person's name in natural order, given the ``N`` property (``Hill;Ann;;Dr.;``); empty for None."""
    # The components in the order of RFC 6350, 6.2.2.
    family_name, given_names, additional_names, prefix, suffix, *_ = [
        *(split_value(property.value, ";") if property else []),
        *[""] * 5,  # for missing components
    ]
    return " ".join(filter(None, (prefix, given_names, additional_names, family_name, suffix)))

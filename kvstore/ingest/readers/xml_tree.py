"""XML to a tree, for the formats that are packages of XML: nothing is fetched and nothing is expanded.

In: the bytes of a part. Out: the root element, names written ``{namespace}name``. A part that declares entities, nests
deeper than ``_DEEPEST`` or is not well-formed is an :class:`XmlError`; a document type that lies elsewhere is not read.
"""

from __future__ import annotations

from typing import NoReturn
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

#: Elements within elements; real documents stay below 100, and what walks a tree does so by recursion.
_DEEPEST = 200


class XmlError(ValueError):
    """Why a part is no XML that is read."""


def parsed(data: bytes) -> Element:
    """The root element of an XML document; raises XmlError."""
    builder = TreeBuilder()
    parser = expat.ParserCreate(namespace_separator="}")
    parser.buffer_text = True
    depth = 0

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > _DEEPEST:
            raise XmlError(f"nests elements more than {_DEEPEST} deep")
        builder.start(_named(name), {_named(key): value for key, value in attributes.items()})

    def end(name: str) -> None:
        nonlocal depth
        depth -= 1
        builder.end(_named(name))

    def refuse(*declared: object) -> NoReturn:
        raise XmlError("declares entities of its own, which are not expanded; save it anew")

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = builder.data
    parser.EntityDeclHandler = refuse
    try:
        parser.Parse(data, True)
        return builder.close()
    except expat.ExpatError as error:
        raise XmlError(f"is no well-formed XML ({error})") from None


def _named(name: str) -> str:
    return f"{{{name}" if "}" in name else name

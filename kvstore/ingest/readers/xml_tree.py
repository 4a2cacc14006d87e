"""XML to a tree: nothing is fetched, and nothing is expanded without end.

In: the bytes of a part or a file. Out: the root element, names written ``{namespace}name``. A part of a package that
declares entities is an :class:`XmlError`; in a file that people write they are put in, up to a limit. What nests deeper
than ``_MAX_DEPTH`` or is not well-formed is an :class:`XmlError`; a document type that lies elsewhere is not read.
"""

from __future__ import annotations

from html.entities import html5
from typing import NoReturn
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

#: Elements within elements; real documents stay below 100, and what walks a tree does so by recursion.
_MAX_DEPTH = 200


#: Characters that entities may add to a file.
_MAX_EXPANDED_CHARACTERS = 8 << 20


class XmlError(ValueError):
    """Why a part is no XML that is read."""


def parse_xml(data: bytes) -> Element:
    """The root element of an XML document that declares no entities; raises XmlError."""
    tree = _TreeParser()

    def refuse_entity(*declaration: object) -> NoReturn:
        raise XmlError("declares entities of its own, which are not expanded; save it anew")

    tree.parser.EntityDeclHandler = refuse_entity
    return tree.parse(data)


def parse_xml_with_entities(data: bytes, encoding: str | None = None) -> tuple[Element, list[str]]:
    """The root element of an XML document whose entities are put in, and what of it lies in other files.

    An entity that is not declared here stands for the letter that it means in HTML, or for its name. ``encoding`` is in
    place of what the document declares. Raises XmlError, also where entities add more than ``_MAX_EXPANDED_CHARACTERS``
    characters.
    """
    tree = _TreeParser(encoding, limit=len(data) + _MAX_EXPANDED_CHARACTERS)
    external_names: list[str] = []

    def handle_skipped_entity(name: str, is_parameter: bool) -> None:
        if not is_parameter:
            tree.add_text(html5.get(f"{name};", name))

    def handle_external_entity(context: str, base: str | None, system: str | None, public: str | None) -> int:
        if context and system:
            external_names.append(system)
        return 1

    tree.parser.UseForeignDTD(True)
    tree.parser.SkippedEntityHandler = handle_skipped_entity
    tree.parser.ExternalEntityRefHandler = handle_external_entity
    root = tree.parse(data)
    external_names += [include.get("href", "") for include in root.iter("{http://www.w3.org/2001/XInclude}include")]
    return root, list(filter(None, external_names))


class _TreeParser:
    """A tree that is built: its ``parser``, with the handlers of elements and of text."""

    def __init__(self, encoding: str | None = None, limit: int | None = None) -> None:
        self.parser = expat.ParserCreate(encoding, namespace_separator="}")
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._start_element
        self.parser.EndElementHandler = self._end_element
        self.parser.CharacterDataHandler = self.add_text
        self._builder = TreeBuilder()
        self._depth = 0
        self._characters_left = limit

    def parse(self, data: bytes) -> Element:
        try:
            self.parser.Parse(data, True)
            return self._builder.close()
        except expat.ExpatError as error:
            raise XmlError(f"is no well-formed XML ({error})") from None
        except XmlError:
            raise
        except (ValueError, LookupError) as error:  # of an encoding that it declares
            raise XmlError(
                f"declares an encoding that is not read ({error}); name it WITH (encoding = '...')"
            ) from None

    def add_text(self, text: str) -> None:
        self._count_characters(len(text))
        self._builder.data(text)

    def _start_element(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise XmlError(f"nests elements more than {_MAX_DEPTH} deep")
        self._count_characters(sum(map(len, attributes.values())))
        self._builder.start(_format_name(name), {_format_name(key): value for key, value in attributes.items()})

    def _end_element(self, name: str) -> None:
        self._depth -= 1
        self._builder.end(_format_name(name))

    def _count_characters(self, size: int) -> None:
        """Count what the tree grows by, beyond what the file itself can have."""
        if self._characters_left is not None:
            self._characters_left -= size
            if self._characters_left < 0:
                raise XmlError(f"has entities that add more than {_MAX_EXPANDED_CHARACTERS:,} characters to it")


def _format_name(name: str) -> str:
    return f"{{{name}" if "}" in name else name

"""XML parsing with safe limits: nothing is fetched, and entity expansion is limited.
An *entity* is a name for a text, as in ``&tea;``; an *external* entity is a name for the text of another file.

In: the bytes of a part or a file. Out: the root element, with names ``{namespace}name``. A part of a package that
declares entities is an :class:`XmlError`; in files that people write, entities are expanded up to a limit. XML that is
nested deeper than ``_MAX_DEPTH`` or malformed is an :class:`XmlError`. External document types are not read.
"""

from __future__ import annotations

from html.entities import html5
from typing import NoReturn
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from .decoding import collapse_whitespace

#: The maximum nesting depth. Real documents stay below 100, and the functions that walk a tree are recursive.
_MAX_DEPTH = 200
#: The maximum number of characters that entities can add to a file.
_MAX_EXPANDED_CHARACTERS = 8 << 20


class XmlError(ValueError):
    """Raised for bytes that cannot be read as XML; its message is the reason."""


def parse_xml(data: bytes) -> Element:
    """Return the root element of an XML document.

    Raises XmlError if it is malformed, exceeds a limit, or declares entities or an encoding that is not supported.
    """
    tree = _TreeParser()

    def reject_entity(*declaration: object) -> NoReturn:
        """Raise XmlError for the declaration of an entity."""
        raise XmlError("declares its own entities, which are not expanded; save it again")

    tree.parser.EntityDeclHandler = reject_entity
    return tree.parse(data)


def parse_xml_with_entities(data: bytes, encoding: str | None) -> tuple[Element, list[str]]:
    """Return the root element of an XML document with expanded entities, and the names of the files that it includes.

    These are external entities and XInclude elements; the files are not read. An undeclared entity is replaced by its
    HTML character, or by its name. ``encoding`` overrides the declared encoding. Raises XmlError, including when
    entities add more than ``_MAX_EXPANDED_CHARACTERS`` characters.
    """
    tree = _TreeParser(encoding, max_characters=len(data) + _MAX_EXPANDED_CHARACTERS)
    external_names: list[str] = []

    def handle_skipped_entity(name: str, is_parameter: bool) -> None:
        """Add the HTML character of an undeclared entity, or its name.

        Parameter entities occur only in DTDs and are skipped.
        """
        if not is_parameter:
            tree.add_text(html5.get(f"{name};", name))

    def handle_external_entity(context: str, base: str | None, system: str | None, public: str | None) -> int:
        """Record the file ``system`` of an external entity, and continue without it; expat passes all arguments."""
        if context and system:
            external_names.append(system)
        return 1  # continue parsing

    tree.parser.UseForeignDTD(True)
    tree.parser.SkippedEntityHandler = handle_skipped_entity
    tree.parser.ExternalEntityRefHandler = handle_external_entity
    root = tree.parse(data)
    external_names += [include.get("href", "") for include in root.iter("{http://www.w3.org/2001/XInclude}include")]
    return root, list(filter(None, external_names))


class _TreeParser:
    """A builder of a tree from the events of its expat ``parser``, with limits on its depth and its characters."""

    def __init__(self, encoding: str | None = None, max_characters: int | None = None) -> None:
        """Create the parser; ``encoding`` overrides the declared encoding.

        ``max_characters`` limits the texts and attribute values of the tree (None: any number).
        """
        self.parser = expat.ParserCreate(encoding, namespace_separator="}")
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._start_element
        self.parser.EndElementHandler = self._end_element
        self.parser.CharacterDataHandler = self.add_text
        self._builder = TreeBuilder()
        self._depth = 0
        self._characters_left = max_characters

    def parse(self, data: bytes) -> Element:
        """Parse an XML document, and return its root element.

        Raises XmlError if it is malformed, exceeds a limit, or declares an encoding that is not supported.
        """
        try:
            self.parser.Parse(data, True)  # True: this is all of it
            return self._builder.close()
        except expat.ExpatError as error:
            raise XmlError(f"is not well-formed XML ({error})") from None
        except XmlError:
            raise
        except (ValueError, LookupError) as error:  # the declared encoding is unknown
            raise XmlError(
                f"declares an encoding that is not supported ({error}); name its encoding WITH (encoding = '...')"
            ) from None

    def add_text(self, text: str) -> None:
        """Add text at the current position of the tree; raises XmlError above the limit of characters."""
        self._deduct_characters(len(text))
        self._builder.data(text)

    def _start_element(self, name: str, attributes: dict[str, str]) -> None:
        """Open an element with these attributes. Raises XmlError above the limit of depth or of characters."""
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise XmlError(f"nests elements more than {_MAX_DEPTH} levels deep")
        self._deduct_characters(sum(map(len, attributes.values())))
        self._builder.start(_format_name(name), {_format_name(key): value for key, value in attributes.items()})

    def _end_element(self, name: str) -> None:
        """End the current element of the tree, whose name from expat is ``name``."""
        self._depth -= 1
        self._builder.end(_format_name(name))

    def _deduct_characters(self, size: int) -> None:
        """Deduct ``size`` from the number of characters that the tree may still add, if that number is limited.

        Raises XmlError if it becomes negative.
        """
        if self._characters_left is not None:
            self._characters_left -= size
            if self._characters_left < 0:
                raise XmlError(f"has entities that add more than {_MAX_EXPANDED_CHARACTERS:,} characters to it")


def _format_name(name: str) -> str:
    """Return a name from expat, ``namespace}name``, in the form of ElementTree, ``{namespace}name``."""
    return f"{{{name}" if "}" in name else name


def get_local_name(element: Element) -> str:
    """Return the name of an element without its namespace."""
    return strip_namespace(element.tag)


def strip_namespace(name: str) -> str:
    """Return the name of an element or attribute, ``{namespace}name``, without its namespace."""
    return name.rpartition("}")[2]


def get_text(element: Element) -> str:
    """Return the text of an element and its descendants on one line."""
    return collapse_whitespace("".join(element.itertext()))

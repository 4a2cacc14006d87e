"""Properties of the links of an element: what they lead to, and how they are placed in the text around them.

In: an element and its shape in the page's survey. Out: True if the links are a table of contents, turn pages, form a
bar or are tools, and if the element is part of a sentence, a title or a line of its own. Each decision inspects a
limited number of elements, so that the total cost is linear in the page.
"""

from __future__ import annotations

import re

from selectolax.lexbor import LexborNode

from .html_survey import HEADING_TAGS, VERBATIM_TAGS, PageSurvey, Shape, normalize_words

#: The maximum number of descendants that a decision inspects, so that the total cost is linear in the page.
MAX_INSPECTED_ELEMENTS = 60
CONTENTS_LABEL_PATTERN = re.compile(
    r"(?:table of )?contents|on this page|in this (?:article|page|section)|page contents"
)
INLINE_TAGS = frozenset("a span small sup b i em strong label".split())
_INLINE_BREAK_TAGS = frozenset("br hr".split())
_NEIGHBOR_BLOCK_TAGS = HEADING_TAGS | frozenset(
    "div p ul ol dl table pre section header footer nav aside main article figure".split()
)


def is_contents(shape: Shape) -> bool:
    """True if the links name headings of the page, and there is little other text."""
    return shape.known > 1 and 4 * shape.known >= 3 * shape.links and shape.unlinked <= 0.15 * shape.linked + 12


def has_contents_label(node: LexborNode, shape: Shape) -> bool:
    """True if a list of links begins with a label for tables of contents."""
    if shape.prose:
        return False
    first_node = node.child
    for _ in range(4):
        while (
            first_node is not None
            and not (first_node.tag or "")[:1].isalpha()
            and not (first_node.text_content or "").strip()
        ):
            first_node = first_node.next
        if first_node is None:
            return False
        if first_node.tag == "-text":
            return CONTENTS_LABEL_PATTERN.fullmatch(normalize_words(first_node.text_content or "")) is not None
        first_node = first_node.child
    return False


def is_wrapper(node: LexborNode, tag: str, shape: Shape, survey: PageSurvey) -> bool:
    """True if one child contains all links, and there is other text next to it."""
    if tag not in ("div", "section", "td"):
        return False
    child = node.child
    while child is not None:
        child_shape = survey.get_shape(child)
        if child_shape is not None and child_shape.links:
            return child_shape.links == shape.links and child_shape.text < shape.text
        child = child.next
    return False


def is_pagination(shape: Shape, name_match: re.Match[str] | None, inside: bool) -> bool:
    """True if the links lead to the previous, next and parent pages, with at most those pages' titles next to them.

    ``name_match``: the class or id names navigation; ``inside``: the element is inside the content.
    """
    if not shape.pagers or shape.prose > (300 if name_match is not None else 0) or shape.text > 600:
        return False
    if not shape.turns and inside and not shape.early:
        return False
    if shape.pagers == shape.links and shape.unlinked + shape.label <= 6 * shape.links:
        return True
    return (
        shape.turns > 1
        and 2 * shape.pagers >= shape.links
        and (name_match is not None or shape.unlinked <= shape.linked)
    )


def is_announced(node: LexborNode) -> bool:
    """True if the text before an element ends with a colon; the element is then content."""
    previous_sibling = find_sibling(node, -1)
    return previous_sibling is not None and previous_sibling.text(deep=True).rstrip().endswith(":")


def is_alone_in_line(node: LexborNode, tag: str, shape: Shape, survey: PageSurvey) -> bool:
    """True if an inline element is alone in its line, and not part of a title or of code."""
    return is_standalone(node, tag, shape, survey) and not _is_in_title(node)


def _is_in_title(node: LexborNode) -> bool:
    """True if an element is inside a heading, a term or code."""
    parent = node.parent
    for _ in range(4):
        if parent is None:
            break
        if parent.tag in HEADING_TAGS or parent.tag in ("dt", "code", "pre"):
            return True
        parent = parent.parent
    return False


def is_marked_tool(node: LexborNode, shape: Shape) -> bool:
    """True if a one-word link is in brackets, in a heading or term, or after a heading."""
    if shape.text > shape.linked or _is_in_title(node):
        return True
    previous_sibling = find_sibling(node, -1)
    return previous_sibling is not None and previous_sibling.tag in HEADING_TAGS


def is_link_bar(node: LexborNode, shape: Shape, tag: str) -> bool:
    """True if an element is a line of links to other pages of the site."""
    if tag == "a" or tag in VERBATIM_TAGS or not shape.mostly_links or shape.unlinked > 0.3 * shape.linked:
        return False
    if 2 * shape.site < shape.links or (shape.links == 1 and shape.text >= 60):
        return False
    return shape.elements > MAX_INSPECTED_ELEMENTS or node.css_first("code, pre") is None


def is_standalone(node: LexborNode, tag: str, shape: Shape, survey: PageSurvey) -> bool:
    """True if an element is not part of a sentence: it has its own line, or follows the words of a heading or term."""
    if shape.elements > MAX_INSPECTED_ELEMENTS or shape.text > 60 * shape.links:
        return False
    parent = node.parent
    while parent is not None and tag in INLINE_TAGS:
        if parent.tag in HEADING_TAGS or parent.tag == "dt":
            next_sibling = find_sibling(node, 1)
            return find_sibling(node, -1) is not None and (
                next_sibling is None or _is_tool(survey.get_shape(next_sibling))
            )
        for step in (-1, 1):
            sibling = find_sibling(node, step)
            while sibling is not None and _is_tool(survey.get_shape(sibling)):
                sibling = find_sibling(sibling, step)
            if (
                sibling is not None
                and sibling.tag not in _INLINE_BREAK_TAGS
                and sibling.tag not in _NEIGHBOR_BLOCK_TAGS
            ):
                return False
        if parent.tag not in INLINE_TAGS:
            break
        node, tag, parent = parent, parent.tag or "", parent.parent
    return (
        parent is not None and parent.tag not in ("li", "td") and (tag in INLINE_TAGS or tag in ("p", "div", "footer"))
    )


def _is_tool(shape: Shape | None) -> bool:
    """True if an element is only one link that acts on the page or turns pages."""
    return (
        shape is not None
        and shape.links == 1
        and (shape.tools == 1 or shape.pagers == 1)
        and shape.text == shape.linked
    )


def find_sibling(node: LexborNode, step: int) -> LexborNode | None:
    """Return the previous (-1) or next (1) element or text, skipping white space and comments."""
    sibling = node.prev if step < 0 else node.next
    while sibling is not None:
        tag = sibling.tag or ""
        if tag == "-text":
            if (sibling.text_content or "").strip():
                return sibling
        elif tag[:1].isalpha():
            return sibling
        sibling = sibling.prev if step < 0 else sibling.next
    return None

"""Properties of the links of an element: what they lead to, and how they are placed in the text around them.
*Stats* are the counts of an element's text and links. *Prose* is longer text outside links and headings. A *page
action* is a link such as ``edit``; a *paging link* leads to the next page.

In: an element and its stats in the page's analysis. Out: True if the element has a property. Its links can be a table
of contents, turn pages, form a bar, or be page actions. It can be part of a sentence or a title, or have its own line.
Each decision inspects a limited number of elements, so that the total cost is linear in the page.
"""

from __future__ import annotations

import re

from selectolax.lexbor import LexborNode

from .html_analysis import HEADING_TAGS, VERBATIM_TAGS, PageAnalysis, normalize_words
from .html_stats import ElementStats

#: The maximum number of descendants that a decision inspects, so that the total cost is linear in the page.
MAX_INSPECTED_ELEMENTS = 60
#: The maximum number of levels of the tree that a decision inspects.
_MAX_LEVELS = 4
#: The maximum text next to the links of a table of contents: a share of the text in links, and the length of its label.
_MAX_CONTENTS_SHARE = 0.15
_MAX_CONTENTS_LABEL_CHARACTERS = 12
#: Limits for pagination: the length of its prose and of its whole text, and the separators for each link.
_MAX_PAGING_PROSE = 300
_MAX_PAGING_CHARACTERS = 600
_MAX_SEPARATOR_CHARACTERS = 6
#: The maximum share of other text in a line of links, relative to the text in links.
_MAX_BAR_SHARE = 0.3
#: The length of text per link from which links are part of a sentence.
_MIN_SENTENCE_CHARACTERS = 60
CONTENTS_LABEL_PATTERN = re.compile(
    r"(?:table of )?contents|on this page|in this (?:article|page|section)|page contents"
)
INLINE_TAGS = frozenset("a span small sup b i em strong label".split())
_INLINE_BREAK_TAGS = frozenset("br hr".split())
_NEIGHBOR_BLOCK_TAGS = HEADING_TAGS | frozenset(
    "div p ul ol dl table pre section header footer nav aside main article figure".split()
)


def is_table_of_contents(stats: ElementStats) -> bool:
    """True if an element is a table of contents, judged by the counts of its links and text (``stats``).

    It has several links to headings of the page, which are at least three quarters of its links, and little other text.
    """
    max_other_text = _MAX_CONTENTS_SHARE * stats.linked_length + _MAX_CONTENTS_LABEL_CHARACTERS
    return (
        stats.num_heading_links > 1
        and 4 * stats.num_heading_links >= 3 * stats.num_links
        and stats.unlinked_length <= max_other_text
    )


def has_contents_label(node: LexborNode, stats: ElementStats) -> bool:
    """True if an element begins with a label of tables of contents, such as "On this page", and has no prose.

    ``stats`` are the counts of its text and links.
    """
    if stats.prose_length:
        return False
    first_node = node.child  # descend from it to the first text
    for _ in range(_MAX_LEVELS):
        # Skip comments and blank texts.
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


def has_text_beside_links(node: LexborNode, tag: str, stats: ElementStats, analysis: PageAnalysis) -> bool:
    """True if all links of a ``div``, ``section`` or ``td`` are in one child, and the element has other text too.

    ``stats`` are the counts of the element's text and links; ``analysis`` has the counts of its children.
    """
    if tag not in ("div", "section", "td"):
        return False
    child = node.child
    while child is not None:
        child_stats = analysis.get_stats(child)
        if child_stats is not None and child_stats.num_links:
            return child_stats.num_links == stats.num_links and child_stats.text_length < stats.text_length
        child = child.next
    return False


def is_navigation_bar(stats: ElementStats, class_match: re.Match[str] | None, in_content: bool) -> bool:
    """True if an element is mostly navigation links: paging links, or links to standard pages such as "Contact".

    Paging links lead to the previous, next or parent page. Within the content (``in_content``) and after its first
    heading, at least one paging link is required. ``stats`` are the counts of the element's text and links.
    ``class_match`` is the match of a navigation pattern in its class or id, or None; with a match, more text is
    allowed.
    """
    max_prose = _MAX_PAGING_PROSE if class_match is not None else 0
    if not stats.num_navigation_links or stats.prose_length > max_prose or stats.text_length > _MAX_PAGING_CHARACTERS:
        return False
    # In the content, links such as "contact" are text, unless they precede the first heading and prose.
    if not stats.num_paging_links and in_content and not stats.is_before_content:
        return False
    if (
        stats.num_navigation_links == stats.num_links
        and stats.unlinked_length + stats.heading_length <= _MAX_SEPARATOR_CHARACTERS * stats.num_links
    ):
        return True
    return (
        stats.num_paging_links > 1
        and 2 * stats.num_navigation_links >= stats.num_links
        and (class_match is not None or stats.unlinked_length <= stats.linked_length)
    )


def follows_colon(node: LexborNode) -> bool:
    """True if the text before an element ends with a colon and so introduces it; the element is then content."""
    previous_sibling = find_sibling(node, -1)
    return previous_sibling is not None and previous_sibling.text(deep=True).rstrip().endswith(":")


def is_in_heading_or_code(node: LexborNode) -> bool:
    """True if an element is inside a heading, a term or code; only its nearest ``_MAX_LEVELS`` ancestors count."""
    parent = node.parent
    for _ in range(_MAX_LEVELS):
        if parent is None:
            break
        if parent.tag in HEADING_TAGS or parent.tag in ("dt", "code", "pre"):
            return True
        parent = parent.parent
    return False


def is_marked_as_action(node: LexborNode, stats: ElementStats) -> bool:
    """True if a link that may be a page action, such as ``edit``, is in brackets or belongs to a heading, term or code.

    ``node`` is the link or an element around it, and ``stats`` are the counts of its text and links.
    """
    has_brackets = stats.text_length > stats.linked_length
    if has_brackets or is_in_heading_or_code(node):
        return True
    previous_sibling = find_sibling(node, -1)
    return previous_sibling is not None and previous_sibling.tag in HEADING_TAGS


def is_link_bar(node: LexborNode, stats: ElementStats, tag: str) -> bool:
    """True if an element with this ``tag`` is a line of links, most of them to other pages of the site, without code.

    False for a single link as long as a sentence. An element with more than ``MAX_INSPECTED_ELEMENTS`` elements is not
    searched for code. ``stats`` are the counts of its text and links.
    """
    has_other_text = not stats.is_mostly_links or stats.unlinked_length > _MAX_BAR_SHARE * stats.linked_length
    if has_other_text or tag == "a" or tag in VERBATIM_TAGS:
        return False
    if 2 * stats.num_site_links < stats.num_links or (
        stats.num_links == 1 and stats.text_length >= _MIN_SENTENCE_CHARACTERS
    ):
        return False
    return stats.num_elements > MAX_INSPECTED_ELEMENTS or node.css_first("code, pre") is None


def is_standalone(node: LexborNode, tag: str, stats: ElementStats, analysis: PageAnalysis) -> bool:
    """True if an element is not part of a sentence: it has its own line, or follows the words of a heading or term.

    For example, the link in ``<h2>History <a>edit</a></h2>`` is standalone. Links to page actions or other pages do not
    count as neighbors. A large element, one with much text for each link, or one in a list item or cell is not
    standalone. ``stats`` are the counts of its text and links; ``analysis`` has the counts of its neighbors.
    """
    if stats.num_elements > MAX_INSPECTED_ELEMENTS or stats.text_length > _MIN_SENTENCE_CHARACTERS * stats.num_links:
        return False
    parent = node.parent
    # Look at the neighbors of an inline element, then at the neighbors of the inline elements around it.
    while parent is not None and tag in INLINE_TAGS:
        if parent.tag in HEADING_TAGS or parent.tag == "dt":
            next_sibling = find_sibling(node, 1)
            is_last = next_sibling is None or _is_action_or_navigation_link(analysis.get_stats(next_sibling))
            return is_last and find_sibling(node, -1) is not None
        if _has_text_neighbor(node, -1, analysis) or _has_text_neighbor(node, 1, analysis):
            return False
        if parent.tag not in INLINE_TAGS:
            break
        node, tag, parent = parent, parent.tag or "", parent.parent
    return (
        parent is not None and parent.tag not in ("li", "td") and (tag in INLINE_TAGS or tag in ("p", "div", "footer"))
    )


def _has_text_neighbor(node: LexborNode, step: int, analysis: PageAnalysis) -> bool:
    """True if text or an inline element is on the line before (``step`` -1) or after (1) an inline element.

    Page actions and links that lead to other pages are skipped.
    """
    sibling = find_sibling(node, step)
    while sibling is not None and _is_action_or_navigation_link(analysis.get_stats(sibling)):
        sibling = find_sibling(sibling, step)
    return sibling is not None and sibling.tag not in _INLINE_BREAK_TAGS and sibling.tag not in _NEIGHBOR_BLOCK_TAGS


def _is_action_or_navigation_link(stats: ElementStats | None) -> bool:
    """True if an element is only one link, whose label is a page action (``edit``) or leads elsewhere (``next``).

    ``stats`` are the counts of its text and links; None, as for a text, yields False.
    """
    if stats is None or stats.num_links != 1 or stats.text_length != stats.linked_length:
        return False
    return stats.num_action_links == 1 or stats.num_navigation_links == 1


def find_sibling(node: LexborNode, step: int) -> LexborNode | None:
    """Return the previous (``step`` -1) or next (1) sibling that is an element or text, or None.

    White space and comments are skipped.
    """
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

"""Counts of the text, links and prose of an HTML element, and the totals of a page that a walk counts them from.
*Prose* is longer text outside links and headings.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

#: The maximum shares of unlinked text and of prose, relative to the text in links, of an element that is mostly links.
_MAX_UNLINKED_SHARE = 0.6
_MAX_PROSE_SHARE = 0.34
#: The minimum number of characters of a text outside links that counts as prose.
_MIN_PROSE_CHARACTERS = 30
#: The arguments of :class:`ElementStats`.
ElementCounts = tuple[int, int, int, int, int, bool]


@dataclass(slots=True)
class ElementStats:
    """Statistics of one element and its descendants.
    Lengths are in characters: ``linked_length`` in links, ``heading_length`` in headings and captions outside links,
    ``prose_length`` in code or longer runs of text outside both.

    ``num_links`` counts all links. Of these, ``num_site_links`` lead to other pages of the same site,
    ``num_fragment_links`` to anchors of this page, and ``num_heading_links`` to a heading of this page whose words they
    repeat. ``num_paging_links`` have pagination labels (``next``), and ``num_navigation_links`` have these or labels of
    site pages (``contact``). ``num_action_links`` have labels of page actions (``edit``), and ``num_ambiguous_links``
    one word that may be such an action. If ``is_before_content``, no heading and no prose precedes the end of the
    element.
    """

    text_length: int
    linked_length: int
    heading_length: int
    prose_length: int
    num_elements: int  # the number of descendants
    is_before_content: bool

    num_links = num_site_links = num_fragment_links = num_heading_links = 0
    num_navigation_links = num_action_links = num_paging_links = num_ambiguous_links = 0

    @property
    def unlinked_length(self) -> int:
        """The number of characters outside links and headings."""
        return self.text_length - self.linked_length - self.heading_length

    @property
    def is_mostly_links(self) -> bool:
        """True if the element consists of links, with little other text or prose."""
        return (
            self.num_links > 0
            and self.unlinked_length <= _MAX_UNLINKED_SHARE * self.linked_length
            and self.prose_length <= _MAX_PROSE_SHARE * self.linked_length
        )


class LinkCounts(NamedTuple):
    """The number of links of a part of a page, and how many of them have a certain target or label."""

    num_links: int = 0
    num_site_links: int = 0  # to other pages of the site
    num_fragment_links: int = 0  # to anchors of the page
    num_heading_links: int = 0  # to headings of the page whose words they repeat
    num_navigation_links: int = 0  # with labels of pagination or of site pages ("contact")
    num_action_links: int = 0  # with labels of page actions ("edit")
    num_paging_links: int = 0  # with labels of pagination ("next")
    num_ambiguous_links: int = 0  # with one word that may be a page action


class LinkedElementStats(ElementStats):
    """The counts of an element with links: the difference between the totals at its end and at its start."""

    __slots__ = LinkCounts._fields

    def __init__(self, counts: ElementCounts, counts_before: LinkCounts, counts_after: LinkCounts) -> None:
        """Store the counts of an element; its numbers of links are the difference of two totals of the page.

        ``counts`` has the other counts. ``counts_before`` has the totals of links at the start of the element, and
        ``counts_after`` those at its end.
        """
        super().__init__(*counts)
        for name, before, after in zip(LinkCounts._fields, counts_before, counts_after, strict=True):
            setattr(self, name, after - before)


class ElementTotals(NamedTuple):
    """The lengths of all text, of links, of headings and of prose from the beginning of a page, and its elements."""

    text_length: int
    linked_length: int
    heading_length: int
    prose_length: int
    num_elements: int


class PageTotals:
    """The totals of a page from its beginning to the place that a walk has reached, which is in the open elements.

    ``links`` are the counts of links. ``is_before_content`` is True until a heading or prose. The walk sets
    ``in_link``, and counts the open headings (or other labels) and the open elements with verbatim text, such as code.
    """

    __slots__ = (
        *ElementTotals._fields, "in_link", "is_before_content", "links", "num_open_headings", "num_open_verbatim",
    )  # fmt: skip

    def __init__(self) -> None:
        """Begin at the start of a page, whose root is the first element."""
        self.text_length = self.linked_length = self.heading_length = self.prose_length = 0
        self.num_elements = 1
        self.links = LinkCounts()
        self.is_before_content = True
        self.in_link = False
        self.num_open_headings = self.num_open_verbatim = 0

    @property
    def element_totals(self) -> ElementTotals:
        """The totals of text and elements."""
        return ElementTotals(
            self.text_length, self.linked_length, self.heading_length, self.prose_length, self.num_elements
        )

    def add_text(self, length: int) -> None:
        """Count a text of ``length`` characters, without white space: by the open element that it is in, or as prose.

        A short text outside links, headings and verbatim text counts only as text.
        """
        if not length:
            return
        self.text_length += length
        if self.in_link:
            self.linked_length += length
        elif self.num_open_headings:
            self.heading_length += length
        elif self.num_open_verbatim or length >= _MIN_PROSE_CHARACTERS:
            self.prose_length += length
            self.is_before_content = False

    def add_image(self, length: int) -> None:
        """Count the description of an image, ``length`` characters long, also as part of the link around it, if any."""
        self.text_length += length
        if self.in_link:
            self.linked_length += length

    def compute_stats(self, totals_before: ElementTotals, links_before: LinkCounts) -> ElementStats:
        """Return the counts of the element that ends here, given the totals at its start."""
        counts = (
            self.text_length - totals_before.text_length,
            self.linked_length - totals_before.linked_length,
            self.heading_length - totals_before.heading_length,
            self.prose_length - totals_before.prose_length,
            self.num_elements - totals_before.num_elements,
            self.is_before_content,
        )
        if self.links is links_before:
            return ElementStats(*counts)
        return LinkedElementStats(counts, links_before, self.links)

"""Detection of the parts of a page that are not content: scripts, form controls, landmarks, and navigation links.
The *content* is the page's main element. *Prose* is longer text outside links and headings. *Site links* lead to other
pages of the site. A *landmark* is a ``nav``, header or footer.

In: a page's analysis and an element. Out: the reason to leave the element out, or None. A reason needs evidence. The
element is a landmark, consists mostly of links, or is outside the content, or its links name the page's own headings or
turn pages. Inside the content, a name in ``class`` or ``id`` alone is not sufficient; it only classifies links, or
short text outside the content. Prose is always content.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import IntEnum

from selectolax.lexbor import LexborNode

from .html_analysis import HEADING_TAGS, TEXTLESS_TAGS, PageAnalysis, normalize_words
from .html_links import (
    CONTENTS_LABEL_PATTERN,
    INLINE_TAGS,
    MAX_INSPECTED_ELEMENTS,
    find_sibling,
    follows_colon,
    has_contents_label,
    has_text_beside_links,
    is_in_heading_or_code,
    is_link_bar,
    is_marked_as_action,
    is_navigation_bar,
    is_standalone,
    is_table_of_contents,
)
from .html_stats import ElementStats


class KeepLevel(IntEnum):
    """The amount of a page to keep; the reader tries the next level if nothing is left."""

    CONTENT = 0
    CONTENTS = 1  # also tables of contents
    LINKS = 2  # all but page headers and footers, pagination, and hidden elements
    ALL = 3


#: The last :class:`KeepLevel` at which each reason leaves an element out.
_MAX_KEEP_BY_REASON = {
    "table of contents": KeepLevel.CONTENT,
    "navigation": KeepLevel.CONTENTS,
    "search": KeepLevel.CONTENTS,
    "links": KeepLevel.CONTENTS,
    "links beside the content": KeepLevel.CONTENTS,
    "beside the content": KeepLevel.CONTENTS,
    "links before the title": KeepLevel.CONTENTS,
    "page header": KeepLevel.LINKS,
    "page footer": KeepLevel.LINKS,
    "pagination": KeepLevel.LINKS,
    "page controls": KeepLevel.LINKS,
    "hidden": KeepLevel.LINKS,
    "line numbers": KeepLevel.LINKS,
}
#: The minimum number of characters of prose that make an element, a hidden element, and a landmark content.
_MIN_CONTENT_PROSE = 160
_MIN_HIDDEN_PROSE = 160
_MIN_LANDMARK_PROSE = 800
#: The minimum share of the page's text that makes the prose of its header, footer or aside content.
_MIN_LANDMARK_SHARE = 0.5
#: The maximum number of characters of a teaser with its link, of fine print, of fine print that looks like prose, of
#: the separators between links that act on a page, and of a label.
_MAX_TEASER_CHARACTERS = 220
_MAX_FINE_PRINT_CHARACTERS = 500
_MAX_PROSE_FINE_PRINT_CHARACTERS = 400
_MAX_ACTION_SEPARATORS = 6
_MAX_LABEL_CHARACTERS = 40
#: Tags that can be controls (:meth:`NavigationFilter.is_control`).
CONTROL_TAGS = TEXTLESS_TAGS | {"button", "label"}
_LANDMARK_TAGS = frozenset("nav header footer aside".split())
_CONTENTS_ROLES = frozenset("doc-toc doc-pagelist directory".split())
_SECTIONING_TAGS = frozenset("article main section".split())
#: Tags whose attributes are inspected inside the content.
_TAGS_WITH_ATTRIBUTES = frozenset(
    "div section ul ol dl table td p a span form details center header footer nav aside main article menu pre tr label "
    "i sup small button".split()
)
_NAVIGATION_NAME_PATTERN = re.compile(
    r"(?:^|[\s_-])(?:(?P<navigation>nav|navs|navbar|docnav|navigation|navheader|navfooter|navlinks?|navmenu|topnav|"
    r"sidenav|bottomnav|subnav|menu|submenu|navi|breadcrumbs?|crumbs?|pagination|paginator|pager|prevnext|sitemap|"
    r"skip(?:link|nav)?|catlinks|portlet)"
    r"|(?P<contents>l?o?c?a?l?toc\d?|globaltoc|toctree|tocbox|toctitle|tableofcontents|table-of-contents|doctoc)"
    r"|(?P<aside>sidebar\w*|side|sphinxsidebar|aside|footer|foot|bottom|header|masthead|topbar|banner|related\w*|"
    r"recommend\w*|teasers?|promo\w*|more|trending|popular|latest|share|sharing|social|tags?|categories|archives?|"
    r"noprint|no-print|d-print-none|widgets?|newsletter|subscribe|cookies?|consent|advert\w*|ads?|"
    r"sponsor\w*|copyright|siteinfo)|(?P<footer>printfooter|colophon))"
    r"(?=$|[\s_-])"
)
_SHARING_PATTERN = re.compile(r"(?:^|[\s_-])(?:share|sharing|social)")  # btn-share
_UNPRINTED_PATTERN = re.compile(r"(?:^|\s)(?:noprint|no-print|d-print-none)(?:$|\s)")  # col noprint
_TEASERS_PATTERN = re.compile(
    r"(?:^|[\s_-])(?:related|recommend\w*|teasers?|promo\w*|trending|popular|latest|sponsor\w*)"
)
_OTHER_PAGES_PATTERN = re.compile(
    r"(?:related|recommended|popular|trending|latest|recent|most|more (?:from|on|stories|articles|posts|like|news)"
    r"|read (?:more|next|also)|you (?:may|might) |in this section|tags|share|follow|archives|categories)"
)
_FINE_PRINT_PATTERN = re.compile(
    r"©|\(c\)|copyright|all rights reserved|powered by|built with|made with|generated (?:by|on|with)"
    r"|last (?:updated|modified|changed|edited)\b(?=\s*(?:on|at|by|:|\d))|was last|cookies|terms of|privacy",
    re.I,
)
#: Names that generators give to line numbers of code.
LINE_NUMBERS_PATTERN = re.compile(r"(?:^|[\s_-])(?:linenos?|linenodiv|linenumbers?|line-numbers?|gutter)")
_NUMBERS_PATTERN = re.compile(r"[\d\s]+")
_HIDING_PATTERN = re.compile(r"display\s*:\s*none", re.I)  # display: none
_LABEL_TAGS = HEADING_TAGS | frozenset("p div b strong".split())
#: Tags that are part of a list of links, or a title, but never a whole list of links.
_PART_TAGS = HEADING_TAGS | frozenset("li tr td th dt dd caption summary".split())
#: Tags that can contain lists of links next to prose.
_CONTAINER_TAGS = frozenset("div section aside article main body center form".split())
_SEPARATORS_PATTERN = re.compile(r"[»›>/→|]")


class NavigationFilter:
    """The filter that decides which elements of a page are left out, and why, from the outermost to the innermost.
    ``analysis`` has the counts of the page's elements, and ``_keep`` says how much of the page to keep. A *reason* is a
    label such as ``page footer``.
    """

    def __init__(self, analysis: PageAnalysis, keep: KeepLevel) -> None:
        """Prepare the filter of the page of ``analysis``; ``keep`` is the amount of the page to keep."""
        self.analysis = analysis
        self._keep = keep
        #: Ids of elements outside the page's content element that are content because of their prose.
        self._prose_elements: set[int] = set()
        #: Ids of such elements that also contain links, and of their descendants; lists of links in them are left out.
        self._mixed_elements: set[int] = set()
        self._has_reached_content = False  # True once the walk has reached the content; fine print follows the content
        #: Ids of tables of contents that are not left out.
        self.tables_of_contents: set[int] = set()

    def enter_element(self, node: LexborNode) -> bool:
        """Record that the walk over the page enters an element, and return True if the element is content.

        It is the content element of the page, or an element outside it that has enough prose.
        """
        is_content_element = node.mem_id == self.analysis.content_id
        self._has_reached_content = self._has_reached_content or is_content_element
        return is_content_element or node.mem_id in self._prose_elements

    def is_control(self, node: LexborNode, tag: str) -> bool:
        """True if an element is not text: a script, a graphic, media, a button or the label of a checkbox.

        A button counts as text if it is a tab or in a heading, and so does the label of a checkbox in a list item.
        """
        if tag in TEXTLESS_TAGS:
            return True
        parent = node.parent
        if tag == "button":  # in a heading, it unfolds the section below it
            return node.attributes.get("role") != "tab" and not (parent is not None and parent.tag in HEADING_TAGS)
        if tag == "label" and parent is not None and parent.tag != "li":
            # A checkbox with a label shows or hides something, except in an item of a to-do list.
            return node.attributes.get("for") in self.analysis.checkbox_ids
        return False

    def find_removal_reason(self, node: LexborNode, tag: str, *, in_content: bool, in_section: bool) -> str | None:
        """Return the reason to leave an element out, such as ``navigation``, or None to keep it.

        ``in_content`` is True inside the content of the page, and ``in_section`` inside an article, section or main. A
        less strict filter (``_keep``) keeps elements in spite of some reasons; a table of contents that it keeps is
        recorded in ``tables_of_contents``.
        """
        stats = self.analysis.get_stats(node)
        if stats is None or not stats.text_length:
            return None
        if node.mem_id in self.analysis.content_path_ids:  # the content, or an element around it
            return None
        # In the content, the attributes of only some elements are inspected.
        reads_attributes = tag in _TAGS_WITH_ATTRIBUTES or not in_content
        if not reads_attributes and not stats.num_links and tag not in HEADING_TAGS:
            return None
        reason = self._find_strict_reason(
            node, tag, stats, node.attributes if reads_attributes else {}, in_content, in_section
        )
        if reason is None or self._keep <= _MAX_KEEP_BY_REASON[reason]:
            return reason
        if reason == "table of contents":
            self.tables_of_contents.add(node.mem_id)
        return None

    def _find_strict_reason(
        self,
        node: LexborNode,
        tag: str,
        stats: ElementStats,
        attributes: Mapping[str, str | None],
        in_content: bool,
        in_section: bool,
    ) -> str | None:
        """Return the reason why the strictest filter leaves an element out, or None if it keeps the element.

        ``stats`` are the counts of its text and links. ``attributes`` is empty if they are ignored. ``in_content`` is
        True inside the content of the page, and ``in_section`` inside an article, section or main.
        """
        role = class_and_id = ""
        class_match: re.Match[str] | None = None
        if attributes:
            role = (attributes.get("role") or "").lower()
            if _is_hidden(tag, attributes, role) and stats.prose_length < _MIN_HIDDEN_PROSE:
                return "hidden"
        if self.analysis.title_path_ids and node.mem_id in self.analysis.title_path_ids:
            return None  # it is, or contains, the title of the page
        if role or tag in _LANDMARK_TAGS:
            landmark_reason = self._find_landmark_reason(node, tag, stats, role, in_content, in_section)
            if landmark_reason is not None:
                return landmark_reason
            if role.startswith("doc-") and role not in _CONTENTS_ROLES:  # a part of a book, such as doc-chapter
                return None
        if attributes:
            class_and_id = _get_class_and_id(tag, attributes)
        if class_and_id:
            class_match = _NAVIGATION_NAME_PATTERN.search(class_and_id)
            if class_match is None and _is_line_numbers(node, class_and_id):
                return "line numbers"
        if stats.num_links:
            reason = self._find_reason_in_links(node, tag, stats, class_and_id, class_match, in_content)
            if reason is not None:
                return reason
        elif stats.text_length < _MAX_LABEL_CHARACTERS and tag in _LABEL_TAGS and self._is_contents_label(node):
            return "table of contents"
        if class_match is not None and _is_breadcrumbs(node, stats, class_match):
            return "navigation"
        if class_and_id and stats.text_length < _MIN_CONTENT_PROSE and _UNPRINTED_PATTERN.search(class_and_id):
            return "beside the content"
        return None if in_content else self._find_reason_outside_content(node, tag, stats, class_match)

    def _is_contents_label(self, node: LexborNode) -> bool:
        """True if an element is the label of the table of contents that follows it."""
        next_sibling = find_sibling(node, 1)
        stats = self.analysis.get_stats(next_sibling) if next_sibling is not None else None
        if stats is None or not is_table_of_contents(stats):
            return False
        return CONTENTS_LABEL_PATTERN.fullmatch(normalize_words(node.text(deep=True))) is not None

    def _find_landmark_reason(
        self, node: LexborNode, tag: str, stats: ElementStats, role: str, in_content: bool, in_section: bool
    ) -> str | None:
        """Return the reason to leave out a landmark (``nav``, ``aside``, a role), or None if it may be content.

        A header or footer is left out if it belongs to the page, not to a section or an article (``in_section``).
        ``role`` is its attribute, or empty, and ``stats`` are the counts of its text and links. ``in_content`` is True
        inside the content of the page.
        """
        if role in _CONTENTS_ROLES or (tag == "nav" and is_table_of_contents(stats)):
            return "table of contents"
        if role == "search":
            return "search"
        if tag == "nav" or role in ("navigation", "menu", "menubar", "toolbar"):
            if stats.prose_length > _MIN_LANDMARK_PROSE and stats.prose_length > stats.linked_length:
                return None
            return "table of contents" if is_table_of_contents(stats) else "navigation"
        if stats.prose_length > max(_MIN_LANDMARK_PROSE, _MIN_LANDMARK_SHARE * self.analysis.body_weight):
            return None
        if (tag == "header" and not in_section) or role == "banner":
            return "page header"
        if (tag == "footer" and not in_section) or role == "contentinfo":
            return "page footer"
        if tag == "aside" or role == "complementary":
            if not in_content and stats.prose_length < _MIN_CONTENT_PROSE:
                return "beside the content"
            leads_to_site = stats.num_site_links > 1 and 2 * stats.num_site_links > stats.num_links
            if stats.is_mostly_links and leads_to_site and _leads_to_other_pages(node):
                return "links beside the content"
        return None

    def _find_reason_in_links(
        self,
        node: LexborNode,
        tag: str,
        stats: ElementStats,
        class_and_id: str,
        class_match: re.Match[str] | None,
        in_content: bool,
    ) -> str | None:
        """Return the reason to leave out an element because of its links, or None.

        ``class_and_id`` is its class and id in lowercase. ``class_match`` is the match of ``_NAVIGATION_NAME_PATTERN``
        in them, or None. ``stats`` are the counts of its text and links. ``in_content`` is True inside the content of
        the page.
        """
        is_small_with_heading = stats.heading_length > 0 and stats.num_elements <= MAX_INSPECTED_ELEMENTS
        if in_content and is_small_with_heading and node.css_first("h1") is not None:
            return None  # the title with its byline
        if in_content and tag == "footer" and not stats.prose_length:
            return "page footer"
        if self._is_page_control(node, tag, stats, in_content):
            return "page controls"
        if tag in _PART_TAGS:  # an item or a cell is never a whole list of links
            return None
        if is_navigation_bar(stats, class_match, in_content) and not self._is_in_running_text(node, tag, stats):
            return "pagination"
        if in_content and tag in INLINE_TAGS:  # links in a sentence
            return None
        if self._is_contents_list(node, tag, stats, has_navigation_name=class_match is not None):
            return "table of contents"
        if class_match is not None and stats.unlinked_length <= stats.linked_length and not stats.prose_length:
            reason = _find_reason_in_class(tag, stats, class_and_id, class_match)
            if reason is not None or tag in ("table", "dl"):  # links in a table or a glossary are data
                return reason
        has_teasers = stats.num_site_links > 1 and stats.text_length <= _MAX_TEASER_CHARACTERS * stats.num_site_links
        if has_teasers and tag not in ("table", "dl") and _TEASERS_PATTERN.search(class_and_id):
            return "links beside the content"
        content_stats = self.analysis.stats_by_id[self.analysis.content_id]
        # If the content element has no heading or prose either, nothing shows where the content begins.
        is_before_content = stats.is_before_content and not content_stats.is_before_content
        return "links before the title" if is_before_content and is_link_bar(node, stats, tag) else None

    def _is_page_control(self, node: LexborNode, tag: str, stats: ElementStats, in_content: bool) -> bool:
        """True if an element consists of links that act on the page, such as ``edit``, and is not part of a sentence.

        ``stats`` are the counts of its text and links. ``in_content`` is True inside the content of the page.
        """
        if stats.num_action_links != stats.num_links:
            return False
        if stats.text_length - stats.linked_length > _MAX_ACTION_SEPARATORS:
            return False
        # In the content, "edit" or "source" can also be text, unless brackets or a heading before it mark the action.
        if in_content and stats.num_ambiguous_links and not is_marked_as_action(node, stats):
            return False
        return is_standalone(node, tag, stats, self.analysis)

    def _is_in_running_text(self, node: LexborNode, tag: str, stats: ElementStats) -> bool:
        """True if an element is inline, and is next to other text, or in a heading, a term or code."""
        if tag not in INLINE_TAGS:
            return False
        return not is_standalone(node, tag, stats, self.analysis) or is_in_heading_or_code(node)

    def _is_contents_list(self, node: LexborNode, tag: str, stats: ElementStats, *, has_navigation_name: bool) -> bool:
        """True if an element is a table of contents, by its label or by its links to the headings of the page.

        If its class or id names navigation (``has_navigation_name``), its links need not cover half of the headings.
        ``stats`` are the counts of its text and links.
        """
        if stats.num_links <= 1 or not (is_table_of_contents(stats) or stats.is_mostly_links):
            return False
        if has_contents_label(node, stats):
            return True
        covers_headings = (
            2 * stats.num_heading_links >= self.analysis.num_headings - 1
            and tag not in ("p", "table")
            and not follows_colon(node)
        )
        return (
            is_table_of_contents(stats)
            and (covers_headings or has_navigation_name)
            and not has_text_beside_links(node, tag, stats, self.analysis)
        )

    def _find_reason_outside_content(
        self, node: LexborNode, tag: str, stats: ElementStats, class_match: re.Match[str] | None
    ) -> str | None:
        """Return the reason to leave out an element that is not known to be content, or None to keep it.

        An element with enough prose is recorded as content (``_prose_elements``), or, if it also has links to the site,
        in ``_mixed_elements``, whose lists of links are left out. ``class_match`` is the match of
        ``_NAVIGATION_NAME_PATTERN`` in its class and id, or None. ``stats`` are the counts of its text and links.
        """
        analysis = self.analysis
        if node.parent is not None and node.parent.mem_id in self._mixed_elements:  # prose, except its lists of links
            if stats.is_mostly_links and stats.num_links > 1:
                return "links beside the content"
            self._mixed_elements.add(node.mem_id)
            return None
        is_list_of_links = stats.num_links > 1 and tag not in ("table", "dl")
        # If the page declares where its content is, weaker evidence is enough to leave out an element outside it.
        if stats.is_mostly_links and (analysis.is_content_declared or class_match is not None or is_list_of_links):
            return "links beside the content"
        has_teasers = (
            stats.num_links > 2
            and stats.num_site_links > 2
            and stats.text_length <= _MAX_TEASER_CHARACTERS * stats.num_links
        )
        if analysis.is_content_declared and has_teasers:
            return "links beside the content"
        is_small = stats.prose_length < _MIN_CONTENT_PROSE
        if is_small and (analysis.is_content_declared or class_match is not None):
            return "beside the content"
        is_short = is_small or stats.text_length < _MAX_PROSE_FINE_PRINT_CHARACTERS
        if self._has_reached_content and is_short and _is_fine_print(node, stats):
            return "beside the content"
        if not is_small and 2 * stats.prose_length > stats.text_length:
            is_mixed = stats.num_site_links > 1 and tag in _CONTAINER_TAGS
            (self._mixed_elements if is_mixed else self._prose_elements).add(node.mem_id)
        return None


def _find_reason_in_class(tag: str, stats: ElementStats, class_and_id: str, class_match: re.Match[str]) -> str | None:
    """Return the reason to leave out the links of an element because of its class or id, or None to keep them.

    ``class_and_id`` is its class and id in lowercase. ``class_match`` is the match of ``_NAVIGATION_NAME_PATTERN`` in
    them; its named group is the meaning of the name: ``contents``, ``navigation``, ``aside`` or ``footer``.
    ``stats`` are the counts of its text and links.
    """
    if class_match["contents"]:
        return "table of contents"
    if class_match["navigation"] and (stats.num_site_links or stats.num_fragment_links):
        return "navigation"
    if tag in ("table", "dl"):
        return None
    leads_to_site = stats.num_site_links > 1 and 2 * stats.num_site_links >= stats.num_links
    return "links" if leads_to_site or _SHARING_PATTERN.search(class_and_id) or class_match["footer"] else None


def _is_line_numbers(node: LexborNode, class_and_id: str) -> bool:
    """True if an element consists of the line numbers of code: it has only numbers, and a class or id for them."""
    return (
        LINE_NUMBERS_PATTERN.search(class_and_id) is not None
        and _NUMBERS_PATTERN.fullmatch(node.text(deep=True)) is not None
    )


def _is_breadcrumbs(node: LexborNode, stats: ElementStats, class_match: re.Match[str]) -> bool:
    """True if an element is the path of the page in its site, such as "Home > Lakes", by its name and separators.

    ``class_match`` is the match of ``_NAVIGATION_NAME_PATTERN`` in the class and id, and ``stats`` are the counts of
    its text and links.
    """
    return (
        "crumb" in class_match[0]
        and stats.text_length < _MIN_CONTENT_PROSE
        and not stats.prose_length
        and _SEPARATORS_PATTERN.search(node.text(deep=True)) is not None
    )


def _leads_to_other_pages(aside: LexborNode) -> bool:
    """True if the name or heading of an aside says that it leads to other pages."""
    if _TEASERS_PATTERN.search((aside.attributes.get("class") or "").lower()):
        return True
    heading = aside.css_first("h1, h2, h3, h4, h5, h6")
    return heading is not None and _OTHER_PAGES_PATTERN.match(normalize_words(heading.text(deep=True))) is not None


def is_sectioning(tag: str) -> bool:
    """True if headers and footers in an element with this tag are content, not page boilerplate."""
    return tag in _SECTIONING_TAGS


def _is_hidden(tag: str, attributes: Mapping[str, str | None], role: str) -> bool:
    """True if the attributes of an element with this ``tag`` hide it or mark it as decoration.

    A hidden tab panel (``role`` is ``tabpanel``) counts as visible, because it can be opened.
    """
    if role == "tabpanel":
        return False
    if "hidden" in attributes and attributes["hidden"] != "until-found":
        return True
    # An inline element that only screen readers skip is an icon; a block can be a title.
    if attributes.get("aria-hidden") == "true" and tag in INLINE_TAGS:
        return True
    return _HIDING_PATTERN.search(attributes.get("style") or "") is not None


def _get_class_and_id(tag: str, attributes: Mapping[str, str | None]) -> str:
    """Return the class and id in the attributes of an element, in lowercase and separated by a space.

    The id of an element that is a section by its tag or class is dropped, because it repeats the heading.
    """
    classes = (attributes.get("class") or "").lower()
    if not classes and not attributes.get("id"):
        return ""
    if tag == "section" or "level" in classes or "sect" in classes:
        return classes
    return f"{classes} {(attributes.get('id') or '').lower()}"


def _is_fine_print(node: LexborNode, stats: ElementStats) -> bool:
    """True if a short element has words of fine print, such as a copyright notice or the date of the last update.

    ``stats`` are the counts of its text.
    """
    return (
        stats.text_length < _MAX_FINE_PRINT_CHARACTERS
        and stats.num_elements <= MAX_INSPECTED_ELEMENTS
        and _FINE_PRINT_PATTERN.search(node.text(deep=True)) is not None
    )

"""Statistics of a page's elements (text, links, prose), and the location of its content.
*Prose* is longer text outside links and headings; the *weight* of an element is its text outside links. *Landmarks* are
elements with a role in the page, such as ``main`` and ``nav``.

In: the body of a parsed page. Out: a :class:`PageAnalysis`. The page is walked once with an explicit stack, so that
depth and length are safe. Counts are in characters, without white space around a text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from operator import add
from urllib.parse import urlsplit

from selectolax.lexbor import LexborHTMLParser, LexborNode

from ..text.blocks import strip_numbering
from .html_stats import ElementStats, ElementTotals, LinkCounts, LinkedElementStats, PageTotals

TEXTLESS_TAGS = frozenset(
    "script style noscript template head title meta link base input select textarea option optgroup datalist output "
    "progress meter svg canvas audio video iframe object embed applet map area annotation annotation-xml dialog "
    "menuitem".split()
)
HEADING_TAGS = frozenset("h1 h2 h3 h4 h5 h6".split())
_LABEL_TAGS = HEADING_TAGS | {"summary", "legend"}
VERBATIM_TAGS = frozenset("pre listing xmp plaintext code kbd samp tt".split())
_EMPTY_TAGS = frozenset("br hr img wbr col".split())
_UNCOUNTED_TAGS = TEXTLESS_TAGS | _EMPTY_TAGS
#: Longer links are unclosed links around prose, or whole cards.
_MAX_LINK_CHARACTERS = 300
#: The maximum length of a link text that is compared with labels.
_MAX_LABEL_CHARACTERS = 160
#: The minimum share of the text outside links that an element must hold to be the content.
_MIN_CONTENT_SHARE = 0.75
#: The same share for an element that the page declares as its content (``<main>``).
_MIN_DECLARED_SHARE = 0.3
#: The same share for the only article of a page or of its ``<main>``, and for one without the page's title.
_MIN_ARTICLE_SHARE = 0.5
_MIN_UNTITLED_ARTICLE_SHARE = 0.9
_ASIDE_LANDMARK_TAGS = frozenset("nav aside footer".split())
_PLACEMENT_TAGS = _ASIDE_LANDMARK_TAGS | {"main", "article"}
#: Elements that change how text in them is counted, or that locate the content.
_TRACKED_TAGS = _LABEL_TAGS | VERBATIM_TAGS | _PLACEMENT_TAGS | {"a", "h1"}
#: The maximum amount of prose outside the content: the fine print of a page.
_MAX_FINE_PRINT_CHARACTERS = 200
#: Tags of the content itself; the search for the content stops above them.
_FLOW_TAGS = HEADING_TAGS | frozenset("p pre blockquote dl figure".split())

#: The maximum number of candidates for the page's title, its maximum length and the maximum share of links in it, and
#: the separators between the title and the site name.
_MAX_TITLE_CANDIDATES = 500
_MAX_TITLE_CHARACTERS = 249
_MAX_TITLE_LINKED_SHARE = 0.7
#: A longer heading is not compared with links and titles.
_MAX_HEADING_CHARACTERS = 299
_TITLE_SEPARATOR_PATTERN = re.compile(r"\s[-–—|:·»]\s|:\s")  # the mark in "Green tea | Wiki"
_NON_WORD_PATTERN = re.compile(r"[\W_]+")
#: Labels of pagination links, and labels of other links of a site.
_PAGING_LABELS = frozenset(
    """
    prev previous next up home top contents index older newer back first last
    previous_page next_page previous_chapter next_chapter previous_topic next_topic previous_section next_section
    older_posts newer_posts older_post newer_post previous_post next_post previous_article next_article
    table_of_contents main_page start_page front_page
    """.split()
)
_SITE_LABELS = frozenset(
    """
    contact contact_us about about_us privacy privacy_policy terms terms_of_use terms_of_service sitemap site_map
    imprint impressum legal disclaimer download downloads login log_in sign_in sign_up register modules general_index
    module_index search feedback help news blog documentation docs
    """.split()
)
_PAGING_PATTERN = re.compile(r"(?:prev|previous|next|older|newer)\b")  # next page
_PAGING_RELATIONS = frozenset("prev next up start".split())
#: Access keys that DocBook and Texinfo give to links to the previous, next and parent pages.
_PAGING_ACCESS_KEYS = frozenset("pnuh")
_ARROWS_PATTERN = re.compile(r"[«»‹›←→⟵⟶◀▶⇦⇨❮❯<>]")
#: One-word link labels with little meaning; in brackets or after a heading, they act on a page.
_AMBIGUOUS_LABELS = frozenset("edit source src top".split())
_ACTION_PATTERN = re.compile(
    r"(?:edit|src|source|top|view source|show source|page source|back to top|permalink|view history|copy link"
    r"|(?:edit|view|show|improve|report|suggest|fork|browse|raise|open|found|print|share)\b.{0,30}"
    r"\b(?:page|source|github|gitlab|bitbucket|issue|edits|section|article|document|bug|history|typo)"
    r"|(?:skip|jump|go|back|return) to (?:the )?(?:main )?"
    r"(?:content|contents|navigation|top|main|search|menu|text|body|index)"
    r"|section titled .*|(?:direct )?link to (?:this )?(?:heading|section|definition).*|permalink to .*|anchor.{0,20}"
    r"|toggle .{1,40})"
)


def normalize_words(text: str) -> str:
    """Return the words of a short text in lowercase, separated by single spaces."""
    return _NON_WORD_PATTERN.sub(" ", text).strip().lower()


class _Landmarks:
    """The elements that can locate the content of a page, collected while the page is walked.
    They are its main elements, its articles, and its titles: each ``<h1>`` outside navigation, asides and footers.

    ``mains`` are the outermost main elements, by tag or role. ``articles`` are the outermost articles, each with True
    if it is in a main. ``ids_with_role`` has the ids of the elements with the ARIA role of a main, navigation or
    complementary landmark.
    """

    def __init__(self, body: LexborNode) -> None:
        """Find the landmarks in ``body`` that have an ARIA role; :meth:`enter` collects the others."""
        self.mains: list[LexborNode] = []
        self.articles: list[tuple[LexborNode, bool]] = []  # (article, True if it is in a main)
        self.titles: list[LexborNode] = []
        self._aside_ids = frozenset(node.mem_id for node in body.css("[role=navigation], [role=complementary]"))
        self._main_ids = frozenset(node.mem_id for node in body.css("[role=main]"))
        self.ids_with_role = self._main_ids | self._aside_ids
        self._num_open_mains = self._num_open_articles = self._num_open_asides = 0

    def enter(self, node: LexborNode, tag: str, element_id: int) -> None:
        """Record that the walk enters an element, if it is a landmark by its tag or ARIA role.

        Landmarks are main, article, navigation, aside and footer. Only outermost mains and articles are collected.
        """
        if tag == "main" or element_id in self._main_ids:
            if not self._num_open_mains:
                self.mains.append(node)
            self._num_open_mains += 1
        if tag == "article":
            if not self._num_open_articles:
                self.articles.append((node, self._num_open_mains > 0))
            self._num_open_articles += 1
        self._num_open_asides += int(tag in _ASIDE_LANDMARK_TAGS or element_id in self._aside_ids)

    def leave(self, tag: str, element_id: int) -> None:
        """Record the end of an element; :meth:`enter` recorded its beginning."""
        self._num_open_mains -= int(tag == "main" or element_id in self._main_ids)
        self._num_open_articles -= int(tag == "article")
        self._num_open_asides -= int(tag in _ASIDE_LANDMARK_TAGS or element_id in self._aside_ids)

    def add_title(self, heading: LexborNode) -> None:
        """Add an ``<h1>`` to ``titles``, unless it is in navigation, an aside or a footer."""
        if not self._num_open_asides:
            self.titles.append(heading)


class PageAnalysis:
    """The statistics of a page's elements by the parser's element id (``stats_by_id``), and the place of its content.
    ``content_id`` is the id of the content element; ``content_path_ids`` has the ids of it and its ancestors.

    ``is_content_declared`` is true if the page marks its content with ``<main>`` or ``<article>`` and has its title
    there. ``title_path_ids`` has the ids of the page's title outside the content, and of its ancestors. ``body_weight``
    is the number of characters of the page outside links.
    """

    def __init__(self, tree: LexborHTMLParser, body: LexborNode) -> None:
        """Count the text and links of all elements in the ``body`` of ``tree``, and locate the content and title."""
        self.stats_by_id: dict[int, ElementStats] = {}
        # The page declares its own site by its canonical link and its ``<base>``.
        own_links = tree.css("link[rel=canonical], base[href]")
        self._hosts = {_parse_site(node.attributes.get("href") or "") for node in own_links} - {""}
        headings = list(_iter_heading_words(body))
        self._headings = frozenset(headings)  # in normalized words
        self.num_headings = len(headings)
        #: The id attributes of checkboxes.
        self.checkbox_ids = frozenset(node.attributes.get("id") for node in body.css("input[type=checkbox][id]"))
        self._landmarks = _Landmarks(body)
        self._collect_stats(body)
        self.body_weight = self._measure_weight(body)
        declared_content = self._find_declared_content(body)
        is_declared = declared_content is not None
        content = self._guess_content(body) if declared_content is None else declared_content
        self.content_id = content.mem_id
        self.content_path_ids = frozenset(_iter_enclosing_ids(content))
        title = self._find_outside_title(tree, body, content, is_declared)
        self.title_path_ids = frozenset(_iter_enclosing_ids(title)) if title is not None else frozenset()
        self.is_content_declared = is_declared and title is None  # a declared element without the title is less certain

    def get_stats(self, node: LexborNode) -> ElementStats | None:
        """Return the counts of an element, or None for a text and for a tag without text (``br``, ``script``)."""
        return self.stats_by_id.get(node.mem_id)

    def _measure_weight(self, node: LexborNode) -> int:
        """Return the weight of an element: the number of its characters outside links."""
        stats = self.stats_by_id.get(node.mem_id)
        return 0 if stats is None else stats.text_length - stats.linked_length

    def _collect_stats(self, root: LexborNode) -> None:
        """Store the counts of ``root`` and of all elements in it in ``stats_by_id``, and collect the ``_landmarks``.

        The counts of an element are the totals of the page at its end minus the totals at its start.
        """
        landmark_ids = self._landmarks.ids_with_role
        totals = PageTotals()
        starts: list[tuple[int, ElementTotals, LinkCounts]] = []  # the ids of the open elements, and totals before them
        for node, tag, is_end in _walk(root):
            if tag == "-text":
                totals.add_text(len((node.text_content or "").strip()))
            elif tag == "img":
                totals.add_image(len((node.attributes.get("alt") or "").strip()))
            elif not is_end:
                element_id = node.mem_id
                starts.append((element_id, totals.element_totals, totals.links))
                totals.num_elements += 1
                if tag in _TRACKED_TAGS or element_id in landmark_ids:
                    self._enter(node, tag, element_id, totals)
            else:
                element_id, totals_before, links_before = starts.pop()
                if tag in _TRACKED_TAGS or element_id in landmark_ids:
                    self._leave(node, tag, element_id, totals, totals_before)
                self.stats_by_id[element_id] = totals.compute_stats(totals_before, links_before)
        self.stats_by_id[root.mem_id] = LinkedElementStats(
            (*totals.element_totals, totals.is_before_content), LinkCounts(), totals.links
        )

    def _enter(self, node: LexborNode, tag: str, element_id: int, totals: PageTotals) -> None:
        """Record the start of an element that can locate the content, or in which text is counted in another way."""
        if tag in _PLACEMENT_TAGS or element_id in self._landmarks.ids_with_role:
            self._landmarks.enter(node, tag, element_id)
        elif tag == "h1":
            self._landmarks.add_title(node)
        if tag in _LABEL_TAGS:
            totals.num_open_headings += 1
            totals.is_before_content = totals.is_before_content and tag not in HEADING_TAGS
        elif tag in VERBATIM_TAGS:
            totals.num_open_verbatim += 1
        elif tag == "a" and "href" in node.attributes:
            totals.in_link = True

    def _leave(
        self, node: LexborNode, tag: str, element_id: int, totals: PageTotals, totals_before: ElementTotals
    ) -> None:
        """Record the end of an element whose start :meth:`_enter` recorded. If it is a link, count it."""
        if tag in _PLACEMENT_TAGS or element_id in self._landmarks.ids_with_role:
            self._landmarks.leave(tag, element_id)
        if tag in _LABEL_TAGS:
            totals.num_open_headings -= 1
        elif tag in VERBATIM_TAGS:
            totals.num_open_verbatim -= 1
        elif tag == "a" and totals.in_link:
            totals.in_link = False
            length = totals.linked_length - totals_before.linked_length
            if length > _MAX_LINK_CHARACTERS:  # an overlong link is prose
                totals.linked_length -= length
                totals.prose_length += length
            else:
                totals.links = LinkCounts(*map(add, totals.links, self._count_link(node, length)))

    def _count_link(self, link: LexborNode, length: int) -> LinkCounts:
        """Return the counts (0 or 1) of one link, whose text has ``length`` characters, by its target and its label.

        A link that is longer than a label is counted by its target only: its words do not say that it is navigation.
        """
        attributes = link.attributes
        target = (attributes.get("href") or "").strip()
        num_fragment_links = num_site_links = 0
        if target.startswith("#"):
            num_fragment_links = 1
        elif not target.lower().startswith(("mailto:", "tel:", "javascript:")):
            has_host = "//" in target[:10]  # at its beginning, or after a scheme
            num_site_links = int(not has_host or _parse_site(target) in self._hosts)
        if length > _MAX_LABEL_CHARACTERS:
            return LinkCounts(num_links=1, num_site_links=num_site_links, num_fragment_links=num_fragment_links)
        text = link.text(deep=True)
        words = normalize_words(text)
        text_without_arrows = _ARROWS_PATTERN.sub(" ", text).strip(" \n\t|[]:…")
        label = "_".join(text_without_arrows.lower().split())  # "« Next page" is next_page
        is_paging = (
            label in _PAGING_LABELS
            or (_ARROWS_PATTERN.search(text) is not None and (not words or _PAGING_PATTERN.match(words) is not None))
            or (attributes.get("rel") or "").lower() in _PAGING_RELATIONS
            or (attributes.get("accesskey") or "").lower() in _PAGING_ACCESS_KEYS
        )
        return LinkCounts(
            num_links=1,
            num_site_links=num_site_links,
            num_fragment_links=num_fragment_links,
            num_heading_links=int(
                bool(num_fragment_links) and normalize_words(strip_numbering(text.strip())) in self._headings
            ),
            num_action_links=int(_ACTION_PATTERN.fullmatch(words) is not None),
            num_ambiguous_links=int(words in _AMBIGUOUS_LABELS),
            num_paging_links=int(is_paging),
            num_navigation_links=int(is_paging or label in _SITE_LABELS),
        )

    def _find_declared_content(self, body: LexborNode) -> LexborNode | None:
        """Return the element in ``body`` that the page declares to be its content, or None.

        It is the ``<main>``, or the only ``<article>`` (in the main, if there is one) if it has enough of the text.
        The result is None if there are several mains or a main with too little text, or neither a main nor such an
        article.
        """
        content = max(self._landmarks.mains, key=self._measure_weight, default=None)
        has_several_mains = len(self._landmarks.mains) > 1
        if content is not None and (has_several_mains or not self._has_enough_text(content, body)):
            return None
        articles = [article for article, in_main in self._landmarks.articles if content is None or in_main]
        container = body if content is None else content
        if len(articles) == 1:
            # Outside a main, an article without the page's title can be one part among others, so it needs nearly all
            # of the text.
            page_has_title = any(self.stats_by_id[title.mem_id].heading_length for title in self._landmarks.titles)
            lacks_title = content is None and page_has_title and articles[0].css_first("h1") is None
            min_share = _MIN_UNTITLED_ARTICLE_SHARE if lacks_title else _MIN_ARTICLE_SHARE
            if self._measure_weight(articles[0]) >= min_share * self._measure_weight(container):
                content = articles[0]
        return content

    def _has_enough_text(self, content: LexborNode, body: LexborNode) -> bool:
        """True if ``content``, the element that the page declares as its content, has a large part of the page's text.

        The text is measured with and without links, and one measure is enough. Also True if it has any text and there
        is hardly any prose outside of it. ``body`` is the whole page.
        """
        content_stats, body_stats = self.stats_by_id[content.mem_id], self.stats_by_id[body.mem_id]
        if self._measure_weight(content) >= _MIN_DECLARED_SHARE * self.body_weight:
            return True
        if content_stats.text_length >= _MIN_DECLARED_SHARE * body_stats.text_length:
            return True
        prose_outside = body_stats.prose_length - content_stats.prose_length
        return content_stats.text_length > 0 and prose_outside < _MAX_FINE_PRINT_CHARACTERS

    def _guess_content(self, body: LexborNode) -> LexborNode:
        """Return the content of a page that does not declare it: the innermost element with most of its unlinked text.

        The search descends from ``body``. It stops above paragraphs and headings, and where it would leave out prose.
        """
        node = body
        while True:
            heaviest: LexborNode | None = None  # the child with most of the text
            prose = 0
            child = node.child
            while child is not None:
                stats = self.stats_by_id.get(child.mem_id)
                if stats is not None:
                    if stats.text_length and child.tag in _FLOW_TAGS and not stats.is_mostly_links:
                        return node  # its own paragraphs would be lost if only one child were the content
                    if self._measure_weight(child) > _MIN_CONTENT_SHARE * self.body_weight:
                        heaviest = child
                    prose += stats.prose_length
                child = child.next
            if heaviest is None or heaviest.tag in ("ul", "ol", "a", "span"):
                return node
            if prose - self.stats_by_id[heaviest.mem_id].prose_length > _MAX_FINE_PRINT_CHARACTERS:
                return node  # the other children have too much prose to leave them out
            node = heaviest

    def _find_outside_title(
        self, tree: LexborHTMLParser, body: LexborNode, content: LexborNode, is_declared: bool
    ) -> LexborNode | None:
        """Return the element with the page's title if it is outside ``content``; None if it is inside or not found.

        The title is the first ``<h1>`` that is neither a link nor in navigation, if it is outside. Otherwise, it is the
        element with the text of ``<title>``, or else the ``title`` class, unless a heading has the text of ``<title>``.
        If the page declares its content (``is_declared``), an ``<h1>`` in it is sufficient, and the result is None.
        """
        # A heading without text outside links, such as the logo of the site, is not a title.
        headings = (title for title in self._landmarks.titles if self.stats_by_id[title.mem_id].heading_length)
        heading = next(headings, None)
        is_inside = heading is not None and content.mem_id in _iter_enclosing_ids(heading)
        if heading is not None and not is_inside:
            return heading
        if is_inside and is_declared:
            return None
        title_node = tree.css_first("head > title")
        title_text = title_node.text(deep=True) if title_node is not None else ""
        names = {  # the whole title, and what is between its separators, because sites add their name to it
            normalize_words(strip_numbering(name.strip()))
            for name in (title_text, *_TITLE_SEPARATOR_PATTERN.split(title_text))
        }
        title = None if names & self._headings else self._find_titled_element(names, body)
        return None if title is None or content.mem_id in _iter_enclosing_ids(title) else title

    def _find_titled_element(self, names: set[str], body: LexborNode) -> LexborNode | None:
        """Return the element that shows the title of the page, or None.

        It is the short element whose text begins with the longest of ``names``, the possible titles in normalized
        words. Without such an element, it is the first element with the ``title`` class, unless its text is too long.
        """
        title: LexborNode | None = None
        longest_length = 0
        for node in islice(body.css("h2, h3, div, p, td, span, b, font, center"), _MAX_TITLE_CANDIDATES):
            stats = self.stats_by_id.get(node.mem_id)
            if stats is None or not 0 < stats.text_length <= _MAX_TITLE_CHARACTERS:
                continue
            is_link = stats.linked_length > _MAX_TITLE_LINKED_SHARE * stats.text_length
            if is_link or stats.num_paging_links:
                continue
            text = normalize_words(node.text(deep=True, separator=" "))
            name = max((name for name in names if name and f"{text} ".startswith(f"{name} ")), key=len, default="")
            if len(name) > longest_length:
                title, longest_length = node, len(name)
        titled_node = body.css_first("div.title, p.title, td.title") if title is None else None
        stats = self.stats_by_id.get(titled_node.mem_id) if titled_node is not None else None
        if stats is not None and 0 < stats.text_length <= _MAX_TITLE_CHARACTERS:
            title = titled_node
        return title


def _walk(root: LexborNode) -> Iterator[tuple[LexborNode, str, bool]]:
    """Yield the texts, images and elements in ``root`` in order, each with its tag and with True if an element ends.

    An element is yielded at its start and at its end. Elements without text, such as scripts, are omitted. The walk has
    a stack of its own, so that a page can be nested to any depth.
    """
    open_elements: list[tuple[LexborNode, str]] = []
    node = root.child
    while node is not None or open_elements:
        if node is None:
            element, tag = open_elements.pop()
            yield element, tag, True
            node = element.next
            continue
        tag = node.tag or ""
        if tag[:1].isalpha() and tag not in _UNCOUNTED_TAGS:
            open_elements.append((node, tag))
            yield node, tag, False
            node = node.child
        else:
            if tag in ("-text", "img"):
                yield node, tag, False
            node = node.next


def _parse_site(url: str) -> str:
    """Return the site of a URL in lower case: the host with any user and port; empty if the URL has no host."""
    try:
        return (urlsplit(url).netloc or "").lower()
    except ValueError:
        return ""


def _iter_heading_words(body: LexborNode) -> Iterator[str]:
    """Yield the normalized words of each heading that is not too long, without its numbering."""
    for heading in body.css("h1, h2, h3, h4, h5, h6"):
        text = heading.text(deep=True)
        if len(text) <= _MAX_HEADING_CHARACTERS:
            yield normalize_words(strip_numbering(text.strip(" \n\t#¶§🔗")))  # without the symbol of its anchor


def _iter_enclosing_ids(node: LexborNode) -> Iterator[int]:
    """Yield the ids of an element and its ancestors up to ``<body>``, innermost first."""
    element: LexborNode | None = node
    while element is not None and element.tag not in (None, "html"):
        yield element.mem_id
        element = element.parent

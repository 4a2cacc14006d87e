"""What of a page is not its content: scripts, form controls, landmarks, and what generators mark as navigation.

In: an element. Out: whether to drop it, given how much must be kept.
"""

from __future__ import annotations

from enum import Enum

from selectolax.lexbor import LexborNode


class Keep(Enum):
    """How much of a page to keep, in the order in which a reader tries until something is left."""

    BODY = "content only"
    CONTENTS = "content and tables of contents"
    EVERYTHING = "all but scripts, form controls and page headers and footers"


def names(text: str) -> frozenset[str]:
    """The set of the words of ``text``: tags, roles or classes."""
    return frozenset(text.split())


_NEVER_TEXT = names(
    "script style noscript template head title meta link base button input select textarea option optgroup datalist "
    "output progress meter svg canvas audio video iframe object embed applet map area annotation annotation-xml "
    "dialog menuitem"
)
_LANDMARKS = names("nav aside header footer")
#: A header or footer inside one of these belongs to the content.
_SECTIONING = names("article main section")
_ROLES = names("navigation banner contentinfo search complementary menu menubar toolbar")
_CONTENTS_ROLES = names("doc-toc directory")
_NAVIGATION = names(
    "nav navbar navigation navheader navfooter nav-header nav-footer navlinks nav-links navmenu nav-menu site-nav "
    "main-nav main-navigation top-nav topnav sidenav side-nav bottom-nav menu main-menu breadcrumb breadcrumbs "
    "theme-doc-breadcrumbs sidebar sidebar-left sidebar-right left-sidebar right-sidebar side-bar sphinxsidebar "
    "pagination pager prev-next prevnext pagination-nav skip-link skip-nav skiplink skip-to-content site-header "
    "site-footer page-header-nav page-footer footer globalfooter headerlink anchor-link linenos linenumbers "
    "cookie-banner cookie-consent edit-this-page"
)
_ALWAYS_NAVIGATION = names("navheader navfooter")
_CONTENTS = names("toc doc-toc table-of-contents tableofcontents local-toc localtoc toctree-wrapper tocbox")
#: Elements whose attributes are worth reading: those that generators mark as navigation.
_MARKED = names("div section ul ol dl table td p a span form details center header footer nav aside main article")
_CONTENT_WITHIN = "h1, main, article, [role=main]"


def is_navigation(node: LexborNode, tag: str, keep: Keep, in_section: bool) -> bool:
    """Whether the element is to be dropped; ``in_section`` says that it stands in an article, section or main."""
    if tag in _NEVER_TEXT:
        return True
    if tag in _LANDMARKS and keep is not Keep.EVERYTHING and not (in_section and tag in ("header", "footer")):
        return True
    if tag not in _MARKED:
        return False
    attributes = node.attributes
    if not attributes:
        return False
    if "hidden" in attributes or attributes.get("aria-hidden") == "true":
        return keep is not Keep.EVERYTHING
    role = attributes.get("role") or ""
    marks = {*(attributes.get("class") or "").lower().split(), (attributes.get("id") or "").lower()}
    if marks & _ALWAYS_NAVIGATION:
        return True
    if keep is Keep.EVERYTHING:
        return False
    if keep is Keep.BODY and is_contents(node, tag):
        return True
    # A wrapper with a class like "sidebar" around the whole page is no sidebar.
    return role in _ROLES or (not marks.isdisjoint(_NAVIGATION) and node.css_first(_CONTENT_WITHIN) is None)


def is_contents(node: LexborNode, tag: str) -> bool:
    """Whether the element is a table of contents."""
    if tag not in _MARKED:
        return False
    attributes = node.attributes
    marks = {*(attributes.get("class") or "").lower().split(), (attributes.get("id") or "").lower()}
    return (
        (attributes.get("role") or "") in _CONTENTS_ROLES
        or not marks.isdisjoint(_CONTENTS)
        or {"contents", "topic"} <= marks
    )


def is_sectioning(tag: str) -> bool:
    """Whether headers and footers inside the element belong to the content."""
    return tag in _SECTIONING

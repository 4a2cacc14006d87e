"""Imitations of the pages of generators and sites, written by hand around the chapters of the manual in ``source.py``.
A *shape* is everything around the text, such as navigation, and the *templates* of boxes, code and other parts.

Out: the pages. Only the words of the source are content.
"""

# ruff: noqa: E501  (markup is as generators write it)
from __future__ import annotations

from collections.abc import Iterator

from . import source
from .generated import Page
from .source import Chapter, render_html

_LINKS = "".join(
    f'<li><a href="{chapter.name}.html">{chapter.title}</a></li>' for chapter in source.MANUAL
)  # what a site links to on every page


def _render_toc(chapter: Chapter) -> str:
    """Return a list of links to the headings of a chapter."""
    headings = [part for part in chapter.parts if isinstance(part, source.Heading) and part.level > 1]
    return "".join(f'<li><a href="#s{index}">{part.text}</a></li>' for index, part in enumerate(headings))


def _render_body(chapter: Chapter, **templates: str) -> str:
    """Return the parts of a chapter below its title as HTML, with templates as in :func:`render_html`."""
    return render_html(Chapter(chapter.name, chapter.parts[1:]), **templates)


def _render_asciidoctor(chapter: Chapter) -> str:
    """Return a page as Asciidoctor writes it."""
    text = _render_body(
        chapter,
        box='<div class="sidebarblock"><div class="content"><div class="title">{title}</div><div class="paragraph"><p>'
        "{text}</p></div></div></div>",
        code='<div class="listingblock"><div class="content"><pre class="highlight"><code data-lang="{language}">{code}'
        "</code></pre></div></div>",
        terms='<dt class="hdlist1">{term}</dt><dd><p>{text}</p></dd>',
        figure='<div class="imageblock"><div class="content"><img src="b.png" alt="{alt}"></div><div class="title">'
        "{caption}</div></div>",
        footnote='<p><sup class="footnote">[<a href="#_footnotedef_1">1</a>]</sup></p><div id="footnotes"><hr><div '
        'class="footnote" id="_footnotedef_1"><a href="#_footnoteref_1">1</a>. {text}</div></div>',
    )
    return (
        f'<body class="article toc2"><div id="header"><h1>{chapter.title}</h1><div id="toc" class="toc2"><div '
        f'id="toctitle">Table of Contents</div><ul class="sectlevel1">{_render_toc(chapter)}</ul></div></div><div '
        f'id="content"><div class="sect1">{text}</div></div><div id="footer"><div id="footer-text">Last updated '
        "2024-05-01 10:00:00 UTC</div></div></body>"
    )


def _render_docbook(chapter: Chapter) -> str:
    """Return a page as the DocBook stylesheets write it."""
    text = _render_body(
        chapter,
        box='<div class="{kind}" style="margin-left: 0.5in"><h3 class="title">{title}</h3><p>{text}</p></div>',
        terms='<dt><span class="term">{term}</span></dt><dd><p>{text}</p></dd>',
        footnote='<p><a href="#ftn.1"><sup>[1]</sup></a></p><div class="footnotes"><br><hr><div id="ftn.1" '
        'class="footnote"><p><a href="#i1" class="para"><sup class="para">[1] </sup></a>{text}</p></div></div>',
    )
    navigation_row = (
        '<tr><td><a accesskey="p" href="index.html">Prev</a></td><td><a accesskey="u" href="index.html">Up</a></td>'
        '<td><a accesskey="n" href="weather.html">Next</a></td></tr>'
    )
    return (
        f'<body><div class="navheader"><table><tr><th colspan="3">Chapter 2. The days</th></tr>{navigation_row}</table><hr>'
        f'</div><div class="chapter"><div class="titlepage"><h1 class="title">{chapter.title}</h1></div><div class="toc">'
        f'<p><b>Table of Contents</b></p><ul>{_render_toc(chapter)}</ul></div>{text}</div><div class="navfooter"><hr><table>'
        f"{navigation_row}<tr><td>The station </td><td><a accesskey='h' href='index.html'>Home</a></td><td> Chapter 3. Weather"
        "</td></tr></table></div></body>"
    )


def _render_mediawiki(chapter: Chapter) -> str:
    """Return a page of MediaWiki with its sidebar, tabs and footer."""
    text = _render_body(
        chapter,
        heading='<h{level}><span class="mw-headline" id="x">{text}</span><span class="mw-editsection"><span>[</span>'
        '<a href="/w/index.php?action=edit&amp;section=1" title="Edit section">edit</a><span>]</span></span></h{level}>',
        figure='<div class="thumb tright"><div class="thumbinner"><a href="/wiki/File:B.png"><img alt="{alt}" src="b.png">'
        '</a><div class="thumbcaption">{caption}</div></div></div>',
        footnote='<p><sup class="reference"><a href="#n1">[1]</a></sup></p><ol class="references"><li id="n1"><span '
        'class="mw-cite-backlink"><b><a href="#r1">^</a></b></span> <span class="reference-text">{text}</span></li></ol>',
    )
    return (
        '<body><div id="mw-page-base"></div><div id="content" class="mw-body"><a id="top"></a><h1 id="firstHeading">'
        f'{chapter.title}</h1><div id="bodyContent"><div id="siteSub" class="noprint">From the station wiki</div><a class="mw-jump-link" '
        'href="#mw-head">Jump to navigation</a><a class="mw-jump-link" href="#searchInput">Jump to search</a><div '
        f'id="toc" class="toc"><div class="toctitle"><h2>Contents</h2></div><ul>{_render_toc(chapter)}</ul></div>{text}'
        '<div class="printfooter">Retrieved from "<a href="/w/index.php?oldid=7">/w/index.php?oldid=7</a>"</div>'
        '<div id="catlinks" class="catlinks"><a href="/wiki/Special:Categories">Categories</a>: <ul><li><a '
        'href="/wiki/Category:Lamps">Lamps</a></li><li><a href="/wiki/Category:Towers">Towers</a></li></ul></div></div>'
        '</div><div id="mw-navigation"><h2>Navigation menu</h2><div id="mw-panel"><div class="portal" role="navigation">'
        f'<h3>Navigation</h3><ul>{_LINKS}<li><a href="/wiki/Special:Random">Random page</a></li></ul></div></div></div>'
        '<div id="footer" role="contentinfo"><ul><li>This page was last edited on 3 May 2024, at 10:00.</li><li>Content '
        "is available under a free licence unless otherwise noted.</li></ul></div></body>"
    )


def _render_blog(chapter: Chapter) -> str:
    """Return an entry of a blog with its menus, sharing links and related entries."""
    return (
        '<body><div class="skip"><a href="#main">Skip to content</a></div><header class="site-header"><h1><a href="/">The '
        'station blog</a></h1><p>Letters from the rock</p><nav><ul><li><a href="/">Home</a></li><li><a href="/about">'
        'About</a></li><li><a href="/archive">Archive</a></li></ul></nav></header><div class="wrapper"><article '
        f'class="post"><header><h1 class="entry-title">{chapter.title}</h1></header><div class="entry-content">'
        f'{_render_body(chapter)}</div><footer class="entry-footer"><span class="cat-links"><a href="/c/lamps">Lamps</a>'
        '</span><span class="tags-links"><a href="/t/oil">oil</a><a href="/t/night">night</a></span></footer></article>'
        '<nav class="post-navigation"><a rel="prev" href="/a">A quiet week</a><a rel="next" href="/b">New ropes</a></nav>'
        '<aside class="sidebar"><section class="widget"><h2>Recent posts</h2><ul>'
        f'{_LINKS}</ul></section><section class="widget"><h2>Archives</h2><ul><li><a href="/2024/05">May 2024</a></li><li>'
        '<a href="/2024/04">April 2024</a></li></ul></section></aside></div><footer class="site-footer"><p>© 2024 The '
        "keepers. Proudly powered by steam.</p></footer></body>"
    )


def _render_news(chapter: Chapter) -> str:
    """Return an article of a news site with its teasers and fine print."""
    teasers = "".join(
        f'<li><a href="/news/{index}"><img src="t.jpg" alt=""><h3>{title}</h3></a><p>{teaser}</p></li>'
        for index, (title, teaser) in enumerate(
            (
                ("Harbour dues rise again", "The council votes on Tuesday."),
                ("Ferry back in service", "Twice a day from Monday."),
                ("Gull counted for the first time", "A hundred volunteers came."),
            )
        )
    )
    return (
        '<body><header role="banner"><a href="/" class="logo">The Coast Courier</a><nav aria-label="Sections"><a href="/n">'
        'News</a><a href="/s">Sport</a><a href="/w">Weather desk</a></nav></header><main><div class="breadcrumbs"><a '
        f'href="/">Home</a> › <a href="/n">News</a></div><article><h1>{chapter.title}</h1><div class="share"><a '
        'href="https://s.example/1">Share on one</a><a href="https://s.example/2">Share on two</a></div>'
        f'{_render_body(chapter)}</article><section class="related"><h2>Related stories</h2><ul>{teasers}</ul></section>'
        '<aside class="most-read"><h2>Most read</h2><ol><li><a href="/1">Storm sinks two boats</a></li><li><a href="/2">Old '
        "lens found in attic</a></li></ol></aside></main><footer><p>Terms and conditions apply to everything.</p><ul><li><a "
        'href="/privacy">Privacy</a></li><li><a href="/contact">Contact</a></li></ul></footer></body>'
    )


def _render_docutils(chapter: Chapter) -> str:
    """Return a page as docutils writes it with a table of contents."""
    text = _render_body(
        chapter,
        box='<aside class="{kind}"><p class="{kind}-title">{title}</p><p>{text}</p></aside>',
        footnote='<p><a class="brackets" href="#f1" id="r1" role="doc-noteref"><span class="fn-bracket">[</span>1<span '
        'class="fn-bracket">]</span></a></p><aside class="footnote-list brackets"><aside class="footnote brackets" id="f1" '
        'role="doc-footnote"><span class="label"><span class="fn-bracket">[</span><a role="doc-backlink" href="#r1">1</a>'
        '<span class="fn-bracket">]</span></span><p>{text}</p></aside></aside>',
    )
    return (
        f'<body><main><h1 class="title">{chapter.title}</h1><nav class="contents" id="contents" role="doc-toc"><p '
        f'class="topic-title"><a class="reference internal" href="#top">Contents</a></p><ul>{_render_toc(chapter)}</ul></nav>'
        f'{text}</main><footer><p>Generated on: 2024-05-01. Generated by <a href="https://d.example">Docutils</a>.</p>'
        "</footer></body>"
    )


def _render_sphinx(chapter: Chapter) -> str:
    """Return a page as Sphinx writes it with Alabaster and other themes whose sidebar follows the text."""
    text = render_html(
        chapter,
        heading='<section id="navigation"><h{level}>{text}<a class="headerlink" href="#x" title="Link to this heading">¶</a>'
        "</h{level}></section>",
        box='<div class="admonition {kind}"><p class="admonition-title">{title}</p><p>{text}</p></div>',
        code='<div class="highlight-{language} notranslate"><div class="highlight"><pre><span></span>{code}</pre></div></div>',
        figure='<figure class="align-default"><img alt="{alt}" src="b.png"><figcaption><p><span class="caption-text">{caption}'
        '</span><a class="headerlink" href="#y">¶</a></p></figcaption></figure>',
        footnote='<p><a class="footnote-reference brackets" href="#f1">1</a></p><aside class="footnote brackets" '
        'role="doc-footnote"><span class="label">[<a role="doc-backlink" href="#r1">1</a>]</span><p>{text}</p></aside>',
    )
    return (
        '<body><div class="document"><div class="documentwrapper"><div class="bodywrapper"><div class="body" role="main">'
        f'{text}</div></div></div><div class="sphinxsidebar" role="navigation"><div class="sphinxsidebarwrapper"><h1 '
        f'class="logo"><a href="index.html">Station</a></h1><h3>Navigation</h3><ul>{_LINKS}</ul><div class="relations"><h3>'
        'Related Topics</h3><ul><li>Previous: <a href="a.html">Welcome</a></li></ul></div><search id="searchbox" role="search">'
        '<h3>Quick search</h3><form><input><input type="submit" value="Go"></form></search></div></div></div><div '
        'class="footer">&#169;2024, The keepers. | Powered by <a href="https://s.example">Sphinx 8</a> | <a '
        'href="_sources/a.rst.txt" rel="nofollow">Page source</a></div></body>'
    )


def _render_material(chapter: Chapter) -> str:
    """Return a page as Material for MkDocs writes it, with its navigation."""
    text = render_html(
        chapter,
        heading='<h{level} id="x">{text}<a class="headerlink" href="#x" title="Permanent link">&para;</a></h{level}>',
        box='<div class="admonition {kind}"><p class="admonition-title">{title}</p><p>{text}</p></div>',
        code='<div class="language-{language} highlight"><table class="highlighttable"><tr><td class="linenos"><div '
        'class="linenodiv"><pre><span></span><span class="normal">11</span>\n<span class="normal">12</span></pre></div></td>'
        '<td class="code"><div><pre><span></span><code>{code}</code></pre></div></td></tr></table></div>',
        footnote='<p><sup id="fnref:1"><a class="footnote-ref" href="#fn:1">1</a></sup></p><div class="footnote"><hr><ol>'
        '<li id="fn:1"><p>{text}&#160;<a class="footnote-backref" href="#fnref:1">&#8617;</a></p></li></ol></div>',
    )
    return (
        '<body><input type="checkbox" id="__drawer"><label class="md-overlay" for="__drawer"></label><div><a href="#x" '
        'class="md-skip">Skip to content</a></div><header class="md-header"><nav><div>Station</div><form><input></form></nav>'
        '</header><div class="md-container"><main class="md-main"><div class="md-main__inner"><div class="md-sidebar '
        f'md-sidebar--primary"><nav><label for="__drawer">Station</label><ul>{_LINKS}</ul></nav></div><div class="md-sidebar '
        f'md-sidebar--secondary"><nav aria-label="Table of contents"><label>Table of contents</label><ul>{_render_toc(chapter)}</ul>'
        f'</nav></div><div class="md-content"><article class="md-content__inner md-typeset"><a href="edit" title="Edit this '
        f'page" class="md-content__button md-icon"><svg></svg></a>{text}</article></div></div><button hidden>Back to top'
        '</button></main><footer class="md-footer"><nav><a href="a" rel="prev"><span>Previous</span><div>The station</div></a>'
        '</nav><div class="md-copyright">Copyright 2024 The keepers. Made with <a href="https://m.example">Material</a></div>'
        "</footer></div></body>"
    )


def _render_starlight(chapter: Chapter) -> str:
    """Return a page as Starlight writes it, with its navigation."""
    text = render_html(
        chapter,
        heading='<div class="sl-heading-wrapper"><h{level} id="x">{text}</h{level}><a class="sl-anchor-link" href="#x"><span '
        'aria-hidden="true"><svg></svg></span><span class="sr-only">Section titled “{text}”</span></a></div>',
        box='<aside aria-label="{title}" class="starlight-aside starlight-aside--{kind}"><p class="starlight-aside__title" '
        'aria-hidden="true">{title}</p><div class="starlight-aside__content"><p>{text}</p></div></aside>',
        code='<div class="expressive-code"><figure class="frame"><figcaption class="header"></figcaption><pre '
        'data-language="{language}"><code>{code}</code></pre><div class="copy"><button title="Copy to clipboard"></button></div>'
        "</figure></div>",
    )
    return (
        '<body><a href="#_top">Skip to content</a><div class="page"><header class="header"><a href="/">Station</a>'
        '<site-search><button>Search</button></site-search></header><nav class="sidebar" aria-label="Main"><ul>'
        f'{_LINKS}</ul></nav><div class="main-frame"><div class="right-sidebar-panel"><starlight-toc><nav><h2>On this page</h2>'
        f'<ul>{_render_toc(chapter)}</ul></nav></starlight-toc></div><div class="main-pane"><main><div class="content-panel"><div '
        f'class="sl-markdown-content">{text}</div><footer class="sl-flex"><div class="meta"><a href="https://g.example/edit">Edit '
        'page</a></div><div class="pagination-links"><a href="/a" rel="prev"><svg></svg><span>Previous<br><span '
        'class="link-title">Ropes</span></span></a></div></footer></div></main></div></div></div></body>'
    )


def _render_old_page(chapter: Chapter) -> str:
    """Return a page in the style of the 1990s: links in a table and at the end, no landmarks and no classes."""
    link_bar = (
        '<a href="i.html"><b>Home</b></a><a href="p.html"><b>Prev</b></a><a href="n.html"><b>Next</b></a><a href="d.html">'
        "<b>Download</b></a>"
    )
    return (
        f'<body bgcolor="white"><table width="100%"><tr><td>{link_bar}</td></tr></table><center><font size="+3"><h1>'
        f"{chapter.title}</h1></font></center>{_render_body(chapter)}<hr><p>{link_bar}</p></body>"
    )


SHAPES = {
    "asciidoctor": _render_asciidoctor,
    "docbook": _render_docbook,
    "mediawiki": _render_mediawiki,
    "blog": _render_blog,
    "news": _render_news,
    "docutils shape": _render_docutils,
    "sphinx shape": _render_sphinx,
    "material shape": _render_material,
    "starlight shape": _render_starlight,
    "no landmarks": _render_old_page,
}


def iter_pages() -> Iterator[Page]:
    """Yield every chapter of the manual as a page in every shape."""
    for name, render in SHAPES.items():
        for chapter in source.MANUAL:
            markup = f"<!DOCTYPE html><html><head><title>{chapter.title}</title></head>{render(chapter)}</html>"
            yield Page(name, chapter.name, markup.encode(), source.list_words(chapter))

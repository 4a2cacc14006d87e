"""Markdown inside a block as plain text on one line, as a browser shows it.

In: a piece of Markdown. Out: its text without syntax, HTML tags, images, footnotes, link addresses and struck-out
text. Code and formulas keep their characters.
"""

from __future__ import annotations

import re
from html import unescape
from html.entities import html5

from ..text.blocks import remove_struck_text, to_plain_text, unwrap_links
from ..text.patterns import compile_lazily

#: The markers of list items and block quotes at the start of a text, such as ``-``, ``2.`` and ``(a)``.
#: The label of an item in parentheses: a letter, a number or a Roman number.
ITEM_LABEL_PATTERN = compile_lazily(r"\((?:[a-z]|\d{1,3}|[ivx]{1,5})\)(?=\s)")
_MARKER_PATTERN = compile_lazily(rf"^(?:\s*(?:[-*+•>]|\d+[.)]|{ITEM_LABEL_PATTERN.pattern})\s+)+")
#: The marks of a block quote, which can be nested, at the start of a line, but not the prompt of Python.
QUOTE_PATTERN = compile_lazily(r"^(?:[ \t]*>(?!>>)[ \t]?)+", re.MULTILINE)
#: The marker of a definition on the line below its term, as in PHP Markdown Extra.
_DEFINITION_MARKER_PATTERN = compile_lazily(r"(?<![ \t])[ \t]*\n {0,3}:[ \t]+")
#: The first line of an alert of GitHub Markdown, or of a callout of Obsidian, which can be folded.
_ALERT_PATTERN = compile_lazily(r"^\s*\[!([A-Za-z]{2,20})\][-+]?\s*")
#: The fences of a container of Docusaurus, VitePress or Pandoc; the first one names its kind and can have a title.
_CONTAINER_PATTERN = compile_lazily(r"^\s*:{3,}[ \t]*\{?\.?([A-Za-z][\w-]*)\}?[ \t]*(?:\[([^\]\n]*)\]|([^\n]*))\n")
_CONTAINER_END_PATTERN = compile_lazily(r"\n:{3,}[ \t]*$")
#: The hyphen and line end inside a word that a formatter hyphenated.
_HYPHENATION_PATTERN = compile_lazily(r"(?<=\w)[\u2010\u00ad]\s*\n\s*")
#: The dots between two columns, unless a page number follows them.
_LEADER_PATTERN = compile_lazily(r"(?<=[\w)%])[ \t]*\.{4,}[ \t]*(?=\S)(?!\.|\d{1,4}[ \t]*$)", re.MULTILINE)
#: Code in a line, formulas with commands of LaTeX, and a star outside both that is not emphasis: between two operands
#: or digits ("25*388104"), or before a number.
_CODE_SPAN_PATTERN = compile_lazily(r"(?<!`)(`{1,2})(?!`)([^`\n]+)\1(?!`)")
_DOLLARS_PATTERN = compile_lazily(r"(?<![\\$])(\$\$?)(?=[^\s$])(?:[^$\\\n\x01]|\\.){1,1000}?(?<=\S)\1(?![\d$])")
_LATEX_COMMAND_PATTERN = compile_lazily(r"\\[A-Za-z,;:!{]")
_HIDDEN_CODE_PATTERN = compile_lazily(r"\x01(\d+)\x01")
_SPECIAL_CHARACTER_PATTERN = compile_lazily(r"[*`\\]")
_LITERAL_STAR_PATTERN = compile_lazily(
    r"(?<=[\w)] )\*(?= [\w(])|(?<=\d)\*(?=\d)|(?<![*\\\w])\*(?=\d[^*]*\Z|\d[^\s*]*#)"
)
#: Marks that a page shows differently or not at all: tags of site generators, footnote numbers, attributes of headings,
#: images, HTML comments, and the tags of HTML elements that separate or only style text.
_TEMPLATE_TAG_PATTERN = compile_lazily(r"\{%.{0,300}?%\}|\{\{[<%].{0,300}?[>%]\}\}", re.DOTALL)
_ATTRIBUTE_PATTERN = compile_lazily(r"\s*\{:?\s*[#.][^{}\n]*\}\s*$")
_FOOTNOTE_PATTERN = compile_lazily(r"^\s*\[\^[^\]\s]{1,40}\]:\s*|\[\^[^\]\s]{1,40}\]")
_INLINE_FOOTNOTE_PATTERN = compile_lazily(r"\^\[([^\[\]\n]+)\]")
_HIGHLIGHT_PATTERN = compile_lazily(r"(?<![\w=])==(?=[^\s=])([^=\n]*[^\s=])==(?![\w=])")
_BRACKETED_LINK_PATTERN = compile_lazily(r"\[\[([^\[\]\n]+)\]\](?=\()")
IMAGE_PATTERN = compile_lazily(r"!\[[^\[\]\n]*\](?:\([^()\n]*(?:\([^()\n]*\)[^()\n]*)*\)|\[[^\[\]\n]*\])")
_BLOCK_TAG_PATTERN = compile_lazily(
    r"<!--.*?-->|</?(?:br|center|details|div|figure|figcaption|hr|img|li|ol|p|summary|t[dhr]|table|tbody|thead|ul)"
    r"(?:\s[^<>]*)?/?>",
    re.DOTALL | re.IGNORECASE,
)
_STYLE_TAG_PATTERN = compile_lazily(
    r"</?(?:a|abbr|b|em|font|i|kbd|mark|s|small|span|strong|sub|sup|u)(?:\s[^<>]*)?/?>", re.IGNORECASE
)
_AUTOLINK_PATTERN = compile_lazily(r"<((?:https?://|mailto:)[^<>\s]+)>")
_REFERENCE_PATTERN = compile_lazily(r"&(?:#\d{1,7}|#[xX][\da-fA-F]{1,6}|[A-Za-z][A-Za-z\d]{1,31});")
_UNDERSCORE_PATTERN = compile_lazily(r"(?<![\w\\/])(_{1,3})(?=[^\s_])([^_\n]*(?:\n[^_\n]+)*)(?<=[^\s_])\1(?![\w/])")


def render_inline(markdown: str) -> str:
    """Return Markdown as the plain text on one line that a browser shows: without syntax, tags, images and addresses.

    >>> render_inline("Dial *21#, says [[people/Kees|Kees]];\\n> `**options` are *not* needed for 2 * 3.")
    'Dial *21#, says Kees; **options are not needed for 2 * 3.'
    >>> render_inline("{{< note >}} See _the_ [table](t.md#x) of <b>fees</b>[^2], not `<b>`. ![Fees](f.png)")
    'See the table of fees, not <b>.'
    >>> render_inline("The [`fee` of\\nthe pier](f.md) [[1]](g.md) is `[a](b)` &lt; 3&nbsp;pounds &amp; not &fee;.")
    'The fee of the pier 1 is [a](b) < 3 pounds & not &fee;.'
    >>> render_inline("> [!NOTE]\\n> Fees rise in May.")
    'Note: Fees rise in May.'
    >>> render_inline(":::tip Fees\\nThey ==rise==^[By 2 %.] if a==b.\\n:::"), render_inline("[^1]: In May.")
    ('Fees: They rise (By 2 %.) if a==b.', 'In May.')
    >>> render_inline("Match `\\\\d+\\\\.` at $20\\\\,^\\\\circ$C the oven\\\\_a costs $5 \\\\- $9.")
    'Match \\\\d+\\\\. at $20\\\\,^\\\\circ$C the oven_a costs $5 - $9.'
    >>> render_inline("Pay ~~half~~, ~~in May~~ by `~~card~~`."), render_inline("- ~~Pay half~~.")
    ('Pay, by ~~card~~.', '')
    >>> render_inline("Raffle ....... Ann"), render_inline("Raffle ....... 12")
    ('Raffle: Ann', 'Raffle ....... 12')
    """
    if "...." in markdown:
        markdown = _LEADER_PATTERN.sub(": ", markdown)
    markdown = _HYPHENATION_PATTERN.sub("", QUOTE_PATTERN.sub("", markdown))
    markdown = _DEFINITION_MARKER_PATTERN.sub(": ", markdown)
    markdown = _ALERT_PATTERN.sub(lambda alert: f"{alert.group(1).capitalize()}: ", markdown, count=1)
    if ":::" in markdown:
        markdown = _CONTAINER_END_PATTERN.sub("", _CONTAINER_PATTERN.sub(_label_container, markdown, count=1))
    has_formula = "$" in markdown and "\\" in markdown
    if "`" in markdown or has_formula:
        return _render_with_code(markdown, has_formula=has_formula)
    return to_plain_text(_strip_markup(markdown))


def _render_with_code(markdown: str, *, has_formula: bool) -> str:
    """Return Markdown with code in backticks, or with LaTeX formulas, as plain text; both keep their characters.

    Numbers replace the code, because links and emphasis can contain code, but nothing in code is markup.
    """
    codes: list[str] = []

    def hide_text(text: str) -> str:
        """Append code or a formula to ``codes``, and return a placeholder with its index."""
        codes.append(text)
        return f"\1{len(codes) - 1}\1"

    markdown = _CODE_SPAN_PATTERN.sub(lambda span: hide_text(span.group(2)), markdown.replace("\1", ""))
    if has_formula:
        markdown = _DOLLARS_PATTERN.sub(
            lambda span: hide_text(span.group()) if _LATEX_COMMAND_PATTERN.search(span.group()) else span.group(),
            markdown,
        )
    text = to_plain_text(_strip_markup(markdown))
    return " ".join(_HIDDEN_CODE_PATTERN.sub(lambda number: codes[int(number.group(1))], text).split())


def _strip_markup(text: str) -> str:
    """Return Markdown without tags, images, footnotes, link addresses and emphasis by ``_``; emphasis by ``*`` is kept.

    ``text`` has no code. Tags are HTML tags and template tags (``{{< note >}}``). Literal stars, as in 2 * 3, are
    escaped. Character references (CommonMark 0.31, section 2.5) are replaced by their characters.
    """
    if "{" in text:
        text = _ATTRIBUTE_PATTERN.sub("", _TEMPLATE_TAG_PATTERN.sub(" ", text))
    if "[" in text:
        # The text of a link can continue on the next line, and can be in brackets of its own.
        text = IMAGE_PATTERN.sub("", text.replace("\n", " "))
        text = _INLINE_FOOTNOTE_PATTERN.sub(r" (\1)", _FOOTNOTE_PATTERN.sub("", text)) if "^" in text else text
        text = unwrap_links(_BRACKETED_LINK_PATTERN.sub(r"[\1]", text))
    if "<" in text:
        text = _AUTOLINK_PATTERN.sub(r"\1", _STYLE_TAG_PATTERN.sub("", _BLOCK_TAG_PATTERN.sub(" ", text)))
    if "_" in text:
        text = _UNDERSCORE_PATTERN.sub(r"\2", text).replace("\\_", "_")
    if "==" in text:
        text = _HIGHLIGHT_PATTERN.sub(r"\1", text)
    if "~~" in text:
        text = remove_struck_text(text)
        if not any(map(str.isalnum, strip_item_marker(f"{text} "))):  # only struck-out text
            return ""
    if "&" in text:
        text = _REFERENCE_PATTERN.sub(_decode_reference, text)
    return _LITERAL_STAR_PATTERN.sub(r"\\*", text) if "*" in text else text


def _label_container(fence: re.Match[str]) -> str:
    """Return the title of a container, or its kind, as a label of the text in it."""
    kind, bracketed_title, title = fence.groups()
    return f"{(bracketed_title or title or kind.capitalize()).strip().rstrip(':')}: "


def _decode_reference(match: re.Match[str]) -> str:
    """Return the character of a matched reference (``&lt;``), escaped if it would be markup; an unknown one is kept."""
    reference = match.group()
    if reference[1] != "#" and reference[1:] not in html5:
        return reference
    return _SPECIAL_CHARACTER_PATTERN.sub(r"\\\g<0>", unescape(reference))


def strip_item_marker(piece: str) -> str:
    """Return a piece of text without the markers of list items and block quotes that it begins with."""
    return _MARKER_PATTERN.sub("", piece)

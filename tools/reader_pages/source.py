"""The source of test pages: a small manual as a list of parts, which can be rendered in several markup languages. A
*part* is a heading, a paragraph, a box (such as a note), a table or another block.

Out: :data:`MANUAL`, the chapters, and functions that return a chapter in a markup language or as words. Every chapter
has parts that readers often lose: notes and other boxes beside the text, code with a lead-in, terms and definitions,
options, tables, footnotes, captions, lists of links.
"""

from __future__ import annotations

import html as escaping
import re
from dataclasses import dataclass
from typing import TypeAlias

_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Heading:
    level: int
    text: str


@dataclass(frozen=True)
class Paragraph:
    text: str


@dataclass(frozen=True)
class Box:
    """A note, tip or warning, or with another title a sidebar or topic."""

    kind: str
    title: str
    text: str


@dataclass(frozen=True)
class Code:
    language: str
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Terms:
    """A definition list; with ``options`` a list of command-line options."""

    pairs: tuple[tuple[str, str], ...]
    options: bool = False


@dataclass(frozen=True)
class Items:
    """A list; with ``links`` each item is a link to another page, with ``numbered`` it is an ordered one."""

    items: tuple[str, ...]
    links: bool = False
    numbered: bool = False


@dataclass(frozen=True)
class Table:
    caption: str
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Figure:
    alt: str
    caption: str


@dataclass(frozen=True)
class Footnote:
    text: str


Part: TypeAlias = "Heading | Paragraph | Box | Code | Terms | Items | Table | Figure | Footnote"


@dataclass(frozen=True)
class Chapter:
    """A page of the manual, under a name without spaces."""

    name: str
    parts: tuple[Part, ...]

    @property
    def title(self) -> str:
        """The text of the first heading."""
        return next(part.text for part in self.parts if isinstance(part, Heading))


MANUAL = (
    Chapter(
        "lamps",
        (
            Heading(1, "Keeping the lamps"),
            Paragraph(
                "A lamp that goes out at night is worse than no lamp at all, because the boats steer by it until the "
                "moment it fails. This chapter tells how the lamps of the station are lit, trimmed and watched."
            ),
            Box("note", "Note", "The keeper on watch signs the book every hour, even when nothing has happened."),
            Heading(2, "Lighting"),
            Paragraph("Fill the tank first, then light every lamp from the north side. The command for it is short:"),
            Code("sh", ("lampctl light --tower north", "lampctl status --brief")),
            Paragraph("If the status names a tower twice, its wick burns at both ends and has to be cut."),
            Heading(3, "Terms of the trade"),
            Terms(
                (
                    ("Wick", "The braided cotton that draws oil up to the flame."),
                    ("Burner", "What holds the wick, and lets the air in from below."),
                    ("Lens", "A ring of prisms that bends the light into one beam."),
                )
            ),
            Box(
                "sidebar",
                "Why whale oil was given up",
                "Whale oil thickened in the cold, so that in January the keepers warmed it over a stove. Colza oil did "
                "not, and it cost half as much; within ten years no station on this coast burned anything else.",
            ),
            Heading(2, "Options of lampctl"),
            Paragraph("These options are understood by every subcommand:"),
            Terms(
                (
                    ("--tower NAME", "Work on the tower of this name only."),
                    ("--brief", "Print one line for each lamp."),
                    ("--wait SECONDS", "Wait that long for the flame to settle."),
                ),
                options=True,
            ),
            Box("warning", "Warning", "Never leave a burner open while the tank is being filled."),
            Heading(2, "Consumption"),
            Table(
                "Oil burned in one night, in litres",
                (("Tower", "Summer", "Winter"), ("North", "3.5", "7.25"), ("South", "2.75", "6.5")),
            ),
            Figure("A cut through the burner", "The burner of 1863 with its four rings"),
            Paragraph("The winter figures were taken from the books of three years."),
            Footnote("The books of the year of the storm are lost."),
            Heading(2, "See also"),
            Items(("Watching the weather", "Painting the tower"), links=True),
        ),
    ),
    Chapter(
        "weather",
        (
            Heading(1, "Watching the weather"),
            Paragraph(
                "The weather book has one line for every watch. Wind and sea are estimated, the glass is read, and "
                "what cannot be seen is left open; nobody writes down what he believes the weather to be."
            ),
            Heading(2, "Reading the glass"),
            Items(
                (
                    "Tap the case once, gently, with one finger.",
                    "Read the height of the mercury at eye level.",
                    "Correct it for the temperature of the room.",
                ),
                numbered=True,
            ),
            Box(
                "tip", "Tip", "A glass that falls more than two points in an hour announces a gale before the sky does."
            ),
            Heading(2, "Sending the report"),
            Paragraph("The report leaves the station twice a day, as in this example:"),
            Code("python", ("from station import Report", "report = Report(wind=7, glass=29.4)", "report.send()")),
            Box(
                "topic",
                "The second keeper's rhyme",
                "When gulls stand still upon the sand, the second keeper used to say, there is no gale within an hour "
                "of land; and he was right more often than the glass.",
            ),
            Paragraph("A report that was not acknowledged is sent again at the next full hour."),
        ),
    ),
    Chapter(
        "painting",
        (
            Heading(1, "Painting the tower"),
            Paragraph(
                "The tower is painted every fourth summer, white below and red above the gallery. The work takes two "
                "keepers nine dry days, and a tenth for the door."
            ),
            Heading(2, "What is needed"),
            Items(("Lime, sifted twice", "A bucket for each colour", "Ropes that have been tested this year")),
            Heading(2, "Order of work"),
            Paragraph("Begin on the lee side. Paint that is touched by spray within a day comes off in sheets."),
            Terms(
                (
                    ("First coat", "Thin, and brushed upwards."),
                    ("Second coat", "Thick, and brushed across; it is left to dry for two days."),
                )
            ),
        ),
    ),
)


def split_tokens(text: str) -> list[str]:
    """Return the words of a text: sequences of letters and digits, in lower case."""
    return [word.lower() for word in _WORD.findall(text)]


def list_words(chapter: Chapter) -> list[str]:
    """Return all words of a chapter in order; a page with the chapter must contain them."""
    words: list[str] = []
    for part in chapter.parts:
        words += split_tokens(" ".join(_list_texts(part)))
    return words


def _list_texts(part: Part) -> list[str]:
    """Return the texts of a part that a page displays, in order."""
    match part:
        case Heading() | Paragraph():
            return [part.text]
        case Footnote():
            return ["1", part.text, "1"]  # its number, here and where it is referred to
        case Box():
            return [part.title, part.text]
        case Code():
            return list(part.lines)
        case Terms():
            return [text for pair in part.pairs for text in pair]
        case Items():
            return list(part.items)
        case Table():
            return [part.caption, *(cell for row in part.rows for cell in row)]
        case Figure():
            return [part.alt, part.caption]


def make_page_name(title: str) -> str:
    """Return the page name of the chapter with this title, or "index" if there is none."""
    return next((chapter.name for chapter in MANUAL if chapter.title == title), "index")


#: The end of the paragraph that the footnote belongs to.
_FOOTNOTED_END = "three years."


def render_rst(chapter: Chapter) -> str:
    """Return a chapter in reStructuredText."""
    blocks: list[str] = []
    for part in chapter.parts:
        match part:
            case Heading():
                blocks.append(f"{part.text}\n{'=-~'[part.level - 1] * len(part.text)}")
            case Paragraph():
                blocks.append(part.text + (" [1]_" if part.text.endswith(_FOOTNOTED_END) else ""))
            case Box(kind="sidebar" | "topic"):
                blocks.append(f".. {part.kind}:: {part.title}\n\n   {part.text}")
            case Box():
                blocks.append(f".. {part.kind}:: {part.text}")
            case Code():
                blocks.append(f".. code-block:: {part.language}\n\n" + "\n".join(f"   {line}" for line in part.lines))
            case Terms(options=True):
                blocks.append("\n".join(f"{term}\n    {text}" for term, text in part.pairs))
            case Terms():
                blocks.append("\n".join(f"{term}\n   {text}" for term, text in part.pairs))
            case Items(links=True):
                blocks.append("\n".join(f"- `{item} <{make_page_name(item)}.html>`__" for item in part.items))
            case Items():
                list_marker = "#." if part.numbered else "-"
                blocks.append("\n".join(f"{list_marker} {item}" for item in part.items))
            case Table():
                rows = "\n".join(
                    "   " + ("* - " if not column else "  - ") + cell
                    for row in part.rows
                    for column, cell in enumerate(row)
                )
                blocks.append(f".. list-table:: {part.caption}\n   :header-rows: 1\n\n{rows}")
            case Figure():
                blocks.append(f".. figure:: burner.png\n   :alt: {part.alt}\n\n   {part.caption}")
            case Footnote():
                blocks.append(f".. [1] {part.text}")
    return "\n\n".join(blocks) + "\n"


def render_markdown(chapter: Chapter) -> str:
    """Return a chapter in Markdown with the extensions of MkDocs and Python-Markdown."""
    blocks: list[str] = []
    for part in chapter.parts:
        match part:
            case Heading():
                blocks.append("#" * part.level + " " + part.text)
            case Paragraph():
                blocks.append(part.text + ("[^1]" if part.text.endswith(_FOOTNOTED_END) else ""))
            case Box():
                title = "" if part.title.lower() == part.kind else f' "{part.title}"'
                blocks.append(f"!!! {part.kind}{title}\n\n    {part.text}")
            case Code():
                blocks.append("\n".join((f"```{part.language}", *part.lines, "```")))
            case Terms():
                blocks.append("\n\n".join(f"{term}\n:   {text}" for term, text in part.pairs))
            case Items(links=True):
                blocks.append("\n".join(f"- [{item}]({make_page_name(item)}.md)" for item in part.items))
            case Items():
                list_marker = "1." if part.numbered else "-"
                blocks.append("\n".join(f"{list_marker} {item}" for item in part.items))
            case Table():
                header, *rows = ("| " + " | ".join(row) + " |" for row in part.rows)
                separator = "|" + " --- |" * len(part.rows[0])
                blocks += [part.caption, "\n".join((header, separator, *rows))]
            case Figure():
                blocks += [f"![{part.alt}](burner.png)", part.caption]
            case Footnote():
                blocks.append(f"[^1]: {part.text}")
    return "\n\n".join(blocks) + "\n"


def render_html(chapter: Chapter, **templates: str) -> str:
    """Return a chapter as HTML; ``templates`` are the templates of a generator for boxes, code, terms or figures.

    The name of a template is the class of a part in lower case, such as ``box``. A template contains the names of the
    part's fields in braces; the template ``terms`` renders one pair of a term and its text.
    """
    html_parts: list[str] = []
    for part in chapter.parts:
        template = templates.get(type(part).__name__.lower())
        html_parts.append(_fill_template(template, part) if template else _render_part(part))
    return "\n".join(html_parts)


def _fill_template(template: str, part: Part) -> str:
    """Return a part as HTML by a template of a generator."""
    match part:
        case Code():
            return template.format(language=part.language, code=_escape("\n".join(part.lines)))
        case Terms():
            pairs = "".join(template.format(term=_escape(term), text=_escape(text)) for term, text in part.pairs)
            return f"<dl>{pairs}</dl>"
        case _:
            return template.format(**{name: _escape(str(value)) for name, value in vars(part).items()})


def _render_part(part: Part) -> str:
    """Return a part as plain HTML, without a generator's template."""
    match part:
        case Heading():
            return f"<h{part.level}>{_escape(part.text)}</h{part.level}>"
        case Paragraph():
            return f"<p>{_escape(part.text)}</p>"
        case Footnote():
            return f'<p>1</p><p><a href="#r1">1</a> {_escape(part.text)}</p>'
        case Box():
            return (
                f'<aside class="{part.kind}"><p class="title">{_escape(part.title)}</p>'
                f"<p>{_escape(part.text)}</p></aside>"
            )
        case Code():
            return f'<pre><code class="language-{part.language}">{_escape(chr(10).join(part.lines))}</code></pre>'
        case Terms():
            pairs = (f"<dt>{_escape(term)}</dt><dd>{_escape(text)}</dd>" for term, text in part.pairs)
            return f"<dl>{''.join(pairs)}</dl>"
        case Items():
            tag = "ol" if part.numbered else "ul"
            items = (
                f'<li><a href="{make_page_name(item)}.html">{_escape(item)}</a></li>'
                if part.links
                else f"<li>{_escape(item)}</li>"
                for item in part.items
            )
            return f"<{tag}>{''.join(items)}</{tag}>"
        case Table():
            header, *rows = part.rows
            return (
                f"<table><caption>{_escape(part.caption)}</caption><thead><tr>"
                + "".join(f"<th>{_escape(cell)}</th>" for cell in header)
                + "</tr></thead><tbody>"
                + "".join("<tr>" + "".join(f"<td>{_escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
                + "</tbody></table>"
            )
        case Figure():
            return (
                f'<figure><img src="burner.png" alt="{_escape(part.alt)}">'
                f"<figcaption>{_escape(part.caption)}</figcaption></figure>"
            )


def _escape(text: str) -> str:
    """Escape a text for HTML, including quotation marks."""
    return escaping.escape(text, quote=True)

"""The versions of a document ("Booking policy 2024"), and the entries of different years and amendments in a document.
A *passage* is the text around retrieved chunks, divided into *snippets*: sentences, items, table rows. A *position* is
the indexes of both.

In: a question and passages. Out: the passages of newer versions for each outdated one, and the positions of the latest
entries for each former one.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import PurePosixPath

from ..text.patterns import compile_lazily
from ..text.words import segment_words
from .excerpts import SnippetPosition
from .passages import Passage

_YEAR_PATTERN = compile_lazily(r"(?<!\d)(?:19|20)\d\d(?!\d)")
#: The year at the start of an entry: "As amended 2016: Dogs …", "Year: 2023/24; Rent: …". A label that ends with a
#: colon is the name of a column.
_DATED_ENTRY_PATTERN = compile_lazily(
    r"(?P<label>(?:[^\W\d_]\w* ){0,3}(?:[^\W\d_]\w*: )?)(?P<year>(?:19|20)\d\d)(?:[/–-]\d\d(?:\d\d)?)?"
    r"(?: \([^()]{1,20}\))?(?:: (?=\S)|; (?=[^;]*: ))"
)
#: The heading of changes to the sections above it, and the number of a section at the start of its heading or change:
#: "§ 2 Fee", "§ 2: the fee is …", "In clause 4.1 …".
_AMENDMENT_PATTERN = compile_lazily(r"(?i)\b(?:amend|addend|änderung|nachtrag|avenant|modifi|adenda|aditivo|wijziging)")
_SECTION_NUMBER_PATTERN = compile_lazily(r"(?:[Ii]n )?(?:§|[^\W\d_]{3,10}\.?)? ?(\d{1,3}(?:\.\d{1,3})*[a-z]?)\b")
#: Stands for the year of a title without one, and is greater than every year.
_NO_YEAR = "9999"
#: A year, or a word that asks for an older version, in English and in the languages of ``kvstore/text/questions``.
_YEAR_OR_OLDER_PATTERN = compile_lazily(
    rf"{_YEAR_PATTERN.pattern}|旧|以前|古い|\b(?:(?<!how )old|older|former(?:ly)?|previous(?:ly)?|earlier|original|last"
    r"|alte[nrs]?|früher\w*|ehemalig\w*|bisherig\w*|vorherig\w*|ancien\w*|précédent\w*|anterior\w*|antigu\w*|antig[ao]s?"
    r"|vecchi[oae]?|precedent[ei]|oude?|vorige|vroegere?|eerdere?|poprzedni\w*|star[yae]|starego|starej|dawn[yae]\w*"
    r"|стар[ыо]\w*|прежн\w*|предыдущ\w*|раньше|eski\w*|önceki\w*|gammal\w*|gamla|tidigare|förra|föregående"
    r"|\w*قديم\w*|\w*سابق\w*)\b",
    re.IGNORECASE,
)
#: A year since which something is so, and which is thus not the year of a version: "since 2023".
_START_YEAR_PATTERN = compile_lazily(
    rf"(?i)\b(?:since|seit|ab|depuis|dès|desde|dal|sinds|vanaf|sedan|siden|od|vuodesta|с|з)\s{_YEAR_PATTERN.pattern}"
)


def find_newer_entries(question: str, passages: Sequence[Passage]) -> dict[SnippetPosition, list[SnippetPosition]]:
    """Map the position of each entry of a table or section with an earlier year to those with the latest year.

    An entry begins with its year, such as "2016: …" or "Year: 2023/24; Rent: …". A text in a section is mapped to the
    amendments of the section. The result is empty if the question has a year or asks for an older version.
    """
    if _YEAR_OR_OLDER_PATTERN.search(question):
        return {}
    newer_entries = _find_amendments(passages)
    years_by_group: dict[tuple[str, str, str], dict[SnippetPosition, str]] = {}
    for passage_index, passage in enumerate(passages):
        for index, snippet in enumerate(passage.snippets):
            entry = _DATED_ENTRY_PATTERN.match(snippet.labeled_text)
            if entry is not None:
                column = entry["label"] if entry["label"].endswith(": ") else ""
                years = years_by_group.setdefault((passage.document, snippet.heading, column), {})
                years[SnippetPosition(passage_index, index)] = entry["year"]
    for years in years_by_group.values():
        latest = [position for position, year in years.items() if year == max(years.values())]
        newer_entries |= dict.fromkeys(years.keys() - set(latest), latest)
    return newer_entries


def _find_amendments(passages: Sequence[Passage]) -> dict[SnippetPosition, list[SnippetPosition]]:
    """Map the position of each text in a numbered section to those of the amendments of the section in its document.

    An amendment is below a heading such as "Amendment 2", and begins with the number of the section.
    """
    texts: dict[tuple[str, str], list[SnippetPosition]] = defaultdict(list)
    amendments: dict[tuple[str, str], list[SnippetPosition]] = defaultdict(list)
    for passage_index, passage in enumerate(passages):
        for index, snippet in enumerate(passage.snippets):
            is_amendment = _AMENDMENT_PATTERN.search(f"{snippet.heading} {snippet.caption}") is not None
            number = _SECTION_NUMBER_PATTERN.match(snippet.labeled_text if is_amendment else snippet.heading)
            if number is not None:
                positions = amendments if is_amendment else texts
                positions[passage.document, number[1]].append(SnippetPosition(passage_index, index))
    return {position: amendments[section] for section in texts.keys() & amendments for position in texts[section]}


def find_newer_versions(question: str, passages: Sequence[Passage]) -> dict[int, list[int]]:
    """Map the index of each passage of an outdated document to the indexes of the passages of the newest version.

    The titles (or file names) of versions differ only in the year: "Booking policy 2024" is older than "Booking policy
    2025". A version without a year is the newest. If the question has a year, the versions of other years are outdated,
    unless no version is of that year. The result is empty if the question asks for an older version.
    """
    question_years = set(_YEAR_PATTERN.findall(question))
    if not question_years and _YEAR_OR_OLDER_PATTERN.search(question):
        return {}
    years_by_name: dict[str, dict[int, str]] = {}  # by the name without its year, then by the index of the passage
    for index, passage in enumerate(passages):
        for name in _list_version_names(passage):
            year = max(_YEAR_PATTERN.findall(name), default=_NO_YEAR)
            base_name = " ".join(segment_words(_YEAR_PATTERN.sub(" ", name).replace("_", " ")))
            years_by_name.setdefault(base_name, {})[index] = year
    newer_versions: dict[int, list[int]] = {}
    for years in years_by_name.values():
        current_years = question_years.intersection(years.values()) if question_years else {max(years.values())}
        current_passages = [index for index, year in years.items() if year in current_years]
        if current_passages:
            outdated_passages = years.keys() - set(current_passages)
            newer_versions |= dict.fromkeys(outdated_passages, current_passages)
    return newer_versions


def names_version_year(question: str) -> bool:
    """True if a question has a year that can be that of a version of a document: "in 2023", but not "since 2023"."""
    return _YEAR_PATTERN.search(_START_YEAR_PATTERN.sub(" ", question)) is not None


def _list_version_names(passage: Passage) -> list[str]:
    """Return the names by which the versions of a document are recognized: they differ only in the year.

    A name is the title, the file name or both, with a year if one of them, a folder or the workbook of a sheet has it.
    """
    path = PurePosixPath(passage.document)
    title = passage.plain_title
    files = (PurePosixPath(part) for part in path.parts[:-1])
    # The workbook of a sheet: "prices_2024" of "prices_2024.xlsx/Courses".
    containers = [file.stem for file in files if file.suffix and _YEAR_PATTERN.search(file.stem)]
    if not title or _YEAR_PATTERN.search(title):  # "Policy 2024"
        names = [title, path.stem] if title and _YEAR_PATTERN.search(path.stem) else [title or path.stem]
        return list(dict.fromkeys([*names, *containers]))
    # A folder can have the year: "2024/policy".
    file_name = path.stem if _YEAR_PATTERN.search(path.stem) else passage.document.removesuffix(path.suffix)
    name = f"{title} {file_name}"
    # Without a year, the document can be the newest version of one with a year in its title.
    return [name, *containers] if _YEAR_PATTERN.search(name) else [title, name]

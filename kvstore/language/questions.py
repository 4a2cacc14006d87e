"""Questions that a user types without ASK, or without the quotes that ASK requires.

In: the text as typed. Out: the question, if it is one; the caller explains how to ask it.
"""

from __future__ import annotations

import re

from ..text.patterns import compile_lazily

#: Words that begin questions but no statements, and the maximum length of a question.
_QUESTION_PATTERN = compile_lazily(
    r"(?:what|who|whom|whose|when|where|which|why|how|is|are|was|were|does|do|did|can|could|should|may|will|would|has"
    r"|have|(?:tell|give) (?:me|us)|(?:list|name) (?:the|all|every)|summari[sz]e|compare)(?:['’]\w+)? (?=\S)",
    re.IGNORECASE,
)
#: A first line in any language that ends with a question mark, without the signs of a statement.
_QUESTION_LINE_PATTERN = compile_lazily(r"¿?(?P<first_word>[^\W\d_]+)(?:[^\n;=*()<>]*\S)?[?？؟][^\S\n]*(?:\n|\Z)")
_MAX_QUESTION_CHARACTERS = 500
#: A statement whose text is not in quotes: after these words only a string or a parameter is valid.
_UNQUOTED_PATTERN = compile_lazily(r"\s*(?:ASK|RETRIEVE|SEARCH)[^\S\n]+(?=[^\W_])", re.IGNORECASE)
#: The end of the unquoted text of one of these statements: a clause in capitals, the statement, or the line.
_QUESTION_END_PATTERN = compile_lazily(
    r";|\n|$|\b(?:USING|WHERE|DEPTH|TOP|WITHIN|WITH|MODEL|WORDS|AS SEGMENTS|AS SVG)\b"
)


def find_plain_question(text: str) -> str | None:
    """Return the text as one line if it begins like a question instead of a statement, else None.

    A text in any language is a question if its first line ends with a question mark and its first word begins no
    statement. A text of more than ``_MAX_QUESTION_CHARACTERS`` characters is not a question.

    >>> find_plain_question(" who signs it? "), find_plain_question("SELECT 1"), find_plain_question("what")
    ('who signs it?', None, None)
    >>> find_plain_question("Wer unterschreibt?"), find_plain_question("LOOKUP?")
    ('Wer unterschreibt?', None)
    """
    text = text.strip().rstrip(";")
    is_question = _QUESTION_PATTERN.match(" ".join(text.split(maxsplit=1)))  # a long statement is not split into words
    if not is_question and not _is_question_line(text[: _MAX_QUESTION_CHARACTERS + 1]):
        return None
    question = " ".join(text.split())
    return question if len(question) <= _MAX_QUESTION_CHARACTERS else None


def _is_question_line(text: str) -> bool:
    """True if the first line ends with a question mark and its first word begins no statement."""
    line = _QUESTION_LINE_PATTERN.match(text)
    if line is None:
        return False
    from .grammar_parsing import list_expected_terminals  # loads the grammar

    return not list_expected_terminals(line["first_word"])  # no terminal may follow an invalid first word


def find_unquoted_question(text: str) -> str | None:
    """Return the text after ASK, RETRIEVE or SEARCH if it lacks quotes; None if it has quotes or no such word.

    >>> find_unquoted_question("ASK who's there? TOP 3;"), find_unquoted_question("ASK 'who?';")
    ("who's there?", None)
    """
    command = _UNQUOTED_PATTERN.match(text)
    if command is None:
        return None
    end = _QUESTION_END_PATTERN.search(text, command.end())
    return text[command.end() : end.start() if end else len(text)].rstrip()

"""Names in the header of a mail: the persons of its address fields (``From: Ann Lee <ann@example.org>``), and the names
of its subject.

In: a field of the header. Out: :class:`~.names.Name`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from .everyday_words import is_everyday
from .names import Name, extract_title_names, is_term
from .patterns import compile_lazily

#: Fields of a mail that name persons; addresses and comments to remove; a person; prefixes of replies before a subject.
_PERSON_FIELDS = frozenset(("from", "to", "cc", "bcc", "sender", "reply-to"))
_MAIL_ADDRESS_PATTERN = compile_lazily(r"<[^<>]*>|\([^()]*\)")
_PERSON_PATTERN = compile_lazily(r"\"[^\"]+\"|[^\",;]+")
_REPLY_PREFIX_PATTERN = compile_lazily(r"^(?:(?:re|fwd?|aw|sv)(?:\[\d+\])?:\s*|\[[^\[\]]*\]\s*)+", re.IGNORECASE)


def extract_mail_names(field: str, is_english: bool = True) -> Iterator[Name]:
    """Yield the names in a field of a mail header: the persons of an address field, or the names of a subject.

    Other fields have no names. ``is_english`` is True if the mail is in English.

    >>> [name.form for name in extract_mail_names("From: Juno Ferreira <juno@example.org>")]
    ['Juno Ferreira']
    """
    label, _, value = field.partition(":")
    label, value = label.lower(), " ".join(value.split())
    if label == "subject":
        yield from extract_title_names(_REPLY_PREFIX_PATTERN.sub("", value), "heading", is_english)
    elif label in _PERSON_FIELDS:
        for person in _PERSON_PATTERN.findall(_MAIL_ADDRESS_PATTERN.sub(",", value)):
            form = " ".join(person.strip(" \"'").split())
            if not form[:1].isalpha() or "@" in form:
                continue
            is_everyday_word = " " not in form and is_everyday(form)
            if not is_everyday_word and is_term(form.replace(",", "")):
                yield Name(form, "name")

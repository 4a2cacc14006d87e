"""Format detection for files whose names do not determine it: mail, HTML, manual pages, text, or unreadable.

In: a name, and the first bytes of a file. Out: the name of a format, or None. A name leaves the format open if it has
no suffix (``LICENSE``), if the suffix is not a word (``Apache-2.0``, ``syslog.1``, ``page.php?id=3``), or if the name
is conventional (``README.Debian``). Any file of a Maildir qualifies too (``cur/1258471718.M1P2.host:2,S``). The first
bytes then decide. Editor backups, keys and files for other programs (JSON, XML, PostScript, roff pages that are not
manual pages) are not read.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from .decoding import detect_bom_encoding

#: The number of bytes that are inspected.
MAX_START_BYTES = 8192

_WORD_SUFFIX_PATTERN = re.compile(r"\.[^\W\d_]\w*")  # .txt, but not .1
_BACKUP_PATTERN = re.compile(r".*~|#.*")  # notes.md~ or #notes.md#
_CONVENTIONAL_NAMES = (
    r"(?:README|LICEN[CS]E|COPYING|COPYRIGHT|NOTICE|AUTHORS|CONTRIBUTORS|CHANGES|CHANGELOG|HISTORY|NEWS|INSTALL|TODO"
    r"|FAQ|THANKS)"
)
_CONVENTIONAL_NAME_PATTERN = re.compile(rf"{_CONVENTIONAL_NAMES}[.-].*|.+\.{_CONVENTIONAL_NAMES}")
#: The folders of a Maildir that hold messages.
_MAILDIR_FOLDERS = frozenset({"cur", "new"})

#: The first characters of hidden files, and of the files that lock open documents of Microsoft Office.
_HIDDEN_PREFIXES = (".", "~$")
#: Files that operating systems add: folder settings of Windows, and macOS metadata in archives.
_SYSTEM_FILE_NAMES = frozenset({"desktop.ini", "__macosx"})

_START_PATTERNS = (
    (re.compile(rb"%PDF-"), "pdf"),
    (re.compile(rb"\{\\rtf"), "rtf"),
    (re.compile(rb"From \S+.*\d\d:\d\d.*\n[!-9;-~]+:"), "mbox"),
    (re.compile(rb"\s*(?:<\?xml[^>]*>\s*)?<(?:!doctype\s+html|html)\b", re.I), "html"),
    # A manual page: comments and definitions, then its header, or only a reference to another page.
    (re.compile(rb"(?=\s*(?:[.'][\\a-zA-Z ]|\\\"))(?:.*\n)*?[.'](?:TH|Dd|so)[ \t]"), "man"),
    (re.compile(rb"-----BEGIN |%!PS|\s*<[?!a-z]|\s*[\[{]\s*[\"\[{]|[.'](?:\\\"|[A-Za-z]{2}\s)", re.I), None),
)
#: A field of the header of a mail, with its continuation lines: ``Subject: tea``.
_HEADER_PATTERN = re.compile(rb"([!-9;-~]+):[ \t]?.*\n(?:[ \t].*\n)*")
#: Header fields of messages (RFC 5322, 3.6); a file that begins with three of them is mail.
_MAIL_FIELDS = frozenset(
    b"from to cc date subject message-id received return-path delivered-to reply-to in-reply-to references sender"
    b" mime-version content-type".split()
)
_MIN_MAIL_FIELDS = 3
#: Control characters that text does not contain; white space, backspaces and terminal escapes are allowed.
_CONTROL_PATTERN = re.compile(rb"[\x00-\x07\x0e-\x1a\x1c-\x1f]")


def is_hidden(name: str) -> bool:
    """True if operating systems hide a file or folder of this name, or an office program locks a document with it.

    >>> [is_hidden(name) for name in (".git", "desktop.ini", "__MACOSX", "~$notes.docx", "notes.md")]
    [True, True, True, True, False]
    """
    return name.startswith(_HIDDEN_PREFIXES) or name.lower() in _SYSTEM_FILE_NAMES


def has_ambiguous_name(relative_path: str) -> bool:
    """True if the content of a file must be inspected, because its name does not determine the format.

    False for editor backups, which are not read.

    >>> names = ("LICENSE", "MPL-1.1", "cur/12.M1.host", "README.Debian", "get.py.README")
    >>> [has_ambiguous_name(name) for name in names]
    [True, True, True, True, True]
    >>> [has_ambiguous_name(name) for name in ("style.css", "notes~", "12.M1.host")]
    [False, False, False]
    """
    path = PurePosixPath(relative_path)
    if _BACKUP_PATTERN.fullmatch(path.name):
        return False
    has_word_suffix = _WORD_SUFFIX_PATTERN.fullmatch(path.suffix) is not None
    return (
        not has_word_suffix
        or _CONVENTIONAL_NAME_PATTERN.fullmatch(path.name) is not None
        or path.parent.name in _MAILDIR_FOLDERS
    )


def detect_format(start: bytes) -> str | None:
    r"""Return the format that the first bytes of a file indicate, or None if no reader can read such a file.

    ``start`` has the first :data:`MAX_START_BYTES` bytes, or the whole file.

    >>> detect_format(b"Terms and conditions\n"), detect_format(b"From: a\nTo: b\nSubject: c\n\nd")
    ('text', 'mail')
    >>> detect_format(b'.\\" A comment.\n.TH LS 1\n')
    'man'
    """
    if detect_bom_encoding(start) is not None:
        return "text"
    for pattern, format in _START_PATTERNS:
        if pattern.match(start):
            return format
    if not start.strip() or _CONTROL_PATTERN.search(start):
        return None
    return "mail" if _is_mail(start) else "text"


def _is_mail(start: bytes) -> bool:
    """True if a file starts with header fields that include ``_MIN_MAIL_FIELDS`` different fields of mail.

    ``start`` has the first bytes of the file.
    """
    mail_fields: set[bytes] = set()
    offset = 0
    while len(mail_fields) < _MIN_MAIL_FIELDS:
        header = _HEADER_PATTERN.match(start, offset)
        if header is None:
            return False
        field_name = header[1].lower()
        if field_name in _MAIL_FIELDS:
            mail_fields.add(field_name)
        offset = header.end()
    return True

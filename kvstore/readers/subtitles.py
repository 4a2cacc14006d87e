"""Subtitles: the speech of a film or a talk becomes a text, with the start times of its paragraphs.
A *cue* is a subtitle with the times at which it appears and disappears.

In: an ``.srt`` file (SubRip) or a ``.vtt`` file (WebVTT), in UTF-8 (or in the encoding that a byte-order mark or option
names). Out: one document of format ``text``. The lines of cues are joined into paragraphs, each after its start time
(``[00:12:05]``). A pause, another speaker or the length of a paragraph begins the next one. Speakers are named (``Ann:
...``). Styles, screen positions, notes and lines repeated from the previous cue are dropped. A file without a cue is a
ReaderError.

Source: WebVTT: The Web Video Text Tracks Format (W3C), 4.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from typing import BinaryIO, NamedTuple

from .decoding import decode_text
from .raw_document import Origin, RawDocument, ReadOptions

_TIME_REGEX = r"(?:(\d{1,4}):)?(\d{1,2}):(\d{2})[.,](\d{1,3})"
_CUE_TIMES_PATTERN = re.compile(rf"\s*{_TIME_REGEX}\s*-->\s*{_TIME_REGEX}(?:\s.*)?")  # 00:00:01.000 --> 00:00:02.000
_VOICE_PATTERN = re.compile(r"<v(?:\.[^\s>]{0,200})?[ \t]++([^>]{1,200})>")  # <v Ann>
#: The markup in a cue: ``<b>``, ``<00:01.000>``, ``{\an8}``.
_STYLE_PATTERN = re.compile(r"</?[a-zA-Z][^<>]{0,200}>|</?[cibuv]>|<\d[\d:.]*>|\{\\[^{}]{0,200}\}")
#: The minimum pause in seconds that ends a paragraph, and the length in characters from which a sentence end does.
_MIN_PAUSE_SECONDS = 4.0
_MIN_LONG_CHARACTERS = 400
_SENTENCE_ENDINGS = (".", "!", "?", "…", "。")


class _Cue(NamedTuple):
    """A subtitle: its start and end in seconds, its speaker (empty if unknown), and its lines of text."""

    start_time: float
    end_time: float
    speaker: str
    lines: list[str]


def read(stream: BinaryIO, origin: Origin, options: ReadOptions) -> Iterator[RawDocument]:
    """Yield the subtitles of a recording as one document.

    Lines of a subtitle that equal the last line before it are dropped, because rolling subtitles show lines twice. A
    paragraph ends at a pause, at another speaker, and at the end of a sentence if it is long. Raises ReaderError if no
    subtitle has text, or if the file cannot be decoded.
    """
    text = decode_text(stream.read(), origin.name, options.encoding)
    paragraphs: list[str] = []
    last_line = last_speaker = ""
    end_time = 0.0
    for cue in _iter_cues(text):
        new_lines = [line for line in cue.lines if line != last_line]
        if not new_lines:
            end_time = max(end_time, cue.end_time)
            continue
        is_after_pause = cue.start_time - end_time > _MIN_PAUSE_SECONDS
        is_long = bool(paragraphs) and len(paragraphs[-1]) >= _MIN_LONG_CHARACTERS
        is_complete = is_long and last_line.endswith(_SENTENCE_ENDINGS)
        ends_paragraph = is_after_pause or is_complete or cue.speaker != last_speaker
        if not paragraphs or ends_paragraph:
            speaker_label = f"{cue.speaker}: " if cue.speaker else ""
            paragraphs.append(f"[{_format_time(cue.start_time)}] {speaker_label}{' '.join(new_lines)}")
        else:
            paragraphs[-1] += f" {' '.join(new_lines)}"
        last_line, last_speaker = new_lines[-1], cue.speaker
        end_time = max(end_time, cue.end_time)
    origin.require_content(paragraphs, "has no cue with text")
    yield RawDocument(origin.key, title=None, text="\n\n".join(paragraphs) + "\n", meta={}, format="text")


def _iter_cues(text: str) -> Iterator[_Cue]:
    """Yield the cues (subtitles with their times) of a file, without markup. Text outside cues is dropped."""
    lines = text.split("\n")
    for index, time_line in enumerate(lines):
        time_match = _CUE_TIMES_PATTERN.fullmatch(time_line)
        if time_match is None:
            continue
        texts: list[str] = []
        speaker = ""
        for line in map(lines.__getitem__, range(index + 1, len(lines))):  # a slice would copy the rest of the file
            if not line.strip() or "-->" in line:
                break
            voice = _VOICE_PATTERN.search(line)
            speaker = " ".join(unescape(voice[1]).split()) if voice is not None else speaker
            plain = " ".join(unescape(_STYLE_PATTERN.sub("", _VOICE_PATTERN.sub("", line))).split())
            if plain:
                texts.append(plain)
        # Each time is four groups of the pattern: hours, minutes, seconds and decimals.
        start_time, end_time = time_match.groups()[:4], time_match.groups()[4:]
        yield _Cue(_to_seconds(*start_time), _to_seconds(*end_time), speaker, texts)


def _to_seconds(hours: str | None, minutes: str, seconds: str, decimals: str) -> float:
    """Return a time of a cue (``00:12:05.500``) in seconds, given its digits; ``hours`` is None if it is missing."""
    return 3600 * int(hours or 0) + 60 * int(minutes) + int(seconds) + float(f"0.{decimals}")


def _format_time(time: float) -> str:
    """Return a time in seconds as hours, minutes and seconds: ``00:12:05``."""
    minutes, seconds = divmod(int(time), 60)
    return f"{minutes // 60:02}:{minutes % 60:02}:{seconds:02}"

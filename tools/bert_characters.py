"""Write ``kvstore/models/bert/characters.json``: how the tokenizer of an uncased BERT treats each character.

In: ``kvstore/models/minilm/tokenizer.json``, and the ``tokenizers`` library, which applies it to every character. On
disk: ranges of characters that the tokenizer removes and of those that are words of their own, the spaces, and the
normal forms of letters. Ranges are hexadecimal: the distance from the end of the previous range, and the length less 1.
Syllables of Hangul are left out, because their parts are computed. Prints the SHA-256 of the file, which
``kvstore/models/wordpiece_tokenizer.py`` records: another table gives other vectors.

    python tools/bert_characters.py
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

from tokenizers import Tokenizer

from kvstore.models.packaged_embedder import WEIGHTS_FOLDER
from kvstore.models.wordpiece_tokenizer import CHARACTERS_FILE, HANGUL


def write_characters(file: Path) -> None:
    """Write the table of characters: removed ones, words of their own, spaces, and normal forms of letters."""
    tokenizer = Tokenizer.from_file(str(WEIGHTS_FOLDER / "tokenizer.json"))
    removed, separate, spaces, forms = [], [], "", ""
    for code in (*range(0xD800), *range(0xE000, 0x110000)):
        # Between two letters, as inside a text.
        normal = tokenizer.normalizer.normalize_str(f"a{chr(code)}b")[1:-1]
        form = normal.strip(" ")
        if not normal:
            removed.append(code)
        elif not form:
            spaces += chr(code)
        else:
            if len(tokenizer.pre_tokenizer.pre_tokenize_str(f"a{normal}b")) > 1:
                separate.append(code)
            if form != chr(code) and code not in HANGUL:
                forms += f" {chr(code)}{form}"
    table = {
        "removed": _format_ranges(removed),
        "separate": _format_ranges(separate),
        "spaces": spaces,
        "forms": forms[1:],  # without the first space
    }
    file.write_text(json.dumps(table, ensure_ascii=False, indent=0) + "\n", encoding="utf-8")


def _format_ranges(codes: Iterable[int]) -> str:
    """Return ascending character codes as text: the distance of each range from the last one, and its length less 1."""
    ranges: list[list[int]] = []
    for code in codes:
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    previous_last, parts = 0, []
    for first, last in ranges:
        parts.append(f"{first - previous_last:x}" + (f"+{last - first:x}" if last > first else ""))
        previous_last = last
    return " ".join(parts)


if __name__ == "__main__":
    write_characters(CHARACTERS_FILE)
    print(hashlib.sha256(CHARACTERS_FILE.read_bytes()).hexdigest())

"""Names for benchmarks: from a file, or synthetic from a seeded generator.

In: a file (CSV or one name per line, gzip or not) and a seed. Out: different names in normal form, in random order.
Synthetic names look like those of people, places and schools, and are about as long as real ones.
"""

from __future__ import annotations

import csv
import gzip
import io
import random
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from kvstore.text.normalize import to_entity_key

_FIRST = """
    anna maria john james peter paul clara elena ivan olga fatima omar li wei sofia lucas emma noah mia hugo ada alan
    grace niels marie otto ines pablo rosa diego carmen yuki hana kenji aiko ravi priya anil kofi ama sean niamh erik
""".split()
_ONSETS = "b br c ch d dr f g gr h j k kl l m n p pr r s sch sh st t th tr v w z".split()
_VOWELS = "a e i o u ai ea ie oo ou".split()
_CODAS = ["", *"n r l s t m ck nd rt st ng".split()]
_PLACES = "ville ton burg ham field port ford bridge wood stad".split()
_BEFORE = ["new", "old", "north", "south", "upper", "lower", "saint", "mount", "lake", "san", "fort"]
_PATTERNS = (
    "{first} {stem}",
    "{first} {stem} {other}",
    "{first} van {stem}",
    "{first} {stem}-{other}",
    "{stem}{place}",
    "{before} {stem}{place}",
    "{before} {stem}",
    "{stem} river",
    "university of {stem}{place}",
)


def generate_names(seed: int) -> Iterator[str]:
    """Yield an endless sequence of names of people and places, in normal form; they may repeat."""
    generator = random.Random(seed)

    def make_stem() -> str:
        """Return one to three random syllables."""
        syllables = generator.choice((1, 2, 2, 3))
        return "".join(
            generator.choice(_ONSETS) + generator.choice(_VOWELS) + generator.choice(_CODAS) for _ in range(syllables)
        )

    while True:
        parts = {
            "first": generator.choice(_FIRST),
            "stem": make_stem(),
            "other": make_stem(),
            "place": generator.choice(_PLACES),
            "before": generator.choice(_BEFORE),
        }
        yield to_entity_key(generator.choice(_PATTERNS).format(**parts))


def read_names(path: Path) -> Iterator[str]:
    """Yield the names of a file in normal form: the cells of a CSV file, or the lines of any other."""
    raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    text = io.StringIO(raw.decode())
    for row in csv.reader(text) if ".csv" in path.suffixes else ([line] for line in text):
        yield from (key for key in map(to_entity_key, row) if key)


def select_distinct_names(count: int, file: Path | None, seed: int) -> list[str]:
    """Return ``count`` different names in random order: those of ``file`` first, then generated ones."""
    names: dict[str, None] = {}  # ordered, unlike a set
    for name in chain(read_names(file) if file else (), generate_names(seed)):
        names.setdefault(name)
        if len(names) == count:
            break
    shuffled = list(names)
    random.Random(seed).shuffle(shuffled)
    return shuffled

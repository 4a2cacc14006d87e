"""Generate the list of everyday English words, which are not taken for names.

    python tools/everyday_words.py TREEBANK_FOLDER > kvstore/text/everyday_words.txt

A word is everyday if its base form occurs in at least three documents of the treebanks (``*.conllu.xz`` in the folder)
and is usually not a proper name. The list contains every form of it that occurs there, under its most frequent part of
speech. Words are facts about the language; the list contains no text of the treebanks.
"""

from __future__ import annotations

import textwrap
from collections import Counter, defaultdict
from pathlib import Path

import click
from treebank import iter_documents

#: The minimum number of documents that contain a word.
_DOCUMENTS = 3
_KINDS = {"NOUN": "noun", "VERB": "verb", "AUX": "verb", "ADJ": "adjective"}


@click.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
def main(folder: Path) -> None:
    """Print the list: a line ``[kind]`` before the words of each kind."""
    uses: defaultdict[str, Counter[str]] = defaultdict(Counter)
    kinds: defaultdict[str, Counter[str]] = defaultdict(Counter)
    places: defaultdict[str, set[tuple[str, int]]] = defaultdict(set)
    forms: defaultdict[str, set[str]] = defaultdict(set)
    for path in sorted(folder.glob("*.conllu.xz")):
        for number, document in enumerate(iter_documents(path)):
            for word in (word for sentence in document for word in sentence.words):
                lemma, form = word.lemma.lower(), word.form.lower()
                uses[lemma]["PROPN" if word.pos == "PROPN" else "other"] += 1
                if word.pos != "PROPN" and form.isalpha() and form.isascii():
                    places[lemma].add((path.name, number))
                    forms[lemma].add(form)
                    kinds[form][_KINDS.get(word.pos, "other")] += 1
    listed: defaultdict[str, set[str]] = defaultdict(set)
    for lemma, occurrences in places.items():
        if len(occurrences) >= _DOCUMENTS and uses[lemma]["other"] >= uses[lemma]["PROPN"]:
            for form in forms[lemma]:
                listed[max(kinds[form], key=lambda kind: (kinds[form][kind], kind))].add(form)
    for kind in sorted(listed):
        print(f"[{kind}]")
        print(textwrap.fill(" ".join(sorted(listed[kind])), 120, break_on_hyphens=False))


if __name__ == "__main__":
    main()

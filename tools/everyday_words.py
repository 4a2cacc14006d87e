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
_MIN_DOCUMENTS = 3
_KINDS_BY_TAG = {"NOUN": "noun", "VERB": "verb", "AUX": "verb", "ADJ": "adjective"}


@click.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
def main(folder: Path) -> None:
    """Print the forms of everyday words by kind, after a line such as ``[noun]``."""
    tag_counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    kind_counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    documents_by_lemma: defaultdict[str, set[tuple[str, int]]] = defaultdict(set)
    forms: defaultdict[str, set[str]] = defaultdict(set)
    for path in sorted(folder.glob("*.conllu.xz")):
        for index, sentences in enumerate(iter_documents(path)):
            for word in (word for sentence in sentences for word in sentence.words):
                lemma, form = word.lemma.lower(), word.form.lower()
                # All words are counted, so that a base form that is usually a proper name can be recognized.
                tag_counts[lemma]["PROPN" if word.pos == "PROPN" else "other"] += 1
                if word.pos != "PROPN" and form.isalpha() and form.isascii():
                    documents_by_lemma[lemma].add((path.name, index))
                    forms[lemma].add(form)
                    kind_counts[form][_KINDS_BY_TAG.get(word.pos, "other")] += 1
    forms_by_kind: defaultdict[str, set[str]] = defaultdict(set)
    for lemma, documents in documents_by_lemma.items():
        if len(documents) >= _MIN_DOCUMENTS and tag_counts[lemma]["other"] >= tag_counts[lemma]["PROPN"]:
            for form in forms[lemma]:
                most_frequent_kind = max(kind_counts[form], key=lambda kind: (kind_counts[form][kind], kind))
                forms_by_kind[most_frequent_kind].add(form)
    for kind in sorted(forms_by_kind):
        print(f"[{kind}]")
        print(textwrap.fill(" ".join(sorted(forms_by_kind[kind])), 120, break_on_hyphens=False))


if __name__ == "__main__":
    main()

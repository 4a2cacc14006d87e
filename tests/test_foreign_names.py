"""Names in documents of other languages, measured on 260 labeled sentences (``labeled_names``)."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest

import kvstore
from kvstore.text.capital_names import CapitalNames, load_name_words
from kvstore.text.normalize import fold_text
from kvstore.text.question_words import FOLDER

#: Texts of a document each, after a line with ``#``. Brackets mark the names.
LABELED = Path(__file__).parent / "labeled_names"
_WORD_PATTERN = re.compile(r"\w+")


def read_texts(language: str) -> list[list[str]]:
    """Return the sentences of each text."""
    texts = (LABELED / f"{language}.txt").read_text(encoding="utf-8").split("# ")[1:]
    return [text.splitlines()[1:] for text in texts]


def find_names(sentences: list[str], language: str) -> list[list[str]]:
    """Return the names in each sentence of a document."""
    words = load_name_words(language)
    assert words is not None
    names = CapitalNames([re.sub(r"[\[\]]", "", sentence) for sentence in sentences], language, words)
    return [list(names.iter_names(index)) for index in range(len(sentences))]


def iter_judged_names(language: str) -> Iterator[tuple[str, bool]]:
    """Yield each name found, and True if all its words belong to one label of its sentence."""
    for sentences in read_texts(language):
        for sentence, names in zip(sentences, find_names(sentences, language), strict=True):
            labels = [set(_WORD_PATTERN.findall(fold_text(label))) for label in re.findall(r"\[(.*?)\]", sentence)]
            for name in names:
                yield name, any(set(_WORD_PATTERN.findall(fold_text(name))) <= label for label in labels)


@pytest.mark.parametrize(
    ("language", "num_sentences", "min_names"),
    [("german", 120, 55), ("french", 80, 45), ("portuguese", 20, 22), ("italian", 20, 16), ("dutch", 20, 16)],
)
def test_few_names_are_wrong_and_most_are_found(language: str, num_sentences: int, min_names: int) -> None:
    assert sum(bool(sentence) for text in read_texts(language) for sentence in text) == num_sentences
    judged = list(iter_judged_names(language))
    wrong = [name for name, is_right in judged if not is_right]
    assert len(judged) - len(wrong) >= min_names
    assert 100 * len(wrong) <= 15 * len(judged), wrong


#: A document in each language, and its names.
TEXTS = {
    "german": (
        "Der Schlosser Karl Brandt zog nach Lübeck. Die Firma Possehl stellte ihn ein. Brandt baute Kräne.",
        [["Karl Brandt", "Lübeck"], ["Possehl"], ["Brandt"]],
    ),
    "french": ("Madame Aubry habite à Lyon. Le maire a reçu Aubry.", [["Aubry", "Lyon"], ["Aubry"]]),
    "spanish": ("La señora Vega vive en Sevilla. El alcalde llamó a Vega.", [["Vega", "Sevilla"], ["Vega"]]),
    "portuguese": (
        "A casa de Ana Lopes fica no Porto. Ela leu Max von Laue.",
        [["Ana Lopes", "Porto"], ["Max von Laue"]],
    ),
    "italian": (
        "La signora Bianchi vive a Torino. Ha letto Guy de Maupassant.",
        [["Bianchi", "Torino"], ["Guy de Maupassant"]],
    ),
    "dutch": (
        "Burgemeester Bakker woont in Delft. De Franse schilder Anna 't Hart is oud. Het is een Engelse tuin.",
        [["Bakker", "Delft"], ["Anna 't Hart"], []],
    ),
}


@pytest.mark.parametrize("language", TEXTS)
def test_names_in_each_language(language: str) -> None:
    text, names = TEXTS[language]
    assert find_names(re.split(r"(?<=\.) ", text), language) == names


def test_every_file_with_name_words_is_tested_above() -> None:
    assert {path.stem for path in FOLDER.glob("*.toml") if load_name_words(path.stem)} == TEXTS.keys()


def test_names_of_a_german_document_become_entities_and_nouns_do_not(store: kvstore.Store) -> None:
    text = "Der Schlosser Karl Brandt zog im Herbst nach Lübeck, und die Arbeit auf der Werft war nicht leicht."
    store.put("brandt", text)
    names = {row[0] for row in store.execute("SELECT name FROM entities")}
    assert names == {"Karl Brandt", "Lübeck"}
    assert not store.ask("Wohin zog Brandt im Herbst?").abstained
    store.delete("brandt")
    assert not list(store.execute("SELECT name FROM entities"))


def test_a_store_of_an_earlier_version_keeps_the_rules_for_english(tmp_path: Path) -> None:
    text = "Der Schlosser Karl Brandt zog z. B. im Herbst nach Lübeck. Die Arbeit auf der Werft war nicht leicht."
    with kvstore.open(tmp_path / "s", embedder="hashing", settings={"tokenizer": "words-4"}) as store:
        store.put("brandt", text)
        assert not list(store.execute("SELECT name FROM entities"))
        assert store.check() == []


@pytest.mark.parametrize(("stemmer", "factor"), [("german", 64), ("multilingual", 64), ("english", 1)])
def test_the_walk_from_names_weighs_less_in_other_languages(tmp_path: Path, stemmer: str, factor: int) -> None:
    with kvstore.open(tmp_path / "s", embedder="hashing", settings={"stemmer": stemmer}) as store:
        for number in range(30):
            store.put(f"n{number}", f"Die Halle {number} ist nicht alt, und sie hat ein Dach aus Blech und eine Farbe.")
        store.put("brandt", "Der Schlosser Karl Brandt zog im Herbst nach Lübeck, und er baute dort große Kräne.")
        question = "Welches Dach aus Blech hat die Halle von Karl Brandt?"
        weights = []
        for options in ({}, {"walk": 32}):
            evidence = store.retrieve(question, using="adaptive", options=options)
            detail = next(step.detail for step in evidence.steps if step.name == "weigh walk")
            weights.append(float(detail.partition(":")[0]))
        assert weights[0] > 0 and weights[1] == pytest.approx(factor * weights[0], rel=0.02)


@pytest.mark.parametrize("language", ["en", "rules"])
def test_names_with_separate_accents_are_those_with_composed_letters(tmp_path: Path, language: str) -> None:
    texts = [
        "# Zürich\n\nMs. Zoë Brontë founded the firm in Zürich. José Ibáñez of São Paulo works with Ångström Labs.\n\n"
        "- São Tomé\n  - Élan Vital\n",
        "# Société Générale\n\nHélène Béranger dirige le musée de Besançon, que Gérard d'Étampes a fondé en 1097.",
        "# ガイド\n\n『ガンダム』と「ドラえもん」は有名です。",
    ]
    questions = ["Who founded the firm in Zürich?", "Where is Élan Vanité?", "Qui dirige le musée de Besançon ?"]
    results = []
    for form in ("NFC", "NFD"):
        settings = {"language": language, "stemmer": "multilingual"}
        with kvstore.open(tmp_path / f"{language} {form}", embedder="hashing", settings=settings) as store:
            for number, text in enumerate(texts):
                store.put(str(number), unicodedata.normalize(form, text))
                document = store.get(str(number))
                assert document is not None
                assert document.text == unicodedata.normalize(form, text)
            answers = [store.ask(unicodedata.normalize(form, question)) for question in questions]
            names = store.names()
            results.append(
                (
                    names,
                    [[place.document for place in store.lookup(name)] for name in names],
                    store.execute("SELECT child, parent, tree FROM edges ORDER BY child, parent, tree").fetchall(),
                    [(answer.outcome, unicodedata.normalize("NFC", answer.text)) for answer in answers],
                )
            )
    assert results[0] == results[1]
    assert {"Zoë Brontë", "São Paulo", "Hélène Béranger", "ガンダム"} <= set(results[0][0])

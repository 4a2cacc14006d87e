"""Words and sentences by the language of each document: stems of a store in several languages, and abbreviations."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

import kvstore
from kvstore.changes.dump import dump
from kvstore.extraction.chunking import chunk_text
from kvstore.retrieval.cover import collect_cover_sentences
from kvstore.systems.raptor.ordered_chunks import OrderedChunks
from kvstore.text.blocks import parse_blocks
from kvstore.text.question_words import FOLDER
from kvstore.text.sentences import split_sentences
from kvstore.text.words import count_chunk_terms, get_document_stemmer, get_stemmer

#: Sentences in each language with abbreviations, as a list of the sentences to find.
SENTENCES = {
    "german": [
        "Am 3. Mai 1999 kam z. B. Frau Dr. Solms.",
        "Nach Art. 5 Abs. 2 Nr. 3 gilt die Frist, d. h. Ende Juni.",
        "Im 19. Jahrhundert kostete das 5 Mio. Mark.",
        "Heute kostet es 12.",
        "Das ist viel.",
    ],
    "french": ["M. Dupont et Mme. Durand ont lu, p. ex. Zola.", "L'art. 5 le dit.", "C'est de l'art.", "Fin."],
    "spanish": ["El Sr. Pérez vive en EE. UU. con la Sra. Gil.", "Vive en la Av. Mayor.", "Dijo que no.", "Se fue."],
    "portuguese": ["O Sr. Costa mora na Av. Central, p. ex. Lisboa.", "O art. 5 diz isso.", "Acabou."],
    "italian": ["Il Sig. Rossi e la Dott.ssa Monti, p. es. Anna.", "Lo dice l'art. 5.", "Ha detto di no.", "Fine."],
    "dutch": ["Dhr. Jansen en mevr. De Wit wonen bijv. Utrecht.", "Dat zegt art. 5.", "Hij gaat met Jan.", "Klaar."],
    "russian": [
        "В г. Москве, т. е. Столице, на ул. Ленина жил проф. Павлов.",
        "Он родился в 1849 г.",
        "Потом была война.",
    ],
    "polish": ["Ul. Długa i pl. Wolności, np. Kraków, to św. Anny.", "Było to w 1871 r.", "Potem była wojna."],
    "swedish": ["Mötet börjar kl. 18 på S:t Eriks skola, dvs. i dag.", "Enl. bil. 2 kostar det ca. 90 kr.", "Slut."],
    "turkish": ["Dr. Ayşe ve Prof. Ali, örn. Ankara, Atatürk Cad. No. 5.", "Sonra gitti."],
    "arabic": ["هل جاء د. أحمد؟", "نعم، جاء.", "ثم ذهب."],
    "chinese": ["他来了。", "真的吗？", "是的！", "好。"],
    "japanese": ["今日は雨です。", "「本当ですか？」と彼は言った。", "はい！"],
    "czech": ["Platí od 15. 3. 2024 do odvolání, tj. pro p. Nováka na ul. Dlouhé.", "Viz čl. 5 odst. 2.", "To je vše."],
    "danish": ["Ring inden kl. 7.15 den 3. maj, f.eks. til hr. Holm.", "Det koster ca. 90 kr. i alt.", "Slut."],
    "finnish": ["Palkka maksetaan kuukauden 15. päivä, esim. klo 9.", "Hinta on n. 12 euroa.", "Loppu."],
    "romanian": ["Dl. Popescu locuiește pe str. Lungă nr. 4, et. 2.", "Vezi art. 5 alin. 2.", "Gata."],
    "greek": ["Ο κ. Λάμπρου ήρθε στις 8 π.μ., π.χ. χθες.", "Διαφώνησε;", "Ναι."],
    "ukrainian": ["На вул. Франка, напр. у м. Львові, працює проф. Коваль.", "Так було в 1990 р.", "Потім ні."],
    "korean": ["비가 옵니다.", "정말인가요?", "네!"],
    "hindi": ["डॉ. वर्मा आए।", "क्या सच में?", "हाँ।"],
}


def test_every_language_file_is_tested_above() -> None:
    assert {path.stem for path in FOLDER.glob("*.toml")} == SENTENCES.keys()


@pytest.mark.parametrize("language", SENTENCES)
def test_sentences_end_by_the_rules_of_their_language(language: str) -> None:
    text = ("" if language in ("chinese", "japanese") else " ").join(SENTENCES[language])
    assert [text[start:end] for start, end in split_sentences(text, language)] == SENTENCES[language]


def test_marks_of_other_scripts_end_sentences() -> None:
    text = "یہ کیا ہے؟ یہ کتاب ہے۔ وہ قلم ہے۔"
    assert len(list(split_sentences(text, "unknown"))) == 3
    assert len(list(split_sentences("यह क्या है? यह किताब है। वह कलम है।", "unknown"))) == 3


def test_english_tokens_sentences_and_chunks_stay_the_same() -> None:
    text = (
        "Dr. Weber met Mr. J. R. Brown at 5 p.m. on Monday. See e.g. the manual (fig. 3). It cost 3.50 euros.\n\n"
        "The keepers' houses were rebuilt after the flood of 1902. No. 4 is the oldest. Was it rented? No. It was sold."
    )
    blocks = parse_blocks(text, "text")
    assert chunk_text(text, blocks, 30, "english") == chunk_text(text, blocks, 30)
    terms = count_chunk_terms("The houses", ["History"], text, get_stemmer("english"))
    assert terms == count_chunk_terms("The houses", ["History"], text, get_document_stemmer("multilingual", "english"))
    sentences = [text[start:end] for start, end in split_sentences(text)]
    # If these differ, English is tokenized differently, so settings.TOKENIZER must change.
    digest = hashlib.sha256(repr((sorted(terms.items()), sentences)).encode()).hexdigest()
    assert digest == "e55551bbd78f51d0e36e9c988d3c77ed6a094d18e6a58ca68c638dc4fe4232f6"


DOCUMENTS = {
    "haus": "Die Häuser am Hafen wurden von den Fischern gebaut. Der Leuchtturm von Bergen ist nicht mehr in Betrieb.",
    "maison": "Les maisons du port ont été construites par les pêcheurs. Le phare de Bergen n'est plus en service.",
    "house": "The houses at the harbor were built by the fishermen. The lighthouse of Bergen is not in use any more.",
    "дом": "Дома у гавани были построены рыбаками. Маяк города не работает, и его больше не зажигают.",
    "家": "港の家は漁師によって建てられました。灯台はもう使われていません。",
    "liste": "Telefon 4711",
}


def dump_store(store: kvstore.Store) -> dict[str, Any]:
    with store.state() as state:
        return dump(state)


def test_words_are_stemmed_by_the_language_of_each_document(tmp_path: Path) -> None:
    with kvstore.open(tmp_path / "s", embedder="hashing", settings={"stemmer": "multilingual"}) as store:
        for key, text in DOCUMENTS.items():
            store.put(key, text)
        for question, key in {
            "Wer hat das Haus gebaut?": "haus",
            "Qui a construit la maison ?": "maison",
            "Who built this house?": "house",
            "Кто построил дом рыбака?": "дом",
            "家を建てたのは誰ですか？": "家",
            "Telefon": "liste",
        }.items():
            assert store.retrieve(question, using="lexical").hits[0].document == key, question
        # A name is found in every language, although its stem differs.
        documents = {hit.document for hit in store.retrieve("Where is Bergen?", using="lexical").hits}
        assert documents == {"haus", "maison", "house"}
        assert store.check() == []


def test_a_multilingual_store_depends_only_on_its_documents(tmp_path: Path) -> None:
    settings = {"stemmer": "multilingual"}
    with kvstore.open(tmp_path / "a", embedder="hashing", settings=settings) as store:
        store.put("haus", "The lighthouse is old, and it is not for sale.")
        store.put("gone", "Маяк города не работает, и его больше не зажигают.")
        store.put("maison", DOCUMENTS["maison"], meta={"language": "fr"})
        for key, text in DOCUMENTS.items():
            store.put(key, text)
        store.delete("gone")
        store.put_edge("Bergen", "Norge")
        mentions = {place.document for place in store.lookup("Bergen") if place.document}
        assert mentions == {"haus", "maison", "house"}
        assert store.check() == []
        changed = dump_store(store)
    with kvstore.open(tmp_path / "b", embedder="hashing", settings=settings) as store:
        for key, text in reversed(DOCUMENTS.items()):
            store.put(key, text)
        store.put_edge("Bergen", "Norge")
        assert dump_store(store) == changed


@pytest.mark.parametrize(("tokenizer", "start"), [("words-5", "Am 3. Mai"), ("words-4", "Mai kam")])
def test_quoted_sentences_end_by_the_language_of_their_document(tmp_path: Path, tokenizer: str, start: str) -> None:
    text = "Am 3. Mai kam nach der Arbeit Karl Brandt von Lübeck. Er war nicht der Erste, und er blieb nicht."
    with kvstore.open(tmp_path / "s", embedder="hashing", settings={"tokenizer": tokenizer}) as store:
        for key in ("brandt", "copy", "second copy"):
            store.put(key, text)
        store.put_edge("Karl Brandt", "Lübeck")
        places = [location.text for location in store.lookup("Karl Brandt") if location.document]
        assert places[0].startswith(start)
        with store.state() as state:
            chunks = list(state.documents.get(1).chunk_ids())
            sentences = collect_cover_sentences(state, chunks)
            assert any(sentence.text.startswith(start) for sentence in sentences)
            ordered_chunks, _ = OrderedChunks.from_state(state)
            assert [sentence.start for sentence in ordered_chunks.iter_sentences(0)] == [
                sentence.start for sentence in sentences
            ]
        store.create_index("communities", {"least": 2})
        assert any(start in str(row) for row in store.execute("SELECT * FROM communities"))


def test_a_condition_compares_words_as_written_in_a_multilingual_store(tmp_path: Path) -> None:
    with kvstore.open(tmp_path / "s", embedder="hashing", settings={"stemmer": "multilingual"}) as store:
        for key, text in DOCUMENTS.items():
            store.put(key, text)
        find = "SELECT key FROM documents WHERE content MATCH ? ORDER BY key"
        assert [row[0] for row in store.execute(find, ["häuser"])] == ["haus"]
        assert [row[0] for row in store.execute(find, ["haus"])] == []
        assert [row[0] for row in store.execute(find, ["fisch*"])] == ["haus"]


def test_a_folder_in_several_languages_gets_the_multilingual_stemmer(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    for key, text in DOCUMENTS.items():
        (folder / f"{key}.txt").write_text(text, encoding="utf-8")
    with kvstore.open(tmp_path / "s", embedder="hashing") as store:
        store.ingest(folder)
        assert store.settings.stemmer == "multilingual"

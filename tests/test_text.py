"""Normal form, words, sentences, blocks and names by rule."""

from __future__ import annotations

import itertools
import random
import re
import unicodedata
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvstore.answering.answer_forms import ANSWER_FORMS
from kvstore.errors import InputError
from kvstore.text.blocks import parse_blocks, replace_sound_annotations, split_chunk_blocks
from kvstore.text.languages import detect_english
from kvstore.text.mail_fields import is_address_field
from kvstore.text.names import (
    _URL_OR_MAIL_PATTERN,
    SentenceNames,
    extract_title_names,
    find_identifiers,
    is_name_key,
    is_term,
)
from kvstore.text.normalize import fold, fold_text, normalize, to_entity_key
from kvstore.text.question_words import load_question_words
from kvstore.text.sentences import split_sentences
from kvstore.text.words import UNSPACED_RANGES, get_stemmer, segment_words, split_words, split_written_words
from kvstore_cext.words import WordSet


def list_names(text: str) -> set[str]:
    spans = [text[start:end] for start, end in split_sentences(text)]
    sentence_names = SentenceNames(spans)
    return {name.form for index in range(len(spans)) for name in sentence_names.iter_names(index)}


@given(
    st.lists(st.sampled_from("aắ가ᄀ\u0300\u0301\u0315\u0327\u0344\u0f73\u0f71\u3099\u05b0—"), min_size=1, max_size=8),
    st.randoms(use_true_random=False),
    st.sampled_from(["NFC", "NFD", "NFKC", "NFKD"]),
)
def test_ordered_marks_have_the_same_normal_form(pool: list[str], draw: random.Random, form: Any) -> None:
    text = "a" + "".join(draw.choices(pool, k=200))
    assert normalize(form, text) == unicodedata.normalize(form, text)


def test_long_runs_of_marks_are_ordered_before_they_are_normalized(monkeypatch: pytest.MonkeyPatch) -> None:
    texts: list[str] = []

    def record(form: Any, text: str) -> str:
        texts.append(text)
        return unicodedata.normalize(form, text)

    functions = SimpleNamespace(normalize=record, combining=unicodedata.combining)
    monkeypatch.setattr("kvstore.text.normalize.unicodedata", functions)
    for marks in ("\u0315\u0300", "\u0f73", "\u0344\u0327"):
        fold_text("a" + marks * 1000)
        classes = [unicodedata.combining(character) for text in texts if len(text) > 100 for character in text[1:]]
        assert classes and sum(first > second for first, second in itertools.pairwise(classes)) < 10
        texts.clear()


def test_an_amount_or_address_matches_from_its_start_only() -> None:
    # The time for a chain of numbers or hyphens would otherwise grow with the square of its length.
    texts = {
        "duration": "1.23,4." * 9 + " days",
        "money": "1.23,4." * 9 + " euros",
        "web address": "a-b-" * 9 + "c.org",
    }
    patterns = [(ANSWER_FORMS[kind], text) for kind, text in texts.items()]
    patterns += [(_URL_OR_MAIL_PATTERN, text) for text in ("ab-c.d.+e@kvstore.org", "https://kvstore.org")]
    german = load_question_words("german")
    assert german is not None
    patterns += [(german.forms["duration"], "1.23,4." * 9 + " Tage"), (german.forms["money"], "1.23,4." * 9 + " Euro")]
    for pattern, text in patterns:
        assert pattern.match(text)
        assert not any(pattern.match(text, start) for start in range(1, len(text) - len("days")))


def test_the_first_sign_that_can_separate_a_mail_address_is_used() -> None:
    for address, is_valid in {"<a@b>": True, "<@a@b>": True, "<a@@b>": True, "<@b>": False, "<ab@>": False}.items():
        assert (_URL_OR_MAIL_PATTERN.fullmatch(address) is not None) == is_valid
        assert is_address_field(f"From: Ada {address} ") == is_valid


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Ludwig  van\tBeethoven ", "ludwig VAN beethoven"),
        ("Straße", "STRASSE"),
        ("ﬁle ½", "FILE 1⁄2"),
        ("A\u030angstro\u0308m", "Ångström"),
        ("no\u00a0break", "No Break"),
        ("Søren Łukasz Müller", "soren lukasz muller"),
        ("Ἀθῆναι", "αθηναι"),
    ],
)
def test_names_that_differ_in_case_width_and_space_only_are_one(first: str, second: str) -> None:
    assert to_entity_key(first) == to_entity_key(second)


@pytest.mark.parametrize(
    ("original", "normal"),
    [
        ("أَحْمَد الهاشمى", "احمد الهاشمي"),
        ("مـــدرسة ١٩٥٤", "مدرسة 1954"),
        ("کتاب", "كتاب"),
        ("שָׁלוֹם", "שלומ"),
    ],
)
def test_letters_of_arabic_and_hebrew_are_normalized(original: str, normal: str) -> None:
    assert to_entity_key(original) == normal


def test_marks_that_are_part_of_a_letter_stay() -> None:
    assert to_entity_key("й") != to_entity_key("и")
    assert to_entity_key("が") != to_entity_key("か")


def test_names_that_differ_otherwise_are_not() -> None:
    assert len({to_entity_key(name) for name in ("C", "C++", "C#", ".C", "C C")}) == 5


@given(st.text())
def test_the_normal_form_is_a_fixed_point(text: str) -> None:
    assert to_entity_key(to_entity_key(text)) == to_entity_key(text)


@given(st.text("aé ß\u0301\u00a0\u1100\u1161ﬁがİ\n.", max_size=40) | st.text(max_size=60))
def test_a_text_is_folded_piece_by_piece_as_it_is_as_a_whole(text: str) -> None:
    half = "\ud800"  # what no UTF-8 has: the text is folded at once
    assert fold_text(text) + half == fold_text(text + half)


@given(st.text("abcZé_1²٣ 中文カx-'.", max_size=60) | st.text(max_size=60))
def test_words_are_those_of_the_regular_expression(text: str) -> None:
    segment = re.compile(rf"(?=\w)[{UNSPACED_RANGES}]|[^\W{UNSPACED_RANGES}]+")
    assert split_written_words(text) == segment.findall(text)
    assert segment_words(text) == segment.findall(fold_text(text))


@given(st.text("abcZé_1²٣ 中x-'", max_size=60), st.sets(st.text("abcZé中", min_size=1, max_size=3), max_size=20))
def test_words_of_a_set_are_counted_by_their_letters(text: str, sought: set[str]) -> None:
    runs = re.findall(r"[^\W\d_]+", text)
    assert WordSet(sought).count(text) == (sum(run in sought for run in runs), len(runs), sum(map(len, runs)))


@given(st.text(st.characters(codec="utf-8"), max_size=60))
def test_a_folded_text_leads_back_to_the_original(text: str) -> None:
    folded = fold(text)
    assert to_entity_key(folded.data.decode()) == to_entity_key(text)
    original = text.encode()
    places = [*folded.offsets] if folded.offsets is not None else [*range(len(original) + 1)]
    assert len(places) == len(folded.data) + 1
    assert places == sorted(places)
    assert places[-1] == len(original)
    # Any part between two character borders of the original folds to the part of the folded text.
    for start in range(len(folded.data)):
        assert original[places[start] :].decode("utf-8", "strict") is not None
        span = folded.to_original_span(start, start + 1)
        assert span[0] == places[start] < span[1]


def test_offsets_survive_characters_that_grow_or_shrink() -> None:
    text = "Groß İstanbul ﬁn Å"
    folded = fold(text)
    start = folded.data.index(b"fin")
    assert text.encode()[slice(*folded.to_original_span(start, start + 3))].decode() == "ﬁn"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
        ("Dr. Smith met Mr. J. R. Brown at 5 p.m. on Monday.", ["Dr. Smith met Mr. J. R. Brown at 5 p.m. on Monday."]),
        ("See e.g. the manual. It helps.", ["See e.g. the manual.", "It helps."]),
        ("Cllr. Ashe asked for it (max. 4 g). No.", ["Cllr. Ashe asked for it (max. 4 g).", "No."]),
        (
            "Open until 3 p.m. The desk shuts. Ann Poe Ltd. Leeds",
            ["Open until 3 p.m.", "The desk shuts.", "Ann Poe Ltd. Leeds"],
        ),
        ("It costs 3.50 euros. No more.", ["It costs 3.50 euros.", "No more."]),
        ("No mark\n\nnew paragraph", ["No mark", "new paragraph"]),
        ("今日は。明日。", ["今日は。", "明日。"]),
        ('He said "Stop." Then left.', ['He said "Stop."', "Then left."]),
        ("Done.\n\n*Table 8.2. All lamps*", ["Done.", "*Table 8.2. All lamps*"]),
        ("Table 8. It is broken.", ["Table 8.", "It is broken."]),
        ("Table 5? Yes, it is free.", ["Table 5?", "Yes, it is free."]),
        ("Stay. Table 8.2. It is broken.", ["Stay.", "Table 8.2.", "It is broken."]),
        ("", []),
    ],
)
def test_sentences(text: str, expected: list[str]) -> None:
    assert [text[start:end] for start, end in split_sentences(text)] == expected


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("spanish", "Artículo 7. Aportación. Son 15 €. Fin.", ["Artículo 7. Aportación. Son 15 €.", "Fin."]),
        (
            "spanish",
            "7. Junta: La elige el pleno. Véase el n.º 5.",
            ["7. Junta: La elige el pleno.", "Véase el n.º 5."],
        ),
        (
            "czech",
            "Od 15. 3. 2024 je zavřeno. Bylo jich 3. Další nic.",
            ["Od 15. 3. 2024 je zavřeno.", "Bylo jich 3.", "Další nic."],
        ),
        ("german", "Siehe § 4 Abs. 2. S. 12 sagt es auch.", ["Siehe § 4 Abs. 2.", "S. 12 sagt es auch."]),
        ("italian", "Art. 3. Quota. È di 12 euro. Vedi pag. 5.", ["Art. 3. Quota. È di 12 euro.", "Vedi pag. 5."]),
        ("italian", "Dormono al Rif. Bertolini. Poi salgono.", ["Dormono al Rif. Bertolini.", "Poi salgono."]),
        ("french", "Cela vaut depuis l'article 3. Il a changé.", ["Cela vaut depuis l'article 3.", "Il a changé."]),
        ("polish", "Art. 3. Składka. Wynosi 30 zł. Koniec.", ["Art. 3. Składka. Wynosi 30 zł.", "Koniec."]),
        ("polish", "Sadzi się je min. 3 m od płotu. Koniec.", ["Sadzi się je min. 3 m od płotu.", "Koniec."]),
        ("russian", "Статья 7. Взносы. Взнос мал. См. стр. 5.", ["Статья 7. Взносы. Взнос мал.", "См. стр. 5."]),
    ],
)
def test_numbers_of_articles_and_items_are_not_sentences(language: str, text: str, expected: list[str]) -> None:
    assert [text[start:end] for start, end in split_sentences(text, language)] == expected


@given(st.text(alphabet='aB .!?\n"。)', max_size=80))
def test_sentences_cover_everything_but_space(text: str) -> None:
    covered = set()
    for start, end in split_sentences(text):
        assert start < end
        assert covered.isdisjoint(range(start, end))
        covered |= set(range(start, end))
    assert all(index in covered for index, character in enumerate(text) if not character.isspace())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The Bank of England was founded in London.", {"Bank of England", "England", "London"}),
        ("Dear Juno Ferreira,", {"Juno Ferreira"}),
        ("In January, J. R. R. Tolkien met Charles de Gaulle.", {"J. R. R. Tolkien", "Charles de Gaulle"}),
        ("Are Christopher Nolan and Sathish Kalathil directors?", {"Christopher Nolan", "Sathish Kalathil"}),
        ("Running is fun. Nobody runs. They say Berlin is large.", {"Berlin"}),
        ("Use *foreign keys* and `pg_dump` daily.", {"foreign keys", "pg_dump"}),
        ("Later World War 2 ended.", {"World War 2"}),
        ("Nolan's Batman film", {"Nolan", "Batman", "Nolan's Batman"}),
        ("Osama bin Laden and Ludwig van Beethoven", {"Osama bin Laden", "Ludwig van Beethoven"}),
    ],
)
def test_names_by_rule(text: str, expected: set[str]) -> None:
    assert list_names(text) == expected


@pytest.mark.parametrize(
    ("text", "inside", "none"),
    [
        ("We saw the Analytical Engine of Charles Babbage.", {"Analytical Engine", "Charles Babbage"}, {"Engine"}),
        ("She taught at the University of Oxford.", {"University of Oxford", "Oxford"}, {"University"}),
        ("He fell in the Second Battle of Bull Run.", {"Second Battle of Bull Run", "Bull Run"}, {"Second Battle"}),
        ("They read the Lord of the Rings.", {"Lord of the Rings"}, {"Rings", "Lord"}),
        ("It is in Portugal's Autonomous Region of Madeira.", {"Portugal", "Madeira"}, {"Region"}),
        ("She won Best Actress for House of Cards.", {"House of Cards"}, {"Cards"}),
    ],
)
def test_a_name_inside_a_longer_one_is_a_name_if_it_also_occurs_alone(
    text: str, inside: set[str], none: set[str]
) -> None:
    names = list_names(text)
    assert inside <= names
    assert not none & names


@pytest.mark.parametrize(
    "text",
    [
        "- -d: Specifies the database. It specifies more.",
        "1. Take care of it.",
        "It was sold on May 28, 1896, and again in July 2000.",
        "For this, see Table 53 and Section 34.15.",
        "*Next* or *Prev* or *not so*",
        "It has 8 GB of memory (See the manual).",
        "| Name | Meaning |",
        "It is a London-based company.",
    ],
)
def test_words_that_are_not_names_are_not_found(text: str) -> None:
    assert list_names(text) == set()


def test_an_everyday_word_is_a_name_if_the_document_writes_it_as_one() -> None:
    assert "Oracle" in list_names("Then she went to Oracle. The company is old.")
    assert "Company" in list_names("Then she went to the Company. He came from the Company.")
    assert "Company" not in list_names("Then she went to the Company.")
    assert "Company" not in list_names("Then she went to the Company. The company is old.")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("He went to St Stephen's Green School.", {"St Stephen's Green School"}),
        ("It is the Borough of Kensington & Chelsea.", {"Borough of Kensington & Chelsea", "Kensington & Chelsea"}),
        ("It asked the Food and Drug Administration.", {"Food and Drug Administration"}),
        ("It is by the Bureau of Weights and Measures.", {"Bureau of Weights and Measures"}),
        ("It is the Forum of Incident Response and Teams.", {"Forum of Incident Response and Teams"}),
        ("We saw the Register of Historic Places.", {"Register of Historic Places"}),
        ("We saw Debian GNU/Linux there.", {"Debian", "Linux"}),
        ('They sang "The Guns of Navarone" there.', {"The Guns of Navarone"}),
        ('He said "You are Korvin" then.', {"Korvin"}),
        ("The mail of James M. Snell came on Mar 2026 17.", {"James M. Snell"}),
        ("They're of a Swiss, South Korean and Dutch kind. SHALL NOT is one of Ninety.", set()),
        ("It is told by DT_STRSZ Size, and by grep -A1 there.", set()),
        ("Write to ada.king@Example.org or http://www.Lovelace.org/Ada now.", set()),
        ("NAME(1)      Manual of Ada      NAME(1)", {"Manual of Ada", "Ada"}),
        ("He moved from Slovenia for Olimpija Ljubljana.", {"Slovenia", "Olimpija Ljubljana"}),
        ("It was John Lennon of the Beatles.", {"John Lennon", "Beatles"}),
        ("They saw Raiders of the Lost Ark.", {"Raiders of the Lost Ark", "Lost Ark"}),
        ("In 1901 Walter Kaufman came with an English peer.", {"Walter Kaufman"}),
        ("He sold Ascot, Shadow and Euro.", {"Ascot"}),
        ("They read ``War and Peace'' with Love and Honor.", {"War and Peace", "Love and Honor"}),
        ("Schindler's List is old.", {"Schindler", "Schindler's List"}),
        ("She went to King's College London.", {"King", "King's College London"}),
        ("They use Diffie- Hellman and Famous Players- Lasky.", {"Hellman", "Lasky"}),
        ("The 3.1 Ada told of module A. Notice it.", {"Ada"}),
        ("They told of the BLAS/LAPACK Vendors.", {"BLAS"}),
        ("C. Place it there.", set()),
    ],
)
def test_names_are_complete(text: str, expected: set[str]) -> None:
    assert list_names(text) == expected


def test_a_name_next_to_its_address_is_complete() -> None:
    text = "We met Juno Ferreira. Juno Ferreira is at juno@ferreira.example."
    assert list_names(text) == {"Juno Ferreira"}


def test_a_unit_of_mixed_case_is_a_name_in_capitals() -> None:
    assert {"HPA", "DBA"} <= list_names("The HPA scales the pods. Ask the DBA team, since the DBA knows the HPA.")
    assert is_term("DBA") and not is_term("dBA")
    assert not list(find_identifiers("at 45 dBA and 1013 hPa"))


def test_neighboring_marks_of_sounds_are_replaced_together() -> None:
    assert replace_sound_annotations("{vocalsound}{pause} Well, see /alerts/{id}.") == "  Well, see /alerts/{id}."


@pytest.mark.parametrize(
    ("title", "expected"),
    [
        ("J. Lee Thompson", {"J. Lee Thompson"}),
        ("C. S. Lewis", {"C. S. Lewis"}),
        ("A. PostgreSQL Error Codes", {"PostgreSQL Error Codes", "PostgreSQL Error Code"}),
        ("2. Foreign Data", {"Foreign Data"}),
        ("69.2 Foreign Data", {"Foreign Data"}),
        ("1 Introduction", set()),
        ("Article 2. Foreign Data", {"Foreign Data"}),
        ("§ 3 Foreign Data", {"Foreign Data"}),
        ("Article 5 of the Treaty", {"Article 5 of the Treaty"}),
        ("Article 50 TFEU", {"Article 50 TFEU"}),
        ("§ 3", set()),
    ],
)
def test_an_initial_is_no_number_of_a_title(title: str, expected: set[str]) -> None:
    assert {name.form for name in extract_title_names(title, "title")} == expected


@pytest.mark.parametrize(
    ("heading", "expected"),
    [
        ("done", set()),
        ("Look", set()),
        ("See also", set()),
        ("Further examples", set()),
        ("initdb", {"initdb"}),
        ("PGDATA", {"PGDATA"}),
        ("initdb(1)", {"initdb(1)", "initdb"}),
        ("Aggregated Data", {"Aggregated Data"}),
    ],
)
def test_a_heading_that_names_a_subject_is_a_name(heading: str, expected: set[str]) -> None:
    assert {name.form for name in extract_title_names(heading, "heading")} == expected


def test_a_term_is_made_of_words() -> None:
    for form in ("disk space", "C++ compiler", "initdb(1)", "x86-64 assembler", "Boyle's law"):
        assert is_term(form) == (form != "initdb(1)"), form
    for form in ("initdb(1", "g swede", "pDb, /", "1) item", "of course", "3rd party", "Table 53", "a | b", "note:"):
        assert not is_term(form), form


def test_the_language_of_a_part_is_detected_from_its_function_words() -> None:
    english, german = "The name of the rose is not as old as that.", "Der Name der Rose ist nicht so alt wie der Stein."
    table, russian = "| Ada | 12 |", "Мать мыла раму, и это было хорошо."
    assert detect_english([english, english, german, table, russian]) == [True, True, False, True, False]
    assert detect_english([german, german, table]) == [False, False, False]
    assert detect_english([table, "Ludwig van Beethoven, Charles de Gaulle"]) == [True, True]
    french = "Le nom de la rose est dans le livre, et il ne sait pas que la fleur est rouge."
    assert (
        detect_english([french, "El nombre de la rosa es una novela que se lee en el mundo y en la escuela."])
        == [False] * 2
    )


def test_a_word_that_opens_a_sentence_is_a_name_if_the_text_shows_it() -> None:
    assert "Darjeeling" not in list_names("Darjeeling is high up.")
    assert "Darjeeling" in list_names("Darjeeling is high up. Many visit Darjeeling.")
    assert list_names("Vacuuming helps. We like vacuuming.") == set()


def test_code_identifiers_in_running_text() -> None:
    identifiers = {
        name.form for name in find_identifiers("call floor() with max_connections, camelCase or --jobs; plain words")
    }
    assert identifiers == {"floor", "max_connections", "camelCase", "--jobs"}


def test_titles_bring_their_short_and_singular_forms() -> None:
    assert {name.form for name in extract_title_names("Demon (film)", "title")} == {"Demon (film)", "Demon"}
    assert {name.form for name in extract_title_names("5.4.5. Foreign Keys", "heading")} == {
        "Foreign Keys",
        "Foreign Key",
    }
    assert {name.form for name in extract_title_names("Chapter 3. Queries", "heading")} == {"Queries", "Query"}
    assert {name.form for name in extract_title_names("Status", "title")} == {"Status"}


def test_names_that_may_become_entities() -> None:
    assert is_name_key("c++", 12)
    assert not is_name_key("42", 12)
    assert not is_name_key("a b c", 2)
    assert not is_name_key("x" * 300, 12)


def test_blocks_of_markdown() -> None:
    text = (
        "# Top *one*\n\nProse here\nstill.\n\n- item\n- [ ] other\n\n```py\ncode\n```\n\n"
        "| a | b |\n|---|---|\n| 1 | 2 |\n\n---\n"
    )
    blocks = [(b.kind, b.title or text[b.start : b.end].split("\n")[0]) for b in parse_blocks(text, "markdown")]
    assert blocks == [
        ("heading", "Top one"),
        ("prose", "Prose here"),
        ("item", "item"),
        ("item", "[ ] other"),
        ("code", "```py"),
        ("table", "| a | b |"),
        ("prose", "---"),
    ]


@given(st.text(alphabet="ab #\n.-`|*>1[]:<_é\t", max_size=120))
def test_blocks_lose_nothing(text: str) -> None:
    for form in ("markdown", "text"):
        covered: set[int] = set()
        for block in parse_blocks(text, form):
            covered |= set(range(block.start, block.end))
        assert all(index in covered for index, character in enumerate(text) if not character.isspace())


def test_words_and_stems() -> None:
    assert split_words("The Naïve pg_dump's C++") == ["the", "naive", "pg_dump", "s", "c"]
    assert get_stemmer("english")("queries") == get_stemmer("english")("query")
    assert get_stemmer("none")("queries") == "queries"
    with pytest.raises(InputError, match="no stemmer"):
        get_stemmer("klingon")


def test_the_blocks_of_a_chunk_are_described() -> None:
    text = (
        "x = 1\n\ny = 2\n```\n\nOptions of the lamp:\n\n- `-a`, `--all`: Lights all. Even those far off.\n\n"
        "  As here:\n\n  ```sh\n  lamp -a\n  ```\n\n- `-b`: Blinks.\n  - twice\n\n"
        "Their oil\n\n| lamp | oil |\n| --- | --- |\n| north | 3 |\n\n## Wicks\nCut them."
    )
    descriptions = [
        (block.kind, text[block.start : block.end].split("\n")[0], block.level, block.introduces_next)
        for block in split_chunk_blocks(text)
    ]
    assert descriptions == [
        ("code", "x = 1", 0, False),
        ("prose", "Options of the lamp:", 0, True),
        ("item", "- `-a`, `--all`: Lights all. Even those far off.", 1, False),
        ("item", "As here:", 1, True),
        ("code", "```sh", 0, False),
        ("item", "- `-b`: Blinks.", 1, False),
        ("item", "- twice", 2, False),
        ("prose", "Their oil", 0, True),
        ("table", "| lamp | oil |", 0, False),
        ("heading", "## Wicks", 2, False),
        ("prose", "Cut them.", 0, False),
    ]
    terms = [text[block.start : block.term_end] for block in split_chunk_blocks(text) if block.term_end > block.start]
    assert terms == ["- `-a`, `--all`", "- `-b`"]
    assert [block.continues for block in split_chunk_blocks("| north | 3 |\n| south | 4 |\n\nEnd.")] == [True, False]
    assert [block.introduces_next for block in split_chunk_blocks("So it is:\n\none two\n\nthree", "text")] == [
        True,
        False,
        False,
    ]


@given(st.text("ab. :|-`#>\n\t1*~", max_size=60))
def test_blocks_of_any_text_are_in_order(text: str) -> None:
    position = 0
    for block in split_chunk_blocks(text):
        assert position <= block.start < block.end <= len(text)
        assert block.start <= block.term_end <= block.end or block.kind != "item"
        position = block.end

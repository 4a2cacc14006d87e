"""The order of a triple's parts in a sentence: forms that relate them, and sentences that say something else."""

from __future__ import annotations

import pytest

from kvstore.models.triple_support import check_triple, list_names_and_predicates

TEXT = (
    "Ann Lee founded the choir of Rome in 1802. The mill was built by Bo Ray. Born in Oslo, Carl Berg sails. "
    "The capital of Norway is Oslo. In 1990, Eva Dahl bought the pier. She painted it red. "
    "Kent, a county of England, has 36 mills, which grind corn for Anna Lind. Locomotives pull wagons. "
    "The film was made by Dan Fox, directed by Bo Ray and based on a book. "
    "Finn Moe is a Danish comics writer and editor. Ida Krog is the Reva Holt professor of law."
)


@pytest.mark.parametrize(
    "triple",
    [
        ("Ann Lee", "founded", "choir of Rome"),
        ("Ann Lee", "founded choir in", "1802"),
        ("choir of Rome", "founded by", "Ann Lee"),
        ("Bo Ray", "built", "mill"),
        ("mill", "was built by", "Bo Ray"),
        ("Carl Berg", "born in", "Oslo"),
        ("Oslo", "is the capital of", "Norway"),
        ("Norway", "capital is", "Oslo"),
        ("Eva Dahl", "bought pier in", "1990"),
        ("Eva Dahl", "painted", "red"),
        ("Kent", "is", "county of England"),
        ("Kent", "has", "36 mills"),
        ("Locomotives", "pull", "wagons"),
        ("film", "directed by", "Bo Ray"),
        ("Finn Moe", "is", "comics writer"),
        ("Finn Moe", "is", "editor"),
    ],
)
def test_a_sentence_relates_the_parts(triple: tuple[str, str, str]) -> None:
    check_triple(*triple, TEXT)


@pytest.mark.parametrize(
    ("triple", "message"),
    [
        (("choir of Rome", "founded", "Ann Lee"), "in this order"),
        (("mill", "built", "Bo Ray"), "in this order"),
        (("Oslo", "born in", "Carl Berg"), "in this order"),
        (("wagons", "pull", "Locomotives"), "in this order"),
        (("Ann Lee", "is", "Rome"), "in this order"),
        (("Ann Lee", "founded", "1802"), "in this order"),
        (("Kent", "mills", "corn"), "has no verb"),
        (("Kent", "county England", "mills"), "has no verb"),
        (("Oslo", "Norway of", "capital"), "has no verb"),
        (("Bo Ray", "was", "built by"), "not a name or a short term"),
        (("Kent", "has", "corn"), "in this order"),
        (("film", "made by", "Bo Ray"), "in this order"),
        (("Kent", "has", "Anna Lind"), "in this order"),
        (("Ann Lee", "founded", "in 1802"), "not a name or a short term"),
        (("Ann Lee", "founded the choir of Rome and sang in it", "Rome"), "at most 7 words"),
        (("Finn Moe", "is", "comic"), "in this order"),  # "comics" only modifies "writer"
        (("Ida Krog", "is", "reva"), "in this order"),
        (("Ann Lee", "founded", "Ann Lee"), "repeats its words"),
        (("Ann Lee", "Ann", "Rome"), "repeats its words|has no verb"),
    ],
)
def test_a_triple_that_no_sentence_says_is_refused(triple: tuple[str, str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_triple(*triple, TEXT)


def test_a_subject_at_the_end_of_a_sentence_can_contain_the_verb() -> None:
    with pytest.raises(ValueError, match="in this order"):
        check_triple("Old Lives", "lives in", "Paris", "In Paris the Old Lives.")


def test_other_languages_need_the_subject_before_the_object() -> None:
    text = "Die Mühle wurde 1802 gebaut. Anna Lind hat den Müller in Oslo besucht."
    check_triple("Anna Lind", "besucht", "Müller", text)
    with pytest.raises(ValueError, match="in this order"):
        check_triple("Müller", "besucht", "Anna Lind", text)
    check_triple("Anna Lind", "besucht", "Müller", "Am 3. Mai hat Anna Lind z. B. Herrn und Frau Dr. Müller besucht.")
    check_triple("東京", "首都", "日本", "日本の首都は東京です。")


def test_only_the_title_can_be_the_subject_of_a_sentence_that_does_not_name_it() -> None:
    text = "From 1999 to 2008, the job was an investigative one. It is a film of 1999."
    check_triple("The Tower", "is", "film", text, title="The Tower")
    with pytest.raises(ValueError, match="in this order"):
        check_triple("The Tower", "was", "investigated", text, title="Lowell Bergman")


LIFE = (
    "Ann Lee of Oslo (born 2 May 1801) was a Danish singer, sister of Carl Lee of Norway, and Queen of Kent and Essex. "
    "She met Bo Ray, who founded the mill. Her husband, Dan Fox, died in Rome. Her first album was released in 1820. "
    "The brother of Ann Lee sings in Bern. Ann Lee, whose aunt is a priest, lives in New York. Born in Ulm, she sails. "
    "The light at the pier is red. Ann Lee was the first artist to sail. "
    "* * * Yesterday Eva Dahl met Gene Kelly. Gene Kelly was born in Italy."
)


@pytest.mark.parametrize(
    "triple",
    [
        ("Ann Lee of Oslo", "born", "2 May 1801"),
        ("Ann Lee of Oslo", "was", "singer"),
        ("Ann Lee", "met", "Bo Ray"),
        ("Bo Ray", "founded", "mill"),
        ("Ann Lee", "born in", "Ulm"),
        ("light", "is", "red"),
        ("Eva Dahl", "met", "Gene Kelly"),
        ("Gene Kelly", "was born in", "Italy"),
    ],
)
def test_the_subject_of_a_verb_can_be_far_from_it(triple: tuple[str, str, str]) -> None:
    check_triple(*triple, LIFE, title="Ann Lee")


@pytest.mark.parametrize(
    "triple",
    [
        ("Ann Lee", "was", "Carl Lee"),
        ("Ann Lee", "was", "Essex"),
        ("Ann Lee", "was", "Norway"),
        ("Ann Lee", "is", "Ulm"),
        ("Ann Lee", "founded", "mill"),
        ("Ann Lee", "died in", "Rome"),
        ("Ann Lee", "is", "released"),
        ("Ann Lee", "sings in", "Bern"),
        ("Ann Lee", "is", "priest"),
        ("Ann Lee", "lives in", "York"),
        ("Ann", "met", "Bo"),
        ("pier", "is", "red"),
        ("Ann Lee", "was", "first artist"),
    ],
)
def test_a_verb_of_another_subject_or_object_is_refused(triple: tuple[str, str, str]) -> None:
    with pytest.raises(ValueError, match=r"in this order|not a name"):
        check_triple(*triple, LIFE, title="Ann Lee")


def test_the_parts_of_triples_are_those_of_the_text() -> None:
    names, predicates = list_names_and_predicates(LIFE)
    assert names[:3] == ["Ann Lee of Oslo", "2 May 1801", "Danish singer"]
    assert {"Queen of Kent", "Bo Ray", "mill", "New York"} <= set(names)
    assert {("born", "2 May 1801"), ("was", "Danish singer"), ("met", "Bo Ray"), ("founded", "mill")} <= set(predicates)
    assert list_names_and_predicates("Die Mühle wurde 1802 von Anna Lind in Oslo gebaut.") == ([], [])


def test_a_sentence_without_words_is_skipped() -> None:
    text = "Bo Ray was born in Oslo.\n\n---\n\nHe founded the choir of Rome in 1900."
    check_triple("Bo Ray", "founded", "choir of Rome", text, title="Bo Ray")


def test_rows_of_a_table_are_no_predicates() -> None:
    assert list_names_and_predicates("The oak was made in Kent | 1900 | Ghent. Ann Lee is here.")[1] == [
        ("was made in", "Kent")
    ]

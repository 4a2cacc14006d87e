"""Texts cut into words by the kernel: the same as regular expressions cut them, whatever the text."""

from __future__ import annotations

import re
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version

import pytest
import snowballstemmer
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis_profile import num_examples

from kvstore.extraction.chunking import TOKEN_PATTERN
from kvstore.text.names import _RULES, OPENING_MARKS, SentenceNames, extract_titles
from kvstore.text.normalize import fold_text
from kvstore.text.words import (
    FUNCTION_WORDS,
    UNSPACED_RANGES,
    count_chunk_terms,
    count_text_terms,
    count_text_tokens,
    count_written_words,
    find_technical_tokens,
    get_stemmer,
    list_content_terms,
    list_content_words,
    list_search_words,
    segment_words,
    separate_unspaced,
)
from kvstore_cext.capital_runs import CapitalRuns
from kvstore_cext.stemming import stem_english
from kvstore_cext.words import list_name_pieces

WORD = r"(?:(?:[^\W\d_]\.){2,}|[^\W_]\w*(?:(?:[-'’&](?=\w)|\.(?=[^\W\d_]\.))\w*)*\.?)"
PIECE = re.compile(
    rf"(?P<word>{WORD})|(?P<option>(?<![^\s(\[|,])--?(?=[^\W\d_]){WORD})|(?P<code>`[^`\n]{{1,100}}`)"
    r"|(?P<emphasis>(?<![\w*])\*{1,2}(?=[^\s*])[^*\n]{2,60}?(?<=[^\s*])\*{1,2}(?![\w*]))"
    r"|(?P<mark>(?<=\w)-[ \n]|\S|(?<=\S) {4,})"
)
FRAGMENTS = st.sampled_from(
    ["Ada", "Bank", "of", "the", "de", "la", "river", "U.S.", "a.b.c", "x.", "'s", "’", "-", "&", ".", "`", "*", "**",
     "_", "\n", "/", "~", "\\", "@", "$", "#", "+", "(", ")", ":", "|", "[", "カナ", "max_wal", "--no", " ",
     "  ", "      ", "2", "1999", "²", "½", "٣", "ǅ", "Éa", "ß", "漢字", "𝒜", "é", "e\u0301", "word" * 20]
)  # fmt: skip
SEGMENT = re.compile(rf"(?=\w)[{UNSPACED_RANGES}]|[^\W{UNSPACED_RANGES}]+")
PAIR = re.compile(rf"(?=(?=\w)[{UNSPACED_RANGES}](?=\w)[{UNSPACED_RANGES}])..", re.DOTALL)
TEXTS = st.text() | st.lists(FRAGMENTS, max_size=40).map("".join) | st.lists(FRAGMENTS, max_size=40).map(" ".join)


@given(TEXTS)
def test_tokens_are_counted(text: str) -> None:
    assert count_text_tokens(text) == len(TOKEN_PATTERN.findall(text))


def list_words_and_pairs(text: str) -> list[str]:
    """Return the words of a text, each followed by the pair of characters that begins at its start, if any."""
    folded = fold_text(text)
    words = []
    for segment in SEGMENT.finditer(folded):
        words.append(segment.group())
        if pair := PAIR.match(folded, segment.start()):
            words.append(pair.group())
    return words


@given(TEXTS, st.sampled_from(["english", "none"]))
def test_terms_are_counted_in_order_of_their_first_words(text: str, language: str) -> None:
    stem = get_stemmer(language)
    for leaving_out in (frozenset[str](), FUNCTION_WORDS):
        expected = Counter(stem(word) for word in list_words_and_pairs(text) if word not in leaving_out)
        assert list(count_text_terms(text, stem, leaving_out).items()) == list(expected.items())


@pytest.mark.parametrize(
    ("question", "terms"),
    [
        ("Quand est-ce que la boutique de Bruz ferme cet été ?", ["boutique", "bruz", "ferme"]),
        ("Wie viel Geld gibt es für neue Klettergeräte?", ["geld", "neue", "klettergerate"]),
        ("¿Cuánto cuesta la vacuna de los gatos?", ["cuesta", "vacuna", "gatos"]),
        ("Who is Charles de Gaulle?", ["charles", "de", "gaulle"]),
        ("Van der Waals", ["waals"]),
        ("La Paz", ["la", "paz"]),
        ("wie es ist", ["wie", "es", "ist"]),
    ],
)
def test_questions_are_asked_without_the_function_words_of_their_language(question: str, terms: list[str]) -> None:
    assert list_content_terms(question, get_stemmer("none")) == terms


@given(TEXTS, st.sampled_from(["english", "none"]))
def test_technical_tokens_and_joined_parts_are_terms_like_words(text: str, language: str) -> None:
    stem = get_stemmer(language)
    parts = [part for word in list_words_and_pairs(text) if "_" in word for part in word.split("_") if part]
    words = [*list_words_and_pairs(text), *parts]
    assert count_chunk_terms(None, [], text, stem) == Counter([*map(stem, words), *find_technical_tokens(text)])


@given(TEXTS, TEXTS, TEXTS)
def test_the_terms_of_a_chunk_are_those_of_its_text_and_its_headings(text: str, title: str, heading: str) -> None:
    stem = get_stemmer("english")
    expected: Counter[str] = Counter()
    for part in [text, *dict.fromkeys([title, heading])]:
        expected.update(count_chunk_terms(None, [], part, stem))
    assert count_chunk_terms(title, [heading, title, heading], text, stem) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("pg_dump --no-owner, or -O.", ["--no-owner", "-o"]),
        ("initdb(1) makes $PGDATA", ["initdb(1)", "$pgdata"]),
        ("in /etc/hosts and ../src/main.c", ["/etc/hosts", "../src/main.c"]),
        ("see https://www.example.org/a.b, or x@y.org", ["www.example.org/a.b", "x@y.org"]),
        ("C++ and C# and \\copy and now()", ["c++", "c#", "\\copy", "now()"]),
        ("a well-known thing -- that is it; 3-4 (a) [b] well-known.", []),
        ("version 15.2 at 10:30, std::vector", ["15.2", "10:30", "std::vector"]),
    ],
)
def test_technical_tokens(text: str, expected: list[str]) -> None:
    assert find_technical_tokens(text) == expected


def test_writing_without_spaces_is_cut_into_characters() -> None:
    assert segment_words("東京タワーは333m") == [*"東京タワーは", "333m"]
    assert count_text_tokens("東京は、大きい。") == 8
    assert segment_words("ภาษา ລາວ ខ្មែរ") == [*"ภาษาລາວខមរ"]


@given(TEXTS)
def test_questions_are_looked_up_by_words_and_pairs_of_characters(text: str) -> None:
    folded = fold_text(text)
    expected = []
    for word in SEGMENT.finditer(folded):
        pair = PAIR.match(folded, word.start())
        if pair is not None:
            expected.append(pair.group())
        elif word.start() == 0 or PAIR.match(folded, word.start() - 1) is None:
            expected.append(word.group())
    assert list_search_words(text) == expected
    assert set(expected) <= count_text_terms(text, get_stemmer("none")).keys()


def test_writing_without_spaces_is_parted_at_function_words() -> None:
    assert list_content_words("水的沸点是多少？") == ["水", "沸点"]
    assert list_content_words("東京タワーの高さは何メートルですか？")[:4] == ["東京", "京タ", "タワ", "ワー"]
    assert list_content_terms("是什么", get_stemmer("none")) == ["是什", "什么"], "nothing else is left"


def test_two_characters_of_writing_without_spaces_count_as_a_word() -> None:
    assert count_written_words("The port is old.") == 4
    assert count_written_words("港口非常古老。Bergen 1070") == 5
    assert separate_unspaced("AFC锦标赛2015年").split() == ["AFC", "锦标赛", "2015", "年"]


@pytest.mark.parametrize("text", ["Who approves parental leave in Bergen, and since 2024?", "café-bar max_wal_size -O"])
def test_the_terms_of_texts_with_spaces_are_their_words(text: str) -> None:
    assert list_search_words(text) == segment_words(text)
    assert list(count_text_terms(text, get_stemmer("none"))) == list(dict.fromkeys(segment_words(text)))


@given(TEXTS)
def test_pieces_of_names_are_those_near_a_capital(text: str) -> None:
    expected: list[str] = []
    lower_expected: set[str] = set()
    upper_expected: set[str] = set()
    gap = 3
    opened = False
    for match in PIECE.finditer(text):
        piece = match.group()
        if match["word"]:
            gap = 0 if piece[0].isupper() or piece[0].isdigit() else gap + 1
            before, behind = text[match.start() - 1 : match.start()], text[match.end() : match.end() + 1]
            in_address = before in tuple("@/\\.~") or behind in tuple("@/\\")
            in_address |= piece[-1] == "." and re.match(r"\w", behind) is not None
            if piece[0].islower() and not in_address:
                lower_expected.add(piece.rstrip("."))
            elif piece[0].isupper() and opened:
                upper_expected.add(piece.rstrip("."))
        else:
            gap = 2 if piece in ("/", "&", "- ", "-\n") else 3
        if gap <= 3 or not opened or "_" in piece:
            expected.append(piece)
        opened |= not piece[0].isdigit() if match["word"] else len(piece) > 1 and piece[0] in "`*"
        opened = opened and not (match["word"] and "_" in piece)
        opened = opened and piece not in OPENING_MARKS and piece[0] != " "
    lower: set[str] = set()
    upper: set[str] = set()
    assert list_name_pieces(text, lower, upper) == expected
    assert lower == lower_expected
    assert upper == upper_expected


@given(st.lists(TEXTS, max_size=4))
@example(["A/a A0 0"])
@example(["A& a A"])
@example(["A;Ban", "-A;a;Ban"])
@example(["A\x1ba_%A.A.Bn"])
@example(["A_;a;A.a."])
@example(["The A/b and input/output Device Manager"])
def test_pieces_that_do_not_belong_to_a_name_form_none(sentences: list[str]) -> None:
    seen, whole = SentenceNames(sentences), SentenceNames(sentences)
    rests = [extract_titles(sentence)[1] for sentence in sentences]
    pieces = [[match.group() for match in PIECE.finditer(remainder)] for remainder in rests]
    common, capitalised = set[str](), set[str]()
    for remainder in rests:
        list_name_pieces(remainder, common, capitalised)
    whole._runs = CapitalRuns(_RULES, pieces, common, capitalised)
    for index in range(len(sentences)):
        assert list(seen.iter_names(index)) == list(whole.iter_names(index))


# Stems

#: Words and their stems.
ENGLISH = """
    by by, they they, skies sky, sky sky, news news, only onli, dying die, crying cri, eying eye, ying ying,
    past past, pasted paste, pasting paste, generously generous, universal universal, university universiti,
    organs organ, organization organiz, communism communism, emergency emergenc, interest interest, laterally
    lateral, succeed succeed, exceeding exceed, agreed agre, feed feed, inning inning, outing outing, evening
    evening, egged egg, added add, hopping hop, hoping hope, luxuriated luxuri, sized size, tabled tabl, played
    play, youth youth, say say, syzygy syzygi, knightly knight, analogous analog, archaeologist archaeolog,
    apologies apolog, possibly possibl, rationalizations ration, hopefulness hope, relativity relat, electrical
    electr, adoption adopt, adjustment adjust, controllable control, roll roll, gases gase, gaps gap, kiwis
    kiwi, ties tie, cries cri, classes class, bonus bonus, abbess abbess, x9s x9s, naïveties naïveti, 'tis tis,
    it's it, dogs'' dogs', Yankees Yanke
"""
ENDINGS = """
    s sses ss us ied ies eed eedly ed edly ing ingly tional enci anci abli entli izer ization ational ation ator alism
    aliti alli fulness ousli ousness iveness iviti biliti bli ogi ogist fulli lessli li icate ative alize iciti ical ful
    ness al ance ence er ic able ible ant ement ment ent ism ate iti ous ive ize ion e l y ' 's 's' past succ proc exc
    even cann inn earr herr out gener commun arsen univers later emerg organ inter at bl iz bb tt Y
""".split()
WORDS = (
    st.lists(st.sampled_from(ENDINGS) | st.sampled_from("aeiouybtlsnrwx'é9"), max_size=6).map("".join)
    | st.text("aeiouybcdlstx'Y", max_size=9)
    | st.text(max_size=80)
)


@given(WORDS)
@settings(max_examples=num_examples(1000))
@pytest.mark.skipif(version("snowballstemmer") < "3.1", reason="older versions have other rules")
def test_english_is_stemmed_as_by_snowball(word: str) -> None:
    assert stem_english(word) == snowballstemmer.stemmer("english").stemWord(word)


def test_known_english_stems_stay() -> None:
    for pair in ENGLISH.split(","):
        word, stem = pair.split()
        assert stem_english(word) == stem, word
    assert stem_english("") == ""
    assert stem_english("y" * 5000 + "s") == "y" * 4999 + "i"
    assert stem_english("ab" * 5000 + "ings") == "ab" * 5000
    with pytest.raises(TypeError):
        stem_english(None)  # type: ignore[arg-type]


@pytest.mark.parametrize("language", ["english", "german"])
def test_threads_stem_words_side_by_side(language: str) -> None:
    words = [f"{place}organisationslehren" for place in "abcdefghijklmnopqrstuvwxyzäöü"]
    expected = list(map(snowballstemmer.stemmer(language).stemWord, words))
    get_stemmer.cache_clear()  # what is remembered is not stemmed
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            for _ in range(20):
                stem = get_stemmer(language)
                for stems in pool.map(lambda _, stem=stem: list(map(stem, words)), range(4)):
                    assert stems == expected
                get_stemmer.cache_clear()
    finally:
        sys.setswitchinterval(interval)

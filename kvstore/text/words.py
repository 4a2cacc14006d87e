"""Words of a text, and its *terms*: the stems of its words, which posting lists index. In a script without spaces, such
as Chinese, terms are *bigrams* of characters, or words from a *segmenter*. *Normal form* is case-folded, without
accents. A *technical token* is an option, path or call (``ls()``).

In: any text. Out: words in normal form (letters, digits and underscores, see :mod:`.normalize`), and their stems. Every
word of a name that occurs in a chunk is one of the chunk's terms.

Chinese, Japanese, Thai, Lao, Burmese and Khmer have no spaces between words: each character is a word here. The terms
of such text are its characters and its bigrams; a question searches for the bigrams, and for a character only if it has
no neighbor. Technical tokens, which are recognized by their marks (``--no-owner``, ``/etc/hosts``, ``initdb(1)``,
``postgresql.conf``, ``c++``), are terms in addition to the words in them, and so are the parts of a word with
underscores (``max_wal_size``).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, lru_cache
from threading import Lock

from kvstore_cext.stemming import stem_english
from kvstore_cext.words import count_terms, count_tokens, find_term_words, find_words

from ..errors import InputError
from .function_words import FUNCTION_WORDS_BY_LANGUAGE
from .light_stemmers import INDIC_RUN_PATTERN, stem_indic_run, stem_korean, stem_ukrainian
from .normalize import fold_text
from .patterns import compile_lazily
from .segmenters import SEGMENTERS, Segmenter, open_segmenter

WORD_PATTERN = compile_lazily(r"\w+")
#: Characters of writing without spaces: Thai and Lao, Burmese, Khmer, ideographs and kana.
UNSPACED_RANGES = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
    "\u2e80-\u30ff\u3100-\u312f\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
#: Words that are joined by marks, or have a mark before or after them. Hyphens alone do not make a technical token.
_JOINED_WORDS_PATTERN = compile_lazily(
    r"(?P<mark>(?<![\w-])--?(?=[^\W\d])|(?<!\w)[$@#%\\](?=\w)|(?<![\w/.~])(?:~|\.{1,2})?/(?=\w))?"
    r"\w+(?:(?:[-./\\@]|::?)\w+)*(?P<end>\(\w{0,2}\)|\+\+(?!\w)|\#(?!\w))?"
)
#: Every technical token contains one of these.
_MARK_PATTERN = compile_lazily(r"[-./\\@:$#%~(+]")
_INFORMATIVE_MARK_PATTERN = compile_lazily(r"[^\w-]")
#: Words with a digit that are joined by marks, except decimals and numbers with a unit ("32-foot").
_REFERENCE_NUMBER_PATTERN = compile_lazily(
    r"(?<![\w./-])(?=[\w./-]*\d)(?!(?:\d+\.(?:\d+|[ao]s?|er)|\d{1,3}(?:\.\d{3})+)(?![\w./-]))"
    r"(?![\d.]+-[^\W\d]{3})\w+(?:[-./]\w+)+(?![\w/-])"
)

#: Words that ask for texts and say nothing about their subject.
_QUESTION_WORDS = frozenset(
    """
    answer anything define defined definition describe described describes detail details discuss discussed discussing
    discussion everything example examples explain explained explains explanation find found give given happen happened
    happens information introduce introduction know known learn list look mean meaning means meant mention mentioned
    need nothing overview please purpose read said say says see show shown shows something summarise summarised
    summarize summarized summary talk talked tell tells thing things understand want
    document documentation documents manual page text
    """.split()
)

#: English function words: they open sentences without being names, and say nothing about the subject of a text.
FUNCTION_WORDS = frozenset(
    """
    a about above after again against all also although always am an and any are as at be because been before being
    below between both but by can cannot could did do does doing down during each either else even every few finally
    for from further had has have having he hence her here hers herself him himself his how however i if in instead
    into is it its itself just later let like many may me meanwhile might more most much must my myself neither
    never no nor not note now of off often on once one only or other others our ours ourselves out over own per
    perhaps please rather same several shall she should since so some sometimes soon such than that the their theirs
    them themselves then there therefore these they this those though through thus to today together too under
    unless until up upon us use used using very was we were what when whenever where whereas whether which while who
    whom whose why will with within without would yes yet you your yours yourself yourselves
    """.split()
)
#: The languages that have a function word, by its normal form.
_LANGUAGES_BY_WORD: dict[str, tuple[str, ...]] = {}
for _language, _words in {"english": FUNCTION_WORDS, **FUNCTION_WORDS_BY_LANGUAGE}.items():
    for _word in _words:
        _LANGUAGES_BY_WORD[_word] = (*_LANGUAGES_BY_WORD.get(_word, ()), _language)
#: Function words of Chinese (in both scripts) and Japanese, most of them question words. A run of characters is split
#: at them before it is divided into bigrams. Characters that are frequent in other words, such as 在 in 存在, are not
#: listed.
_UNSPACED_FUNCTION_WORDS = frozenset(
    """
    什么 什麼 甚么 甚麼 谁 誰 哪 哪个 哪個 哪些 哪位 哪里 哪裡 哪儿 哪年 哪一年 何时 何時 何地 何处 何處 何种 何種
    怎么 怎麼 怎样 怎樣
    怎么样 怎麼樣 如何 为什么 為什麼 为何 為何 多少 几个 幾個 是否 是不是 有没有 有沒有 请问 請問 什么样 什麼樣
    什么时候 什麼時候
    的 了 着 是 吗 嗎 呢 吧 这个 這個 那个 那個 这些 這些 那些 这种 這種 他们 他們 她们 她們 它们 它們 我们 我們 你们
    你們
    以及 并且 並且 但是 因为 因為 所以 如果 虽然 雖然 或者 可以 已经 已經 其中 之一 一个 一個 一种 一種 没有 沒有
    何 何人 何年 何月 何日 何歳 何時 何時間 何個 何回 何度 何ですか 誰 だれ どこ いつ なぜ どうして どう どの どれ
    どちら どんな どのように どのくらい
    どれくらい いくつ いくら なに なん
    です ですか でした でしたか ます ますか ました ましたか ません でしょうか だった である であった という といい
    といいます
    ください として において について によって による によれば における に関する に対して
    している していた しています されている されていた されています されました されました した する して される された
    います いました ある
    あります ありました いる いた こと もの ため この その あの これ それ あれ ここ そこ から まで より では には とは
    への での
    """.split()
)
_UNSPACED_FUNCTION_WORD_PATTERN = compile_lazily(
    "|".join(sorted(_UNSPACED_FUNCTION_WORDS, key=lambda word: (-len(word), word)))
)
_UNSPACED_RUN_PATTERN = compile_lazily(rf"(?:(?=\w)[{UNSPACED_RANGES}])+")
#: Characters that are function words or parts of them: hiragana, and Chinese ones that also occur in other words.
_FUNCTION_CHARACTER_PATTERN = compile_lazily(
    "[\u3041-\u309f在和与與及或于於以为為对對从從由被把之其而有不个個这這那也都就将將到给給向等所们們个個会會能时時]"
)
#: A title in the title marks of Chinese and Japanese; single corner brackets also mark quotations, which are longer or
#: have punctuation.
_MARKED_TITLE_PATTERN = compile_lazily(r"[《『]([^《》『』\n]{2,40})[》』]|「([^\W\d_][^「」\s、。，！？!?]{1,11})」")


def split_words(text: str) -> list[str]:
    """Return the words of a text in normal form, in order. A run of a script without spaces is one word.

    :func:`segment_words` divides such runs into characters.
    """
    return WORD_PATTERN.findall(fold_text(text))


#: A function that returns the size of a text in tokens (words and punctuation marks), the unit of chunk sizes and of
#: WITHIN.
count_text_tokens = count_tokens


#: The number of words whose stems are cached. The limit bounds memory when new names keep coming; most words of real
#: texts are among the most recent ones.
_MAX_CACHED_STEMS = 1 << 14


#: The value of the ``stemmer`` setting that stems the words of each document by the document's language.
MULTILINGUAL = "multilingual"
#: The stemmers that need no package, by the value of the ``stemmer`` setting. The first two return words unchanged.
LIGHT_STEMMERS: Mapping[str, Callable[[str], str]] = {
    "none": str,
    MULTILINGUAL: str,
    "indic": Segmenter(stem_indic_run, INDIC_RUN_PATTERN),
    "korean": stem_korean,
    "ukrainian": stem_ukrainian,
}
#: Languages whose words Snowball's stemmers cannot stem, because the words end at each vowel sign.
INDIC_LANGUAGES = frozenset("bengali gujarati hindi kannada malayalam nepali odia punjabi tamil telugu".split())


@lru_cache(maxsize=32)
def get_stemmer(stemmer: str) -> Callable[[str], str]:
    """Return the thread-safe function that maps a word to its stem, given the value of the ``stemmer`` setting.

    The value is a Snowball stemmer, such as ``german``; the name of a segmenter, for a
    :class:`~.segmenters.Segmenter`; or ``none`` or ``multilingual``, for a function that returns words unchanged.
    Raises InputError for any other value, and MissingExtraError if a package of the segmenter is not installed.
    """
    if stemmer in SEGMENTERS:
        return open_segmenter(stemmer)
    if stemmer in LIGHT_STEMMERS:
        return LIGHT_STEMMERS[stemmer]
    if stemmer.lower() == "english":
        return stem_english
    import snowballstemmer

    try:
        stem_word = snowballstemmer.stemmer(stemmer).stemWord
    except KeyError:
        languages = ", ".join(sorted((*snowballstemmer.algorithms(), *LIGHT_STEMMERS, *SEGMENTERS)))
        raise InputError(f"there is no stemmer {stemmer!r}; use one of {languages}") from None
    lock = Lock()  # a stemmer stores the word that it is stemming

    @lru_cache(maxsize=_MAX_CACHED_STEMS)
    def stem(word: str) -> str:
        """Return the stem of a word; cached."""
        with lock:
            return str(stem_word(word))

    return stem


@cache
def list_stemmed_languages() -> frozenset[str]:
    """Return the names of the available Snowball stemmers, usually names of languages; cached.

    Those of Indic languages are omitted.
    """
    import snowballstemmer

    return frozenset(snowballstemmer.algorithms()) - INDIC_LANGUAGES


def get_document_stemmer(stemmer: str, language: str | None) -> Callable[[str], str]:
    """Return the function that maps the words of a document to stems.

    ``stemmer`` is the store's setting. If it is ``multilingual``, the function stems by ``language``, the document's
    language, and returns words unchanged if ``language`` is None (unknown) or has no stemmer.
    """
    if stemmer != MULTILINGUAL:
        return get_stemmer(stemmer)
    return get_stemmer(language if language in list_stemmed_languages() else "none")


class QuestionStemmer:
    """The function that maps the words in a question to stems, for documents in several languages.

    Calling it stems by the first language only. :meth:`list_variants` returns the stems of a word in every language.
    """

    def __init__(self, languages: Iterable[str]) -> None:
        """Open the stemmers of the languages of the documents, the most important language first."""
        stemmers = [get_document_stemmer(MULTILINGUAL, language) for language in languages]
        self._stemmers = stemmers or [get_stemmer("none")]

    def __call__(self, word: str) -> str:
        """Return the stem of a word by the first language."""
        return self._stemmers[0](word)

    def list_variants(self, word: str) -> list[str]:
        """Return the distinct stems of a word by each language; the stem by the first language comes first."""
        return list(dict.fromkeys(stem(word) for stem in self._stemmers))


def segment_words(text: str) -> list[str]:
    """Return the words of a text in normal form, in order. In a script without spaces, each character is a word."""
    return find_words(fold_text(text))


def is_unspaced(text: str) -> bool:
    """True if a text has characters of a script without spaces between words, such as Chinese.

    >>> is_unspaced("東京 Tower"), is_unspaced("Tower")
    (True, False)
    """
    return not text.isascii() and _UNSPACED_RUN_PATTERN.search(text) is not None


def list_unspaced_ranges() -> list[tuple[str, str]]:
    """Return (first, last) character of each range of characters of scripts without spaces."""
    # UNSPACED_RANGES is part of a regular expression: three characters, such as "a-z", are a range.
    return [(UNSPACED_RANGES[offset], UNSPACED_RANGES[offset + 2]) for offset in range(0, len(UNSPACED_RANGES), 3)]


def separate_unspaced(text: str) -> str:
    """Return a text with a space before and after each run of a script without spaces.

    >>> separate_unspaced("在1954年")
    ' 在 1954 年 '
    """
    return text if text.isascii() else _UNSPACED_RUN_PATTERN.sub(r" \g<0> ", text)


def find_marked_titles(text: str) -> list[str]:
    """Return the titles between Chinese and Japanese title marks in a text, in order.

    >>> find_marked_titles("他写了《红楼梦》。「はい、そうです」")
    ['红楼梦']
    """
    return [] if text.isascii() else [match[1] or match[2] for match in _MARKED_TITLE_PATTERN.finditer(text)]


def count_written_words(text: str) -> int:
    """Return the number of words of a text; in a script without spaces, two characters count as one word.

    >>> count_written_words("The port is old."), count_written_words("港口很老。")
    (4, 2)
    """
    if not is_unspaced(text):
        return len(text.split())
    characters = sum(map(len, _UNSPACED_RUN_PATTERN.findall(text)))
    spaced_words = [word for word in _UNSPACED_RUN_PATTERN.sub(" ", text).split() if WORD_PATTERN.search(word)]
    return len(spaced_words) + -(-characters // 2)  # rounded up


def list_search_words(text: str, stem: Callable[[str], str] = str) -> list[str]:
    """Return the words that a search for a text looks up, in normal form and in order, with function words.

    They are not stemmed. In a script without spaces, they are bigrams of characters, and characters without a neighbor.
    If ``stem`` is a Segmenter, they are the words that it finds instead.

    >>> list_search_words("東京タワー 333m 港")
    ['東京', '京タ', 'タワ', 'ワー', '333m', '港']
    """
    return _list_folded_search_words(fold_text(text), stem)


def _list_folded_search_words(folded: str, stem: Callable[[str], str]) -> list[str]:
    """Return the words that a search for ``folded``, a text in normal form, looks up, in order.

    They are not stemmed. If ``stem`` is a Segmenter, the words that it finds replace the bigrams, except single
    characters that can be function words.
    """
    words, offset = [], 0
    for match, run_words in _iter_runs(folded, stem):
        words += find_term_words(folded[offset : match.start()])
        words += (word for word in run_words if len(word) > 1 or not _FUNCTION_CHARACTER_PATTERN.fullmatch(word))
        offset = match.end()
    return words + find_term_words(folded[offset:])


def _iter_runs(folded: str, stem: Callable[[str], str]) -> Iterator[tuple[re.Match[str], tuple[str, ...]]]:
    """Yield each run of ``folded`` that the Segmenter splits, as its match and its words.

    Yields nothing if ``stem`` is not a Segmenter.
    """
    if isinstance(stem, Segmenter) and not folded.isascii():
        for match in (stem.run_pattern or _UNSPACED_RUN_PATTERN).finditer(folded):
            yield match, stem.split_run(match.group())


def list_content_words(
    text: str, function_words: frozenset[str] = FUNCTION_WORDS, stem: Callable[[str], str] = str
) -> list[str]:
    """Return the words that a search for a text looks up, without function words, in normal form and in order.

    They are not stemmed. If ``stem`` is a Segmenter, the words that it finds replace the bigrams.

    >>> list_content_words("谁发现了氧气？"), list_content_words("Who found it in Bergen?")
    (['发现', '氧气'], ['found', 'bergen'])
    """
    folded = fold_text(text)
    if is_unspaced(folded):
        folded = _UNSPACED_FUNCTION_WORD_PATTERN.sub(" ", folded)
    return [word for word in _list_folded_search_words(folded, stem) if word not in function_words]


def is_bigram(word: str) -> bool:
    """True if a search word is two characters of a script without spaces."""
    return len(word) == 2 and not word.isascii() and _UNSPACED_RUN_PATTERN.fullmatch(word) is not None


def can_cross_words(word: str) -> bool:
    """True if a search word is a bigram whose characters can belong to different words: one can be a function word.

    >>> can_cross_words("黎和"), can_cross_words("巴黎")
    (True, False)
    """
    return is_bigram(word) and _FUNCTION_CHARACTER_PATTERN.search(word) is not None


#: A function that returns the words of a text as written (not in normal form), in order. In a script without spaces,
#: each character is a word.
split_written_words = find_words


def find_technical_tokens(text: str) -> list[str]:
    """Return the technical tokens of a text (options, paths, calls) in normal form, in order.

    >>> find_technical_tokens("Use --no-owner, see initdb(1) and /etc/hosts.")
    ['--no-owner', 'initdb(1)', '/etc/hosts']
    """
    folded = fold_text(text)
    if _MARK_PATTERN.search(folded) is None:  # most questions
        return []
    return [
        match.group()
        for match in _JOINED_WORDS_PATTERN.finditer(folded)
        if match["mark"] or match["end"] or _INFORMATIVE_MARK_PATTERN.search(match.group())
    ]


def find_reference_numbers(text: str) -> list[str]:
    """Return the reference numbers in a text in normal form, in order.

    These are numbers with inner punctuation, such as the number of an invoice or an order, a version or a date, but not
    Spanish ordinals and amounts.

    >>> find_reference_numbers("Who paid INV-2024/017 of 2025-03-04, 3.5 percent of the 32-foot cutter, in 2.1.0?")
    ['inv-2024/017', '2025-03-04', '2.1.0']
    >>> find_reference_numbers("¿Quién ganó 1.250.000 euros en la 10.ª edición?")
    []
    """
    return [match.group() for match in _REFERENCE_NUMBER_PATTERN.finditer(fold_text(text))]


def list_terms(text: str, stem: Callable[[str], str]) -> list[str]:
    """Return the terms of a text in order, with repetitions. ``stem`` maps a word to its stem, or is a Segmenter."""
    return [stem(word) for word in list_search_words(text, stem)]


def list_guaranteed_terms(name: str, stem: Callable[[str], str]) -> list[str]:
    """Return terms that every text with ``name`` has among its terms, in order.

    If ``stem`` is a Segmenter, these are single characters, because a word that it finds in a text can begin inside the
    name and end outside it.
    """
    return list_terms(name, stem) if not isinstance(stem, Segmenter) else [stem(word) for word in segment_words(name)]


def detect_word_language(words: Iterable[str], likely_language: str | None = None) -> str | None:
    """Return the language of some words in normal form, by its English name in lower case, or None if it is unclear.

    It is the language that most of their function words belong to. A language other than English and the
    ``likely_language`` needs two different function words. The ``likely_language`` wins ties, and is returned if there
    are no function words.

    >>> texts = "Quand ferme la boutique de Bruz ?", "When is it open?", "Bruz"
    >>> [detect_word_language(segment_words(text)) for text in texts]
    ['french', 'english', None]
    """
    counts: dict[str, int] = {}
    num_distinct_words: dict[str, int] = {}
    for word, count in Counter(filter(_LANGUAGES_BY_WORD.__contains__, words)).items():
        for language in _LANGUAGES_BY_WORD[word]:
            counts[language] = counts.get(language, 0) + count
            num_distinct_words[language] = num_distinct_words.get(language, 0) + 1
    candidates = [
        "english",
        *(
            language
            for language in FUNCTION_WORDS_BY_LANGUAGE
            if num_distinct_words.get(language, 0) > 1 or language == likely_language
        ),
    ]
    best = max(candidates, key=lambda name: (counts.get(name, 0), name == likely_language))
    return best if best in counts else likely_language


@lru_cache(maxsize=64)
def get_function_words(language: str | None) -> frozenset[str]:
    """Return the function words of a language (None: unknown), and of English, which occur in any text. Cached."""
    return FUNCTION_WORDS | FUNCTION_WORDS_BY_LANGUAGE.get(language or "english", frozenset())


def list_content_terms(text: str, stem: Callable[[str], str]) -> list[str]:
    """Return the terms of a text without its function words, in order; all its terms if it has only function words.

    Function words of the detected language and of English are omitted.
    """
    words = list_search_words(text, stem)
    function_words = get_function_words(detect_word_language(words))
    return [stem(word) for word in list_content_words(text, function_words, stem) or words]


def list_informative_words(
    text: str, function_words: frozenset[str] = FUNCTION_WORDS, stem: Callable[[str], str] = str
) -> list[str]:
    """Return the words in a question or a part of it, in order, without function words and request words.

    Request words, such as *explain*, *describe* and *find*, say nothing about the subject. The words are not stemmed.
    If ``stem`` is a Segmenter, the words that it finds replace the bigrams.
    """
    return [word for word in list_content_words(text, function_words, stem) if word not in _QUESTION_WORDS]


def get_informative_terms(text: str, stem: Callable[[str], str]) -> set[str]:
    """Return the terms of a question, or a part of it, without function words and request words such as *explain*."""
    return set(map(stem, list_informative_words(text, stem=stem)))


def count_text_terms(
    text: str, stem: Callable[[str], str], excluded: frozenset[str] = frozenset(), technical: bool = False
) -> dict[str, int]:
    """Count the occurrences of each term of a text, in order of first occurrence.

    Words in ``excluded`` are not counted. If ``technical``, technical tokens (``--no-owner``) and the parts of words
    with underscores count as well. If ``stem`` is a Segmenter, its words come last and replace the bigrams.
    """
    folded = fold_text(text)
    counts = count_terms(folded, stem, excluded, technical)
    runs = [words for _, words in _iter_runs(folded, stem)]
    if runs:
        counts = {term: count for term, count in counts.items() if not is_bigram(term)}
        for words in runs:
            for word in words:
                # count_terms counted the single characters already.
                if len(word) > 1 and word not in excluded:
                    counts[word] = counts.get(word, 0) + 1
    return counts


def count_chunk_terms(
    title: str | None, headings: Iterable[str], text: str, stem: Callable[[str], str]
) -> dict[str, int]:
    """Count the terms of a chunk's text, its document's title and the headings above it together, by term.

    They include technical tokens and the parts of words with underscores.
    """
    counts = count_text_terms(text, stem, technical=True)
    for term, count in count_heading_terms((title or "", *headings), stem).items():
        counts[term] = counts.get(term, 0) + count
    return counts


@lru_cache(maxsize=64)  # adjacent chunks share headings
def count_heading_terms(headings: tuple[str, ...], stem: Callable[[str], str]) -> Mapping[str, int]:
    """Count the terms of the title of a document and the headings above a chunk together, by term.

    ``headings`` begin with the title; equal headings count once. Cached, so the caller must not modify the result.
    """
    counts: Counter[str] = Counter()
    for text in dict.fromkeys(headings):
        counts.update(count_text_terms(text, stem, technical=True))
    return counts

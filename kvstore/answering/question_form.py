"""The form of an English question: the sentence that asks, its topic, and its parts. "Who approves it, and by when?"
has two *parts*, which each ask for one fact. "Tell me about parking" asks for no fact; its *topic* is parking. A
question can need facts from several *passages* (retrieved texts).

In: a question. Out: its sentence that asks; tests if yes or no answers it, and if it may need several passages; and its
topic. Also out: its parts, each with the question to ask for it, given the answers to the parts before. A pronoun in a
later part is replaced by what it refers to: the subject of the first part, or the person that the first part asks for.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..text.everyday_words import ADJECTIVE, VERB, get_part_of_speech
from ..text.name_words import MONTHS
from ..text.patterns import compile_lazily
from ..text.sentences import split_sentences
from ..text.words import list_content_words

if TYPE_CHECKING:
    from ..retrieval.evidence import Hit

_ASKING_WORDS = "who|whom|whose|what|which|when|where|why|how"
_PREPOSITIONS = "after|at|before|by|for|from|in|of|on|since|to|under|until|up to|with|within"
AUXILIARIES = "am|are|can|could|did|do|does|had|has|have|is|may|might|must|shall|should|was|were|will|would"
_AUXILIARIES = f"{AUXILIARIES}|(?:need|needs) to"
_START = rf"(?:(?:{_PREPOSITIONS})\s+)?(?:{_ASKING_WORDS})\b(?!\s+to\b)"
_START_PATTERN = compile_lazily(_START, re.IGNORECASE)
_BOUNDARY_PATTERN = compile_lazily(
    rf"\s*[,;]?\s+and\s+(?={_START}|(?:{_AUXILIARIES})\s+(?:it|they|he|she|there)\b)", re.IGNORECASE
)
_DATE = rf"(?:(?:{'|'.join(MONTHS)})\b(?: \d{{1,2}}(?:st|nd|rd|th)?(?!\d),?)?(?: (?:19|20)\d\d)?|(?:19|20)\d\d)"
#: Two dates for which a question asks the same: "in March and April 2025".
_TWO_DATES_PATTERN = compile_lazily(
    rf"\b(?P<preposition>at the end of|during|for|in|of|on) (?P<first>{_DATE})"
    rf" and (?:(?:at the end of|during|for|in|of|on) )?(?P<second>{_DATE})(?!\w)",
    re.IGNORECASE,
)
#: Words of a question that compares what it asks for at two dates.
_CHANGE_PATTERN = compile_lazily(
    r"\b(?:between|both|change[ds]?|compared?|differen(?:t|ce)|grew|grow|grown|growth|increased?|decreased?|r[io]se|fell"
    r"|fall|total|together|sum)\b",
    re.IGNORECASE,
)
_YEAR_PATTERN = compile_lazily(r"\b(?:19|20)\d\d\b")
#: The start of a question up to its auxiliary verb, or up to its main verb if it has no auxiliary.
_OPENING_PATTERN = compile_lazily(
    rf"{_START}(?:(?:\s+[\w'’-]+){{0,6}}?\s+(?P<auxiliary>{_AUXILIARIES})\b|\s+\w+)(?:\s+(?:{_PREPOSITIONS}))?\s+",
    re.IGNORECASE,
)
_PERSON_PATTERN = compile_lazily(r"\b(?:he|him|his|she|her)\b", re.IGNORECASE)
_PRONOUN_PATTERN = compile_lazily(
    r"\b(?:(?P<possessive>its|their|his|her(?=\s+\w))|it|they|them|he|him|she|her)\b", re.IGNORECASE
)
#: Other words by which a part refers to another.
_OTHER_REFERENCE_PATTERN = compile_lazily(
    r"\b(?:that|those|ones?|(?<!is )(?<!are )(?<!was )(?<!were )there)\b", re.IGNORECASE
)
#: A participle at the end of a question: regular, or irregular if it is also a verb.
_PARTICIPLE_PATTERN = compile_lazily(r"\w+(?P<irregular>[^aeiou]en|wn|rn|ght|pt|lt|id|lit|eld|ade|ound)|\w+ed")
#: A request for what the documents say about a topic: "Tell me about parking", "What do the documents say about dogs?"
_TOPIC_REQUEST_PATTERN = compile_lazily(
    rf"""(?:(?:please|can\ you|could\ you|would\ you)\s+)*
    (?:summari[sz]e|sum\ up|outline|recap|describe|discuss|explain(?!\s+(?:{_ASKING_WORDS}|if|whether)\b)
    |(?:tell|teach)\ (?:me|us)\ (?:more\ |all\ |something\ |everything\ )?about
    |what\ (?:can\ you\ tell\ (?:me|us)|do\ (?:you|we)\ know|about)(?:\ about)?
    |what\ (?:do|does|is)\ (?:\w+\ ){{1,4}}?(?:say|said|written|mentioned)\ (?:about|on)
    |(?:(?:give|show|write|get)\ (?:me\ |us\ )?)?(?:an?\ |the\ |some\ |any\ )?(?:\w+\ )?
    (?:summary|overview|outline|gist|recap|info|information|details|background)\ (?:of|on|about))\s+(?P<topic>\S.*)""",
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)
#: A question that asks to describe a person: "Who is Maria Jensen?"
_DESCRIPTION_PATTERN = compile_lazily(
    r"who(?:\s+(?:is|are|was|were)|['’]s)\s+(?P<name>\S.*)", re.IGNORECASE | re.DOTALL
)
#: A word in a question for a fact, or in a sentence; a number, which makes the question specific; and the verbs that
#: request a fact.
_FACT_WORD_PATTERN = compile_lazily(
    rf"\d|\b(?:{_ASKING_WORDS}|{_AUXILIARIES}|'s|isn't|aren't|i|you|we|they|he|she|it|there)\b"
    r"|\A\W*(?:name|list|find|state|give|show|tell|count|define|identify|compute|calculate|compare)\b",
    re.IGNORECASE,
)
#: The maximum number of words of a topic without a request: "late arrival", "deposit for the barn".
_MAX_TOPIC_WORDS = 6
#: A part that consists of asking words: "by when?", "in which room?".
_ELLIPSIS_PATTERN = compile_lazily(rf"{_START}(?:\s+(?!(?:{_AUXILIARIES})\b)[\w'’-]+){{0,2}}\?", re.IGNORECASE)
#: A part that only mentions a quality or a quantity: "How long", "how many liters".
_QUALITY_PATTERN = compile_lazily(
    rf"(?:(?:{_PREPOSITIONS})\s+)?how(?:\s+(?!(?:{_AUXILIARIES})\b)[\w'’-]+){{1,2}}", re.IGNORECASE
)
_THAT_OF_PATTERN = compile_lazily(r"\b(?:that|those)\b(?= of\b)", re.IGNORECASE)
#: A plural without a capital, which "it" does not mean.
_PLURAL_PATTERN = compile_lazily(r"(?:.* )?[a-z]+[^s\W]s")
#: The minimum number of content words of a part that is asked alone.
_MIN_CONTENT_WORDS = 2
#: The start of a sentence that asks for yes or no.
_YES_NO_PATTERN = compile_lazily(rf"\W*(?:{AUXILIARIES}|need)\b", re.IGNORECASE)
#: The start of a sentence that asks. What follows an abbreviation ("Wisconsin v. Yoder") is not a sentence.
_ASKING_PATTERN = compile_lazily(
    r"\W*(?:(?:and|at|but|by|for|from|in|of|on|or|since|so|then|to|until|up|with) ){0,3}"
    rf"(?:{_ASKING_WORDS}|{AUXILIARIES})\b",
    re.IGNORECASE,
)
#: Words of a question that can refer to the sentence before it.
_REFERENCE_PATTERN = compile_lazily(
    r"\b(?:he|she|it|its|they|them|their|him|his|her|this|that|these|those)\b", re.IGNORECASE
)
#: The separator in the path of a hit that was reached through a name or another chunk.
_PATH_SEPARATOR = " → "
#: The minimum number of content words in a question that may need several passages: if a hit was reached through a name
#: or another chunk, and otherwise. A quarter of MuSiQue's questions have 6 or fewer, half have 8. With 6, 5 more near
#: misses in eight folders are answered, and no more questions of MuSiQue are answered right.
_MIN_LINKED_WORDS, _MIN_CHAIN_WORDS = 7, 9
#: Two names to compare.
_COMPARISON_PATTERN = compile_lazily(r"\b[A-Z][\w.'’-]*+\W* or (?:an? |the )?[\"“]?[A-Z]")


def find_asking_sentence(question: str) -> str:
    """Return the sentence of a question that asks, or the whole question if that sentence cannot be understood alone.

    It must be the only sentence with a question mark at its end. It can be understood alone if it begins with a
    question word or an auxiliary verb, and if no pronoun in it can refer to another sentence.

    >>> find_asking_sentence("I have a dog. May dogs swim here? Please answer soon.")
    'May dogs swim here?'
    >>> find_asking_sentence("I have a dog. May it swim here?")
    'I have a dog. May it swim here?'
    >>> find_asking_sentence("In what year was Wisconsin v. Yoder decided?")
    'In what year was Wisconsin v. Yoder decided?'
    """
    sentences = [question[start:end] for start, end in split_sentences(question)]
    asking_sentences = [sentence for sentence in sentences if sentence.endswith("?")]
    if len(asking_sentences) != 1:
        return question
    (sentence,) = asking_sentences
    is_self_contained = _ASKING_PATTERN.match(sentence) and not _REFERENCE_PATTERN.search(sentence)
    return sentence if is_self_contained else question


def is_yes_no_question(question: str) -> bool:
    """True if the last sentence of a question begins with an auxiliary verb, so that yes or no answers it.

    >>> is_yes_no_question("I have a dog. May I bring it?"), is_yes_no_question("Who may bring a dog?")
    (True, False)
    """
    text = question.rstrip().rstrip("?")
    start = max(map(text.rfind, ".!?")) + 1
    is_start_of_sentence = start == 0 or text[start : start + 1].isspace()
    return is_start_of_sentence and _YES_NO_PATTERN.match(text, start) is not None


def find_topic(question: str) -> str | None:
    """Return the topic of an English question that asks for no fact, or None if it asks for one.

    The topic follows a request such as "Tell me about". A few words that do not form a sentence are a topic themselves.

    >>> find_topic("Tell me about late arrivals."), find_topic("parking for staff"), find_topic("Who may park here?")
    ('late arrivals.', 'parking for staff', None)
    """
    request = _TOPIC_REQUEST_PATTERN.match(question.strip())
    if request is not None:
        return request["topic"]
    is_topic = len(question.split()) <= _MAX_TOPIC_WORDS and _FACT_WORD_PATTERN.search(question) is None
    return question if is_topic else None


def find_described_name(question: str) -> str | None:
    """Return the words after "Who is" in an English question, such as a name, or None if it begins otherwise.

    >>> find_described_name("Who's Maria Jensen?"), find_described_name("Who approves it?")
    ('Maria Jensen?', None)
    """
    match = _DESCRIPTION_PATTERN.match(question.strip())
    return match["name"] if match is not None else None


def may_need_several_passages(question: str, hits: Sequence[Hit]) -> bool:
    """True if a question may need facts from several passages, because it compares two names or is long.

    Fewer words make a question long if one of the retrieved ``hits`` was reached through a name or another chunk.
    """
    question = find_asking_sentence(question)  # other sentences do not ask for facts
    num_words = len(list_content_words(question))
    has_linked_hit = any(_PATH_SEPARATOR in hit.path for hit in hits)
    min_words = _MIN_LINKED_WORDS if has_linked_hit else _MIN_CHAIN_WORDS
    return num_words >= min_words or _COMPARISON_PATTERN.search(question) is not None


def split_question(question: str) -> list[str]:
    """Return the parts of a question, in order; the whole question if it asks for one fact.

    >>> split_question("Who approves the leave, and by when?")
    ['Who approves the leave?', 'by when?']
    >>> split_question("When and where was she born?")
    ['When was she born?', 'where was she born?']
    >>> split_question("How long and how wide is the boat?")
    ['How long is the boat?', 'how wide is the boat?']
    >>> split_question("May I bring a dog, and where do I leave it?")
    ['May I bring a dog?', 'where do I leave it?']
    >>> len(split_question("Who explains what to do and how to do it?"))
    1
    >>> split_question("What was the rent in March and April 2025?")
    ['What was the rent in March 2025?', 'What was the rent in April 2025?']
    """
    question = " ".join(question.split())  # the pattern takes quadratic time in the length of white space
    first, *others = (text.strip(" ?") for text in _BOUNDARY_PATTERN.split(question))
    asks = _START_PATTERN.match(first) or _YES_NO_PATTERN.match(first)
    if not (others and asks):
        return _split_dates(question)
    if _START_PATTERN.fullmatch(first):  # "When", before "and where was she born": add the words after "where"
        first += _START_PATTERN.sub("", others[0], count=1)
    elif _QUALITY_PATTERN.fullmatch(first):  # "How long", before "and how wide is it": add the words after "how wide"
        next_start = _OPENING_PATTERN.match(others[0])
        if next_start and next_start["auxiliary"]:
            first += f" {others[0][next_start.start('auxiliary') :]}"
    return [f"{text}?" for text in (first, *others)]


def _split_dates(question: str) -> list[str]:
    """Return one question for each of two dates in a question, or the question if it has no two dates or compares them.

    A year after the second date also belongs to a first date without a year.
    """
    dates = _TWO_DATES_PATTERN.search(question)
    if dates is None or not _START_PATTERN.match(question) or _CHANGE_PATTERN.search(question):
        return [question]
    year = _YEAR_PATTERN.search(dates["second"])
    first = dates["first"] if year is None or _YEAR_PATTERN.search(dates["first"]) else f"{dates['first']} {year[0]}"
    before, after = question[: dates.start("first")], question[dates.end() :]
    return [f"{before}{date}{after}" for date in (first, dates["second"])]


def complete_part(part: str, first_part: str, first_answer: str) -> str:
    """Return a later part of a question ("by when?" in "Who approves it, and by when?") as a complete question.

    A pronoun in ``part`` is replaced by the subject of ``first_part``, or by ``first_answer`` if it means the person
    that the first part asks for. ``first_answer`` is empty if the first part was not answered. If the part is short or
    refers to the first part in another way, the words of the first part are appended. The result need not be
    grammatical.

    >>> complete_part("when was it first lit?", "Who built the tower of Inner Skerry?", "Wrexham")
    'when was the tower of Inner Skerry first lit?'
    >>> complete_part("what was his pay?", "Who commanded the Halcyon?", "Captain Lund")
    "what was Captain Lund's pay?"
    >>> complete_part("how long is that of a guest?", "How long is the stay of a member?", "a year")
    'how long is the stay of a guest?'
    >>> complete_part("by when?", "Who approves the leave?", "Maria Jensen")
    'by when approves the leave?'
    """
    subject = _find_subject(first_part)
    if " of " in subject:  # "that of a guest": the stay of a guest
        part = _THAT_OF_PATTERN.sub(lambda match: subject.partition(" of ")[0], part)
    pronoun = _PRONOUN_PATTERN.search(part)
    if pronoun is not None:
        person = first_answer if first_part.lower().startswith("who ") else ""
        referent = _find_referent(pronoun.group(), subject, person)
        if referent:
            ending = "'s" if pronoun["possessive"] else ""
            return f"{part[: pronoun.start()]}{referent}{ending}{part[pronoun.end() :]}"
    is_self_contained = (
        pronoun is None
        and not _OTHER_REFERENCE_PATTERN.search(part)
        and len(list_content_words(part)) >= _MIN_CONTENT_WORDS
    )
    if is_self_contained:
        return part
    if _ELLIPSIS_PATTERN.fullmatch(part):
        return f"{part.rstrip('?')} {_find_predicate(first_part)}"
    return f"{part} {_START_PATTERN.sub('', first_part, count=1).strip()}"


def _find_predicate(question: str) -> str:
    """Return the words of a question that can follow another question word: its verb, with the subject and the rest.

    >>> _find_predicate("Who approves the leave?"), _find_predicate("How long may I stay?")
    ('approves the leave?', 'may I stay?')
    """
    question_start = _OPENING_PATTERN.match(question)
    if not (question_start and question_start["auxiliary"]):
        return _START_PATTERN.sub("", question, count=1).strip()
    return question[question_start.start("auxiliary") :]


def _find_referent(pronoun: str, subject: str, person: str) -> str:
    """Return the words that a pronoun in a later part of a question refers to; an empty string if they are unknown.

    ``subject`` is the subject of the first part, and ``person`` the person who answers it; both can be empty.

    >>> [_find_referent(pronoun, "the captain", "Lund") for pronoun in ("he", "it")], _find_referent("it", "rules", "")
    (['Lund', 'the captain'], '')
    """
    if _PERSON_PATTERN.fullmatch(pronoun):
        return person or subject
    is_plural = _PLURAL_PATTERN.fullmatch(subject) is not None
    return "" if is_plural and pronoun.lower() in ("it", "its") else subject


def _find_subject(question: str) -> str:
    """Return the noun phrase that a question is about; empty if it has none, or if the phrase begins with I, you or we.

    It is the question without its question words and verb, and without an adjective and its preposition.

    >>> _find_subject("When was the Petrel built?"), _find_subject("How much does a Kestrel generator weigh?")
    ('the Petrel', 'a Kestrel generator')
    >>> _find_subject("Who is responsible for the accounts?"), _find_subject("How do I report it?")
    ('the accounts', '')
    """
    question_start = _OPENING_PATTERN.match(question)
    if question_start is None:
        return ""
    auxiliary = (question_start["auxiliary"] or "").lower()
    words = re.split(r"\s+(?:be|to)\b", question[question_start.end() :].strip(" ?"))[0].split()
    if auxiliary in ("do", "does", "did"):
        del words[-1]  # the main verb
    elif auxiliary and len(words) > 1:
        participle = _PARTICIPLE_PATTERN.fullmatch(words[-1])
        if participle and (not participle["irregular"] or get_part_of_speech(words[-1]) == VERB):
            del words[-1]
    if len(words) > 2:
        first, second = words[:2]
        if get_part_of_speech(first) in (VERB, ADJECTIVE) and second in _PREPOSITIONS.split("|"):  # "responsible for"
            del words[:2]
    begins_with_pronoun = words[:1] in (["I"], ["you"], ["we"])
    return "" if begins_with_pronoun else " ".join(words)

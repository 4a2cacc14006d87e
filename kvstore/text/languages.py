"""Whether a text is English: names are told from other words by rules of that language alone.

In: texts. Out: yes or no. A text is of another language where words that join sentences in other languages are more
than those that do in English, or where most of its letters belong to another script that has capitals. What has
hardly any such word (tables, lists of names, code) is what the text around it is, and English where that says nothing.
Scripts without capitals are not asked for: nothing in them is taken for a name, and a Latin name in them is one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from kvstore_cext.words import WordSet

from .words import FUNCTION_WORDS

#: Function words of other languages in Latin script that English texts hardly have.
_OF_OTHERS = frozenset(
    """
    der die das und ist nicht ein eine einer eines einem einen mit für auf dem den des von zu zum zur im als auch wird
    werden sind oder wenn kann nach bei aus sich wie nur über durch dass noch sie wir ich haben hat wurde
    le la les et est une un dans pour que qui sur au aux du pas par avec ce cette sont il elle nous vous leur ou où ne
    se sa ses comme être ces mais même aussi été
    el los las una es en con del su sus pero este esta más lo como por para sin sobre entre cuando muy también
    di che è non sono nel nella alla gli della delle dei degli da si anche più questo questa viene essere
    os um uma dos das em na não ao pelo pela ele ela são também isso seu sua
    de het een van niet op te dat voor zijn aan er ook bij door naar wordt worden deze maar uit
    och att det som på är av för med till inte har ett från vara eller kan detta men ska
    og af ikke til blir jeg å være også hvis skal
    ja ei että oli ovat myös kun tai sekä mutta joka tämä sen
    się nie jest że jak po za od przez oraz lub są dla tym może które
    je že jako pro které nebo jsou ale není při jeho
    az és hogy nem egy ez meg csak vagy
    ve bir bu için ile olarak olan gibi daha çok
    și în cu pe nu este care din pentru mai sau
    yang dan dari untuk dengan pada ini itu adalah dalam tidak
    và của là có được trong cho không một các
    """.split()
) - {"die", "ne", "non", "par", "por", "sin", "con", "ale", "men", "pro", "bin", "im", "ab", "kun", "cho"}
_COUNTED_OF_OTHERS, _COUNTED_OF_ENGLISH = WordSet(_OF_OTHERS), WordSet(FUNCTION_WORDS)
_OTHER_SCRIPT = re.compile(r"[\u0370-\u058f\u10a0-\u10ff\u1c90-\u1cbf\u1f00-\u1fff\u2c80-\u2cff]")
#: A text says of what language it is with so many function words.
_ENOUGH = 4


def are_english(texts: Sequence[str]) -> list[bool]:
    """Whether each of the parts of a document is English.

    >>> are_english(["The name of the rose is old.", "Der Name der Rose ist nicht neu und auch nicht alt."])
    [True, False]
    """
    of_others = [_of_others(text) for text in texts]
    others = sum(of_others)
    if not others:
        return [True] * len(texts)
    of_english = [_COUNTED_OF_ENGLISH.count(text)[0] for text in texts]
    whole = sum(of_english) >= others or others < _ENOUGH
    return [
        one >= other if max(one, other) >= _ENOUGH else whole for one, other in zip(of_english, of_others, strict=True)
    ]


def _of_others(text: str) -> int:
    """How many words of a text are function words of other languages; in another script, all are."""
    others, words, letters = _COUNTED_OF_OTHERS.count(text)
    if not text.isascii() and 2 * len(_OTHER_SCRIPT.findall(text)) > letters:
        others += words
    return others

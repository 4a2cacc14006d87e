"""Words that state relations: verbs with their frames, and classes of nouns.

In: nothing. Out: the kinds of relations in prose, a :class:`Frame` for each pattern of a verb, and sets of lemmas.
"""

from __future__ import annotations

from typing import NamedTuple

IS_A, PART_OF, BELONGS_TO = "is_a", "part_of", "belongs_to"
DEPENDS_ON, LOCATED_IN, OF = "depends_on", "located_in", "of"


class Frame(NamedTuple):
    """A relation that a verb states between its subject and its object, or the noun after one of ``prepositions``.

    ``subject_is_child`` is True if the subject is the child. ``passive`` is True if the verb must be passive, False if
    it must not be, and None if either is allowed.
    """

    kind: str
    subject_is_child: bool
    prepositions: tuple[str, ...] = ()
    passive: bool | None = False


_CONTAIN_FRAMES = [
    Frame(PART_OF, subject_is_child=False),
    Frame(PART_OF, prepositions=("in", "within"), subject_is_child=True, passive=True),
]
_MADE_OF_FRAMES = [Frame(PART_OF, prepositions=("of",), subject_is_child=False, passive=True)]
VERB_FRAMES: dict[str, list[Frame]] = {
    "belong": [Frame(BELONGS_TO, prepositions=("to",), subject_is_child=True)],
    "report": [Frame(BELONGS_TO, prepositions=("to",), subject_is_child=True)],
    "own": [Frame(BELONGS_TO, prepositions=("by",), subject_is_child=True, passive=True)],
    "contain": _CONTAIN_FRAMES,
    "include": _CONTAIN_FRAMES,
    "incorporate": _CONTAIN_FRAMES,
    "encompass": [Frame(PART_OF, subject_is_child=False)],
    "comprise": [Frame(PART_OF, subject_is_child=False), *_MADE_OF_FRAMES],
    "consist": [Frame(PART_OF, prepositions=("of",), subject_is_child=False)],
    "compose": _MADE_OF_FRAMES,
    "make up": [Frame(PART_OF, subject_is_child=True), *_MADE_OF_FRAMES],
    "divide": [Frame(PART_OF, prepositions=("into",), subject_is_child=False, passive=True)],
    "subdivide": [Frame(PART_OF, prepositions=("into",), subject_is_child=False, passive=True)],
    "depend": [Frame(DEPENDS_ON, prepositions=("on", "upon"), subject_is_child=True)],
    "rely": [Frame(DEPENDS_ON, prepositions=("on", "upon"), subject_is_child=True)],
    "require": [Frame(DEPENDS_ON, subject_is_child=True)],
    "locate": [Frame(LOCATED_IN, prepositions=("in", "within"), subject_is_child=True, passive=True)],
    "situate": [Frame(LOCATED_IN, prepositions=("in", "within"), subject_is_child=True, passive=True)],
    "base": [Frame(LOCATED_IN, prepositions=("in",), subject_is_child=True, passive=True)],
    "lie": [Frame(LOCATED_IN, prepositions=("in", "within"), subject_is_child=True)],
}
#: Verbs whose forms cannot be nouns, even if the tagger says so.
UNAMBIGUOUS_VERBS = VERB_FRAMES.keys() - {"report", "base", "divide", "lie"}
#: Predicates that state a relation to the noun after their ``of``: its kinds, its parts, collections of it.
KIND_NOUNS = frozenset("kind type sort form class variety species subtype category genre".split())
PART_NOUNS = frozenset(
    """
    part component element constituent ingredient piece portion division subdivision subsidiary branch unit section
    segment subset chapter department module
    """.split()
)
COLLECTION_NOUNS = frozenset("collection set group series sequence list cluster family array bundle".split())
QUANTITY_NOUNS = frozenset(
    """
    number amount quantity majority minority pair couple dozen lot rest half share handful range bit glass cup bottle
    variety multitude total sum average percentage score host deal kind type sort class
    """.split()
)
PARTITIVE_NOUNS = COLLECTION_NOUNS | QUANTITY_NOUNS
#: Classes with their instance after ``of``: the city of Bergen.
NAMED_CLASSES = frozenset(
    "city town village state province county kingdom republic island isle district region country month river".split()
)
#: Nouns for acts, not possessions: the removal of an index is not part of it.
ACT_NOUNS = frozenset(
    """
    use removal loss death birth lack absence presence result case end start beginning course cost risk way rise fall
    increase decrease change growth arrival departure return attack defeat conquest discovery control view study
    north south east west northeast northwest southeast southwest
    analysis example account exchange exercise favor favour front spite light terms top basis means help support
    """.split()
)
#: Nouns with the ending of an act that are not acts.
THING_NOUNS = frozenset(
    """
    section station position location condition function version dimension department element segment fragment
    government document building wing ring king ceiling region religion instrument population nation generation
    edition portion institution constitution corporation organization organisation administration equation fraction
    parliament monument ornament pigment ligament filament apartment regiment sediment compartment meaning string
    spring evening engine precision opinion
    """.split()
)
#: Nouns whose "X of Y" is not a possession.
UNOWNED_NOUNS = QUANTITY_NOUNS | COLLECTION_NOUNS | KIND_NOUNS | ACT_NOUNS
ACT_ENDINGS = ("tion", "sion", "ment", "ing")
EXAMPLE_ADVERBS = frozenset(("especially", "particularly", "notably", "e.g.", "namely"))
EXAMPLE_PHRASES = (("for", "example"), ("for", "instance"), ("in", "particular"), ("among", "them"), ("that", "is"))

"""Statements of a language model: what a passage must say for a statement to be stored."""

from __future__ import annotations

import pytest

from kvstore.models.statement_support import SourcePassages
from kvstore.models.text_checks import find_supported_sentences, is_fragment
from kvstore.text.languages import detect_language

FORTUNE = (
    "Robert Fortune was born in Kelloe in 1812. He took 20,000 tea plants from China to India. "
    "Carl Berg did not sail with him. The choir of Rome has forty singers. It was founded by Anna Lind. "
    "Oak Lake is a deep lake."
)
AIRPORTS = [
    "Chiang Rai Airport lies in the north of Thailand.",
    "San Francisco Airport is the second largest airport in California.",
]


def is_supported(statement: str, *passages: str, headings: tuple[str, ...] = ()) -> bool:
    try:
        SourcePassages(passages, headings).find_supporting(statement)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize(
    "statement",
    [
        "Robert Fortune was born in Kelloe in 1812.",
        "In 1812, Robert Fortune was born in Kelloe.",
        "Oak Lake is a deep lake.",
        "Robert Fortune took tea plants from China to India.",
        "Carl Berg did not sail with Robert Fortune.",
        "The choir of Rome has forty singers and was founded by Anna Lind.",
    ],
)
def test_a_sentence_supports_what_it_says_of_names_before_it(statement: str) -> None:
    assert is_supported(statement, FORTUNE)


def test_sentences_of_a_passage_end_by_the_rules_of_its_language() -> None:
    sentence = "Nach Art. 5 Abs. 2 Nr. 3 der Satzung zahlt Karl Brandt am 3. Mai die Miete."
    passage = f"{sentence} Der Vertrag endet nicht, und er ist auch nicht neu."
    assert is_supported(sentence, passage)
    assert find_supported_sentences([passage], SourcePassages([passage]), name="a summary") == {
        sentence: [0],
        "Der Vertrag endet nicht, und er ist auch nicht neu.": [0],
    }


@pytest.mark.parametrize(
    "statement",
    [
        "Robert Fortune was born in China.",
        "Robert Fortune was born in Kelloe in 1821.",
        "Robert Fortune took 10,000 tea plants from China to India.",
        "Robert Fortune was not born in Kelloe.",
        "Oak Lake was a deep lake.",
        "Carl Berg did sail with Robert Fortune.",
        "The choir of Rome was born in Kelloe.",
        "Anna Lind has forty singers.",
        "Robert Fortune founded India and the choir of Rome.",
        "Robert Fortune was born in Kelloe and was born in Kelloe.",
        "It is so.",
    ],
)
def test_words_of_several_sentences_support_nothing(statement: str) -> None:
    assert not is_supported(statement, FORTUNE)


def test_passages_do_not_support_a_statement_together() -> None:
    assert SourcePassages(AIRPORTS).find_supporting("Chiang Rai Airport lies in Thailand.") == [0]
    assert not is_supported("Chiang Rai Airport is the second largest airport in California.", *AIRPORTS)
    assert is_supported("They lie in the north.", "Airports\n\nThey lie in the north.", headings=("Thailand",))
    assert is_supported("Thailand has airports in the north.", "Airports in the north.", headings=("Thailand",))


def test_a_pronoun_refers_to_a_name_of_the_same_chunk() -> None:
    def list_supported(*texts: str) -> list[str]:
        return list(
            find_supported_sentences(
                texts, SourcePassages([AIRPORTS[0], f"{AIRPORTS[1]} It has a hotel.", FORTUNE]), name="a sentence"
            )
        )

    assert list_supported(
        "Chiang Rai Airport lies in the north of Thailand. It is the second largest airport in California."
    ) == ["Chiang Rai Airport lies in the north of Thailand."]
    assert list_supported("San Francisco Airport is the second largest airport in California. It has a hotel.") == [
        "San Francisco Airport is the second largest airport in California.",
        "It has a hotel.",
    ]
    assert list_supported(FORTUNE) == FORTUNE.replace(". ", ".\n").split("\n"), "a copied passage supports itself"
    assert list_supported(
        "Chiang Rai Airport lies in the north of Thailand.",
        "Ships sail.",
        "Chiang Rai Airport lies in the north of Thailand.",
    ) == ["Chiang Rai Airport lies in the north of Thailand."]
    for text in ("It has a hotel.", "He took 20,000 tea plants from China to India."):
        with pytest.raises(ValueError, match="begins with a pronoun that stands for nothing"):
            list_supported(text)
    for text in ("The choir of Rome) has forty singers.", "choir of Rome has forty singers."):
        with pytest.raises(ValueError, match="is a part of a sentence"):
            list_supported(text)


def test_words_in_another_order_or_used_twice_say_something_else() -> None:
    passages = SourcePassages(
        [
            "In 1996 the Bridge League established an official Computer Championship, to be held along with an event.",
            "Carl Berg (1935) was a singer who was convicted of murdering five people in Oslo.",
            "Oak Saga is a series by Eva Dahl, told in two trilogies, Rill Trilogy and Kent Trilogy. Ann met Bo.",
        ]
    )
    assert passages.find_supporting("The Computer Championship is held along with an event.") == [0]
    assert passages.find_supporting("The official Computer Championship was established by the Bridge League.") == [0]
    passages.check_title("Carl Berg, a singer")
    for statement in (
        "The event was held along with the Computer Championship in 1996.",
        "The murder of Carl Berg (1935) was convicted of murdering five people in Oslo.",
        "Rill Trilogy is a series by Eva Dahl, told in two trilogies, Rill Trilogy and Kent Trilogy.",
        "Bo met Ann.",
    ):
        with pytest.raises(ValueError, match="no sentence of the passages says"):
            passages.find_supporting(statement)
    with pytest.raises(ValueError, match="no sentence of the passages says"):
        passages.check_title("The murder of Carl Berg")


DINNER = (
    "Let's not just fund things, but fund people. Mara: No goal to have decision yet, want input from all. "
    "The hall may burn. Ann rarely sings and Bo swims in Kent. The mill was sold or burned in 1802, unless Carl lied. "
    "According to Bo, the lake is deep. Dan Berg, a baker, is kind, which is rare. "
    "The three schools are Oak High School, Rill & Kent School, and Bay School. "
    "Will Eva pay the rent? Eva sings in the choir of Rome."
)


@pytest.mark.parametrize(
    ("statement", "true_statement"),
    [
        ("Let's not just fund.", "Let's not just fund things."),
        ("Mara: No goal to have decision.", "Mara: No goal to have decision yet."),
        ("The hall burns.", "The hall may burn."),
        ("Ann sings.", "Ann rarely sings."),
        ("The mill was burned in 1802, unless Carl lied.", "The mill was sold or burned in 1802, unless Carl lied."),
        ("The mill was sold or burned in 1802.", "The mill was sold or burned in 1802, unless Carl lied."),
        ("The lake is deep.", "According to Bo, the lake is deep."),
        ("Dan Berg, a baker, is only kind.", "Dan Berg, a baker, is kind."),
        ("Eva will pay the rent.", "Will Eva pay the rent?"),
    ],
)
def test_a_statement_has_the_words_that_change_the_meaning_of_its_sentence(statement: str, true_statement: str) -> None:
    assert is_supported(true_statement, DINNER)
    assert not is_supported(statement, DINNER)


@pytest.mark.parametrize(
    ("language", "sentence", "statement"),
    [
        ("german", "Die Halle und der Turm sind nur für die Gäste, wenn es regnet.", "Die Halle ist für die Gäste."),
        ("french", "La salle est presque vide et le maire est dans la ville.", "La salle est vide."),
        ("spanish", "El molino es casi nuevo y el lago está en el norte.", "El molino es nuevo."),
    ],
)
def test_words_that_change_the_meaning_are_known_in_several_languages(
    language: str, sentence: str, statement: str
) -> None:
    assert detect_language(sentence) == language
    assert is_supported(sentence, sentence)
    assert not is_supported(statement, sentence)


@pytest.mark.parametrize(
    ("sentence", "is_true"),
    [
        ("Dan Berg is kind.", True),
        ("Dan Berg, a baker, is kind.", True),
        ("Ann rarely sings and Bo swims in Kent.", True),
        ("Ann rarely sings.", True),
        ("Ann sings.", False),
        ("The hall may burn, may burn.", False),
        ("Dan Berg was kind.", False),
        ("Eva sings in the choir.", False),
        ("Eva sings in Rome.", False),
        ("Eva sings for the choir of Rome.", False),
        ("Eve sings in the choir of Rome.", False),
        ("The schools are Oak High School, Rill & Kent School, and Bay School.", False),
        ("The three schools are Oak High School.", False),
        ("The three schools are Oak High School, Rill School, and Bay School.", False),
        ("Kind, which is rare.", False),
        ("Bo swims in Kent.", True),
        ("Ann swims in Kent.", False),
        ("Dan Berg is a baker.", True),
        ("The mill was sold.", False),
    ],
)
def test_a_sentence_of_a_summary_keeps_each_part_of_its_sentence_or_leaves_it_out(sentence: str, is_true: bool) -> None:
    try:
        sentences = find_supported_sentences([sentence], SourcePassages([DINNER]), name="a sentence")
    except ValueError:
        sentences = {}
    assert list(sentences) == [sentence] * is_true


@pytest.mark.parametrize(
    ("sentence", "true_statements", "false_statements"),
    [
        (
            "In Kent, a male canine is called a dog, while a female is called a bitch (from Old English bicce).",
            ["In Kent, a male canine is called a dog.", "A female is called a bitch."],
            ["A male canine is a bitch.", "A male canine is called a bitch.", "A female is called a dog."],
        ),
        (
            "Oak Lake, which is fed by the Rill, froze in 1802.",
            ["Oak Lake is fed by the Rill.", "Oak Lake froze in 1802."],
            ["The Rill froze in 1802.", "Oak Lake is fed by 1802.", "Oak Lake is frozen in 1802."],
        ),
        (
            "Ann Lee, born in Oslo, founded the choir of Rome and has two sons.",
            ["Ann Lee was born in Oslo.", "Ann Lee founded the choir of Rome.", "Ann Lee has two sons."],
            ["Ann Lee founded two sons.", "The choir of Rome has two sons.", "Ann Lee was born in Rome."],
        ),
        (
            "The mill, an old house, was sold and burned in 1802.",
            ["The mill was an old house.", "The mill was sold and burned in 1802."],
            ["The mill burned in 1802.", "The mill is an old house.", "An old house was burned in 1802."],
        ),
        (
            "Bo says that Ann sings and Carl swims.",
            ["Bo says that Ann sings."],
            ["Carl swims.", "Ann sings.", "Carl says that Ann sings."],
        ),
        (
            "Eva married Carl in Rome as his fourth wife.",
            ["Eva married Carl in Rome as his fourth wife."],
            ["Eva married Carl in Rome as her fourth wife.", "Eva married Carl in Rome as their fourth wife."],
        ),
        (
            "Carl Berg (1660 – 1716) was an early planter.",
            ["Carl Berg was an early planter.", "Carl Berg (1660-1716) was an early planter."],
            ["Carl Berg (1660) was an early planter."],
        ),
        ("A dog, a cat and a horse eat.", ["A dog, a cat and a horse eat."], ["A dog is a cat.", "A dog is a horse."]),
        ("Ann met Bo, who sang and danced.", ["Ann met Bo."], ["Ann danced.", "Ann sang.", "Bo met Ann."]),
        ("The road between Oslo and Kent was built.", [], ["The road between Oslo was built.", "Kent was built."]),
    ],
)
def test_a_clause_is_said_alone_with_its_own_subject(
    sentence: str, true_statements: list[str], false_statements: list[str]
) -> None:
    source = SourcePassages([f"{sentence} It is a hill of many years, with trees on the top of it."])
    for statement in true_statements:
        assert source.find_supporting(statement, must_keep_phrases=True) == [0]
    for statement in false_statements:
        with pytest.raises(ValueError, match="copy whole clauses"):
            source.find_supporting(statement, must_keep_phrases=True)


def test_an_english_sentence_without_a_verb_is_a_fragment() -> None:
    fragments = [
        "Next, funding the Rust.",
        "The choir of Rome.",
        "Oak Lake, fed by the Rill.",
        "The sequel to 'Rush'.",
        "Eva Dahl (born 11 May 1937).",
    ]
    for fragment in fragments:
        with pytest.raises(ValueError, match="is a part of a sentence"):
            find_supported_sentences([fragment], SourcePassages([fragment]), name="a sentence")
    sentences = [
        "Oak Lake, fed by the Rill, froze in 1802.",
        "Beekeepers open the hive.",
        "Turn on recording after noon.",
    ]
    passages = SourcePassages([" ".join(sentences)])
    assert list(find_supported_sentences(sentences, passages, name="a sentence")) == sentences
    assert is_fragment("Ann was born on 11 May 1937 and.", is_english=True)
    assert is_fragment("Boot Hill may also refer to:.", is_english=True)
    assert not is_fragment("Der Verein und die Gemeinde.", is_english=False), "verbs of other languages are unknown"

"""Questions made by rule from sentences, in the forms that users of handbooks and manuals type.

In: a passage with its sentences. Out: a row whose question one sentence answers: definitions ("What is X?"),
permissions and duties ("Can X ...?", "What must X do?"), ways ("How do I ...?"), conditions ("What happens if ...?")
and reasons.
"""

from __future__ import annotations

import dataclasses
import random
import re

from rows import MAX_SPAN_CHARACTERS, Row

#: A subject with one of these words has no meaning outside its passage, or is not a subject.
_UNCLEAR_WORDS = frozenset(
    "it its this that these those he his she her they their there i my we our you your which who what how one some "
    "many most such all each although while when if as in on at because but and so".split()
)
MADE_SOURCE = "made"
#: The number of sentences of a passage that are tried.
_MAX_TRIED = 4
_MIN_ANSWER_CHARACTERS = 3
_SUBJECT = r"((?:[\w'’-]+ ){0,5}[\w'’-]+)"
#: Kind of question, and the pattern of a sentence that answers it.
_PATTERNS = [
    ("definition", re.compile(rf"^(?:The |A |An )?{_SUBJECT} (is|are|was|were) ((?:an?|the|one) [^,;.]+)")),
    ("state", re.compile(rf"^((?:The |A |An )?{_SUBJECT}) (is|are|was|were|has|have) ([^,;.]+)")),
    ("modal", re.compile(rf"^((?:The |A |An )?{_SUBJECT}) (can|must|should|may|will|could) ((?:not )?[^,;.]+)")),
    ("way", re.compile(r"^(?:In order )?[Tt]o ([a-z]+ [^,;.]{4,80}), ([^;.]+)")),
    (
        "way",
        re.compile(r"^(?:You|Users|They|We|I) (?:can|should|must|have to|need to) ([a-z]+ [^,;.]{4,80}) (by [^,;.]+)"),
    ),
    ("condition", re.compile(r"^(If|When) ([^,;.]{5,80}), ([^;.]+)")),
    ("reason", re.compile(r"^([^,;.]{10,80}),? because ([^;.]+)")),
]


def build_made_row(row: Row, rng: random.Random) -> Row | None:
    """Return a row with a question made from a random sentence of the passage, or None if no pattern matches."""
    ordinals = list(range(len(row.sentences)))
    rng.shuffle(ordinals)
    for ordinal in ordinals[:_MAX_TRIED]:
        sentence_start, sentence_end = row.sentences[ordinal]
        sentence = row.passage[sentence_start:sentence_end]
        if sentence.endswith("?"):
            continue
        patterns = list(_PATTERNS)
        rng.shuffle(patterns)
        for kind, pattern in patterns:
            match = pattern.match(sentence)
            question_and_group = _make_question(kind, match, rng) if match else None
            if question_and_group is not None:
                question, group = question_and_group
                start, stop = match.span(group) if group else (0, len(sentence))
                if stop - start < _MIN_ANSWER_CHARACTERS:
                    continue
                stop = min(stop, start + MAX_SPAN_CHARACTERS) if group else stop
                answer = (sentence_start + start, sentence_start + stop)
                return dataclasses.replace(
                    row, question=question, answers=[answer], plausible=[], source=MADE_SOURCE, ranked=[]
                )
    return None


def _make_question(kind: str, match: re.Match[str], rng: random.Random) -> tuple[str, int] | None:
    """Return a question, and the group of ``match`` that answers it (0: the whole match), or None.

    None means that the question would be unclear without its passage.
    """
    if kind in ("definition", "state", "modal"):
        subject_words = match[1].lower().split()
        if _UNCLEAR_WORDS & set(subject_words) or len(subject_words) > 6:
            return None
    if kind == "definition":
        subject, verb, _ = match.groups()
        return rng.choice([f"What {verb} {subject}?", f"What {verb} the {subject}?", f"{subject}?"]), 3
    if kind == "state":
        subject, _, verb, state = match.groups()
        return f"{verb.capitalize()} {subject} {state}?", 0
    if kind == "modal":
        subject, _, modal, action = match.groups()
        if rng.random() < 0.4:
            return f"What {modal} {subject} do?", 4
        return f"{modal.capitalize()} {rng.choice(['I', subject])} {action.removeprefix('not ')}?", 0
    if kind == "way":
        form = rng.choice(["How do I {}?", "How to {}", "How can I {}?", "What do I need to do to {}?"])
        return form.format(match[1]), 2
    if kind == "condition":
        conjunction, condition, _ = match.groups()
        return rng.choice(["What happens {} {}?", "What {} {}?"]).format(conjunction.lower(), condition), 3
    claim = match[1]  # of a sentence of the kind "reason"
    return f"Why {claim[0].lower()}{claim[1:]}?", 2

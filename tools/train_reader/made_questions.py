"""Questions made by rule from sentences, in the forms that users of handbooks and manuals type. A *row* is a question
with its passage and the spans of its answers.

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
#: The kinds of questions whose subject must have a meaning outside its passage.
_KINDS_WITH_SUBJECT = ("definition", "state", "modal")
#: The number of sentences of a passage that are tried.
_MAX_TRIED = 4
_MIN_ANSWER_CHARACTERS = 3
_ARTICLE, _NOUN_PHRASE = r"(?:The |A |An )?", r"(?:[\w'’-]+ ){0,5}[\w'’-]+"
_ACTION = r"(?P<action>[a-z]+ [^,;.]{4,80})"
#: Kinds of questions, and the patterns of sentences that answer them.
_PATTERNS = [
    (kind, re.compile(pattern))
    for kind, pattern in (
        (
            "definition",
            rf"^{_ARTICLE}(?P<subject>{_NOUN_PHRASE}) (?P<verb>is|are|was|were) (?P<answer>(?:an?|the|one) [^,;.]+)",
        ),
        ("state", rf"^(?P<subject>{_ARTICLE}{_NOUN_PHRASE}) (?P<verb>is|are|was|were|has|have) (?P<state>[^,;.]+)"),
        (
            "modal",
            rf"^(?P<subject>{_ARTICLE}{_NOUN_PHRASE}) (?P<verb>can|must|should|may|will|could) "
            r"(?P<answer>(?:not )?[^,;.]+)",
        ),
        ("way", rf"^(?:In order )?[Tt]o {_ACTION}, (?P<answer>[^;.]+)"),
        ("way", rf"^(?:You|Users|They|We|I) (?:can|should|must|have to|need to) {_ACTION} (?P<answer>by [^,;.]+)"),
        ("condition", r"^(?P<conjunction>If|When) (?P<condition>[^,;.]{5,80}), (?P<answer>[^;.]+)"),
        ("reason", r"^(?P<claim>[^,;.]{10,80}),? because (?P<answer>[^;.]+)"),
    )
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
            if match is None or (kind in _KINDS_WITH_SUBJECT and _is_unclear(match["subject"])):
                continue
            question, is_yes_or_no = _make_question(kind, match, rng)
            # The whole sentence answers a question for yes or no.
            start, stop = (0, len(sentence)) if is_yes_or_no else match.span("answer")
            if stop - start < _MIN_ANSWER_CHARACTERS:
                continue
            stop = stop if is_yes_or_no else min(stop, start + MAX_SPAN_CHARACTERS)
            answer = (sentence_start + start, sentence_start + stop)
            return dataclasses.replace(
                row, question=question, answers=[answer], plausible=[], source=MADE_SOURCE, ranked=[]
            )
    return None


def _is_unclear(subject: str) -> bool:
    """True if a subject has more than six words, or a word that means nothing without the passage."""
    words = subject.lower().split()
    return len(words) > 6 or not _UNCLEAR_WORDS.isdisjoint(words)


def _make_question(kind: str, match: re.Match[str], rng: random.Random) -> tuple[str, bool]:
    """Return a question of a kind of :data:`_PATTERNS`, and if it asks for yes or no.

    ``match`` is the match of the kind's pattern with the sentence that answers.
    """
    if kind == "definition":
        subject, verb = match.group("subject", "verb")
        return rng.choice([f"What {verb} {subject}?", f"What {verb} the {subject}?", f"{subject}?"]), False
    if kind == "state":
        subject, verb, state = match.group("subject", "verb", "state")
        return f"{verb.capitalize()} {subject} {state}?", True
    if kind == "modal":
        subject, verb, action = match.group("subject", "verb", "answer")
        if rng.random() < 0.4:
            return f"What {verb} {subject} do?", False
        return f"{verb.capitalize()} {rng.choice(['I', subject])} {action.removeprefix('not ')}?", True
    if kind == "way":
        form = rng.choice(["How do I {}?", "How to {}", "How can I {}?", "What do I need to do to {}?"])
        return form.format(match["action"]), False
    if kind == "condition":
        form = rng.choice(["What happens {} {}?", "What {} {}?"])
        return form.format(match["conjunction"].lower(), match["condition"]), False
    claim = match["claim"]  # of a sentence of the kind "reason"
    return f"Why {claim[0].lower()}{claim[1:]}?", False

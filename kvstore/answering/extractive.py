"""Extractive answers, without a language model: snippets of the evidence, word for word, each run with its citation.

In: passages around the retrieved chunks, and a :class:`Relevance` that scores their snippets. Out: a few runs of
snippets, best first, each a paragraph; a run whose words do not name its subject follows the title or heading that
does. Then the relations of the question's rarest entity in the entity forest, if the evidence has them. If nothing was
found, the answer says so; if the store does not answer, the nearest passages are named instead.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath

from ..retrieval.evidence import Evidence, Hit
from ..text.blocks import to_plain_text
from ..text.words import count_written_words, find_reference_numbers, is_unspaced, list_terms
from .citations import Citation, cite_hit, neutralize_citations
from .passages import Passage
from .question_kinds import classify_question
from .runs import Place, Run, select_runs
from .snippets import Snippet

NO_ANSWER = "Nothing in the store answers this."
#: Chunks whose snippets are weighed, and those that are named where none answers.
MAX_CHUNKS = 8
#: Snippets that are embedded for an answer, at most.
MAX_EMBEDDED_SNIPPETS = 48
_MAX_NEAREST = 3
#: Words of a snippet that are shown.
_MAX_SNIPPET_WORDS = 90
#: Words of a title or heading that is put before a run.
_MAX_LABEL_WORDS = 12
#: What the parts of a snippet's score weigh: the cosine of its title, heading and text with the question, and with the
#: question without its names; the share of the question's terms, by rarity, that it has, and that it has with the
#: snippets beside it; the rank of its chunk, as 1 / (1 + rank); having something of the kind that is asked for; being
#: the first of a document that is no longer than its passage. Fitted so that a softmax over the snippets of a
#: question gives those that hold the answer as much probability as possible, and then chosen, with the numbers of
#: :mod:`.runs`, among such as are near, for what the runs cover: over the even questions of hotpotqa, musique and the
#: excerpts of chunking_evaluation.
_WEIGHTS = {"cosine": 2.0, "rest": 7.9, "own": 2.75, "near": 0.7, "rank": 4.2, "kind": 2.2, "first": 1.6}
#: Those sets have hardly any technical tokens: what the shares of the question's that a snippet has, and that its
#: term has, weigh was chosen by reading answers from manuals.
_WEIGHTS |= {"token": 1.5, "term": 3.0}
#: A list of changes tells what was otherwise once; what a question asks about is how it is, unless it asks for that.
_WEIGHTS |= {"history": -3.0}

#: Chosen over questions on folders as people have them: a sentence that asks answers little itself, and where the
#: question names a number (an invoice, an order), passages without it tell of another thing.
_WEIGHTS |= {"asks": -1.0, "other": -12.0}

#: Documents and parts of them that list changes or names, and questions that ask for such.
_CHANGELOG_PATTERN = re.compile(
    r"change ?logs?|changes|history|news|release notes|index|what(?:'|’)?s new|(?:community )?updates", re.IGNORECASE
)
_CHANGE_QUESTION_PATTERN = re.compile(
    r"\b(?:version|release|chang(?:e|ed|es|ing)|new|news|since|fix(?:ed|es)?|introduced|added|removed|renamed|deprecated"
    r"|history|when|who)\b",
    re.IGNORECASE,
)

#: Options, paths, calls, and words that are joined by marks or by capitals.
_TOKEN_PATTERN = re.compile(
    r"(?<![\w-])--?\w[\w-]*|(?<![\w/])(?:~|\.{1,2})?/\w[\w./-]*|\w+\(\w?\)|\w+(?:[._:/]\w+)+|\w+=[\w-]*"
    r"|\b\w*[^\W_]_[^\W_]\w*|\b[^\W\d_]*[a-z]+[A-Z]\w*"
)

#: The end of a sentence that the next one follows without a blank.
_UNSPACED_END = re.compile("[。！？｡][」』”’）)】》〉]*\\Z")

Stem = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class SnippetScores:
    """The scores of the snippets that can be chosen. ``nearest`` is the highest cosine of a snippet, with its title and
    heading, and the question (0 if there are no snippets)."""

    scores: Mapping[Place, float]
    nearest: float


@dataclass(frozen=True, slots=True)
class Relevance:
    """Scores how much a snippet says about a question.

    ``rarities`` are those of the question's terms, see :func:`~.confidence.compute_question_rarities`; ``similarity``
    returns the cosines of texts with the question and with the question without its names (all 0 without an embedder).
    """

    question: str
    rarities: Mapping[str, float]
    stem: Stem
    similarity: Callable[[Sequence[str]], Sequence[tuple[float, float]]]

    def score_snippets(self, passages: Sequence[Passage]) -> SnippetScores:
        """Return the scores of the snippets that can be chosen; of blocks of code only if there are no others."""
        hit_snippets = [
            ((number, at), snippet)
            for number, passage in enumerate(passages)
            for at, snippet in enumerate(passage.snippets)
            if snippet.hit is not None
        ]
        # In a passage that is all source code, code answers; next to sentences, only the sentences are scored.
        prose_passages = {number for (number, _), snippet in hit_snippets if snippet.is_selectable}
        places = [
            place
            for place, snippet in hit_snippets
            if snippet.is_selectable or (snippet.kind == "code" and place[0] not in prose_passages)
        ]
        snippet_terms = {
            (number, at): set(list_terms(_render_snippet(snippet), self.stem)) & self.rarities.keys()
            for number, passage in enumerate(passages)
            for at, snippet in enumerate(passage.snippets)
        }
        places = self._select_likeliest(passages, places, snippet_terms)
        kind = classify_question(self.question)
        total = self._total_rarity
        tokens = frozenset(_find_tokens(self.question))
        asks_for_changes = bool(_CHANGE_QUESTION_PATTERN.search(self.question))
        number_mismatches = _compute_number_mismatches(find_reference_numbers(self.question), passages)
        texts = [_render_snippet(passages[number].snippets[at]) for number, at in places]
        titles = [passages[number].title for number, _ in places]
        headings = [passages[number].snippets[at].heading for number, at in places]
        subjects = [
            ": ".join(dict.fromkeys(filter(None, parts))) for parts in zip(titles, headings, texts, strict=True)
        ]
        scores, nearest = {}, 0.0
        for place, text, (cosine, rest_cosine) in zip(places, texts, self.similarity(subjects), strict=True):
            nearest = max(nearest, cosine)
            snippet = passages[place[0]].snippets[place[1]]
            assert snippet.hit is not None
            parts = {
                "cosine": cosine,
                "rest": rest_cosine,
                "own": self._sum_rarities(snippet_terms[place]) / total,
                "near": self._sum_rarities(
                    set().union(*(snippet_terms.get((place[0], place[1] + by), set()) for by in (-1, 0, 1)))
                )
                / total,
                "rank": 1 / (1 + snippet.hit.rank),
                "kind": float(kind.is_met_by(text)),
                "token": _compute_shared_tokens(tokens, text),
                "term": _compute_shared_tokens(tokens, snippet.term),
                "other": number_mismatches[place[0]],
                "asks": float(snippet.is_question),
                "first": float(place[1] == 0 and passages[place[0]].is_whole_document),
                "history": float(not asks_for_changes and _is_history(passages[place[0]])),
            }
            scores[place] = sum(_WEIGHTS[name] * part for name, part in parts.items())
        return SnippetScores(scores, nearest)

    def _select_likeliest(
        self, passages: Sequence[Passage], places: list[Place], snippet_terms: Mapping[Place, set[str]]
    ) -> list[Place]:
        """As many of some snippets as are worth comparing with the question, as that is what an answer costs."""
        if len(places) <= MAX_EMBEDDED_SNIPPETS:
            return places
        total = self._total_rarity

        def estimate_score(place: Place) -> float:
            hit = passages[place[0]].snippets[place[1]].hit
            return self._sum_rarities(snippet_terms[place]) / total + 1 / (1 + (hit.rank if hit else len(passages)))

        return sorted(sorted(places, key=lambda place: (-estimate_score(place), place))[:MAX_EMBEDDED_SNIPPETS])

    @property
    def _total_rarity(self) -> float:
        return sum(self.rarities.values()) or 1.0

    def _sum_rarities(self, terms: set[str]) -> float:
        return sum(self.rarities[term] for term in sorted(terms))


class ScoredPassages:
    """Passages and the scores of their snippets, computed on first use."""

    def __init__(self, passages: Sequence[Passage], relevance: Relevance) -> None:
        self.passages = passages
        self.relevance = relevance

    @cached_property
    def snippets(self) -> SnippetScores:
        """The scores of the snippets."""
        return self.relevance.score_snippets(self.passages)


def extract_answer(evidence: Evidence, scored: ScoredPassages) -> tuple[str, list[Citation]] | None:
    """Return the answer's text and its citations, or None if the passages have no sentence to quote."""
    passages, relevance, scores = scored.passages, scored.relevance, scored.snippets.scores
    runs = _select_group_runs(evidence, passages, scores) if evidence.groups else select_runs(passages, scores)
    paragraphs, citations = [], []
    for number, run in enumerate(runs, 1):
        passage = passages[run.passage]
        text = _render_run(passage, run, relevance)
        # Numbers that a document has in brackets itself would pass for citations.
        paragraphs.append(f"{neutralize_citations(text)} [{number}]")
        citations.append(_build_citation(number, passage, run, text))
    paragraphs += [f"{line}." for line in evidence.context[:1]]
    return ("\n\n".join(paragraphs), citations) if paragraphs else None


def _select_group_runs(evidence: Evidence, passages: Sequence[Passage], scores: Mapping[Place, float]) -> list[Run]:
    """The best run of each group of the hits, in the order of the groups."""
    runs: list[Run] = []
    remaining = dict(scores)
    for group in evidence.groups:
        hits = {evidence.hits[place] for place in group.hits}
        group_scores = {
            (number, at): score
            for (number, at), score in remaining.items()
            if passages[number].snippets[at].hit in hits
        }
        for run in select_runs(passages, group_scores)[:1]:
            runs.append(run)
            for at in range(run.first, run.last + 1):
                remaining.pop((run.passage, at), None)
    return runs


def describe_nearest(evidence: Evidence, unknown: Sequence[str], formless: str = "") -> tuple[str, list[Citation]]:
    """Return the text for a store that does not answer, with citations of the nearest passages. ``formless`` is the
    requested kind of thing that none of them has."""
    hits: dict[tuple[str, str], Hit] = {}
    for hit in evidence.hits:
        hits.setdefault((hit.document, hit.heading), hit)
    nearest = list(hits.values())[:_MAX_NEAREST]
    citations = [cite_hit(number, hit) for number, hit in enumerate(nearest, 1)]
    text = NO_ANSWER
    if unknown:
        text += f" No document of it names {' or '.join(unknown)}."
    if formless:
        text += f" No passage found has any {formless}."
    if nearest:
        descriptions = "; ".join(f"{_describe_hit(hit)} [{number}]" for number, hit in enumerate(nearest, 1))
        text += f" The nearest passages: {descriptions}."
    return text, citations


def _describe_hit(hit: Hit) -> str:
    """Return the title of a chunk's document and its heading."""
    parts = dict.fromkeys(filter(None, (hit.title or hit.document, *hit.heading.split(" > ")[-1:])))
    return neutralize_citations(" > ".join(map(to_plain_text, parts)))


def _find_tokens(text: str) -> list[str]:
    """Return the technical tokens of a text: those with marks, and short options, whose letters are case-sensitive."""
    return [match.group().rstrip(".,:;?!") for match in _TOKEN_PATTERN.finditer(text)]


def _compute_shared_tokens(tokens: frozenset[str], text: str) -> float:
    """The share of some technical tokens that a text has."""
    return len(tokens.intersection(_find_tokens(text))) / len(tokens) if tokens and text else 0.0


def _compute_number_mismatches(numbers: Sequence[str], passages: Sequence[Passage]) -> list[float]:
    """Return for each passage the share of the numbers that it lacks and another passage has, in its text or title."""
    if not numbers:
        return [0.0] * len(passages)
    texts = [f"{PurePosixPath(one.document).stem} {one.title or ''} {one.heading} {one.text}" for one in passages]
    num_missing = [sum(number not in text for number in numbers) for text in map(find_reference_numbers, texts)]
    return [(count - min(num_missing)) / len(numbers) for count in num_missing]


def _is_history(passage: Passage) -> bool:
    """True if a passage is in a list of changes or an index, judged by the document's key or title or by the
    heading."""
    names = (PurePosixPath(passage.document).stem, passage.title or "", passage.heading.rpartition(" > ")[2])
    return any(_CHANGELOG_PATTERN.fullmatch(to_plain_text(name).strip()) for name in names)


def _render_snippet(snippet: Snippet) -> str:
    return f"{snippet.label}: {snippet.text}" if snippet.label else snippet.text


def _render_run(passage: Passage, run: Run, relevance: Relevance) -> str:
    """A run as it is shown: items, rows and code on lines of their own."""
    snippets = passage.snippets[run.first : run.last + 1]
    text = ""
    for previous, snippet in zip([None, *snippets], snippets, strict=False):
        piece = _truncate(snippet.text)
        if snippet.label and (previous is None or previous.term != snippet.term):
            piece = f"{snippet.label}: {piece}"
        if snippet.kind == "code":
            # Code among sentences is indented, and code by itself is as it was written.
            margin = "" if snippets[0].kind == "code" else "    "
            text += "\n" * bool(text) + "\n".join(f"{margin}{line}" for line in piece.split("\n"))
        elif previous is not None and previous.block == snippet.block and snippet.kind != "table":
            text += piece if _UNSPACED_END.search(text) else f" {piece}"
        elif snippet.kind in ("item", "table") and previous is not None:
            text += f"\n- {piece}"
        else:
            needs_line_break = previous is not None and previous.kind in ("code", "table")
            text += f"{chr(10) if needs_line_break else ' '}{piece}" if text else piece
    subject = _find_subject(passage, snippets, relevance)
    return f"{subject}: {text}" if subject else text


def _truncate(text: str) -> str:
    if count_written_words(text) <= _MAX_SNIPPET_WORDS:
        return text
    if is_unspaced(text):
        return text[: 2 * _MAX_SNIPPET_WORDS] + "…"
    words = text.split(" ")
    return text if len(words) <= _MAX_SNIPPET_WORDS else " ".join(words[:_MAX_SNIPPET_WORDS]) + " …"


def _find_subject(passage: Passage, snippets: Sequence[Snippet], relevance: Relevance) -> str:
    """The title and heading that a run cannot be understood without."""
    first = snippets[0]
    run_terms = set(list_terms(" ".join(map(_render_snippet, snippets)), relevance.stem))
    is_self_contained = first.kind == "prose" and not (first.label or first.needs_subject or first.needs_previous)
    heading = to_plain_text(passage.heading.rpartition(" > ")[2])
    title = to_plain_text(passage.title or "")
    parts = []
    for part, needed in ((title, not is_self_contained), (heading, not is_self_contained and not title)):
        part_terms = set(list_terms(part, relevance.stem))
        is_asked_for = any(term in relevance.rarities for term in part_terms - run_terms)
        if (
            part
            and count_written_words(part) <= _MAX_LABEL_WORDS
            and not part_terms <= run_terms
            and (needed or is_asked_for)
        ):
            parts.append(part)
    if not title:
        # A file without a title is known by its name.
        path = PurePosixPath(passage.document)
        part_terms = set(list_terms(path.stem, relevance.stem))
        if (
            part_terms
            and not part_terms <= run_terms
            and (part_terms <= relevance.rarities.keys() or (path.suffix and not is_self_contained))
        ):
            parts.insert(0, path.stem)
    return " > ".join(dict.fromkeys(parts))


def _build_citation(number: int, passage: Passage, run: Run, text: str) -> Citation:
    snippets = passage.snippets[run.first : run.last + 1]
    start, end = (passage.start + len(passage.text[:at].encode()) for at in (snippets[0].start, snippets[-1].end))
    kind, chunk = next((snippet.hit.kind, snippet.chunk) for snippet in snippets if snippet.hit is not None)
    return Citation(number, passage.document, chunk, start, end, text, kind)

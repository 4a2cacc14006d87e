"""Strategy ``global``: what the communities of a whole store say to a question (GraphRAG, global search).

*Selection* goes down the tree of communities (microsoft/graphrag, dynamic community selection): from the coarsest, as
long as one below says at least as much to the question; one that asks for an overview stays with the coarsest. How much
a community says is the cosine of its centroid plus the share of the question's words, by rarity (BM25), that its report
has; without a model nobody rates. *Map*: each selected community gives its points, the sentences of its report, or of
its passages by the greedy cover. *Reduce*: the points stand together, the communities that say most first, until there
is no more room (Edge et al. 2024, section 3.1.6). What is in no community, and what is newer than these, is one more.

With a model ASK has it rate the reports on the way down, from 0 to 5; take points from the reports of those that count,
in as many parts as prompts can hold; and write the answer from those, the best first.

In: a query, and the index ``communities``. Out: evidence whose hits are reports.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from ...arguments import Option
from ...retrieval.cover import cover, cover_sentences, words_asked
from ...retrieval.dense_search import cosines_of, rank_by_vector
from ...retrieval.distillation import Distiller, Point, distilled
from ...retrieval.evidence import Evidence, Hit
from ...retrieval.lexical_search import K1, question_terms, term_rarity
from ...retrieval.overview import asks_overview
from ...retrieval.query import Query, option
from ...storage import records
from ...structures.clustering.affinity import Partition
from ...structures.ranking import in_order
from ...text.words import stemmer, token_count
from .communities import Communities
from .community_index import COMMUNITIES
from .report_hits import communities_for, ranked, report_hit, report_of, report_source, report_texts
from .report_terms import framed_terms, report_terms

#: Levels that the selection goes down.
_LEVELS = 8
#: Communities looked at together whose reports are read, the nearest.
_READ = 50
#: Chunks near the question that are looked at, whether they are in a community; chunks in none that are read, and
#: those of them that tell how near they are.
_NEAR, _LOOSE, _TELLING = 50, 500, 8
#: Reports of which the terms are kept in memory, about 2 kB each.
_TERMS_KEPT = 1 << 14
#: Tokens of the report on what is in no community, where nothing limits it.
_LOOSE_TOKENS = 400
#: Passages of a community that a report is filled up from, and the tokens of the shortest such report.
_PASSAGES, _LEAST_TOKENS = 200, 80


class GlobalStrategy:
    """From the communities of a whole store to what they say."""

    name = "global"
    description = "GraphRAG, global: the communities of the whole store that say most, each with its points"
    needs = COMMUNITIES.name
    overview = True
    options: Mapping[str, Option] = {
        "levels": Option(_LEVELS, 0, 100, "levels that the selection goes down from the coarsest communities"),
        "rated": Option(24, 0, 1000, "reports of each level that a language model rates, where one answers"),
    }

    def retrieve(self, query: Query) -> Evidence:
        communities = communities_for(query)
        tree = _Tree(query, communities)
        with query.trace.step("select communities") as step:
            levels = 0 if asks_overview(query.question) else int(option(query, self, "levels"))
            selected, count = _selected(tree, levels, query.top)
            step.detail, step.count = f"{tree.looked_at} looked at, down to level {tree.deepest}", count
        with query.trace.step("points of communities") as step:
            hits = _reports(query, communities, selected, tree)
            rest = f", {tree.left_out} newer chunks left out" if tree.left_out else ""
            step.detail = f"{len(hits)} of {count} communities{rest}"
            step.count = sum(len(hit.spans) for hit in hits)
        return Evidence(query.question, self.name, hits, [], query.trace.steps, tree.looked_at)

    def distil(self, evidence: Evidence, distiller: Distiller) -> Evidence:
        """Rate reports on the way down, take points from those that count, and answer from the points."""
        rated = _rated_reports(self, evidence.question, distiller)
        hits = [*rated, *(hit for hit in evidence.hits if not hit.heading)] if rated else evidence.hits
        points: list[Point] = []
        for batch in distiller.batches(evidence.question, hits):
            points += distiller.read(evidence.question, batch).points
        return distilled(evidence, points, distiller.trace)


class _Tree:
    """The tree of communities as far as it may answer, and how much each says to the question.

    ``loose`` are chunks that may answer and are told apart from the communities: those in none near the question, and
    ``newer`` ones, the nearest first; ``left_out`` says how many more there are.
    """

    def __init__(self, query: Query, communities: Communities) -> None:
        view = query.view
        self._query = query
        self._communities = communities
        self._stem = stemmer(view.settings.stemmer)
        counts = {term: view.postings.count(term) for term in question_terms(view, query.question)}
        self._rarities = {term: term_rarity(view.counters.chunks, count) for term, count in counts.items() if count}
        self._most = sum(self._rarities.values()) * (K1 + 1) or 1.0
        allowed = None if query.allowed is None else query.allowed.documents.tolist()
        chunks = (chunk for document in allowed or () for chunk in view.documents.get(document).chunk_ids())
        near = [chunk for chunk, _ in rank_by_vector(query, _NEAR)]
        newer = np.array(communities.newer(), np.uint64)
        self.newer = frozenset(newer[query.keep_allowed(newer)].tolist())
        looked_through = list(dict.fromkeys((*near, *chunks)))
        homes = dict(zip(looked_through, communities.of_chunks(looked_through), strict=True))
        self._possible = None
        if allowed is not None:
            self._possible = np.zeros(len(communities), np.bool_)
            self._possible[list({one for found in homes.values() for one in found})] = True
        apart = [chunk for chunk, found in homes.items() if not found or chunk in self.newer]
        apart = list(dict.fromkeys((*apart, *in_order(view, self.newer))))
        self.loose = apart[: _LOOSE if query.within is not None or asks_overview(query.question) else _TELLING]
        self.left_out = len(apart) - len(self.loose)
        self.looked_at = 0
        self.deepest = 0

    def roots(self) -> Partition:
        """The coarsest communities."""
        return self._living(self._communities.tree.partition(0))

    def children(self, communities: Partition) -> Partition:
        """The communities that some are parted into, in the order of their numbers."""
        return self._living(np.sort(self._communities.tree.children(communities)))

    def parents(self, communities: Partition) -> Partition:
        """The community that each of some is a part of."""
        return self._communities.tree.parents[communities]

    def weights(self, communities: Partition) -> npt.NDArray[np.float64]:
        """How much more communities count that have many passages."""
        return 1 + self._communities.tree.ratings[communities] / 10 / 10

    def scored(self, found: Partition) -> npt.NDArray[np.float64]:
        """How much communities say to the question: the cosine, and the share of its words."""
        self.looked_at += len(found)
        self.deepest = max(self.deepest, int(self._communities.tree.levels[found].max(initial=0)))
        scores = self._communities.cosines(found, self._query.vector).astype(np.float64).round(6)
        if self._rarities:
            first = _best_places(found, scores, _READ)
            scores[first] += [self._share(terms) for terms in self._terms(found[first].tolist())]
        return scores

    def score_of_loose(self) -> float:
        """The same of what is in no community: its chunks that are nearest, and the words of all of it."""
        ids = np.array(self.loose, np.uint64)
        cosines = np.sort(cosines_of(self._query.view, ids, self._query.vector))[::-1][:_TELLING]
        view = self._query.view
        records = view.chunks.get_many(self.loose) if self._rarities else []
        texts = (view.documents.text_slice(record.document, record.start, record.end) for record in records)
        return float(cosines.mean(dtype=np.float64)) + self._share(framed_terms("\n".join(texts), self._stem))

    def _living(self, found: Partition) -> Partition:
        return self._communities.living(found) if self._possible is None else found[self._possible[found]]

    def _terms(self, found: Sequence[int]) -> list[str]:
        """The terms of reports; those that are stored, where all that reports say may answer and is as it was
        built."""
        if self._query.allowed is None and self._communities.as_built:
            return self._communities.terms_as_built(found)
        return self._terms_said(found)

    def _terms_said(self, found: Sequence[int]) -> list[str]:
        """The terms of reports; kept for other questions as long as they say the same."""
        communities = self._communities
        communities.read(found)
        titles = communities.titles(found)
        reports = [report_source(self._query, communities, one) for one in found]
        kept: dict[int, tuple[bytes, str]] = communities.memory("terms of reports", dict)
        sources = [
            records.pack([title, report.spans if report.written is None else report.written])
            for title, report in zip(titles, reports, strict=True)
        ]
        known = [kept.get(one, (b"", "")) for one in found]
        new = [place for place, source in enumerate(sources) if known[place][0] != source]
        if len(kept) + len(new) > _TERMS_KEPT:
            kept.clear()
        for place, text in zip(new, report_texts(self._query, [reports[place] for place in new]), strict=True):
            told = report_terms(titles[place], text, self._stem)
            known[place] = kept[found[place]] = sources[place], told
        return [terms for _, terms in known]

    def _share(self, terms: str) -> float:
        """How much of the question's words a text has whose terms these are, by rarity; BM25 without regard to
        lengths."""
        counts = ((rarity, terms.count(f" {term} ")) for term, rarity in self._rarities.items())
        return math.fsum(rarity * count * (K1 + 1) / (count + K1) for rarity, count in counts if count) / self._most


def _best_places(communities: Partition, scores: npt.NDArray[np.float64], most: int) -> npt.NDArray[np.intp]:
    """The places of communities that have the greatest scores, best first, equals by number."""
    if not 0 < most < len(scores):
        return np.lexsort((communities, -scores))[:most]
    last = len(scores) - most
    near = np.flatnonzero(scores >= np.partition(scores, last)[last])
    return near[np.lexsort((communities[near], -scores[near]))[:most]]


def _selected(tree: _Tree, levels: int, most: int) -> tuple[list[tuple[int | None, float]], int]:
    """The communities that say most with their scores, best first, ``most`` of them, and how many there are: from the
    coarsest down as long as one below says as much; None stands for what is in no community."""
    here = tree.roots()
    scores = tree.scored(here)
    kept: list[tuple[Partition, npt.NDArray[np.float64]]] = []
    for _ in range(levels):
        below = tree.children(here)
        scores_below = tree.scored(below)
        above = np.searchsorted(here, tree.parents(below))
        better = scores_below >= scores[above]
        whole = np.ones(len(here), np.bool_)
        whole[above[better]] = False
        kept.append((here[whole], scores[whole]))
        here, scores = below[better], scores_below[better]
    every, scores = map(np.concatenate, zip(*kept, (here, scores), strict=True))
    scores = scores * tree.weights(every)
    first = _best_places(every, scores, most)
    order: list[tuple[int | None, float]] = list(zip(every[first].tolist(), scores[first].tolist(), strict=True))
    if tree.loose:
        score = tree.score_of_loose()
        order.insert(sum(1 for _, other in order if other >= score), (None, score))
    return order[:most], len(every) + bool(tree.loose)


def _reports(
    query: Query, communities: Communities, selected: Sequence[tuple[int | None, float]], tree: _Tree
) -> list[Hit]:
    """A report of each selected community; where they have so many tokens together, each fills its share by a cover of
    its passages."""
    if query.within is not None:
        return _within(query, communities, selected[: max(1, query.within // _LEAST_TOKENS)], tree, query.within)
    hits: list[Hit | None] = []
    for community, score in selected:
        if community is None:
            hits.append(_cover_report(query, communities, community, tree.loose, score, _LOOSE_TOKENS))
        else:
            path = f"community of level {communities.get(community).level}"
            hits.append(report_of(query, communities, community, path=path, score=score))
    return ranked(hit for hit in hits if hit is not None)


def _within(
    query: Query, communities: Communities, selected: Sequence[tuple[int | None, float]], tree: _Tree, tokens: int
) -> list[Hit]:
    """Reports of so many tokens together: the share of each is what it says times the passages it has, and what one
    does not use goes to those with more."""
    passages: dict[int | None, list[int]] = {}
    for community, _ in selected:
        found = tree.loose if community is None else [chunk for chunk, _ in communities.passages(community)]
        # What is newer is told apart.
        old = (chunk for chunk in found if community is None or chunk not in tree.newer)
        passages[community] = [chunk for chunk in old if query.may_answer(chunk)]
    shares = {community: max(0.0, score) * len(passages[community]) for community, score in selected}
    left = math.fsum(shares.values())
    hits: dict[int | None, Hit | None] = {}
    for community, score in sorted(selected, key=lambda one: (shares[one[0]], -1 if one[0] is None else one[0])):
        room = int(tokens * shares[community] / left) if left > 0 else 0
        hit = _cover_report(query, communities, community, passages[community][:_PASSAGES], score, room)
        hits[community] = hit
        left -= shares[community]
        tokens -= 0 if hit is None else sum(token_count(line) for line in hit.text.split("\n"))
    ordered = (hits[community] for community, _ in selected)
    return ranked(hit for hit in ordered if hit is not None)


def _cover_report(
    query: Query, communities: Communities, community: int | None, chunks: Sequence[int], score: float, tokens: int
) -> Hit | None:
    """A report of the sentences of some passages that have most of what these are about."""
    view = query.view
    if community is None:
        heading, title, path = "", "in no community", "in no community, or newer than these"
    else:
        heading, title = communities.key(community), communities.title(community)
        path = f"community of level {communities.get(community).level}"
    # Apart from the communities the nearest chunk comes first: it may be all that there is on the question.
    first = [] if community is not None else cover(cover_sentences(view, chunks[:1]), tokens // 2)
    room = tokens - sum(token_count(sentence.text) for sentence in first)
    rest = chunks if community is not None else chunks[1:]
    taken = first + cover(cover_sentences(view, rest), room, asked=words_asked(query.question))
    text = "\n".join(sentence.text for sentence in taken)
    return report_hit([sentence.span(view) for sentence in taken], text, heading, title, path, score)


def _rated_reports(strategy: GlobalStrategy, question: str, distiller: Distiller) -> list[Hit]:
    """The reports that a model rates above 0, best first, from the coarsest communities down: those below one that
    counts are rated next, and stand in its place where one of them counts too.

    No state is held while the model rates; once the communities have been made anew, it goes no further down.
    """
    kept: dict[int, tuple[int, Hit]] = {}
    above: list[int] | None = None
    change: int | None = None
    while above is None or above:
        with distiller.asked(question) as query:
            communities = communities_for(query)
            if change not in (None, communities.change):
                break
            change = communities.change
            tree = _Tree(query, communities)
            found = tree.roots() if above is None else tree.children(np.array(above, np.int64))
            order = found[np.lexsort((found, -tree.scored(found)))][: int(option(query, strategy, "rated"))].tolist()
            reports = {one: report_of(query, communities, one, path="rated by the model") for one in order}
            parents = dict(zip(order, tree.parents(np.array(order, np.int64)).tolist(), strict=True))
        rated = {one: hit for one, hit in reports.items() if hit is not None}
        above = []
        for one, rating in zip(rated, distiller.rate(question, list(rated.values())), strict=True):
            if rating:
                kept[one] = rating, rated[one]
                above.append(one)
        for one in above:
            kept.pop(parents[one], None)
    return [hit for _, hit in sorted(kept.values(), key=lambda one: -one[0])]

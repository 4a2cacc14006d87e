"""Strategy ``raptor``: trees of summaries, read from above (RAPTOR, Sarthi et al. 2024).

The tree of a document is that of its abstracts, exact in the commit of the document: groups of consecutive chunks and
what stands above them. It can be read in the ways of the paper and in one of its own:

- ``cover``: a summary of all that may answer (:mod:`.summarize`);
- ``collapsed``: chunks and abstracts in one ranking by cosine (the paper's choice);
- ``traversal``: down from the roots, the nearest few of each level (:mod:`.tree`);
- ``leaves``: the chunks alone, by direct search.

Abstracts have no vectors of their own: the centroid of their chunks' stands for them. Without a model's summaries
neither ``collapsed`` nor ``traversal`` finds a detail better than the chunks do, and none of them sums up as well as
``cover``; so ``auto`` takes ``cover`` for a question that asks for an overview, and ``leaves`` for every other.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...arguments import Choice, Option
from ...retrieval.evidence import Evidence
from ...retrieval.overview import is_overview_question
from ...retrieval.query import Query, evidence_of, get_choice_option, option
from ...structures.ranking import best
from ..hybrid.direct import DIRECT_OPTIONS, get_weights, search_directly
from .summary import summarize
from .tree import search_by_traversal, search_collapsed

_MODES = ("auto", "cover", "collapsed", "traversal", "leaves")


class RaptorStrategy:
    """From summaries of the whole to the chunks below them, or no further."""

    name = "raptor"
    description = "RAPTOR: summaries over chunks, sections and documents; a question for an overview gets one"
    overview = True
    options: Mapping[str, Option | Choice] = {
        "mode": Choice("auto", _MODES, "how the tree is read"),
        "width": Option(5, 1, 1000, "abstracts and chunks kept of each level, where mode is traversal"),
        "levels": Option(0, 0, 64, "levels below the roots that are gone down, where mode is traversal (0: all)"),
        **DIRECT_OPTIONS,
    }

    def retrieve(self, query: Query) -> Evidence:
        mode = get_choice_option(query, self, "mode")
        if mode == "auto":
            with query.trace.step("choose mode") as step:
                mode = "cover" if is_overview_question(query.question) else "leaves"
                subject = "an overview" if mode == "cover" else "something in particular"
                step.detail = f"{mode}: the question asks for {subject}"
        if mode == "cover":
            return summarize(query, self.name)
        if mode == "collapsed":
            return search_collapsed(query, self.name)
        if mode == "traversal":
            width, levels = (int(option(query, self, name)) for name in ("width", "levels"))
            return search_by_traversal(query, self.name, width, levels)
        candidates = search_directly(query, get_weights(query, self))
        ranking = best(query.view, candidates.chunks, candidates.scores, query.reach)
        return evidence_of(query, self.name, ranking, candidates.format_paths(), len(candidates.chunks))

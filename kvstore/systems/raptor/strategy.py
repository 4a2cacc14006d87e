"""Strategy ``raptor``: retrieval from trees of summaries (RAPTOR, Sarthi et al. 2024). The tree of a document consists
of its *abstracts*: summaries of consecutive chunks, and of lower abstracts.

The tree is updated in the commit that changes the document. There are four modes, two of them from the paper:

- ``cover``: a summary of all documents that the query allows (:mod:`.summary`);
- ``collapsed``: chunks and abstracts in one ranking by cosine (the paper's choice);
- ``traversal``: down from the roots, the nearest few of each level (:mod:`.tree`);
- ``leaves``: the chunks alone, by direct search.

Abstracts are not embedded; their vector is the centroid of their chunks' vectors. Without a model's summaries, neither
``collapsed`` nor ``traversal`` finds details better than the chunks do, and neither summarizes as well as ``cover``.
The ``auto`` mode therefore selects ``cover`` for a question that asks for an overview, and ``leaves`` for every other.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...arguments import Choice, Option
from ...retrieval.evidence import Evidence
from ...retrieval.query import Query, evidence_of, get_choice_option, option
from ..hybrid.direct_search import search_hybrid
from .summary import summarize
from .tree import search_by_traversal, search_collapsed

_MODES = ("auto", "cover", "collapsed", "traversal", "leaves")


class RaptorStrategy:
    """A strategy that reads trees of summaries, in one of several modes."""

    name = "raptor"
    description = "RAPTOR: trees of summaries over chunks, sections and documents; answers overview questions"
    overview = True
    options: Mapping[str, Option | Choice] = {
        "mode": Choice("auto", _MODES, "how the tree is searched; auto: cover for an overview question, else leaves"),
        "width": Option(5, 1, 1000, "abstracts and chunks that the traversal mode selects from each level"),
        "levels": Option(0, 0, 64, "levels below the roots to which the traversal mode descends (0: all)"),
    }

    def retrieve(self, query: Query) -> Evidence:
        """Return evidence for the question in the mode that the option ``mode`` selects.

        ``cover`` summarizes all documents, ``collapsed`` and ``traversal`` search the tree, and ``leaves`` is hybrid
        search of chunks. ``auto`` chooses ``cover`` for a question that asks for an overview, else ``leaves``.
        """
        mode = get_choice_option(query, self, "mode")
        if mode == "auto":
            with query.trace.step("choose mode") as step:
                mode = "cover" if query.asks_for_overview else "leaves"
                subject = "an overview" if mode == "cover" else "something specific"
                step.detail = f"{mode}: the question asks for {subject}"
        if mode == "cover":
            return summarize(query, self.name)
        if mode == "collapsed":
            return search_collapsed(query, self.name)
        if mode == "traversal":
            width, levels = option(query, self, "width"), option(query, self, "levels")
            return search_by_traversal(query, self.name, int(width), int(levels))
        hybrid = search_hybrid(query)
        return evidence_of(query, self.name, hybrid.rank(query), paths=hybrid.format_paths(), pool=len(hybrid.chunks))

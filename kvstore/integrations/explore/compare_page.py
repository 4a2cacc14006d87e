"""The page that compares strategies: the evidence of each for one question, and its changes of rank. A *column* has the
passages (*hits*) that one strategy found. The first column has the default strategy, if it is compared.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import Any

from markupsafe import Markup

import kvstore

from ...errors import InputError, KvstoreError, StatementError
from ..store_queries import get_default_strategy
from .ask_page import build_hit_data
from .cited_pieces import DocumentTexts
from .guard import hash_source
from .page import ExplorerPage, PageContent, PageRepresentation, PageRequest
from .rendering import STATIC, get_template

#: The default and maximum number of passages per strategy, and the number of colors of the stylesheet.
_DEFAULT_TOP = 8
_MAX_TOP = 30
_NUM_HUES = 12
#: The maximum number of displayed characters of a passage.
_MAX_SHOWN_CHARS = 420

#: The document, start, end and kind of a hit, by which a passage is the same in every column.
_PassageId = tuple[str, int, int, str]


def build_content(request: PageRequest) -> PageContent:
    """Return a column of evidence for the ``q`` argument of a request from each strategy.

    The arguments ``using`` (only these strategies), ``where`` (a condition) and ``top`` (the number of hits) are
    optional. In the content, ``chosen`` are the strategies in ``using``. If the page can be streamed, its columns are
    sent as the strategies finish. A page reports an invalid condition or number in its form. Raises InputError for an
    unknown strategy.
    """
    store, question = request.store, request.get_text("q")
    default_strategy = get_default_strategy(store)
    strategy_names = [strategy.name for strategy in store.strategies()]
    chosen_names = _get_chosen_strategies(request, strategy_names)
    # The default comes first: the others are compared with it.
    strategies = sorted(
        chosen_names or strategy_names, key=lambda name: (name != default_strategy, strategy_names.index(name))
    )
    content: PageContent = {
        "question": question,
        "is_empty": len(store) == 0,
        "where": request.get_text("where"),
        "top": request.get_text("top"),
        "strategies": strategy_names,
        "chosen": chosen_names,
        "columns": [],
    }
    try:
        content["top"] = request.get_number("top", _DEFAULT_TOP, minimum=1, maximum=_MAX_TOP)
        if not question or content["is_empty"]:
            return content
        with suppress(KvstoreError):  # a strategy that needs the embedder reports the error
            store.embed([question])  # so that the first column's time does not include loading the embedder
        columns = _iter_columns(request, question, strategies, content["top"], content["where"])
        columns = chain([next(columns)], columns)  # an invalid condition fails here, before the page is sent
    except (InputError, StatementError) as error:
        return request.report_invalid(content, error)
    return content | {"columns": list(columns) if request.as_data else columns}


def _get_chosen_strategies(request: PageRequest, strategy_names: Sequence[str]) -> list[str]:
    """Return the strategies that a request names with ``using``; raises InputError if one is not in the store."""
    chosen_names = [name for name in request.get_texts("using") if name]
    unknown_names = [name for name in chosen_names if name not in strategy_names]
    if unknown_names:
        raise InputError(f"there is no strategy {unknown_names[0][:40]!r}; strategies are {', '.join(strategy_names)}")
    return chosen_names


def _iter_columns(
    request: PageRequest, question: str, strategies: Sequence[str], top: int, where: str
) -> Iterator[dict[str, Any]]:
    """Yield a column of the page for each strategy: its evidence as JSON data, or its error.

    ``top`` and ``where`` limit the hits and the documents. A passage has the same letter and color in every column.
    Changes of rank are relative to the first column. Raises StatementError for an invalid condition.
    """
    store = request.store
    texts = DocumentTexts(store)
    passage_indexes: dict[_PassageId, int] = {}
    first_ranks: dict[_PassageId, int] | None = None
    for name in strategies:
        column: dict[str, Any] = {"strategy": name, "description": store.describe_strategy(name).description}
        start_time = time.perf_counter()
        try:
            evidence = request.run_within_deadline(
                partial(store.retrieve, question, using=name, top=top, where=where or None)
            )
        except StatementError:  # the condition, which is the same for every strategy
            raise
        except KvstoreError as error:
            yield column | {"problem": str(error), "hits": [], "milliseconds": None}
            continue
        milliseconds = 1000 * (time.perf_counter() - start_time)
        hits = [
            build_hit_data(hit, texts) | _build_passage_data(hit, passage_indexes, first_ranks) for hit in evidence.hits
        ]
        if first_ranks is None:
            first_ranks = {_identify_passage(hit): hit.rank for hit in evidence.hits}
        yield column | {"problem": None, "hits": hits, "milliseconds": milliseconds}


def _identify_passage(hit: kvstore.Hit) -> _PassageId:
    """Return the document, the byte span and the kind of a hit, which are the same in every column."""
    return hit.document, hit.start, hit.end, hit.kind


def _build_passage_data(
    hit: kvstore.Hit, passage_indexes: dict[_PassageId, int], first_ranks: dict[_PassageId, int] | None
) -> dict[str, Any]:
    """Return the letter and color of a hit's passage, its displayed text, and its change of rank, as JSON data.

    ``passage_indexes`` has the index of each passage displayed so far; a new passage is added. ``first_ranks`` are the
    ranks in the first column (None: this is the first column).
    """
    passage = _identify_passage(hit)
    passage_index = passage_indexes.setdefault(passage, len(passage_indexes))
    # The number of ranks by which the passage is higher than in the first column, or "new" if it is not there.
    rank_change: int | str | None = None
    if first_ranks is not None:
        rank_change = first_ranks[passage] - hit.rank if passage in first_ranks else "new"
    return {
        "letter": _format_letters(passage_index),
        "hue": passage_index % _NUM_HUES + 1,
        "shown": hit.text[:_MAX_SHOWN_CHARS],
        "rank_change": rank_change,
    }


def _format_letters(index: int) -> str:
    """Format an index as letters: A, B, … Z, AA, AB, …

    >>> _format_letters(0), _format_letters(25), _format_letters(26)
    ('A', 'Z', 'AA')
    """
    letters = ""
    index += 1
    while index:
        index, digit = divmod(index - 1, 26)
        letters = chr(ord("A") + digit) + letters
    return letters


def _render_comparison_file(request: PageRequest) -> str:
    """Return the comparison as one self-contained HTML file. Raises InputError without a question."""
    content = build_content(request)
    if not content["question"]:
        raise InputError("the comparison needs a question; pass one as q=")
    style = (STATIC / "explore.css").read_text(encoding="utf-8")
    policy = f"default-src 'none'; style-src {hash_source(style)}"
    # ``alone`` replaces the links to explorer pages with text.
    extra = {"style": Markup(style), "policy": policy, "store_name": request.store.path.resolve().name, "alone": True}
    html: str = get_template("comparison.html").render(content | extra)
    return html


PAGE = ExplorerPage(
    "/compare",
    build_content,
    "compare.html",
    label="Compare",
    representations={".html": PageRepresentation("text/html", _render_comparison_file, "comparison.html")},
)

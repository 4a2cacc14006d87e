"""One question, by every strategy: what each found, beside the others, and how its order differs from the first's."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from markupsafe import Markup

from ...errors import InputError, KvstoreError
from ..store_facts import get_default_strategy
from .ask_page import build_hit_data
from .guard import hash_of
from .page import ExplorerPage, PageContent, PageForm, PageRequest
from .rendering import STATIC, template

#: Passages of a strategy, and colours of the stylesheet.
_DEFAULT_TOP = 8
_MOST = 30
_NUM_HUES = 12
#: Letters of a passage that are shown.
_SHOWN = 420


def compare(asked: PageRequest) -> PageContent:
    """What each strategy finds for ``q``, ``where`` a condition holds; ``using`` some of them only.

    The columns of a page that may come in pieces come as the strategies are done.
    """
    store, question = asked.store, asked.text("q")
    default = get_default_strategy(store)
    strategy_names = [one.name for one in store.strategies()]
    chosen_names = [name for name in asked.texts("using") if name]
    unknown = [name for name in chosen_names if name not in strategy_names]
    if unknown:
        raise InputError(f"there is no strategy {unknown[0][:40]!r}; there are {', '.join(strategy_names)}")
    # The default comes first: the others are compared with it.
    wanted = sorted(chosen_names or strategy_names, key=lambda name: (name != default, strategy_names.index(name)))
    top = asked.number("top", _DEFAULT_TOP, least=1, most=_MOST)
    where = asked.text("where")
    columns: Iterator[dict[str, Any]] = iter(())
    is_empty = len(store) == 0
    if question and not is_empty:
        with suppress(KvstoreError):  # a strategy that needs it says so
            store.embed([question])  # so that the first column's time is not that of loading the embedder
        columns = _columns(asked, question, wanted, top, where)
    return {
        "question": question,
        "is_empty": is_empty,
        "where": where,
        "top": top,
        "strategies": strategy_names,
        "chosen": chosen_names,
        "columns": list(columns) if asked.whole else columns,
    }


def _columns(
    asked: PageRequest, question: str, strategies: Sequence[str], top: int, where: str
) -> Iterator[dict[str, Any]]:
    """What each strategy finds; a passage has the same letter and colour in every column."""
    store = asked.store
    passage_numbers: dict[tuple[Any, ...], int] = {}
    first_ranks: dict[tuple[Any, ...], int] | None = None
    for name in strategies:
        column: dict[str, Any] = {"strategy": name, "description": store.describe_strategy(name).description}
        started = time.perf_counter()
        try:
            evidence = asked.within(partial(store.retrieve, question, using=name, top=top, where=where or None))
        except KvstoreError as error:
            yield column | {"problem": str(error), "hits": [], "milliseconds": None}
            continue
        took = 1000 * (time.perf_counter() - started)
        found = []
        for hit in evidence.hits:
            same = hit.document, hit.start, hit.end, hit.kind
            number = passage_numbers.setdefault(same, len(passage_numbers))
            found.append(
                build_hit_data(hit, set())
                | {"letter": _format_letter(number), "hue": number % _NUM_HUES + 1, "shown": hit.text[:_SHOWN]}
                | {"rank_change": None if first_ranks is None else _change(hit.rank, first_ranks.get(same))}
            )
        if first_ranks is None:
            first_ranks = {(hit.document, hit.start, hit.end, hit.kind): hit.rank for hit in evidence.hits}
        yield column | {"problem": None, "hits": found, "milliseconds": took}


def _change(rank: int, before: int | None) -> int | str:
    """How many places a passage stands higher than in the first column (negative: lower), or ``new``."""
    return "new" if before is None else before - rank


def _format_letter(number: int) -> str:
    """A, B, … Z, AA, AB, …

    >>> _format_letter(0), _format_letter(25), _format_letter(26)
    ('A', 'Z', 'AA')
    """
    letters = ""
    number += 1
    while number:
        number, digit = divmod(number - 1, 26)
        letters = chr(ord("A") + digit) + letters
    return letters


def _render_file(asked: PageRequest) -> str:
    """The comparison as one file that needs nothing else."""
    content = compare(asked)
    if not content["question"]:
        raise InputError("a comparison is of a question; ask one with q=")
    style = (STATIC / "explore.css").read_text(encoding="utf-8")
    policy = f"default-src 'none'; style-src {hash_of(style)}"
    extra = {"style": Markup(style), "policy": policy, "store_name": asked.store.path.resolve().name, "alone": True}
    shown: str = template("comparison.html").render(content | extra)
    return shown


PAGE = ExplorerPage(
    "/compare",
    compare,
    "compare.html",
    label="Compare",
    forms={".html": PageForm("text/html", _render_file, "comparison.html")},
)

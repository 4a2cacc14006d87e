"""The requests that were sent to language models since a store was created, by statement and model. SHOW SPENT displays
them. They describe what was paid, not the store's content: they are in no export and no logical dump.

In: the use of a model by a statement. On disk: ``meta`` under ``spent``: a list of rows. Out: the rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass

from ..storage import records
from ..storage.view import View, WriteView
from . import tables

_KEY = b"spent"


@dataclass(frozen=True, slots=True)
class Spending:
    """The use of one language model by one kind of statement.

    ``calls`` is the number of answered requests; ``sent`` and ``received`` are the tokens of their prompts and answers.
    ``kept`` is the number of answers that were stored or displayed, and ``refused`` the number of unusable answers.
    """

    statement: str
    model: str
    calls: int
    sent: int
    received: int
    kept: int
    refused: int


def read_spending(view: View) -> list[Spending]:
    """Return the stored uses of language models (numbers of calls and tokens), in order of statement and model."""
    value = view.get(tables.META, _KEY)
    return [] if value is None else [Spending(*row) for row in records.unpack(value, tables.META, _KEY)]


def sum_spending(uses: Iterable[Spending]) -> list[Spending]:
    """Return the sum of the uses of each model by each kind of statement, in order of statement and model."""
    totals: dict[tuple[str, str], list[int]] = {}
    for use in uses:
        statement, model, *numbers = astuple(use)
        previous_totals = totals.get((statement, model), [0] * len(numbers))
        totals[statement, model] = [total + number for total, number in zip(previous_totals, numbers, strict=True)]
    return [Spending(*key, *numbers) for key, numbers in sorted(totals.items())]


def add_spending(view: WriteView, uses: Iterable[Spending]) -> None:
    """Add uses of language models to the stored totals, which have one row for each pair of statement and model."""
    rows = [list(astuple(total)) for total in sum_spending([*read_spending(view), *uses])]
    view.put(tables.META, _KEY, records.pack(rows))

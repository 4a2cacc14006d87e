"""The handler of EXTRACT, which has a language model write texts about passages of documents, and its estimate by
EXPLAIN.

In: a statement. On disk: one commit per answer from the language model, so it is not allowed in a transaction. Out: a
cursor with one row that reports what was written and at what cost.
"""

from __future__ import annotations

from typing import Any

from ..arguments import format_count
from ..registry import get_written_fact, get_written_facts
from ..retrieval.evidence import Step
from . import statements
from .cursor import Cursor
from .query_handlers import omit_none
from .statement_context import StatementContext


def list_extraction_kinds() -> list[str]:
    """Return the kinds of facts that EXTRACT can have a language model write, such as ``triples``."""
    return list(get_written_facts())


def extract(context: StatementContext, statement: statements.Extract) -> Cursor:
    """Execute EXTRACT, and return the counts of its report as one row."""
    context.require_no_transaction("EXTRACT commits every answer by itself")
    report = context.database.extract(
        statement.kind, model=statement.model, progress=context.progress, **_collect_limits(statement)
    )
    columns = ("kind", "model", "passages", "copied", "calls", "sent", "received", "refused", "left")
    row = tuple(getattr(report, name) for name in columns)
    return Cursor("EXTRACT", columns, [row], rowcount=report.passages, problems=tuple(report.failures))


def list_extraction_steps(context: StatementContext, statement: statements.Extract) -> list[Step]:
    """Return the steps of an EXTRACT, with estimates of what it would send to a model; nothing is sent or written."""
    forecast = context.database.forecast_extract(statement.kind, **_collect_limits(statement))
    model = context.database.language_model(statement.model)
    written_detail = (
        f"{forecast.written:,} are already written, {forecast.copied:,} can be copied from other documents with the "
        "same text"
    )
    # ``left`` passages are not chosen, because requests for them would exceed ``room``, the limit of tokens to send.
    limit_detail = "without a limit" if forecast.room is None else f"at most {forecast.room:,} tokens to send"
    chooser_detail = f"by {statement.by or 'confusability'}, " if forecast.left or statement.by else ""
    address_detail = (
        "no language model is set; specify one with MODEL or SET model" if model is None else f"POST {model.url}"
    )
    name = "" if model is None else f"{model.name}: "
    purpose = get_written_fact(statement.kind).about
    return [
        Step(
            "find passages",
            f"of {format_count(forecast.documents, 'document')}; {written_detail}",
            forecast.passages + forecast.left,
        ),
        Step("choose", f"{chooser_detail}{limit_detail}", forecast.passages),
        Step(
            "ask model",
            f"{name}{purpose}; about {forecast.tokens:,} tokens to send if every answer is usable; nothing is sent "
            f"now: {address_detail}",
            forecast.calls,
        ),
    ]


def _collect_limits(statement: statements.Extract) -> dict[str, Any]:
    """Return the clauses of an EXTRACT that select passages and limit tokens, as arguments by name."""
    return omit_none(share=statement.share, within=statement.within, by=statement.by, where=statement.where)

"""The handlers of statements about indexes: CREATE INDEX, DROP INDEX, REFRESH, and EXPAND of an index.
A *handler* executes a statement in its *context* (the database and the open transaction), and returns a cursor. Some
indexes consist of *groups*, such as topics; an *outline* lists them by level.

In: a statement. On disk: the record of an index in its own commit, and its file in the store's directory; so they are
not allowed in a transaction. Out: cursors that report what was done. An unknown kind, option or index is an error that
suggests the nearest name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple

from ..registry import INDEXES, list_generation_indexes
from ..retrieval.evidence import Step
from ..sql.literals import format_literal
from . import statements
from .cursor import Cursor
from .query_handlers import omit_none
from .statement_context import StatementContext

#: The columns of REFRESH with a model, after the kind of index: fields of a WritingReport.
WRITING_COLUMNS = ("model", "texts", "calls", "sent", "received", "refused", "left")
OUTLINE_COLUMNS = ("level", "title", "count", "detail")


def list_index_kinds() -> Mapping[str, Sequence[str]]:
    """Return the names of the options of each kind of index that a statement may name, by kind."""
    # A companion index is built together with another index, and is not named in statements.
    return {kind.name: list(kind.options) for kind in INDEXES.values() if not getattr(kind, "companion_of", "")}


def list_outlined_kinds() -> list[str]:
    """Return the kinds of index that EXPAND accepts, such as ``topics``; it lists their groups as an outline."""
    return [kind.name for kind in list_generation_indexes() if kind.has_outline]


def create_index(context: StatementContext, statement: statements.CreateIndex) -> Cursor:
    """Execute CREATE INDEX: build an index of a kind, such as ``synonyms``."""
    context.require_no_transaction("CREATE INDEX commits by itself")
    context.database.create_index(statement.kind, statement.options, progress=context.progress)
    return Cursor("CREATE", message=f"index {statement.kind.lower()} created")


def drop_index(context: StatementContext, statement: statements.DropIndex) -> Cursor:
    """Execute DROP INDEX: remove an index and its contents."""
    context.require_no_transaction("DROP INDEX commits by itself")
    context.database.drop_index(statement.kind)
    return Cursor("DROP", message=f"index {statement.kind.lower()} dropped")


def refresh(context: StatementContext, statement: statements.Refresh) -> Cursor:
    """Execute REFRESH, and return a row for each kind of index that changed.

    With a model, the rows also report the texts that the model wrote, the tokens that were sent and received, and
    failures.
    """
    context.require_no_transaction("REFRESH commits by itself")
    model_clauses = omit_none(model=statement.model, within=statement.within)
    # A list of the kinds; its attribute ``written`` has a report for each kind for which the model wrote texts.
    kinds = context.database.refresh(statement.index, progress=context.progress, **model_clauses)
    message = None if kinds else "nothing to refresh"
    if not model_clauses:
        return Cursor("REFRESH", ("kind",), [(kind,) for kind in kinds], rowcount=len(kinds), message=message)
    details = {index.kind: index.detail for index in context.database.indexes()}
    named_kinds = [statement.index.lower()] if statement.index is not None else kinds
    message = "\n".join(f"{kind}: {details[kind]}" for kind in named_kinds if details.get(kind)) or message
    reports = {report.kind: report for report in kinds.written}
    rows = [
        (kind, *(getattr(reports.get(kind), name, None) for name in WRITING_COLUMNS))
        for kind in dict.fromkeys([*kinds, *reports])
    ]
    failures = [failure for report in reports.values() for failure in report.failures]
    return Cursor("REFRESH", ("kind", *WRITING_COLUMNS), rows, rowcount=len(rows), message=message, problems=failures)


def expand_index(context: StatementContext, statement: statements.ExpandIndex) -> Cursor:
    """Execute EXPAND of an index, such as EXPAND TOPICS: return its groups as an outline, one row per group.

    Raises StatementError for a kind of index without groups.
    """
    if statement.kind.lower() not in list_outlined_kinds():
        *choices, last_choice = "an entity in single quotes", *(kind.upper() for kind in list_outlined_kinds())
        expectation = f"{', '.join(choices)} or {last_choice}" if choices else last_choice
        raise context.make_error(
            f"expected {expectation}, found {statement.kind}; write EXPAND {format_literal(statement.kind)}"
        )
    rows = context.queryable.outline(statement.kind, **omit_none(depth=statement.depth))
    return Cursor("EXPAND", OUTLINE_COLUMNS, map(astuple, rows), rowcount=len(rows))


def list_refresh_steps(context: StatementContext, statement: statements.Refresh) -> list[Step]:
    """Return the rows of EXPLAIN REFRESH: the groups that each index would have, and the requests to a model.

    They are estimates: nothing is sent or built.
    """
    model = context.database.language_model(statement.model)
    name = "a model (none is set)" if model is None else model.name
    steps = []
    for kind, forecast in context.database.forecast_refresh(statement.index).items():
        steps.append(Step("group", f"{kind}: {forecast.described}"))
        if forecast.texts:
            steps.append(
                Step("keep", "texts that already exist, because their groups have not changed", forecast.written)
            )
            request_detail = f"{name}: about {forecast.tokens:,} tokens to send"
            if statement.within is not None and statement.within < forecast.tokens:
                request_detail += f", of which at most {statement.within:,} would be sent, for the largest groups"
            steps.append(Step("ask model", f"{request_detail}; nothing is sent now", forecast.calls))
    return steps or [Step("refresh", "no index has texts that a model can write", 0)]

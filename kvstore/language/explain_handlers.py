"""EXPLAIN: the steps by which a statement finds its rows.
A *trace* records the steps of a retrieval. With ANALYZE, steps have costs (milliseconds and pages read), and the
statement is run even if it is a SELECT or calls a model.

In: LOOKUP, EXPAND, SEARCH, RETRIEVE, ASK, SELECT, INGEST, EXTRACT or REFRESH. Out: a cursor with one row per step: its
name, its details and its number of results. EXPLAIN ANALYZE adds the milliseconds and the pages of the data file that
the step was the first to read.

Retrieval is explained by running it, so the steps are those it took. Only ANALYZE runs a SELECT or calls a language
model. An INGEST, an EXTRACT or a REFRESH is only estimated. Any other statement is an error. AS SVG returns the steps
and the evidence as one picture.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import astuple, replace
from typing import NamedTuple

from ..arguments import format_count
from ..ingest.sources import format_skipped
from ..registry.table_reader import TableReader
from ..retrieval.evidence import Hit, Step, Trace
from ..retrieval.question_clauses import SEARCH_TOP
from ..storage.measured_view import MeasuredView
from ..structures.filter import addresses
from ..text.normalize import to_entity_key
from . import statements
from .cursor import Cursor
from .document_handlers import select_ingest_patterns, select_reader_options
from .extraction_handlers import list_extraction_steps
from .index_handlers import list_refresh_steps
from .query_handlers import ask_question, build_retrieval_clauses, expand, omit_none, retrieve_evidence, run_query
from .statement_context import StatementContext

#: The statements that EXPLAIN accepts.
EXPLAINABLE = "LOOKUP, EXPAND, SEARCH, RETRIEVE, ASK, SELECT, INGEST, EXTRACT or REFRESH"
#: The maximum number of omitted page parts that EXPLAIN INGEST lists, those with the most characters first.
MAX_LEFT_OUT = 20


def explain(context: StatementContext, statement: statements.Explain) -> Cursor:
    """Execute EXPLAIN: return the steps of a statement as rows, or as one SVG picture."""
    if statement.as_svg:
        return Cursor("EXPLAIN", ("svg",), [(_draw_steps(context, statement),)], rowcount=1)
    columns = ("step", "detail", "rows", "milliseconds", "pages") if statement.analyze else ("step", "detail", "rows")
    steps = list_steps(context, statement.statement, analyze=statement.analyze)
    rows = [astuple(step)[: len(columns)] for step in steps]  # the last two fields are the costs
    return Cursor("EXPLAIN", columns, rows, rowcount=len(rows))


def _draw_steps(context: StatementContext, statement: statements.Explain) -> str:
    """Return the SVG picture of the steps of a statement and of its hits."""
    from ..rendering.explained import DrawnHit, DrawnStep, draw_explanation

    explanation = _explain_statement(context, statement.statement, analyze=statement.analyze)
    drawn_steps = [
        DrawnStep(step.name, step.detail, step.count, step.milliseconds if statement.analyze else None)
        for step in explanation.steps
    ]
    # With ANALYZE, the last step is the whole statement.
    total_milliseconds = drawn_steps.pop().milliseconds if statement.analyze else None
    hits = [
        DrawnHit(hit.document if hit.title is None else f"{hit.title} ({hit.document})", hit.path, hit.score)
        for hit in explanation.hits
    ]
    return draw_explanation(str(statement.statement), drawn_steps, hits, total_milliseconds=total_milliseconds)


class _Explanation(NamedTuple):
    """The steps by which a statement finds its rows, and the hits if it is a retrieval."""

    steps: list[Step]
    hits: Sequence[Hit] = ()


def list_steps(context: StatementContext, statement: statements.Statement, *, analyze: bool) -> list[Step]:
    """Return the steps of a statement. With ``analyze``, they have costs, and the last is the whole statement."""
    return _explain_statement(context, statement, analyze=analyze).steps


def _explain_statement(context: StatementContext, statement: statements.Statement, *, analyze: bool) -> _Explanation:
    """Return the steps of a statement, and the hits if it retrieves any.

    With ``analyze``, the last step has the total cost.
    """
    # Lookups of entities are counted only for ANALYZE; a plain EXPLAIN changes nothing.
    recording = nullcontext() if analyze else context.database._session.pause_recording()
    with recording, _measure_pages(context) as (measured_context, measured_view):
        if isinstance(statement, statements.Select):  # its steps include the total cost already
            return _Explanation(_list_select_steps(measured_context, statement, analyze))
        start = time.perf_counter()
        explanation = _collect_steps(measured_context, statement, analyze)
        milliseconds = round(1000 * (time.perf_counter() - start), 3)
    if not analyze:
        return explanation
    total_step = _make_total_step(count=None, milliseconds=milliseconds, measured_view=measured_view)
    return _Explanation([*explanation.steps, total_step], explanation.hits)


def _make_total_step(count: int | None, milliseconds: float, measured_view: MeasuredView | None) -> Step:
    """Return the last step of EXPLAIN ANALYZE, which reports the cost of the whole statement.

    ``count`` is its number of rows (None: unknown), and ``milliseconds`` its time. ``measured_view`` has counted the
    pages of the data file that were read (None: they were not counted).
    """
    pages = None if measured_view is None else measured_view.pages
    return Step(name="run", detail="the whole statement", count=count, milliseconds=milliseconds, pages=pages)


def _collect_steps(context: StatementContext, statement: statements.Statement, analyze: bool) -> _Explanation:
    """Return the steps of a statement other than SELECT. Raises StatementError if it cannot be explained.

    With ``analyze``, ASK sends the question to the language model, and INGEST, EXTRACT and REFRESH cannot be explained.
    """
    match statement:
        case statements.Lookup():
            return _Explanation(_list_lookup_steps(context, statement))
        case statements.Expand():
            return _Explanation(_list_expand_steps(context, statement))
        case statements.Search():
            using, top = statement.using or "hybrid", SEARCH_TOP if statement.top is None else statement.top
            evidence = retrieve_evidence(
                context, statements.Retrieve(statement.text, using, top=top, where=statement.where)
            )
            return _Explanation(evidence.steps, evidence.hits)
        case statements.Retrieve():
            # Like retrieve(), but with the steps that estimate how likely the evidence is to answer the question.
            evidence, _ = context.queryable.weigh(statement.question, **build_retrieval_clauses(context, statement))
            if evidence.is_overview:  # like ASK, and unlike RETRIEVE, weigh() can choose the strategy for overviews
                evidence = retrieve_evidence(context, statement)
            return _Explanation(evidence.steps, evidence.hits)
        case statements.Ask():
            return _explain_ask(context, statement, analyze)
        case statements.Ingest() if not analyze:
            return _Explanation(_list_ingest_steps(context, statement))
        case statements.Extract() if not analyze:
            return _Explanation(list_extraction_steps(context, statement))
        case statements.Refresh() if not analyze:
            return _Explanation(list_refresh_steps(context, statement))
    raise context.make_error(f"EXPLAIN takes {EXPLAINABLE}; EXPLAIN ANALYZE does not run the last three")


def _list_ingest_steps(context: StatementContext, statement: statements.Ingest) -> list[Step]:
    """Return the steps of an ingest, estimated from a sample of the files, and the requests it would send."""
    context.require_writable("EXPLAIN INGEST cannot read files")
    options = select_reader_options(context, statement)
    forecast = context.database.forecast_ingest(
        statement.path, format=statement.format, options=options, **select_ingest_patterns(context, statement)
    )
    skip_detail = f"skipped: {format_skipped(forecast.skipped_by)}" if forecast.skipped else "none skipped"
    read_detail = f"estimated from {forecast.sampled:,} of the files; nothing is ingested"
    embed_detail = f"{forecast.embedder}: about {forecast.tokens:,} tokens"
    if forecast.calls:
        embed_detail += f" in {forecast.calls:,} requests to a server; none is sent now"
    steps = [
        Step("find files", f"{forecast.bytes:,} bytes to read; {skip_detail}", forecast.files),
        Step("skip unchanged", "ingested before, and unchanged since", forecast.known),
        Step("read and extract", read_detail, forecast.documents),
        Step("embed", embed_detail, forecast.chunks),
    ]
    if forecast.seconds is not None:
        steps.append(Step("time", f"about {forecast.seconds:,.0f} seconds on one processor"))
    for region in forecast.left_out[:MAX_LEFT_OUT]:
        size = f"{format_count(region.characters, 'character')} on {format_count(region.pages, 'page')}"
        detail = f"{region.element}, {region.reason}, {size}: {region.text}"
        steps.append(Step("leave out", detail, region.pages))
    return [*steps, *(Step("fail", failure) for failure in forecast.failures)]


def _explain_ask(context: StatementContext, statement: statements.Ask, analyze: bool) -> _Explanation:
    """Return the steps and the hits of an ASK. Without ``analyze``, the prompt is a step and is not sent to a model."""
    model = context.database.language_model(statement.model)
    if model is None or analyze:
        evidence = ask_question(context, statement).evidence
        return _Explanation(evidence.steps, evidence.hits)
    prompt = context.queryable.prompt(statement.question, **build_retrieval_clauses(context, statement))
    messages = [Step(f"{message['role']} message", message["content"]) for message in prompt.messages]
    request_detail = f"{model.name}: not sent (EXPLAIN ANALYZE sends it): POST {model.url}"
    return _Explanation([*prompt.evidence.steps, Step("ask model", request_detail), *messages], prompt.evidence.hits)


@contextmanager
def _measure_pages(context: StatementContext) -> Iterator[tuple[StatementContext, MeasuredView | None]]:
    """Yield the context of the statement on a snapshot that counts the pages it reads, and the view with the count.

    The context has no ``on_text``, so the user does not see text that a model generates. In an open transaction, whose
    pages are not in the file yet, the context reads the transaction, and the view is None.
    """
    if context.database._open_transaction is not None:
        yield replace(context, on_text=None), None
        return
    with context.database.snapshot() as snapshot:
        yield replace(context, snapshot=snapshot, on_text=None), snapshot._start_measuring_pages()


def _list_lookup_steps(context: StatementContext, statement: statements.Lookup) -> list[Step]:
    """Run a LOOKUP, and return its steps for each name, as in CFT-RAG (section 3).

    The cuckoo filter has the temperature of a name (the number of its lookups) and its block list (the addresses of its
    tree nodes and abstracts).
    """
    with context.queryable.state() as state:
        trace = Trace(state.lmdb)
        for name in statement.entities:
            with trace.step("normalize") as step:
                key = to_entity_key(name)
                step.detail, step.count = f"{name} as {key}", 1
            with trace.step("probe filter") as step:
                entry = state.filter.find(key) if key else None
                step.count = int(entry is not None)
                if entry is None:
                    step.detail = "unknown: the filter has no entry with this key"
                else:
                    step.detail = f"known, temperature {entry.temperature}"
            identity = state.resolve(key) if entry else None  # the entity, with its aliases
            if identity is not None and len(identity.names) > 1:
                with trace.step("follow aliases") as step:
                    step.detail, step.count = "; ".join(spelling for spelling, _ in identity.names), len(identity.names)
            with trace.step("read block list") as step:
                entity_addresses = [] if identity is None else state.find_addresses(identity).tolist()
                ranks = [rank for rank, _ in map(addresses.split_address, entity_addresses)]
                num_nodes = ranks.count(addresses.NODE_RANK)
                step.detail = f"{num_nodes} tree nodes, {len(ranks) - num_nodes} abstracts"
                step.count = len(ranks)
            with trace.step("read locations") as step:
                locations = context.queryable.lookup(name, **omit_none(limit=statement.limit))
                step.detail, step.count = "the most relevant first", len(locations)
    return trace.steps


def _list_expand_steps(context: StatementContext, statement: statements.Expand) -> list[Step]:
    """Run an EXPAND, and return its only step: the walk over the trees of the entity, with the number of relatives."""
    with context.queryable.state() as state:
        trace = Trace(state.lmdb)
        with trace.step("walk trees") as step:
            rows = expand(context, statement).fetchall()
            trees = sorted({str(tree) for _, tree, *_ in rows})
            step.detail, step.count = f"{statement.direction} in {', '.join(trees) or 'no tree'}", len(rows)
    return trace.steps


def _list_select_steps(context: StatementContext, statement: statements.Select, analyze: bool) -> list[Step]:
    """Return the steps of SQLite's plan for a query, indented by nesting.

    With ``analyze``, the query is run, and steps with the cost of each table and of the whole query follow.
    """
    steps: list[Step] = []
    depths = {0: -1}  # by SQLite's id of a plan step; 0 is the parent of the outermost steps
    with context.queryable.state() as state:
        plan_reader = TableReader(state, context.database.settings_table)
        # The third column is not used.
        for step_id, parent_id, _, detail in run_query(context, statement, plan_reader, prefix="EXPLAIN QUERY PLAN "):
            depth = depths.get(int(str(parent_id)), -1) + 1
            depths[int(str(step_id))] = depth
            steps.append(Step("plan", "  " * depth + _format_plan(str(detail))))
        if analyze:
            steps += _measure_select(context, statement, TableReader(state, context.database.settings_table))
    return steps


def _measure_select(context: StatementContext, statement: statements.Select, reader: TableReader) -> list[Step]:
    """Run a query, and return a step with the cost of each table that it read, and one with the total cost.

    Times and pages of tables are None unless ``reader`` measures them, which its ``measured_view`` indicates.
    """
    start = time.perf_counter()
    num_rows = sum(1 for _ in run_query(context, statement, reader))
    milliseconds = round(1000 * (time.perf_counter() - start), 3)
    is_measured = reader.measured_view is not None
    steps = [
        Step(
            name="read",
            detail=table,
            count=cost.rows,
            milliseconds=round(1000 * cost.seconds, 3) if is_measured else None,
            pages=cost.pages if is_measured else None,
        )
        for table, cost in sorted(reader.costs.items())
    ]
    return [*steps, _make_total_step(num_rows, milliseconds, reader.measured_view)]


def _format_plan(detail: str) -> str:
    """Return SQLite's description of a plan step, with the constraints that the scan of a table applies.

    For example, ``SCAN chunks VIRTUAL TABLE INDEX 0:id = ?`` becomes ``SCAN chunks BY id = ?``. A scan without
    constraints becomes ``SCAN chunks FULLY``.
    """
    table, virtual, constraints = detail.partition(" VIRTUAL TABLE INDEX 0:")
    if not virtual:
        return detail
    return f"{table} BY {constraints}" if constraints else f"{table} FULLY"

"""EXPLAIN: how a statement finds its rows, step by step.

In: LOOKUP, EXPAND, SEARCH, RETRIEVE, ASK or SELECT. Out: a cursor with one row a step: what was done, with what, and
how many came of it; EXPLAIN ANALYZE adds the milliseconds. Retrieval is explained by running it, so the steps are
those it took; a SELECT is run by ANALYZE only. Any other statement is an error."""

from __future__ import annotations

import time
from collections.abc import Iterable

from ..retrieval.evidence import Step, Trace
from ..storage import addresses
from ..text.normalize import entity_key
from . import statements as s
from .cursor import Cursor, Row
from .finding import answer, evidence, expand, selected
from .reader import Reader
from .running import Running


def explain(running: Running, statement: s.Explain) -> Cursor:
    inner = statement.statement
    match inner:
        case s.Lookup():
            steps = _lookup_steps(running, inner)
        case s.Expand():
            steps = _expand_steps(running, inner)
        case s.Search():
            retrieval = s.Retrieve(inner.text, using=inner.using or "hybrid", where=inner.where, top=inner.top)
            steps = evidence(running, retrieval).steps
        case s.Retrieve():
            steps = evidence(running, inner).steps
        case s.Ask():
            steps = answer(running, inner).evidence.steps
        case s.Select():
            return _explain_select(running, inner, statement.analyze)
        case _:
            raise running.failure("EXPLAIN takes LOOKUP, EXPAND, SEARCH, RETRIEVE, ASK or SELECT")
    return _cursor(((step.name, step.detail, step.count, step.milliseconds) for step in steps), statement.analyze)


def _cursor(rows: Iterable[Row], analyze: bool) -> Cursor:
    columns = ("step", "detail", "rows", "milliseconds") if analyze else ("step", "detail", "rows")
    found = [row[: len(columns)] for row in rows]
    return Cursor("EXPLAIN", columns, found, rowcount=len(found))


def _lookup_steps(running: Running, statement: s.Lookup) -> list[Step]:
    trace = Trace()
    for name in statement.entities:
        with running.target.reading() as view:
            with trace.step("normalise") as step:
                key = entity_key(name)
                step.detail, step.count = f"{name} as {key}", 1
            with trace.step("probe filter") as step:
                entry = view.filter.find(key) if key else None
                step.count = int(entry is not None)
                known = entry and f"entity {entry.entity}, temperature {entry.temperature}"
                step.detail = known or "not known: its fingerprint, or its key behind it, is not there"
            with trace.step("read block list") as step:
                places = [addresses.split(int(a)) for a in view.filter.addresses(key)] if entry else []
                nodes = sum(1 for rank, _ in places if rank == addresses.NODE)
                step.detail, step.count = f"{nodes} tree nodes, {len(places) - nodes} abstracts", len(places)
        with trace.step("read locations") as step:
            limit = {} if statement.limit is None else {"limit": statement.limit}
            step.detail, step.count = "the most telling first", len(running.target.lookup(name, **limit))
    return trace.steps


def _expand_steps(running: Running, statement: s.Expand) -> list[Step]:
    trace = Trace()
    with trace.step("walk trees") as step:
        found = expand(running, statement).fetchall()
        trees = sorted({str(row[1]) for row in found})
        step.detail, step.count = f"{statement.direction} in {', '.join(trees) or 'no tree'}", len(found)
    return trace.steps


def _explain_select(running: Running, statement: s.Select, analyze: bool) -> Cursor:
    """SQLite's plan, indented where one part serves another; with ``analyze``, the rows read and given too."""
    rows: list[Row] = []
    depth = {0: -1}
    with running.target.reading() as view:
        reader = Reader(view, running.session.settings_table)
        for row in selected(running, statement, reader, "EXPLAIN QUERY PLAN "):
            number, parent = int(str(row[0])), int(str(row[1]))
            depth[number] = depth.get(parent, -1) + 1
            rows.append(("plan", "  " * depth[number] + _plan(str(row[3])), None, None))
        if analyze:
            reader.visited.clear()
            start = time.perf_counter()
            count = sum(1 for _ in selected(running, statement, reader))
            milliseconds = round(1000 * (time.perf_counter() - start), 3)
            rows += [("read", table, read, None) for table, read in sorted(reader.visited.items())]
            rows.append(("run", "rows of the result", count, milliseconds))
    return _cursor(rows, analyze)


def _plan(detail: str) -> str:
    """SQLite's words for a step, with the way into a table named: what went straight to LMDB's keys."""
    table, virtual, way = detail.partition(" VIRTUAL TABLE INDEX 0:")
    if not virtual:
        return detail
    return f"{table} BY {way}" if way else f"{table} FULLY"

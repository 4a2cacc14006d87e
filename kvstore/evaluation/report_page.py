"""An HTML page of an evaluation report: a table with a bar for each share, without scripts or external resources."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from itertools import groupby

from .comparison import COLUMNS, EvaluationReport, ReportRow

_TITLES = {
    "strategy": "Strategies",
    "reranker": "Rerankers, with the current strategy",
    "least_confidence": "Thresholds of the confidence, with the current strategy",
    "chunk_tokens": "Chunk sizes, on a sample of the documents",
}
_MAX_SHOWN_QUESTIONS = 40
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62em; margin: 2em auto; padding: 0 1em; color: #222;
       background: #fff }
table { border-collapse: collapse; width: 100% } caption, h2 { text-align: left; font-weight: 600 }
th, td { text-align: left; padding: .25em .8em .25em 0; border-bottom: 1px solid #ddd; white-space: nowrap }
.bar { display: inline-block; width: 5em; height: .7em; margin-right: .5em; background: #e4eaea }
.bar i { display: block; height: 100%; background: #00796b } .current { font-weight: 600 }
td.question { white-space: normal }
@media (prefers-color-scheme: dark) {
  body { color: #ddd; background: #1b1d1e } th, td { border-color: #444 }
  .bar { background: #333 } .bar i { background: #4db6ac }
}
"""


def format_report_page(report: EvaluationReport) -> str:
    """Return an HTML page that shows a report."""
    return "\n".join(["<!doctype html>", '<html lang="en">', *_iter_lines(report), "</html>", ""])


def _iter_lines(report: EvaluationReport) -> Iterator[str]:
    """Yield the HTML of a report: advice, a table for each compared setting, and some of the questions."""
    title = f"Evaluation of {escape(report.store)}"
    yield f'<head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>'
    yield f"<style>{_STYLE}</style></head><body><main><h1>{title}</h1>"
    yield f"<p>{', '.join(f'{number} {kind}' for kind, number in report.counts.items())} questions.</p>"
    yield "<h2>Which setting is better</h2><ul>"
    yield from (f"<li>{escape(str(advice))}</li>" for advice in report.advice)
    if not report.advice:
        yield "<li>No other setting was better than the current ones.</li>"
    yield "</ul>"
    for setting, rows in groupby(report.rows, key=lambda row: row.compared):
        yield f"<h2>{_TITLES[setting]}</h2><table><thead><tr><th>{setting}</th>"
        yield "".join(f"<th>{column}</th>" for column in COLUMNS) + "<th>ms</th></tr></thead><tbody>"
        yield from map(_format_row, rows)
        yield "</tbody></table>"
    yield "<h2>Some of the questions</h2><table><thead><tr><th>kind</th><th>source</th><th>question</th>"
    yield "<th>document</th></tr></thead><tbody>"
    step = max(1, len(report.questions) // _MAX_SHOWN_QUESTIONS)
    for question in report.questions[::step]:
        cells = (question.kind, question.part, question.text, ", ".join(sorted(question.gold)))
        yield "<tr>" + "".join(f'<td class="question">{escape(cell)}</td>' for cell in cells) + "</tr>"
    yield "</tbody></table></main></body>"


def _format_row(row: ReportRow) -> str:
    """Return an HTML table row with the metrics of one value of a setting, in bold if the store uses it now."""
    cells = "".join(f"<td>{_format_share(row.figures.get(column))}</td>" for column in COLUMNS)
    current = ' class="current"' if row.is_current else ""
    return f"<tr{current}><td>{escape(row.name)}</td>{cells}<td>{'' if row.ms is None else row.ms}</td></tr>"


def _format_share(share: float | None) -> str:
    """Return a fraction as an HTML bar with its number; an empty text if it is None."""
    if share is None:
        return ""
    return f'<span class="bar"><i style="width:{100 * share:.0f}%"></i></span>{share:.3f}'

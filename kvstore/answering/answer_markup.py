"""An answer as HTML for notebooks: its text, and under it the passages that it cites, the cited bytes marked.

In: what an :class:`~kvstore.answering.answer.Answer` is made of. Out: HTML as :mod:`kvstore.markup` makes it. A
citation is shown in the hit that holds all of its places; where none does, or the hit's text was put together, by its
own text alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from .. import markup
from ..retrieval.evidence import Evidence, Hit
from .citations import Citation


def answer_html(text: str, citations: Sequence[Citation], evidence: Evidence, remarks: Sequence[str]) -> str:
    """The text of an answer, its citations, and what there is to say about it."""
    hits = [hit for hit in (*evidence.hits, *evidence.segments) if _is_slice(hit)]
    cited = "".join(_item(citation, hits) for citation in citations)
    listed = f"<ol>{cited}</ol>" if cited else ""
    return f"<div>{markup.paragraph(text)}{listed}{''.join(map(markup.remark, remarks))}</div>"


def _is_slice(hit: Hit) -> bool:
    """Whether a hit's text is what its document has from its start to its end."""
    return hit.kind in ("chunk", "segment") and len(hit.text.encode()) == hit.end - hit.start


def _item(citation: Citation, hits: Sequence[Hit]) -> str:
    around = next((hit for hit in hits if _holds(hit, citation)), None)
    if around is None:
        quoted = markup.marked(citation.text, [(0, len(citation.text.encode()))])
        heading = ""
    else:
        spans = ((span.start - around.start, span.end - around.start) for span in citation.spans)
        quoted = markup.marked(around.text, spans)
        heading = " › ".join(filter(None, (around.title, around.heading)))
    place = f"<bdi>{markup.escaped(citation.document)}</bdi>, {_bytes(citation)}"
    above = f" <small><bdi>{markup.escaped(heading)}</bdi></small>" if heading else ""
    return f'<li value="{citation.number}">{place}{above}{markup.quotation(quoted)}</li>'


def _holds(hit: Hit, citation: Citation) -> bool:
    return all(
        span.document == hit.document and hit.start <= span.start and span.end <= hit.end for span in citation.spans
    )


def _bytes(citation: Citation) -> str:
    others = len(_documents(citation)) - 1
    further = f", and {others} more document{'' if others == 1 else 's'}" if others else ""
    return f"bytes {citation.start} to {citation.end}{further}"


def _documents(citation: Citation) -> set[str]:
    return {span.document for span in citation.spans}

"""HTML of an answer for notebooks: its text, then the cited passages with the cited bytes marked.

In: the parts of an :class:`~kvstore.answering.answer.Answer`. Out: HTML made by :mod:`kvstore.rendering.markup`. A
citation is shown within the hit that contains all of its spans. If no hit does, or the hit's text is not a slice of its
document, only the cited text is shown.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..rendering import markup
from ..retrieval.evidence import Evidence, Hit
from .citations import Citation


def render_answer_html(text: str, citations: Sequence[Citation], evidence: Evidence, remarks: Sequence[str]) -> str:
    """Return the HTML of an answer's text, its citations with the cited bytes marked, and the remarks about it."""
    hits = [hit for hit in (*evidence.hits, *evidence.segments) if _is_document_slice(hit)]
    citation_items = "".join(_render_citation(citation, hits) for citation in citations)
    citation_list = f"<ol>{citation_items}</ol>" if citation_items else ""
    return f"<div>{markup.render_paragraph(text)}{citation_list}{''.join(map(markup.render_remark, remarks))}</div>"


def _is_document_slice(hit: Hit) -> bool:
    """True if a hit's text is a slice of its document: it is a chunk or segment with as many bytes as its span."""
    return hit.kind in ("chunk", "segment") and len(hit.text.encode()) == hit.end - hit.start


def _render_citation(citation: Citation, hits: Sequence[Hit]) -> str:
    """Return an HTML list item: the document and bytes of a citation, and the cited text.

    The cited bytes are marked in the text of the hit that contains them, if one of ``hits`` does.
    """
    containing_hit = next((hit for hit in hits if _contains_citation(hit, citation)), None)
    if containing_hit is None:
        quotation = markup.mark_spans(citation.text, [(0, len(citation.text.encode()))])
        heading = ""
    else:
        spans = ((span.start - containing_hit.start, span.end - containing_hit.start) for span in citation.spans)
        quotation = markup.mark_spans(containing_hit.text, spans)
        heading = " › ".join(filter(None, (containing_hit.title, containing_hit.heading)))
    location = f"<bdi>{markup.escape(citation.document)}</bdi>, {_format_byte_range(citation)}"
    heading_html = f" <small><bdi>{markup.escape(heading)}</bdi></small>" if heading else ""
    return f'<li value="{citation.number}">{location}{heading_html}{markup.render_quotation(quotation)}</li>'


def _contains_citation(hit: Hit, citation: Citation) -> bool:
    """True if all spans of a citation are inside a hit."""
    return all(
        span.document == hit.document and hit.start <= span.start and span.end <= hit.end for span in citation.spans
    )


def _format_byte_range(citation: Citation) -> str:
    """Return a text with the byte range of a citation and, if it cites more documents, the number of the others."""
    num_others = len({span.document for span in citation.spans}) - 1
    further = f", and {num_others} more document{'' if num_others == 1 else 's'}" if num_others else ""
    return f"bytes {citation.start} to {citation.end}{further}"

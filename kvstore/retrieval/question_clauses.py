"""The clauses of a question, which the reading methods take as keyword arguments.

The module imports nothing else, because every process that opens a store loads it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypedDict, Unpack

if TYPE_CHECKING:
    import numpy.typing as npt

    from .evidence import Evidence

#: The default number of chunks that SEARCH returns.
SEARCH_TOP = 10


class Clauses(TypedDict, total=False):
    """The clauses of a question, by name; a clause that is missing or None takes the session's setting.

    ``using`` is the name of the strategy, or of several with commas, which are fused by rank. ``options`` are the
    options of the strategy, and ``fill`` and ``reranker``, which every strategy has. ``depth`` is a number of levels of
    abstracts, ``top`` a number of chunks, and ``within`` the maximum number of tokens of all chunks together.
    ``where`` is a SQL condition over the columns of ``documents``, with values for its ``parameters``, or an equivalent
    mapping. ``vector``, shape (dimension,), replaces the embedder's. ``reranker`` reorders the hits, like the option.
    ``as_segments`` merges neighboring chunks into segments (:mod:`.segments`) and allows the options of segments in
    ``options``.
    """

    using: str | None
    depth: int | None
    top: int | None
    within: int | None
    where: str | Mapping[str, Any] | None
    options: Mapping[str, Any] | None
    vector: npt.ArrayLike | None
    parameters: Sequence[Any] | Mapping[str, Any]
    reranker: str | None
    as_segments: bool | None


class RetrieveFunction(Protocol):
    """A function that retrieves the evidence for a question, such as ``Store.retrieve``."""

    def __call__(self, question: str, **clauses: Unpack[Clauses]) -> Evidence:
        """Return the evidence for a question; ``clauses`` are keyword arguments such as ``using`` and ``top``."""
        ...

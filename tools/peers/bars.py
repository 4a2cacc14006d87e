"""Performance targets of kvstore relative to other systems, and checks against the figures of one run.

In: figures by system, of one size (a multiple of the number of texts) or of growth. Out: a :class:`BarResult` for each
target whose figures are all present. A target is a number, or a factor of another system's figure in the same run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

Figures = Mapping[str, float | None]


@dataclass(frozen=True)
class Bar:
    """A target: at most (``least``: at least) ``factor`` times the best of ``beside``, or ``factor`` itself."""

    figure: str
    factor: float
    beside: tuple[str, ...] = ()
    sizes: tuple[int, ...] = (1, 10)
    least: bool = False


@dataclass(frozen=True)
class BarResult:
    """A target at a size (None: growth), with the measured value and the limit."""

    system: str
    figure: str
    size: int | None
    measured: float
    bar: float
    least: bool
    met: bool


_FILTERING = ("chroma", "lancedb", "sqlite-vec")
_HYBRID = ("lancedb", "sqlite-vec", "txtai")

BARS = (
    Bar("filter_1_ms", 1.0, _FILTERING),
    Bar("filter_10_ms", 1.0, _FILTERING),
    Bar("filter_1_recall", 0.99, least=True),
    Bar("filter_10_recall", 0.99, least=True),
    Bar("load_s", 1.5, ("chroma",)),
    Bar("disk_ratio", 2.0),
    Bar("replace_written_kb", 200),
    Bar("replace_ms", 1.5, ("chroma",)),
    Bar("delete_s", 1, sizes=(1,)),
    Bar("delete_s", 10, sizes=(10,)),
    Bar("bm25_ms", 1.3, ("tantivy",), sizes=(10,)),
    Bar("hybrid_ms", 0.5, _HYBRID, sizes=(10,)),
    Bar("open_lexical_ms", 120),
    Bar("open_hybrid_ms", 350),
    Bar("load_memory_mb", 450, sizes=(10,)),
)
#: Time of a query at 100,000 texts, divided by that at 10,000.
GROWTH_BARS = (
    Bar("bm25_ms", 2),
    Bar("hybrid_ms", 2),
    Bar("graph_ms", 1.5),
    Bar("filter_1_ms", 2),
    Bar("filter_10_ms", 2),
)


def iter_bar_results(
    figures: Mapping[str, Figures], kvstore_labels: Sequence[str], size: int | None
) -> Iterator[BarResult]:
    """Yield the result of each target of a size (None: growth) for each system that is kvstore.

    Targets without all figures are skipped.
    """
    for bar in GROWTH_BARS if size is None else BARS:
        if size is not None and size not in bar.sizes:
            continue
        reference_values = [
            value for name in bar.beside if (value := figures.get(name, {}).get(bar.figure)) is not None
        ]
        if bar.beside and not reference_values:
            continue
        limit = bar.factor * min(reference_values, default=1.0)
        for system in kvstore_labels:
            measured = figures.get(system, {}).get(bar.figure)
            if measured is not None:
                is_met = measured >= limit if bar.least else measured <= limit
                yield BarResult(system, bar.figure, size, measured, limit, bar.least, is_met)

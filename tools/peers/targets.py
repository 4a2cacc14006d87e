"""Performance targets of kvstore, and their results in one run. A target is a number, or a factor of another system's
figure in the same run. A *size* is a multiple of the number of original texts.

In: figures by system, of one size or of growth. Out: a :class:`TargetResult` for each target whose figures are all
present.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

Figures = Mapping[str, float | None]


@dataclass(frozen=True)
class Target:
    """A limit of a figure: ``factor`` times the best value of the reference systems, or ``factor`` without these.

    It is the maximum of the figure, or the minimum if ``is_minimum``.
    """

    figure: str
    factor: float
    reference_systems: tuple[str, ...] = ()
    sizes: tuple[int, ...] = (1, 10)
    is_minimum: bool = False


@dataclass(frozen=True)
class TargetResult:
    """A target at a size (None: growth), with the measured value and the limit."""

    system: str
    figure: str
    size: int | None
    measured: float
    limit: float
    is_minimum: bool
    is_met: bool


_FILTERING = ("chroma", "lancedb", "sqlite-vec")
_HYBRID = ("lancedb", "sqlite-vec", "txtai")

TARGETS = (
    Target("filter_1_ms", 1.0, _FILTERING),
    Target("filter_10_ms", 1.0, _FILTERING),
    Target("filter_1_recall", 0.99, is_minimum=True),
    Target("filter_10_recall", 0.99, is_minimum=True),
    Target("load_s", 1.5, ("chroma",)),
    Target("disk_ratio", 2.0),
    Target("replace_written_kb", 200),
    Target("replace_ms", 1.5, ("chroma",)),
    Target("delete_s", 1, sizes=(1,)),
    Target("delete_s", 10, sizes=(10,)),
    Target("bm25_ms", 1.3, ("tantivy",), sizes=(10,)),
    Target("hybrid_ms", 0.5, _HYBRID, sizes=(10,)),
    Target("open_lexical_ms", 120),
    Target("open_hybrid_ms", 350),
    Target("load_memory_mb", 450, sizes=(10,)),
)
#: Time of a query at 100,000 texts, divided by that at 10,000.
GROWTH_TARGETS = (
    Target("bm25_ms", 2),
    Target("hybrid_ms", 2),
    Target("graph_ms", 1.5),
    Target("filter_1_ms", 2),
    Target("filter_10_ms", 2),
)


def iter_target_results(
    figures: Mapping[str, Figures], kvstore_labels: Sequence[str], size: int | None
) -> Iterator[TargetResult]:
    """Yield the result of each target of a size (None: growth) for each checkout of kvstore.

    ``kvstore_labels`` are the checkouts' names in ``figures``. Targets without all figures are skipped.
    """
    for target in GROWTH_TARGETS if size is None else TARGETS:
        if size is not None and size not in target.sizes:
            continue
        reference_values = [
            value
            for name in target.reference_systems
            if (value := figures.get(name, {}).get(target.figure)) is not None
        ]
        if target.reference_systems and not reference_values:
            continue
        limit = target.factor * min(reference_values, default=1.0)
        for system in kvstore_labels:
            measured = figures.get(system, {}).get(target.figure)
            if measured is not None:
                is_met = measured >= limit if target.is_minimum else measured <= limit
                yield TargetResult(system, target.figure, size, measured, limit, target.is_minimum, is_met)

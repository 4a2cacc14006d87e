"""thinc's operations with products of matrices in which a row depends on nothing but itself.

In and out: what thinc's models give and take. With them the parse of a text is the same, bit for bit, whichever texts
are parsed together with it; thinc's own products come from a library that promises no such thing. Imports thinc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from thinc.backends import NumpyOps

from kvstore_cext.row_products import row_products

if TYPE_CHECKING:
    from spacy.language import Language as SpacyLanguage


class RowOps(NumpyOps):  # type: ignore[misc]  # an extension without types
    """Operations of numpy, but for products."""

    def gemm(self, x: Any, y: Any, out: Any = None, trans1: bool = False, trans2: bool = False) -> Any:
        """x y, float32, each transposed first where that is asked for."""
        left = np.ascontiguousarray(x.T if trans1 else x)
        right = np.ascontiguousarray(y if trans2 else y.T)
        products = np.empty((len(left), len(right)), np.float32) if out is None else out
        row_products(left, right, products)
        return products


#: Texts that the parser sees together: it sorts them by length and takes a quarter of them through its steps at once.
TOGETHER = 64


def use_row_ops(nlp: SpacyLanguage) -> dict[str, Any]:
    """Let every model of a pipeline use these operations; returns options of ``pipe`` with which no text has an effect
    on another's parse.

    The parser takes the last product of each of its steps from thinc's library all the same. It sees several texts
    together where that library gives each row the same bits in every number of rows, and else one after the other.
    """
    ops = RowOps()
    for _, component in nlp.pipeline:
        model = getattr(component, "model", None)
        for layer in model.walk() if model else ():
            layer.ops = ops
    parser: Any = nlp.get_pipe("parser")
    weights = parser.model.get_ref("upper").get_param("W")
    return {"component_cfg": {"parser": {"batch_size": TOGETHER if _rows_agree(weights, TOGETHER // 4) else 1}}}


def _rows_agree(weights: Any, most: int) -> bool:
    # Which of its kernels the library takes depends on the shape alone.
    ops = NumpyOps()
    rows = np.random.default_rng(0).standard_normal((most, weights.shape[1]), np.float32)
    alone = np.concatenate([ops.gemm(rows[at : at + 1], weights, trans2=True) for at in range(most)])
    return all(
        np.array_equal(ops.gemm(rows[:count], weights, trans2=True), alone[:count]) for count in range(1, most + 1)
    )

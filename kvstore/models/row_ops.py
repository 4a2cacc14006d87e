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


def use_row_ops(nlp: SpacyLanguage) -> None:
    """Let every model of a pipeline use these operations."""
    ops = RowOps()
    for _, component in nlp.pipeline:
        model = getattr(component, "model", None)
        for layer in model.walk() if model else ():
            layer.ops = ops

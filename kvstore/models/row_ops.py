"""Operations for thinc whose matrix products compute each row independently of the other rows.

In and out: as in thinc's models. With these operations, the parse of a text is the same, bit for bit, regardless of the
other texts in its batch; the library that thinc uses does not guarantee this. Imports thinc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from thinc.backends import NumpyOps

from kvstore_cext.row_products import row_products

if TYPE_CHECKING:
    from spacy.language import Language as SpacyLanguage


class RowOps(NumpyOps):  # type: ignore[misc]  # an extension without types
    """The operations of numpy, with the matrix product of kvstore's kernel."""

    def gemm(self, x: Any, y: Any, out: Any = None, trans1: bool = False, trans2: bool = False) -> Any:
        """Return the matrix product x y in float32; ``trans1`` and ``trans2`` transpose x and y first."""
        left = np.ascontiguousarray(x.T if trans1 else x)
        right = np.ascontiguousarray(y if trans2 else y.T)
        products = np.empty((len(left), len(right)), np.float32) if out is None else out
        row_products(left, right, products)
        return products


def use_row_ops(nlp: SpacyLanguage) -> None:
    """Make every model of a pipeline use these operations."""
    ops = RowOps()
    for _, component in nlp.pipeline:
        model = getattr(component, "model", None)
        for layer in model.walk() if model else ():
            layer.ops = ops

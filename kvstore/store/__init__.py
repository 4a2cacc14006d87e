"""Opening a store, and the class Store: a Database that executes statements."""

from ..process import numpy_start  # noqa: F401  before the modules of this package import numpy

"""The system ``metadata_index``: its parts, for the registry."""

from ...registry.contract import System
from .metadata_structure import METADATA

SYSTEM = System(
    "metadata_index", "O'Neil and Quass 1997, Improved query performance with variant indexes", structures=(METADATA,)
)

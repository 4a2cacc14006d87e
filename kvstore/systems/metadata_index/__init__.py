"""Which documents have a value: bitmap indexes over their metadata and columns, for conditions."""

from ..contract import System
from .metadata_structure import METADATA

SYSTEM = System(
    "metadata_index",
    "O'Neil and Quass 1997, Improved query performance with variant indexes",
    structures=(METADATA,),
)

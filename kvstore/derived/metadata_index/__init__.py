"""Bitmap indexes over the metadata and columns of documents, for conditions."""

from ...registry.contract import System
from .metadata_structure import METADATA

SYSTEM = System(
    "metadata_index",
    "O'Neil and Quass 1997, Improved query performance with variant indexes",
    structures=(METADATA,),
)

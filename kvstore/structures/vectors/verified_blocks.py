"""The blocks of vectors that were verified in this process, so that no block is verified twice.

In: the numbers and checksums of verified blocks. Out: these checksums, for the compiled code that reads vectors.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

#: Bit 32 of a recorded checksum, which has 32 bits: it distinguishes a checksum of 0 from a missing one.
_VERIFIED_FLAG = 1 << 32


class VerifiedBlocks:
    """The blocks of a space that were verified in this process, by number, with their checksums.

    A changed checksum means another block. Any thread may read and write it: a lost entry only means another
    verification.
    """

    def __init__(self) -> None:
        """Create a record in which no block is verified."""
        #: By number of the block: its checksum with bit 32 set; 0 if it was not verified.
        self._checksums = np.zeros(0, np.uint64)

    def __contains__(self, block: tuple[int, int]) -> bool:
        """True if the block with this number was verified with this checksum."""
        number, checksum = block
        checksums = self._checksums
        return number < len(checksums) and int(checksums[number]) == checksum | _VERIFIED_FLAG

    def mark_verified(self, number: int, checksum: int) -> None:
        """Record the checksum of a block as verified, given the block's number."""
        self.put_many(np.array([number]), np.array([checksum | _VERIFIED_FLAG], np.uint64))

    def get_many(self, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
        """Return the checksum of each verified block, with bit 32 set, and 0 for each other block.

        ``numbers`` are the numbers of the blocks, ascending. Bit 32 distinguishes a checksum of 0 from a missing one.
        """
        checksums = self._checksums
        block_checksums = np.zeros(len(numbers), np.uint64)
        num_known = int(np.searchsorted(numbers, len(checksums)))
        block_checksums[:num_known] = checksums[numbers[:num_known]]
        return block_checksums

    def put_many(self, numbers: npt.NDArray[np.int64], block_checksums: npt.NDArray[np.uint64]) -> None:
        """Record blocks as verified: their ``numbers``, ascending, and their checksums.

        Bit 32 of a checksum must be set: it distinguishes a checksum of 0 from a missing one.
        """
        checksums = self._checksums
        if len(numbers) and numbers[-1] >= len(checksums):
            # Add room for more blocks than these, so that the array rarely grows.
            checksums = np.concatenate((checksums, np.zeros(int(numbers[-1]) + 1024, np.uint64)))
        checksums[numbers] = block_checksums
        self._checksums = checksums

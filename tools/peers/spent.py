"""Resources used by this process and the children it has waited for.

Processor time is that of all threads, user and system together. Bytes written are those passed to write system calls
(``wchar`` in ``/proc/self/io``). The kernel's count of bytes for a disk (``write_bytes``) is reported as well. It
includes writes through a mapping, but in units of the page cache, which can be many pages for one changed page. Memory
is the peak of resident pages (VmHWM), including mapped files.
"""

from __future__ import annotations

import resource
import time
from typing import NamedTuple


def get_processor_seconds() -> float:
    """Return the processor time of this process since its start, and of its ended children."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


class BytesWritten(NamedTuple):
    """The bytes that a process and its ended children wrote."""

    by_calls: int
    to_disk: int


def get_bytes_written() -> BytesWritten:
    """Return the bytes that this process and its ended children have written."""
    with open("/proc/self/io") as lines:
        counters = dict(line.split(": ") for line in lines)
    return BytesWritten(int(counters["wchar"]), int(counters["write_bytes"]))


def get_peak_megabytes() -> float:
    """Return the peak memory of this process in MiB."""
    with open("/proc/self/status") as lines:
        (peak,) = (line.split()[1] for line in lines if line.startswith("VmHWM"))
    return int(peak) / 1024

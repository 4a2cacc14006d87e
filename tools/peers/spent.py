"""What work has cost this process and the children it has waited for.

Processor time is that of all threads, user and system together. Bytes written are those handed to system calls that
write (``wchar`` in ``/proc/self/io``). What the kernel counts towards a disk (``write_bytes``) is counted as well: it
has what is written through a mapping too, but in the units of the page cache, which may be many pages for one that was
changed. Memory is the peak of resident pages (VmHWM), mapped files among them.
"""

from __future__ import annotations

import resource
import time


def processor_seconds() -> float:
    """Of this process since it began, and of its ended children."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def bytes_written() -> tuple[int, int]:
    """By this process since it began, and by its ended children: handed to system calls, and towards a disk."""
    with open("/proc/self/io") as lines:
        counted = dict(line.split(": ") for line in lines)
    return int(counted["wchar"]), int(counted["write_bytes"])


def peak_megabytes() -> float:
    """The most that this process has held at once."""
    with open("/proc/self/status") as lines:
        (peak,) = (line.split()[1] for line in lines if line.startswith("VmHWM"))
    return int(peak) / 1024

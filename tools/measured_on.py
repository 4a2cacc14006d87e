"""The date and environment of a measurement, recorded with the figures so that they can be compared."""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class MeasuredOn:
    """The day, the commit (``-dirty`` if files differ from it), the machine, and its load before the measurement."""

    day: str
    commit: str
    machine: str
    busy: float


def describe_environment() -> MeasuredOn:
    """Return the current date and environment."""
    return MeasuredOn(
        day=datetime.date.today().isoformat(),
        commit=_describe_commit(),
        machine=(
            f"{_read_processor_name()}, {os.cpu_count()} cores, {_read_memory_size()} GB, "
            f"Python {platform.python_version()}"
        ),
        busy=round(os.getloadavg()[0], 1),
    )


def _describe_commit() -> str:
    """Return the commit as git describes it, with a mark if files are changed."""
    command = ["git", "describe", "--always", "--dirty"]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return process.stdout.strip() or "unknown"


def _read_processor_name() -> str:
    """Return the model name of the processor, or its architecture."""
    try:
        cpu_information = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.machine()
    return next(
        (line.partition(": ")[2] for line in cpu_information.splitlines() if line.startswith("model name")),
        platform.machine(),
    )


def _read_memory_size() -> int:
    """Return the size of the memory in GB."""
    return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9)

"""Another Python process, for tests of what several processes do to one store."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

#: What the code of every process may use.
PRELUDE = "import os, sys, time\nfrom kvstore.storage.environment import Environment\npath = sys.argv[1]\n"


@contextmanager
def python(code: str, *arguments: object, preexec: Callable[[], None] | None = None) -> Iterator[subprocess.Popen[str]]:
    """A Python process that runs ``code``, ``path`` being its first argument.

    It is told to end by closing its input, and must end well, or killed by itself.
    """
    process = subprocess.Popen(
        [sys.executable, "-c", PRELUDE + code, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=preexec,
    )
    try:
        yield process
    except BaseException:
        process.kill()
        raise
    finally:
        output, _ = process.communicate(timeout=60)
    assert process.returncode in (0, -signal.SIGKILL), output


def said(process: subprocess.Popen[str]) -> str:
    """The next line it prints."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


def tell(process: subprocess.Popen[str], line: str = "") -> None:
    """Give it a line to read."""
    assert process.stdin is not None
    process.stdin.write(line + "\n")
    process.stdin.flush()

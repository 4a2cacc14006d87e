"""Another Python process, for tests of what several processes do to one store."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

#: A user who may enter and write what is open to all; and the code by which a process of root's becomes that user. It
#: uses an environment first, so that all is imported that is imported at first use: the user may be kept out of where
#: the checkout, its libraries or Python itself are installed.
NOBODY = 65534
BECOME_NOBODY = f"""
import tempfile, traceback
with tempfile.TemporaryDirectory() as folder:
    for readonly in (False, True):
        with Environment.open(folder + "/used", readonly=readonly) as used:
            used.snapshot().close()
            try:
                with used.write() as transaction:
                    transaction.put("a", b"key", b"value")
                used.compact()
            except Exception:
                pass
os.setgid({NOBODY})
os.setuid({NOBODY})
"""
requires_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")

#: What the code of every process may use.
PRELUDE = "import os, sys, time\nfrom kvstore.storage.environment import Environment\npath = sys.argv[1]\n"


@contextmanager
def make_public_folder() -> Iterator[Path]:
    """Yield a folder that every user may enter, unlike those of pytest; skip the test if that is impossible.

    Until the end, new files can be read by every user, whatever the umask of the test run.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        closed_parents = [parent for parent in folder.parents if not parent.stat().st_mode & 0o001]
        if closed_parents:
            pytest.skip(f"temporary files are in {closed_parents[0]}, which other users may not enter; set TMPDIR")
        folder.chmod(0o755)
        umask = os.umask(0o022)
        try:
            yield folder
        finally:
            os.umask(umask)


@contextmanager
def start_python(
    code: str, *arguments: object, preexec: Callable[[], None] | None = None
) -> Iterator[subprocess.Popen[str]]:
    """Start a Python process that runs ``code`` with ``path`` as its first argument.

    The process must end when its input is closed, with status 0 or killed by itself.
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


def read_line(process: subprocess.Popen[str]) -> str:
    """Return the next line that the process prints."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


def send_line(process: subprocess.Popen[str], line: str = "") -> None:
    """Send the process a line to read."""
    assert process.stdin is not None
    process.stdin.write(line + "\n")
    process.stdin.flush()

"""From the start of a process to its first answer: a process that imports as little as it can.

In: system, what to ask (``lexical``, ``hybrid`` or ``vector``), folder, question, its vector in hexadecimal digits, and
the file for the answer, as arguments. Out: the seconds of processor time since the process began, there.
"""

from __future__ import annotations

import sys
import time


def main() -> None:
    """Open, ask, and write down the time."""
    name, ask, folder, question, digits, out = sys.argv[1:]
    from .peer import NotAnswered
    from .systems import system

    peer = system(name)(folder)
    vector = bytes.fromhex(digits)
    peer.open()
    try:
        if ask == "lexical":
            found = peer.lexical(question, 10)
        elif ask == "hybrid":
            found = peer.hybrid(question, vector, 10)
        else:
            found = peer.vector(vector, 10)
        said = str(time.process_time()) if found else "found nothing"
    except NotAnswered:
        said = ""
    with open(out, "w") as file:
        file.write(said)
    peer.close()

"""Measurement from the start of a process to its first answer, with as few imports as possible.

In, as arguments: the system, the query type (``lexical``, ``hybrid`` or ``vector``), the folder, the question, its
vector in hexadecimal digits, and the output file. Out: in that file, the seconds of processor time since the process
began.
"""

from __future__ import annotations

import sys
import time


def main() -> None:
    """Open the store, ask, and write the time."""
    name, ask, folder, question, digits, out = sys.argv[1:]
    from .peer import NotAnswered
    from .systems import load_system

    peer = load_system(name)(folder)
    vector = bytes.fromhex(digits)
    peer.open()
    try:
        if ask == "lexical":
            answer = peer.search_by_words(question, 10)
        elif ask == "hybrid":
            answer = peer.search_hybrid(question, vector, 10)
        else:
            answer = peer.search_by_vector(vector, 10)
        output = str(time.process_time()) if answer else "found nothing"
    except NotAnswered:
        output = ""
    with open(out, "w") as file:
        file.write(output)
    peer.close()

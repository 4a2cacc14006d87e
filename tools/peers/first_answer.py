"""Measurement from the start of a process to its first answer, with as few imports as possible.

In, as arguments: the system, the query type (``lexical``, ``hybrid`` or ``vector``), the folder, the question, its
vector in hexadecimal digits, and the output file. Out: in that file, the seconds of processor time since the process
began.
"""

from __future__ import annotations

import sys
import time


def main() -> None:
    """Open the store, query it, and write the processor time to a file.

    The command line has the system, the type of query (lexical, vector or hybrid), the store's folder, the question,
    its vector (hexadecimal) and the file. The file is empty if the system has no such query, and says so if the query
    has no results.
    """
    system, query_type, folder, question, vector_hex, output_file = sys.argv[1:]
    from .peer import UnsupportedError
    from .systems import load_system

    peer = load_system(system)(folder)
    vector = bytes.fromhex(vector_hex)
    peer.open()
    try:
        if query_type == "lexical":
            answer = peer.search_by_words(question, 10)
        elif query_type == "hybrid":
            answer = peer.search_hybrid(question, vector, 10)
        else:
            answer = peer.search_by_vector(vector, 10)
        output = str(time.process_time()) if answer else "found nothing"
    except UnsupportedError:
        output = ""
    with open(output_file, "w") as file:
        file.write(output)
    peer.close()

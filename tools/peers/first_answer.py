"""Measurement from the start of a process to its first answer, with as few imports as possible.

It runs as a process of its own. Its arguments are those of the command line, see :func:`main`.
"""

from __future__ import annotations

import sys
import time


def main() -> None:
    """Open a store, query it, and write the seconds of processor time since the start of the process to a file.

    The command line has the system, the type of query (lexical, vector or hybrid), the store's folder, the question,
    its vector (hexadecimal) and the file. The file is empty if the system does not support the query, and has "found
    nothing" if there are no results.
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

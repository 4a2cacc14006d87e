"""Documents with their chunks, abstracts, triples and files."""

"""Documents with their chunks, abstracts, what was found in them and files."""

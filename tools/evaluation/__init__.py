"""The modules of tools/evaluate.py: question sets, retrievers, and measures of the answers."""

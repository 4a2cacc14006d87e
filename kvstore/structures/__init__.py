"""The core structures of a store: documents, names, the filter, the forest, vectors and postings."""

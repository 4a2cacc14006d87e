"""Pages whose text is known from their source: what the real generators make, and shapes of pages written by hand."""

"""spRAG, now dsRAG: neighboring chunks that belong together are returned as one segment of their document."""

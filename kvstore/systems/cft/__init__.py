"""CFT-RAG: retrieval of entity trees through the cuckoo filter."""

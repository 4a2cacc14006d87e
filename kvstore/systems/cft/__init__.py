"""CFT-RAG: entity trees found through the cuckoo filter."""

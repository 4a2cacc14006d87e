"""ArchRAG: entities and attributed communities in one layered graph, searched by a single descent."""

"""HippoRAG: personalized PageRank over the graph of passages and names."""

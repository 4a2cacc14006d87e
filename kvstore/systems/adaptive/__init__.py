"""The default: direct search and the walk over the graph, each weighed by how much it knows."""

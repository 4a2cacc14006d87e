"""The default strategy: hybrid search plus the walk over the graph, which is weighted by how much it can contribute."""

"""Direct search by vectors and words together."""

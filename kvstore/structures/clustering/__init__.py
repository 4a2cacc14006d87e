"""Hierarchical clusterings that are functions of what is clustered: no seed, no order of arrival, no internal id."""

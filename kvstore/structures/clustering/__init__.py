"""Hierarchical clusterings that depend only on the clustered items: no seed, no order of arrival, no internal id."""

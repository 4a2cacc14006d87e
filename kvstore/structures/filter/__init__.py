"""The entity filter: bucket pages of a cuckoo table, and their block lists."""

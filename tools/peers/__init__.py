"""The systems that tools/bench_peers.py compares with kvstore, each in a separate module.

A system is a :class:`~peers.peer.Peer`. Its module imports its library when a store is opened or created. A missing
library can therefore be named, and a process pays for one library only.
"""

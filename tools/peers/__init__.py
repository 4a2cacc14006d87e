"""The systems that tools/bench_peers.py compares with kvstore, each in a separate module.

A system is a :class:`~peers.peer.Peer`. Its module imports its library when a store is opened or created. kvstore can
therefore report a missing library, and a process imports only one.
"""

"""The systems that tools/bench_peers.py measures beside kvstore, each in a module of its own.

A system is a :class:`~peers.peer.Peer`; its module imports its library when a store of it is opened or made, so that
what is not installed can be named, and so that a process pays for one library only.
"""

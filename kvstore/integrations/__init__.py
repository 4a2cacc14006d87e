"""Stores inside other people's programs: each module is an adapter to one framework, and imported when it is used.

An adapter stands on the public face of kvstore alone, as an application does, and needs the extra that it names.
"""

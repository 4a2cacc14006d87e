"""Kernels in Cython that work on plain buffers."""

"""The kernels: Cython over plain buffers."""

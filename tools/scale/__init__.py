"""The modules of tools/bench_scale.py: synthetic documents, and steps that measure a store of them."""

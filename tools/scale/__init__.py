"""What tools/bench_scale.py does in each of its processes: made documents, and steps that measure a store of them."""

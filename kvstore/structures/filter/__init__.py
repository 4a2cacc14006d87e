"""The entity filter: bucket pages of a cuckoo table, and the block lists behind them."""

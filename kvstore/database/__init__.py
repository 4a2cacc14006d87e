"""An open store without its language: what can be read, changed, kept and brought in."""

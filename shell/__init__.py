"""The command line: interactive and scripted use of a store."""

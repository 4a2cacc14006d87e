"""One document to what is stored of it: pure functions of one text, which other processes may run."""

"""The laws: changes applied exactly, CHECK, the logical dump, repair."""

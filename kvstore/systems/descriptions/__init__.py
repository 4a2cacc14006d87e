"""Descriptions of entities that a language model writes, which ``local`` gives to the model that answers."""

"""Answers: sentence selection, prompts, citations and a cache of model answers."""

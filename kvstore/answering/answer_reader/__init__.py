"""The answer reader: a small network that reads a question and a few sentences together.

It returns whether the sentences answer the question, and the words that do. It was trained by ``tools/train_reader``
on English questions with and without an answer.
"""

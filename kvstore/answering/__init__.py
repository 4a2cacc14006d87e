"""What an answer is made of: sentences, prompts, citations, and answers that were given before."""

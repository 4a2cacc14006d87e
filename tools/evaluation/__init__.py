"""What tools/evaluate.py is made of: question sets, what answers them, and what is measured of the answers."""

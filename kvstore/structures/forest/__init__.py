"""The entity forest: trees of names, as stated and as accepted."""

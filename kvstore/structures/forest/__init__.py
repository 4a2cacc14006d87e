"""The entity forest: trees of names, with all asserted edges and the accepted ones."""

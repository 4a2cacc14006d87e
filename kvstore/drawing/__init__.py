"""Pictures as SVG: plain data in, the text of a picture out; nothing is known here of stores or of statements."""

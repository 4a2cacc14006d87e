"""Pictures as SVG, drawn from plain data without access to stores or statements."""

"""Results in other forms: pictures as SVG, passages as HTML, tables as Arrow. No access to stores or statements."""

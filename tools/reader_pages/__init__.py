"""Pages with known source text: output of documentation generators, and imitations of handwritten pages."""

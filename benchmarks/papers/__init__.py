"""Every claim of the papers that this package implements, and what of them holds here."""

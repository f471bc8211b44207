"""`doctor()`: what it watches, what it finds, and how it says so."""

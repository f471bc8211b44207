"""`graph()`: from recorded nodes to text, pages and pictures."""

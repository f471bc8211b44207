"""Making tensors: of given sizes, like others, from data, and ranges."""

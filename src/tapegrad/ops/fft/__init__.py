"""Fourier transforms, and the windows that go with them."""

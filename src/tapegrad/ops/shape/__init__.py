"""Views, copies, and elements that move: nothing is computed with them."""

"""Many elements become one, or are put in order, along dimensions."""

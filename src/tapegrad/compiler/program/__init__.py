"""A recorded call: its steps, and their replay."""

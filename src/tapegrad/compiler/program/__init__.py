"""What was recorded: the steps of a call, and their replay."""

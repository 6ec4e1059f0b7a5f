"""Stage 2 of the river: what a settled directory says, what changed, what is wrong."""

"""The bed of the river: the stages wired together."""

"""Stage 1 of the river: file-system event to settled directory."""

"""What is put outside of us: units of service managers, later entries in hosts; none of it belongs to the river."""

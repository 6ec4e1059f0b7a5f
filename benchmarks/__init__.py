"""What a user would pick instead, and what it costs: zcsyncd beside other tools, in one run. Beside the river."""

"""Who keeps memory where: one small file per kind of store."""

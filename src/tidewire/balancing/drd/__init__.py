"""Who may be moved, and who had better not? Where the head decides, the least urgent go first (epeer §2.6–§2.9)."""

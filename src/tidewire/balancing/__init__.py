"""Who is overloaded, and what should move? How load is measured, what a move would do to it, and who moves."""

"""How fast may I send? One algorithm per file, chosen by name in ``policies.py``.

Everything here is pure: times are handed in, and a call answers; it sends nothing.
"""

"""Who gives way when there is not enough of everything? The least valuable first, as subscribers judge it: epeer §2.10.

Utilities and importance are in ``utility.py``, what they make of rates in ``tiers.py``, ``selection.py`` and
``shares.py``; ``controller.py`` says when, ``rate_filter.py`` holds a publisher to it, ``opinions.py`` sums up what
subscribers say and ``intake.py`` lets nobody say more than is its due.
"""

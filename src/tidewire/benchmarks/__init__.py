"""How fast, and against what? Data, workloads, the numpy scan beside which we measure, and the ledger of ratios.

``match.py`` is `tidewire bench match`; ``ledger.py`` is `make bench-quick`. The workloads need numpy, which users of
the library do not: it comes with the extra ``bench``.
"""

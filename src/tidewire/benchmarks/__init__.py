"""How fast, and against what? Data, workloads, the numpy scan and the servers beside which we measure, the ledger.

``match.py`` is `tidewire bench match`; ``wire.py`` is `tidewire bench wire`, with other brokers as ``peers.py`` and one
native client for all of them (``native/``); ``ledger.py`` is `make bench-quick`. The workloads need numpy, which users
of the library do not: it comes with the extra ``bench``.
"""

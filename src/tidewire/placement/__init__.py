"""Which broker serves this subscriber? Where newcomers go, how loaded brokers are, who moves (bad §2 to §4)."""

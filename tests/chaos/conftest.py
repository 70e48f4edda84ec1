"""What takes minutes runs with `make chaos`, not with every run of the tests."""

import os

collect_ignore = [] if "TIDEWIRE_CHAOS_S" in os.environ else ["test_balance_live.py", "test_channels_killed.py"]

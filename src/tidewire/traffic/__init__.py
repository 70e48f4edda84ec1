"""What kind of traffic is this? Classes, by configuration or by what filters have in common (epeer §0)."""

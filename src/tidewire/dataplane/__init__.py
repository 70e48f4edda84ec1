"""What happens to a batch of events: matched, stamped, grouped, queued. One protocol, several engines."""

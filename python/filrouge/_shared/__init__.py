"""What the sync and the async classes share. Nothing here reads or writes."""

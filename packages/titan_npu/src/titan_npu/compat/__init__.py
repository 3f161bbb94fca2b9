"""Stop-gaps for the pinned framework versions, each with what removes it."""

"""Stop-gaps for the pinned framework versions: one small file per framework, each entry with what removes it."""

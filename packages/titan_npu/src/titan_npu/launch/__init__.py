"""Training on several ranks: torch's elastic agent, one log file a rank, and who failed first."""

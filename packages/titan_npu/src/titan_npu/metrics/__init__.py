"""What a run reports: console, metrics.jsonl, TensorBoard; and the SoCs' peaks for MFU."""

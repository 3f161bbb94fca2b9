"""How a model is spread over ranks: what TorchTitan leaves to a model, or does not have."""

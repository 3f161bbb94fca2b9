"""TorchTitan models with what the NPU needs of them; TorchTitan's own code otherwise."""

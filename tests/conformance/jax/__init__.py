"""JAX's own tests on the platform npu. See README.md."""

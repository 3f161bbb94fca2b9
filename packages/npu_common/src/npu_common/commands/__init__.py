"""The parts of the `npu` command that are more than a few lines; cli.py puts them together."""

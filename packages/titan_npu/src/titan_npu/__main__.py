"""``python -m titan_npu`` is the ``titan-npu`` command."""

from titan_npu.cli import main

if __name__ == "__main__":
    raise SystemExit(main())

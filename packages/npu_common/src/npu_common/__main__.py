"""python -m npu_common: the `npu` command."""

from npu_common.cli import main

main()

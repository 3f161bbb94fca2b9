"""CANN, wrapped once, for every framework of this repository.

Kept empty on purpose: importing it has no effect; `npu_common.toolkit.activate()` has.
"""

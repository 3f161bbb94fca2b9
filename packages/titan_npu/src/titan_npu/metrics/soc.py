"""Dense bfloat16 peak of Ascend SoCs, for model FLOPs utilisation (MFU).

A Da Vinci AI core multiplies 16x16x16 a cycle (4,096 multiply-adds, 8,192 FLOP; Liao et al., "DaVinci: A
Scalable Architecture for Neural Network Computing", Hot Chips 31, 2019); peak = cores x 8,192 x clock. The
products agree with the device profiles of Huawei's msmodeling (A2_376T, A2_313T, A2_280T: 353.9, 294.9, 245.8
TFLOPS in bfloat16). A SoC that is not listed gets no MFU: there is no default.
"""

from __future__ import annotations

_FLOP_PER_CORE_AND_CYCLE = 2 * 16 * 16 * 16

_CORES_AND_CLOCK_HZ = {
    "Ascend910B2": (24, 1.8e9),
    "Ascend910B2C": (24, 1.8e9),
    "Ascend910B3": (20, 1.8e9),
    "Ascend910B4": (20, 1.5e9),
}


def bf16_peak_flops(soc_name: str) -> float | None:
    """Peak in FLOP/s of the SoC named as CANN names it (aclrtGetSocName), or None where it is not known."""
    known = _CORES_AND_CLOCK_HZ.get(soc_name.split("-")[0].strip())
    if known is None:
        return None
    cores, clock = known
    return cores * _FLOP_PER_CORE_AND_CYCLE * clock

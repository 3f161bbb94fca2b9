"""stablehlo.fft over scipy.fft. XLA's FFT, like these, scales only the inverse, by 1/n."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from xla_npu.host import Array, Request, host_function, hosted

_TARGET = "npu_fft"
_TRANSFORMS = {"FFT": "fftn", "IFFT": "ifftn", "RFFT": "rfftn", "IRFFT": "irfftn"}


@hosted("stablehlo.fft")
def request(op: Any) -> Request:
    kind = str(op.attributes["fft_type"]).rpartition(" ")[2].strip("<>")
    lengths = [int(length) for length in op.attributes["fft_length"]]
    return Request(_TARGET, json.dumps([kind, lengths]).encode())


@host_function(_TARGET)
def run(attributes: bytes, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """A transform over the last dimensions; `fft_length` are their sizes on the real side."""
    kind, lengths = json.loads(attributes)
    (given,), (result,) = inputs, outputs
    if result.size == 0:
        return
    if given.size == 0:
        result[...] = 0
        return
    axes = range(given.ndim - len(lengths), given.ndim)
    import scipy.fft  # as late as this: most programs have no Fourier transform

    result[...] = getattr(scipy.fft, _TRANSFORMS[kind])(given, s=lengths, axes=axes)

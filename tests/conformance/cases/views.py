"""Operands in every memory layout, with the memory around them watched."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

#: Of an operand that is only read. "expanded" changes the values: all along the last axis are the first one.
READ = ("transposed", "strided", "offset", "expanded", "every second row", "flipped axes")
#: Of an operand that is written: as above without expanded, which no operator may write to.
WRITTEN = ("transposed", "strided", "offset", "every second row", "flipped axes")
_FILL = 77


@dataclass(frozen=True)
class View:
    """A tensor laid out in a larger buffer; whatever in the buffer is not part of it has to stay what it
    was.
    """

    tensor: torch.Tensor
    buffer: torch.Tensor

    def to(self, device: torch.device) -> View:
        """The same view of a copy of the buffer on a device."""
        buffer = self.buffer.to(device)
        t = self.tensor
        return View(buffer.as_strided(t.size(), t.stride(), t.storage_offset()), buffer)

    def expect_written(self, values: torch.Tensor) -> torch.Tensor:
        """The buffer as it has to be once the view has been set to `values`."""
        buffer = self.buffer.clone()
        t = self.tensor
        buffer.as_strided(t.size(), t.stride(), t.storage_offset()).copy_(values)
        return buffer


def view(tensor: torch.Tensor, layout: str) -> View:
    """`tensor` (on the CPU) in the named layout."""
    shape = tensor.shape
    pick: Callable[[torch.Tensor], torch.Tensor]
    if layout == "contiguous" or tensor.ndim == 0:
        around, pick = shape, lambda b: b
    elif layout == "transposed":
        around, pick = tensor.transpose(0, -1).shape, lambda b: b.transpose(0, -1)
    elif layout == "flipped axes":
        axes = tuple(reversed(range(tensor.ndim)))
        around, pick = tensor.permute(axes).shape, lambda b: b.permute(axes)
    elif layout == "strided":
        around, pick = torch.Size((*shape[:-1], 2 * shape[-1])), lambda b: b[..., ::2]
    elif layout == "every second row":
        around, pick = torch.Size((2 * shape[0] + 1, *shape[1:])), lambda b: b[1::2]
    elif layout == "offset":
        around, pick = torch.Size((tensor.numel() + 5,)), lambda b: b[3:-2].view(shape)
    elif layout == "expanded":
        around, pick = torch.Size((*shape[:-1], 1)), lambda b: b.expand(shape)
    else:
        raise ValueError(f"layout {layout!r}: known are {', '.join(READ)}")
    buffer = torch.full(around, True if tensor.dtype == torch.bool else _FILL, dtype=tensor.dtype)
    if layout == "expanded":
        buffer.copy_(tensor[..., :1])
    else:
        pick(buffer).copy_(tensor)
    # the buffer is flat, so that copying it to a device keeps every element where it is
    laid_out, flat = pick(buffer), buffer.view(-1)
    return View(flat.as_strided(laid_out.size(), laid_out.stride(), laid_out.storage_offset()), flat)

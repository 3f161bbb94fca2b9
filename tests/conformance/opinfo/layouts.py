"""Memory layouts of the operands: the same values, transposed, strided or offset into their storage, moved
to the NPU.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_map

LAYOUTS = ("as-is", "transposed", "strided", "offset")


def relayout(tensor: torch.Tensor, layout: str) -> torch.Tensor:
    """A CPU tensor equal to `tensor` whose memory is laid out as asked (see LAYOUTS); scalars and empty
    ones keep theirs.
    """
    if layout == "as-is" or tensor.layout != torch.strided or tensor.numel() == 0:
        return tensor
    if layout == "transposed":
        if tensor.ndim < 2:
            return tensor
        return tensor.transpose(0, -1).contiguous().transpose(0, -1)
    if layout == "strided":
        if tensor.ndim == 0:
            return tensor
        wide = torch.zeros(*tensor.shape, 2, dtype=tensor.dtype)
        wide[..., 0] = tensor
        return wide[..., 0]
    if layout == "offset":
        flat = torch.zeros(tensor.numel() + 3, dtype=tensor.dtype)
        flat[3:] = tensor.reshape(-1)
        return flat[3:].view(tensor.shape)
    raise ValueError(f"layout {layout!r}: known are {', '.join(LAYOUTS)}")


def to_device(tensor: torch.Tensor, device: str) -> torch.Tensor:
    """A copy of `tensor` on `device` with its own sizes, strides, storage offset and conjugate and negative
    bits (Tensor.to drops some of these).
    """
    if tensor.layout != torch.strided:
        return tensor.to(device, copy=True)
    if tensor.is_conj():
        return to_device(tensor.conj(), device).conj()
    if tensor.is_neg():
        return to_device(tensor._neg_view(), device)._neg_view()
    storage = tensor.untyped_storage()
    if tensor.is_contiguous() and storage.nbytes() == tensor.nbytes:
        return tensor.to(device, copy=True)
    flat = torch.empty(0, dtype=tensor.dtype).set_(storage, 0, (storage.nbytes() // tensor.element_size(),))
    return flat.to(device, copy=True).as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())


def copy_tree(tree: Any, device: str, layout: str = "as-is") -> Any:
    """Deep copy of a tree of operands on `device`; a tensor met twice stays one tensor, and arguments that
    name the CPU name `device`.
    """
    seen: dict[int, torch.Tensor] = {}

    def copy(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            if id(leaf) not in seen:
                moved = to_device(relayout(leaf.detach(), layout), device)
                seen[id(leaf)] = moved.requires_grad_(True) if leaf.requires_grad else moved
            return seen[id(leaf)]
        if isinstance(leaf, torch.device) or (isinstance(leaf, str) and leaf in ("cpu", "cpu:0")):
            return torch.device(device)
        return leaf

    return tree_map(copy, tree)


def map_tensors(function: Callable[[torch.Tensor], Any], tree: Any) -> Any:
    """`function` applied to every tensor of a tree; everything else is kept."""
    return tree_map(lambda leaf: function(leaf) if isinstance(leaf, torch.Tensor) else leaf, tree)

"""Inner attention on torch_npu's fused kernel, documents packed one after another (layout TND).

The config derives from VarlenAttention.Config on purpose: only the configs of Flex and Varlen attention are
handed document boundaries by TorchTitan's trainer (any other class gets none and attends across documents in
silence), and Varlen's metadata, cumulative lengths, is what the fused kernel takes. Queries, keys and values
keep their dtype, and fewer key/value heads than query heads go to the kernel unexpanded.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import spmd_types as spmd
import torch
from spmd_types.runtime import get_partition_spec
from torchtitan.config.override import derive, override
from torchtitan.distributed.utils import get_spmd_backend
from torchtitan.models.common.attention import VarlenAttention, VarlenMetadata
from torchtitan.protocols.module import Module

from titan_npu.parallel.context import ContextParallel, ShardedDocuments

COMPRESSED_MASK = 2048
"""Side of the compressed causal mask that npu_fusion_attention's sparse modes take, whatever the lengths."""

DTYPES = (torch.float32, torch.float16, torch.bfloat16)


class PackedAttention(Module):
    """``torch_npu.npu_fusion_attention`` within each document of a packed batch.

    forward takes q [B, L, N, H], k and v [B, L, N_kv, H] of one dtype (float32, float16, bfloat16), N a
    multiple of N_kv, and VarlenMetadata over B * L tokens; it returns [B, L, N, H_v] of the same dtype.
    ``window_size`` has VarlenAttention's meaning (default: causal). With a ``context`` L is a rank's share of
    the row, and the documents are ShardedDocuments for its method all_gather, VarlenMetadata of the whole rows
    for ulysses.

    The module itself is no VarlenAttention: TorchTitan refuses context parallelism for that class.

    Raises:
        TypeError: masks of another kind, or another dtype.
        ValueError: lengths that do not cover the batch.
        NotImplementedError: an ``out_transform`` (the kernel's log-sum-exp has no gradient).
    """

    @dataclass(kw_only=True, slots=True)
    class Config(VarlenAttention.Config):
        pass

    context: ContextParallel | None = None
    """The ranks that share a sequence; None without context parallelism."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.window_size = config.window_size

    def forward(
        self,
        q_BLNH: torch.Tensor,
        k_BLNH: torch.Tensor,
        v_BLNH: torch.Tensor,
        *,
        attention_masks: VarlenMetadata | ShardedDocuments,
        scale: float | None = None,
        out_transform: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] | None = None,
        **kwargs: Any,
    ) -> torch.Tensor:
        self._check(q_BLNH, k_BLNH, v_BLNH, attention_masks, out_transform)
        with spmd.no_typecheck():
            out_BLNH = self._attend(q_BLNH, k_BLNH, v_BLNH, attention_masks, scale)
        if get_spmd_backend() == "spmd_types" and spmd.is_type_checking():
            spmd.assert_type(out_BLNH, spmd.get_local_type(q_BLNH), get_partition_spec(q_BLNH))
        return out_BLNH

    def _check(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, masks: object, out_transform: object
    ) -> None:
        sharded = self.context is not None and self.context.method == "all_gather"
        if not isinstance(masks, ShardedDocuments if sharded else VarlenMetadata):
            raise TypeError(
                f"Packed attention needs the documents' lengths "
                f"({'ShardedDocuments' if sharded else 'VarlenMetadata'}), not {type(masks).__name__}: "
                "without them it would attend across documents."
            )
        if out_transform is not None:
            raise NotImplementedError(
                "Packed attention on the NPU has no out_transform: its log-sum-exp has no gradient."
            )
        if q.dtype not in DTYPES or not q.dtype == k.dtype == v.dtype:
            raise TypeError(
                f"Packed attention takes one dtype of float32, float16, bfloat16; got {q.dtype}, {k.dtype}, "
                f"{v.dtype}."
            )

    def _attend(
        self,
        q_BLNH: torch.Tensor,
        k_BLNH: torch.Tensor,
        v_BLNH: torch.Tensor,
        documents: VarlenMetadata | ShardedDocuments,
        scale: float | None,
    ) -> torch.Tensor:
        if self.context is not None and isinstance(documents, VarlenMetadata):
            q_BLNH, k_BLNH, v_BLNH = self.context.heads_for_tokens(q_BLNH, k_BLNH, v_BLNH)
        batch, length, heads, head_dim = q_BLNH.shape
        q_TNH = q_BLNH.reshape(batch * length, heads, head_dim)
        if isinstance(documents, ShardedDocuments):
            assert self.context is not None
            k_TNH = self.context.gather(k_BLNH).flatten(0, 2).index_select(0, documents.keys)
            v_TNH = self.context.gather(v_BLNH).flatten(0, 2).index_select(0, documents.keys)
            ends, key_ends = list(documents.query_ends), list(documents.key_ends)
        else:
            k_TNH, v_TNH = k_BLNH.flatten(0, 1), v_BLNH.flatten(0, 1)
            ends = key_ends = document_ends(documents, batch * length)
        out_TNH = fused_packed_attention(
            q_TNH,
            k_TNH,
            v_TNH,
            ends,
            key_ends,
            scale=head_dim**-0.5 if scale is None else scale,
            window_size=self.window_size,
        )
        out_BLNH = out_TNH.view(batch, length, heads, -1)
        if self.context is not None and isinstance(documents, VarlenMetadata):
            out_BLNH = self.context.tokens_for_heads(out_BLNH)
        return out_BLNH


def fused_packed_attention(
    q_TNH: torch.Tensor,
    k_TNH: torch.Tensor,
    v_TNH: torch.Tensor,
    ends: list[int],
    key_ends: list[int] | None = None,
    *,
    scale: float,
    window_size: tuple[int, int] = (-1, 0),
) -> torch.Tensor:
    """Attention within each document of a packed sequence, differentiable in q, k and v.

    Args:
        q_TNH: [T, N, H] on an NPU; k_TNH, v_TNH: [T, N_kv, H].
        ends: where each document ends, in tokens from the start (cumulative lengths without the leading 0).
        key_ends: the same for keys and values, where a document's queries are its last ones only (then
            k_TNH and v_TNH are [T_kv, N_kv, H]); None: as ``ends``.
        scale: factor of q k^T.
        window_size: (left, right) tokens around a query that it attends to, -1 for no limit.
    """
    left, right = window_size
    if window_size == (-1, 0):
        sparse: dict[str, Any] = {"sparse_mode": 3, "atten_mask": compressed_causal_mask(q_TNH.device)}
    elif window_size == (-1, -1):
        sparse = {"sparse_mode": 0}
    else:
        everything = 2**31 - 1
        sparse = {
            "sparse_mode": 4,
            "atten_mask": compressed_causal_mask(q_TNH.device),
            "pre_tockens": everything if left < 0 else left,
            "next_tockens": everything if right < 0 else right,
        }
    return torch.ops.npu.npu_fusion_attention(
        q_TNH,
        k_TNH,
        v_TNH,
        q_TNH.shape[1],
        "TND",
        scale=scale,
        actual_seq_qlen=ends,
        actual_seq_kvlen=ends if key_ends is None else key_ends,
        **sparse,
    )[0]


def document_ends(metadata: VarlenMetadata, tokens: int) -> list[int]:
    """Cumulative document lengths on the host. Costs a device synchronisation where the metadata has no host
    copy."""
    offsets = metadata.cu_seq_q_host
    if offsets is None:
        offsets = tuple(metadata.cu_seq_q.tolist())
    if offsets[0] != 0 or offsets[-1] != tokens:
        raise ValueError(f"The documents cover tokens {offsets[0]} to {offsets[-1]} of a batch of {tokens}.")
    return list(offsets[1:])


def host_metadata(positions: torch.Tensor) -> VarlenMetadata:
    """Document boundaries of packed rows with one device-to-host copy, for all layers of a forward.

    Args:
        positions: int64 [B, L], 0 at each document's first token. A row always starts a document.
    """
    on_host = positions.cpu()
    starts = on_host == 0
    starts[:, 0] = True
    offsets = (*starts.flatten().nonzero().flatten().tolist(), on_host.numel())
    longest = max(end - start for start, end in itertools.pairwise(offsets))
    on_device = torch.tensor(offsets, dtype=torch.int32).to(positions.device, non_blocking=True)
    return VarlenMetadata(
        cu_seq_q=on_device, cu_seq_k=on_device, max_q=longest, max_k=longest, cu_seq_q_host=offsets
    )


@functools.cache
def compressed_causal_mask(device: torch.device) -> torch.Tensor:
    """bool [2048, 2048], True above the diagonal: "do not attend" (one constant a device, shared by all
    layers)."""
    return torch.ones(COMPRESSED_MASK, COMPRESSED_MASK, dtype=torch.bool).triu(1).to(device)


@override(target=VarlenAttention.Config, description="torch_npu's fused attention, packed layout", exact=True)
def packed_attention(config: VarlenAttention.Config) -> PackedAttention.Config:
    """Swap TorchTitan's varlen attention for the NPU's fused attention."""
    return derive(config, PackedAttention.Config)

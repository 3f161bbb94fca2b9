"""JAX's Python callbacks on npu: pure_callback, io_callback, debug.callback, debug.print, and checkify's check.

JAX's own rules refuse a platform that they do not know (emit_python_callback), so these write a custom call of ours,
which xla_npu.host.python_callback runs. As there, a callback gets arrays on the CPU device; where JAX_PLATFORMS leaves
no such device it gets NumPy arrays.
"""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax._src import (
    api,
    callback,
    checkify,
    config,
    debugging,
    dtypes,
    effects,
    mesh,
    sharding_impls,
    xla_bridge,
)
from jax._src.interpreters import mlir
from jaxlib.mlir.dialects import stablehlo

from xla_npu.host import python_callback

PLATFORM = "npu"
_log = logging.getLogger(__name__)


def register() -> None:
    """Tells JAX how to lower its callbacks for npu."""
    # Never cached: two callbacks of one function are two custom calls with names of their own.
    for primitive, rule in (
        (callback.pure_callback_p, _pure_callback),
        (callback.io_callback_p, _io_callback),
        (debugging.debug_callback_p, _debug_callback),
        (debugging.debug_print_p, _debug_print),
        (checkify.check_p, _check),
    ):
        mlir.register_lowering(primitive, rule, platform=PLATFORM, cacheable=False)


def _pure_callback(ctx: Any, *operands: Any, callback: Any, sharding: Any, **_: Any) -> Sequence[Any]:
    function = functools.partial(_call, callback, "jax.pure_callback")
    return _emit(ctx, operands, function, sharding=_op_sharding(ctx, sharding))


def _io_callback(
    ctx: Any, *operands: Any, callback: Any, sharding: Any, ordered: bool, **_: Any
) -> Sequence[Any]:
    function = functools.partial(_call, callback, "jax.io_callback")
    effect = _ORDERED_IO if ordered else None
    return _emit(ctx, operands, function, effect, True, _op_sharding(ctx, sharding))


def _op_sharding(ctx: Any, sharding: Any) -> Any:
    return callback._callback_op_sharding(ctx.module_context.axis_context, sharding, ctx.avals_out)


def _debug_callback(ctx: Any, *operands: Any, callback: Any, effect: Any, **_: Any) -> Sequence[Any]:
    def call(*arguments: Any) -> Sequence[Any]:
        _call(callback, "jax.debug.callback", *arguments)
        return ()

    ordered = effect if effects.ordered_effects.contains(effect) else None
    return _emit(ctx, operands, call, ordered, True)


def _debug_print(
    ctx: Any,
    *operands: Any,
    fmt: str,
    ordered: bool,
    partitioned: bool,
    in_tree: Any,
    static_args: Any,
    np_printoptions: Any,
    has_placeholders: bool,
    logging_record: Any,
) -> Sequence[Any]:
    del partitioned
    show = functools.partial(
        debugging._format_print_callback, fmt, dict(np_printoptions), has_placeholders, logging_record
    )
    flat = debugging._make_flat_callback(in_tree, show, static_args)
    effect = debugging.ordered_debug_effect if ordered else debugging.debug_effect
    return _debug_callback(ctx, *operands, callback=flat, effect=effect)


def _check(ctx: Any, *operands: Any, err_tree: Any, debug: bool) -> Sequence[Any]:
    if debug:
        return []  # only a check that checkify discharged does something
    if not config.xla_runtime_errors.value:
        raise checkify.functionalization_error
    return _emit(ctx, operands, functools.partial(checkify.python_err, err_tree), None, True)


_ORDERED_IO = callback._OrderedIOEffect


def _call(function: Callable[..., Any], what: str, *arguments: np.ndarray[Any, Any]) -> Sequence[Any]:
    """Calls the user's function as JAX does: on the CPU device, outside of any mesh."""
    try:
        device = xla_bridge.local_devices(backend="cpu")[0]
    except RuntimeError:  # JAX_PLATFORMS=npu
        device = None
    with contextlib.ExitStack() as stack:
        if device is not None:
            stack.enter_context(config.default_device(device))
            arguments = api.device_put(arguments, device)
        stack.enter_context(sharding_impls._internal_use_concrete_mesh(mesh.empty_concrete_mesh))
        stack.enter_context(mesh.use_abstract_mesh(mesh.empty_abstract_mesh))
        try:
            return [np.asarray(value) for value in function(*arguments) or ()]
        except BaseException:
            _log.exception("%s failed", what)
            raise


class _Held:
    """A callback with the types that it promised. Also what keeps it alive."""

    def __init__(self, function: Callable[..., Sequence[Any]], results: Sequence[Any]) -> None:
        self._function = function
        self._results = results

    def __call__(self, *arguments: np.ndarray[Any, Any]) -> Sequence[np.ndarray[Any, Any]]:
        values = [np.asarray(value) for value in self._function(*arguments)]
        if len(values) != len(self._results):
            raise RuntimeError(
                f"Mismatched number of outputs from callback. Expected: {len(self._results)}, Actual: {len(values)}"
            )
        return [
            self._checked(i, value, aval)
            for i, (value, aval) in enumerate(zip(values, self._results, strict=True))
        ]

    @staticmethod
    def _checked(index: int, value: np.ndarray[Any, Any], aval: Any) -> np.ndarray[Any, Any]:
        if value.dtype != aval.dtype:
            value = np.asarray(dtypes.canonicalize_value(value))
        for what, actual, expected in (
            ("shape", value.shape, aval.shape),
            ("dtype", value.dtype, aval.dtype),
        ):
            if actual != expected:
                raise RuntimeError(
                    f"Incorrect output {what} for return value #{index}: Expected: {expected}, Actual: {actual}"
                )
        return value


def _emit(
    ctx: Any,
    operands: Sequence[Any],
    function: Callable[..., Sequence[Any]],
    ordered: Any = None,
    has_side_effect: bool = False,
    sharding: Any = None,
) -> Sequence[Any]:
    """Writes the custom call.

    Args:
        ordered: the effect whose token it takes and gives.
        sharding: of the call, for programs over several devices: the one that calls back.
    """
    held = _Held(function, ctx.avals_out)
    # As a host callback: JAX then keeps such a program out of the persistent cache, and the callback alive with it.
    ctx.module_context.add_host_callback(held)
    ctx.module_context.add_keepalive(held)
    types = [mlir.aval_to_ir_type(ctx.module_context, aval) for aval in ctx.avals_out]
    tokens = [ctx.tokens_in.get(ordered)] if ordered is not None else []
    call = mlir.custom_call(
        python_callback.TARGET,
        result_types=[stablehlo.TokenType.get() for _ in tokens] + types,
        operands=[*tokens, *operands],
        backend_config=python_callback.name(held),
        has_side_effect=has_side_effect,
    )
    if sharding is not None:
        mlir.set_sharding(ctx.module_context, call, _with_token(ctx, sharding) if tokens else sharding)
    if not tokens:
        return list(call.results)
    ctx.set_tokens_out(ctx.tokens_in.update_tokens(mlir.TokenSet({ordered: call.results[0]})))
    return list(call.results)[1:]


def _with_token(ctx: Any, sharding: Any) -> Any:
    """The sharding with one for the token before the results', which JAX wants where there are results."""
    if not ctx.avals_out or not isinstance(sharding, sharding_impls.SdyArrayList):
        return sharding
    devices = sharding.shardings[0].logical_device_ids
    token = sharding_impls.SdyArray(mesh_shape=(), dim_shardings=(), logical_device_ids=devices)
    return sharding_impls.SdyArrayList((token, *sharding.shardings))

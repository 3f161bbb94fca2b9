"""Programs of JAX on npu, as far as they are the plugin's business: where they run, how they end, what is said of them."""

from __future__ import annotations

import gc
import threading

import jax
import numpy as np
import pytest
from jax.experimental import serialize_executable

from tests.unit.xla_npu.jax_npu import npu

X = np.arange(8, dtype=np.float32)


def square(x):
    return x * x + x


def on(device, *values):
    return jax.device_put(values[0] if len(values) == 1 else values, device)


def test_devices():
    assert npu().platform == "npu"
    assert npu().device_kind.startswith("Ascend")
    assert str(npu(1)) == "npu:1"
    assert repr(npu(1)) == "NpuDevice(id=1)"


@pytest.mark.parametrize("number", [0, 3])
def test_a_program_runs_where_its_arguments_are(number):
    result = jax.jit(square)(on(npu(number), X))
    assert result.devices() == {npu(number)}
    np.testing.assert_array_equal(np.asarray(result), square(X))


def test_results_that_are_parameters_or_constants():
    x = on(npu(), X)
    first, product, constant = jax.jit(lambda x: (x, x * x, np.float32(3)))(x)
    np.testing.assert_array_equal(np.asarray(first), X)
    np.testing.assert_array_equal(np.asarray(product), X * X)
    assert np.asarray(constant) == 3
    x.delete()
    np.testing.assert_array_equal(np.asarray(first), X)


def test_each_result_has_memory_of_its_own():
    x = on(npu(), X)
    results = [x, *jax.jit(lambda x: (x, x, x + 1))(x)]
    assert len({each.unsafe_buffer_pointer() for each in results}) == 4
    given = on(npu(), X + 1)
    address = given.unsafe_buffer_pointer()
    once, twice = jax.jit(lambda x: (x, x), donate_argnums=0)(given)
    assert once.unsafe_buffer_pointer() == address != twice.unsafe_buffer_pointer()
    np.testing.assert_array_equal(np.asarray(twice), X + 1)


def test_tokens_go_in_and_out():
    with jax.default_device(npu()):
        token = jax.lax.create_token()
        same, product, another = jax.jit(lambda t, x: (t, x * 2, jax.lax.create_token()))(token, X)
    assert type(same) is type(another) is type(token)
    np.testing.assert_array_equal(np.asarray(product), X * 2)


def test_compile_options_that_nobody_knows_are_refused():
    options = {"optimization_level": 1, "xla_embed_ir_in_executable": True}
    np.testing.assert_array_equal(jax.jit(square, compiler_options=options)(on(npu(), X)), square(X))
    with pytest.raises(jax.errors.JaxRuntimeError, match="No such compile option: 'invalid_key'"):
        jax.jit(square, compiler_options={"invalid_key": "x"})(on(npu(), X))


def test_arrays_on_two_devices_are_refused():
    with pytest.raises(ValueError, match="incompatible devices"):
        jax.jit(lambda x, y: x + y)(on(npu(), X), on(npu(1), X))


def test_what_is_said_of_a_program():
    compiled = jax.jit(square).lower(on(npu(), X)).compile()
    stats = compiled.memory_analysis()
    assert stats.argument_size_in_bytes == X.nbytes
    assert stats.output_size_in_bytes == X.nbytes
    assert stats.generated_code_size_in_bytes > 0
    assert isinstance(compiled.cost_analysis(), dict)
    assert "multiply" in compiled.as_text()
    layout = compiled.output_formats.layout
    assert layout.major_to_minor == (0,)


def test_serialised():
    compiled = jax.jit(square).lower(on(npu(), X)).compile()
    payload, in_tree, out_tree = serialize_executable.serialize(compiled)
    again = serialize_executable.deserialize_and_load(payload, in_tree, out_tree, execution_devices=[npu()])
    np.testing.assert_array_equal(np.asarray(again(on(npu(), X))), square(X))


def test_a_chain_of_runs_without_waiting():
    step = jax.jit(square)
    value, expected = on(npu(), np.float32(0.01) * X), np.float32(0.01) * X
    for _ in range(20):
        value, expected = step(value), square(expected)
    np.testing.assert_allclose(np.asarray(value), expected, rtol=1e-6)


def test_programs_come_and_go():
    """Memory of the device is steady while programs are made and dropped."""

    def once(number):
        np.asarray(jax.jit(lambda x: square(x) * square(x) + square(x))(on(npu(), X)))
        jax.clear_caches()
        gc.collect()
        return npu().memory_stats()["bytes_in_use"]

    once(0)
    sizes = [once(number) for number in range(10)]
    assert sizes[-1] <= sizes[0]


def test_threads_compile_and_run():
    problems = []

    def work(seed):
        try:
            for size in range(2, 8):
                x = np.full(size, seed, np.float32)
                run = jax.jit(lambda x: square(x) * square(x))
                np.testing.assert_array_equal(np.asarray(run(on(npu(seed % 2), x))), square(x) ** 2)
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems


def test_what_cannot_be_compiled_is_an_exception():
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"UNIMPLEMENTED.*custom_call"):
        jax.jit(lambda x: jax.ffi.ffi_call("npu_no_such_call", jax.ShapeDtypeStruct((8,), np.float32))(x))(
            on(npu(), X)
        )

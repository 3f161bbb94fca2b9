"""JAX on npu in processes of its own, as a user starts them: what is printed, what errors say, what stays behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest


def python(
    code: str, platforms: str = "npu", timeout: float = 300.0, **environ: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=timeout,
        env={**os.environ, "JAX_PLATFORMS": platforms, **environ},
        check=False,
    )


def right(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_nothing_but_the_platform_needs_to_be_set() -> None:
    done = python(
        "import jax; print(jax.devices()[0].platform, jax.devices()[0].device_kind); print(jax.numpy.ones(3) + 1)"
    )
    lines = right(done).splitlines()
    assert lines[0].startswith("npu Ascend") and lines[1] == "[2. 2. 2.]"
    assert done.stderr == ""


def test_environment_info() -> None:
    out = right(python("import jax; jax.print_environment_info()"))
    assert "npu" in out and "jaxlib" in out


def test_npu_and_cpu_in_one_process() -> None:
    code = """
        import jax, jax.numpy as jnp
        here, there = jax.devices("npu")[0], jax.devices("cpu")[0]
        x = jax.device_put(jnp.arange(4.0), there)
        y = jax.device_put(x, here) * 2
        assert x.devices() == {there} and y.devices() == {here}
        print(jax.device_put(y, there) + x)
    """
    assert right(python(code, "npu,cpu")) == "[0. 3. 6. 9.]\n"


def test_the_address_of_a_result_that_waits_for_a_callback() -> None:
    """JAX asks for it under Python's lock, which the callback needs."""
    code = """
        import jax, numpy as np
        x = jax.numpy.zeros(4)
        shape = jax.ShapeDtypeStruct((4,), np.float32)
        kept, made = jax.jit(lambda x: (x, jax.pure_callback(lambda a: np.asarray(a) + 1, shape, x)))(x)
        addresses = {array.unsafe_buffer_pointer() for array in (made, kept, x)}
        print(len(addresses), np.asarray(made)[0], np.asarray(kept)[0])
    """
    assert right(python(code, timeout=60.0)) == "3 1.0 0.0\n"


def test_without_cann_or_emulator_it_says_what_to_do(tmp_path: Path) -> None:
    done = python("import jax; jax.devices()", NPU_EMULATOR="off", ASCEND_HOME_PATH=str(tmp_path))
    assert done.returncode != 0
    assert "NPU_EMULATOR" in done.stderr


def test_a_missing_plugin_library_is_named(tmp_path: Path) -> None:
    done = python("import jax; jax.devices()", NPU_PJRT_LIBRARY=str(tmp_path / "nothing.so"))
    assert done.returncode != 0 and "nothing.so" in done.stderr


def test_an_unsupported_operation_is_named_with_its_place(tmp_path: Path) -> None:
    file = tmp_path / "model.py"
    file.write_text(
        textwrap.dedent("""
        import jax, jax.numpy as jnp
        from jax._src.interpreters import mlir
        def f(x):
            return jax.ffi.ffi_call("no_such_target", jax.ShapeDtypeStruct((2,), jnp.float32))(x)  # line 5
        try:
            jax.jit(f)(jnp.ones(2))
        except jax.errors.JaxRuntimeError as error:
            print(error)
    """)
    )
    done = subprocess.run(
        [sys.executable, str(file)],
        capture_output=True,
        text=True,
        env={**os.environ, "JAX_PLATFORMS": "npu"},
        check=False,
    )
    assert "no_such_target" in right(done) and "model.py:5" in done.stdout


def test_an_unknown_executor_is_refused() -> None:
    code = """
        import jax, jax.numpy as jnp
        try:
            jax.jit(lambda x: x + 1, compiler_options={"npu_compiler": "magic"})(jnp.ones(2))
        except jax.errors.JaxRuntimeError as error:
            print(error)
    """
    assert "there is no executor 'magic'" in right(python(code))


@pytest.mark.parametrize("executor", ["ge", "afir"])
def test_the_executor_is_chosen_by_an_option(executor: str) -> None:
    code = f"""
        import jax, jax.numpy as jnp
        print(jax.jit(lambda x: jnp.tanh(x) * 0, compiler_options={{"npu_compiler": "{executor}"}})(jnp.ones(2)))
    """
    assert right(python(code)) == "[0. 0.]\n"


def test_out_of_memory_is_an_exception_and_the_device_goes_on() -> None:
    code = """
        import jax, jax.numpy as jnp
        limit = jax.devices()[0].memory_stats()["bytes_limit"]
        try:
            jnp.zeros((limit // 2,), jnp.float32).block_until_ready()
        except jax.errors.JaxRuntimeError as error:
            print(error)
        print(jnp.ones(2) + 1)
    """
    out = right(python(code)).splitlines()
    assert out[0].startswith("RESOURCE_EXHAUSTED") and out[-1] == "[2. 2.]"


def test_exported_programs_are_saved_loaded_and_run(tmp_path: Path) -> None:
    place = tmp_path / "program.bin"
    right(
        python(f"""
        import jax, jax.numpy as jnp, pathlib
        made = jax.export.export(jax.jit(lambda x: jnp.sin(x) @ x.T), platforms=["npu"])(jnp.ones((2, 3)))
        pathlib.Path({str(place)!r}).write_bytes(made.serialize())
    """)
    )
    out = right(
        python(f"""
        import jax, jax.numpy as jnp, pathlib
        print(jax.export.deserialize(pathlib.Path({str(place)!r}).read_bytes()).call(jnp.zeros((2, 3))))
    """)
    )
    assert out == "[[0. 0.]\n [0. 0.]]\n"


@pytest.mark.slow
def test_eight_threads_compile_and_execute_at_once() -> None:
    code = """
        import jax, jax.numpy as jnp, numpy as np
        from concurrent.futures import ThreadPoolExecutor
        def one(n):
            x = np.full((n + 1, 4), n, np.float32)
            for k in range(4):
                got = jax.jit(lambda v: jnp.tanh(v * k).sum(axis=1) + n)(x)
                np.testing.assert_allclose(got, np.tanh(x * k).sum(1) + n, rtol=1e-5)
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(one, range(24)))
        print("right")
    """
    assert right(python(code, timeout=600)) == "right\n"


@pytest.mark.slow
def test_a_thousand_programs_leave_memory_steady() -> None:
    code = """
        import gc, os, jax, jax.numpy as jnp
        def some(first, last):
            for n in range(first, last):
                jax.jit(lambda x: x * n + jnp.sin(x))(jnp.ones(64)).block_until_ready()
                if n % 50 == 0:
                    jax.clear_caches()
            jax.clear_caches(); gc.collect()
            resident = int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
            return resident / 2**20, jax.devices()[0].memory_stats()["bytes_in_use"]
        some(0, 300)
        (before, held), (after, holds) = some(300, 400), some(400, 1300)
        print(f"{before:.0f} MiB, {after:.0f} MiB after 900 more; {held} and {holds} bytes on the device")
        assert after - before < 40, (before, after)
        assert holds <= held
    """
    right(python(code, timeout=900))


def test_a_second_process_takes_programs_from_the_persistent_cache(tmp_path: Path) -> None:
    code = """
        import os, sys
        sys.path.insert(0, os.environ["EXAMPLES"])
        import jax, jax.numpy as jnp
        hits, seconds = [], []
        jax.monitoring.register_event_listener(lambda event, **_: event.endswith("cache_hits") and hits.append(event))
        jax.monitoring.register_event_duration_secs_listener(
            lambda event, duration, **_: event.endswith("backend_compile_duration") and seconds.append(duration))
        from model import Config, init, logits
        config = Config()
        params, tokens = init(config, jax.random.key(0)), jnp.zeros((2, config.length), jnp.int32)
        hits.clear()
        gradient = jax.jit(jax.grad(lambda p, t: (logits(config, p, t) ** 2).mean()))(params, tokens)
        print(len(hits), float(jnp.abs(gradient["embed"]).sum()), sum(seconds))
    """
    environ = {
        "JAX_COMPILATION_CACHE_DIR": str(tmp_path / "jax"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "0",
        "NPU_CACHE_DIR": str(tmp_path / "npu"),
        "EXAMPLES": str(Path(__file__).parents[2] / "examples" / "jax"),
    }
    first, second = (right(python(code, "npu", 300, **environ)).split() for _ in range(2))
    assert first[0] == "0" and int(second[0]) >= 1
    assert first[1] == second[1] and float(first[1]) > 0
    # What the start of the transformer waits for the compiler, all of its programs together.
    assert float(second[2]) < float(first[2]) / 3, (first[2], second[2])


def test_a_keyboard_interrupt_ends_the_process() -> None:
    code = """
        import signal
        import jax, jax.numpy as jnp
        signal.signal(signal.SIGINT, signal.default_int_handler)  # the tests may run in the background of a shell
        x, f = jnp.ones((256, 256)), jax.jit(lambda x: jax.lax.fori_loop(0, 20, lambda i, y: jnp.tanh(y @ y), x))
        f(x).block_until_ready()
        print("ready", flush=True)
        while True:
            f(x).block_until_ready()
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "JAX_PLATFORMS": "npu"},
    )
    try:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode != 0 and "KeyboardInterrupt" in errors

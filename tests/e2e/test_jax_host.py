"""What runs on the host inside a JAX program on npu: callbacks, linear algebra, loops around both; and memory kinds."""

from __future__ import annotations

from tests.e2e.test_jax_process import python, right

CALLBACKS = """
    import gc, time, jax, jax.numpy as jnp, numpy as np
    from jax import lax
    from jax.experimental import checkify, io_callback
    from xla_npu.host import python_callback

    three = jax.ShapeDtypeStruct((3,), np.float32)
    x = jnp.arange(3.0)
    seen = []

    def sine(a):
        seen.append(a)
        return np.sin(a)

    for f in (lambda x: jax.pure_callback(sine, three, x) * 2, jax.jit(lambda x: jax.pure_callback(sine, three, x) * 2)):
        np.testing.assert_allclose(f(x), 2 * np.sin(np.arange(3.0)), rtol=1e-6)
    f(x + 5)
    np.testing.assert_array_equal(seen[1], [0, 1, 2])  # a program never writes into what a callback kept

    # in loops and branches, in order
    log = []

    @jax.jit
    def loop(n, x):
        def body(i, x):
            io_callback(lambda i: log.append(int(i)), None, i, ordered=True)
            add = lambda x: io_callback(lambda a: np.asarray(a) + 1, three, x, ordered=True)
            return lax.cond(i % 2 == 0, add, lambda x: x, x)

        y = lax.fori_loop(0, n, body, x)
        io_callback(lambda: log.append("end"), None, ordered=True)
        return y

    np.testing.assert_array_equal(loop(4, x), x + 2)
    loop(2, x)
    jax.effects_barrier()
    assert log == [0, 1, 2, 3, "end", 0, 1, "end"], log

    tripled = jax.vmap(
        lambda a: jax.pure_callback(
            lambda v: np.float32(v) * 3, jax.ShapeDtypeStruct((), np.float32), a, vmap_method="sequential"
        )
    )(x)
    np.testing.assert_array_equal(tripled, [0, 3, 6])
    for dtype in (bool, np.int8, np.uint32, jnp.bfloat16, np.float16, np.complex64):
        for shape in ((3,), (), (0, 2)):
            a = jnp.ones(shape, dtype)
            b = jax.jit(lambda a: jax.pure_callback(lambda v: np.asarray(v), jax.ShapeDtypeStruct(a.shape, a.dtype), a))(a)
            assert b.dtype == a.dtype and b.shape == a.shape and (np.asarray(b) == 1).all()

    def checked(x):
        checkify.check((x > 0).all(), "not positive: {}", x.sum())
        return jnp.log(x)

    error, _ = jax.jit(checkify.checkify(checked))(x)
    assert "not positive: 3.0" in error.get()
    with jax.debug_nans(True):
        try:
            jax.jit(jnp.log)(-x - 1)
            raise SystemExit("no error")
        except FloatingPointError:
            pass

    # callables live as long as their programs
    held = len(python_callback._held)
    for _ in range(3):
        jax.jit(lambda x: jax.pure_callback(lambda a: a, three, x))(x)
    assert len(python_callback._held) > held
    jax.clear_caches()
    del f, loop
    gc.collect()
    deadline = time.monotonic() + 10  # the thread that ran the last program lets go of it when it is done
    while python_callback._held and time.monotonic() < deadline:
        time.sleep(0.01)
        gc.collect()
    assert not python_callback._held
    print("done")
"""


def test_callbacks_without_a_cpu_device() -> None:
    out = right(python(CALLBACKS + "    assert type(seen[0]) is np.ndarray"))
    assert out.splitlines()[-1] == "done"


def test_callbacks_with_a_cpu_device() -> None:
    out = right(python(CALLBACKS + "    assert seen[0].devices() == set(jax.devices('cpu'))", "npu,cpu"))
    assert out.splitlines()[-1] == "done"


def test_debug_print_in_order() -> None:
    code = """
        import jax, jax.numpy as jnp

        @jax.jit
        def f(xs):
            def step(c, x):
                jax.debug.print("c={c} x={x}", c=c, x=x, ordered=True)
                return c + x, c
            return jax.lax.scan(step, 0.0, xs)

        f(jnp.arange(3.0))
        jax.effects_barrier()
    """
    assert right(python(code)).splitlines() == ["c=0.0 x=0.0", "c=0.0 x=1.0", "c=1.0 x=2.0"]


def failing(callback: str) -> str:
    code = f"""
        import jax, jax.numpy as jnp, numpy as np

        def wrong(a):
            {callback}

        f = jax.jit(lambda x: jax.pure_callback(wrong, jax.ShapeDtypeStruct((3,), np.float32), x * 2))
        try:
            jax.block_until_ready(f(jnp.arange(3.0)))
        except jax.errors.JaxRuntimeError as error:
            print(error)
    """
    return right(python(code, timeout=60))


def test_what_a_callback_raises_reaches_the_user() -> None:
    assert "KeyError: 'the cellar is empty'" in failing("raise KeyError('the cellar is empty')")
    assert "Incorrect output shape for return value #0: Expected: (3,), Actual: (2,)" in failing(
        "return a[:2]"
    )
    assert "Mismatched number of outputs" in failing("return a, a")


def test_a_callback_that_would_wait_for_itself_is_an_error() -> None:
    assert "JAX_PLATFORMS=npu,cpu" in failing("return np.asarray(jnp.sin(a))")


def test_linear_algebra() -> None:
    code = """
        import jax, jax.numpy as jnp, numpy as np
        import jax.scipy.linalg as jsp, scipy.linalg as sp

        jax.config.update("jax_enable_x64", True)
        a = np.random.default_rng(0).standard_normal((2, 4, 4))
        s = a @ a.swapaxes(-1, -2) + np.eye(4)
        b = a[..., :2]
        close = lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-8, atol=1e-9)
        for f, *given in ((jnp.linalg.inv, a), (jnp.linalg.det, a), (jnp.linalg.pinv, b), (jnp.linalg.eigvalsh, s),
                          (jnp.linalg.cholesky, s), (jnp.linalg.solve, a, b), (jnp.linalg.matrix_rank, b),
                          (jnp.linalg.eigvals, a)):
            wanted = getattr(np.linalg, f.__name__)(*given)
            ours = jax.jit(f)(*given)
            close(np.sort_complex(ours) if f is jnp.linalg.eigvals else ours,
                  np.sort_complex(wanted) if f is jnp.linalg.eigvals else wanted)
        close(jnp.linalg.lstsq(b[0], a[0])[0], np.linalg.lstsq(b[0], a[0])[0])
        close(jsp.expm(a[0]), sp.expm(a[0]))
        close(jsp.sqrtm(s[0]), sp.sqrtm(s[0]))
        # gradients, against differences
        def loss(x):
            w, v = jnp.linalg.eigh(x @ x.T)
            q, r = jnp.linalg.qr(x)
            u, t, _ = jnp.linalg.svd(x)
            return jnp.sum(jnp.sin(w)) + jnp.sum(r**2) + t[0] + jnp.linalg.slogdet(x)[1] + jnp.linalg.inv(x)[0, 1]
        step = 1e-6 * np.random.default_rng(1).standard_normal((4, 4))
        change = loss(a[0] + step) - loss(a[0] - step)
        np.testing.assert_allclose(np.sum(jax.jit(jax.grad(loss))(a[0]) * step) * 2, change, rtol=1e-4)
        # within a loop
        powers = jax.lax.fori_loop(0, 3, lambda i, x: jnp.linalg.qr(x)[1] @ jnp.linalg.qr(x)[0], s[0])
        close(np.linalg.eigvals(powers).real.sum(), np.trace(s[0]))
        close(jnp.fft.ifft2(jnp.fft.fft2(a)), a)
        # what fails is NaN
        assert np.isnan(np.diagonal(jnp.linalg.cholesky(-s), axis1=1, axis2=2)).all()
        print("done")
    """
    assert right(python(code)) == "done\n"


def test_memory_kinds_within_jit() -> None:
    code = """
        import jax, jax.numpy as jnp
        from jax.sharding import SingleDeviceSharding

        here = jax.devices()[0]
        host, device = (SingleDeviceSharding(here, memory_kind=kind) for kind in ("pinned_host", "device"))
        x = jnp.arange(4.0)
        y = jax.jit(lambda x: jax.device_put(x * 2, host))(x)
        z = jax.jit(lambda y: jax.device_put(y, device) + 1)(y)
        w = jax.jit(lambda x: x + 1, out_shardings=host)(x)
        v = jax.jit(lambda x: jax.device_put(jax.device_put(x, host), device) * 3)(x)
        print([each.sharding.memory_kind for each in (y, z, w, v)], y, z, w, v)
    """
    kinds = "['pinned_host', 'device', 'pinned_host', 'device']"
    assert right(python(code)) == f"{kinds} [0. 2. 4. 6.] [1. 3. 5. 7.] [1. 2. 3. 4.] [0. 3. 6. 9.]\n"


def test_foreign_kernels_are_named() -> None:
    code = """
        import jax, numpy as np
        for target in ("mine", "tpu_custom_call", "__gpu$xla.gpu.triton", "lapack_sgetrf_ffi"):
            try:
                jax.jit(jax.ffi.ffi_call(target, jax.ShapeDtypeStruct((4,), np.float32)))(np.ones(4, np.float32))
            except jax.errors.JaxRuntimeError as error:
                print(error)
    """
    mine, tpu, triton, lapack = right(python(code)).splitlines()
    assert "npu has no handler for the custom call 'mine'" in mine
    assert "TPU" in tpu and "Triton" in triton and "cpu" in lapack

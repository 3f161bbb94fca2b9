"""Each addition to JAX's private lists is still needed, and does what it is for. A test that fails because JAX no longer
needs one says which entry of xla_npu.jax_lists to remove."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap

import pytest

# A process of its own: in this one the additions may have been made. It looks at JAX without, then with them.
_PROBE = textwrap.dedent("""
    import json, warnings
    from types import SimpleNamespace

    import jax, numpy as np
    from jax import export
    from jax._src import compilation_cache, xla_bridge

    import xla_npu
    xla_npu.initialize = lambda: None  # an installed plugin would make the additions
    xla_bridge.register_backend_factory("npu", lambda: None, priority=-1)
    from xla_npu import jax_lists, linalg
    linalg.register()
    x = np.ones((3, 3), np.float32)
    jax.config.update("jax_compilation_cache_dir", "/nowhere")

    def donation():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            lowered = jax.jit(lambda a: a + 1, donate_argnums=0).trace(x).lower(lowering_platforms=("npu",))
        return "tf.aliasing_output" in lowered.as_text() or "jax.buffer_donor" in lowered.as_text()

    def experimental():
        return "npu" in xla_bridge._nonexperimental_plugins

    def cache():
        compilation_cache.reset_cache()
        return compilation_cache.is_cache_used(SimpleNamespace(platform="npu", supports_executable_serialization=True))

    def exported():
        try:
            export.export(jax.jit(jax.lax.linalg.qr), platforms=["npu"])(x)
        except ValueError as error:
            assert "npu_lapack_qr" in str(error), error
            return False
        return True

    probes = {"donation": donation, "experimental": experimental, "persistent cache": cache,
              "export of linear algebra": exported}
    before = {name: probe() for name, probe in probes.items()}
    jax_lists.extend()
    jax_lists.extend()  # a second time changes nothing
    assert sorted(probes) == sorted(addition.name for addition in jax_lists.ADDITIONS)
    print(json.dumps([before, {name: probe() for name, probe in probes.items()}]))
""")


@pytest.fixture(scope="module")
def probed() -> list[dict[str, bool]]:
    done = subprocess.run(
        [sys.executable, "-c", _PROBE],
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", ["donation", "experimental", "persistent cache", "export of linear algebra"])
def test_each_addition_is_needed_and_serves(probed, name):
    before, after = probed
    assert not before[name], f"JAX knows npu there by itself now: remove '{name}' from xla_npu.jax_lists"
    assert after[name]

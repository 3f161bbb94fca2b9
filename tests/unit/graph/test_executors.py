"""What all executors promise, and what only the compiled ones do."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import numpy as np
import pytest

from npu_common import _cann, runtime
from npu_common.graph import Builder, GraphError
from npu_common.graph.executors import CompileOptions, Executable, executor
from npu_common.graph.executors.run_afir import FLAGS
from npu_common.graph.serialise import to_model
from npu_common.runtime._library import ready

FACTS = Path(__file__).parents[3] / "native" / "cann" / "facts"
ALL = ("aclnn", "ge", "afir")
COMPILED = ("ge", "afir")
PLAIN = CompileOptions(fuse=False)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NPU_CACHE_DIR", str(tmp_path))
    return tmp_path


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


def chain(shape: tuple[int | None, ...] = (4, 6)) -> Builder:
    """exp(x) * 2 + y"""
    b = Builder("chain")
    x, y = b.input("x", "float32", shape), b.input("y", "float32", shape)
    b.output(b.add("Exp", x) * 2.0 + y)
    return b


def expected(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.exp(x.astype(np.float64)) * 2 + y


def run(executable: Executable, inputs: list[np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
    result = runtime.empty(shape)
    executable.run([runtime.asarray(i) for i in inputs], [result], runtime.current_stream())
    return result.numpy()


@pytest.mark.parametrize("name", ALL)
def test_a_chain(name: str) -> None:
    data = [numbers(4, 6), numbers(4, 6) + 1]
    found = run(executor(name).compile(chain().graph, PLAIN), data, (4, 6))
    np.testing.assert_allclose(found, expected(*data), rtol=1e-6)


@pytest.mark.parametrize("name", ALL)
def test_an_executable_survives_its_bytes(name: str) -> None:
    data = [numbers(4, 6), numbers(4, 6) + 1]
    stored = executor(name).compile(chain().graph, PLAIN).serialise()
    found = run(executor(name).deserialise(stored, PLAIN), data, (4, 6))
    np.testing.assert_allclose(found, expected(*data), rtol=1e-6)


@pytest.mark.parametrize("name", COMPILED)
@pytest.mark.parametrize("damage", [lambda s: b"", lambda s: s[:20], lambda s: s[:60], lambda s: b"x" + s])
def test_bytes_of_something_else_are_refused(name: str, damage) -> None:
    stored = executor(name).compile(chain().graph, PLAIN).serialise()
    with pytest.raises(ValueError, match=r"no compiled graph|cut off"):
        executor(name).deserialise(damage(stored), PLAIN)


def test_bytes_of_ge_are_not_afir_s() -> None:
    stored = executor("ge").compile(chain().graph, PLAIN).serialise()
    with pytest.raises(ValueError, match="no compiled graph of the executor afir"):
        executor("afir").deserialise(stored, PLAIN)


def test_a_damaged_model_is_refused_when_it_is_loaded() -> None:
    stored = executor("ge").compile(chain().graph, PLAIN).serialise()
    broken = executor("ge").deserialise(stored[:-40], PLAIN)
    with pytest.raises(_cann.CannError, match="model"):
        run(broken, [numbers(4, 6)] * 2, (4, 6))


@pytest.mark.parametrize("name", COMPILED)
def test_host_values_are_copied(name: str) -> None:
    data = [numbers(4, 6), numbers(4, 6) + 1]
    result = runtime.empty((4, 6))
    executor(name).compile(chain().graph, PLAIN).run(data, [result], runtime.current_stream())
    np.testing.assert_allclose(result.numpy(), expected(*data), rtol=1e-6)


@pytest.mark.parametrize("name", COMPILED)
def test_a_view_that_is_not_contiguous_is_an_input(name: str) -> None:
    x, y = numbers(6, 4), numbers(4, 6)
    result = runtime.empty((4, 6))
    executable = executor(name).compile(chain().graph, PLAIN)
    executable.run([runtime.asarray(x).transpose(), y], [result], runtime.current_stream())
    np.testing.assert_allclose(result.numpy(), expected(x.T, y), rtol=1e-6)


@pytest.mark.parametrize("name", COMPILED)
def test_dynamic_shapes(name: str) -> None:
    executable = executor(name).compile(chain((None, 6)).graph, PLAIN)
    for rows in (1, 5, 0, 3):
        data = [numbers(rows, 6), numbers(rows, 6) + 1]
        np.testing.assert_allclose(run(executable, data, (rows, 6)), expected(*data), rtol=1e-6)


@pytest.mark.parametrize("name", COMPILED)
def test_an_output_whose_shape_depends_on_values(name: str) -> None:
    b = Builder("g")
    b.output(b.add("MaskedSelect", b.input("x", "float32", (6,)), b.input("m", "bool", (6,))))
    executable = executor(name).compile(b.graph, PLAIN)
    x, mask = numbers(6), np.array([1, 0, 1, 1, 0, 0], bool)
    np.testing.assert_array_equal(run(executable, [x, mask], (3,)), x[mask])
    with pytest.raises(ValueError, match=r"output 0 has the shape \(3,\)"):
        run(executable, [x, mask], (5,))


@pytest.mark.parametrize("name", COMPILED)
def test_a_buffer_that_does_not_fit_is_refused(name: str) -> None:
    executable = executor(name).compile(chain((None, 6)).graph, PLAIN)
    data = [numbers(3, 6), numbers(3, 6)]
    with pytest.raises((ValueError, _cann.CannError)):
        run(executable, data, (4, 6))
    with pytest.raises((ValueError, _cann.CannError)):
        run(executable, data, (2, 6))
    with pytest.raises(ValueError, match="compiled for"):
        run(executable, [numbers(3, 5)] * 2, (3, 6))
    with pytest.raises(ValueError, match="2 inputs, 1 were given"):
        run(executable, data[:1], (3, 6))


@pytest.mark.parametrize("name", ALL)
def test_inputs_that_swap_their_memory(name: str) -> None:
    b = Builder("g")
    x, y = b.input("x", "float32", (8,)), b.input("y", "float32", (8,))
    b.output(y, donated=x)
    b.output(b.add("Identity", x), donated=y)
    b.output(x + y)
    one, other, total = runtime.asarray(numbers(8)), runtime.asarray(numbers(8) + 1), runtime.empty([8])
    executor(name).compile(b.graph, PLAIN).run([one, other], [one, other, total], runtime.current_stream())
    np.testing.assert_array_equal(one.numpy(), numbers(8) + 1)
    np.testing.assert_array_equal(other.numpy(), numbers(8))
    np.testing.assert_allclose(total.numpy(), 2 * numbers(8) + 1, rtol=1e-6)


@pytest.mark.parametrize("name", COMPILED)
def test_threads_with_streams_of_their_own_share_an_executable(name: str) -> None:
    executable = executor(name).compile(chain((64, 64)).graph, PLAIN)
    wrong: list[str] = []

    def work(number: int) -> None:
        x, y = numbers(64, 64) * number / 4, numbers(64, 64)
        with runtime.Stream() as stream:
            for _ in range(10):
                result = runtime.empty([64, 64], stream=stream)
                executable.run([x, y], [result], stream)
                if not np.allclose(result.numpy(), expected(x, y), rtol=1e-5, atol=1e-5):
                    wrong.append(f"thread {number}")

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_threads_compile_for_both_without_mixing_the_flags(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOFUSE_FLAGS", "--enable_autofuse=false")
    faults: list[BaseException] = []

    def work(name: str, size: int) -> None:
        try:
            executor(name).compile(chain((size, 2)).graph, PLAIN)
        except BaseException as error:
            faults.append(error)

    threads = [threading.Thread(target=work, args=(n, i + 1)) for i in range(4) for n in COMPILED]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults
    assert os.environ["AUTOFUSE_FLAGS"] == "--enable_autofuse=false"


@pytest.mark.parametrize("name", COMPILED)
def test_the_cache_answers_the_second_time(
    name: str, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    executor(name).compile(chain().graph, PLAIN)
    assert len(list((own_cache / "compiled").glob("*.npuc"))) == 1

    def refuse(*arguments: object) -> bytes:
        raise AssertionError("compiled again")

    monkeypatch.setattr(_cann, "build_model", refuse)
    data = [numbers(4, 6), numbers(4, 6) + 1]
    found = run(executor(name).compile(chain().graph, PLAIN), data, (4, 6))
    np.testing.assert_allclose(found, expected(*data), rtol=1e-6)
    with pytest.raises(AssertionError, match="compiled again"):
        executor(name).compile(chain((4, 7)).graph, PLAIN)


def test_the_flags_of_the_environment_are_part_of_ge_s_key(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    executor("ge").compile(chain().graph, PLAIN)
    monkeypatch.setenv("AUTOFUSE_FLAGS", FLAGS)
    executor("ge").compile(chain().graph, PLAIN)
    assert len(list((own_cache / "compiled").glob("*.npuc"))) == 2


@pytest.mark.parametrize("name", COMPILED)
def test_the_compiler_s_sentence_names_the_node(name: str) -> None:
    b = Builder("g")
    x = b.input("x", "float32", (2, 2))
    # Nothing in the emulator or in CANN's kernels computes this one; the catalogue has it.
    b.output(b.add_many("Batch", [x], outputs=[("float32", (2, 2)), ("int64", (1, 3)), ("int64", (1,))],
                        num_batch_threads=1, max_batch_size=1, batch_timeout_micros=1,
                        grad_timeout_micros=1, node_name="odd")[0])  # fmt: skip
    with pytest.raises(GraphError, match=r"aclgrphBuildModel.*odd"):
        executor(name).compile(b.graph, PLAIN)


def test_bytes_that_are_no_graph_are_refused() -> None:
    ready()
    with pytest.raises(_cann.CannError, match="LoadFromMem") as caught:
        _cann.build_model(b"no graph", "g")
    assert caught.value.detail


@pytest.mark.parametrize("symbol", json.loads((FACTS / "ge_build.json").read_text())["symbols"],
                         ids=lambda s: s["name"])  # fmt: skip
def test_the_builder_s_functions_are_found(symbol: dict[str, str]) -> None:
    ready()
    assert _cann.origin("graph", symbol["mangled"]).symbol == symbol["mangled"]


def test_the_builder_uses_no_name_that_the_facts_have_not() -> None:
    _cann.build_model(to_model(chain().graph), "g")
    known = {s["mangled"] for s in json.loads((FACTS / "ge_build.json").read_text())["symbols"]}
    used = {s.symbol for s in _cann.bound_symbols() if s.symbol.startswith(("_ZN2ge", "_ZNK2ge"))}
    assert {"_ZN2ge5GraphC1EPKc", "_ZN2ge5Graph11LoadFromMemEPKhm"} <= used <= known

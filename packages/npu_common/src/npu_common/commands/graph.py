"""`npu graph`: saved models of the graph engine (ge.proto.ModelDef) shown, converted and run."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from npu_common import toolkit
from npu_common.commands.errors import CommandError, one_sentence

app = typer.Typer(no_args_is_help=True, help="Show, convert and run a saved graph.")
File = Annotated[Path, typer.Argument(metavar="FILE", show_default=False)]


@app.command()
def dump(file: File) -> None:
    """Print the graph, a node a line."""
    with one_sentence():
        from npu_common.graph.text import dump as text

        print(text(_read(file)))


@app.command()
def convert(file: File, out: Annotated[Path, typer.Argument(metavar="OUT", show_default=False)]) -> None:
    """Write the graph as .dot (Graphviz), .onnx (for Netron), .txt, or .pb (the engine's own)."""
    with one_sentence():
        if out.suffix not in _writers():
            raise CommandError(f"{out}: a graph is written as {', '.join(_writers())}, not '{out.suffix}'")
        out.write_bytes(_writers()[out.suffix](_read(file)))


@app.command()
def run(
    file: File,
    inputs: Annotated[
        list[str] | None,
        typer.Option(
            "--input", metavar="NAME=x.npy", help="An input's value; random numbers if none is given."
        ),
    ] = None,
    executor: Annotated[str | None, typer.Option(help="aclnn, ge or afir (NPU_COMPILER, else ge).")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the outputs, a .npy file each.")] = None,
    seed: Annotated[int, typer.Option(help="Of the random inputs.")] = 0,
) -> None:
    """Compile the graph and run it once on npu:0."""
    with one_sentence():
        toolkit.activate()
        graph = _read(file)
        results, seconds = execute(graph, _values(graph, inputs or [], seed), executor)
        if out is not None:
            out.mkdir(parents=True, exist_ok=True)
        for index, result in enumerate(results):
            target = f" -> {out / f'output{index}.npy'}" if out is not None else ""
            print(f"output {index}: {result.dtype}{list(result.shape)}{target}")
            if out is not None:
                np.save(out / f"output{index}.npy", result)
        print(f"{seconds[0] * 1e3:.2f} ms to compile, {seconds[1] * 1e3:.3f} ms to run")


def execute(
    graph: Any, values: Sequence[np.ndarray], executor: str | None
) -> tuple[list[np.ndarray], tuple[float, float]]:
    """The outputs on the host, and the seconds of compiling and of the first run.

    Raises:
        ValueError, GraphError: there is no such executor, or it cannot run the graph.
    """
    from npu_common import runtime
    from npu_common.graph.executors import CompileOptions
    from npu_common.graph.executors import executor as find

    start = time.perf_counter()
    executable = find(executor).compile(graph, CompileOptions())
    compiled = time.perf_counter()
    arrays = [runtime.asarray(value) for value in values]
    for value in graph.outputs:
        _require_static(value, "output")
    results = [
        arrays[graph.aliases[i]] if i in graph.aliases else runtime.empty(value.shape, value.dtype)
        for i, value in enumerate(graph.outputs)
    ]
    stream = runtime.current_stream()
    stream.synchronize()
    began = time.perf_counter()
    executable.run(arrays, results, stream)
    stream.synchronize()
    ended = time.perf_counter()
    return [result.numpy() for result in results], (compiled - start, ended - began)


def _read(file: Path) -> Any:
    from npu_common.graph import from_model

    try:
        return from_model(file.read_bytes())
    except OSError as error:
        raise CommandError(f"{file} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise CommandError(f"{file}: {error}") from None


def _writers() -> dict[str, Callable[[Any], bytes]]:
    from npu_common.graph import netron, to_model
    from npu_common.graph.dot import dot
    from npu_common.graph.text import dump as text

    return {
        ".dot": lambda graph: (dot(graph) + "\n").encode(),
        ".onnx": netron.onnx_bytes,
        ".txt": lambda graph: (text(graph) + "\n").encode(),
        ".pb": to_model,
    }


def _values(graph: Any, given: Sequence[str], seed: int) -> list[np.ndarray]:
    """Every input's value in the graph's order: all from files, or all random."""
    names = [value.node.name for value in graph.inputs]
    loaded = dict(_loaded(each, names) for each in given)
    missing = [name for name in names if name not in loaded]
    if given and missing:
        raise CommandError(f"the input {missing[0]} is missing: give --input {missing[0]}=x.npy")
    if not given:
        random = np.random.default_rng(seed)
        return [_random(value, random) for value in graph.inputs]
    return [_fitted(value, loaded[value.node.name]) for value in graph.inputs]


def _loaded(text: str, names: Sequence[str]) -> tuple[str, np.ndarray]:
    name, equals, file = text.partition("=")
    if not equals:
        raise CommandError(f"--input {text} is not NAME=x.npy")
    if name not in names:
        raise CommandError(f"the graph has no input {name}; it has {', '.join(names) or 'none'}")
    try:
        return name, np.load(file, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise CommandError(f"--input {name}: {file} cannot be read as a .npy file ({error})") from None


def _require_static(value: Any, kind: str) -> None:
    if not value.is_static:
        raise CommandError(f"the {kind} {value!r} has no fixed shape, which `npu graph run` needs")


def _fitted(value: Any, array: np.ndarray) -> np.ndarray:
    _require_static(value, "input")
    if array.dtype.kind == "V" and array.dtype.itemsize == value.dtype.itemsize:
        array = array.view(value.dtype)  # NumPy's files have no name for bfloat16 and keep two raw bytes
    if array.dtype != value.dtype or array.shape != tuple(value.shape):
        raise CommandError(
            f"the input {value.node.name} is {value.type_text()}, and the file has {array.dtype}{list(array.shape)}"
        )
    return array


def _random(value: Any, random: np.random.Generator) -> np.ndarray:
    """Normal numbers; small non-negative ones for integers, which may be indices."""
    _require_static(value, "input")
    if np.issubdtype(value.dtype, np.integer) or value.dtype == np.bool_:
        return np.asarray(random.integers(0, 2, value.shape)).astype(value.dtype)
    return np.asarray(random.standard_normal(value.shape)).astype(value.dtype)

"""`python -m tests.conformance.jax PATH`: JAX's test files on npu, counted against cpu. See README.md."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import Progress

from tests.conformance.jax import runner, table

FILES = (
    "lax_test", "lax_numpy_test", "lax_numpy_indexing_test", "lax_numpy_reducers_test", "lax_control_flow_test",
    "lax_autodiff_test", "lax_vmap_test", "nn_test", "random_lax_test", "array_test", "api_test", "linalg_test",
    "fft_test", "export_test", "compilation_cache_test", "python_callback_test", "debugging_primitives_test",
    "dtypes_test",
)  # fmt: skip


def main(
    tests: Annotated[Path, typer.Argument(exists=True, file_okay=False, help="JAX's tests folder")],
    out: Annotated[Path, typer.Option(help="folder of the results; cpu's are kept and not run again")] = Path(
        "outputs/jax_tests"
    ),
    files: Annotated[str, typer.Option(help="names, with commas")] = ",".join(FILES),
    cases: Annotated[int, typer.Option(help="JAX_NUM_GENERATED_CASES")] = 10,
    workers: int = 2,
    patience: Annotated[float, typer.Option(help="seconds that one test may take")] = 300.0,
) -> None:
    """Runs the files on cpu and on npu, and prints the table."""
    out.mkdir(parents=True, exist_ok=True)
    names = files.split(",")
    with Progress(transient=True) as progress, ThreadPoolExecutor(workers) as pool:
        task = progress.add_task("files", total=2 * len(names))

        def one(file: str, platforms: str) -> dict[str, runner.Outcome]:
            kept = out / f"{file}.{platforms.split(',')[0]}.json"
            if platforms == "cpu" and kept.is_file():
                found = {name: runner.Outcome(**row) for name, row in json.loads(kept.read_text()).items()}
            else:
                only = (
                    None if platforms == "cpu" else [n for n, o in cpu[file].items() if o.outcome == "passed"]
                )
                found = runner.run_file(tests.resolve(), file, platforms, cases, patience, only)
                kept.write_text(json.dumps({name: asdict(o) for name, o in found.items()}, indent=0))
            progress.advance(task)
            return found

        cpu = dict(zip(names, pool.map(lambda f: one(f, "cpu"), names), strict=True))
        npu = dict(zip(names, pool.map(lambda f: one(f, "npu,cpu"), names), strict=True))
    text = table.markdown(cpu, npu, table.listed())
    (out / "table.md").write_text(text)
    print(text)


typer.run(main)

"""Compiles a StableHLO artefact to a Program: what libpjrt_npu.so calls, through the plugin."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from typing import Any

from npu_common import _cann
from npu_common.graph import Graph, GraphError, passes, to_model
from npu_common.graph.executors import chosen, run_afir
from npu_common.runtime import soc_name, version
from xla_npu import frontend, program
from xla_npu.devices import Devices
from xla_npu.errors import CompileError, Unsupported
from xla_npu.lowering import load_rules
from xla_npu.partition import partition
from xla_npu.partition.combine import combine_all_reduces
from xla_npu.partition.places import number_places
from xla_npu.plan import HostWork, Planner, describe
from xla_npu.types import by_pjrt

OPTION = "npu_compiler"
# What programs for any backend may set: how hard XLA tries, and its debug options, which are about its own passes.
_HINTS = (
    "exec_time_optimization_effort",
    "memory_fitting_effort",
    "optimization_level",
    "memory_fitting_level",
)
_XLA = "xla_"
_FLAGS = {"ge": None, "afir": run_afir.FLAGS}


def compile_program(artefact: bytes, options: bytes) -> bytes:
    """A serialised `Program` (program.py).

    Args:
        artefact: a portable StableHLO artifact, MLIR bytecode or text.
        options: a serialised xla.CompileOptionsProto; b"" for defaults.

    Raises:
        CompileError: in one sentence, with the code for PJRT.
    """
    settings = _settings(options)
    devices = settings.devices
    load_rules()
    module = frontend.parse(artefact)
    frontend.simplify(module)
    table = frontend.functions(module)
    if "main" not in table:
        raise CompileError("the program has no function 'main'")
    frontend.tokens_as_arrays(module)
    takes_place, shardings = False, None
    if devices.count > 1:
        frontend.inline_calls(module, lambda function: True)
        shardings = partition(module, devices)
        takes_place = number_places(module, devices)
        frontend.simplify(module)
        combine_all_reduces(module)
        table = frontend.functions(module)
    work = HostWork(table, devices.count)
    if work.in_function(table["main"]):
        frontend.inline_calls(module, work.in_function)
    made = program.messages()["Program"](
        format=program.FORMAT,
        name=_module_name(module),
        num_replicas=devices.replicas,
        num_partitions=devices.partitions,
        takes_place=takes_place,
        soc=soc_name(),
        cann_version=version(),
    )
    main = table["main"]
    block = main.regions[0].blocks[0]
    planner = Planner(made.name, table, work, _Build(settings.executor), devices)
    made.body.CopyFrom(planner.block(block))
    made.models.extend(planner.models)
    given, returned = frontend.memory_kinds(main)
    if takes_place:
        given.pop()
    own = list(block.arguments)[: len(given)]
    for argument, kind in zip(own, given, strict=True):
        describe(made.parameters.add(memory_kind=kind), argument.type)
    for result, kind in zip(main.type.results, returned, strict=True):
        describe(made.results.add(memory_kind=kind), result)
    _donate(made, main)
    if shardings is not None:
        made.parameter_shardings.extend(shardings.parameters)
        made.result_shardings.extend(shardings.results)
    if devices.groups:
        made.assignment.extend(devices.assignment)
    for name, groups in sorted(devices.groups.items()):
        made.groups.add(name=name, members=[{"places": group} for group in groups])
    made.optimized_program = str(module)
    made.fingerprint = hashlib.sha256(made.SerializeToString(deterministic=True)).hexdigest()
    return bytes(made.SerializeToString(deterministic=True))


class _Settings:
    """What the compile options say to us."""

    def __init__(self, executor: str, devices: Devices) -> None:
        self.executor = executor
        self.devices = devices


def _settings(options: bytes) -> _Settings:
    message = program.option_messages()["CompileOptions"].FromString(options)
    overrides: Mapping[str, Any] = message.env_option_overrides
    unknown = sorted(
        name for name in overrides if name not in (OPTION, *_HINTS) and not name.startswith(_XLA)
    )
    if unknown:
        raise CompileError(
            f"No such compile option: '{unknown[0]}'; npu has {OPTION}, and leaves XLA's own aside"
        )
    try:
        executor = chosen(overrides[OPTION].string_field if OPTION in overrides else None)
    except ValueError as error:
        raise CompileError(str(error)) from error
    if executor not in _FLAGS:
        raise Unsupported(f"JAX programs run on the executors {', '.join(_FLAGS)}, not on '{executor}'")
    build = message.executable_build_options
    replicas, partitions = max(build.num_replicas, 1), max(build.num_partitions, 1)
    columns = [list(column.replica_device_ids) for column in build.device_assignment.computation_devices]
    if columns and (len(columns) != partitions or any(len(column) != replicas for column in columns)):
        raise CompileError("the device assignment in the compile options has not one device for each place")
    # Where the options do not say, the plugin takes the first devices (LoadedExecutable).
    ids = [column[r] for r in range(replicas) for column in columns] or range(replicas * partitions)
    return _Settings(executor, Devices(replicas, partitions, tuple(ids)))


class _Build:
    """A graph to an offline model."""

    def __init__(self, executor: str) -> None:
        self._flags = _FLAGS[executor]

    def __call__(self, graph: Graph) -> bytes:
        passes.standard(chains=self._flags is not None).run(graph)
        try:
            return bytes(_cann.build_model(to_model(graph), graph.name, {}, self._flags))
        except (_cann.CannError, GraphError) as error:
            raise CompileError(f"the graph engine refuses the program: {error}") from error


def _module_name(module: Any) -> str:
    attributes = module.operation.attributes
    return str(attributes["sym_name"].value) if "sym_name" in attributes else "main"


def _donate(made: Any, main: Any) -> None:
    """Notes which parameters' memory may be taken over: named by JAX, or offered and of a result's size."""
    attributes = main.attributes["arg_attrs"] if "arg_attrs" in main.attributes else []  # noqa: SIM401 (no dict)
    offered = []
    taken = set()
    for parameter, each in enumerate(attributes):
        if "tf.aliasing_output" in each:
            result = int(each["tf.aliasing_output"].value)
            taken.add(result)
            made.aliases.add(result=result, parameter=parameter)
        elif "jax.buffer_donor" in each:
            offered.append(parameter)
    for parameter in offered:
        for result, tensor in enumerate(made.results):
            if result not in taken and _memory(tensor) == _memory(made.parameters[parameter]):
                taken.add(result)
                made.aliases.add(result=result, parameter=parameter)
                break


def _memory(tensor: Any) -> tuple[int, str]:
    """How many bytes, and where."""
    return math.prod(tensor.dims) * by_pjrt(tensor.type).numpy.itemsize, tensor.memory_kind

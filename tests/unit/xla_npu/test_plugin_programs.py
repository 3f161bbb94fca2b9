"""Programs run by libpjrt_npu.so: models, loops and branches around host calls, and programs that make no sense."""

from __future__ import annotations

import ctypes
import random

import numpy as np
import pytest

from tests.conformance.pjrt.plugin import INVALID_ARGUMENT
from tests.unit.xla_npu.pjrt_program import (
    F32,
    INTERNAL,
    PRED,
    S32,
    PjrtError,
    Program,
    add_model,
    add_program,
    buffer,
    call,
    device,
    host_calls,
    load,
    read,
    run,
    vector,
)

X = np.arange(4, dtype=np.float32)
Y = np.full(4, 0.5, np.float32)


def outcome(program, *arguments):
    executable = load(program.SerializeToString())
    try:
        return [read(handle) for handle in run(executable, arguments, len(program.results))]
    finally:
        call("PJRT_LoadedExecutable_Destroy", executable=executable)


def test_one_model():
    (result,) = outcome(add_program(), buffer(X), buffer(Y))
    np.testing.assert_array_equal(result, X + Y)


def returning(*parameters):
    """A program of two parameters that returns some of them and does nothing."""
    program = Program()
    for _ in range(2):
        vector(program.parameters)
        vector(program.body.slots)
    program.body.inputs.extend([0, 1])
    for parameter in parameters:
        vector(program.results)
        program.body.outputs.append(parameter)
    return program


def address(handle):
    return call("PJRT_Buffer_UnsafePointer", buffer=handle).buffer_pointer


def test_results_that_are_parameters_have_memory_of_their_own():
    executable = load(returning(0, 0, 1).SerializeToString())
    arguments = [buffer(X), buffer(Y)]
    results = run(executable, arguments, 3)
    for result, expected in zip(results, (X, X, Y), strict=True):
        np.testing.assert_array_equal(read(result), expected)
    assert len({address(handle) for handle in (*arguments, *results)}) == 5


def test_a_result_may_have_the_memory_of_a_donated_parameter():
    program = returning(0, 0, 1)
    program.aliases.add(result=0, parameter=0)
    given, kept = buffer(X), buffer(Y)
    memory = address(given)
    results = run(load(program.SerializeToString()), [given, kept], 3)
    assert address(results[0]) == memory
    assert len({address(handle) for handle in (kept, *results)}) == 4
    for result, expected in zip(results, (X, X, Y), strict=True):
        np.testing.assert_array_equal(read(result), expected)


def kind(handle):
    memory = call("PJRT_Buffer_Memory", buffer=handle).memory
    answer = call("PJRT_Memory_Kind", memory=memory)
    return ctypes.string_at(answer.kind, answer.kind_size).decode()


@pytest.mark.parametrize("given", ["device", "pinned_host"])
@pytest.mark.parametrize("wanted", ["device", "pinned_host"])
def test_arguments_and_results_in_pinned_memory(given, wanted):
    program = add_program()
    program.parameters[0].memory_kind, program.results[0].memory_kind = given, wanted
    executable = load(program.SerializeToString())
    memories = call("PJRT_Device_AddressableMemories", device=device())
    pinned = ctypes.cast(memories.memories, ctypes.POINTER(ctypes.c_void_p))[1]
    argument = buffer(X)
    if given == "pinned_host":
        argument = call("PJRT_Buffer_CopyToMemory", buffer=argument, dst_memory=pinned).dst_buffer
    assert kind(argument) == given
    (result,) = run(executable, [argument, buffer(Y)], 1)
    assert kind(result) == wanted
    np.testing.assert_array_equal(read(result), X + Y)


def host_program():
    """f(x) of one f32[4], where f is what the host does."""
    program = Program()
    vector(program.parameters)
    vector(program.results)
    for _ in range(2):
        vector(program.body.slots)
    program.body.inputs.append(0)
    program.body.outputs.append(1)
    step = program.body.steps.add(location="model.py:7")
    step.host.target, step.host.api = "double", "python"
    step.host.inputs.append(0)
    step.host.outputs.append(1)
    return program


def test_host_call():
    def double(target, inputs, outputs):
        assert target == "double"
        outputs[0][...] = 2 * inputs[0]

    with host_calls(double):
        (result,) = outcome(host_program(), buffer(X))
    np.testing.assert_array_equal(result, 2 * X)


def test_error_of_a_host_call_comes_with_its_place_and_goes_on_to_what_depends_on_it():
    def fails(*_):
        raise ValueError("the spring is broken")

    hosted, adds = load(host_program().SerializeToString()), load(add_program().SerializeToString())
    with host_calls(fails):
        (broken,) = run(hosted, [buffer(X)], 1)
        (dependent,) = run(adds, [broken, buffer(Y)], 1)
        for handle in (broken, dependent):
            with pytest.raises(PjrtError, match=r"the spring is broken \[model.py:7\]") as error:
                read(handle)
            assert error.value.code == INTERNAL
    np.testing.assert_array_equal(read(run(adds, [buffer(X), buffer(Y)], 1)[0]), X + Y)


def test_runs_that_follow_a_host_call_keep_their_order():
    def slowly(_target, inputs, outputs):
        import time

        time.sleep(0.05)
        outputs[0][...] = 2 * inputs[0]

    hosted, adds = load(host_program().SerializeToString()), load(add_program().SerializeToString())
    with host_calls(slowly):
        value = buffer(X)
        for _ in range(4):
            (doubled,) = run(hosted, [value], 1)
            (value,) = run(adds, [doubled, buffer(Y)], 1)
        result = read(value)
    expected = X
    for _ in range(4):
        expected = 2 * expected + Y
    np.testing.assert_array_equal(result, expected)


def loop_program():
    """Adds y to x on the device while the host says so."""
    program = Program()
    for tensors in (program.parameters, program.results, program.body.slots):
        vector(tensors)
        vector(tensors)
    for _ in range(2):
        vector(program.body.slots)
    program.body.inputs.extend([0, 1])
    program.body.outputs.extend([2, 3])
    loop = program.body.steps.add().loop
    loop.inputs.extend([0, 1])
    loop.outputs.extend([2, 3])
    for block in (loop.condition, loop.body):
        vector(block.slots)
        vector(block.slots)
        block.inputs.extend([0, 1])
    loop.condition.slots.add(type=PRED)
    loop.condition.outputs.append(2)
    asks = loop.condition.steps.add().host
    asks.target, asks.api = "go on", "python"
    asks.inputs.append(0)
    asks.outputs.append(2)
    vector(loop.body.slots)
    loop.body.outputs.extend([2, 1])
    adds = loop.body.steps.add().run
    adds.inputs.extend([0, 1])
    adds.outputs.append(2)
    program.models.append(add_model())
    return program


def test_loop_around_a_host_call():
    def go_on(_target, inputs, outputs):
        outputs[0][...] = inputs[0][0] < 3

    with host_calls(go_on):
        total, same = outcome(loop_program(), buffer(X), buffer(Y))
    np.testing.assert_array_equal(total, X + 6 * Y)
    np.testing.assert_array_equal(same, Y)


@pytest.mark.parametrize(
    "type_, index, chosen",
    [(S32, 0, 0), (S32, 2, 2), (S32, -1, 2), (S32, 7, 2), (PRED, False, 0), (PRED, True, 1)],
)
def test_case_takes_the_last_branch_for_an_index_out_of_range(type_, index, chosen):
    program = Program()
    for tensors in (program.parameters, program.body.slots):
        tensors.add(type=type_)
        vector(tensors)
    vector(program.body.slots)
    vector(program.results)
    program.body.inputs.extend([0, 1])
    program.body.outputs.append(2)
    branch = program.body.steps.add().branch
    branch.index = 0
    branch.inputs.append(1)
    branch.outputs.append(2)
    for name in ("a", "b", "c"):
        block = branch.branches.add()
        vector(block.slots)
        vector(block.slots)
        block.inputs.append(0)
        block.outputs.append(1)
        step = block.steps.add().host
        step.target, step.api = name, "python"
        step.inputs.append(0)
        step.outputs.append(1)
    seen = []
    with host_calls(lambda target, _inputs, _outputs: seen.append(target)):
        outcome(program, buffer(np.asarray(index, np.int32 if type_ == S32 else np.bool_), type_), buffer(X))
    assert seen == ["abc"[chosen]]


def test_donated_buffers_are_gone_and_those_that_are_kept_are_not():
    program = add_program()
    program.aliases.add(result=0, parameter=0)
    executable = load(program.SerializeToString())
    given, kept = buffer(X), buffer(Y)
    (result,) = run(executable, [given, kept], 1)
    assert call("PJRT_Buffer_IsDeleted", buffer=given).is_deleted
    assert not call("PJRT_Buffer_IsDeleted", buffer=kept).is_deleted
    np.testing.assert_array_equal(read(result), X + Y)
    with pytest.raises(PjrtError, match="deleted or donated"):
        run(executable, [given, kept], 1)
    with pytest.raises(PjrtError, match="same buffer twice"):
        run(executable, [kept, kept], 1)
    assert not call("PJRT_Buffer_IsDeleted", buffer=kept).is_deleted
    held = buffer(X)
    call("PJRT_Buffer_IncreaseExternalReferenceCount", buffer=held)
    with pytest.raises(PjrtError, match="somebody outside refers to it"):
        run(executable, [held, kept], 1)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (lambda: [buffer(X)], "takes 2 arguments, 1 were given"),
        (lambda: [buffer(X), buffer(np.zeros(3, np.float32))], r"argument 1 is f32\[3\].*takes f32\[4\]"),
        (lambda: [buffer(X), buffer(np.zeros(4, np.int32), S32)], r"argument 1 is s32\[4\]"),
        (lambda: [buffer(X), 0], "argument 1 is no buffer"),
    ],
)
def test_arguments_that_do_not_fit(arguments, message):
    executable = load(add_program().SerializeToString())
    with pytest.raises(PjrtError, match=message) as error:
        run(executable, arguments(), 1)
    assert error.value.code == INVALID_ARGUMENT


def nested_too_deeply(program):
    block = program.body
    for _ in range(80):
        block = block.steps.add().loop.body


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda p: setattr(p, "format", 2), "another format"),
        (lambda p: setattr(p, "num_partitions", 1000), "1000 devices"),
        (lambda p: p.ClearField("body"), "no body"),
        (lambda p: p.ClearField("models"), "runs model 0 of 0"),
        (lambda p: setattr(p.body.steps[0].run, "model", 5), "runs model 5 of 1"),
        (lambda p: p.body.steps[0].run.inputs.append(9), "slot 9 of 3"),
        (lambda p: p.body.steps[0].run.outputs.append(0), "writes slot 0 again"),
        (lambda p: p.body.steps[0].run.inputs.append(2), "slot 2 is read before it is written"),
        (lambda p: p.body.steps[0].ClearField("run"), "a kind that this plugin does not know"),
        (lambda p: p.parameters.pop(), "declares 1 parameters"),
        (lambda p: setattr(p.results[0], "type", F32 + 1), "result 0 is another one"),
        (lambda p: setattr(p.parameters[0], "type", 99), "unknown element type 99"),
        (lambda p: setattr(p.parameters[0], "memory_kind", "moon"), 'memory of the kind "moon"'),
        (lambda p: p.body.slots[2].dims.append(-4), "impossible"),
        (lambda p: p.body.slots[2].dims.extend([2**62, 2**62]), "more bytes"),
        (lambda p: p.aliases.add(result=1, parameter=0), "does not have"),
        (lambda p: p.costs.add(name="flops", value="many"), "no number"),
        (lambda p: p.body.steps[0].run.inputs.pop(), "inputs of model 0 .* 2, the program has 1"),
        (lambda p: p.models.__setitem__(0, b"no model"), "model"),
        (lambda p: setattr(p, "soc", "Ascend310"), "compiled for Ascend310"),
        (lambda p: setattr(p, "cann_version", "1.2"), "compiled for CANN 1.2"),
        (nested_too_deeply, "nested too deeply"),
    ],
)
def test_programs_that_make_no_sense_are_refused(change, message):
    program = add_program()
    change(program)
    with pytest.raises(PjrtError, match=message):
        load(program.SerializeToString())


def test_shapes_other_than_the_models_are_refused():
    program = add_program()
    for tensor in (*program.parameters, *program.results, *program.body.slots):
        tensor.dims[0] = 5
    with pytest.raises(PjrtError, match=r"has 16 bytes, the program has f32\[5\]"):
        load(program.SerializeToString())


def test_damaged_bytes_never_crash():
    """Cut off anywhere, or with bytes changed: an error, or a program that runs or says why not."""
    good = add_program().SerializeToString()
    rng = random.Random(0)
    damaged = [good[:length] for length in range(0, len(good), max(1, len(good) // 60))]
    for _ in range(300):
        wrong = bytearray(good)
        for _ in range(rng.randint(1, 4)):
            wrong[rng.randrange(min(len(wrong), 200))] = rng.randrange(256)
        damaged.append(bytes(wrong))
    damaged += [rng.randbytes(100) for _ in range(50)]
    x, y, refused = buffer(X), buffer(Y), 0
    for each in damaged:
        try:
            executable = load(each)
        except PjrtError:
            refused += 1
            continue
        try:
            results = call(
                "PJRT_Executable_NumOutputs",
                executable=call(
                    "PJRT_LoadedExecutable_GetExecutable", loaded_executable=executable
                ).executable,
            ).num_outputs
            for handle in run(executable, [x, y], results):
                read(handle)
        except PjrtError:
            pass
        call("PJRT_LoadedExecutable_Destroy", executable=executable)
    assert refused > len(damaged) // 2


def test_serialised_executables_keep_their_options_and_run():
    executable = load(add_program().SerializeToString())
    plain = call("PJRT_LoadedExecutable_GetExecutable", loaded_executable=executable).executable
    bytes_ = call("PJRT_Executable_Serialize", executable=plain)
    again = load(ctypes.string_at(bytes_.serialized_bytes, bytes_.serialized_bytes_size))
    np.testing.assert_array_equal(read(run(again, [buffer(X), buffer(Y)], 1)[0]), X + Y)
    call("PJRT_Executable_Destroy", executable=plain)
    call("PJRT_LoadedExecutable_Delete", executable=again)
    with pytest.raises(PjrtError, match="has been deleted"):
        run(again, [buffer(X), buffer(Y)], 1)

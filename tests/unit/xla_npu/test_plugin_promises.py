"""Events, and buffers that come later: from transfers in pieces, aliases, dependencies, errors."""

from __future__ import annotations

import ctypes
import threading
from itertools import pairwise

import numpy as np
import pytest
from pypjrt._abi import pjrt_0_114 as abi

from tests.unit.xla_npu.pjrt_program import (
    F32,
    INTERNAL,
    PjrtError,
    add_program,
    buffer,
    call,
    client,
    device,
    load,
    read,
    run,
)

X = np.arange(4, dtype=np.float32)
Y = np.full(4, 0.5, np.float32)
DIMS = (ctypes.c_int64 * 1)(4)
SHAPE = {"shape_dims": ctypes.addressof(DIMS), "shape_num_dims": 1, "shape_element_type": F32}
OnReady = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)


def memory() -> int:
    return int(call("PJRT_Device_DefaultMemory", device=device()).memory)


def added_to(handle: int) -> int:
    """What a program makes of the buffer: its contents and Y."""
    return run(load(add_program().SerializeToString()), [handle, buffer(Y)], 1)[0]


def tell(callback: int, struct: type, **fields: object) -> None:
    """Calls back what a function of the API gave for that."""
    args = struct(struct_size=ctypes.sizeof(struct))
    for name, value in fields.items():
        setattr(args, name, value)
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(callback)(ctypes.addressof(args))


def test_event_of_the_caller():
    event = call("PJRT_Event_Create").event
    seen = []
    callback = OnReady(lambda error, _: seen.append(error))
    assert not call("PJRT_Event_IsReady", event=event).is_ready
    with pytest.raises(PjrtError, match="not ready"):
        call("PJRT_Event_Error", event=event)
    call("PJRT_Event_OnReady", event=event, callback=ctypes.cast(callback, ctypes.c_void_p).value)
    assert not seen
    threading.Timer(0.05, lambda: call("PJRT_Event_Set", event=event)).start()
    call("PJRT_Event_Await", event=event)
    call("PJRT_Event_Error", event=event)
    call("PJRT_Event_OnReady", event=event, callback=ctypes.cast(callback, ctypes.c_void_p).value)
    while len(seen) < 2:
        threading.Event().wait(0.01)
    assert seen == [None, None]
    call("PJRT_Event_Destroy", event=event)


def test_event_with_an_error():
    event = call("PJRT_Event_Create").event
    text = ctypes.create_string_buffer(b"lost")
    call(
        "PJRT_Event_Set",
        event=event,
        error_code=INTERNAL,
        error_message=ctypes.addressof(text),
        error_message_size=4,
    )
    with pytest.raises(PjrtError, match="lost") as error:
        call("PJRT_Event_Await", event=event)
    assert error.value.code == INTERNAL


def transfer(count: int = 1) -> int:
    specs = (abi.PJRT_ShapeSpec * count)()
    for spec in specs:
        spec.struct_size = ctypes.sizeof(spec)
        spec.dims, spec.num_dims, spec.element_type = ctypes.addressof(DIMS), 1, F32
    made = call(
        "PJRT_Client_CreateBuffersForAsyncHostToDevice",
        client=client(),
        shape_specs=ctypes.addressof(specs),
        num_shape_specs=count,
        memory=memory(),
    )
    return int(made.transfer_manager)


def put(manager: int, index: int, array: np.ndarray, offset: int, last: bool) -> None:
    made = call(
        "PJRT_AsyncHostToDeviceTransferManager_TransferData",
        transfer_manager=manager,
        buffer_index=index,
        data=array.ctypes.data,
        offset=offset,
        transfer_size=array.nbytes,
        is_last_transfer=last,
    )
    call("PJRT_Event_Destroy", event=made.done_with_h2d_transfer)


def retrieved(manager: int, index: int = 0) -> int:
    made = call(
        "PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer", transfer_manager=manager, buffer_index=index
    )
    return int(made.buffer_out)


def test_a_program_waits_for_a_transfer_in_pieces():
    manager = transfer()
    result = added_to(retrieved(manager))
    ready = call("PJRT_Buffer_ReadyEvent", buffer=result).event
    put(manager, 0, X[:2], 0, False)
    assert not call("PJRT_Event_IsReady", event=ready).is_ready
    put(manager, 0, X[2:], 8, True)
    np.testing.assert_array_equal(read(result), X + Y)
    with pytest.raises(PjrtError, match="is complete"):
        put(manager, 0, X, 0, True)
    call("PJRT_AsyncHostToDeviceTransferManager_Destroy", transfer_manager=manager)


def test_a_transfer_that_fails_or_is_given_up():
    manager = transfer(2)
    failed, dropped = retrieved(manager), retrieved(manager, 1)
    text = ctypes.create_string_buffer(b"no more bytes")
    call(
        "PJRT_AsyncHostToDeviceTransferManager_SetBufferError",
        transfer_manager=manager,
        buffer_index=0,
        error_code=INTERNAL,
        error_message=ctypes.addressof(text),
        error_message_size=13,
    )
    with pytest.raises(PjrtError, match="no more bytes"):
        read(added_to(failed))
    for index, offset, message in ((0, 12, "not within"), (7, 0, "no buffer 7")):
        with pytest.raises(PjrtError, match=message):
            put(manager, index, X, offset, True)
    call("PJRT_AsyncHostToDeviceTransferManager_Destroy", transfer_manager=manager)
    with pytest.raises(PjrtError, match="given up before its end"):
        read(dropped)


def test_an_alias_is_fulfilled_later():
    made = call("PJRT_Client_CreateAliasBuffer", client=client(), memory=memory(), **SHAPE)
    result = added_to(made.alias_buffer)
    call(
        "PJRT_Client_FulfillAliasBuffer",
        client=client(),
        buffer=buffer(X),
        fulfill_alias_buffer_cb=made.fulfill_alias_buffer_cb,
    )
    np.testing.assert_array_equal(read(result), X + Y)


def test_an_alias_of_another_shape():
    made = call("PJRT_Client_CreateAliasBuffer", client=client(), memory=memory(), **SHAPE)
    with pytest.raises(PjrtError, match=r"f32\[4\] was fulfilled with f32\[2\]"):
        call(
            "PJRT_Client_FulfillAliasBuffer",
            client=client(),
            buffer=buffer(X[:2]),
            fulfill_alias_buffer_cb=made.fulfill_alias_buffer_cb,
        )
    with pytest.raises(PjrtError, match="was fulfilled with"):
        read(made.alias_buffer)


def test_donated_with_a_dependency():
    given = buffer(X)
    made = call("PJRT_Buffer_DonateWithControlDependency", buffer=given)
    assert call("PJRT_Buffer_IsDeleted", buffer=given).is_deleted
    result = added_to(made.out_buffer)
    tell(
        made.dependency_ready_callback,
        abi.PJRT_Buffer_DonateWithControlDependency_Callback_Args,
        callback_data=made.callback_data,
    )
    np.testing.assert_array_equal(read(result), X + Y)


def test_a_copy_to_a_place_that_is_told_later():
    made = call("PJRT_Buffer_CopyRawToHostFuture", buffer=buffer(X), offset=4, transfer_size=8)
    target = np.zeros(2, np.float32)
    tell(
        made.future_ready_callback,
        abi.PJRT_Buffer_CopyRawToHostFuture_Callback_Args,
        callback_data=made.callback_data,
        dst=target.ctypes.data,
    )
    call("PJRT_Event_Await", event=made.event)
    np.testing.assert_array_equal(target, X[1:3])


def test_a_buffer_of_an_error():
    text = ctypes.create_string_buffer(b"it was never made")
    made = call(
        "PJRT_Client_CreateErrorBuffer",
        client=client(),
        memory=memory(),
        error_code=INTERNAL,
        error_message=ctypes.addressof(text),
        error_message_size=17,
        **SHAPE,
    )
    with pytest.raises(PjrtError, match="it was never made"):
        read(added_to(made.buffer))


def test_views_tell_their_owner():
    owner = buffer(X)
    address = call("PJRT_Buffer_UnsafePointer", buffer=owner).buffer_pointer
    released = []
    on_delete = OnReady(lambda pointer, _: released.append(pointer))
    view = call(
        "PJRT_Client_CreateViewOfDeviceBuffer",
        client=client(),
        device_buffer_ptr=address,
        dims=ctypes.addressof(DIMS),
        num_dims=1,
        element_type=F32,
        device=device(),
        on_delete_callback=ctypes.cast(on_delete, ctypes.c_void_p).value,
    ).buffer
    np.testing.assert_array_equal(read(added_to(view)), X + Y)
    call("PJRT_Buffer_Destroy", buffer=view)
    assert released == [address]
    np.testing.assert_array_equal(read(owner), X)


def test_read_as_another_type():
    dims = (ctypes.c_int64 * 2)(4, 4)
    made = call(
        "PJRT_Buffer_Bitcast", buffer=buffer(X), element_type=6, dims=ctypes.addressof(dims), num_dims=2
    )
    np.testing.assert_array_equal(read(made.out_buffer), X.view(np.uint8).reshape(4, 4))
    with pytest.raises(PjrtError, match="cannot be read as"):
        call(
            "PJRT_Buffer_Bitcast", buffer=buffer(X), element_type=12, dims=ctypes.addressof(DIMS), num_dims=1
        )


def test_replicas_run_on_their_devices():
    program = add_program()
    program.num_replicas = 2
    executable = load(program.SerializeToString())
    ids = (abi.PJRT_LogicalDeviceIds * 2)()
    made = call(
        "PJRT_LoadedExecutable_AddressableDeviceLogicalIds",
        executable=executable,
        addressable_device_logical_ids=ctypes.addressof(ids),
    )
    assert made.num_addressable_device_logical_ids == 2
    assert [(i.replica, i.partition) for i in ids] == [(0, 0), (1, 0)]
    assignment = call("PJRT_LoadedExecutable_GetDeviceAssignment", executable=executable)
    text = ctypes.string_at(assignment.serialized_bytes, assignment.serialized_bytes_size)
    assert text == bytes([8, 2, 16, 1, 26, 4, 10, 2, 0, 1])  # replicas, computations, devices {0, 1}

    second = call("PJRT_Buffer_CopyToDevice", buffer=buffer(X), dst_device=device(1)).dst_buffer
    other = call("PJRT_Buffer_CopyToDevice", buffer=buffer(2 * Y), dst_device=device(1)).dst_buffer
    rows = [(ctypes.c_void_p * 2)(*row) for row in ((buffer(X), buffer(Y)), (second, other))]
    results = [(ctypes.c_void_p * 1)() for _ in rows]
    given, made_lists = (ctypes.c_void_p * 2)(*map(ctypes.addressof, rows)), (ctypes.c_void_p * 2)()
    for index, row in enumerate(results):
        made_lists[index] = ctypes.addressof(row)
    events = (ctypes.c_void_p * 2)()
    options = abi.PJRT_ExecuteOptions(struct_size=ctypes.sizeof(abi.PJRT_ExecuteOptions))
    call(
        "PJRT_LoadedExecutable_Execute",
        executable=executable,
        options=ctypes.addressof(options),
        argument_lists=ctypes.addressof(given),
        num_devices=2,
        num_args=2,
        output_lists=ctypes.addressof(made_lists),
        device_complete_events=ctypes.addressof(events),
    )
    for event in events:
        call("PJRT_Event_Await", event=event)
    np.testing.assert_array_equal(read(results[0][0]), X + Y)
    np.testing.assert_array_equal(read(results[1][0]), X + 2 * Y)


def extension(type_: int, struct: type):
    from tests.conformance.pjrt.plugin import table

    address = table().extension_start
    while address:
        base = abi.PJRT_Extension_Base.from_address(address)
        if base.type == type_:
            return struct.from_address(address)
        address = base.next
    raise AssertionError(f"no extension {type_}")


def test_raw_buffers_are_written_in_place():
    raw = extension(8, abi.PJRT_RawBuffer_Extension)

    def ask(name: str, **fields: object):
        struct = getattr(abi, f"{name}_Args")
        args = struct(struct_size=ctypes.sizeof(struct))
        for field, value in fields.items():
            setattr(args, field, value)
        assert not ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(getattr(raw, name))(
            ctypes.addressof(args)
        )
        return args

    target = buffer(X)
    handle = ask("PJRT_RawBuffer_CreateRawAliasOfBuffer", buffer=target).raw_buffer
    assert ask("PJRT_RawBuffer_GetOnDeviceSizeInBytes", buffer=handle).on_device_size_in_bytes == X.nbytes
    new = np.array([7, 8], np.float32)
    event = ask(
        "PJRT_RawBuffer_CopyRawHostToDevice", buffer=handle, src=new.ctypes.data, offset=4, transfer_size=8
    ).event
    call("PJRT_Event_Await", event=event)
    np.testing.assert_array_equal(read(target), [0, 7, 8, 3])
    ask("PJRT_RawBuffer_Destroy", buffer=handle)


def test_extensions_are_listed_once():
    from tests.conformance.pjrt.plugin import table

    types, address = [], table().extension_start
    while address:
        base = abi.PJRT_Extension_Base.from_address(address)
        types.append(base.type)
        address = base.next
    assert all(a != b for a, b in pairwise(sorted(types)))

"""A client of several processes: they find each other's devices through the caller's key-value store."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from typing import ClassVar

import pytest
from pypjrt._abi import pjrt_0_114 as abi

from npu_common.runtime import soc_name
from tests.conformance.pjrt.plugin import PjrtError, call

DEADLINE_EXCEEDED = 4
Callback = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
MakeError = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t)


class Store:
    """The store of a process: what it put, and what the others are said to have put."""

    kept: ClassVar[list[object]] = []  # texts that the plugin was handed

    def __init__(self, others: dict[str, str]) -> None:
        self.values = dict(others)
        self.put, self.get = Callback(self._put), Callback(self._get)

    def _put(self, address: int) -> int | None:
        args = abi.PJRT_KeyValuePutCallback_Args.from_address(address)
        value = ctypes.string_at(args.value, args.value_size).decode()
        self.values[ctypes.string_at(args.key, args.key_size).decode()] = value
        return None

    def _get(self, address: int) -> int | None:
        args = abi.PJRT_KeyValueGetCallback_Args.from_address(address)
        key = ctypes.string_at(args.key, args.key_size).decode()
        if key not in self.values:
            text = f"nobody wrote {key}".encode()
            make = ctypes.cast(args.callback_error, ctypes.POINTER(MakeError))[0]
            return int(make(DEADLINE_EXCEEDED, text, len(text)))
        text = ctypes.create_string_buffer(self.values[key].encode())
        self.kept.append(text)
        args.value, args.value_size = ctypes.addressof(text), len(text.value)
        return None


def options(**values: int):
    made = (abi.PJRT_NamedValue * len(values))()
    for row, (name, value) in zip(made, values.items(), strict=True):
        text = ctypes.create_string_buffer(name.encode())
        Store.kept.append(text)
        row.struct_size = ctypes.sizeof(row)
        row.name, row.name_size = ctypes.addressof(text), len(name)
        row.type, row.value_size = 1, 1
        getattr(row, abi.PJRT_NamedValue._fields_[5][0]).int64_value = value
    return made


def create(store: Store, **values: int) -> int:
    rows = options(**values)
    made = call(
        "PJRT_Client_Create",
        create_options=ctypes.addressof(rows),
        num_options=len(rows),
        kv_get_callback=ctypes.cast(store.get, ctypes.c_void_p).value,
        kv_put_callback=ctypes.cast(store.put, ctypes.c_void_p).value,
    )
    return int(made.client)


def test_devices_are_numbered_over_all_processes():
    store = Store({"npu_pjrt/devices/0": "3 Ascend910B2", "npu_pjrt/devices/2": "2 Ascend910B2"})
    client = create(store, node_id=1, num_nodes=3)
    own = call("PJRT_Client_AddressableDevices", client=client).num_addressable_devices
    assert store.values["npu_pjrt/devices/1"] == f"{own} {soc_name()}"
    assert call("PJRT_Client_ProcessIndex", client=client).process_index == 1
    assert call("PJRT_Client_Devices", client=client).num_devices == 3 + own + 2
    processes = []
    for number in range(3 + own + 2):
        device = call("PJRT_Client_LookupDevice", client=client, id=number).device
        description = call("PJRT_Device_GetDescription", device=device).device_description
        processes.append(
            call("PJRT_DeviceDescription_ProcessIndex", device_description=description).process_index
        )
        assert call("PJRT_Device_IsAddressable", device=device).is_addressable == (processes[-1] == 1)
    assert processes == [0] * 3 + [1] * own + [2] * 2
    foreign = call("PJRT_Client_LookupDevice", client=client, id=0).device
    with pytest.raises(PjrtError, match="belongs to process 0"):
        call("PJRT_Device_MemoryStats", device=foreign)
    call("PJRT_Client_Destroy", client=client)


def test_a_process_that_never_comes():
    with pytest.raises(PjrtError, match="nobody wrote npu_pjrt/devices/0") as error:
        create(Store({}), node_id=1, num_nodes=2)
    assert error.value.code == DEADLINE_EXCEEDED


@pytest.mark.parametrize("values", [{"node_id": 2, "num_nodes": 2}, {"node_id": 0, "num_nodes": 0}])
def test_impossible_numbers(values):
    with pytest.raises(PjrtError, match="impossible"):
        create(Store({}), **values)


def test_several_processes_need_a_store():
    rows = options(node_id=0, num_nodes=2)
    with pytest.raises(PjrtError, match="needs a key-value store"):
        call("PJRT_Client_Create", create_options=ctypes.addressof(rows), num_options=len(rows))


def test_a_host_call_that_is_under_way_does_not_hold_up_the_end():
    """The client is destroyed with Python's lock held, which the host call waits for."""
    script = """
import ctypes, threading, time
import numpy as np
from tests.conformance.pjrt import plugin as c
from tests.unit.xla_npu import pjrt_program as p
from tests.unit.xla_npu.test_plugin_programs import host_program

started = threading.Event()
def slow(*_):
    started.set()
    time.sleep(30)

with p.host_calls(slow):
    executable = p.load(host_program().SerializeToString())
    p.run(executable, [p.buffer(np.zeros(4, np.float32))], 1)
    started.wait()
    args = c.arguments("PJRT_Client_Destroy", client=p.client())
    destroy = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(c.table().PJRT_Client_Destroy)
    assert not destroy(ctypes.addressof(args))
    print("destroyed", flush=True)
import os
os._exit(0)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=25, check=False
    )
    assert done.stdout.strip() == "destroyed", done.stderr[-2000:]

"""Memory: accounting, copies of every kind, virtual memory, memory shared between processes."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_int32, c_size_t, c_uint32, c_uint64, c_void_p

import pytest

from .conftest import D2D, D2H, H2D, Acl, AclError, Gate, MiB, Python

OUT_OF_MEMORY = 207001  # ACL_ERROR_RT_MEMORY_ALLOCATION


class PhysicalProperties(ctypes.Structure):
    """aclrtPhysicalMemProp"""

    _fields_ = [
        ("handle_type", c_uint32),
        ("allocation_type", c_uint32),
        ("attribute", c_uint32),
        ("location_id", c_uint32),
        ("location_type", c_uint32),
        ("reserve", c_uint64),
    ]


class PointerAttributes(ctypes.Structure):
    """aclrtPtrAttributes"""

    _fields_ = [("id", c_uint32), ("type", c_uint32), ("page_size", c_uint32), ("reserved", c_uint32 * 4)]


class BatchAttribute(ctypes.Structure):
    """aclrtMemcpyBatchAttr"""

    _fields_ = [
        ("to_id", c_uint32),
        ("to_type", c_uint32),
        ("from_id", c_uint32),
        ("from_type", c_uint32),
        ("reserved", ctypes.c_uint8 * 16),
    ]


def physical(acl: Acl, size: int) -> c_void_p:
    handle = c_void_p()
    properties = PhysicalProperties(attribute=4, location_type=1)
    acl.call("aclrtMallocPhysical", byref(handle), c_size_t(size), byref(properties), c_uint64(0))
    return handle


def reserve(acl: Acl, size: int) -> c_void_p:
    address = c_void_p()
    acl.call("aclrtReserveMemAddress", byref(address), c_size_t(size), c_size_t(0), None, c_uint64(1))
    return address


@pytest.mark.parametrize("size", [1, 4096, 4097, 3 * MiB, 20 * MiB + 32])
def test_what_is_taken_is_what_was_asked_for_in_whole_pages(acl: Acl, size: int) -> None:
    before = acl.free_bytes()
    address = acl.malloc(size)
    assert before - acl.free_bytes() == -(-size // 4096) * 4096
    acl.call("aclrtFree", address)
    assert acl.free_bytes() == before


def test_out_of_memory_has_canns_code_and_its_figures(acl: Acl) -> None:
    free = acl.free_bytes()
    with pytest.raises(AclError, match=r"EL0004.*NPU_EMULATOR_HBM_GB") as caught:
        acl.malloc(free + 4096)
    assert caught.value.code == OUT_OF_MEMORY
    assert f"{free} are free" in caught.value.sentence
    assert acl.free_bytes() == free
    with pytest.raises(AclError, match="size is 0"):
        acl.malloc(0)
    with pytest.raises(AclError):
        acl.malloc(2**64 - 1)


def test_memory_freed_while_work_uses_it_stays_until_that_work_is_done(acl: Acl, gate: Gate) -> None:
    stream, source, target = acl.stream(), acl.upload(b"y" * 8 * MiB), acl.malloc(8 * MiB)
    gate.hold(stream)
    acl.call("aclrtMemcpyAsync", target, c_size_t(8 * MiB), source, c_size_t(8 * MiB), D2D, stream)
    acl.call("aclrtFree", source)
    gate.open()
    acl.call("aclrtSynchronizeStream", stream)
    assert acl.download(target, 8 * MiB) == b"y" * 8 * MiB


def test_pageable_memory_may_be_reused_as_soon_as_an_asynchronous_copy_returns(acl: Acl, gate: Gate) -> None:
    stream, target = acl.stream(), acl.malloc(64)
    gate.hold(stream)
    host = ctypes.create_string_buffer(b"a" * 64, 64)
    acl.call("aclrtMemcpyAsync", target, c_size_t(64), host, c_size_t(64), H2D, stream)
    ctypes.memset(host, ord("b"), 64)
    gate.open()
    acl.call("aclrtSynchronizeStream", stream)
    assert acl.download(target, 64) == b"a" * 64
    acl.call("aclrtMemcpyAsync", host, c_size_t(64), target, c_size_t(64), D2H, stream)
    assert host.raw == b"a" * 64  # complete on return


def test_pinned_memory_is_read_when_its_turn_comes(acl: Acl, gate: Gate) -> None:
    stream, target, host = acl.stream(), acl.malloc(64), c_void_p()
    acl.call("aclrtMallocHost", byref(host), c_size_t(64))
    ctypes.memset(host, ord("a"), 64)
    gate.hold(stream)
    acl.call("aclrtMemcpyAsync", target, c_size_t(64), host, c_size_t(64), H2D, stream)
    ctypes.memset(host, ord("b"), 64)
    gate.open()
    acl.call("aclrtSynchronizeStream", stream)
    assert acl.download(target, 64) == b"b" * 64
    acl.call("aclrtFreeHost", host)


def test_rows_are_copied_by_their_pitch(acl: Acl) -> None:
    source, target = acl.upload(bytes(range(24))), acl.upload(bytes(32))
    acl.call(
        "aclrtMemcpy2d", target, c_size_t(8), source, c_size_t(6), c_size_t(5), c_size_t(4), D2D
    )  # rows of 5, 6 apart, to 8 apart
    expected = b"".join(bytes(range(row * 6, row * 6 + 5)) + bytes(3) for row in range(4))
    assert acl.download(target, 32) == expected
    with pytest.raises(AclError, match="pitch"):
        acl.call("aclrtMemcpy2d", target, c_size_t(4), source, c_size_t(6), c_size_t(5), c_size_t(4), D2D)


def test_a_batch_copies_each_part_and_names_the_one_that_fails(acl: Acl) -> None:
    first, second = acl.upload(b"12345678"), acl.upload(bytes(8))
    host = ctypes.create_string_buffer(8)
    targets = (c_void_p * 2)(ctypes.addressof(host), second.value)
    sources = (c_void_p * 2)(first.value, first.value)
    limits, sizes, fails = (c_size_t * 2)(8, 8), (c_size_t * 2)(8, 4), c_size_t()
    attributes = (BatchAttribute * 2)(
        BatchAttribute(to_type=0, from_type=1), BatchAttribute(to_type=1, from_type=1)
    )
    starts = (c_size_t * 2)(0, 1)
    batch = (targets, limits, sources, sizes, c_size_t(2), attributes, starts, c_size_t(2), byref(fails))
    acl.call("aclrtMemcpyBatch", *batch)
    assert host.raw == b"12345678"
    assert acl.download(second, 8) == b"1234" + bytes(4)
    limits[1] = 2
    with pytest.raises(AclError, match="do not fit"):
        acl.call("aclrtMemcpyBatch", *batch)
    assert fails.value == 1


def test_addresses_tell_where_they_are(acl: Acl) -> None:
    attributes, host = PointerAttributes(), c_void_p()

    def place(address: int) -> int:
        acl.call("aclrtPointerGetAttributes", c_void_p(address), byref(attributes))
        return attributes.type

    device = acl.malloc(8192)
    acl.call("aclrtMallocHost", byref(host), c_size_t(100))
    own = ctypes.create_string_buffer(64)
    assert place(device.value + 8191) == 1
    assert place(host.value + 99) == 0
    assert place(ctypes.addressof(own)) == 2
    mapped = c_void_p()
    acl.call("aclrtHostRegister", own, c_uint64(64), c_uint32(0), byref(mapped))
    assert place(ctypes.addressof(own)) == 0
    assert mapped.value == ctypes.addressof(own)
    acl.call("aclrtHostUnregister", own)
    assert place(ctypes.addressof(own)) == 2
    acl.call("aclrtFreeHost", host)
    begin, size = c_void_p(), c_size_t()
    acl.call("aclrtMemGetAddressRange", c_void_p(device.value + 5000), byref(begin), byref(size))
    assert (begin.value, size.value) == (device.value, 8192)


def test_physical_memory_is_counted_mapped_and_moved(acl: Acl) -> None:
    before, size = acl.free_bytes(), 2 * MiB
    range_, handle = reserve(acl, 8 * size), physical(acl, size)
    assert before - acl.free_bytes() == size
    first, third = range_.value, range_.value + 2 * size
    map_ = (c_size_t(size), c_size_t(0), handle, c_uint64(0))
    acl.call("aclrtMapMem", c_void_p(first), *map_)
    acl.call("aclrtMemset", c_void_p(first), c_size_t(size), 0x5A, c_size_t(size))
    acl.call("aclrtMapMem", c_void_p(third), *map_)
    assert acl.download(third, size) == b"\x5a" * size  # the same memory at two addresses
    with pytest.raises(AclError, match="unmap it first"):
        acl.call("aclrtReleaseMemAddress", range_)
    acl.call("aclrtUnmapMem", c_void_p(first))
    acl.call("aclrtFreePhysical", handle)
    assert acl.download(third, 8) == b"\x5a" * 8
    assert before - acl.free_bytes() == size
    acl.call("aclrtUnmapMem", c_void_p(third))
    assert acl.free_bytes() == before
    acl.call("aclrtReleaseMemAddress", range_)


def test_physical_memory_beyond_the_budget_is_out_of_memory(acl: Acl) -> None:
    with pytest.raises(AclError, match="EL0004") as caught:
        physical(acl, (acl.free_bytes() // MiB + 2) * MiB)
    assert caught.value.code == OUT_OF_MEMORY


def test_mapping_outside_a_reserved_range_is_refused(acl: Acl) -> None:
    handle, own = physical(acl, MiB), acl.malloc(2 * MiB)
    with pytest.raises(AclError, match="not in a reserved range"):
        acl.call("aclrtMapMem", own, c_size_t(MiB), c_size_t(0), handle, c_uint64(0))
    acl.call("aclrtFreePhysical", handle)
    acl.call("aclrtFree", own)


OTHER_PROCESS = """
import ctypes, sys
from ctypes import byref, c_size_t, c_void_p, c_uint64
acl = ctypes.CDLL({library!r})
acl.aclGetRecentErrMsg.restype = ctypes.c_char_p
assert acl.aclInit(None) == 0 and acl.aclrtSetDevice(0) == 0
def call(name, *arguments):
    if getattr(acl, name)(*arguments):
        sys.exit(acl.aclGetRecentErrMsg().decode())
address = c_void_p()
{steps}
value = ctypes.create_string_buffer(4)
call("aclrtMemcpy", value, c_size_t(4), address, c_size_t(4), 2)
print(value.raw.decode())
call("aclrtMemcpy", address, c_size_t(4), b"pong", c_size_t(4), 1)
"""
IMPORT_BY_KEY = 'call("aclrtIpcMemImportByKey", byref(address), {key!r}, c_uint64(0))'
IMPORT_HANDLE = """
handle = c_void_p()
call("aclrtMemImportFromShareableHandle", c_uint64({handle}), 0, byref(handle))
call("aclrtReserveMemAddress", byref(address), c_size_t({size}), c_size_t(0), None, c_uint64(1))
call("aclrtMapMem", address, c_size_t({size}), c_size_t(0), handle, c_uint64(0))
"""


def test_another_process_reads_and_writes_exported_memory(acl: Acl, python: Python) -> None:
    address = acl.upload(bytes(100) + b"ping" + bytes(5000))
    key = ctypes.create_string_buffer(65)
    part = c_void_p(address.value + 100)
    acl.call("aclrtIpcMemGetExportKey", part, c_size_t(4), key, c_size_t(65), c_uint64(0))
    steps = IMPORT_BY_KEY.format(key=key.value)
    other = OTHER_PROCESS.format(library=acl.library._name, steps=steps)
    done = python(other)
    assert (done.stdout.strip(), done.stderr) == ("ping", "")
    assert acl.download(part.value, 4) == b"pong"
    acl.call("aclrtFree", address)
    assert "does not hold that memory any more" in python(other).stderr


def test_another_process_maps_exported_physical_memory(acl: Acl, python: Python) -> None:
    size = 2 * MiB
    range_, handle, exported = reserve(acl, size), physical(acl, size), c_uint64()
    acl.call("aclrtMapMem", range_, c_size_t(size), c_size_t(0), handle, c_uint64(0))
    acl.call("aclrtMemcpy", range_, c_size_t(4), b"ping", c_size_t(4), H2D)
    acl.call("aclrtMemExportToShareableHandle", handle, c_int32(0), c_uint64(1), byref(exported))
    steps = IMPORT_HANDLE.format(handle=exported.value, size=size)
    done = python(OTHER_PROCESS.format(library=acl.library._name, steps=steps))
    assert (done.stdout.strip(), done.stderr) == ("ping", "")
    assert acl.download(range_, 4) == b"pong"
    acl.call("aclrtUnmapMem", range_)
    acl.call("aclrtFreePhysical", handle)
    acl.call("aclrtReleaseMemAddress", range_)

"""What the devices say about themselves, settings from the environment, and sentences of errors."""

from __future__ import annotations

import ctypes
import json
from ctypes import byref, c_int32, c_int64, c_size_t, c_uint32, c_void_p
from pathlib import Path

import pytest

from .conftest import Acl, AclError, Python

START = """
import ctypes, sys
acl = ctypes.CDLL({library!r})
acl.aclGetRecentErrMsg.restype = acl.aclrtGetSocName.restype = ctypes.c_char_p
def sentence(): return (acl.aclGetRecentErrMsg() or b"").decode()
"""


@pytest.fixture
def fresh(acl: Acl, python: Python):
    """Runs code in a process where `acl` is the runtime, not initialised yet, and hands back what it printed."""

    def run(code: str, **variables: str) -> str:
        done = python(START.format(library=acl.library._name) + code, **variables)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    return run


def test_an_error_has_its_code_its_name_and_a_sentence_once(acl: Acl) -> None:
    assert acl.code("aclrtSetDevice", 99) == 107001
    sentence = acl.sentence()
    assert sentence.startswith(
        "ACL_ERROR_RT_INVALID_DEVICEID (107001): aclrtSetDevice: there is no device 99"
    )
    assert "NPU_EMULATOR_DEVICES" in sentence
    assert acl.sentence() == ""


def test_the_last_error_can_be_looked_at_and_taken(acl: Acl) -> None:
    acl.code("aclrtGetLastError", 0)
    acl.code("aclrtSetDevice", 99)
    assert acl.code("aclrtPeekAtLastError", 0) == 107001
    assert acl.code("aclrtGetLastError", 0) == 107001
    assert acl.code("aclrtGetLastError", 0) == 0


def test_a_thread_without_a_device_is_told_to_set_one(fresh) -> None:
    out = fresh("stream = ctypes.c_void_p(); print(acl.aclrtCreateStream(ctypes.byref(stream)), sentence())")
    assert out.startswith("107002 ACL_ERROR_RT_CONTEXT_NULL")
    assert "call aclrtSetDevice first" in out


def test_the_default_device_of_the_configuration_serves_every_thread(fresh, tmp_path: Path) -> None:
    config = tmp_path / "acl.json"
    config.write_text(
        json.dumps({"dump": {"dump_scene": "lite_exception"}, "defaultDevice": {"default_device": "3"}})
    )
    out = fresh(
        f"print(acl.aclInit({str(config)!r}.encode()))\n"
        "device, stream = ctypes.c_int32(), ctypes.c_void_p()\n"
        "print(acl.aclrtGetDevice(ctypes.byref(device)), device.value, acl.aclrtCreateStream(ctypes.byref(stream)))"
    )
    assert out.split() == ["0", "0", "3", "0"]


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        ('{"dump": {"dump_list": []}}', "operator dumps"),
        ('{"profiler": {"switch": "on"}}', "profiler"),
        ('{"defaultDevice": {"default_device": "77"}}', "there is no device 77"),
        (None, "cannot be read"),
    ],
)
def test_a_configuration_that_cannot_be_honoured_is_refused(
    fresh, tmp_path: Path, config: str | None, sentence: str
) -> None:
    path = tmp_path / "acl.json"
    if config is not None:
        path.write_text(config)
    out = fresh(f"print(acl.aclInit({str(path)!r}.encode()), sentence())")
    assert not out.startswith("0 ")
    assert sentence in out


def test_initialising_twice_and_finalising_unasked_are_errors(fresh) -> None:
    out = fresh(
        "print(acl.aclFinalize(), acl.aclInit(None), acl.aclInit(None), acl.aclFinalize(), acl.aclFinalize())"
    )
    assert out.split() == ["100001", "0", "100002", "0", "100001"]


def test_the_environment_sets_devices_memory_and_soc(fresh) -> None:
    out = fresh(
        "count = ctypes.c_uint32(); free = ctypes.c_size_t(); total = ctypes.c_size_t()\n"
        "acl.aclrtGetDeviceCount(ctypes.byref(count)); acl.aclrtSetDevice(2)\n"
        "acl.aclrtGetMemInfo(1, ctypes.byref(free), ctypes.byref(total))\n"
        "print(count.value, free.value, total.value, acl.aclrtGetSocName().decode())",
        NPU_EMULATOR_DEVICES="3",
        NPU_EMULATOR_HBM_GB="0.25",
        NPU_EMULATOR_SOC="Ascend910_9391",
    )
    assert out == f"3 {1 << 28} {1 << 28} Ascend910_9391"


@pytest.mark.parametrize(
    ("variable", "value", "advice"),
    [
        ("NPU_EMULATOR_DEVICES", "many", "whole number from 1 to 64"),
        ("NPU_EMULATOR_DEVICES", "0", "whole number from 1 to 64"),
        ("NPU_EMULATOR_DEVICES", "2.5", "whole number from 1 to 64"),
        ("NPU_EMULATOR_HBM_GB", "-1", "GiB of memory of one device"),
        ("NPU_EMULATOR_HBM_GB", "16GB", "GiB of memory of one device"),
        ("NPU_EMULATOR_SOC", "Ascend999", "the emulator knows Ascend910B1"),
    ],
)
def test_a_bad_setting_is_named_with_its_value_and_the_way_out(
    fresh, variable: str, value: str, advice: str
) -> None:
    out = fresh(
        "count = ctypes.c_uint32()\nprint(acl.aclrtGetDeviceCount(ctypes.byref(count)), sentence())",
        **{variable: value},
    )
    assert not out.startswith("0 ")
    assert f'{variable} is "{value}"' in out
    assert advice in out


def test_core_counts_and_versions_agree_with_each_other(acl: Acl, toolkit_folder: Path) -> None:
    value, one = c_int64(), c_int32()
    for item, attribute in ((0, 102), (1, 201), (2, 302)):  # cube cores, vector cores, L2
        acl.call("aclGetDeviceCapability", 0, item, byref(value))
        capability = value.value
        acl.call("aclrtGetDeviceInfo", 0, attribute, byref(value))
        assert value.value == capability > 0
    acl.call("aclGetCannAttribute", 0, byref(one))
    assert one.value == 1  # infinities and NaN, no saturation
    version = ctypes.create_string_buffer(512)
    acl.call("aclsysGetCANNVersion", 0, version)
    text = ctypes.create_string_buffer(128)
    acl.call("aclsysGetVersionStr", b"runtime", text)
    assert f"version={version.value.decode()}\n" in (toolkit_folder / "version.info").read_text()
    assert text.value == version.value
    with pytest.raises(AclError, match="no package bogus"):
        acl.call("aclsysGetVersionStr", b"bogus", text)


def test_system_parameters_begin_at_zero_and_a_context_has_its_own(acl: Acl) -> None:
    value, context = c_int64(7), c_void_p()
    acl.call("aclrtCreateContext", byref(context), 0)  # torch may have set the primary one's
    acl.call("aclrtGetSysParamOpt", 2, byref(value))
    assert value.value == 0
    acl.call("aclrtSetSysParamOpt", 2, c_int64(1))
    acl.call("aclrtCtxGetSysParamOpt", 2, byref(value))
    assert value.value == 1
    acl.call("aclrtCtxSetSysParamOpt", 2, c_int64(0))
    acl.call("aclrtCtxGetSysParamOpt", 2, byref(value))
    assert value.value == 0
    acl.call("aclrtGetSysParamOpt", 2, byref(value))
    assert value.value == 1
    acl.call("aclrtSetSysParamOpt", 2, c_int64(0))
    with pytest.raises(AclError, match="not one of aclSysParamOpt"):
        acl.call("aclrtSetSysParamOpt", 99, c_int64(0))
    acl.call("aclrtDestroyContext", context)
    acl.call("aclrtSetDevice", 0)


def test_a_fork_of_a_process_that_used_a_device_is_told_so(fresh) -> None:
    out = fresh(
        "import os\n"
        "acl.aclInit(None); acl.aclrtSetDevice(0); address = ctypes.c_void_p()\n"
        "acl.aclrtMalloc(ctypes.byref(address), ctypes.c_size_t(4096), 0)\n"
        "if os.fork() == 0:\n"
        "    print(acl.aclrtSetDevice(0), sentence(), flush=True)\n"
        "    print(acl.aclrtFree(address), flush=True)\n"
        "    os._exit(0)\n"
        "os.wait(); print(acl.aclrtFree(address))"
    )
    first, in_child, in_parent = out.splitlines()
    assert first.startswith("507033 ACL_ERROR_RT_DEV_SETUP_ERROR")
    assert 'multiprocessing\'s "spawn" method' in first
    assert (in_child, in_parent) == ("0", "0")


def test_a_fork_of_a_process_that_did_not_use_a_device_uses_it(fresh) -> None:
    out = fresh(
        "import os\ncount = ctypes.c_uint32(); acl.aclrtGetDeviceCount(ctypes.byref(count))\n"
        "stream = ctypes.c_void_p()\n"
        "if os.fork() == 0:\n"
        "    print(acl.aclrtSetDevice(0), acl.aclrtCreateStream(ctypes.byref(stream)), flush=True)\n"
        "    os._exit(0)\n"
        "os.wait()"
    )
    assert out == "0 0"


def test_the_bounds_checked_string_functions_keep_their_bounds(acl: Acl) -> None:
    buffer = ctypes.create_string_buffer(b"zzzzzzzz", 8)
    library = acl.library
    assert library.snprintf_s(buffer, c_size_t(8), c_size_t(7), b"%s", b"seven77") == 7
    assert buffer.value == b"seven77"
    assert library.snprintf_s(buffer, c_size_t(8), c_size_t(20), b"%s", b"too long for it") == -1
    assert buffer.value == b""
    assert library.snprintf_s(buffer, c_size_t(8), c_size_t(3), b"%s", b"cut off") == -1
    assert buffer.value == b"cut"
    assert library.strcpy_s(buffer, c_size_t(4), b"four") != 0
    assert buffer.value == b""
    assert library.strcpy_s(buffer, c_size_t(5), b"four") == 0
    assert buffer.value == b"four"


def test_peers_reach_each_other_but_a_device_is_not_its_own_peer(acl: Acl) -> None:
    answer = c_int32()
    acl.call("aclrtDeviceCanAccessPeer", byref(answer), 0, 1)
    assert answer.value == 1
    acl.call("aclrtDeviceCanAccessPeer", byref(answer), 1, 1)
    assert answer.value == 0
    acl.call("aclrtDeviceEnablePeerAccess", 1, c_uint32(0))


def test_contexts_have_streams_of_their_own(acl: Acl) -> None:
    primary, mine, current = c_void_p(), c_void_p(), c_void_p()
    first, second = c_void_p(), c_void_p()
    acl.call("aclrtGetCurrentContext", byref(primary))
    acl.call("aclrtCtxGetCurrentDefaultStream", byref(first))
    acl.call("aclrtCreateContext", byref(mine), 0)
    acl.call("aclrtGetCurrentContext", byref(current))
    acl.call("aclrtCtxGetCurrentDefaultStream", byref(second))
    assert current.value == mine.value != primary.value
    assert first.value != second.value
    acl.call("aclrtSetCurrentContext", primary)
    acl.call("aclrtDestroyContext", mine)
    with pytest.raises(AclError, match="destroyed or never created"):
        acl.call("aclrtSetCurrentContext", mine)
    with pytest.raises(AclError, match="aclrtResetDevice"):
        acl.call("aclrtDestroyContext", primary)


def test_sizes_that_do_not_fit_are_refused(acl: Acl) -> None:
    address = acl.malloc(64)
    with pytest.raises(AclError, match="128 bytes do not fit into the 64"):
        acl.call("aclrtMemcpy", address, c_size_t(64), bytes(128), c_size_t(128), 1)
    with pytest.raises(AclError, match="src is null"):
        acl.call("aclrtMemcpy", address, c_size_t(64), None, c_size_t(64), 1)

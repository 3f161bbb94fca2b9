"""Which toolkit is taken, and what is said when none can be."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from npu_common import _loader, toolkit
from npu_common.toolkit import ToolkitError

MakeToolkit = Callable[..., Path]


@pytest.fixture
def emulator(make_toolkit: MakeToolkit) -> Path:
    root = make_toolkit("emulator")
    (root / toolkit.EMULATOR_MARK).touch()
    return root


def test_cann_is_taken_where_it_loads_and_has_a_device(make_toolkit: MakeToolkit, emulator: Path) -> None:
    home = make_toolkit(devices=2)
    found = toolkit.find(environ={"ASCEND_HOME_PATH": str(home)}, emulator_root=emulator)
    assert (found.provider, found.root, found.version) == ("cann", home, "8.5.0")
    assert "2 devices" in found.reason


def test_cann_in_its_usual_folder_is_found_without_a_variable(
    make_toolkit: MakeToolkit, emulator: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toolkit, "USUAL_FOLDERS", (str(make_toolkit()),))
    assert toolkit.find(environ={}, emulator_root=emulator).provider == "cann"


def test_the_emulator_is_taken_without_cann(emulator: Path) -> None:
    found = toolkit.find(environ={}, emulator_root=emulator)
    assert (found.provider, found.root) == ("emulator", emulator)
    assert "ASCEND_HOME_PATH is not set" in found.reason


def test_a_cann_without_a_device_is_passed_over(make_toolkit: MakeToolkit, emulator: Path) -> None:
    home = make_toolkit(devices=0)
    found = toolkit.find(environ={"ASCEND_HOME_PATH": str(home)}, emulator_root=emulator)
    assert found.provider == "emulator"
    assert "counts no device" in found.reason


def test_a_library_that_is_no_library_is_named(make_toolkit: MakeToolkit, emulator: Path) -> None:
    home = make_toolkit()
    (home / "lib64" / _loader.RUNTIME).write_text("junk")
    found = toolkit.find(environ={"ASCEND_HOME_PATH": str(home)}, emulator_root=emulator)
    assert found.provider == "emulator"
    assert str(home / "lib64" / _loader.RUNTIME) in found.reason


def test_a_library_that_ends_its_process_does_not_end_ours(make_toolkit: MakeToolkit, emulator: Path) -> None:
    crash = "void abort(void); __attribute__((constructor)) static void crash(void) { abort(); }"
    found = toolkit.find(environ={"ASCEND_HOME_PATH": str(make_toolkit(extra=crash))}, emulator_root=emulator)
    assert found.provider == "emulator"
    assert "ended with status -6" in found.reason


def test_on_takes_the_emulator_even_beside_a_cann(make_toolkit: MakeToolkit, emulator: Path) -> None:
    environ = {"ASCEND_HOME_PATH": str(make_toolkit()), "NPU_EMULATOR": "on"}
    assert toolkit.find(environ=environ, emulator_root=emulator).provider == "emulator"


def test_an_emulated_toolkit_named_by_the_variable_is_taken_as_what_it_is(
    make_toolkit: MakeToolkit, emulator: Path
) -> None:
    other = make_toolkit("build_tree")
    (other / toolkit.EMULATOR_MARK).touch()
    found = toolkit.find(environ={"ASCEND_HOME_PATH": str(other)}, emulator_root=emulator)
    assert (found.provider, found.root) == ("emulator", other)


@pytest.mark.parametrize(
    ("home", "names"),
    [
        (None, ["NPU_EMULATOR=off", "ASCEND_HOME_PATH is not set"]),
        ("empty", ["NPU_EMULATOR=off", "has no lib64/libascendcl.so"]),
        ("nowhere", ["NPU_EMULATOR=off", "does not exist"]),
        ("emulator", ["NPU_EMULATOR=off", "is an emulator"]),
    ],
)
def test_off_without_a_usable_cann_is_one_sentence(
    home: str | None, names: list[str], tmp_path: Path, emulator: Path
) -> None:
    (tmp_path / "empty").mkdir()
    environ = {"NPU_EMULATOR": "off"} | ({"ASCEND_HOME_PATH": str(tmp_path / home)} if home else {})
    with pytest.raises(ToolkitError) as error:
        toolkit.find(environ=environ, emulator_root=emulator)
    assert all(name in str(error.value) for name in names)
    assert "\n" not in str(error.value)


def test_an_unknown_mode_is_named(emulator: Path) -> None:
    with pytest.raises(ToolkitError, match=r"NPU_EMULATOR=yes is not a choice.*auto.*on.*off"):
        toolkit.find(environ={"NPU_EMULATOR": "yes"}, emulator_root=emulator)


def test_a_package_without_its_emulator_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolkit, "emulator_folder", lambda: None)
    with pytest.raises(ToolkitError, match="without its emulator"):
        toolkit.find(environ={})


def test_activate_loads_once_and_sets_what_torch_npu_reads(
    emulator: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environ: dict[str, str] = {}
    monkeypatch.setattr("os.environ", environ)
    first = toolkit.activate(emulator_root=emulator)
    assert first is toolkit.activate() is toolkit.loaded()
    assert set(_loader.REQUIRED) <= set(first.libraries)
    assert environ == {"ASCEND_HOME_PATH": str(emulator), "ASCEND_OPP_PATH": str(emulator / "opp")}


def test_a_failed_activation_leaves_the_environment_as_it_was(
    emulator: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environ = {"ASCEND_OPP_PATH": "/mine"}
    monkeypatch.setattr("os.environ", environ)
    (emulator / "lib64" / "libgraph.so").write_text("junk")
    with pytest.raises(ToolkitError, match=r"does not load: .*libgraph\.so"):
        toolkit.activate(emulator_root=emulator)
    assert environ == {"ASCEND_OPP_PATH": "/mine"}
    assert toolkit.loaded() is None


def test_a_cann_that_was_asked_for_and_cannot_be_used_is_never_replaced_in_silence(
    emulator: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("os.environ", {"ASCEND_HOME_PATH": str(tmp_path / "nowhere")})
    with caplog.at_level(logging.WARNING, logger="npu_common"):
        toolkit.activate(emulator_root=emulator)
    assert "nowhere does not exist" in caplog.text
    assert "emulator is taken instead" in caplog.text


def test_opp_of_the_same_toolkit_is_kept_and_of_another_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "opp_elsewhere").mkdir()
    monkeypatch.setattr(
        "os.environ", {"ASCEND_HOME_PATH": "/a", "ASCEND_OPP_PATH": str(tmp_path / "opp_elsewhere")}
    )
    assert toolkit.variables(Path("/a"))["ASCEND_OPP_PATH"] == str(tmp_path / "opp_elsewhere")
    assert toolkit.variables(Path("/b"))["ASCEND_OPP_PATH"] == "/b/opp"


@pytest.mark.parametrize(
    ("file", "text", "expected"),
    [
        ("version.info", "Version=8.5.0\nversion_dir=8.5\n", "8.5.0"),
        ("compiler/version.info", "Version=7.6.0.1.220\n", "7.6.0.1.220"),
        ("version.cfg", "# comment\nruntime_running_version=[8.2.RC1:CANN-8.2]\n", "8.2.RC1"),
        (
            "aarch64-linux/ascend_toolkit_install.info",
            "package_name=Ascend-cann-toolkit\nversion=8.3.RC1\n",
            "8.3.RC1",
        ),
        ("unrelated", "version=1", "of unknown version"),
    ],
)
def test_version_is_read_from_where_cann_writes_it(
    file: str, text: str, expected: str, tmp_path: Path
) -> None:
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text(text)
    assert toolkit.version(tmp_path) == expected

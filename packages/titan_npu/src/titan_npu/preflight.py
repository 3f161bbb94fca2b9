"""Checks before torch is imported: are the packages there, do their versions fit, does the NPU answer?"""

from __future__ import annotations

import importlib.metadata
import re

from titan_npu.errors import EnvironmentProblem

PACKAGES = ("torch", "torch_npu", "torchtitan")


def pinned_versions() -> dict[str, str]:
    """The versions of PACKAGES that this package's own metadata asks for."""
    pins = {}
    for requirement in importlib.metadata.requires("titan_npu") or ():
        match = re.match(r"([A-Za-z0-9_.-]+)==([0-9][^;\s]*)", requirement)
        if match and match[1].replace("-", "_") in PACKAGES:
            pins[match[1].replace("-", "_")] = match[2]
    return pins


def check_packages() -> None:
    """Raise EnvironmentProblem when a package is missing or has another version than the pinned one."""
    for package, wanted in pinned_versions().items():
        try:
            found = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            raise EnvironmentProblem(
                f"{package} is not installed and titan-npu needs {package} {wanted}: "
                f"pip install {package}=={wanted} (npu doctor shows the whole picture)."
            ) from None
        if found.split("+")[0] != wanted:
            raise EnvironmentProblem(
                f"{package} {found} is installed and titan-npu was made for {package} {wanted}: "
                f"pip install {package}=={wanted}."
            )


def check_device() -> None:
    """Import torch with torch_npu and ask for a device; raise EnvironmentProblem when that fails."""
    from npu_common import toolkit

    try:
        toolkit.activate()  # before the start-up hook would, which says what fails in a line of its own
    except toolkit.ToolkitError as error:
        raise EnvironmentProblem(str(error)) from error
    try:
        import torch
        import torch_npu  # noqa: F401  (normally loaded by torch's own entry point already)
    except Exception as error:
        reason = str(error).strip().splitlines()[-1] if str(error).strip() else type(error).__name__
        raise EnvironmentProblem(
            f"torch_npu could not be loaded ({reason}): run npu doctor to see which CANN was looked for "
            f"and where."
        ) from error
    try:
        count = torch.npu.device_count()
    except Exception as error:
        raise EnvironmentProblem(
            f"CANN answered {error} when asked for its devices: run npu doctor."
        ) from error
    if count == 0:
        raise EnvironmentProblem("CANN reports no NPU: run npu doctor (NPU_EMULATOR=on uses the emulator).")

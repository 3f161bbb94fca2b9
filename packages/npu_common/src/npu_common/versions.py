"""What is installed, what is pinned, whether torch and torch_npu fit together. Imports neither."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
from dataclasses import dataclass
from pathlib import Path

import npu_common

_NAME = re.compile(r"[-_.]+")


@dataclass(frozen=True)
class TorchBuild:
    """The torch of this environment, read from its folder without importing it."""

    folder: Path
    version: str  # "2.13.0+cpu"
    cuda: str | None  # "13.0" of a CUDA build, None of a CPU build


def normalised(name: str) -> str:
    """The name as indices compare it (PEP 503): torch_npu and torch-npu are one package."""
    return _NAME.sub("-", name).lower()


def pinned() -> dict[str, str]:
    """Normalised name -> exact version, from versions/constraints.txt, which the package ships.

    Raises:
        FileNotFoundError: the package was installed without the file.
    """
    for folder in npu_common.__path__:
        file = Path(folder, "constraints.txt")
        if file.is_file():
            lines = (line.split("#")[0].strip() for line in file.read_text().splitlines())
            pairs = (line.split("==") for line in lines if "==" in line)
            return {normalised(name): version for name, version in pairs}
    raise FileNotFoundError(f"no constraints.txt beside npu_common (looked in {list(npu_common.__path__)})")


def installed(name: str) -> str | None:
    """The installed version of a distribution, or None."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def is_importable(name: str) -> bool:
    """Whether a top-level module can be found; loads nothing."""
    return module_folder(name) is not None


def module_folder(name: str) -> Path | None:
    """The folder of a top-level package, imported or not, or None."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):  # ValueError: sys.modules holds something without a spec
        return None
    return Path(spec.origin).parent if spec and spec.origin else None


def torch_build() -> TorchBuild | None:
    """The torch of this environment, or None when there is none."""
    folder = module_folder("torch")
    if folder is None:
        return None
    try:
        text = (folder / "version.py").read_text()
    except OSError:
        return TorchBuild(folder, "unknown", None)
    version = re.search(r"^__version__\s*=\s*'([^']+)'", text, re.MULTILINE)
    cuda = re.search(r"^cuda\b[^=]*=\s*'([^']+)'", text, re.MULTILINE)
    return TorchBuild(folder, version[1] if version else "unknown", cuda[1] if cuda else None)


def release(version: str) -> tuple[str, ...]:
    """The first three numbers: ("2", "13", "0") of 2.13.0+cpu, of 2.13.0.post1, of 2.13.0rc1."""
    return tuple(re.findall(r"\d+", version.split("+")[0])[:3])


def torch_npu_mismatch() -> str | None:
    """Why this environment's torch_npu cannot work with its torch, as one sentence, or None when they fit.

    torch_npu's own metadata asks for torch of the same three numbers (`torch==2.13.0.*`): it binds torch's
    C++ ABI. It refuses CUDA builds of torch when it is imported ("Two accelerators cannot be used at the same
    time").
    """
    torch, torch_npu = torch_build(), installed("torch_npu")
    if torch is None or torch_npu is None:
        return None
    if torch.cuda is not None:
        return (
            f"torch {torch.version} is a build for CUDA {torch.cuda}, which torch_npu refuses; install "
            f"the CPU build (pip install --force-reinstall torch=={'.'.join(release(torch.version))} "
            "--index-url with the address of PyTorch's index of CPU builds)."
        )
    if release(torch.version) != release(torch_npu):
        return (
            f"torch_npu {torch_npu} was built for torch {'.'.join(release(torch_npu))}, and this is torch "
            f"{torch.version}; install torch_npu=={'.'.join(release(torch.version))}."
        )
    return None

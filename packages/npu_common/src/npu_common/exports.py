"""The shell lines of `npu env`: what a python with torch and torch_npu, but no npu_common, needs."""

from __future__ import annotations

import shlex

from npu_common import toolkit
from npu_common.toolkit import Toolkit


def shell_exports(found: Toolkit) -> str:
    """POSIX shell lines for `eval "$(npu env)"`.

    LD_LIBRARY_PATH gets the toolkit's lib64 and nothing of torch: that python loads its own libtorch before
    torch_npu asks for libopapi, and libopapi is then served by SONAME. A torch/lib here would put ours before
    its own.
    """
    set_env = found.root / "set_env.sh"
    lines = [f"# {found.describe()}"]
    if set_env.is_file():  # CANN's own, which knows about its plugins and Python paths too
        lines.append(f". {shlex.quote(str(set_env))}")
    lines += [f"export {name}={shlex.quote(value)}" for name, value in toolkit.variables(found.root).items()]
    folder = shlex.quote(str(found.root / "lib64"))
    lines.append(f"export LD_LIBRARY_PATH={folder}${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}")
    return "\n".join(lines)

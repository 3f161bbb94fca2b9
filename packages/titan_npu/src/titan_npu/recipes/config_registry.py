"""All recipes by name, as TorchTitan's ``--module titan_npu.recipes --config NAME`` looks them up."""

from titan_npu.recipes.deepseek_v3 import deepseek_v3_debug
from titan_npu.recipes.llama3 import llama3_8b, llama3_debug

__all__ = ["deepseek_v3_debug", "llama3_8b", "llama3_debug"]

// What the table of kernels holds, for tests and for the generator of docs/operators.md. Not part of CANN's
// ABI.
#include "kernels/kernel.h"
#include "kernels/prototypes.h"
#include "kernels/registry.h"
#include "opapi/call.h"

extern "C" {

// One line an operator: "aclnn <name> <prototype's letters> <kernel's letters or ->" and "ge <type> <letters>
// <attributes>". The text lives as long as the process.
NPU_EXPORT const char* npu_emulator_operators() {
    static const std::string text = [] {
        std::string lines;
        for (auto& prototype : npu::emulator::prototypes()) {
            auto* kernel = npu::emulator::find_aclnn(prototype.name);
            lines += "aclnn " + prototype.name + " " + (prototype.letters.empty() ? "-" : prototype.letters) +
                     " " + (kernel ? kernel->letters : "-") + "\n";
        }
        for (auto& name : npu::emulator::ge_names()) {
            auto* kernel = npu::emulator::find_ge(name);
            lines += "ge " + name + " " + kernel->letters;
            for (auto& attribute : kernel->attributes) lines += " " + attribute;
            lines += "\n";
        }
        return lines;
    }();
    return text.c_str();
}

// The aclnn names that have a row of their own, one a line: a test looks for names that CANN does not know.
NPU_EXPORT const char* npu_emulator_rows() {
    static const std::string text = [] {
        std::string lines;
        for (auto& name : npu::emulator::aclnn_names()) lines += name + "\n";
        return lines;
    }();
    return text.c_str();
}
}

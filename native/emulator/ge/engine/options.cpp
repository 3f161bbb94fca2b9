// AUTOFUSE_FLAGS, CANN's switch for AutoFuse.
#include <cstdlib>
#include <sstream>

#include "ge/engine/engine.h"

namespace npu::ge {
namespace {

bool truth(const std::string& flag, const std::string& value) {
    if (value == "true") return true;
    if (value == "false") return false;
    throw graph::GraphError("AUTOFUSE_FLAGS: " + flag + " is '" + value + "', not true or false");
}

}  // namespace

CompileOptions options_from_environment() {
    CompileOptions options;
    const char* flags = std::getenv("AUTOFUSE_FLAGS");
    std::istringstream words(flags ? flags : "");
    for (std::string word; std::getline(words, word, ';');) {
        const auto equals = word.find('=');
        const std::string name = word.substr(0, equals),
                          value = equals == std::string::npos ? "" : word.substr(equals + 1);
        if (name == "--enable_autofuse") {
            options.autofuse = truth(name, value);
        } else if (name == "--autofuse_enable_pass") {
            std::istringstream passes(value);
            for (std::string pass; std::getline(passes, pass, ',');) {
                options.fuse_reductions |= pass == "reduce";
                options.fuse_movement |= pass == "concat" || pass == "slice" || pass == "split" ||
                                         pass == "gather" || pass == "transpose";
            }
        }  // CANN has more flags, which tune its code generator and change no value
    }
    return options;
}

}  // namespace npu::ge

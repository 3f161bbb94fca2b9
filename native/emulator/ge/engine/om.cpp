#include "ge/engine/om.h"

#include <cstring>

namespace npu::ge {
namespace {

constexpr char kMagic[8] = {'N', 'P', 'U', 'E', 'M', 'U', 'O', 'M'};

/// Little-endian, as every host of CANN is.
struct Header {
    char magic[8];
    uint32_t version;
    uint8_t autofuse, fuse_reductions, fuse_movement, reserved;
    uint64_t length;    ///< bytes of the model
    uint64_t checksum;  ///< of options and model
};
static_assert(sizeof(Header) == 32);

/// FNV-1a, 64 bits: finds damage, not malice (the model reader is safe on any bytes).
uint64_t checksum(const Header& header, std::span<const std::byte> model) {
    uint64_t hash = 14695981039346656037u;
    const auto feed = [&](uint8_t byte) { hash = (hash ^ byte) * 1099511628211u; };
    for (const uint8_t option : {header.autofuse, header.fuse_reductions, header.fuse_movement}) feed(option);
    for (const std::byte byte : model) feed(static_cast<uint8_t>(byte));
    return hash;
}

}  // namespace

std::vector<std::byte> pack_om(std::span<const std::byte> model, const CompileOptions& options) {
    Header header{};
    std::memcpy(header.magic, kMagic, sizeof kMagic);
    header.version = kOmVersion;
    header.autofuse = options.autofuse;
    header.fuse_reductions = options.fuse_reductions;
    header.fuse_movement = options.fuse_movement;
    header.length = model.size();
    header.checksum = checksum(header, model);
    std::vector<std::byte> packed(sizeof header + model.size());
    std::memcpy(packed.data(), &header, sizeof header);
    if (!model.empty()) std::memcpy(packed.data() + sizeof header, model.data(), model.size());
    return packed;
}

Om unpack_om(std::span<const std::byte> packed) {
    Header header;
    if (packed.size() < sizeof header || std::memcmp(packed.data(), kMagic, sizeof kMagic) != 0)
        throw graph::GraphError(
            "these bytes are no model that the host emulator of CANN built; models that ATC or "
            "aclgrphBuildModel built "
            "on a machine with CANN hold device code and run there only");
    std::memcpy(&header, packed.data(), sizeof header);
    if (header.version != kOmVersion)
        throw graph::GraphError("the model has version " + std::to_string(header.version) +
                                ", this emulator reads version " + std::to_string(kOmVersion) +
                                ": build it again");
    const auto model = packed.subspan(sizeof header);
    if (model.size() < header.length) throw graph::GraphError("the model is truncated");
    const Om om{model.first(header.length),
                {header.autofuse != 0, header.fuse_reductions != 0, header.fuse_movement != 0}};
    if (checksum(header, om.model) != header.checksum)
        throw graph::GraphError("the model is damaged: its checksum does not fit");
    return om;
}

}  // namespace npu::ge

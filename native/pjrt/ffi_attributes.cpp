// Attributes of FFI calls: from the program's message to XLA's structs.
#include <algorithm>

#include "pjrt/ffi.h"
#include "pjrt/wire.h"

namespace npu::pjrt {
namespace {

// FfiAttributes { 1 repeated FfiAttribute }; FfiAttribute { 1 name; 2 Values scalar; 3 Values array; 4
// string; 5 FfiAttributes dictionary }; Values { 1 PJRT_Buffer_Type; 2 bytes }
enum : uint32_t { kName = 1, kScalar = 2, kArray = 3, kString = 4, kDictionary = 5 };
enum : uint32_t { kType = 1, kBytes = 2 };
constexpr int kDeepest = 16;

struct TypePair {
    int pjrt;
    uint32_t ffi;
};
#define SAME_NAME(type) {PJRT_Buffer_Type_##type, XLA_FFI_DataType_##type}
constexpr TypePair kTypes[] = {
    SAME_NAME(PRED),     SAME_NAME(S1),         SAME_NAME(S2),           SAME_NAME(S4),
    SAME_NAME(S8),       SAME_NAME(S16),        SAME_NAME(S32),          SAME_NAME(S64),
    SAME_NAME(U1),       SAME_NAME(U2),         SAME_NAME(U4),           SAME_NAME(U8),
    SAME_NAME(U16),      SAME_NAME(U32),        SAME_NAME(U64),          SAME_NAME(F16),
    SAME_NAME(F32),      SAME_NAME(F64),        SAME_NAME(BF16),         SAME_NAME(C64),
    SAME_NAME(C128),     SAME_NAME(F4E2M1FN),   SAME_NAME(F8E3M4),       SAME_NAME(F8E4M3),
    SAME_NAME(F8E4M3FN), SAME_NAME(F8E4M3FNUZ), SAME_NAME(F8E5M2),       SAME_NAME(F8E5M2FNUZ),
    SAME_NAME(TOKEN),    SAME_NAME(F8E8M0FNU),  SAME_NAME(F8E4M3B11FNUZ)};
#undef SAME_NAME

}  // namespace

uint32_t ffi_type(int pjrt_type) {
    const TypePair* found = std::ranges::find(kTypes, pjrt_type, &TypePair::pjrt);
    if (found == std::end(kTypes))
        throw unimplemented("XLA's FFI has no element type " + element_name(pjrt_type));
    return found->ffi;
}

struct FfiAttributes::Entry {
    std::string name, bytes;
    uint32_t kind = 0;
    XLA_FFI_ByteSpan name_span{}, text{};
    XLA_FFI_Scalar scalar{};
    XLA_FFI_Array array{};
    std::unique_ptr<FfiAttributes> inner;
    XLA_FFI_Attrs dictionary{};

    void* value() {
        switch (kind) {
            case XLA_FFI_AttrType_SCALAR:
                return &scalar;
            case XLA_FFI_AttrType_ARRAY:
                return &array;
            case XLA_FFI_AttrType_STRING:
                return &text;
            default:
                return &dictionary;
        }
    }

    void read_values(graph::Bytes message_bytes, bool single) {
        int64_t type = 0;
        graph::Message message(message_bytes);
        for (graph::Field field; message.next(field);) {
            if (field.number == kType) type = field.integer();
            if (field.number == kBytes) bytes = field.text();
        }
        const std::size_t size = element_size(static_cast<int>(type));
        if (size == 0 || bytes.size() % size != 0 || (single && bytes.size() != size))
            throw invalid("the attribute " + graph::quoted(name) + " has the wrong number of bytes");
        const uint32_t dtype = ffi_type(static_cast<int>(type));
        kind = single ? XLA_FFI_AttrType_SCALAR : XLA_FFI_AttrType_ARRAY;
        scalar = {dtype, bytes.data()};
        array = {dtype, bytes.size() / size, bytes.data()};
    }

    void read(const graph::Field& field, int depth) {
        if (field.number == kName) name = field.text();
        if (field.number == kScalar || field.number == kArray)
            read_values(field.message(), field.number == kScalar);
        if (field.number == kString) {
            bytes = field.text();
            kind = XLA_FFI_AttrType_STRING;
            text = {bytes.data(), bytes.size()};
        }
        if (field.number == kDictionary) {
            const std::string_view content = field.text();
            inner = std::make_unique<FfiAttributes>(content, depth + 1);
            kind = XLA_FFI_AttrType_DICTIONARY;
            dictionary = inner->frame();
        }
    }
};

void FfiAttributes::DeleteEntry::operator()(Entry* entry) const { delete entry; }

FfiAttributes::FfiAttributes(std::string_view bytes, int depth) {
    if (depth > kDeepest) throw invalid("the attributes of an FFI call are nested too deeply");
    graph::Message message(as_bytes(bytes));
    for (graph::Field field; message.next(field);) {
        if (field.number != 1) continue;
        std::unique_ptr<Entry, DeleteEntry> entry(new Entry);
        graph::Message parts(field.message());
        for (graph::Field part; parts.next(part);) entry->read(part, depth);
        if (entry->kind == 0) throw invalid("the attribute " + graph::quoted(entry->name) + " has no value");
        entries_.push_back(std::move(entry));
    }
    // Handlers look them up by their place in this order.
    std::ranges::sort(entries_, {}, [](const auto& entry) { return entry->name; });
    for (const auto& entry : entries_) {
        entry->name_span = {entry->name.data(), entry->name.size()};
        names_.push_back(&entry->name_span);
        types_.push_back(entry->kind);
        values_.push_back(entry->value());
    }
}

XLA_FFI_Attrs FfiAttributes::frame() {
    return {sizeof(XLA_FFI_Attrs), nullptr,       static_cast<int64_t>(entries_.size()),
            types_.data(),         names_.data(), values_.data()};
}

}  // namespace npu::pjrt

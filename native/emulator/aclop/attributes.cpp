// aclopAttr: an operator's attributes by name.
#include <span>

#include "aclop/handles.h"
#include "runtime/launch.h"

using npu::emulator::fail;

namespace {

aclError set(const char* function, aclopAttr* attr, const char* name, aclopAttr::Value value) {
    if (attr == nullptr || name == nullptr)
        return fail(ACL_ERROR_INVALID_PARAM,
                    std::string(function) + ": the attribute set or the name is null");
    attr->values.insert_or_assign(name, std::move(value));
    return ACL_SUCCESS;
}

template <class To, class From>
aclError set_list(const char* function, aclopAttr* attr, const char* name, int count, const From* values) {
    if (count < 0 || (count > 0 && values == nullptr))
        return fail(ACL_ERROR_INVALID_PARAM, std::string(function) + ": " + std::to_string(count) +
                                                 " values at a null address, or a negative count");
    return set(function, attr, name, std::vector<To>(values, values + count));
}

}  // namespace

aclopAttr* aclopCreateAttr() { return new aclopAttr; }
void aclopDestroyAttr(const aclopAttr* attr) { delete attr; }

aclError aclopSetAttrBool(aclopAttr* attr, const char* attrName, uint8_t attrValue) {
    return set("aclopSetAttrBool", attr, attrName, attrValue != 0);
}
aclError aclopSetAttrInt(aclopAttr* attr, const char* attrName, int64_t attrValue) {
    return set("aclopSetAttrInt", attr, attrName, attrValue);
}
aclError aclopSetAttrFloat(aclopAttr* attr, const char* attrName, float attrValue) {
    return set("aclopSetAttrFloat", attr, attrName, static_cast<double>(attrValue));
}
aclError aclopSetAttrString(aclopAttr* attr, const char* attrName, const char* attrValue) {
    if (attrValue == nullptr) return fail(ACL_ERROR_INVALID_PARAM, "aclopSetAttrString: the value is null");
    return set("aclopSetAttrString", attr, attrName, std::string(attrValue));
}
aclError aclopSetAttrDataType(aclopAttr* attr, const char* attrName, aclDataType attrValue) {
    return set("aclopSetAttrDataType", attr, attrName, static_cast<int64_t>(attrValue));
}
aclError aclopSetAttrListDataType(aclopAttr* attr, const char* attrName, int numValues,
                                  const aclDataType values[]) {
    return set_list<int64_t>("aclopSetAttrListDataType", attr, attrName, numValues, values);
}
aclError aclopSetAttrListBool(aclopAttr* attr, const char* attrName, int numValues, const uint8_t* values) {
    return set_list<bool>("aclopSetAttrListBool", attr, attrName, numValues, values);
}
aclError aclopSetAttrListInt(aclopAttr* attr, const char* attrName, int numValues, const int64_t* values) {
    return set_list<int64_t>("aclopSetAttrListInt", attr, attrName, numValues, values);
}
aclError aclopSetAttrListFloat(aclopAttr* attr, const char* attrName, int numValues, const float* values) {
    return set_list<double>("aclopSetAttrListFloat", attr, attrName, numValues, values);
}
aclError aclopSetAttrListString(aclopAttr* attr, const char* attrName, int numValues, const char** values) {
    return set_list<std::string>("aclopSetAttrListString", attr, attrName, numValues, values);
}
aclError aclopSetAttrListListInt(aclopAttr* attr, const char* attrName, int numLists, const int* numValues,
                                 const int64_t* const values[]) {
    if (numLists < 0 || (numLists > 0 && (numValues == nullptr || values == nullptr)))
        return fail(ACL_ERROR_INVALID_PARAM,
                    "aclopSetAttrListListInt: lists at a null address, or a negative count");
    std::vector<std::vector<int64_t>> lists;
    for (int i = 0; i < numLists; ++i) lists.emplace_back(values[i], values[i] + numValues[i]);
    return set("aclopSetAttrListListInt", attr, attrName, std::move(lists));
}

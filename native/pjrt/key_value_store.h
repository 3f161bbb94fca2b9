// The caller's key-value store, which all processes of one program share.
#pragma once

#include <string>

#include "pjrt/pjrt_c_api.h"

namespace npu::pjrt {

/// The caller keeps its callbacks as long as the client. Thread-safe as they are.
class KeyValueStore {
  public:
    KeyValueStore() = default;
    explicit KeyValueStore(const PJRT_Client_Create_Args& args)
        : get_(args.kv_get_callback),
          put_(args.kv_put_callback),
          get_user_(args.kv_get_user_arg),
          put_user_(args.kv_put_user_arg) {}

    bool exists() const { return get_ != nullptr && put_ != nullptr; }
    /// Throws Status.
    void put(const std::string& key, const std::string& value) const;
    /// Waits until somebody puts it, for minutes. Throws Status.
    std::string get(const std::string& key) const;

  private:
    KeyValueGet get_ = nullptr;
    KeyValuePut put_ = nullptr;
    void* get_user_ = nullptr;
    void* put_user_ = nullptr;
};

}  // namespace npu::pjrt

// ATen as the emulator uses it: plain CPU arithmetic, whatever the calling thread was doing with torch.
#pragma once

#include <ATen/core/grad_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace npu::emulator {

/// While it lives, the thread's autograd, autocast and Python modes are out of the way.
class AtenScope {
    const c10::impl::ForceDispatchKeyGuard keys_{
        c10::default_included_set,
        c10::default_excluded_set | c10::autograd_dispatch_keyset_with_ADInplaceOrView};
    const at::NoGradGuard no_grad_;
};

}  // namespace npu::emulator

// GE operators that write into one of their inputs: variables and key/value caches. The output is that
// input's memory; where the caller gave it another, both have the new value.
#include "kernels/delegate.h"
#include "kernels/indices.h"
#include "kernels/widen.h"

namespace npu::emulator {
namespace {

using Flag = std::optional<bool>;

void hand_on(const Tensor& ref, const Tensor& out) {
    if (ref.const_data_ptr() != out.const_data_ptr()) write(out, ref);
}

// ref op= value, element by element.
template <class F>
Entry assign(Ge ge, F update) {
    return {ge, [update](const Tensor& ref, const Tensor& value, Flag, const Tensor& out) {
                TORCH_CHECK(ref.sizes() == value.sizes(), "the value has shape ", value.sizes(),
                            ", the variable ", ref.sizes());
                ref.copy_(update(ref, value));
                hand_on(ref, out);
            }};
}

void assign_value(const Tensor& ref, const Tensor& value, Flag, Flag, const Tensor& out) {
    TORCH_CHECK(ref.numel() == value.numel(), "the value has shape ", value.sizes(), ", the variable ",
                ref.sizes());
    ref.copy_(value.reshape(ref.sizes()));
    hand_on(ref, out);
}

// The rows (or elements) of a variable that indices name; updates has a row for each.
Entry scatter(const char* type, const char* aclnn) {
    return {Ge{type, {"use_locking"}}, [aclnn](const Tensor& var, const Tensor& indices,
                                               const Tensor& updates, Flag, const Tensor& out) {
                call_aclnn(aclnn, var, indices, updates);
                hand_on(var, out);
            }};
}
// ... and the same where the aclnn row has a flag for locks.
Entry scatter_locked(const char* type, const char* aclnn) {
    return {Ge{type, {"use_locking"}}, [aclnn](const Tensor& var, const Tensor& indices,
                                               const Tensor& updates, Flag, const Tensor& out) {
                call_aclnn(aclnn, var, indices, updates, false);
                hand_on(var, out);
            }};
}

// Later updates of a row replace earlier ones.
void scatter_update(const Tensor& var, const Tensor& indices, const Tensor& updates, Flag,
                    const Tensor& out) {
    const auto rows = checked_index(indices, var.size(0), 0).reshape({-1});
    auto shape = var.sizes().vec();
    shape[0] = rows.numel();
    var.index_copy_(0, rows, updates.to(var.scalar_type()).reshape(shape));
    hand_on(var, out);
}

void scatter_sub(const Tensor& var, const Tensor& indices, const Tensor& updates, Flag, const Tensor& out) {
    call_aclnn("aclnnTfScatterAdd", var, indices, -updates);
    hand_on(var, out);
}

// The write into a key/value cache: one offset along `axis` for each entry of the first dimension.
void scatter_cache(const Tensor& var, const Tensor& indices, const Tensor& updates, const std::string& reduce,
                   std::optional<int64_t> axis, const Tensor& out) {
    TORCH_CHECK(reduce == "update", "reduce is ", reduce, ", only update exists");
    call_aclnn("aclnnInplaceScatterUpdate", var, indices, updates, axis.value_or(-1));
    hand_on(var, out);
}

void scatter_list(const std::vector<Tensor>& var, const Tensor& indices, const Tensor& updates,
                  const std::optional<Tensor>& mask, const std::optional<std::string>& reduce,
                  std::optional<int64_t> axis, const std::vector<Tensor>& out) {
    call_aclnn("aclnnScatterList", var, indices, updates, mask, reduce.value_or("update"), axis.value_or(-2));
    TORCH_CHECK(var.size() == out.size(), "there are ", out.size(), " outputs for ", var.size(),
                " variables");
    for (std::size_t i = 0; i < var.size(); ++i) hand_on(var[i], out[i]);
}

void index_add(const Tensor& var, const Tensor& indices, const Tensor& updates,
               const std::optional<Tensor>& alpha, int64_t axis, const Tensor& out) {
    const Scalar factor = alpha ? alpha->reshape({}).item() : Scalar(1);
    call_aclnn("aclnnIndexAdd", var, axis, indices, updates, factor, var);
    hand_on(var, out);
}

void adam(const Tensor& var, const Tensor& m, const Tensor& v, const Tensor& power1, const Tensor& power2,
          const Tensor& lr, const Tensor& beta1, const Tensor& beta2, const Tensor& eps, const Tensor& grad,
          Flag nesterov) {
    call_aclnn("aclnnApplyAdam", var, m, v, power1, power2, lr, beta1, beta2, eps, grad, false,
               nesterov.value_or(false));
}

// A position of indexed_sizes that is not 0 has the next of the indices.
void index_put(const Tensor& x, const Tensor& value, IntArrayRef sizes, const std::optional<Tensor>&,
               const std::vector<Tensor>& indices, Flag accumulate, const Tensor& out) {
    std::vector<Tensor> list;
    std::size_t next = 0;
    for (const auto size : sizes) {
        TORCH_CHECK(size == 0 || next < indices.size(), "indexed_sizes ", sizes, " asks for more than the ",
                    indices.size(), " indices");
        list.push_back(size == 0 ? Tensor() : indices[next++]);
    }
    TORCH_CHECK(next == indices.size(), "indexed_sizes ", sizes, " asks for fewer than the ", indices.size(),
                " indices");
    call_aclnn("aclnnIndexPutImpl", x, list, value, accumulate.value_or(false), false);
    hand_on(x, out);
}

const Table table{
    {Ge{"Assign", {"validate_shape", "use_locking"}}, assign_value},
    assign(Ge{"AssignAdd", {"use_locking"}},
           [](const Tensor& ref, const Tensor& value) { return at::add(ref, value); }),
    assign(Ge{"AssignSub", {"use_locking"}},
           [](const Tensor& ref, const Tensor& value) { return at::sub(ref, value); }),
    {Ge{"ScatterUpdate", {"use_locking"}}, scatter_update},
    {Ge{"ScatterSub", {"use_locking"}}, scatter_sub},
    scatter("ScatterAdd", "aclnnTfScatterAdd"),
    scatter("ScatterNdAdd", "aclnnTfScatterAdd"),
    scatter("ScatterNdUpdate", "aclnnScatterNdUpdate"),
    {Ge{"ScatterNdSub", {"use_locking"}}, scatter_sub},
    scatter_locked("ScatterMul", "aclnnScatterMul"),
    scatter_locked("ScatterDiv", "aclnnScatterDiv"),
    {Ge{"ApplyAdam", {"use_locking", "use_nesterov"}},
     [](const Tensor& var, const Tensor& m, const Tensor& v, const Tensor& power1, const Tensor& power2,
        const Tensor& lr, const Tensor& beta1, const Tensor& beta2, const Tensor& eps, const Tensor& grad,
        Flag, Flag nesterov, const Tensor& out) {
         adam(var, m, v, power1, power2, lr, beta1, beta2, eps, grad, nesterov);
         hand_on(var, out);
     }},
    {Ge{"ApplyAdamD", {"use_locking", "use_nesterov"}},
     [](const Tensor& var, const Tensor& m, const Tensor& v, const Tensor& power1, const Tensor& power2,
        const Tensor& lr, const Tensor& beta1, const Tensor& beta2, const Tensor& eps, const Tensor& grad,
        Flag, Flag nesterov, const Tensor& out, const Tensor& new_m, const Tensor& new_v) {
         adam(var, m, v, power1, power2, lr, beta1, beta2, eps, grad, nesterov);
         hand_on(var, out);
         hand_on(m, new_m);
         hand_on(v, new_v);
     }},
    {Ge{"ApplyAdamW", {"amsgrad", "maximize"}},
     [](const Tensor& var, const Tensor& m, const Tensor& v, const Tensor& power1, const Tensor& power2,
        const Tensor& lr, const Tensor& decay, const Tensor& beta1, const Tensor& beta2, const Tensor& eps,
        const Tensor& grad, const std::optional<Tensor>& max_norm, Flag amsgrad, Flag maximize,
        const Tensor& out, const Tensor& new_m, const Tensor& new_v) {
         call_aclnn("aclnnApplyAdamW", var, m, v, power1, power2, lr, decay, beta1, beta2, eps, grad,
                    max_norm, amsgrad.value_or(false), maximize.value_or(false));
         hand_on(var, out);
         hand_on(m, new_m);
         hand_on(v, new_v);
     }},
    scatter_locked("ScatterMax", "aclnnScatterMax"),
    scatter_locked("ScatterMin", "aclnnScatterMin"),
    {Ge{"Scatter", {"reduce", "axis"}}, scatter_cache},
    {Ge{"ScatterList", {"reduce", "axis"}}, scatter_list},
    {Ge{"InplaceIndexAdd", {"axis"}}, index_add},
    {Ge{"IndexPutV2", {"accumulate"}}, index_put},
};

}  // namespace
}  // namespace npu::emulator

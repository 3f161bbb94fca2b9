// Products of groups: every group has rows of x of its own (M), or columns of x and rows of weight (K), or
// tensors of its own. Without quantisation.
#include "kernels/widen.h"

namespace npu::emulator {
namespace {

using Tensors = std::vector<Tensor>;

struct Group {
    int64_t index, begin, size;
};

// groupListType: 0 ends of the groups, 1 sizes, 2 pairs of a group and its size.
std::vector<Group> groups_of(const Tensor& list, int64_t type) {
    const auto values = list.to(at::kLong).contiguous();
    const int64_t* const at = values.const_data_ptr<int64_t>();
    std::vector<Group> groups;
    int64_t begin = 0;
    TORCH_CHECK(type >= 0 && type <= 2, "groupListType is ", type, ", it must be 0, 1 or 2");
    TORCH_CHECK(values.dim() == (type == 2 ? 2 : 1), "groupList has shape ", values.sizes(),
                " for groupListType ", type);
    for (int64_t i = 0; i < values.size(0); ++i) {
        const auto index = type == 2 ? at[2 * i] : i;
        const auto size = type == 0 ? at[i] - begin : type == 1 ? at[i] : at[2 * i + 1];
        TORCH_CHECK(size >= 0, "groupList gives group ", index, " ", size, " rows");
        groups.push_back({index, begin, size});
        begin += size;
    }
    return groups;
}

Tensor part(const Tensors& list, int64_t group, int64_t dims, const char* name) {
    if (list.size() == 1 && list[0].dim() == dims + 1) {
        TORCH_CHECK(group >= 0 && group < list[0].size(0), name, " has ", list[0].size(0), " groups, group ",
                    group, " is asked for");
        return list[0].select(0, group);
    }
    TORCH_CHECK(group >= 0 && group < static_cast<int64_t>(list.size()), name, " has ", list.size(),
                " groups, group ", group, " is asked for");
    return list[group];
}

Tensor activated(const Tensor& value, int64_t activation) {
    switch (activation) {
        case 0:
            return value;
        case 1:
            return at::relu(value);
        case 2:
            return at::gelu(value, "tanh");
        case 4:  // the sigmoid approximation
            return value * at::sigmoid(value * 1.702);
        case 5:
            return at::silu(value);
        default:
            TORCH_CHECK(false, "actType is ", activation, "; known are 0, 1, 2, 4 and 5");
    }
}

void product(const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias, int64_t activation,
             const Tensor& out) {
    if (!bias && activation == 0 && x.scalar_type() == weight.scalar_type() && x.dim() == 2 &&
        out.scalar_type() == x.scalar_type()) {
        return fill(out, [&](Tensor& to) { at::mm_out(to, x, weight); });
    }
    auto value = at::matmul(widen(x), widen(weight));
    if (bias) value = value + widen(*bias);
    write(out, activated(value, activation));
}

struct Problem {
    Tensors x, weight, bias, y;
    int64_t group_type, activation;
    std::optional<std::vector<Group>> groups;

    std::optional<Tensor> bias_of(int64_t group) const {
        return bias.empty() ? std::nullopt : std::optional<Tensor>(part(bias, group, 1, "bias"));
    }

    // Every group has an x of its own; y is one tensor or one per group.
    void by_tensors() const {
        int64_t row = 0;
        for (std::size_t i = 0; i < x.size(); ++i) {
            const auto rows = x[i].size(-2);
            const auto target = y.size() == x.size() ? y[i] : y.at(0).narrow(0, row, rows);
            product(x[i], part(weight, static_cast<int64_t>(i), 2, "weight"),
                    bias_of(static_cast<int64_t>(i)), activation, target);
            row += rows;
        }
    }

    void by_rows() const {
        if (x.size() > 1) return by_tensors();
        int64_t end = 0;
        for (std::size_t i = 0; i < groups->size(); ++i) {
            const auto [group, begin, size] = (*groups)[i];
            end = begin + size;
            TORCH_CHECK(end <= x[0].size(0), "groupList gives ", end, " rows, x has ", x[0].size(0));
            const auto target = y.size() == 1 ? y[0].narrow(0, begin, size) : y.at(i);
            if (size == 0) continue;
            product(x[0].narrow(0, begin, size), part(weight, group, 2, "weight"), bias_of(group), activation,
                    target);
        }
        if (y.size() == 1) y[0].narrow(0, end, y[0].size(0) - end).zero_();  // rows of no group
    }

    void by_columns() const {
        TORCH_CHECK(x.size() == 1 && weight.size() == 1, "groupType 2 needs one x and one weight, got ",
                    x.size(), " and ", weight.size());
        for (std::size_t i = 0; i < groups->size(); ++i) {
            const auto [group, begin, size] = (*groups)[i];
            TORCH_CHECK(begin + size <= x[0].size(1), "groupList gives ", begin + size, " columns, x has ",
                        x[0].size(1));
            const auto target = y.size() == 1 ? y[0].select(0, group) : y.at(i);
            product(x[0].narrow(1, begin, size), weight[0].narrow(0, begin, size), bias_of(group), activation,
                    target);
        }
    }

    void run() const {
        switch (group_type) {
            case -1:
                return by_tensors();
            case 0:
                if (!groups && x.size() > 1) return by_tensors();
                TORCH_CHECK(groups, "groupType 0 needs groupListOptional");
                return by_rows();
            case 2:
                TORCH_CHECK(groups, "groupType 2 needs groupListOptional");
                return by_columns();
            default:
                TORCH_CHECK(false, "groupType is ", group_type, "; known are -1 (none), 0 (M) and 2 (K)");
        }
    }
};

Tensors present(const Tensors& list) {
    Tensors kept;
    for (const auto& tensor : list) {
        if (tensor.defined() && tensor.numel() > 0) kept.push_back(tensor);
    }
    return kept;
}

void grouped(const NamedArgs& args, const char* output, bool list_of_ints, bool has_type) {
    for (const char* name : {"scaleOptional", "offsetOptional", "antiquantScaleOptional",
                             "antiquantOffsetOptional", "perTokenScaleOptional", "activationInputOptional",
                             "activationQuantScaleOptional", "activationQuantOffsetOptional"}) {
        TORCH_CHECK(present(args.get<Tensors>(name, {})).empty(), name,
                    " is given: quantised and activated grouped products are not supported, pass none");
    }
    Problem problem;
    problem.x = args.get<Tensors>("x");
    problem.weight = args.get<Tensors>("weight");
    problem.bias = present(args.get<Tensors>("biasOptional"));
    problem.y = args.get<Tensors>(output);
    problem.activation = args.get<int64_t>("actType", 0);
    std::optional<Tensor> list;
    if (list_of_ints) {
        const auto ends = args.get<IntArrayRef>("groupListOptional");
        if (!ends.empty()) list = at::tensor(ends, at::kLong);
    } else {
        list = args.present("groupListOptional");
    }
    if (list) problem.groups = groups_of(*list, args.get<int64_t>("groupListType", 0));
    problem.group_type = has_type ? args.get<int64_t>("groupType") : list ? 0 : -1;
    problem.run();
}

// y += x by weight, for every range of their common dimension. x is (K, M) where transposeX says so.
void grouped_add(const Tensor& x, const Tensor& weight, const Tensor& list, const Tensor& y, bool transpose_x,
                 bool transpose_weight, int64_t group_type, int64_t list_type) {
    TORCH_CHECK(group_type == 2, "groupType is ", group_type, ": only 2 (K) is supported");
    const auto left = transpose_x ? x.t() : x, right = transpose_weight ? weight.t() : weight;
    const auto groups = groups_of(list, list_type);
    const auto m = left.size(0), n = right.size(1);
    TORCH_CHECK(y.numel() == static_cast<int64_t>(groups.size()) * m * n, "yRef has shape ", y.sizes(),
                ", it must be (", groups.size(), ", ", m, ", ", n, ")");
    const auto sums = y.view({static_cast<int64_t>(groups.size()), m, n});
    for (const auto& [group, begin, size] : groups) {
        const auto target = sums.select(0, group);
        const auto type = wide_type(target.scalar_type());
        write(target, target.to(type) + at::mm(left.narrow(1, begin, size).to(type),
                                               right.narrow(0, begin, size).to(type)));
    }
}

const Table by_ends({"aclnnGroupedMatmul"}, [](const NamedArgs& args) { grouped(args, "y", true, false); });
const Table by_ends_and_type({"aclnnGroupedMatmulV2"},
                             [](const NamedArgs& args) { grouped(args, "y", true, true); });
const Table by_tensor({"aclnnGroupedMatmulV3"},
                      [](const NamedArgs& args) { grouped(args, "y", false, true); });
// The weight's private layout (Nz) is the plain one here.
const Table by_tensor_named_out({"aclnnGroupedMatmulV4", "aclnnGroupedMatmulV5",
                                 "aclnnGroupedMatmulWeightNz"},
                                [](const NamedArgs& args) { grouped(args, "out", false, true); });

const Table table{
    {"aclnnGroupedMatmulAdd",
     [](const Tensor& x, const Tensor& weight, const Tensor& list, const Tensor& y, bool transpose_x,
        bool transpose_weight,
        int64_t type) { grouped_add(x, weight, list, y, transpose_x, transpose_weight, type, 0); }},
    {"aclnnGroupedMatmulAddV2",
     [](const Tensor& x, const Tensor& weight, const Tensor& list, const Tensor& y, bool transpose_x,
        bool transpose_weight, int64_t type, int64_t list_type) {
         grouped_add(x, weight, list, y, transpose_x, transpose_weight, type, list_type);
     }},
};

}  // namespace
}  // namespace npu::emulator

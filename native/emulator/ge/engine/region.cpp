#include "ge/engine/region.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <optional>
#include <set>

#include "ge/engine/fuse.h"
#include "ge/engine/grid.h"
#include "ge/engine/tile_call.h"

namespace npu::ge {
namespace {

// Rows: a call costs about as much as the arithmetic on 16K elements, so tiles are large, though the few that
// are alive at a time fit the L2 cache of a core; and small where the cores would have nothing to share.
constexpr int64_t kFewestOfRows = 16 * 1024, kMostOfRows = 48 * 1024;
constexpr int64_t kBodyElements =
    2 * 1024;                      // 8 KiB: they fit the L1 cache, and a call without tensors is cheap
constexpr int64_t kStretches = 8;  // that a thread takes at least, where there are so many tiles
constexpr int64_t kLongest = 64;   // tiles of a stretch
constexpr std::size_t kStreamedBytes = 16 << 20;  // a result that no cache keeps for its reader

using Sizes = std::vector<int64_t>;

/// A value of the region's body: on which axes it lies, and the memory of one that is known outside.
struct Operand {
    std::vector<bool> present;
    at::Tensor whole;
    Sizes strides;  ///< of `whole`, along each axis
};

Sizes strides_on(const at::Tensor& tensor, const std::vector<std::vector<int>>& axes, const Sizes& domain) {
    Sizes strides(domain.size(), 0);
    for (int64_t dim = 0; dim < tensor.dim(); ++dim) {
        int64_t stride = tensor.stride(dim);
        for (std::size_t i = axes[dim].size(); i-- > 0;) {
            strides[axes[dim][i]] = stride;
            stride *= domain[axes[dim][i]];
        }
    }
    return strides;
}

class Region {
  public:
    Region(const Step& step, const std::function<at::Tensor(int)>& tensor_of)
        : body_(*step.bodies.front()), domain_(step.domain), rows_(step.rows) {
        for (const Value& value : body_.values) {
            operands_.emplace_back();
            for (const int64_t size : value.type.dims) operands_.back().present.push_back(size != 1);
        }
        const auto attach = [&](int value, int number, const std::vector<std::vector<int>>& axes) {
            operands_[value].whole = tensor_of(number);
            operands_[value].strides = strides_on(operands_[value].whole, axes, domain_);
        };
        for (std::size_t i = 0; i < step.inputs.size(); ++i)
            attach(body_.inputs[i], step.inputs[i], step.input_axes[i]);
        for (std::size_t i = 0; i < step.outputs.size(); ++i)
            attach(body_.results[i], step.outputs[i], step.output_axes[i]);
        join_axes();
        last_use_ = last_uses();
        const int64_t all = c10::multiply_integers(domain_);
        bodies_ = std::ranges::all_of(body_.steps, [&](const Step& each) { return body_of(each); });
        const int64_t of_rows = std::clamp<int64_t>(all / at::get_num_threads(), kFewestOfRows, kMostOfRows);
        grid_ = Grid(domain_, rows_, bodies_ ? kBodyElements : of_rows, across());
    }

    void run() {
        ++run_;
        if (workers_.size() < static_cast<std::size_t>(at::get_num_threads()))
            workers_.resize(at::get_num_threads());
        // Threads take the next stretch when they are done with theirs: a core that others use too holds
        // nobody up.
        std::atomic<int64_t> next{0};
        const int64_t threads = std::min<int64_t>(at::get_num_threads(), grid_.tiles);
        const int64_t stretch = std::clamp<int64_t>(grid_.tiles / (threads * kStretches + 1), 1, kLongest);
        at::parallel_for(0, threads, 1, [&](int64_t, int64_t) {
            Worker& worker = workers_[at::get_thread_num()];
            for (int64_t begin; (begin = next.fetch_add(stretch)) < grid_.tiles;) {
                for (int64_t tile = begin; tile < std::min(begin + stretch, grid_.tiles); ++tile)
                    run_tile(worker, tile);
            }
            emulator::tile::fence();
        });
    }

  private:
    /// A window whose next tile follows the present one in memory.
    struct Ahead {
        Spot spot;
        std::size_t bytes;  ///< of a tile
    };
    /// Calls on tiles of one size, with buffers of their own.
    struct Calls {
        Sizes sizes;
        std::vector<Call> once, calls;                       ///< in each run, and for each tile
        std::map<int, Window> windows;                       ///< by value
        std::map<int, at::Tensor> tensors;                   ///< dense but those on windows of inputs
        std::map<std::pair<int, Sizes>, at::Tensor> loaded;  ///< dense copies
        std::vector<Ahead> ahead;
        std::vector<at::Tensor> kept;  ///< what tile bodies compute in
        uint64_t run = 0;
    };
    struct Worker {
        Tile tile;
        std::map<uint64_t, std::unique_ptr<Calls>> calls;  ///< by which axes end with the tile
    };

    /// Makes one axis of neighbours that nothing tells apart.
    void join_axes() {
        for (std::size_t i = domain_.size() - 1; i-- > 0;) {
            if ((i < rows_) != (i + 1 < rows_)) continue;
            if (!std::ranges::all_of(operands_, [&](const Operand& operand) {
                    return operand.present[i] == operand.present[i + 1] &&
                           (!operand.whole.defined() || !operand.present[i] ||
                            operand.strides[i] == operand.strides[i + 1] * domain_[i + 1]);
                }))
                continue;
            domain_[i + 1] *= domain_[i];
            domain_.erase(domain_.begin() + static_cast<int64_t>(i));
            rows_ -= i < rows_;
            for (Operand& operand : operands_) {
                operand.present.erase(operand.present.begin() + static_cast<int64_t>(i));
                if (operand.whole.defined())
                    operand.strides.erase(operand.strides.begin() + static_cast<int64_t>(i));
            }
        }
    }

    /// An axis along which some memory is dense that lies across the others.
    std::optional<std::size_t> across() const {
        for (const Operand& operand : operands_) {
            if (!operand.whole.defined() || operand.strides.back() == 0 || operand.strides.back() == 1)
                continue;
            for (std::size_t i = 0; i + 1 < domain_.size() && i < rows_; ++i)
                if (operand.strides[i] == 1) return i;
        }
        return std::nullopt;
    }

    at::ScalarType type_of(int value) const { return scalar_type(body_.values[value].type.dtype); }
    bool is_outside(int value) const { return operands_[value].whole.defined(); }
    bool is_input(int value) const { return body_.values[value].place == Place::input; }

    emulator::tile::Body body_of(const Step& step) const {
        std::vector<at::ScalarType> types;
        for (const int input : step.inputs) {
            if (input < 0) return nullptr;
            types.push_back(type_of(input));
        }
        if (types.size() > TileCall::kMostInputs) return nullptr;
        return emulator::tile::find(step.op->name, types, type_of(step.outputs[0]));
    }

    std::map<int, std::size_t> last_uses() const {
        std::map<int, std::size_t> uses;
        for (std::size_t i = 0; i < body_.steps.size(); ++i) {
            uses.emplace(body_.steps[i].outputs[0], i);
            for (const int input : body_.steps[i].inputs)
                if (input >= 0) uses[input] = i;
        }
        return uses;
    }

    void run_tile(Worker& worker, int64_t tile) {
        grid_.place(tile, worker.tile);
        auto& calls = worker.calls[worker.tile.last];
        if (!calls) calls = make_calls(grid_.sizes(worker.tile));
        for (auto& [value, window] : calls->windows) window.move(worker.tile);
        const auto run = [](const Call& call) { std::visit([](const auto& each) { each.run(); }, call); };
        if (std::exchange(calls->run, run_) != run_) std::ranges::for_each(calls->once, run);
        const std::size_t count = calls->calls.size();
        for (std::size_t i = 0; i < count; ++i) {
            for (const Ahead& ahead : calls->ahead) fetch_part(ahead, i, count);
            run(calls->calls[i]);
        }
    }

    /// Asks for a share of what the next tile reads, between calls that compute: the machine's own prefetcher
    /// stops at each page.
    static void fetch_part(const Ahead& ahead, std::size_t part, std::size_t parts) {
        constexpr std::size_t kLine = 64;
        const std::byte* const next = ahead.spot.address() + ahead.bytes;
        const std::size_t lines = ahead.bytes / kLine;
        for (std::size_t line = lines * part / parts; line < lines * (part + 1) / parts; ++line)
            __builtin_prefetch(next + line * kLine);
    }

    /// The sizes of a value in a tile.
    Sizes sizes_of(int value, const Sizes& tile) const {
        Sizes sizes = tile;
        for (std::size_t i = 0; i < sizes.size(); ++i)
            if (!operands_[value].present[i]) sizes[i] = 1;
        return sizes;
    }

    std::unique_ptr<Calls> make_calls(Sizes sizes) const {
        auto calls = std::make_unique<Calls>();
        calls->sizes = std::move(sizes);
        for (std::size_t i = 0; i < operands_.size(); ++i)
            if (is_outside(static_cast<int>(i))) open_window(static_cast<int>(i), *calls);
        std::map<std::pair<Sizes, at::ScalarType>, std::vector<at::Tensor>> idle;
        for (std::size_t i = 0; i < body_.steps.size(); ++i) {
            const Step& step = body_.steps[i];
            std::vector<at::Tensor> inputs;
            for (const int input : step.inputs)
                inputs.push_back(input < 0 ? at::Tensor() : calls->tensors.at(input));
            const auto release = [&] {
                for (const int input : step.inputs) {
                    if (input < 0 || is_outside(input) || last_use_.at(input) != i ||
                        !calls->tensors.at(input).defined())
                        continue;
                    at::Tensor buffer = std::exchange(calls->tensors[input], {});
                    idle[{buffer.sizes().vec(), buffer.scalar_type()}].push_back(std::move(buffer));
                }
            };
            if (step.kernel->elementwise) release();
            const int output = step.outputs[0];
            at::Tensor& target = calls->tensors[output];
            if (!target.defined()) {
                const Sizes dims = sizes_of(output, calls->sizes);
                auto& pool = idle[{dims, type_of(output)}];
                if (pool.empty()) pool.push_back(at::empty(dims, at::TensorOptions().dtype(type_of(output))));
                target = std::move(pool.back());
                pool.pop_back();
            }
            if (!step.kernel->elementwise) release();
            add_call(i, inputs, *calls);
            if (is_outside(output) && !on_window(output, *calls)) add_store(output, *calls);
        }
        return calls;
    }

    void open_window(int value, Calls& calls) const {
        const Operand& operand = operands_[value];
        Window& window =
            calls.windows.try_emplace(value, operand.whole, operand.strides, grid_).first->second;
        const Sizes sizes = sizes_of(value, calls.sizes);
        if (is_input(value)) {
            const bool one =
                operand.whole.numel() == 1 && operand.whole.dim() <= static_cast<int64_t>(domain_.size());
            calls.tensors[value] = one ? operand.whole : window.view(sizes, window.strides());
        } else if (is_dense(sizes, window.strides())) {
            calls.tensors[value] = window.view(sizes, dense_strides(sizes));
        }
        if (bodies_ && domain_.size() == 1 && is_input(value) && operand.strides[0] != 0)
            calls.ahead.push_back({spot(value, operand.whole, calls),
                                   static_cast<std::size_t>(operand.whole.element_size() * kBodyElements)});
    }

    bool on_window(int value, const Calls& calls) const {
        const auto found = calls.windows.find(value);
        return found != calls.windows.end() &&
               (is_input(value) || is_dense(sizes_of(value, calls.sizes), found->second.strides()));
    }

    /// Where the tensor of a value lies.
    Spot spot(int value, const at::Tensor& tensor, Calls& calls) const {
        if (on_window(value, calls)) return {nullptr, calls.windows.at(value).address()};
        return fixed(tensor, calls);
    }
    static Spot fixed(const at::Tensor& tensor, Calls& calls) {
        calls.kept.push_back(tensor);
        return {static_cast<std::byte*>(tensor.mutable_data_ptr())};
    }

    void add_call(std::size_t i, const std::vector<at::Tensor>& inputs, Calls& calls) const {
        const Step& step = body_.steps[i];
        if (is_reduction(step)) return add_reduction(step, inputs[0], calls);
        // Made in any case: it is what refuses attributes.
        aclop::RowCall row(*step.kernel, inputs, step.row_attributes,
                           std::vector<emulator::TensorArg>{{calls.tensors.at(step.outputs[0])}}, step.spans);
        auto tile = tile_call(i, inputs, calls);
        if (!tile) {
            calls.calls.emplace_back(std::move(row));
        } else if (!continues(i, *tile, calls.calls)) {
            calls.calls.emplace_back(*std::move(tile));
        }
    }

    /// What is reduced comes last, in one piece: a matrix whose rows are reduced.
    void add_reduction(const Step& step, const at::Tensor& source, Calls& calls) const {
        const at::Tensor& target = calls.tensors.at(step.outputs[0]);
        const Sizes sizes{target.numel(), source.numel() / target.numel()};
        const at::Tensor rows = source.is_contiguous()
                                    ? matrix(step.inputs[0], source, sizes, calls)
                                    : load(step.inputs[0], source, source.sizes().vec(), calls).view(sizes);
        std::vector<at::Tensor> inputs{rows};
        aclop::AttributeValues attributes = step.row_attributes;
        attributes["keep_dims"] = true;
        if (step.inputs.size() > 1) {
            inputs.push_back(at::ones({1}, at::kLong));
        } else {
            attributes["axes"] = std::vector<int64_t>{1};
        }
        const emulator::TensorArg result{matrix(step.outputs[0], target, {sizes[0], 1}, calls)};
        calls.calls.emplace_back(aclop::RowCall(*step.kernel, inputs, attributes, {result}));
    }

    /// A dense tensor of a value under other sizes.
    at::Tensor matrix(int value, const at::Tensor& tensor, const Sizes& sizes, Calls& calls) const {
        return on_window(value, calls) ? calls.windows.at(value).view(sizes, dense_strides(sizes))
                                       : tensor.view(sizes);
    }

    /// The step as a call of its tile body, with copies of operands that are not dense before it.
    std::optional<TileCall> tile_call(std::size_t i, const std::vector<at::Tensor>& inputs,
                                      Calls& calls) const {
        const Step& step = body_.steps[i];
        const int number = step.outputs[0];
        const at::Tensor& output = calls.tensors.at(number);
        const auto body = body_of(step);
        if (body == nullptr) return std::nullopt;
        const Sizes sizes = output.sizes().vec();
        std::vector<TileCall::Input> sources;
        for (std::size_t k = 0; k < inputs.size(); ++k) {
            const int input = step.inputs[k];
            const bool single = inputs[k].numel() == 1 && output.numel() != 1;
            const bool ready = single || inputs[k].numel() == 1 ||
                               (inputs[k].sizes() == output.sizes() && inputs[k].is_contiguous());
            sources.push_back(
                {ready ? spot(input, inputs[k], calls) : fixed(load(input, inputs[k], sizes, calls), calls),
                 single});
        }
        std::byte* scratch = nullptr;
        if (last_use_.at(number) == i && on_window(number, calls) &&
            operands_[number].whole.nbytes() >= kStreamedBytes)
            scratch = fixed(at::empty_like(output), calls).fixed;
        const bool linked = output.scalar_type() == at::kFloat && step.op->name != "Cast";
        const int code = linked ? emulator::tile::link_code(step.op->name) : -1;
        return TileCall(body, code, std::move(sources), spot(number, output, calls), output.numel(),
                        output.element_size(), scratch);
    }

    /// A dense copy of an operand, with an element for each of `sizes`.
    at::Tensor load(int value, const at::Tensor& source, const Sizes& sizes, Calls& calls) const {
        at::Tensor& dense = calls.loaded[{value, sizes}];
        if (dense.defined()) return dense;
        dense = at::empty(sizes, at::TensorOptions().dtype(type_of(value)));
        const bool stays = is_input(value) && !calls.windows.at(value).moves();
        (stays ? calls.once : calls.calls)
            .emplace_back(MoveCall(move(sizes, dense_strides(sizes), source.strides().vec(),
                                        source.sizes().vec(), dense.element_size()),
                                   {static_cast<std::byte*>(dense.mutable_data_ptr())},
                                   spot(value, source, calls)));
        return dense;
    }

    /// What was computed, to where it belongs.
    void add_store(int value, Calls& calls) const {
        const Sizes sizes = sizes_of(value, calls.sizes);
        const Window& window = calls.windows.at(value);
        calls.calls.emplace_back(MoveCall(
            move(sizes, window.strides(), dense_strides(sizes), sizes, operands_[value].whole.element_size()),
            {nullptr, window.address()}, fixed(calls.tensors.at(value), calls)));
    }

    static emulator::tile::Move move(const Sizes& sizes, const Sizes& to, const Sizes& from, const Sizes& own,
                                     std::size_t element) {
        const auto bytes = static_cast<int64_t>(element);
        std::vector<emulator::tile::Move::Axis> axes;
        for (std::size_t i = 0; i < sizes.size(); ++i)
            axes.push_back({sizes[i], to[i] * bytes, own[i] == 1 ? 0 : from[i] * bytes});
        return {std::move(axes), element};
    }

    /// Whether step i, whose call this is, has become part of the call of the step before.
    bool continues(std::size_t i, const TileCall& call, std::vector<Call>& calls) const {
        auto* before = calls.empty() ? nullptr : std::get_if<TileCall>(&calls.back());
        if (before == nullptr) return false;
        const int between = body_.steps[i - 1].outputs[0];
        const auto& inputs = body_.steps[i].inputs;
        if (is_outside(between) || last_use_.at(between) != i || std::ranges::count(inputs, between) != 1)
            return false;
        return before->absorb(call, std::ranges::find(inputs, between) - inputs.begin());
    }

    const Program& body_;
    Sizes domain_;
    std::size_t rows_;
    std::vector<Operand> operands_;
    std::map<int, std::size_t> last_use_;
    bool bodies_ = false;  ///< every step has a tile body
    Grid grid_;
    uint64_t run_ = 0;
    std::vector<Worker> workers_;
};

}  // namespace

std::function<void()> bind_region(const Step& step, const std::function<at::Tensor(int)>& tensor_of) {
    return [region = std::make_shared<Region>(step, tensor_of)] { region->run(); };
}

}  // namespace npu::ge

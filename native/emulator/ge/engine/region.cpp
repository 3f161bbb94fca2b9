#include "ge/engine/region.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <optional>

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

/// How tiles cut the domain: all dimensions before `cut` at one index, `extent` indices of `cut`, the rest
/// whole.
struct Grid {
    std::vector<int64_t> domain;
    int64_t elements;  ///< that a tile should have
    std::size_t cut = 0;
    int64_t extent = 1;
    int64_t ranges = 1;  ///< pieces of the cut dimension
    int64_t tiles = 1;

    Grid(std::vector<int64_t> sizes, std::size_t rows, int64_t size)
        : domain(std::move(sizes)), elements(size) {
        int64_t inner = 1;
        for (std::size_t i = rows; i < domain.size(); ++i) inner *= domain[i];
        cut = rows - 1;
        while (cut > 0 && inner * domain[cut] <= elements) inner *= domain[cut--];
        extent =
            std::clamp<int64_t>(elements / std::max<int64_t>(inner, 1), 1, std::max<int64_t>(domain[cut], 1));
        ranges = (domain[cut] + extent - 1) / extent;
        tiles = ranges;
        for (std::size_t i = 0; i < cut; ++i) tiles *= domain[i];
    }

    int64_t start(int64_t tile) const { return tile % ranges * extent; }
    int64_t size(int64_t tile) const { return std::min(extent, domain[cut] - start(tile)); }
};

/// Sizes and strides as if the tensor had the domain's number of dimensions.
struct Aligned {
    std::vector<int64_t> sizes, strides;
    Aligned(const at::Tensor& tensor, std::size_t rank) : sizes(rank, 1), strides(rank, 0) {
        const std::size_t shift = rank - tensor.dim();
        for (int64_t i = 0; i < tensor.dim(); ++i) {
            sizes[shift + i] = tensor.size(i);
            strides[shift + i] = tensor.size(i) == 1 ? 0 : tensor.stride(i);
        }
    }
};

/// A window on a tensor outside the region, moved from tile to tile.
class Window {
  public:
    Window(const at::Tensor& whole, const Grid& grid, int64_t extent)
        : grid_(&grid),
          base_(whole.storage_offset()),
          bytes_(static_cast<std::byte*>(const_cast<void*>(whole.const_data_ptr()))),
          address_(bytes_),
          element_size_(static_cast<int64_t>(whole.element_size())) {
        const Aligned aligned(whole, grid.domain.size());
        std::vector<int64_t> sizes = aligned.sizes;
        for (std::size_t i = 0; i <= grid.cut; ++i) {
            moves_ = moves_ || aligned.strides[i] != 0;
            if (sizes[i] != 1) sizes[i] = i == grid.cut ? extent : 1;
        }
        strides_.assign(aligned.strides.begin(),
                        aligned.strides.begin() + static_cast<int64_t>(grid.cut) + 1);
        // One element repeated along the cut (strides of 0) has a window too, which stays.
        view_ = moves_ || sizes != aligned.sizes ? whole.as_strided(sizes, aligned.strides, base_) : whole;
    }

    void move(int64_t tile) {
        if (!moves_) return;
        int64_t offset = base_ + grid_->start(tile) * strides_[grid_->cut];
        int64_t outer = tile / grid_->ranges;
        for (std::size_t i = grid_->cut; i-- > 0;) {
            offset += outer % grid_->domain[i] * strides_[i];
            outer /= grid_->domain[i];
        }
        view_.unsafeGetTensorImpl()->set_storage_offset(offset);
        address_ = bytes_ + (offset - base_) * element_size_;
    }

    const at::Tensor& view() const { return view_; }
    Spot spot() const { return {nullptr, &address_}; }  ///< as long as the window stays in its place

  private:
    const Grid* grid_;
    at::Tensor view_;
    std::vector<int64_t> strides_;
    int64_t base_;
    std::byte* bytes_;    ///< of the whole
    std::byte* address_;  ///< of the view
    int64_t element_size_;
    bool moves_ = false;
};

class Region {
  public:
    Region(const Program& program, const Step& step, const std::function<at::Tensor(int)>& tensor_of)
        : program_(program), steps_(step.bodies.front()->steps), grid_(flatten(step, tensor_of)) {
        last_use_ = last_uses();
    }

    void run() {
        if (workers_.size() < static_cast<std::size_t>(at::get_num_threads()))
            workers_.resize(at::get_num_threads());
        // Threads take the next stretch when they are done with theirs: a core that others use too holds
        // nobody up.
        std::atomic<int64_t> next{0};
        const int64_t threads = std::min<int64_t>(at::get_num_threads(), grid_.tiles);
        const int64_t stretch = std::clamp<int64_t>(grid_.tiles / (threads * kStretches + 1), 1, kLongest);
        at::parallel_for(0, threads, 1, [&](int64_t, int64_t) {
            auto& worker = workers_[at::get_thread_num()];
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
        std::vector<Call> calls;
        std::vector<Window> windows;
        std::map<int, Spot> spots;  ///< of windows, by value
        std::vector<Ahead> ahead;
        std::vector<at::Tensor> kept;  ///< what tile bodies compute in
    };
    using Worker =
        std::map<int64_t, std::unique_ptr<Calls>>;  ///< by extent: the usual one, and that of the last tile

    /// Takes the memory of inputs and outputs; one-dimensional where nothing tells the dimensions apart.
    Grid flatten(const Step& step, const std::function<at::Tensor(int)>& tensor_of) {
        const int64_t all = c10::multiply_integers(step.domain);
        const int64_t of_rows = std::clamp<int64_t>(all / at::get_num_threads(), kFewestOfRows, kMostOfRows);
        bool flat = step.rows == step.domain.size();
        for (const auto* numbers : {&step.inputs, &step.outputs}) {
            for (const int number : *numbers) {
                const at::Tensor tensor = tensor_of(number);
                flat = flat && (tensor.numel() == 1 ||
                                (tensor.is_contiguous() && tensor.sizes() == at::IntArrayRef(step.domain)));
                outside_.emplace(number, tensor);
            }
        }
        if (!flat) return Grid(step.domain, step.rows, of_rows);
        flat_ = true;
        for (auto& [number, tensor] : outside_) tensor = tensor.reshape({-1});
        const bool bodies = std::ranges::all_of(steps_, [&](const Step& each) { return body_of(each); });
        return Grid({all}, 1, bodies ? kBodyElements : of_rows);
    }

    emulator::tile::Body body_of(const Step& step) const {
        std::vector<at::ScalarType> types;
        for (const int input : step.inputs) {
            if (input < 0) return nullptr;
            types.push_back(scalar_type(program_.values[input].type.dtype));
        }
        if (types.size() > TileCall::kMostInputs) return nullptr;
        return emulator::tile::find(step.op->name, types,
                                    scalar_type(program_.values[step.outputs[0]].type.dtype));
    }

    /// The step as a call of its tile body. Nothing where it has none, or where this tile's memory has gaps
    /// or broadcasts otherwise than a single element.
    std::optional<TileCall> tile_call(const Step& step, const std::vector<at::Tensor>& inputs,
                                      const at::Tensor& output, bool read_again, Calls& calls) const {
        const auto body = body_of(step);
        if (body == nullptr || !output.is_contiguous()) return std::nullopt;
        const auto spot = [&](int number, const at::Tensor& tensor) {
            const auto window = calls.spots.find(number);
            if (window != calls.spots.end()) return window->second;
            calls.kept.push_back(tensor);
            return Spot{static_cast<std::byte*>(tensor.mutable_data_ptr())};
        };
        std::vector<TileCall::Input> sources;
        for (std::size_t i = 0; i < inputs.size(); ++i) {
            const bool single = inputs[i].numel() == 1 && output.numel() != 1;
            if (!single && !(inputs[i].is_contiguous() && inputs[i].sizes() == output.sizes()))
                return std::nullopt;
            sources.push_back({spot(step.inputs[i], inputs[i]), single});
        }
        const int number = step.outputs[0];
        std::byte* scratch = nullptr;
        if (!read_again && outside_.contains(number) && outside_.at(number).nbytes() >= kStreamedBytes) {
            calls.kept.push_back(at::empty_like(output));
            scratch = static_cast<std::byte*>(calls.kept.back().mutable_data_ptr());
        }
        const bool linked = output.scalar_type() == at::kFloat && step.op->name != "Cast";
        const int code = linked ? emulator::tile::link_code(step.op->name) : -1;
        return TileCall(body, code, std::move(sources), spot(number, output), output.numel(),
                        output.element_size(), scratch);
    }

    std::map<int, std::size_t> last_uses() const {
        std::map<int, std::size_t> uses;
        for (std::size_t i = 0; i < steps_.size(); ++i) {
            uses.emplace(steps_[i].outputs[0], i);
            for (const int input : steps_[i].inputs)
                if (input >= 0) uses[input] = i;
        }
        return uses;
    }

    void run_tile(Worker& worker, int64_t tile) {
        auto& calls = worker[grid_.size(tile)];
        if (!calls) calls = make_calls(grid_.size(tile));
        for (Window& window : calls->windows) window.move(tile);
        const std::size_t count = calls->calls.size();
        for (std::size_t i = 0; i < count; ++i) {
            for (const Ahead& ahead : calls->ahead) fetch_part(ahead, i, count);
            std::visit([](const auto& each) { each.run(); }, calls->calls[i]);
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

    TensorType tile_type(int value, int64_t extent) const {
        TensorType type = program_.values[value].type;
        if (flat_) {
            type.dims = {extent};
            return type;
        }
        for (std::size_t i = 0; i <= grid_.cut; ++i)
            if (type.dims[i] != 1) type.dims[i] = i == grid_.cut ? extent : 1;
        return type;
    }

    std::unique_ptr<Calls> make_calls(int64_t extent) const {
        auto calls = std::make_unique<Calls>();
        std::map<int, at::Tensor> tensors;
        calls->windows.reserve(outside_.size());
        for (const auto& [number, whole] : outside_) {
            calls->windows.emplace_back(whole, grid_, extent);
            tensors[number] = calls->windows.back().view();
            calls->spots[number] = calls->windows.back().spot();
            if (grid_.elements == kBodyElements && whole.numel() != 1 && reads(number))
                calls->ahead.push_back({calls->windows.back().spot(),
                                        static_cast<std::size_t>(whole.element_size() * kBodyElements)});
        }
        std::map<std::pair<std::vector<int64_t>, graph::DataType>, std::vector<at::Tensor>> idle;
        for (std::size_t i = 0; i < steps_.size(); ++i) {
            const Step& step = steps_[i];
            std::vector<at::Tensor> inputs;
            for (const int input : step.inputs)
                inputs.push_back(input < 0 ? at::Tensor() : tensors.at(input));
            const bool in_place = step.kernel->elementwise;
            const auto release = [&] {
                for (const int input : step.inputs) {
                    if (input < 0 || outside_.contains(input) || last_use_.at(input) != i ||
                        !released(tensors, input))
                        continue;
                    const TensorType type = tile_type(input, extent);
                    idle[{type.dims, type.dtype}].push_back(std::exchange(tensors[input], {}));
                }
            };
            if (in_place) release();
            const int output = step.outputs[0];
            if (!outside_.contains(output)) {
                const TensorType type = tile_type(output, extent);
                auto& pool = idle[{type.dims, type.dtype}];
                if (pool.empty()) pool.push_back(empty(type));
                tensors[output] = std::move(pool.back());
                pool.pop_back();
            }
            if (!in_place) release();
            // Made in any case: it is what refuses attributes.
            aclop::RowCall row(*step.kernel, inputs, step.row_attributes,
                               std::vector<emulator::TensorArg>{{tensors.at(output)}}, step.spans);
            auto tile = tile_call(step, inputs, tensors.at(output), last_use_.at(output) != i, *calls);
            if (!tile) {
                calls->calls.emplace_back(std::move(row));
            } else if (!continues(i, *tile, calls->calls)) {
                calls->calls.emplace_back(*std::move(tile));
            }
        }
        return calls;
    }

    /// Whether step i, whose call this is, has become part of the call of the step before.
    bool continues(std::size_t i, const TileCall& call, std::vector<Call>& calls) const {
        auto* before = calls.empty() ? nullptr : std::get_if<TileCall>(&calls.back());
        if (before == nullptr) return false;
        const int between = steps_[i - 1].outputs[0];
        const auto& inputs = steps_[i].inputs;
        if (outside_.contains(between) || last_use_.at(between) != i ||
            std::ranges::count(inputs, between) != 1)
            return false;
        return before->absorb(call, std::ranges::find(inputs, between) - inputs.begin());
    }

    /// Whether it comes from outside.
    bool reads(int number) const {
        return std::ranges::none_of(steps_, [&](const Step& step) { return step.outputs[0] == number; });
    }

    static bool released(const std::map<int, at::Tensor>& tensors, int input) {
        return tensors.at(input).defined();
    }

    const Program& program_;
    const std::vector<Step>& steps_;
    std::map<int, at::Tensor> outside_;
    bool flat_ = false;
    Grid grid_;
    std::map<int, std::size_t> last_use_;
    std::vector<Worker> workers_;
};

}  // namespace

std::function<void()> bind_region(const Program& program, const Step& step,
                                  const std::function<at::Tensor(int)>& tensor_of) {
    return [region = std::make_shared<Region>(program, step, tensor_of)] { region->run(); };
}

}  // namespace npu::ge

#include "ge/engine/region.h"

#include <ATen/Parallel.h>

#include <cstring>
#include <map>
#include <set>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace npu::ge {
namespace {

// A call on a tile costs about as much as the arithmetic on 16K elements: large tiles, of which the few that
// are alive at a time still fit the L2 cache of a core; small ones where the cores would have nothing to
// share.
constexpr int64_t kSmallestTile = 16 * 1024, kLargestTile = 48 * 1024;  // elements

int64_t tile_elements(int64_t all) {
    return std::clamp<int64_t>(all / at::get_num_threads(), kSmallestTile, kLargestTile);
}

/// Outputs from this size on leave the caches before anybody reads them: writing past the caches saves
/// reading each line first.
constexpr std::size_t kStreamedBytes = 16 << 20;

/// memcpy that leaves nothing of the target in the caches.
void stream_bytes(void* target, const void* source, std::size_t size) {
#ifdef __SSE2__
    auto* to = static_cast<std::byte*>(target);
    const auto* from = static_cast<const std::byte*>(source);
    const std::size_t head = std::min<std::size_t>(-reinterpret_cast<std::uintptr_t>(to) % 16, size);
    std::memcpy(to, from, head);
    std::size_t at = head;
    for (; at + 64 <= size; at += 64) {
        for (std::size_t lane = 0; lane < 64; lane += 16)
            _mm_stream_si128(reinterpret_cast<__m128i*>(to + at + lane),
                             _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + at + lane)));
    }
    std::memcpy(to + at, from + at, size - at);
    _mm_sfence();
#else
    std::memcpy(target, source, size);
#endif
}

/// How tiles cut the domain: all dimensions before `cut` at one index, `extent` indices of `cut`, the rest
/// whole.
struct Grid {
    std::vector<int64_t> domain;
    std::size_t cut = 0;
    int64_t extent = 1;
    int64_t ranges = 1;  ///< pieces of the cut dimension
    int64_t tiles = 1;

    Grid(std::vector<int64_t> sizes, std::size_t rows) : domain(std::move(sizes)) {
        const int64_t most = tile_elements(c10::multiply_integers(domain));
        int64_t inner = 1;
        for (std::size_t i = rows; i < domain.size(); ++i) inner *= domain[i];
        cut = rows - 1;
        while (cut > 0 && inner * domain[cut] <= most) inner *= domain[cut--];
        extent =
            std::clamp<int64_t>(most / std::max<int64_t>(inner, 1), 1, std::max<int64_t>(domain[cut], 1));
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
        : grid_(&grid), base_(whole.storage_offset()) {
        const Aligned aligned(whole, grid.domain.size());
        std::vector<int64_t> sizes = aligned.sizes;
        for (std::size_t i = 0; i <= grid.cut; ++i) {
            moves_ = moves_ || aligned.strides[i] != 0;
            if (sizes[i] != 1) sizes[i] = i == grid.cut ? extent : 1;
        }
        strides_.assign(aligned.strides.begin(),
                        aligned.strides.begin() + static_cast<int64_t>(grid.cut) + 1);
        view_ = moves_ ? whole.as_strided(sizes, aligned.strides, base_) : whole;
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
    }

    const at::Tensor& view() const { return view_; }

  private:
    const Grid* grid_;
    at::Tensor view_;
    std::vector<int64_t> strides_;
    int64_t base_;
    bool moves_ = false;
};

class Region {
  public:
    Region(const Program& program, const Step& step, const std::function<at::Tensor(int)>& tensor_of)
        : program_(program),
          steps_(step.bodies.front()->steps),
          outputs_(step.outputs.begin(), step.outputs.end()),
          grid_(flatten(step, tensor_of)) {
        last_use_ = last_uses();
    }

    void run() {
        if (workers_.size() < static_cast<std::size_t>(at::get_num_threads()))
            workers_.resize(at::get_num_threads());
        at::parallel_for(0, grid_.tiles, 1, [&](int64_t begin, int64_t end) {
            auto& worker = workers_[at::get_thread_num()];
            for (int64_t tile = begin; tile < end; ++tile) run_tile(worker, tile);
        });
    }

  private:
    /// Calls on tiles of one size, with buffers of their own.
    struct Calls {
        std::vector<aclop::RowCall> rows;
        std::vector<Window> windows;
        /// Tiles of outputs, and the number of the window on the output that each is streamed to.
        std::vector<std::pair<at::Tensor, std::size_t>> streamed;
    };
    using Worker =
        std::map<int64_t, std::unique_ptr<Calls>>;  ///< by extent: the usual one, and that of the last tile

    /// Takes the memory of inputs and outputs; one-dimensional where nothing tells the dimensions apart.
    Grid flatten(const Step& step, const std::function<at::Tensor(int)>& tensor_of) {
        bool flat = step.rows == step.domain.size();
        for (const auto* numbers : {&step.inputs, &step.outputs}) {
            for (const int number : *numbers) {
                const at::Tensor tensor = tensor_of(number);
                flat = flat && (tensor.numel() == 1 ||
                                (tensor.is_contiguous() && tensor.sizes() == at::IntArrayRef(step.domain)));
                outside_.emplace(number, tensor);
            }
        }
        if (!flat) return Grid(step.domain, step.rows);
        flat_ = true;
        for (auto& [number, tensor] : outside_) tensor = tensor.reshape({-1});
        return Grid({c10::multiply_integers(step.domain)}, 1);
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
        for (const auto& row : calls->rows) row.run();
        for (const auto& [result, window] : calls->streamed) {
            const at::Tensor& target = calls->windows[window].view();
            stream_bytes(target.mutable_data_ptr(), result.const_data_ptr(), result.nbytes());
        }
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
            const at::Tensor& view = calls->windows.back().view();
            tensors[number] = view;
            if (!outputs_.contains(number) || whole.nbytes() < kStreamedBytes || !view.is_contiguous())
                continue;
            tensors[number] = at::empty(view.sizes(), view.options());
            calls->streamed.emplace_back(tensors[number], calls->windows.size() - 1);
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
            calls->rows.emplace_back(*step.kernel, inputs, step.row_attributes,
                                     std::vector<emulator::TensorArg>{{tensors.at(output)}}, step.spans);
        }
        return calls;
    }

    static bool released(const std::map<int, at::Tensor>& tensors, int input) {
        return tensors.at(input).defined();
    }

    const Program& program_;
    const std::vector<Step>& steps_;
    const std::set<int> outputs_;
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

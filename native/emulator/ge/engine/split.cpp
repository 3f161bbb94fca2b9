#include "ge/engine/split.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <list>
#include <map>
#include <set>

#include "ge/engine/split_rules.h"
#include "ge/engine/static_run.h"
#include "ge/engine/views.h"
#include "kernels/scope.h"

namespace npu::ge {
namespace {

// A product of fewer rows spends its time on packing the right operand, which each core does for itself.
constexpr int64_t kFewestRows = 16;
// Less is done before a second core has woken up.
constexpr int64_t kFewestMultiplications = 1 << 18;

/// Steps whose outputs are all cut, and the program of one piece of them.
struct Segment {
    std::shared_ptr<Program> body = std::make_shared<Program>();
    std::vector<int> steps;
    std::map<int, int> cuts;                             ///< values made inside, and the dimension
    std::map<int, int> inside;                           ///< the same, and the body's value
    std::vector<std::pair<int, int>> outside;            ///< values read and the dimension, or kWhole
    std::map<std::pair<int, int>, int> outside_numbers;  ///< the same, and the body's value
    std::set<int> roots;                                 ///< values inside that own memory
    std::vector<int> views_after;  ///< views on them that no piece can make: for whoever is outside
    int64_t multiplications = 0;
};

class Splitter {
  public:
    Splitter(Program& program, int64_t pieces) : program_(program), pieces_(pieces) {
        for (int i = 0; i < static_cast<int>(program_.steps.size()); ++i)
            for (const int input : program_.steps[i].inputs)
                if (input >= 0) readers_[value(input).root].push_back(i);
        for (const int result : program_.results)
            readers_[value(result).root].push_back(static_cast<int>(program_.steps.size()));
    }

    void run() {
        for (int i = 0; i < static_cast<int>(program_.steps.size()); ++i) place(i);
        while (!open_.empty()) close(open_.front());
        program_.steps = std::move(done_);
    }

  private:
    const Value& value(int number) const { return program_.values[number]; }

    /// Open segments never read each other's values: a step that reads those of several closes all but its
    /// home.
    void place(int number) {
        const Step& step = program_.steps[number];
        while (step.writes_input && !open_.empty()) close(open_.front());
        std::vector<Segment*> read;
        for (Segment& segment : open_)
            if (reads(segment, step)) read.push_back(&segment);
        for (auto home = read.rbegin(); home != read.rend(); ++home) {
            if (!join(**home, number)) continue;
            for (Segment* other : read)
                if (other != *home) close(*other);
            return;
        }
        if (step.kind == Kind::view && read.size() == 1) return read.front()->views_after.push_back(number);
        for (Segment* segment : read) close(*segment);
        open_.emplace_back();
        if (step.kind == Kind::row && join(open_.back(), number)) return;
        open_.pop_back();
        done_.push_back(step);
    }

    bool reads(const Segment& segment, const Step& step) const {
        return std::ranges::any_of(
            step.inputs, [&](int input) { return input >= 0 && segment.roots.contains(value(input).root); });
    }

    /// Adds the step, cut along the first dimension that fits what the segment has.
    bool join(Segment& segment, int number) {
        const Step& step = program_.steps[number];
        if (step.outputs.empty()) return false;
        const std::size_t rank = value(step.outputs[0]).type.dims.size();
        for (std::size_t dim = 0; dim < rank; ++dim) {
            const auto needed = cut_inputs(program_, step, static_cast<int>(dim));
            if (needed && divides(step, *needed, dim) && agrees(segment, step, *needed) &&
                append(segment, number, *needed, static_cast<int>(dim)))
                return true;
        }
        return false;
    }

    /// Whether outputs and inputs have equal pieces, not too small ones of products.
    bool divides(const Step& step, const std::vector<int>& needed, std::size_t dim) const {
        const auto cut = [&](int number, std::size_t along) {
            const auto& dims = value(number).type.dims;
            return along < dims.size() && value(number).type.elements() > 0 && dims[along] % pieces_ == 0;
        };
        for (const int output : step.outputs)
            if (!cut(output, dim)) return false;
        bool any = false;
        for (std::size_t i = 0; i < needed.size(); ++i) {
            if (needed[i] == kWhole) continue;
            if (!cut(step.inputs[i], needed[i])) return false;
            any = true;
        }
        if (!any) return false;
        const auto& dims = value(step.outputs[0]).type.dims;
        const bool rows = multiplications(program_, step) > 0 && dim + 2 == dims.size();
        return !rows || dims[dim] / pieces_ >= kFewestRows;
    }

    /// Whether what the segment makes is read as the piece of it that is there.
    bool agrees(const Segment& segment, const Step& step, const std::vector<int>& needed) const {
        for (std::size_t i = 0; i < needed.size(); ++i) {
            const int input = step.inputs[i];
            if (input < 0) continue;
            const auto made = segment.cuts.find(input);
            if (made != segment.cuts.end() ? made->second != needed[i]
                                           : segment.roots.contains(value(input).root))
                return false;
        }
        return true;
    }

    TensorType piece(int number, int dim) const {
        TensorType type = value(number).type;
        if (dim != kWhole) type.dims[dim] /= pieces_;
        return type;
    }

    bool append(Segment& segment, int number, const std::vector<int>& needed, int dim) {
        const Step& step = program_.steps[number];
        if (step.kind == Kind::view && !segment.cuts.contains(step.inputs[0])) return false;
        Step copy = step;
        for (std::size_t i = 0; i < needed.size(); ++i)
            if (step.inputs[i] >= 0) copy.inputs[i] = body_input(segment, step.inputs[i], needed[i]);
        if (!(step.kind == Kind::view ? add_views(segment, copy, dim) : add_outputs(segment, copy, dim)))
            return false;
        for (std::size_t i = 0; i < step.outputs.size(); ++i) {
            segment.cuts[step.outputs[i]] = dim;
            segment.inside[step.outputs[i]] = copy.outputs[i];
            if (step.kind != Kind::view) segment.roots.insert(step.outputs[i]);
        }
        segment.steps.push_back(number);
        segment.body->steps.push_back(std::move(copy));
        segment.multiplications += multiplications(program_, step);
        return true;
    }

    int body_input(Segment& segment, int number, int dim) const {
        const auto made = segment.inside.find(number);
        if (made != segment.inside.end()) return made->second;
        const auto known = segment.outside_numbers.find({number, dim});
        if (known != segment.outside_numbers.end()) return known->second;
        Value input{piece(number, dim), Place::input};
        input.strides = value(number).strides;
        input.name = value(number).name;
        if (dim == kWhole && value(number).constant.defined()) {
            input.place = Place::constant;
            input.constant = value(number).constant;
        } else {
            input.index = static_cast<int>(segment.outside.size());
            segment.outside.emplace_back(number, dim);
        }
        const int own = add_value(*segment.body, std::move(input));
        if (segment.body->values[own].place == Place::input) segment.body->inputs.push_back(own);
        return segment.outside_numbers[{number, dim}] = own;
    }

    bool add_outputs(Segment& segment, Step& copy, int dim) const {
        for (int& output : copy.outputs) {
            Value made{piece(output, dim)};
            made.name = value(output).name;
            output = add_value(*segment.body, std::move(made));
        }
        return true;
    }

    /// False: a piece needs a copy where the whole did not.
    bool add_views(Segment& segment, Step& copy, int dim) const {
        std::vector<at::Tensor> inputs;
        for (const int input : copy.inputs) {
            const Value& known = input < 0 ? Value{} : segment.body->values[input];
            inputs.push_back(input < 0                  ? at::Tensor()
                             : known.constant.defined() ? known.constant
                                                        : shape_of(known));
        }
        std::vector<graph::Inferred> types;
        for (const int output : copy.outputs) types.push_back({piece(output, dim), {}});
        const auto views = make_views(copy, inputs, types);
        if (!views) return false;
        const Value source = segment.body->values[copy.inputs[0]];
        for (std::size_t i = 0; i < views->size(); ++i) {
            Value view{types[i].type, source.place, source.root};
            view.strides = (*views)[i].strides().vec();
            view.offset = (*views)[i].storage_offset();
            view.index = source.index;
            view.name = value(copy.outputs[i]).name;
            copy.outputs[i] = add_value(*segment.body, std::move(view));
        }
        return true;
    }

    void close(Segment& segment) {
        if (segment.multiplications >= kFewestMultiplications && segment.steps.size() > 1) {
            done_.push_back(make_step(segment));
        } else {
            for (const int number : segment.steps) done_.push_back(program_.steps[number]);
        }
        for (const int number : segment.views_after) done_.push_back(program_.steps[number]);
        open_.remove_if([&](const Segment& other) { return &other == &segment; });
    }

    Step make_step(const Segment& segment) const {
        Step step;
        step.kind = Kind::split;
        step.node =
            program_.steps[segment.steps.front()].node + " to " + program_.steps[segment.steps.back()].node;
        step.pieces = pieces_;
        for (const auto& [number, dim] : segment.outside) {
            step.inputs.push_back(number);
            step.input_cuts.push_back(dim);
        }
        for (const int root : segment.roots) {
            if (!escapes(segment, root)) continue;
            step.outputs.push_back(root);
            step.output_cuts.push_back(segment.cuts.at(root));
            segment.body->results.push_back(segment.inside.at(root));
        }
        step.bodies = {segment.body};
        return step;
    }

    /// Whether somebody outside reads the value or a view on it.
    bool escapes(const Segment& segment, int root) const {
        const auto found = readers_.find(root);
        return found != readers_.end() && std::ranges::any_of(found->second, [&](int reader) {
                   return !std::ranges::binary_search(segment.steps, reader);
               });
    }

    Program& program_;
    const int64_t pieces_;
    std::map<int, std::vector<int>> readers_;  ///< by root; the number of steps for a result
    std::list<Segment> open_;
    std::vector<Step> done_;
};

at::Tensor cut(const at::Tensor& whole, int dim, int64_t piece, int64_t pieces) {
    if (dim == kWhole) return whole;
    const int64_t size = whole.size(dim) / pieces;
    return whole.narrow(dim, piece * size, size);
}

}  // namespace

void split(Program& program, int64_t cores) {
    if (program.is_static && cores > 1) Splitter(program, cores).run();
}

void add_scratch(Program& program, Step& step) {
    const auto bytes = static_cast<int64_t>(step.bodies.front()->workspace) * step.pieces;
    Value scratch{{ACL_UINT8, {bytes}}};
    scratch.name = step.node + ":scratch";
    step.outputs.push_back(add_value(program, std::move(scratch)));
}

std::function<void()> bind_split(const Step& step, const std::vector<at::Tensor>& inputs,
                                 const std::vector<at::Tensor>& outputs) {
    using Piece = std::vector<std::function<void()>>;
    const Program& body = *step.bodies.front();
    auto* const scratch = static_cast<std::byte*>(outputs.back().data_ptr());
    std::vector<Piece> pieces;
    for (int64_t i = 0; i < step.pieces; ++i) {
        std::vector<at::Tensor> sources, targets;
        for (std::size_t k = 0; k < inputs.size(); ++k)
            sources.push_back(cut(inputs[k], step.input_cuts[k], i, step.pieces));
        for (std::size_t k = 0; k < step.output_cuts.size(); ++k)
            targets.push_back(cut(outputs[k], step.output_cuts[k], i, step.pieces));
        pieces.push_back(
            std::move(ge::bind(body, sources, targets, scratch + i * static_cast<int64_t>(body.workspace))
                          .front()
                          .commands));
    }
    return [pieces = std::make_shared<const std::vector<Piece>>(std::move(pieces))] {
        at::parallel_for(0, static_cast<int64_t>(pieces->size()), 1, [&](int64_t begin, int64_t end) {
            const emulator::AtenScope scope;
            for (int64_t i = begin; i < end; ++i)
                for (const auto& command : (*pieces)[i]) command();
        });
    };
}

}  // namespace npu::ge

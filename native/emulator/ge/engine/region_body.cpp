#include "ge/engine/region_body.h"

#include <algorithm>

#include "ge/engine/fuse.h"

namespace npu::ge {
namespace {

class Maker {
  public:
    Maker(const Program& program, const Region& region, const Axes& axes,
          const std::map<int, Layout>& layouts, const Readers& readers)
        : program_(program), region_(region), axes_(axes), layouts_(layouts), readers_(readers) {
        fused_.kind = Kind::fused;
        for (const int axis : axes.now(region.axes)) {
            places_[axis] = static_cast<int>(fused_.domain.size());
            fused_.domain.push_back(axes.size(axis));
        }
        fused_.rows = fused_.domain.size() - axes.now(region.whole).size();
    }

    Step run() {
        for (const int number : region_.steps) add(number);
        fused_.bodies = {body_};
        return std::move(fused_);
    }

  private:
    void add(int number) {
        const Step& step = program_.steps[number];
        Step copy = step;
        const Layout out = placed(layouts_.at(step.outputs[0]));
        const auto reduced = region_.inputs_of_reductions.find(number);
        for (std::size_t i = 0; i < copy.inputs.size(); ++i) {
            if (step.inputs[i] < 0) continue;
            if (reduced == region_.inputs_of_reductions.end()) {
                copy.inputs[i] = input(step.inputs[i], broadcast(out, step));
            } else {  // what names the axes is of no use where they are others
                copy.inputs[i] = i == 0 ? input(step.inputs[i], placed(reduced->second)) : -1;
            }
        }
        copy.outputs = {output(step.outputs[0], out)};
        fused_.node += (fused_.node.empty() ? "" : "+") + step.node;
        body_->steps.push_back(std::move(copy));
    }

    /// A dimension's axes as places in the domain.
    Layout placed(const Layout& layout) const {
        Layout places = axes_.now(layout);
        for (auto& axes : places)
            for (int& axis : axes) axis = places_.at(axis);
        return places;
    }

    /// Where an input of a pointwise step lies, by NumPy's broadcasting.
    std::function<Layout(int)> broadcast(const Layout& out, const Step& step) const {
        return [&out, &step, this](int number) {
            const auto& dims = program_.values[number].type.dims;
            const auto& sizes = program_.values[step.outputs[0]].type.dims;
            Layout layout(dims.size());
            const std::size_t shift = sizes.size() - dims.size();
            for (std::size_t i = 0; i < dims.size(); ++i)
                if (dims[i] != 1) layout[i] = out[shift + i];
            return layout;
        };
    }

    int input(int number, const std::function<Layout(int)>& layout_of) {
        const auto made = members_.find(program_.values[number].root);
        return made != members_.end() ? made->second : input(number, layout_of(number));
    }

    int input(int number, const Layout& layout) {
        const auto made = members_.find(program_.values[number].root);
        if (made != members_.end()) return made->second;
        const auto [known, added] = outside_.try_emplace({number, layout}, 0);
        if (!added) return known->second;
        Value value{type(number, layout), Place::input};
        value.index = static_cast<int>(fused_.inputs.size());
        value.name = program_.values[number].name;
        known->second = add_value(*body_, std::move(value));
        body_->inputs.push_back(known->second);
        fused_.inputs.push_back(number);
        fused_.input_axes.push_back(layout);
        return known->second;
    }

    int output(int number, const Layout& layout) {
        Value value{type(number, layout)};
        value.name = program_.values[number].name;
        const int made = members_[number] = add_value(*body_, std::move(value));
        if (escapes(number)) {
            body_->results.push_back(made);
            fused_.outputs.push_back(number);
            fused_.output_axes.push_back(layout);
        }
        return made;
    }

    TensorType type(int number, const Layout& layout) const {
        TensorType found{program_.values[number].type.dtype, std::vector<int64_t>(fused_.domain.size(), 1)};
        for (const auto& axes : layout)
            for (const int axis : axes) found.dims[axis] = fused_.domain[axis];
        return found;
    }

    /// Whether somebody outside needs the value.
    bool escapes(int number) const {
        const auto found = readers_.find(number);
        return found != readers_.end() && std::ranges::any_of(found->second, [&](int reader) {
                   return !std::ranges::binary_search(region_.steps, reader);
               });
    }

    const Program& program_;
    const Region& region_;
    const Axes& axes_;
    const std::map<int, Layout>& layouts_;
    const Readers& readers_;
    Step fused_;
    std::shared_ptr<Program> body_ = std::make_shared<Program>();
    std::map<int, int> places_;                      ///< of axes in the domain
    std::map<int, int> members_;                     ///< the program's value and the body's
    std::map<std::pair<int, Layout>, int> outside_;  ///< the same, by where it lies
};

}  // namespace

Readers readers_of(const Program& program) {
    Readers readers;
    const int steps = static_cast<int>(program.steps.size());
    for (int i = 0; i < steps; ++i) {
        if (program.steps[i].kind == Kind::view) continue;  // whoever reads what it shows counts
        for (const int input : program.steps[i].inputs)
            if (input >= 0) readers[program.values[input].root].push_back(i);
    }
    for (const int result : program.results) readers[program.values[result].root].push_back(steps);
    return readers;
}

Step region_step(const Program& program, const Region& region, const Axes& axes,
                 const std::map<int, Layout>& layouts, const Readers& readers) {
    return Maker(program, region, axes, layouts, readers).run();
}

}  // namespace npu::ge

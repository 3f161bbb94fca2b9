#include "cann/model_builder.h"

#include <cstdlib>
#include <mutex>

#include "cann/api.h"
#include "cann/ge.h"
#include "cann/runtime.h"

// The functions of ge.h under CANN's mangled names (facts/ge_build.json), bound at their first call. `this`
// of a member function is its first argument in the Itanium ABI.
namespace npu::cann {
namespace {

#define NPU_MAP "St3mapINS_12AscendStringE"
constinit Function<void(ge::AscendString*, const char*)> make_string{Part::graph,
                                                                     "_ZN2ge12AscendStringC1EPKc"};
constinit Function<const char*(const ge::AscendString*)> text_of{Part::graph,
                                                                 "_ZNK2ge12AscendString9GetStringEv"};
constinit Function<bool(const ge::AscendString*, const ge::AscendString*)> less{
    Part::graph, "_ZNK2ge12AscendStringltERKS0_"};
constinit Function<void(ge::Graph*, const char*)> make_graph{Part::graph, "_ZN2ge5GraphC1EPKc"};
constinit Function<void(ge::Graph*)> destroy_graph{Part::graph, "_ZN2ge5GraphD1Ev"};
constinit Function<ge::graphStatus(ge::Graph*, const uint8_t*, std::size_t)> load_graph{
    Part::graph, "_ZN2ge5Graph11LoadFromMemEPKhm"};
constinit Function<ge::graphStatus(ge::Options&)> initialise{
    Part::graph, "_ZN2ge22aclgrphBuildInitializeER" NPU_MAP "S1_St4lessIS1_ESaISt4pairIKS1_S1_EEE"};
constinit Function<void()> finalise{Part::graph, "_ZN2ge20aclgrphBuildFinalizeEv"};
constinit Function<ge::graphStatus(const ge::Graph&, const ge::Options&, ge::ModelBufferData&)> build{
    Part::graph, "_ZN2ge17aclgrphBuildModelERKNS_5GraphERK" NPU_MAP
                 "S4_St4lessIS4_ESaISt4pairIKS4_S4_EEERNS_"
                 "15ModelBufferDataE"};
constinit Function<ge::AscendString()> last_message{Part::graph, "_ZN2ge15GEGetErrorMsgV3Ev"};
#undef NPU_MAP

}  // namespace
}  // namespace npu::cann

// What the options' map needs of AscendString, forwarded: nothing of ours links to CANN.
namespace ge {

AscendString::AscendString(const char* text) {
    std::destroy_at(&name_);  // CANN's constructor makes it
    npu::cann::make_string(this, text);
}
bool AscendString::operator<(const AscendString& other) const { return npu::cann::less(this, &other); }

}  // namespace ge

namespace npu::cann {
namespace {

// Never destroyed: other threads may build while the process ends.
struct Compiler {
    std::mutex mutex;
    bool started = false;
};

Compiler& compiler() {
    static auto* one = new Compiler;
    return *one;
}

void check_graph(ge::graphStatus status, const char* call, const std::string& doing) {
    check(Family::graph, status, call, doing);
}

ge::Options as_options(const BuildOptions& options) {
    ge::Options made;
    for (const auto& [name, value] : options)
        made.emplace(ge::AscendString(name.c_str()), ge::AscendString(value.c_str()));
    return made;
}

// ge::Graph is made and ended by CANN.
class LoadedGraph {
  public:
    LoadedGraph(std::span<const std::byte> bytes, const std::string& name) {
        make_graph(get(), name.c_str());
        const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
        const ge::graphStatus status = load_graph(get(), data, bytes.size());
        if (status == 0) return;
        const Error error(Family::graph, status, "Graph::LoadFromMem", "reading the graph '" + name + "'");
        destroy_graph(get());
        throw error;
    }
    ~LoadedGraph() { destroy_graph(get()); }
    LoadedGraph(const LoadedGraph&) = delete;
    LoadedGraph& operator=(const LoadedGraph&) = delete;

    ge::Graph* get() { return reinterpret_cast<ge::Graph*>(memory_); }

  private:
    alignas(ge::Graph) std::byte memory_[sizeof(ge::Graph)];
};

// A variable of the environment for as long as this lives.
class Setting {
  public:
    Setting(const char* name, const std::optional<std::string>& value) : name_(value ? name : nullptr) {
        if (name_ == nullptr) return;
        if (const char* held = std::getenv(name_)) before_ = held;
        setenv(name_, value->c_str(), 1);
    }
    ~Setting() {
        if (name_ == nullptr) return;
        if (before_)
            setenv(name_, before_->c_str(), 1);
        else
            unsetenv(name_);
    }
    Setting(const Setting&) = delete;
    Setting& operator=(const Setting&) = delete;

  private:
    const char* name_;
    std::optional<std::string> before_;
};

void start(Compiler& compiler) {
    if (compiler.started) return;
    ge::Options options = as_options({{"ge.socVersion", soc_name()}});
    check_graph(initialise(options), "aclgrphBuildInitialize", "starting the graph engine's compiler");
    compiler.started = true;
}

}  // namespace

std::string build_model(std::span<const std::byte> graph, const std::string& name,
                        const BuildOptions& options, const std::optional<std::string>& autofuse_flags) {
    std::lock_guard lock(compiler().mutex);
    start(compiler());
    const Setting flags("AUTOFUSE_FLAGS", autofuse_flags);
    LoadedGraph loaded(graph, name);
    ge::ModelBufferData model;
    check_graph(build(*loaded.get(), as_options(options), model), "aclgrphBuildModel",
                "compiling the graph '" + name + "'");
    return {reinterpret_cast<const char*>(model.data.get()), model.length};
}

void finish_building() noexcept {
    std::lock_guard lock(compiler().mutex);
    if (!compiler().started) return;
    compiler().started = false;
    try {
        finalise();
    } catch (const SymbolError&) {  // it was started without one
    }
}

std::string graph_message() {
    try {
        const ge::AscendString message = last_message();
        const char* text = text_of(&message);
        return text == nullptr ? "" : text;
    } catch (const SymbolError&) {
        return "";
    }
}

}  // namespace npu::cann

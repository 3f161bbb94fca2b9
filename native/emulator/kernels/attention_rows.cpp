// The versions of FlashAttentionScore that torch_npu calls, over attention.h. A version differs from the
// others in the parameters that it adds; what the emulator does not compute (sinks, rope start indices,
// dequantisation) is refused by name.
#include "kernels/attention.h"

namespace npu::emulator {
namespace {

void refuse(const NamedArgs& args, const char* parameter) {
    TORCH_CHECK(!args.present(parameter), parameter, " is not implemented by the host emulator");
}

AttentionOptions options_of(const NamedArgs& args) {
    for (auto* parameter : {"paddingMaskOptional", "sinkOptional", "sinkInOptional"}) refuse(args, parameter);
    // Where the statistics of a packed call go: as [T, N, 8], whether or not it is said.
    for (auto* parameter : {"softmaxOutLayout", "softmaxInLayout"}) {
        const auto layout = args.get<std::string>(parameter, "");
        TORCH_CHECK(layout.empty() || layout == "same_as_input" || layout == "TND", parameter, " = ", layout,
                    " is not implemented by the host emulator");
    }
    AttentionOptions options;
    options.scale = args.get<double>("scaleValue");
    options.keep_prob = args.get<double>("keepProb");
    options.pre_tokens = args.get<int64_t>("preTokens");
    options.next_tokens = args.get<int64_t>("nextTokens");
    options.heads = args.get<int64_t>("headNum");
    options.layout = args.get<std::string>("inputLayout");
    options.sparse_mode = args.get<int64_t>("sparseMode");
    options.pse_type = args.get<int64_t>("pseType", 1);
    options.prefix = args.get<IntArrayRef>("prefixOptional").vec();
    options.q_ends = args.get<IntArrayRef>("actualSeqQLenOptional", {}).vec();
    options.kv_ends = args.get<IntArrayRef>("actualSeqKvLenOptional", {}).vec();
    return options;
}

const Table forward{
    {"aclnnFlashAttentionScore", "aclnnFlashAttentionScoreV2", "aclnnFlashAttentionScoreV3",
     "aclnnFlashAttentionVarLenScore", "aclnnFlashAttentionVarLenScoreV2", "aclnnFlashAttentionVarLenScoreV3",
     "aclnnFlashAttentionVarLenScoreV4", "aclnnFlashAttentionVarLenScoreV5"},
    [](const NamedArgs& args) {
        const AttentionInputs in{args.get<Tensor>("query"),        args.get<Tensor>("key"),
                                 args.get<Tensor>("value"),        args.present("queryRope"),
                                 args.present("keyRope"),          args.present("realShiftOptional"),
                                 args.present("dropMaskOptional"), args.present("attenMaskOptional")};
        attention_forward(in, options_of(args), args.get<Tensor>("softmaxMaxOut"),
                          args.get<Tensor>("softmaxSumOut"), args.get<Tensor>("attentionOutOut"));
    }};

const Table backward{
    {"aclnnFlashAttentionScoreGrad", "aclnnFlashAttentionScoreGradV2", "aclnnFlashAttentionScoreGradV3",
     "aclnnFlashAttentionUnpaddingScoreGrad", "aclnnFlashAttentionUnpaddingScoreGradV2",
     "aclnnFlashAttentionUnpaddingScoreGradV3", "aclnnFlashAttentionUnpaddingScoreGradV4",
     "aclnnFlashAttentionUnpaddingScoreGradV5"},
    [](const NamedArgs& args) {
        const AttentionInputs in{args.get<Tensor>("query"),        args.get<Tensor>("keyIn"),
                                 args.get<Tensor>("value"),        args.present("queryRope"),
                                 args.present("keyInRope"),        args.present("pseShiftOptional"),
                                 args.present("dropMaskOptional"), args.present("attenMaskOptional")};
        const AttentionGradients gradients{args.get<Tensor>("dqOut"), args.get<Tensor>("dkOut"),
                                           args.get<Tensor>("dvOut"), args.present("dqRopeOut"),
                                           args.present("dkRopeOut"), args.present("dpseOut")};
        attention_backward(in, options_of(args), args.get<Tensor>("dy"),
                           args.get<Tensor>("softmaxMaxOptional"), args.get<Tensor>("softmaxSumOptional"),
                           args.get<Tensor>("attentionInOptional"), gradients);
    }};

}  // namespace
}  // namespace npu::emulator

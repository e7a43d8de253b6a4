#include <torch/library.h>

/// The schemas of torch.ops.tconv3d. Each kernel file registers its own implementations.
///
/// Tensors are 5-D (N, C, D, H, W); weight is (C_in, C_out / groups, kD, kH, kW). `epilogue` is the text of an
/// Epilogue and `operands` its tensors, in the order of its steps. An epilogue without tensors has an overload of its
/// own: AOTInductor cannot pass an empty list of tensors, nor return a list of them.
TORCH_LIBRARY(tconv3d, m) {
    m.def("fwd(Tensor src, Tensor weight, Tensor? bias, int[3] stride, int[3] padding, int[3] output_padding, "
          "int groups, int[3] dilation, str epilogue) -> Tensor");
    m.def("fwd.operands(Tensor src, Tensor weight, Tensor? bias, int[3] stride, int[3] padding, "
          "int[3] output_padding, int groups, int[3] dilation, str epilogue, Tensor[] operands) -> Tensor");
    // `saved` is the preactivation where the epilogue's backward asks for it, otherwise it has no elements.
    m.def("fwd_saved(Tensor src, Tensor weight, Tensor? bias, int[3] stride, int[3] padding, int[3] output_padding, "
          "int groups, int[3] dilation, str epilogue) -> (Tensor dst, Tensor saved)");
    m.def("fwd_saved.operands(Tensor src, Tensor weight, Tensor? bias, int[3] stride, int[3] padding, "
          "int[3] output_padding, int groups, int[3] dilation, str epilogue, Tensor[] operands) "
          "-> (Tensor dst, Tensor saved)");
    m.def("bwd_data(Tensor grad_dst, Tensor weight, int[3] stride, int[3] padding, int[3] output_padding, "
          "int groups, int[3] dilation) -> Tensor");
    // `grad_bias` has no elements unless it is asked for.
    m.def("bwd_weight(Tensor src, Tensor grad_dst, SymInt[3] kernel, int[3] stride, int[3] padding, "
          "int[3] output_padding, int groups, int[3] dilation, bool with_bias) "
          "-> (Tensor grad_weight, Tensor grad_bias)");
    // `saved` is dst or the preactivation, as fwd_saved and Epilogue::saved() say; grad_bias as above.
    m.def("epilogue_bwd(Tensor grad_dst, Tensor saved, str epilogue, bool with_bias=False) "
          "-> (Tensor grad_preactivation, Tensor grad_bias)");
    m.def("epilogue_bwd.operands(Tensor grad_dst, Tensor saved, str epilogue, Tensor[] operands, bool with_bias=False) "
          "-> (Tensor grad_preactivation, Tensor[] grad_operands, Tensor grad_bias)");

    m.def("explain(str problem, str epilogue) -> str");
    m.def("machine() -> str");
    m.def("problem_facts(str problem) -> str");

    m.def("cuda_candidates(str problem, str epilogue, int device) -> str");
    m.def("cuda_explain(str problem, str epilogue, int device) -> str");
    m.def("cuda_remember(str problem, int device, str implementation, str variant) -> ()");
    // For a model of a GPU, which needs none: `h200` or `sm_90`; with this many multiprocessors, or its own for 0.
    m.def("cuda_model(str gpu, int multiprocessors) -> str");
    m.def("cuda_model_compile(str problem, str epilogue, str gpu, int multiprocessors) -> ()");
    m.def("cuda_model_explain(str problem, str epilogue, str gpu, int multiprocessors) -> str");
    // Initialises the CUDA driver, which the other ops do only for tensors on a GPU.
    m.def("cuda_machine() -> str");
    // Where PyTorch's packages keep NVRTC, best first.
    m.def("set_nvrtc_folders(str[] folders) -> ()");
}

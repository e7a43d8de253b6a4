#pragma once

#include "cuda/runtime/driver.hpp"

namespace tconv3d::cuda {

/// The context that PyTorch and the CUDA runtime share on this device. Kept until the process ends.
Context primary_context(const Device& device);

/// Makes a context current for a scope; free of cost when it already is, as it is under PyTorch.
class ContextScope {
public:
    explicit ContextScope(Context context);
    ~ContextScope();
    ContextScope(const ContextScope&) = delete;
    ContextScope& operator=(const ContextScope&) = delete;

private:
    bool pushed_;
};

/// Whether work on the stream is being recorded into a graph.
bool is_capturing(Stream stream);

} // namespace tconv3d::cuda

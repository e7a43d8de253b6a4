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

/// Lets the thread do for a scope what a graph does not record, such as loading a module. While another thread captures
/// a graph the driver would refuse it, and that capture would fail.
class UnrecordedScope {
public:
    UnrecordedScope();
    ~UnrecordedScope();
    UnrecordedScope(const UnrecordedScope&) = delete;
    UnrecordedScope& operator=(const UnrecordedScope&) = delete;

private:
    int mode_; ///< the thread's, to be given back
};

/// Whether work on the stream is being recorded into a graph.
bool is_capturing(Stream stream);

} // namespace tconv3d::cuda

#pragma once

#include "tconv3d/executor.hpp"

namespace tconv3d::ops {

/// Lends PyTorch's intra-op threads (torch.set_num_threads) to the core. Inside a parallel region there is one worker.
class TorchExecutor final : public Executor {
public:
    TorchExecutor();
    int workers() const override { return workers_; }
    void run(int64_t tasks, const std::function<void(int64_t task, int worker)>& body) override;

private:
    int workers_;
};

} // namespace tconv3d::ops

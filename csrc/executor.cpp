#include "executor.hpp"

#include <algorithm>
#include <atomic>

#include <ATen/Config.h>
#include <ATen/Parallel.h>

#if AT_PARALLEL_OPENMP && !defined(_OPENMP)
#error "at::parallel_for is a template that runs serially unless its user is compiled with OpenMP (-fopenmp)"
#endif

namespace tconv3d::ops {

TorchExecutor::TorchExecutor() : workers_(at::in_parallel_region() ? 1 : std::max(1, at::get_num_threads())) {}

void TorchExecutor::run(int64_t tasks, const std::function<void(int64_t, int)>& body) {
    const int64_t crew = std::min<int64_t>(tasks, workers_);
    if (crew <= 1) {
        for (int64_t task = 0; task < tasks; ++task) body(task, 0);
        return;
    }
    // Tasks differ in cost: each worker takes the next one when it is done with its last.
    std::atomic<int64_t> next{0};
    at::parallel_for(0, crew, 1, [&](int64_t first, int64_t last) {
        for (int64_t worker = first; worker < last; ++worker)
            for (int64_t task = next++; task < tasks; task = next++) body(task, static_cast<int>(worker));
    });
}

} // namespace tconv3d::ops

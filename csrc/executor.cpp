#include "executor.hpp"

#include <algorithm>
#include <atomic>

#include <ATen/Config.h>
#include <ATen/Parallel.h>

#include "core/task_queue.hpp"

#if AT_PARALLEL_OPENMP
// What GCC makes of `#pragma omp parallel`. libgomp defines it, and so do LLVM's and Intel's libraries, for objects of
// GCC: so PyTorch's pool of threads serves the objects of every compiler. Compiled with OpenMP, those of Clang would
// need LLVM's library, a second pool beside PyTorch's.
extern "C" void GOMP_parallel(void (*body)(void*), void* data, unsigned threads, unsigned flags);
#endif

namespace tconv3d::ops {

namespace {

/// The threads that work on a queue, numbered as they arrive.
class Crew {
public:
    Crew(TaskQueue& queue, int size) : queue_(queue), size_(size) {}

    void join() {
        const int worker = arrived_.fetch_add(1);
        if (worker < size_) queue_.work(worker);
    }

private:
    TaskQueue& queue_;
    const int size_;
    std::atomic<int> arrived_{0};
};

/// On all of PyTorch's threads. To ask for fewer would make libgomp end threads and start others at the next call.
void join_everywhere(Crew& crew) {
#if AT_PARALLEL_OPENMP
    GOMP_parallel([](void* data) { static_cast<Crew*>(data)->join(); }, &crew, 0, 0);
#else
    at::parallel_for(0, at::get_num_threads(), 1, [&](int64_t, int64_t) { crew.join(); });
#endif
}

} // namespace

TorchExecutor::TorchExecutor() : workers_(at::in_parallel_region() ? 1 : std::max(1, at::get_num_threads())) {}

void TorchExecutor::run(int64_t tasks, const std::function<void(int64_t, int)>& body) {
    const auto needed = static_cast<int>(std::min<int64_t>(tasks, workers_));
    if (needed <= 1) {
        for (int64_t task = 0; task < tasks; ++task) body(task, 0);
        return;
    }
    TaskQueue queue(tasks, body);
    Crew crew(queue, needed);
    join_everywhere(crew);
    queue.rethrow();
}

} // namespace tconv3d::ops

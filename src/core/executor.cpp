#include "tconv3d/executor.hpp"

#include <algorithm>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "core/task_queue.hpp"
#include "tconv3d/error.hpp"

namespace tconv3d {

void SerialExecutor::run(int64_t tasks, const std::function<void(int64_t, int)>& body) {
    for (int64_t task = 0; task < tasks; ++task) body(task, 0);
}

ThreadExecutor::ThreadExecutor(int threads) : threads_(threads) {
    if (threads < 0) throw Error("threads must be 0 or more, got " + std::to_string(threads));
    if (threads == 0) threads_ = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

void ThreadExecutor::run(int64_t tasks, const std::function<void(int64_t, int)>& body) {
    TaskQueue queue(tasks, body);
    std::vector<std::thread> helpers;
    const int needed = static_cast<int>(std::min<int64_t>(threads_, tasks));
    helpers.reserve(static_cast<size_t>(std::max(needed, 0)));
    try {
        for (int worker = 1; worker < needed; ++worker) helpers.emplace_back([&queue, worker] { queue.work(worker); });
    } catch (const std::system_error&) {
        // The system has no more threads to give: those that started, and this one, do all the tasks.
    }
    queue.work(0);
    for (std::thread& helper : helpers) helper.join();
    queue.rethrow();
}

} // namespace tconv3d
